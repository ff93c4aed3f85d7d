package logstore

import (
	"fmt"
	"sync/atomic"
	"time"

	"cordwood/logstore/record"
)

// roll seals the active segment and begins one at base. mu is held. After an error nothing has changed.
func (l *Log) roll(base int64) error {
	v := l.view.Load()
	old := v.active()
	if l.config.Load().Disk && l.flushed.Load() < v.end {
		if err := l.anchor(old); err != nil {
			return l.place("roll", l.dir.failed(err))
		}
	}
	l.idx.addTime()
	if err := l.writeIndexes(old, &l.idx); err != nil {
		return l.place("roll", err)
	}
	if err := l.writeSnapshot(base); err != nil {
		return l.place("roll", err)
	}
	next, err := l.createSegment(base)
	if err != nil {
		return l.place("roll", err)
	}
	sealed := &segment{base: old.base, life: old.life, file: old.file, size: v.size, end: v.end, maxTS: l.idx.maxTS,
		exactTS: l.idx.exact, indexLife: old.indexLife, aborted: len(l.aborted)}
	// In the cache before readers see it as sealed: a file has one handle, or a cut could not tell who reads it.
	if other := l.dir.handles.put(old.key(), old.active); other != nil {
		panic("logstore: a second handle of the active segment " + old.file)
	}
	l.publish(func(v *view) {
		segs := make([]*segment, len(v.segs), len(v.segs)+1)
		copy(segs, v.segs)
		segs[len(segs)-1] = sealed
		v.segs = append(segs, next)
		v.sealed += v.size
		v.size, v.index, v.recent = 0, nil, nil
	})
	l.resetActive(next)
	l.note()
	return nil
}

// anchor makes the active segment and its name durable, before anything of the next one can be: a power cut that left
// that one and took the end of this would look like damage. It is done once a segment, so that appends may wait for it.
// mu is held.
func (l *Log) anchor(active *segment) error {
	if err := l.syncSegment(active); err != nil {
		return err
	}
	if !l.dirty.names {
		return nil
	}
	l.dirty.names = false
	return syncDir(l.dir.fs, l.path)
}

// resetActive begins the state of an empty active segment. mu is held.
func (l *Log) resetActive(s *segment) {
	l.idx = newIndexer(s.base, l.config.Load().IndexIntervalBytes)
	l.firstTS, l.opened, l.aborted = record.NoTimestamp, time.Time{}, nil
}

// createSegment makes the empty file of a segment. Its name is not durable yet.
func (l *Log) createSegment(base int64) (*segment, error) {
	s := &segment{base: base, file: segmentPath(l.path, base, logSuffix), life: l.dir.lives.Add(1), maxTS: record.NoTimestamp, indexLife: new(atomic.Uint64)}
	f, err := l.dir.fs.Create(s.file)
	if err != nil {
		return nil, l.dir.failed(fmt.Errorf("create %s: %w", s.file, err))
	}
	s.active = newHandle(f)
	l.dirty.names = true
	return s, nil
}

// writeIndexes replaces the two index files of a segment, without fsync: they can be made anew.
func (l *Log) writeIndexes(s *segment, x *indexer) error {
	if err := replaceFile(l.dir.fs, s.sibling(indexSuffix), encodeIndex(x.index), false); err != nil {
		return l.dir.failed(err)
	}
	if err := replaceFile(l.dir.fs, s.sibling(timeSuffix), encodeTimeIndex(x.times), false); err != nil {
		return l.dir.failed(err)
	}
	s.indexLife.Store(l.dir.lives.Add(1))
	return nil
}

// writeSnapshot writes the producer state as of offset, without fsync: it has a checksum and can be made anew.
func (l *Log) writeSnapshot(offset int64) error {
	return l.dir.failed(replaceFile(l.dir.fs, segmentPath(l.path, offset, snapshotSuffix), encodeSnapshot(&l.producers), false))
}

// reindex makes a sealed segment's index files anew from its batches. Readers call it when they met an index that does
// not fit; it does its work once however many call, and a failure leaves them to search without an index. The active
// segment's index is memory and cannot be wrong.
func (l *Log) reindex(s *segment, active bool) {
	if active {
		return
	}
	before := s.indexLife.Load()
	l.slow.Lock()
	defer l.slow.Unlock()
	if s.indexLife.Load() != before || l.usable() != nil {
		return
	}
	l.dir.logger.Warn("index of a segment does not fit its batches and is made anew", "segment", s.file)
	h, err := l.dir.handles.acquire(s.key())
	if err != nil {
		return
	}
	defer h.release()
	x := newIndexer(s.base, l.config.Load().IndexIntervalBytes)
	if _, err := x.indexRange(h.f, 0, s.size, nil); err != nil {
		return
	}
	x.addTime()
	if err := l.writeIndexes(s, &x); err != nil {
		l.dir.logger.Warn("index of a segment was not written", "segment", s.file, "err", err)
	}
}
