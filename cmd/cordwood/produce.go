package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// produceOptions are the flags of produce.
type produceOptions struct {
	topic       string
	count       int64
	size        int
	rate        string
	acks        string
	tag         string
	ackedFile   string
	key         string
	headers     []string
	partition   int32
	compression string
	delivery    time.Duration

	perSecond float64
	acksCount int16 // 0, 1, -1 (all) or a count of 2 and more
	header    []kgo.RecordHeader
}

// produceView is the summary of produce.
type produceView struct {
	APIVersion   string   `json:"apiVersion"`
	Topic        string   `json:"topic"`
	Tag          string   `json:"tag"`
	Sent         int64    `json:"sent"`
	Acknowledged int64    `json:"acknowledged"` // with acks=0: handed to the network
	Failed       int64    `json:"failed"`
	Seconds      float64  `json:"seconds"`
	AckMillis    *ackTime `json:"ackMillis,omitempty"`
}

// ackTime is how long acknowledgements took, in milliseconds.
type ackTime struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func (v *produceView) table(w io.Writer, _ bool) {
	fmt.Fprintf(w, "produced %d/%d  %s  %.1fs", v.Acknowledged, v.Sent, count(int(v.Failed), "error"), v.Seconds)
	if v.AckMillis != nil {
		fmt.Fprintf(w, "  ack p50 %.1fms  p99 %.1fms  max %.1fms", v.AckMillis.P50, v.AckMillis.P99, v.AckMillis.Max)
	}
	fmt.Fprintln(w)
}

func (v *produceView) names() []string { return []string{v.Tag} }

func newProduceCommand(a *app) *cobra.Command {
	var o produceOptions
	cmd := a.shaped(&cobra.Command{Use: "produce TOPIC", Short: "Write records: generated ones, or lines of standard input", Args: takes(1, 1, "a topic"),
		Long: "Write records. With --count they are generated: record n has the id <tag>-<n>, in its header \"id\" and as the first\n" +
			"bytes of its value, padded to --size. Without --count each line of standard input is a record.\n\n" +
			"--acks N with N of 2 or more asks for exactly that many replicas. Such records are not retried once they may have\n" +
			"been written, for they carry no sequence numbers. With the others but --acks all that holds for Kafka's own retries.",
		Example:           "  cordwood produce orders --count 2000 --rate 200/s --acks all --tag run1 --acked run1.acked\n  echo hello | cordwood produce orders -k greeting",
		ValidArgsFunction: a.completeTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.topic = args[0]
			if err := o.check(cmd); err != nil {
				return err
			}
			return a.produce(cmd.Context(), &o)
		}}, &produceView{})
	f := cmd.Flags()
	f.Int64Var(&o.count, "count", 0, "Generate so many records")
	f.IntVar(&o.size, "size", 0, "Bytes of a generated value")
	f.StringVar(&o.rate, "rate", "", "Records a second, such as 200/s (default: as fast as it goes)")
	f.StringVar(&o.acks, "acks", "all", "Who must have a record before it counts: 0, 1, all, or a number of replicas")
	f.StringVar(&o.tag, "tag", "", "First part of the records' ids (default: drawn at random)")
	f.StringVar(&o.ackedFile, "acked", "", "File to append a line to for each acknowledged record: partition, offset, id")
	f.StringVarP(&o.key, "key", "k", "", "Key; {n} stands for the record's number")
	f.StringArrayVarP(&o.headers, "header", "H", nil, "Header, key=value; may be repeated")
	f.Int32VarP(&o.partition, "partition", "p", -1, "Write to this partition only")
	f.StringVar(&o.compression, "compression", "none", "none, gzip, snappy, lz4 or zstd")
	f.DurationVar(&o.delivery, "delivery-timeout", 2*time.Minute, "How long a record may wait for its acknowledgement")
	return cmd
}

// tagForm keeps ids readable: an id ends at the first space, and the number is what follows the last dash.
var tagForm = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)

func (o *produceOptions) check(cmd *cobra.Command) error {
	if cmd.Flags().Changed("count") && o.count < 0 || o.count < 0 {
		return usage("--count must not be negative")
	}
	if o.size < 0 || o.size > 1<<30 {
		return usage("--size must be between 0 and 1073741824")
	}
	if o.delivery < time.Second {
		return usage("--delivery-timeout must be at least 1s")
	}
	if o.rate != "" {
		n, err := strconv.ParseFloat(strings.TrimSuffix(o.rate, "/s"), 64)
		if err != nil || n <= 0 || n > 1e9 {
			return usage(fmt.Sprintf("--rate %s: write records a second, such as 200/s", o.rate))
		}
		o.perSecond = n
	}
	switch o.acks {
	case "all", "-1":
		o.acksCount = -1
	default:
		n, err := strconv.ParseInt(o.acks, 10, 16)
		if err != nil || n < 0 {
			return usage(fmt.Sprintf("--acks %s: write 0, 1, all or a number of replicas", o.acks))
		}
		o.acksCount = int16(n)
	}
	if o.tag == "" && (o.generates(cmd) || o.ackedFile != "") {
		var b [4]byte
		rand.Read(b[:])
		o.tag = "r" + hex.EncodeToString(b[:])
	}
	if o.tag != "" && !tagForm.MatchString(o.tag) {
		return usage(fmt.Sprintf("--tag %q: write letters, digits, . _ : and -", o.tag))
	}
	if _, ok := codecs[o.compression]; !ok {
		return usage(fmt.Sprintf("--compression %s: write none, gzip, snappy, lz4 or zstd", o.compression))
	}
	headers, err := keyValues("-H", o.headers)
	for _, h := range headers {
		o.header = append(o.header, kgo.RecordHeader{Key: h.key, Value: []byte(h.value)})
	}
	return err
}

