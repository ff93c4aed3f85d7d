// Command clients runs the client matrix: it starts three nodes on loopback, lets every Kafka client on this machine
// write and read records in every codec it has, runs Kafka's own tools, prints one table and exits with 1 if anything is
// amiss, a client that is not installed included (unless -skip-absent is given).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/IBM/sarama"

	"cordwood/integration/harness"
)

type options struct {
	binary, kafka, python, kafkajs, confluent string
	only                                      string
	count                                     int
	skipAbsent                                bool
	limit                                     time.Duration
}

func main() {
	var opt options
	flag.StringVar(&opt.binary, "binary", "../../bin/cordwood", "the binary under test")
	flag.StringVar(&opt.kafka, "kafka", "../kafka/kafka.sh", "the script that runs Kafka's tools; empty: not installed")
	flag.StringVar(&opt.python, "python", "", "the Python that has confluent-kafka; empty: not installed")
	flag.StringVar(&opt.kafkajs, "kafkajs", "", "a copy of kafkajs/client.js with its packages beside it; empty: not installed")
	flag.StringVar(&opt.confluent, "confluent", "", "the program built from confluent/; empty: not installed")
	flag.StringVar(&opt.only, "only", "", "run only clients whose name contains one of these words, separated by commas")
	flag.IntVar(&opt.count, "count", 10_000, "records in each round")
	flag.BoolVar(&opt.skipAbsent, "skip-absent", false, "do not fail for clients that are not installed")
	flag.DurationVar(&opt.limit, "limit", 2*time.Minute, "bound of each step of a round")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := opt.run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func (opt options) run(ctx context.Context) (ok bool, err error) {
	binary, err := filepath.Abs(opt.binary)
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "cordwood-clients-")
	if err != nil {
		return false, err
	}
	cluster, err := harness.New(harness.Options{Binary: binary, Nodes: 3, Dir: dir})
	if err != nil {
		return false, err
	}
	defer func() {
		err = errors.Join(err, cluster.Close())
		if ok && err == nil {
			err = os.RemoveAll(dir)
		} else {
			fmt.Fprintln(os.Stderr, "the nodes' logs are kept in", dir)
		}
	}()
	if err := errors.Join(cluster.Start(), cluster.WaitReady(ctx, 60*time.Second)); err != nil {
		return false, err
	}
	table := &Table{}
	for _, c := range opt.clients() {
		if !opt.wanted(c.Name()) {
			continue
		}
		table.Rows = append(table.Rows, opt.client(ctx, c, cluster.Bootstrap()))
	}
	if tools := (kafkaTools{opt.kafka}); opt.wanted("Kafka's tools") {
		table.Tools = tools.all(ctx, cluster.Bootstrap(), dir, opt.limit)
	}
	table.Write(os.Stdout)
	return table.OK(opt.skipAbsent), ctx.Err()
}

func (opt options) clients() []Client {
	return []Client{
		kcat{}, franz{},
		saramaClient{"sarama", sarama.DefaultVersion}, saramaClient{"sarama (newest protocol)", sarama.MaxVersion},
		kafkaGo{}, kafkaGoConn{},
		console{kafkaTools{opt.kafka}},
		script{name: "confluent-kafka-go", command: words(opt.confluent), traits: Traits{Codecs: Codecs}},
		script{name: "confluent-kafka (Python)", command: words(opt.python, "python/client.py"), traits: Traits{Codecs: Codecs}},
		script{name: "kafkajs", command: words("node", opt.kafkajs), traits: Traits{Codecs: Codecs, ProducerOnly: true}},
	}
}

// words makes a command of all words, or none if any is empty: then the program is not installed.
func words(all ...string) []string {
	if slices.Contains(all, "") {
		return nil
	}
	return all
}

func (opt options) wanted(name string) bool {
	return opt.only == "" || slices.ContainsFunc(strings.Split(opt.only, ","), func(w string) bool { return strings.Contains(name, w) })
}

// client runs all rounds of one client.
func (opt options) client(ctx context.Context, c Client, seeds []string) Row {
	row := Row{Name: c.Name(), Codecs: c.Traits().Codecs, ProducerOnly: c.Traits().ProducerOnly, Findings: map[string]Findings{}}
	begun := time.Now()
	var err error
	if row.Version, err = c.Version(ctx); err != nil {
		say("%s: %v", c.Name(), err)
		row.Absent = err
		return row
	}
	for _, codec := range row.Codecs {
		findings := opt.round(ctx, c, seeds, codec)
		row.Findings[codec] = findings
		for _, check := range slices.Sorted(maps.Keys(findings)) {
			say("%s, %s, %s: %v", c.Name(), codec, check, findings[check])
		}
	}
	say("%s: done in %.1f s", c.Name(), time.Since(begun).Seconds())
	return row
}

// round lets a client write and read a topic of its own in one codec. The reference reads it too.
func (opt options) round(ctx context.Context, c Client, seeds []string, codec string) Findings {
	j := Job{Seeds: seeds, Codec: codec, Partitions: 3, Client: c.Name(), Count: opt.count}
	j.Topic = strings.Map(func(r rune) rune {
		if strings.ContainsRune("(), ", r) {
			return '-'
		}
		return r
	}, c.Name()+"."+codec)
	step := func(f func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, opt.limit)
		defer cancel()
		return f(ctx)
	}
	f := Findings{}
	err := step(func(ctx context.Context) error {
		if err := createTopic(ctx, seeds, j.Topic, j.Partitions); err != nil {
			return err
		}
		return c.Produce(ctx, j)
	})
	if err != nil {
		f.add("produce", "%v", err)
		return f
	}
	read := func(by Client) {
		var got []Record
		err := step(func(ctx context.Context) (err error) {
			if j.Ends, err = ends(ctx, seeds, j.Topic, j.Partitions); err != nil {
				return err
			}
			got, err = by.Consume(ctx, j)
			return err
		})
		if err != nil {
			f.add("read", "%s: %v", by.Name(), err)
		}
		for check, fault := range j.Compare(by.Name(), got, c.Traits()) {
			f.add(check, "%w", fault)
		}
	}
	read(franz{})
	if !c.Traits().ProducerOnly {
		read(c)
	}
	return f
}

// say tells progress on standard error, where it does not mix with the table.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// moduleVersion gives the version of a Go library in this build.
func moduleVersion(path string) (string, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", errors.New("no build information")
	}
	for _, m := range info.Deps {
		if m.Path == path {
			return strings.TrimPrefix(m.Version, "v"), nil
		}
	}
	return "", fmt.Errorf("%s is not in this build", path)
}
