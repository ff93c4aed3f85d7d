package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"cordwood/fsm/mutant"
	"cordwood/logstore/record"
)

// RaiseStart moves the log start up to start, durably, and lets segments go that end at or below it. Where start is not
// above the present one nothing happens. The caller sees to it that start is not above the high watermark.
func (l *Log) RaiseStart(start int64) error {
	l.slow.Lock()
	defer l.slow.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	return l.raiseStart(start)
}

// raiseStart is RaiseStart with slow held.
func (l *Log) raiseStart(start int64) error {
	v := l.view.Load()
	if start <= v.start {
		return nil
	}
	if start > v.end {
		return l.place("raise the start of", fmt.Errorf("%w: %d is above the end %d", record.ErrOffsetOutOfRange, start, v.end))
	}
	s := *l.start.Load()
	s.startEpoch, s.start = l.EpochAt(start-1), start
	if err := l.writeState(s); err != nil { // before any segment goes: the pair must survive
		return err
	}
	l.mu.Lock()
	if l.hw.Load() < start {
		l.hw.Store(start)
	}
	l.note()
	gone, err := l.dropBelow(start)
	l.mu.Unlock()
	if err != nil {
		return err
	}
	return l.discard(gone)
}

// dropBelow takes segments that end at or below start out of the view; a log of which nothing is left gets a new, empty
// segment. mu is held.
func (l *Log) dropBelow(start int64) (gone []*segment, err error) {
	v := l.view.Load()
	if v.end <= start && v.size > 0 {
		if err := l.roll(v.end); err != nil {
			return nil, err
		}
		v = l.view.Load()
	}
	n := 0
	for n < len(v.segs)-1 && v.segs[n+1].base <= start {
		n++
	}
	gone = v.segs[:n]
	l.publish(func(v *view) {
		v.start, v.segs = start, append([]*segment{}, v.segs[n:]...)
		for _, s := range gone {
			v.sealed -= s.size
		}
	})
	// The epochs' file may keep what is below the start; it is cut with the next change.
	if es, changed := l.epochs.Load().cutStart(start); changed {
		if err := l.writeEpochs(es, l.config.Load().Disk); err != nil {
			return nil, err
		}
	}
	return gone, nil
}

// discard renames the files of segments that left the log; Tick removes them after file.delete.delay. slow is held.
func (l *Log) discard(gone []*segment) error {
	if len(gone) == 0 {
		return nil
	}
	l.mu.Lock()
	l.dirty.names = true
	l.mu.Unlock()
	due := l.dir.now().Add(time.Duration(l.config.Load().FileDeleteDelayMS) * time.Millisecond)
	start := l.view.Load().segs[0].base
	for _, s := range gone {
		l.dir.handles.drop(s.key())
		l.dir.handles.drop(s.indexKey())
		l.dir.handles.drop(s.timeKey())
		for _, suffix := range []string{logSuffix, indexSuffix, timeSuffix, txnSuffix} {
			name := s.sibling(suffix)
			if err := l.dir.fs.Rename(name, name+deletedSuffix); err != nil {
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				return l.place("retire a segment of", l.dir.failed(err))
			}
			l.dir.removeLater(name+deletedSuffix, due)
		}
	}
	return l.removeSnapshots(func(o int64) bool { return o < start })
}

// tick does what is due at now: seals an idle segment, flushes, forgets producers that were idle for long by the time aged.
func (l *Log) tick(now, aged time.Time) error {
	if l.writable() != nil {
		return nil //nolint:nilerr // closing, or the directory failed: it tells
	}
	cfg := l.config.Load()
	if err := l.rollIdle(cfg, now); err != nil {
		return err
	}
	if l.flushAge(cfg, now) {
		if _, err := l.Flush(); err != nil {
			return err
		}
	}
	l.expireProducers(cfg, now, aged)
	return nil
}

// rollIdle seals a segment that nobody wrote to for longer than segment.ms since it got its first batch.
func (l *Log) rollIdle(cfg *LogConfig, now time.Time) error {
	if cfg.SegmentMS <= 0 || l.view.Load().size == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.view.Load()
	if v.size == 0 || now.Sub(l.opened).Milliseconds() <= cfg.SegmentMS {
		return nil
	}
	return l.roll(v.end)
}

