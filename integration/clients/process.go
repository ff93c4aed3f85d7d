package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
)

// absent is why a client cannot run on this machine.
type absent struct{ need string }

func (a absent) Error() string { return "not installed: " + a.need }

// run runs a command and gives its standard output. Its error carries the end of what it said.
func run(ctx context.Context, stdin io.Reader, name string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &errs
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return "", absent{name}
		}
		return out.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), errors.Join(err, ctx.Err()), tail(errs.String()+out.String(), 600))
	}
	return out.String(), nil
}

func tail(s string, n int) string {
	s = strings.TrimSpace(s)
	if len(s) > n {
		s = "…" + strings.ToValidUTF8(s[len(s)-n:], "")
	}
	return s
}

// lines gives the job's records as text, one a line, by the format of one.
func lines(j Job, format func(Record) string) io.Reader {
	var b bytes.Buffer
	for i := range j.Count {
		b.WriteString(format(j.Record(i)))
		b.WriteByte('\n')
	}
	return &b
}

// parseRecords reads lines of partition, offset, key, value and headers ("a=b,c=d") with tabs between.
func parseRecords(out string) ([]Record, error) {
	var got []Record
	for s := bufio.NewScanner(strings.NewReader(out)); s.Scan(); {
		fields := strings.Split(s.Text(), "\t")
		if len(fields) != 5 {
			return got, fmt.Errorf("line %d has %d fields, not 5: %.120q", len(got)+1, len(fields), s.Text())
		}
		partition, err := strconv.ParseInt(fields[0], 10, 32)
		if err != nil {
			return got, err
		}
		offset, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return got, err
		}
		got = append(got, Record{Partition: int32(partition), Offset: offset, Key: fields[2], Value: fields[3], Headers: parseHeaders(fields[4], "=")})
	}
	return got, nil
}

func parseHeaders(s, separator string) map[string]string {
	headers := map[string]string{}
	for _, h := range strings.Split(s, ",") {
		if name, value, ok := strings.Cut(h, separator); ok {
			headers[name] = value
		}
	}
	return headers
}

// everyPartition reads the partitions side by side, each by a process of its own.
func everyPartition(j Job, read func(p int, end int64) ([]Record, error)) ([]Record, error) {
	parts := make([][]Record, len(j.Ends))
	errs := make([]error, len(j.Ends))
	var wg sync.WaitGroup
	for p, end := range j.Ends {
		if end > 0 {
			wg.Go(func() { parts[p], errs[p] = read(p, end) })
		}
	}
	wg.Wait()
	var got []Record
	for _, part := range parts {
		got = append(got, part...)
	}
	return got, errors.Join(errs...)
}

// kcat is the tool over librdkafka. It gives all records of a run the same headers.
type kcat struct{}

func (kcat) Name() string   { return "kcat (librdkafka)" }
func (kcat) Traits() Traits { return Traits{Codecs: Codecs, SameHeaders: true} }

func (kcat) Version(ctx context.Context) (string, error) {
	out, err := run(ctx, nil, "kcat", "-V")
	if err != nil {
		return "", err
	}
	version := field(out, "Version ")
	if library := field(out, "librdkafka "); library != "" {
		version += ", librdkafka " + library
	}
	return version, nil
}

// field gives the word behind a prefix, empty if it is not there.
func field(s, prefix string) string {
	_, rest, _ := strings.Cut(s, prefix)
	word, _, _ := strings.Cut(rest, " ")
	return strings.TrimSpace(word)
}

func (kcat) Produce(ctx context.Context, j Job) error {
	in := lines(j, func(r Record) string { return r.Key + "\t" + r.Value })
	_, err := run(ctx, in, "kcat", "-P", "-b", strings.Join(j.Seeds, ","), "-t", j.Topic, "-K", "\t", "-z", j.Codec,
		"-H", headerClient+"="+j.Client, "-X", "enable.idempotence=true", "-X", "acks=all")
	return err
}

func (kcat) Consume(ctx context.Context, j Job) ([]Record, error) {
	return everyPartition(j, func(p int, end int64) ([]Record, error) {
		out, err := run(ctx, nil, "kcat", "-C", "-q", "-b", strings.Join(j.Seeds, ","), "-t", j.Topic, "-p", strconv.Itoa(p),
			"-o", "beginning", "-e", "-f", "%p\t%o\t%k\t%s\t%h\n")
		if err != nil {
			return nil, err
		}
		return parseRecords(out)
	})
}

// script is a client in a program of its own: "version", "produce SEEDS TOPIC CODEC" with lines of key, value, client and
// number on standard input, "consume SEEDS TOPIC END..." with lines as parseRecords reads them on standard output. It
// exits with 3 and a line on standard error if its library is not there.
type script struct {
	name    string
	command []string
	traits  Traits
}

func (s script) Name() string   { return s.name }
func (s script) Traits() Traits { return s.traits }

func (s script) run(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	if len(s.command) == 0 {
		return "", absent{s.name}
	}
	all := append(s.command[1:len(s.command):len(s.command)], args...)
	out, err := run(ctx, stdin, s.command[0], all...)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 3 {
		return "", absent{s.name}
	}
	return out, err
}

func (s script) Version(ctx context.Context) (string, error) {
	out, err := s.run(ctx, nil, "version")
	return strings.TrimSpace(out), err
}

func (s script) Produce(ctx context.Context, j Job) error {
	in := lines(j, func(r Record) string {
		return strings.Join([]string{r.Key, r.Value, r.Headers[headerClient], r.Headers[headerNumber]}, "\t")
	})
	_, err := s.run(ctx, in, "produce", strings.Join(j.Seeds, ","), j.Topic, j.Codec)
	return err
}

func (s script) Consume(ctx context.Context, j Job) ([]Record, error) {
	args := []string{"consume", strings.Join(j.Seeds, ","), j.Topic}
	for _, e := range j.Ends {
		args = append(args, strconv.FormatInt(e, 10))
	}
	out, err := s.run(ctx, nil, args...)
	if err != nil {
		return nil, err
	}
	return parseRecords(out)
}
