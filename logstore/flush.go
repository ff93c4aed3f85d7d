package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// Flush makes everything appended so far durable and returns the offset below which that is true. Appends go on
// meanwhile. One flush of a log runs at a time, and those that wait for it share the next one: each returns without an
// fsync of records where another has covered them. A failed fsync takes the directory offline for ever.
func (l *Log) Flush() (flushed int64, err error) { return l.flushTo(l.EndOffset()) }

// flushTo is Flush for who asked when the log ended at asked.
func (l *Log) flushTo(asked int64) (flushed int64, err error) {
	l.slow.Lock()
	defer l.slow.Unlock()
	if err := l.usable(); err != nil {
		return l.flushed.Load(), err
	}
	if flushed = l.flushed.Load(); flushed >= min(asked, l.EndOffset()) && !l.owes() {
		return flushed, nil // what came since is for those who wait behind
	}
	defer l.note()
	return l.flush(false)
}

// owes says that an fsync is due to more than records: the epochs' file.
func (l *Log) owes() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dirty.epochs
}

// flushDue flushes where flush.messages asks for it.
func (l *Log) flushDue(cfg *LogConfig) error {
	if cfg.FlushMessages <= 0 || l.EndOffset()-l.flushed.Load() < cfg.FlushMessages {
		return nil
	}
	_, err := l.Flush()
	return err
}

// flush syncs segments, epochs and directory, with sealedOnly up to the active segment. slow is held.
func (l *Log) flush(sealedOnly bool) (int64, error) {
	l.mu.Lock()
	v := l.view.Load()
	dirty := l.dirty
	l.dirty = dirtyFiles{}
	if !sealedOnly {
		l.unsynced = time.Time{} // bytes that come from now on are timed anew
	}
	l.mu.Unlock()
	from, target := l.flushed.Load(), v.end
	if sealedOnly {
		target = max(from, v.active().base)
	}
	err := l.syncParts(v, from, target, dirty)
	if err != nil {
		l.mu.Lock()
		l.dirty.add(dirty) // still to do, should the directory go on
		l.mu.Unlock()
		return from, l.place("flush", l.dir.failed(err))
	}
	l.flushed.Store(target)
	return target, nil
}

// dirtyFiles is what waits for an fsync beside the bytes above the flushed offset.
type dirtyFiles struct {
	epochs bool // the epoch file was replaced
	names  bool // files came or went
}

// add takes over what other has to do. mu is held.
func (d *dirtyFiles) add(other dirtyFiles) {
	d.epochs, d.names = d.epochs || other.epochs, d.names || other.names
}

func (l *Log) syncParts(v *view, from, target int64, dirty dirtyFiles) error {
	for i, s := range v.segs {
		_, end := v.extent(i)
		if end <= from || s.base >= target {
			continue
		}
		began := l.dir.now()
		if err := l.syncSegment(s); errors.Is(err, fs.ErrNotExist) && !l.holds(s) {
			continue // an empty one, moved meanwhile to where the leader's first batch begins
		} else if err != nil {
			return err
		}
		if l.dir.opt.OnSync != nil {
			l.dir.opt.OnSync(l.dir.now().Sub(began))
		}
	}
	if dirty.epochs {
		f, err := l.dir.fs.Open(l.file(epochFile))
		if err != nil {
			return err
		}
		err = syncFile(f)
		f.Close()
		if err != nil {
			return err
		}
	}
	if dirty.epochs || dirty.names {
		return syncDir(l.dir.fs, l.path)
	}
	return nil
}

// holds says that s is still a segment of the log, in the present life of its file.
func (l *Log) holds(s *segment) bool {
	return slices.ContainsFunc(l.view.Load().segs, func(x *segment) bool { return x.key() == s.key() })
}

func (l *Log) syncSegment(s *segment) error {
	if h := s.active; h != nil && h.acquire() {
		defer h.release()
		return syncFile(h.f)
	}
	h, err := l.dir.handles.acquire(s.key())
	if err != nil {
		return fmt.Errorf("open %s: %w", s.file, err)
	}
	defer h.release()
	return syncFile(h.f)
}
