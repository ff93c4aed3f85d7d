package logstore

import (
	"fmt"
	"time"
)

// Flush makes everything appended so far durable and returns the offset below which that is true. Appends go on
// meanwhile. A failed fsync takes the directory offline for ever.
func (l *Log) Flush() (flushed int64, err error) {
	l.slow.Lock()
	defer l.slow.Unlock()
	if err := l.usable(); err != nil {
		return l.flushed.Load(), err
	}
	return l.flush(false)
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
	epochDirty, dirDirty := l.epochDirty, l.dirDirty
	l.epochDirty, l.dirDirty = false, false
	if !sealedOnly {
		l.unsynced = time.Time{} // bytes that come from now on are timed anew
	}
	l.mu.Unlock()
	from, target := l.flushed.Load(), v.end
	if sealedOnly {
		target = max(from, v.active().base)
	}
	err := l.syncParts(v, from, target, epochDirty, dirDirty)
	if err != nil {
		return from, l.place("flush", l.dir.failed(err))
	}
	l.flushed.Store(target)
	return target, nil
}

func (l *Log) syncParts(v *view, from, target int64, epochs, names bool) error {
	for i, s := range v.segs {
		_, end := v.extent(i)
		if end <= from || s.base >= target {
			continue
		}
		if err := l.syncSegment(s); err != nil {
			return err
		}
	}
	if epochs {
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
	if epochs || names {
		return syncDir(l.dir.fs, l.path)
	}
	return nil
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
