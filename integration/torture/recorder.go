package torture

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"sync"

	"cordwood/integration/history"
)

// recorder keeps a history while it happens, and writes it line by line as well.
type recorder struct {
	out  *history.Writer // nil: nowhere
	live *history.Live

	mu  sync.Mutex // guards all below
	h   history.History
	err error // of writing: the first
}

func newRecorder(h history.Header, out io.Writer) (*recorder, error) {
	r := &recorder{h: history.History{Header: h}}
	r.live = history.NewLive(&r.h.Header)
	if out == nil {
		return r, nil
	}
	var err error
	r.out, err = history.NewWriter(out, h)
	return r, err
}

// keep adds one thing to the list, and to the file, whose writer has a lock of its own.
func keep[T any](r *recorder, to *[]T, x T, write func(*history.Writer, T) error) {
	r.mu.Lock()
	*to = append(*to, x)
	r.mu.Unlock()
	if r.out == nil {
		return
	}
	if err := write(r.out, x); err != nil {
		r.mu.Lock()
		r.err = cmp.Or(r.err, err)
		r.mu.Unlock()
	}
}

// Op implements workload.Sink.
func (r *recorder) Op(op history.Op) {
	keep(r, &r.h.Ops, op, (*history.Writer).Op)
	r.live.Op(&op)
}

// Watermark implements workload.Sink.
func (r *recorder) Watermark(w history.Watermark) {
	keep(r, &r.h.Watermarks, w, (*history.Writer).Watermark)
}

func (r *recorder) fault(f history.Fault) { keep(r, &r.h.Faults, f, (*history.Writer).Fault) }

// faults gives those that were healed.
func (r *recorder) faults() []history.Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.h.Faults)
}

func (r *recorder) collected(copies []history.Copy, losses []history.Loss) error {
	for _, c := range copies {
		keep(r, &r.h.Copies, c, (*history.Writer).Copy)
	}
	for _, l := range losses {
		keep(r, &r.h.Losses, l, (*history.Writer).Loss)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// close ends the file and gives the history in the order of its operations' ends.
func (r *recorder) close() (*history.History, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.out != nil {
		r.err = errors.Join(r.err, r.out.Close())
	}
	slices.SortStableFunc(r.h.Ops, func(a, b history.Op) int { return cmp.Compare(a.End, b.End) })
	return &r.h, r.err
}
