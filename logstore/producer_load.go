package logstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"cordwood/logstore/vfs"
)

// loadProducers makes the producer state as of end: the newest good snapshot that lies low enough, then the batches
// behind it. From segment rebuild on, transaction indexes are made from these batches too.
func (l *Log) loadProducers(segs []*segment, size, end int64, rebuild int) error {
	if err := l.loadAborted(segs, end, &rebuild); err != nil {
		return err
	}
	below := end
	if rebuild < len(segs) {
		below = min(end, segs[rebuild].base)
	}
	state, from, err := l.newestSnapshot(below)
	if err != nil {
		return err
	}
	l.producers = *state
	rebuilt := make([][]AbortedTxn, len(segs))
	for i, s := range segs {
		n, next := s.size, s.end
		if i == len(segs)-1 {
			n, next = size, end
		}
		if next <= from {
			continue
		}
		file, err := l.dir.fs.Open(s.file)
		if err != nil {
			return err
		}
		rebuilt[i], err = l.replay(file, n, from)
		file.Close()
		if err != nil {
			return fmt.Errorf("replay segment %s: %w", s.file, err)
		}
	}
	for i := rebuild; i < len(segs); i++ {
		if err := l.storeAborted(segs[i], rebuilt[i], i == len(segs)-1); err != nil {
			return err
		}
	}
	return nil
}

// replay takes the batches of one segment from offset from on into the producer state.
func (l *Log) replay(file vfs.File, size, from int64) (aborted []AbortedTxn, err error) {
	w := newWalker(file, 0, size)
	defer w.close()
	for {
		h, pos, err := w.next()
		if errors.Is(err, io.EOF) {
			return aborted, nil
		}
		if err != nil {
			return nil, err
		}
		if h.BaseOffset < from || !h.HasProducer() {
			continue
		}
		m, err := w.marker(&h, pos)
		if err != nil {
			return nil, err
		}
		if t, ok := l.producers.apply(&h, m); ok {
			aborted = append(aborted, t)
		}
	}
}

// loadAborted reads the transaction indexes below segment rebuild and lowers rebuild to the first that is broken.
func (l *Log) loadAborted(segs []*segment, end int64, rebuild *int) error {
	for i, s := range segs {
		if i >= *rebuild {
			return nil
		}
		last := i == len(segs)-1
		to := s.end
		if last {
			to = end
		}
		b, err := readFile(l.dir.fs, s.sibling(txnSuffix), smallFileMax)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		txns, err := decodeTxnIndex(b, s.base, max(to, s.base+1<<31))
		if err != nil {
			*rebuild = i
			return nil //nolint:nilerr // an index that does not decode is made again, not an error
		}
		kept := slices.DeleteFunc(txns, func(t AbortedTxn) bool { return t.LastOffset >= to })
		if last && len(kept) < len(b)/txnEntrySize {
			if err := l.storeAborted(s, kept, true); err != nil {
				return err
			}
		}
		if s.aborted != len(kept) { // readers may hold s; the number they see never changes
			s.aborted = len(kept)
		}
		if last {
			l.aborted = kept
		}
	}
	return nil
}

// storeAborted replaces a segment's transaction index; without entries there is none.
func (l *Log) storeAborted(s *segment, txns []AbortedTxn, active bool) error {
	name := s.sibling(txnSuffix)
	s.aborted = len(txns)
	if active {
		l.aborted = txns
	}
	if len(txns) == 0 {
		if err := l.dir.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return l.dir.failed(err)
		}
		return nil
	}
	return l.dir.failed(replaceFile(l.dir.fs, name, encodeTxnIndex(txns), false))
}

// newestSnapshot reads the newest good producer snapshot at or below offset. Bad ones are removed. Without one the state
// is empty as of offset 0.
func (l *Log) newestSnapshot(offset int64) (s *producers, at int64, err error) {
	offsets, err := l.snapshots()
	if err != nil {
		return nil, 0, err
	}
	for _, o := range slices.Backward(offsets) {
		if o > offset {
			continue
		}
		name := segmentPath(l.path, o, snapshotSuffix)
		b, err := readFile(l.dir.fs, name, smallFileMax)
		if err != nil {
			return nil, 0, err
		}
		if s, err = decodeSnapshot(b, o); err == nil {
			return s, o, nil
		}
		if err := l.dir.fs.Remove(name); err != nil {
			return nil, 0, l.dir.failed(err)
		}
	}
	return &producers{}, 0, nil
}

// snapshots lists the offsets of the producer snapshots, rising.
func (l *Log) snapshots() ([]int64, error) {
	entries, err := l.dir.fs.ReadDir(l.path)
	if err != nil {
		return nil, fmt.Errorf("read directory %s: %w", l.path, err)
	}
	var out []int64
	for _, e := range entries {
		if o, ok := parseSegmentName(e.Name(), snapshotSuffix); ok {
			out = append(out, o)
		}
	}
	slices.Sort(out)
	return out, nil
}

func (l *Log) removeSnapshots(which func(offset int64) bool) error {
	offsets, err := l.snapshots()
	if err != nil {
		return err
	}
	for _, o := range offsets {
		if which(o) {
			if err := l.dir.fs.Remove(segmentPath(l.path, o, snapshotSuffix)); err != nil {
				return l.dir.failed(err)
			}
		}
	}
	return nil
}

// tidySnapshots writes the state as of end and keeps, beside it, those at a segment's base: the ones a cut goes back to.
func (l *Log) tidySnapshots(segs []*segment, start, end int64) error {
	if end > start || len(l.producers.byID) > 0 {
		if err := l.writeSnapshot(end); err != nil {
			return err
		}
	}
	bases := map[int64]bool{end: true}
	for _, s := range segs {
		bases[s.base] = s.base > start
	}
	return l.removeSnapshots(func(o int64) bool { return !bases[o] })
}