func (l *Log) flushAge(cfg *LogConfig, now time.Time) bool {
	if cfg.FlushMS <= 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flushed.Load() >= l.EndOffset() { // flushed by somebody else, or cut
		l.unsynced = time.Time{}
		return false
	}
	return !l.unsynced.IsZero() && now.Sub(l.unsynced).Milliseconds() >= cfg.FlushMS
}

// producerSweep is how often idle producers are looked for.
const producerSweep = 10 * time.Minute

func (l *Log) expireProducers(cfg *LogConfig, now, aged time.Time) {
	if cfg.ProducerExpirationMS <= 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.producers.byID) > 0 && now.Sub(l.swept) >= producerSweep {
		l.swept = now
		l.producers.expire(aged.UnixMilli() - cfg.ProducerExpirationMS)
	}
}

// retain applies retention.bytes and retention.ms: whole segments from the oldest on, never one that reaches above the
// high watermark.
func (l *Log) retain(now time.Time) error {
	cfg := l.config.Load()
	if !cfg.CleanupDelete || cfg.RetentionBytes < 0 && cfg.RetentionMS < 0 {
		return nil
	}
	l.slow.Lock()
	defer l.slow.Unlock()
	if l.writable() != nil {
		return nil
	}
	v := l.view.Load()
	hw := l.hw.Load()
	excess := v.sealed + v.size - cfg.RetentionBytes
	start := v.start
	for i := range v.segs {
		size, end := v.extent(i)
		if end > hw || size == 0 {
			break
		}
		tooMuch := cfg.RetentionBytes >= 0 && excess >= size
		if !tooMuch {
			old, err := l.tooOld(v, i, cfg, now)
			if err != nil {
				return err
			}
			if !old {
				break
			}
		}
		excess -= size
		start = end
		if i < len(v.segs)-1 {
			start = v.segs[i+1].base
		}
	}
	if start == v.start {
		return nil
	}
	l.dir.logger.Info("segments leave the log by retention", "topic", l.tp.topic, "partition", l.tp.partition, "from", v.start, "to", start)
	return l.raiseStart(start)
}

// tooOld says that the newest record of segment i is older than retention.ms. A time index may have lost its end, so
// before a segment goes its batches are asked.
func (l *Log) tooOld(v *view, i int, cfg *LogConfig, now time.Time) (bool, error) {
	if cfg.RetentionMS < 0 {
		return false, nil
	}
	oldest := now.UnixMilli() - cfg.RetentionMS
	s := v.segs[i]
	size, _ := v.extent(i)
	if s.active != nil || s.exactTS {
		ts := s.maxTS
		if s.active != nil {
			l.mu.Lock()
			ts = l.idx.maxTS
			l.mu.Unlock()
		}
		if ts != record.NoTimestamp {
			return ts < oldest, nil
		}
	} else if s.maxTS != record.NoTimestamp && s.maxTS >= oldest {
		return false, nil
	}
	h, err := l.open(v, i)
	if err != nil {
		return false, l.place("retain", err)
	}
	defer h.release()
	x := newIndexer(s.base, l.config.Load().IndexIntervalBytes)
	if _, err := x.indexRange(h.f, 0, size, nil); err != nil {
		return false, l.place("retain", err)
	}
	if x.maxTS != record.NoTimestamp {
		return x.maxTS < oldest, nil
	}
	info, err := l.dir.fs.Stat(s.file)
	if err != nil {
		return false, l.place("retain", err)
	}
	return info.ModTime().UnixMilli() < oldest, nil
}

// SetLoss notes that the loss of epoch was acted on, and the high watermark that counts from now on, both durable on
// return: what the checkpoint says of an older high watermark holds no more.
func (l *Log) SetLoss(epoch int32, hw int64) error {
	l.slow.Lock()
	defer l.slow.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	s := l.onDisk()
	s.generation++
	s.loss, s.hw, s.flushed = epoch, hw, min(s.flushed, l.EndOffset())
	if err := l.writeState(s); err != nil {
		return err
	}
	l.hw.Store(hw)
	l.recalled.Store(hw)
	l.note()
	return nil
}

// BecomeLeader notes that this log is led in epoch from its end on. It is on disk when the call returns.
func (l *Log) BecomeLeader(epoch int32) error {
	if err := l.writable(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if mutant.LostProducers {
		l.producers.byID = nil
	}
	es, changed := l.epochs.Load().assign(epoch, l.view.Load().end)
	if !changed {
		return nil
	}
	return l.writeEpochs(es, l.config.Load().Disk)
}
