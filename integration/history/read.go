package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Read reads a whole history and puts its operations into the order of their ends. It fails with ErrCut if the end is
// missing, with ErrNewer for a version it does not know, with ErrNoHistory for what is something else, and otherwise with the
// number of the line it cannot take.
func Read(in io.Reader) (*History, error) {
	r := reader{in: bufio.NewReaderSize(in, 256<<10)}
	for {
		b, whole, err := r.next()
		if err != nil {
			return nil, r.at(err)
		}
		var l line
		if op, ok := opLine(b); ok {
			l.Op = &op
		} else if err := json.Unmarshal(b, &l); err != nil {
			if !whole {
				return nil, r.at(ErrCut)
			}
			return nil, r.at(r.notALine(b, err))
		}
		if l.kinds() != 1 {
			return nil, r.at(fmt.Errorf("%d kinds of line in one, or a kind that is not known", l.kinds()))
		}
		if l.End != nil {
			return r.end(*l.End)
		}
		if err := r.take(&l); err != nil {
			return nil, r.at(err)
		}
	}
}

// notALine says what is wrong with a line that is not as this version has them. The header of a newer one may have other
// fields, or the same of another type, so that its version is looked at by itself.
func (r *reader) notALine(b []byte, err error) error {
	if r.line > 1 {
		return err
	}
	var newer struct {
		Header struct {
			Version int `json:"version"`
		} `json:"header"`
	}
	if json.Unmarshal(b, &newer) == nil && newer.Header.Version > Version {
		return tooNew(newer.Header.Version)
	}
	return fmt.Errorf("%w: %w", ErrNoHistory, err)
}

func tooNew(version int) error {
	return fmt.Errorf("%w: its format is %d, this one knows up to %d", ErrNewer, version, Version)
}

type reader struct {
	in   *bufio.Reader
	line int    // that was read last, from 1
	long []byte // a line longer than the buffer
	h    History
}

func (r *reader) at(err error) error { return fmt.Errorf("history line %d: %w", r.line, err) }

// next gives the next line until the call after. It is whole if a line feed ended it.
func (r *reader) next() (b []byte, whole bool, err error) {
	r.line++
	r.long = r.long[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		if len(r.long)+len(part) > MaxLine {
			return nil, false, ErrLineTooLong
		}
		switch {
		case err == nil && len(r.long) == 0:
			return part[:len(part)-1], true, nil
		case err == nil:
			r.long = append(r.long, part[:len(part)-1]...)
			return r.long, true, nil
		case errors.Is(err, bufio.ErrBufferFull):
			r.long = append(r.long, part...)
		case errors.Is(err, io.EOF):
			r.long = append(r.long, part...)
			if len(bytes.TrimSpace(r.long)) == 0 {
				return nil, false, ErrCut
			}
			return r.long, false, nil
		default:
			return nil, false, err
		}
	}
}

func (r *reader) take(l *line) error {
	h := &r.h
	if (r.line == 1) != (l.Header != nil) {
		return errors.New("the header must be the first line, and only that")
	}
	switch {
	case l.Header != nil:
		if l.Header.Version > Version {
			return tooNew(l.Header.Version)
		}
		h.Header = *l.Header
		return h.Header.valid()
	case l.Op != nil:
		h.Ops = append(h.Ops, *l.Op)
		return l.Op.valid(&h.Header)
	case l.Fault != nil:
		h.Faults = append(h.Faults, *l.Fault)
		return l.Fault.valid()
	case l.Loss != nil:
		h.Losses = append(h.Losses, *l.Loss)
		return l.Loss.valid(&h.Header)
	case l.Watermark != nil:
		h.Watermarks = append(h.Watermarks, *l.Watermark)
		return l.Watermark.valid(&h.Header)
	default:
		h.Copies = append(h.Copies, *l.Copy)
		return l.Copy.valid(&h.Header)
	}
}

// end compares what was read with what was written.
func (r *reader) end(want counts) (*History, error) {
	if r.line == 1 {
		return nil, r.at(errors.New("there is no header"))
	}
	if got := r.h.counts(); got != want {
		return nil, r.at(fmt.Errorf("%w: %+v lines were written, %+v are there", ErrCut, want, got))
	}
	if b, _, err := r.next(); !errors.Is(err, ErrCut) {
		return nil, r.at(fmt.Errorf("%d bytes after the end: %w", len(b), errors.Join(err, errTrailing)))
	}
	if !slices.IsSortedFunc(r.h.Ops, byEnd) {
		slices.SortStableFunc(r.h.Ops, byEnd)
	}
	return &r.h, nil
}

func byEnd(a, b Op) int { return cmp.Compare(a.End, b.End) }

var errTrailing = errors.New("nothing may follow it")
