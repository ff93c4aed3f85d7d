// Command peers puts the same load on three nodes of Apache Kafka and on three of ours, in turns on one machine, and
// prints what each took and the ratios. The first round is thrown away: a Java virtual machine has to warm up.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"cordwood/integration/load"
)

type options struct {
	binary, kafka, dir string
	bytes              int64
	count, rounds      int
}

func main() {
	var opt options
	mb := flag.Int64("mb", 1000, "MB written in each round and for each kind of acknowledgement")
	short := flag.Bool("short", false, "64 MB, 1,000 synchronous records, two rounds: to see that it works")
	flag.StringVar(&opt.binary, "binary", "bin/cordwood", "the cordwood binary")
	flag.StringVar(&opt.kafka, "kafka", "integration/kafka/kafka.sh", "the script that runs Kafka")
	flag.StringVar(&opt.dir, "dir", "", "where data goes, a new folder in it (default: the system's temporary folder)")
	flag.IntVar(&opt.count, "count", 5000, "records of the synchronous producer in each round")
	flag.IntVar(&opt.rounds, "rounds", 3, "rounds, the first of which is thrown away")
	flag.Parse()
	opt.bytes = *mb * 1e6
	if *short {
		opt.bytes, opt.count, opt.rounds = 64e6, 1000, 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, opt)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, opt options) (err error) {
	if opt.rounds < 2 {
		return errors.New("at least two rounds: the first is thrown away")
	}
	if opt.dir, err = os.MkdirTemp(opt.dir, "cordwood-peers-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(opt.dir)) }()
	both := [2]*contender{
		{name: "Kafka", system: &kafka{script: opt.kafka, dir: filepath.Join(opt.dir, "kafka")}},
		{name: "Cordwood", system: &ours{binary: opt.binary, dir: filepath.Join(opt.dir, "cordwood")}},
	}
	for _, c := range both {
		defer func() { err = errors.Join(err, c.system.stop()) }()
		if err := c.start(ctx); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	for round := range opt.rounds {
		for _, c := range both {
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, opt.rounds, c.name)
			if err := c.round(ctx, opt, round > 0); err != nil {
				return fmt.Errorf("%s, round %d: %w", c.name, round+1, err)
			}
		}
	}
	return print(os.Stdout, both[0], both[1])
}

// measure is one line of the table.
type measure struct {
	what    string
	unit    string
	aim     float64 // bound of ours divided by Kafka's; 0: none
	atLeast bool    // the ratio should be at least aim, not at most
}

var measures = [mCount]measure{
	{"start to ready", "s", 0, false},
	{"resident after the start, largest node", "MB", 0.2, false},
	{"acks=all, many in flight", "MB/s", 1.5, true},
	{"  processor time, all nodes", "s/GB", 0.4, false},
	{"acks=1, many in flight", "MB/s", 1.5, true},
	{"  processor time, all nodes", "s/GB", 0.4, false},
	{"one synchronous producer, p50", "us", 0.5, false},
	{"one synchronous producer, p99", "us", 0, false},
	{"resident after the load, largest node", "MB", 0.2, false},
	{"leader killed: longest time without an acknowledgement", "s", 0.2, false},
	{"leader that was the controller as well: the same", "s", 1.0 / 3, false},
}

// places in measures.
const (
	mReady = iota
	mIdle
	mAll
	mAllCPU
	mOne
	mOneCPU
	mP50
	mP99
	mLoaded
	mGap
	mGapController
	mCount
)

// contender is one of the two, with what was measured of it.
type contender struct {
	name   string
	system system
	topics int
	values [mCount][]float64
}

func (c *contender) note(what int, v float64) { c.values[what] = append(c.values[what], v) }

// median of what was noted; ok is false where nothing was.
func (c *contender) median(what int) (v float64, ok bool) {
	if len(c.values[what]) == 0 {
		return 0, false
	}
	s := slices.Sorted(slices.Values(c.values[what]))
	return s[len(s)/2], true
}

func (c *contender) start(ctx context.Context) error {
	took, err := c.system.start(ctx)
	if err != nil {
		return err
	}
	c.note(mReady, took.Seconds())
	return c.resident(mIdle)
}

func (c *contender) resident(what int) error {
	var most int64
	for _, pid := range c.system.pids() {
		if pid == 0 {
			continue
		}
		r, err := load.Resident(pid)
		if err != nil {
			return err
		}
		most = max(most, r)
	}
	c.note(what, float64(most)/1e6)
	return nil
}

// round runs every load once, on topics of its own, and notes the figures where counts is true.
func (c *contender) round(ctx context.Context, opt options, counts bool) error {
	kept := c.values
	for _, acks := range []int16{-1, 1} {
		if err := c.throughput(ctx, opt, acks); err != nil {
			return err
		}
	}
	topic, err := c.topic(ctx)
	if err != nil {
		return err
	}
	took, err := load.Synchronous(ctx, load.Target{Seeds: c.system.seeds(), Topic: topic, Acks: -1}, opt.count)
	if err != nil {
		return err
	}
	c.note(mP50, float64(load.Quantile(took, 0.5).Microseconds()))
	c.note(mP99, float64(load.Quantile(took, 0.99).Microseconds()))
	if err := c.resident(mLoaded); err != nil {
		return err
	}
	for _, controller := range []bool{false, true} {
		if err := c.failover(ctx, controller); err != nil {
			return fmt.Errorf("killed leader: %w", err)
		}
	}
	if !counts {
		c.values = kept
	}
	return nil
}

// topic makes a new one with six partitions.
func (c *contender) topic(ctx context.Context) (string, error) {
	c.topics++
	name := fmt.Sprintf("peers-%d", c.topics)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return name, load.CreateTopic(ctx, c.system.seeds(), name, 6, 3, map[string]string{"min.insync.replicas": "2"})
}

func (c *contender) throughput(ctx context.Context, opt options, acks int16) error {
	topic, err := c.topic(ctx)
	if err != nil {
		return err
	}
	before, err := load.CPU(c.system.pids()...)
	if err != nil {
		return err
	}
	r, err := load.Produce(ctx, load.Target{Seeds: c.system.seeds(), Topic: topic, Acks: acks}, opt.bytes)
	if err != nil {
		return err
	}
	after, err := load.CPU(c.system.pids()...)
	if err != nil {
		return err
	}
	rate, cpu := mAll, mAllCPU
	if acks == 1 {
		rate, cpu = mOne, mOneCPU
	}
	c.note(rate, r.MBs())
	c.note(cpu, (after-before).Seconds()/(float64(r.Bytes)/1e9))
	return nil
}

// print writes the table: medians of the rounds that count.
func print(w io.Writer, kafka, ours *contender) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "three nodes each, in turns\t%s\t%s\tratio\taim\t\n", kafka.name, ours.name)
	for i, m := range measures {
		k, there := kafka.median(i)
		o, too := ours.median(i)
		if !there || !too {
			fmt.Fprintf(tw, "%s\t\t\t\t\tnot measured\n", m.what)
			continue
		}
		aim, verdict := "", ""
		if m.aim > 0 {
			sign := "<="
			missed := o/k > m.aim
			if m.atLeast {
				sign, missed = ">=", o/k < m.aim
			}
			aim = fmt.Sprintf("%s %.2f", sign, m.aim)
			if missed {
				verdict = "missed"
			}
		}
		fmt.Fprintf(tw, "%s\t%.4g %s\t%.4g %s\t%.2f\t%s\t%s\n", m.what, k, m.unit, o, m.unit, o/k, aim, verdict)
	}
	return tw.Flush()
}
