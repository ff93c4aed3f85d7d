// Package workload writes to and reads from clusters as clients do, and notes what they were told, so that what was
// told can be checked against what is there.
package workload

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Writer writes steadily with acks=all and idempotence, and notes every acknowledgement in a file that `cordwood verify`
// reads: partition, offset, id, with tabs between.
type Writer struct {
	Tag  string
	File string

	client *kgo.Client
	out    *bufio.Writer
	file   *os.File
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex // guards all below, and out
	acked  int
	failed []error
	last   time.Time
	gaps   []gap
	took   []Took               // if Timed
	under  map[string]time.Time // handed over and not answered, by id
}

// shortestGap is what is noted as a gap: well above the pace of a writer, well below anything worth asking about.
const shortestGap = 10 * time.Millisecond

type gap struct {
	at     time.Time // its end
	length time.Duration
}

// SoFar writes what was noted until now to a file of its own.
func (w *Writer) SoFar(name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.out.Flush(); err != nil {
		return err
	}
	b, err := os.ReadFile(w.File)
	if err != nil {
		return err
	}
	return os.WriteFile(name, b, 0o644)
}

// WriterOptions says what a Writer does.
type WriterOptions struct {
	Seeds []string
	Topic string
	Tag   string
	File  string
	Rate  int // records a second
	Size  int // bytes of a value
	Timed bool
}

// Took is how long one acknowledgement took, from the hand-over of its record to the client.
type Took struct {
	At time.Time // of the hand-over
	D  time.Duration
}

// StartWriter starts a writer. It goes on until Stop, through every error that a client may retry.
func StartWriter(opt WriterOptions) (*Writer, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(opt.Seeds...),
		kgo.DefaultProduceTopic(opt.Topic),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()), // a value takes the room that it says
		kgo.MetadataMinAge(50*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.RetryTimeout(60*time.Second),
		kgo.RecordDeliveryTimeout(90*time.Second),
		kgo.ProduceRequestTimeout(5*time.Second),
		kgo.DialTimeout(time.Second),
	)
	if err != nil {
		return nil, err
	}
	f, err := os.Create(opt.File)
	if err != nil {
		client.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &Writer{Tag: opt.Tag, File: opt.File, client: client, file: f, out: bufio.NewWriter(f), cancel: cancel, done: make(chan struct{}), last: time.Now(),
		under: map[string]time.Time{}}
	go w.run(ctx, opt)
	return w, nil
}

func (w *Writer) run(ctx context.Context, opt WriterOptions) {
	defer close(w.done)
	tick := time.NewTicker(time.Second / time.Duration(opt.Rate))
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		id := fmt.Sprintf("%s-%d", opt.Tag, n)
		value := id + " "
		value += strings.Repeat("x", max(0, opt.Size-len(value)))
		rec := &kgo.Record{Value: []byte(value), Headers: []kgo.RecordHeader{{Key: "id", Value: []byte(id)}}}
		at := time.Now()
		w.mu.Lock()
		w.under[id] = at
		w.mu.Unlock()
		w.client.Produce(context.Background(), rec, func(r *kgo.Record, err error) { w.note(id, at, opt.Timed, r, err) })
	}
}

func (w *Writer) note(id string, at time.Time, timed bool, r *kgo.Record, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.under, id)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			w.failed = append(w.failed, err)
		}
		return
	}
	now := time.Now()
	if d := now.Sub(w.last); d > shortestGap {
		w.gaps = append(w.gaps, gap{at: now, length: d})
	}
	w.last = now
	w.acked++
	if timed {
		w.took = append(w.took, Took{at, now.Sub(at)})
	}
	fmt.Fprintf(w.out, "%d\t%d\t%s\n", r.Partition, r.Offset, id)
}

// Acked is the number of acknowledged records so far.
func (w *Writer) Acked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acked
}

// Errors are the records that failed for good.
func (w *Writer) Errors() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.failed)
}

// LongestGap is the longest time without an acknowledgement that ended after since, or is still open; gaps below
// shortestGap are not told apart.
func (w *Writer) LongestGap(since time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	longest := time.Since(w.last)
	for _, g := range w.gaps {
		if g.at.After(since) {
			longest = max(longest, g.length)
		}
	}
	return longest
}

// Times gives how long the acknowledgements of records handed over from one time to another took, sorted; only those that
// came so far, and only of a Timed writer.
func (w *Writer) Times(from, to time.Time) []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []time.Duration
	for _, t := range w.took {
		if !t.At.Before(from) && t.At.Before(to) {
			out = append(out, t.D)
		}
	}
	slices.Sort(out)
	return out
}

// Under is the number of records handed over before a time that are neither acknowledged nor given up.
func (w *Writer) Under(before time.Time) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, at := range w.under {
		if at.Before(before) {
			n++
		}
	}
	return n
}

// WaitAcked waits until n more records were acknowledged than now.
func (w *Writer) WaitAcked(ctx context.Context, n int) error {
	want := w.Acked() + n
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for w.Acked() < want {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d more records acknowledged: %w", w.Acked()-(want-n), n, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// Stop ends sending, waits for what is under way (at most the limit) and closes the file.
func (w *Writer) Stop(limit time.Duration) error {
	w.cancelSending()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err := w.client.Flush(ctx)
	w.client.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(err, w.out.Flush(), w.file.Close())
}

// cancelSending stops the sender but not the records it has handed to the client.
func (w *Writer) cancelSending() {
	w.cancel()
	<-w.done
}
