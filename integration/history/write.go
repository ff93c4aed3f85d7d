package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Writer writes a history while it happens. Its methods may be called by several goroutines at a time; lines keep the order
// in which the calls came. The first error of the file below it stays: every later call returns it.
type Writer struct {
	mu     sync.Mutex // guards all below
	out    *bufio.Writer
	counts counts
	err    error
}

// NewWriter writes the header, with the present Version, and takes lines from then on. What is written is buffered until
// Flush or Close.
func NewWriter(out io.Writer, h Header) (*Writer, error) {
	h.Version = Version
	w := &Writer{out: bufio.NewWriterSize(out, 256<<10)}
	return w, w.put(line{Header: &h}, nil)
}

// Op writes an operation that has ended. Operations may come a little out of the order of their ends.
func (w *Writer) Op(op Op) error { return w.put(line{Op: &op}, &w.counts.Ops) }

// Fault writes a fault that was healed, or could not be.
func (w *Writer) Fault(f Fault) error { return w.put(line{Fault: &f}, &w.counts.Faults) }

// Loss writes a loss that the cluster itself told of.
func (w *Writer) Loss(l Loss) error { return w.put(line{Loss: &l}, &w.counts.Losses) }

// Watermark writes a high watermark. Those of one process must come in the order it saw them.
func (w *Writer) Watermark(m Watermark) error {
	return w.put(line{Watermark: &m}, &w.counts.Watermarks)
}

// Copy writes the log of one node.
func (w *Writer) Copy(c Copy) error { return w.put(line{Copy: &c}, &w.counts.Copies) }

// Flush hands over what is buffered.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = w.out.Flush()
	}
	return w.err
}

// Close writes the last line, without which a history counts as cut, and hands over everything. The file below stays open.
func (w *Writer) Close() error {
	w.mu.Lock()
	end := w.counts
	w.mu.Unlock()
	if err := w.put(line{End: &end}, nil); err != nil {
		return err
	}
	err := w.Flush()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = ErrClosed
	}
	return err
}

// put encodes outside the lock: processes do not wait for each other's lines.
func (w *Writer) put(l line, count *int) error {
	b, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	if len(b) >= MaxLine {
		return fmt.Errorf("write history: %w: %d bytes", ErrLineTooLong, len(b))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if _, w.err = w.out.Write(append(b, '\n')); w.err == nil && count != nil {
		*count++
	}
	return w.err
}

// Write writes a whole history.
func Write(out io.Writer, h *History) error {
	w, err := NewWriter(out, h.Header)
	if err != nil {
		return err
	}
	err = errors.Join(
		each(h.Ops, w.Op), each(h.Faults, w.Fault), each(h.Losses, w.Loss), each(h.Watermarks, w.Watermark), each(h.Copies, w.Copy),
	)
	if err != nil {
		return err
	}
	return w.Close()
}

func each[T any](list []T, put func(T) error) error {
	for _, x := range list {
		if err := put(x); err != nil {
			return err
		}
	}
	return nil
}
