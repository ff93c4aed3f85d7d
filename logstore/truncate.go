package logstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"cordwood/fsm/mutant"
	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

// Truncate cuts the log so that it ends at end or, where end lies inside a batch, before that batch: EndOffset tells.
// Epochs that begin at or after the new end go too, also where no byte is cut. Bytes that a Span refers to stay as they
// are: a file somebody reads is replaced by a shorter copy. Claims of the checkpoint above the cut are withdrawn durably
// before bytes go, and the cut itself is durable on return. Cutting below the log start is an error;
// whether the cut is allowed (never below the high watermark, but after a flagged loss) is the caller's to know.
func (l *Log) Truncate(end int64) error {
	l.slow.Lock()
	defer l.slow.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	defer l.dir.agenda.wake(l, time.Time{}) // another segment may be the active one
	v := l.view.Load()
	if end < v.start {
		return l.place("truncate", fmt.Errorf("%w: %d is below the log start %d", record.ErrOffsetOutOfRange, end, v.start))
	}
	if end >= v.end {
		return l.cutEpochs(end)
	}
	i, pos, at, err := l.cutPoint(v, end)
	if err != nil {
		return l.place("truncate", err)
	}
	if at <= v.start { // nothing that may be read is left; the next batch may begin below the start
		if err := l.withdraw(v.start); err != nil {
			return err
		}
		return l.empty(v.start)
	}
	if err := l.withdraw(at); err != nil {
		return err
	}
	if err := l.cutTo(v, i, pos, at); err != nil {
		return l.place("truncate", err)
	}
	return nil
}

// cutPoint finds the segment, byte and offset of the first batch that ends after end. What stands behind a batch that
// ends there need not be whole: it goes. What stays is not read through, but the headers on the way must agree with
// each other and with the index, and the batch that reaches to end or over it must be whole: a bit that rotted in a
// length or an offset must not decide what goes. errBroken where they do not.
func (l *Log) cutPoint(v *view, end int64) (i int, pos, at int64, err error) {
	i = v.find(end)
	base := v.segs[i].base
	if end <= base {
		return i, 0, base, nil
	}
	h, err := l.open(v, i)
	if err != nil {
		return 0, 0, 0, l.dir.failed(err)
	}
	defer h.release()
	// From the last indexed batch that stays: what begins at end may be the damage that is to go. A sealed segment is read from
	// its start, since slow is held and an index file that does not fit could not be repaired here.
	size, _ := v.extent(i)
	w := newWalker(h.f, 0, size)
	defer w.close()
	reached, indexed := base, record.NoOffset // indexed: what the index says of the first batch's last offset
	if e, ok := floorEntry(v.index, uint32(end-base-1)); ok && i == len(v.segs)-1 && e.pos > 0 {
		w.pos, reached, indexed = int64(e.pos), record.NoOffset, base+int64(e.rel)
	}
	holes := l.start.Load().holes
	broken := func(p int64, why error) error {
		return fmt.Errorf("segment %s at byte %d: %w", v.segs[i].file, p, why)
	}
	for {
		b, p, err := w.next()
		if errors.Is(err, io.EOF) && reached != record.NoOffset && reached < holes {
			return i, p, end, nil // compaction took what stood here
		}
		if errors.Is(err, io.EOF) {
			err = errBroken
		}
		if err != nil {
			return 0, 0, 0, broken(p, err)
		}
		switch {
		case reached == record.NoOffset && b.LastOffset() != indexed,
			reached != record.NoOffset && (b.BaseOffset < reached || b.BaseOffset > reached && reached >= holes):
			return 0, 0, 0, broken(p, errBroken)
		case b.BaseOffset >= end: // compaction left a hole where the log is to end
			return i, p, end, nil
		case b.EndOffset() >= end:
			_, kind, err := checkBatch(&window{r: h.f, buf: make([]byte, walkLarge), size: size}, p)
			if err != nil {
				return 0, 0, 0, l.dir.failed(broken(p, err))
			}
			if kind != breakNone {
				return 0, 0, 0, broken(p, errBroken)
			}
			if b.EndOffset() == end {
				return i, w.pos, end, nil
			}
			return i, p, b.BaseOffset, nil
		}
		reached = b.EndOffset()
	}
}