// generates says that records are made here rather than read.
func (o *produceOptions) generates(cmd *cobra.Command) bool { return cmd.Flags().Changed("count") }

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// sink takes records in order. done is called once for each, from one goroutine, in the order of acknowledgement.
type sink interface {
	send(ctx context.Context, r *kgo.Record, done func(*kgo.Record, error))
	// finish waits until done has been called for every record.
	finish(ctx context.Context) error
	close()
}

// produce sends all records and prints the summary.
func (a *app) produce(ctx context.Context, o *produceOptions) error {
	acked, err := openAcked(o.ackedFile)
	if err != nil {
		return err
	}
	s, err := a.openSink(ctx, o)
	if err != nil {
		return errors.Join(err, acked.close())
	}
	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := newTally(o, acked, cancel)
	progress := a.progress(t, o.count)
	sendErr := a.sendAll(run, o, s, t)
	finishErr := s.finish(run)
	s.close()
	progress.stop()
	if err := acked.close(); err != nil {
		return err
	}
	v, firstErr := t.view()
	if err := a.print(v); err != nil {
		return err
	}
	if o.ackedFile != "" && o.acksCount != 0 && sendErr == nil {
		a.note("acknowledged ids are in %s   (use: cordwood verify %s %s)", o.ackedFile, o.topic, o.ackedFile)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case sendErr != nil:
		return sendErr
	case finishErr != nil:
		return finishErr
	case firstErr != nil && v.Acknowledged > 0:
		return &failure{code: exitPartial, err: fmt.Errorf("%d of %s failed, the first with: %w", v.Failed, count(int(v.Sent), "record"), firstErr)}
	}
	return firstErr
}

// sendAll generates records, or reads them from standard input.
func (a *app) sendAll(ctx context.Context, o *produceOptions, s sink, t *tally) error {
	next := o.generator()
	if o.count == 0 {
		next = a.lineReader(ctx, o)
	}
	pace := newPacer(o.perSecond)
	for n := int64(0); o.count == 0 || n < o.count; n++ {
		r, err := next(n)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = pace.wait(ctx, n)
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
		t.sending()
		r.Context = context.WithValue(ctx, sentAt{}, time.Now())
		s.send(ctx, r, t.done)
	}
	return nil
}

// generator makes record n. Records keep no memory between them.
func (o *produceOptions) generator() func(int64) (*kgo.Record, error) {
	return func(n int64) (*kgo.Record, error) {
		id := o.tag + "-" + strconv.FormatInt(n, 10)
		value := make([]byte, 0, max(o.size, len(id)))
		value = append(value, id...)
		if len(value) < o.size {
			value = append(value, ' ')
		}
		for len(value) < o.size {
			value = append(value, '.')
		}
		return o.record(n, id, value), nil
	}
}

// record puts key and headers to a value. id is "" for records without one.
func (o *produceOptions) record(n int64, id string, value []byte) *kgo.Record {
	r := &kgo.Record{Topic: o.topic, Value: value, Partition: o.partition}
	if o.key != "" {
		r.Key = []byte(strings.ReplaceAll(o.key, "{n}", strconv.FormatInt(n, 10)))
	}
	if id != "" {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: idHeader, Value: []byte(id)})
	}
	r.Headers = append(r.Headers, o.header...)
	return r
}

// idHeader is the record header that holds a record's id.
const idHeader = "id"

// lineMax bounds one line of standard input.
const lineMax = 64 << 20

// lineReader reads standard input line by line. Reading stops for good when ctx ends.
func (a *app) lineReader(ctx context.Context, o *produceOptions) func(int64) (*kgo.Record, error) {
	lines := make(chan []byte)
	var readErr error
	go func() { // ends with standard input, with ctx, or with the process while it waits for input
		defer close(lines)
		sc := bufio.NewScanner(a.in)
		sc.Buffer(make([]byte, 64<<10), lineMax)
		for sc.Scan() {
			select {
			case lines <- append([]byte(nil), sc.Bytes()...):
			case <-ctx.Done():
				return
			}
		}
		readErr = sc.Err()
	}()
	return func(n int64) (*kgo.Record, error) {
		select {
		case line, ok := <-lines:
			if !ok && readErr != nil {
				return nil, fmt.Errorf("standard input: %w", readErr)
			}
			if !ok {
				return nil, io.EOF
			}
			id := ""
			if o.tag != "" {
				id = o.tag + "-" + strconv.FormatInt(n, 10)
			}
			return o.record(n, id, line), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// pacer spreads records evenly over time; behind its schedule it does not wait.
type pacer struct {
	start time.Time
	every float64 // nanoseconds; 0: as fast as it goes
}

func newPacer(perSecond float64) *pacer {
	p := &pacer{start: time.Now()}
	if perSecond > 0 {
		p.every = float64(time.Second) / perSecond
	}
	return p
}

func (p *pacer) wait(ctx context.Context, n int64) error {
	if p.every > 0 {
		if d := time.Until(p.start.Add(time.Duration(float64(n) * p.every))); d > 0 {
			select {
			case <-time.After(d):
			case <-ctx.Done():
			}
		}
	}
	return ctx.Err()
}

// histogram bounds: acknowledgements of 1 µs to 10 min, three digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, (10 * time.Minute).Microseconds(), 3)
}
