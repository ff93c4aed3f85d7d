package logstore

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"cordwood/logstore/record"
)

// Open carries out a judgement: it cuts what has to go, makes good what can be made from the batches (indexes, producer
// state, transaction indexes) and returns the log. A damaged log opens as Damaged, for repair from its leader. Found is
// used up. Called before the cluster's metadata was replayed it would destroy evidence: see the package comment.
func (f *Found) Open(cfg LogConfig, j Judgement) (*Log, error) {
	l := newLog(f.dir, f.path, f.tp, f.ID, cfg)
	l.start.Store(&f.state)
	if err := l.openFound(f, j); err != nil {
		return nil, l.place("open", err)
	}
	if err := f.dir.adopt(l); err != nil {
		l.release()
		return nil, err
	}
	if j.Damaged {
		l.damage(errors.New(j.Reason))
	}
	return l, nil
}

func newLog(d *Dir, dir string, tp topicPartition, id record.PartitionID, cfg LogConfig) *Log {
	l := &Log{dir: d, path: dir, tp: tp, id: id}
	l.config.Store(&cfg)
	l.epochs.Store(&epochs{})
	l.start.Store(&logState{startEpoch: record.NoEpoch})
	l.swept = d.now()
	return l
}

func (l *Log) openFound(f *Found, j Judgement) (err error) {
	cut, err := l.removeLeftovers()
	if err != nil {
		return err
	}
	if f.halfMade {
		if err := l.dir.failed(replaceFile(l.dir.fs, l.file(partitionFile), encodePartitionMetadata(l.id.Topic), true)); err != nil {
			return err
		}
	}
	hw := f.surelyCommitted(j)
	if j.Cut || f.end < f.hints.flushed || f.end < f.hints.hw || hw < f.hints.hw {
		// The claims above the end are answered for; a second crash must not meet them again.
		s := f.state
		s.generation = max(s.generation, f.hints.generation) + 1
		s.hw, s.flushed = min(hw, f.end), min(f.hints.flushed, f.end)
		if err := l.writeState(s); err != nil {
			return err
		}
	}
	if !f.hosted {
		s := *l.start.Load()
		s.holes = f.end // from here on the log is ours and has none, and its claims stand in our files
		s.generation, s.hw, s.flushed = max(s.generation, 1), min(hw, f.end), min(f.hints.flushed, f.end)
		if err := l.writeState(s); err != nil {
			return err
		}
	}
	for _, base := range f.retired {
		if err := l.removeSegment(l.foundSegment(base, 0)); err != nil {
			return err
		}
	}
	if j.Cut && !cut {
		if err := l.beginCut(); err != nil {
			return err
		}
		cut = true
	}
	segs, size, err := l.cutFound(f, j)
	defer func() {
		if err != nil && len(segs) > 0 { // somebody may look again at what does not open
			segs[len(segs)-1].active.release()
		}
	}()
	if err != nil {
		return err
	}
	start := l.start.Load().start
	end, es := f.end, f.epochs
	if len(segs) == 0 || end < start || end == start && size > 0 { // nothing is left that may be read
		if !cut && len(segs) > 0 {
			if err := l.beginCut(); err != nil {
				return err
			}
			cut = true
		}
		for _, s := range slices.Backward(segs) {
			if err := l.removeSegment(s); err != nil {
				return err
			}
		}
		seg, err := l.createSegment(start)
		if err != nil {
			return err
		}
		segs, size, end, es = []*segment{seg}, 0, start, nil
	}
	for len(es) > 0 && es[len(es)-1].start > end {
		es = es[:len(es)-1]
	}
	if !slices.Equal(es, f.onDisk) {
		if err := l.writeEpochs(es, true); err != nil {
			return err
		}
	} else {
		l.epochs.Store(&es)
	}
	rebuild := l.firstToRebuild(f, segs)
	if !f.clean { // what the process before did may still be only in the operating system's memory
		l.dirty.epochs = l.dirty.epochs || len(f.onDisk) > 0
		l.dirty.names = true
	}
	if cut {
		if err := l.endCut(segs[len(segs)-1]); err != nil {
			return err
		}
	}
	if err := l.reopenActive(segs, start, size, end, rebuild); err != nil {
		return err
	}
	l.hw.Store(min(max(hw, start), end))
	l.recalled.Store(min(max(f.hints.hw, start), end))
	l.flushed.Store(min(max(f.hints.flushed, start), end))
	if f.clean {
		l.flushed.Store(end)
		return nil
	}
	if err := l.tidySnapshots(segs, start, end); err != nil {
		return err
	}
	if cfg := l.config.Load(); cfg.Disk {
		_, err := l.flush(false)
		return err
	}
	return nil
}

// firstToRebuild is the first segment whose transaction index is made anew: those that were scanned.
func (l *Log) firstToRebuild(f *Found, segs []*segment) int {
	if f.clean {
		return len(segs)
	}
	i := 0
	for i < len(segs)-1 && segs[i+1].base <= f.hints.flushed {
		i++
	}
	return i
}

// removeLeftovers takes away what an interrupted change left behind. cut says that it was a cut, which is not durable.
func (l *Log) removeLeftovers() (cut bool, err error) {
	entries, err := l.dir.fs.ReadDir(l.path)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		n := e.Name()
		cut = cut || n == cutMark
		if strings.HasSuffix(n, deletedSuffix) || strings.HasSuffix(n, cutSuffix) || strings.HasSuffix(n, tmpSuffix) {
			if err := l.dir.fs.Remove(l.file(n)); err != nil {
				return false, l.dir.failed(err)
			}
		}
	}
	return cut, nil
}