// withdraw lowers what the checkpoint claims of the log to at most end, durably, before bytes above it go: a crash in
// between must not look like damage. slow is held.
func (l *Log) withdraw(end int64) error {
	if l.flushed.Load() > end {
		l.flushed.Store(end)
	}
	if l.hw.Load() > end {
		l.hw.Store(end)
	}
	if l.recalled.Load() > end {
		l.recalled.Store(end)
	}
	l.note()
	s := l.onDisk()
	if s.hw <= end && s.flushed <= end {
		return nil
	}
	s.generation++
	s.hw, s.flushed = min(s.hw, end), min(s.flushed, end)
	return l.writeState(s)
}

// onDisk is the log's state with what a restart now would take for its high watermark and recovery point. slow is held.
func (l *Log) onDisk() logState {
	s := *l.start.Load()
	if claim := l.dir.claimed(l.id); claim.generation >= s.generation {
		s.hw, s.flushed, s.generation = claim.hw, claim.flushed, claim.generation
	}
	return s
}

// cutEpochs forgets epochs from end on. mu is held.
func (l *Log) cutEpochs(end int64) error {
	es, changed := l.epochs.Load().cutEnd(end)
	if !changed {
		return nil
	}
	return l.writeEpochs(es, l.config.Load().Disk)
}

// cutTo cuts segment i at byte pos, where the log then ends at offset at, and removes all later ones, the last one
// first, so that no moment leaves a hole. slow and mu are held.
func (l *Log) cutTo(v *view, i int, pos, at int64) error {
	if err := l.beginCut(); err != nil {
		return err
	}
	l.cuts.Add(1) // from here on readers that hold the old view look again
	for j := len(v.segs) - 1; j > i; j-- {
		if err := l.removeSegment(v.segs[j]); err != nil {
			return err
		}
	}
	seg, err := l.cutSegment(v.segs[i], pos)
	if err != nil {
		return l.dir.offline(err) // half cut: nothing in memory fits the files any more
	}
	if err := l.removeSnapshots(func(offset int64) bool { return offset > at }); err != nil {
		return l.dir.offline(err)
	}
	segs := append(append([]*segment{}, v.segs[:i]...), seg)
	if err := l.reopenActive(segs, v.start, pos, at, len(segs)); err != nil {
		return l.dir.offline(err)
	}
	if err := l.cutEpochs(at); err != nil {
		return err
	}
	return l.endCut(seg)
}

// beginCut notes that bytes are about to go, until endCut. Where the process ends in between, the next one meets the note
// and makes durable what it finds. The note need not be durable itself: after the loss of power there is only what is.
func (l *Log) beginCut() error {
	f, err := l.dir.fs.Create(l.file(cutMark))
	if err == nil {
		err = f.Close()
	}
	return l.dir.failed(err)
}

// endCut makes a cut durable that left seg as the last segment, whatever the topic's records wait for: with the power, a
// part of what is written later would go and what was cut stand there again, older records before newer ones that never
// followed them, and no checksum nor epoch tells that from a log which was ever written.
func (l *Log) endCut(seg *segment) error {
	if !mutant.TruncNoDirSync {
		if err := syncFile(seg.active.f); err != nil {
			return l.dir.failed(err)
		}
		if err := syncDir(l.dir.fs, l.path); err != nil {
			return l.dir.failed(err)
		}
	}
	l.dirty.names = false
	err := l.dir.failed(l.dir.fs.Remove(l.file(cutMark)))
	if errors.Is(err, record.ErrDirFull) {
		return nil // the cut is done; a note that stays costs the next start an fsync
	}
	return err
}

