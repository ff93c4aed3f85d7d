package logstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"cordwood/logstore/record"
)

// timeInfo is a record found by its time.
type timeInfo struct {
	offset    int64
	timestamp int64 // milliseconds
	epoch     int32
	found     bool
}

func (i timeInfo) answer(err error) (offset, timestamp int64, epoch int32, found bool, _ error) {
	if err != nil || !i.found {
		return record.NoOffset, record.NoTimestamp, record.NoEpoch, false, err
	}
	return i.offset, i.timestamp, i.epoch, true, nil
}

// OffsetForTime finds the first record at or above the log start and below bound whose timestamp, in milliseconds, is at
// least ts.
func (l *Log) OffsetForTime(ts, bound int64) (offset, timestamp int64, epoch int32, found bool, err error) {
	var info timeInfo
	err = l.look("find a time in", func(v *view) (err error) {
		info, err = l.offsetForTime(v, ts, bound)
		return err
	})
	return info.answer(err)
}

func (l *Log) offsetForTime(v *view, ts, bound int64) (timeInfo, error) {
	for i := range v.segs {
		size, end := v.extent(i)
		if size == 0 || end <= v.start || v.segs[i].base >= bound {
			continue
		}
		if s := v.segs[i]; s.active == nil && s.exactTS && s.maxTS < ts {
			continue
		}
		info, err := l.timeInSegment(v, i, ts, bound)
		if err != nil {
			return timeInfo{}, err
		}
		if info.found {
			return info, nil
		}
	}
	return timeInfo{}, nil
}

// timeInSegment searches segment i from the time index's floor on.
func (l *Log) timeInSegment(v *view, i int, ts, bound int64) (timeInfo, error) {
	s := v.segs[i]
	size, _ := v.extent(i)
	h, err := l.open(v, i)
	if err != nil {
		return timeInfo{}, err
	}
	defer h.release()
	from := v.start
	if e, ok := l.timeFloor(v, i, h.f, ts); ok {
		from = max(from, s.base+int64(e.rel))
	}
	pos, err := l.locate(v, i, h.f, from)
	if err != nil {
		return timeInfo{}, err
	}
	w := newWalker(h.f, pos, size)
	defer w.close()
	for {
		b, at, err := w.next()
		if errors.Is(err, io.EOF) || err == nil && b.BaseOffset >= bound {
			return timeInfo{}, nil
		}
		if err != nil {
			return timeInfo{}, fmt.Errorf("segment %s at byte %d: %w", s.file, at, err)
		}
		if b.MaxTimestamp < ts || b.EndOffset() <= v.start {
			continue
		}
		info, err := firstInBatch(h.f, &b, at, v.start, func(t int64) bool { return t >= ts })
		if err != nil {
			return timeInfo{}, fmt.Errorf("segment %s at byte %d: %w", s.file, at, err)
		}
		if info.found && info.offset < bound {
			return info, nil
		}
		if info.found {
			return timeInfo{}, nil
		}
	}
}

// timeFloor is the newest time index entry below ts, if it fits the batches. A time index that does not is no help, and
// the search begins at the segment's first batch.
func (l *Log) timeFloor(v *view, i int, r io.ReaderAt, ts int64) (timeEntry, bool) {
	s := v.segs[i]
	var times []timeEntry
	if i == len(v.segs)-1 {
		l.mu.Lock()
		if l.cuts.Load() == v.cuts && l.view.Load().active().base == s.base {
			times = l.idx.times
		}
		l.mu.Unlock()
	} else {
		b, err := readFile(l.dir.fs, s.sibling(timeSuffix), smallFileMax)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				l.reindex(s, false)
			}
			return timeEntry{}, false
		}
		times, _ = decodeTimeIndex(b)
	}
	e, ok := floorTime(times, ts)
	if !ok {
		return timeEntry{}, false
	}
	size, _ := v.extent(i)
	pos, err := l.locate(v, i, r, s.base+int64(e.rel))
	if err != nil {
		return timeEntry{}, false
	}
	w := newWalker(r, pos, size)
	defer w.close()
	h, _, err := w.next()
	if err != nil || h.LastOffset() != s.base+int64(e.rel) || h.MaxTimestamp != e.ts {
		return timeEntry{}, false
	}
	return e, true
}

// MaxTime finds the first record, at or above the log start and below bound, of the greatest timestamp.
func (l *Log) MaxTime(bound int64) (offset, timestamp int64, epoch int32, found bool, err error) {
	var info timeInfo
	err = l.look("find the newest record of", func(v *view) (err error) {
		info, err = l.maxTime(v, bound)
		return err
	})
	return info.answer(err)
}

func (l *Log) maxTime(v *view, bound int64) (timeInfo, error) {
	best := record.NoTimestamp - 1 // records without a time count, where none has one
	var found timeInfo
	for i := range v.segs {
		size, end := v.extent(i)
		if size == 0 || end <= v.start || v.segs[i].base >= bound {
			continue
		}
		if s := v.segs[i]; s.active == nil && s.exactTS && s.maxTS <= best {
			continue
		}
		info, err := l.maxInSegment(v, i, bound, best)
		if err != nil {
			return timeInfo{}, err
		}
		if info.found && info.timestamp > best {
			best, found = info.timestamp, info
		}
	}
	return found, nil
}

// maxInSegment finds the first record of the greatest timestamp above floor.
func (l *Log) maxInSegment(v *view, i int, bound, floor int64) (timeInfo, error) {
	s := v.segs[i]
	size, _ := v.extent(i)
	h, err := l.open(v, i)
	if err != nil {
		return timeInfo{}, err
	}
	defer h.release()
	pos, err := l.locate(v, i, h.f, v.start)
	if err != nil {
		return timeInfo{}, err
	}
	w := newWalker(h.f, pos, size)
	defer w.close()
	var best record.Header
	at, has := int64(0), false
	for {
		b, p, err := w.next()
		if errors.Is(err, io.EOF) || err == nil && b.BaseOffset >= bound {
			break
		}
		if err != nil {
			return timeInfo{}, fmt.Errorf("segment %s at byte %d: %w", s.file, p, err)
		}
		if b.MaxTimestamp > floor && b.Count > 0 {
			best, at, has, floor = b, p, true, b.MaxTimestamp
		}
	}
	if !has {
		return timeInfo{}, nil
	}
	info, err := firstInBatch(h.f, &best, at, v.start, func(t int64) bool { return t >= best.MaxTimestamp })
	if err != nil {
		return timeInfo{}, fmt.Errorf("segment %s at byte %d: %w", s.file, at, err)
	}
	return info, nil
}

// firstInBatch reads the batch at pos and finds its first record at or above start whose time fits.
func firstInBatch(r io.ReaderAt, h *record.Header, pos, start int64, fits func(ts int64) bool) (timeInfo, error) {
	buf := getBuf(int(h.Size()))
	defer putBuf(buf)
	b := (*buf)[:h.Size()]
	if err := readFull(r, b, pos); err != nil {
		return timeInfo{}, err
	}
	var records record.RecordReader
	if err := records.Reset(h, b); err != nil {
		return timeInfo{}, err
	}
	for records.Next() {
		if rec := &records.Record; rec.Offset >= start && fits(rec.Timestamp) {
			return timeInfo{offset: rec.Offset, timestamp: rec.Timestamp, epoch: h.LeaderEpoch, found: true}, nil
		}
	}
	return timeInfo{}, records.Err()
}