// cutFound removes what lies behind the break, the last segment first, and makes the segments that stay. size is the
// bytes of the last one.
func (l *Log) cutFound(f *Found, j Judgement) (segs []*segment, size int64, err error) {
	keep := len(f.segs)
	if j.Cut {
		keep = f.at + 1
		if f.kind == breakGap {
			keep = f.at
		}
		for i := len(f.segs) - 1; i >= keep; i-- {
			if err := l.removeSegment(l.foundSegment(f.segs[i].base, 0)); err != nil {
				return nil, 0, err
			}
		}
	}
	for i, s := range f.segs[:keep] {
		seg := l.foundSegment(s.base, s.size)
		segs = append(segs, seg)
		if i < keep-1 {
			continue
		}
		size = s.size
		if j.Cut && f.kind != breakGap {
			size = f.pos
		}
	}
	if len(segs) == 0 {
		return nil, 0, nil
	}
	last := segs[len(segs)-1]
	file, err := l.dir.fs.OpenReadWrite(last.file)
	if err != nil {
		return nil, 0, err
	}
	if size < last.size {
		if err := file.Truncate(size); err != nil {
			file.Close()
			return nil, 0, l.dir.failed(err)
		}
	}
	last.active = newHandle(file)
	last.size = 0
	return segs, size, l.checkSealed(f, segs)
}

// foundSegment is a segment that lies on disk.
func (l *Log) foundSegment(base, size int64) *segment {
	return &segment{base: base, life: l.dir.lives.Add(1), file: segmentPath(l.path, base, logSuffix), size: size, maxTS: record.NoTimestamp, indexLife: new(atomic.Uint64)}
}

// checkSealed learns of each sealed segment what the view needs, and makes missing or unreadable indexes anew.
func (l *Log) checkSealed(f *Found, segs []*segment) error {
	for i, s := range segs[:len(segs)-1] {
		s.end = segs[i+1].base
		b, err := readFile(l.dir.fs, s.sibling(timeSuffix), smallFileMax)
		times, ok := decodeTimeIndex(b)
		if err == nil && ok && len(times) > 0 {
			s.maxTS = times[len(times)-1].ts
		}
		if err == nil && ok && (len(times) > 0 || s.size == 0) && l.indexSeemsWhole(s) {
			continue
		}
		if err := l.rebuildIndexes(s); err != nil {
			return err
		}
	}
	return nil
}

// indexSeemsWhole looks at the size and the first entry of a sealed segment's offset index. What it cannot see, an index
// of other batches, shows when an entry is used.
func (l *Log) indexSeemsWhole(s *segment) bool {
	h, err := l.dir.handles.acquire(s.indexKey())
	if err != nil {
		return false
	}
	defer h.release()
	size, err := h.f.Size()
	if err != nil || size%indexEntrySize != 0 {
		return false
	}
	if size == 0 {
		return s.size <= l.config.Load().IndexIntervalBytes
	}
	buf := getBuf(indexEntrySize)
	defer putBuf(buf)
	e, err := readIndexEntry(h.f, 0, *buf)
	return err == nil && e.pos > 0 && int64(e.pos) < s.size
}

// rebuildIndexes makes both index files of a sealed segment from its batches.
func (l *Log) rebuildIndexes(s *segment) error {
	h, err := l.dir.handles.acquire(s.key())
	if err != nil {
		return err
	}
	defer h.release()
	x := newIndexer(s.base, l.config.Load().IndexIntervalBytes)
	if _, err := x.indexRange(h.f, 0, s.size, nil); err != nil {
		return fmt.Errorf("index segment %s: %w", s.file, err)
	}
	x.addTime()
	s.maxTS, s.exactTS = x.maxTS, true
	return l.writeIndexes(s, &x)
}

// reopenActive makes the state of the append path from the segments, of which the last is open, size bytes long and ends
// at end. Transaction indexes of segments from rebuild on are made anew. mu is held, or the log not open yet.
func (l *Log) reopenActive(segs []*segment, start, size, end int64, rebuild int) error {
	s := segs[len(segs)-1]
	l.resetActive(s)
	var recent []batchPos
	got, err := l.idx.indexRange(s.active.f, 0, size, func(h *record.Header, pos int64, _ *walker) error {
		if pos == 0 {
			l.firstTS = h.MaxTimestamp
		}
		if len(recent) == batchesRecent {
			recent = append(recent[:0], recent[batchesRecent/2:]...)
		}
		recent = append(recent, batchPos{h.BaseOffset, pos})
		return nil
	})
	if err != nil {
		return fmt.Errorf("index segment %s: %w", s.file, err)
	}
	if size > 0 && got > end {
		return fmt.Errorf("segment %s ends at offset %d, not %d: %w", s.file, got, end, errBroken)
	}
	if info, err := l.dir.fs.Stat(s.file); err == nil {
		l.opened = info.ModTime()
	}
	if err := l.loadProducers(segs, size, end, rebuild); err != nil {
		return err
	}
	l.unstable.Store(l.producers.unstable())
	v := &view{segs: segs, start: start, end: end, size: size, index: l.idx.index, recent: recent, cuts: l.cuts.Load()}
	for _, s := range segs[:len(segs)-1] {
		v.sealed += s.size
	}
	l.view.Store(v)
	return nil
}

// release closes the active file; nothing is flushed.
func (l *Log) release() {
	if !l.closed.CompareAndSwap(false, true) {
		return
	}
	if v := l.view.Load(); v != nil && v.active().active != nil {
		v.active().active.release()
	}
}

// path of a partition's directory in d.
func (d *Dir) pathOf(tp topicPartition) string { return path.Join(d.path, tp.dirName()) }