// removeSegment unlinks a segment's files at once. Readers that hold it keep it.
func (l *Log) removeSegment(s *segment) error {
	l.dir.handles.drop(s.key())
	l.dir.handles.drop(s.indexKey())
	l.dir.handles.drop(s.timeKey())
	if s.active != nil {
		s.active.shut()
		s.active.release()
	}
	for _, suffix := range []string{logSuffix, indexSuffix, timeSuffix, txnSuffix} {
		if err := l.dir.fs.Remove(s.sibling(suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return l.dir.failed(fmt.Errorf("remove %s: %w", s.sibling(suffix), err))
		}
	}
	return nil
}

// cutSegment cuts a segment's file at byte pos and returns it as an active one: in place where nobody reads it, else by
// a shorter copy that takes its name.
func (l *Log) cutSegment(s *segment, pos int64) (*segment, error) {
	var f vfs.File
	var unread bool
	if s.active != nil {
		if unread = s.active.shut() || mutant.ZeroCopyNoGate; unread {
			f = s.active.f
		} else {
			s.active.release()
		}
	} else {
		unread = l.dir.handles.drop(s.key()) || mutant.ZeroCopyNoGate
	}
	l.dir.handles.drop(s.indexKey())
	l.dir.handles.drop(s.timeKey())
	var err error
	if unread && f == nil {
		f, err = l.dir.fs.OpenReadWrite(s.file)
	} else if !unread {
		f, err = l.shorterCopy(s.file, pos)
	}
	if err != nil {
		return nil, err
	}
	if unread {
		if err := f.Truncate(pos); err != nil {
			f.Close()
			return nil, fmt.Errorf("cut %s: %w", s.file, err)
		}
	}
	next := *s
	next.life, next.active, next.size, next.end, next.exactTS = l.dir.lives.Add(1), newHandle(f), 0, 0, false
	for _, suffix := range []string{indexSuffix, timeSuffix} { // the active segment's stand in memory
		if err := l.dir.fs.Remove(s.sibling(suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.Close()
			return nil, err
		}
	}
	next.indexLife.Store(l.dir.lives.Add(1))
	return &next, nil
}

// shorterCopy replaces a file by a copy of its first pos bytes and leaves the old one to those who hold it.
func (l *Log) shorterCopy(name string, pos int64) (vfs.File, error) {
	from, err := l.dir.fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	to, err := l.dir.fs.Create(name + cutSuffix)
	if err != nil {
		return nil, err
	}
	buf := getBuf(pieceMax)
	defer putBuf(buf)
	for at := int64(0); at < pos && err == nil; {
		b := (*buf)[:min(pos-at, pieceMax)]
		if err = readFull(from, b, at); err == nil {
			_, err = to.WriteAt(b, at)
		}
		at += int64(len(b))
	}
	if err == nil {
		// Durable before it takes the name: a crash must not swap flushed bytes for unflushed ones.
		err = syncFile(to)
	}
	if err == nil {
		err = l.dir.fs.Rename(name+cutSuffix, name)
	}
	if err != nil {
		to.Close()
		return nil, fmt.Errorf("copy %s: %w", name, err)
	}
	return to, nil
}

// Reset empties the log and begins it at start, whose preceding record, somewhere, is of startEpoch. Start and epoch are
// durable on return. The high watermark goes to start as well; it may go back, as the log start may: the caller decides.
func (l *Log) Reset(start int64, startEpoch int32) error {
	l.slow.Lock()
	defer l.slow.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	defer l.dir.agenda.wake(l, time.Time{})
	s := l.onDisk()
	s.generation++
	s.start, s.startEpoch, s.hw, s.flushed, s.holes = start, startEpoch, start, start, 0
	if err := l.writeState(s); err != nil {
		return err
	}
	l.flushed.Store(start)
	l.hw.Store(start)
	l.recalled.Store(start)
	l.note()
	return l.empty(start)
}

// empty removes every segment and begins one at base. The state file says already where the log starts. slow and mu are
// held; a failure half way takes the directory offline.
func (l *Log) empty(base int64) error {
	v := l.view.Load()
	if err := l.beginCut(); err != nil {
		return err
	}
	l.cuts.Add(1)
	for j := len(v.segs) - 1; j >= 0; j-- {
		if err := l.removeSegment(v.segs[j]); err != nil {
			return l.place("empty", l.dir.offline(err))
		}
	}
	if err := l.removeSnapshots(func(int64) bool { return true }); err != nil {
		return l.place("empty", l.dir.offline(err))
	}
	next, err := l.createSegment(base)
	if err != nil {
		return l.place("empty", l.dir.offline(err))
	}
	if err := l.reopenActive([]*segment{next}, l.start.Load().start, 0, base, 1); err != nil {
		return l.place("empty", l.dir.offline(err))
	}
	if err := l.writeEpochs(nil, true); err != nil {
		return err
	}
	return l.endCut(next)
}

// rebase moves the one empty segment of an empty log down to base: the leader's first batch begins below the log start.
// mu is held.
func (l *Log) rebase(base int64) error {
	v := l.view.Load()
	old := v.active()
	next, err := l.createSegment(base)
	if err != nil {
		return err
	}
	l.cuts.Add(1)
	if err := l.removeSegment(old); err != nil {
		return l.dir.offline(err)
	}
	l.publish(func(v *view) {
		v.segs, v.end, v.cuts = []*segment{next}, base, l.cuts.Load()
	})
	l.resetActive(next)
	return nil
}
