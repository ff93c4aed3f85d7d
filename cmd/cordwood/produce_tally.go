package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// sentAt is the context key of the time when a record was handed over.
type sentAt struct{}

// tally counts what became of the records, and writes down what was acknowledged.
type tally struct {
	opt   *produceOptions
	acked *ackedFile
	abort context.CancelCauseFunc // ends the run

	mu       sync.Mutex
	start    time.Time
	sent     int64
	ok       int64
	failed   int64
	firstErr error
	took     *hdrhistogram.Histogram
}

func newTally(o *produceOptions, acked *ackedFile, abort context.CancelCauseFunc) *tally {
	return &tally{opt: o, acked: acked, abort: abort, start: time.Now(), took: newHistogram()}
}

func (t *tally) sending() {
	t.mu.Lock()
	t.sent++
	t.mu.Unlock()
}

// done takes one record's end. A line that cannot be written down stops the run: an acknowledgement that is not in the
// file would never be checked.
func (t *tally) done(r *kgo.Record, err error) {
	if err == nil && t.opt.acksCount != 0 {
		if werr := t.acked.write(r); werr != nil {
			t.abort(werr)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.failed++
		if t.firstErr == nil {
			t.firstErr = err
		}
		return
	}
	t.ok++
	if at, ok := r.Context.Value(sentAt{}).(time.Time); ok && t.opt.acksCount != 0 {
		_ = t.took.RecordValue(max(1, time.Since(at).Microseconds())) // beyond ten minutes it is no figure of interest
	}
}

// counts gives sent, acknowledged and failed so far.
func (t *tally) counts() (sent, ok, failed int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sent, t.ok, t.failed
}

func (t *tally) view() (*produceView, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := &produceView{APIVersion: apiVersion, Topic: t.opt.topic, Tag: t.opt.tag, Sent: t.sent, Acknowledged: t.ok, Failed: t.failed,
		Seconds: float64(time.Since(t.start).Milliseconds()) / 1000}
	if t.took.TotalCount() > 0 {
		ms := func(us int64) float64 { return float64(us) / 1000 }
		v.AckMillis = &ackTime{P50: ms(t.took.ValueAtQuantile(50)), P99: ms(t.took.ValueAtQuantile(99)), Max: ms(t.took.Max())}
	}
	return v, t.firstErr
}

// ackedFile appends a line per acknowledged record. Whole lines are written at once, so a killed process leaves at most
// one line without an end, which verify leaves out.
type ackedFile struct {
	f *os.File
}

// openAcked opens the file for appending; no name means no file.
func openAcked(name string) (*ackedFile, error) {
	if name == "" {
		return &ackedFile{}, nil
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("--acked: %w", err)
	}
	return &ackedFile{f: f}, nil
}

// write appends partition<TAB>offset<TAB>id. The operating system has the line when write returns.
func (a *ackedFile) write(r *kgo.Record) error {
	if a.f == nil {
		return nil
	}
	line := make([]byte, 0, 64)
	line = strconv.AppendInt(line, int64(r.Partition), 10)
	line = append(line, '\t')
	line = strconv.AppendInt(line, r.Offset, 10)
	line = append(line, '\t')
	line = append(append(line, recordID(r)...), '\n')
	if _, err := a.f.Write(line); err != nil {
		return fmt.Errorf("--acked: %w", err)
	}
	return nil
}

func (a *ackedFile) close() error {
	if a.f == nil {
		return nil
	}
	return a.f.Close()
}

// recordID is the id of a record: its header "id", else the first bytes of its value up to a space.
func recordID(r *kgo.Record) string {
	for _, h := range r.Headers {
		if h.Key == idHeader {
			return string(h.Value)
		}
	}
	value := r.Value
	if len(value) > 2*64 {
		value = value[:2*64] // longer than any id
	}
	id, _, _ := strings.Cut(string(value), " ")
	return id
}

// progressLine shows how far produce is, until stop.
type progressLine struct {
	quit, ended chan struct{}
}

const (
	redrawEvery = 200 * time.Millisecond // on a terminal
	lineEvery   = 5 * time.Second        // elsewhere
)

func (a *app) progress(t *tally, total int64) *progressLine {
	p := &progressLine{quit: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		if a.quiet {
			return
		}
		every, live := lineEvery, terminal(a.err)
		if live {
			every = redrawEvery
		}
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-p.quit:
				if live {
					fmt.Fprint(a.err, "\r\x1b[K")
				}
				return
			case <-tick.C:
				_, ok, failed := t.counts()
				line := fmt.Sprintf("produced %d", ok)
				if total > 0 {
					line += fmt.Sprintf("/%d", total)
				}
				line += "  " + count(int(failed), "error")
				if live {
					fmt.Fprint(a.err, "\r"+line+"\x1b[K")
				} else {
					fmt.Fprintln(a.err, line)
				}
			}
		}
	}()
	return p
}

func (p *progressLine) stop() {
	close(p.quit)
	<-p.ended
}

var errNotAcknowledged = errors.New("not acknowledged before the end")
