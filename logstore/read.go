package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"cordwood/logstore/record"
)

// errMoved says that the files changed under a reader, who looks again.
var errMoved = errors.New("the log was cut meanwhile")

// readTries bounds how often a reader looks again; between tries it waits for the cut to end.
const readTries = 8

// Read returns the range of whole batches that begins with the one that holds offset and stays below bound, at most
// maxBytes long; it may end inside a batch at that limit, as Kafka's answers do, and ends with its segment. With whole,
// the first batch is there even where it is larger. Without, a limit below the first batch gives an empty range.
// offset == end of log is an empty range; outside of [log start, log end] is record.ErrOffsetOutOfRange.
func (l *Log) Read(offset int64, maxBytes int32, bound int64, whole bool) (info ReadInfo, err error) {
	err = l.look("read", func(v *view) error {
		info, err = l.readView(v, offset, maxBytes, bound, whole)
		if err == nil && l.cuts.Load() != v.cuts {
			for _, s := range info.Spans {
				s.Release()
			}
			return errMoved
		}
		return err
	})
	if err != nil {
		return ReadInfo{End: -1}, err
	}
	return info, nil
}

// look lets f read the log as it is, and again where a cut or retention came between. Bytes that are broken, or that the
// disk refuses, make the log damaged: record.ErrDamaged.
func (l *Log) look(op string, f func(v *view) error) error {
	for try := 0; ; try++ {
		if err := l.usable(); err != nil {
			return err
		}
		v := l.view.Load()
		err := f(v)
		if err == nil || errors.Is(err, record.ErrOffsetOutOfRange) {
			return err
		}
		moved := errors.Is(err, errMoved) || errors.Is(err, fs.ErrNotExist) || l.cuts.Load() != v.cuts || l.view.Load().segs[0] != v.segs[0]
		if !moved || try == readTries {
			if !moved && (isBroken(err) || errors.Is(err, syscall.EIO)) {
				l.damage(err)
				err = fmt.Errorf("%w: %w", record.ErrDamaged, err)
			}
			return l.place(op, err)
		}
		l.mu.Lock()   // a cut holds it to its end
		l.mu.Unlock() //nolint:staticcheck // nothing to do inside
	}
}

func (l *Log) readView(v *view, offset int64, maxBytes int32, bound int64, whole bool) (ReadInfo, error) {
	if offset < v.start || offset > v.end {
		return ReadInfo{End: -1}, fmt.Errorf("%w: %d is outside of %d to %d", record.ErrOffsetOutOfRange, offset, v.start, v.end)
	}
	bound = min(bound, v.end)
	for i := v.find(offset); i < len(v.segs) && offset < bound && v.segs[i].base < bound; i++ {
		if _, end := v.extent(i); end <= offset {
			continue // compaction may leave nothing between a segment's end and the next one's base
		}
		info, err := l.readSegment(v, i, offset, maxBytes, bound, whole)
		if err != nil || len(info.Spans) > 0 || info.End != 0 {
			return info, err
		}
	}
	return ReadInfo{End: offset}, nil
}

// readSegment reads from one segment. End 0 and no span says that nothing of it lies at or above offset.
func (l *Log) readSegment(v *view, i int, offset int64, maxBytes int32, bound int64, whole bool) (info ReadInfo, err error) {
	s := v.segs[i]
	h, err := l.open(v, i)
	if err != nil {
		return ReadInfo{}, err
	}
	defer func() {
		if len(info.Spans) == 0 {
			h.release()
		}
	}()
	pos, err := l.locate(v, i, h.f, offset)
	if err != nil {
		return ReadInfo{}, fmt.Errorf("segment %s: %w", s.file, err)
	}
	size, end := v.extent(i)
	limit := size
	if bound < end {
		// The batch that holds bound, or begins there, is the first that may not be seen.
		if limit, err = l.locate(v, i, h.f, bound); err != nil {
			return ReadInfo{}, fmt.Errorf("segment %s: %w", s.file, err)
		}
		end = bound
	}
	if pos >= size {
		return ReadInfo{}, nil
	}
	n := limit - pos
	if n <= 0 {
		return ReadInfo{End: offset}, nil
	}
	if n > int64(maxBytes) {
		end = -1
		w := newWalker(h.f, pos, size)
		first, _, err := w.next()
		w.close()
		if err != nil {
			return ReadInfo{}, fmt.Errorf("segment %s at byte %d: %w", s.file, pos, err)
		}
		switch {
		case first.Size() <= int64(maxBytes):
			n = int64(maxBytes)
		case whole:
			n, end = first.Size(), first.EndOffset()
		default:
			return ReadInfo{End: offset}, nil
		}
	}
	return ReadInfo{Spans: []record.Span{record.NewSpan(h.f, pos, n, h.release)}, Bytes: n, End: end}, nil
}

// open returns a hold on a segment's file.
func (l *Log) open(v *view, i int) (*handle, error) {
	s := v.segs[i]
	if s.active == nil {
		return l.dir.handles.acquire(s.key())
	}
	if s.active.acquire() {
		return s.active, nil
	}
	// Sealed and pushed out of the cache, or cut, since the view was taken.
	if l.cuts.Load() != v.cuts {
		return nil, errMoved
	}
	return l.dir.handles.acquire(s.key())
}

// Aborted lists the aborted transactions that overlap [from, upper): those a reader of committed records must know.
// It may list more.
func (l *Log) Aborted(from, upper int64) (out []AbortedTxn, err error) {
	err = l.look("read aborted transactions of", func(v *view) error {
		out, err = l.abortedIn(v, from, upper)
		return err
	})
	return out, err
}

func (l *Log) abortedIn(v *view, from, upper int64) (out []AbortedTxn, err error) {
	l.mu.Lock()
	active, now := l.aborted, l.view.Load()
	l.mu.Unlock()
	if now.active().base != v.active().base || now.cuts != v.cuts {
		return nil, errMoved
	}
	for i := v.find(from); i < len(v.segs); i++ {
		txns := active
		if s := v.segs[i]; i < len(v.segs)-1 {
			if s.aborted == 0 {
				continue
			}
			b, err := readFile(l.dir.fs, s.sibling(txnSuffix), smallFileMax)
			if err != nil {
				return nil, err
			}
			if txns, err = decodeTxnIndex(b, s.base, s.end); err != nil {
				return nil, err
			}
		}
		for _, t := range txns {
			if t.LastOffset >= from && t.FirstOffset < upper {
				out = append(out, t)
			}
			if t.LastStableOffset >= upper {
				return out, nil
			}
		}
	}
	return out, nil
}
