package logstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"

	"cordwood/logstore/record"
)

// segment is one file of batches. What a segment says of itself never changes while readers may hold it: sealing and
// cutting make a new value.
type segment struct {
	base int64
	life uint64 // see fileKey
	file string // path of the .log file

	// active is the open file of the last segment; nil in sealed ones, which the handle cache opens.
	active *handle

	// Of sealed segments; the active one's stand in the view and in the log.
	size  int64 // bytes
	end   int64 // offset after the last batch; the next segment's base may lie higher after compaction
	maxTS int64 // greatest timestamp, from the time index; NoTimestamp where unknown

	// exactTS says that maxTS was taken from the batches themselves. Retention by time trusts nothing else.
	exactTS bool

	// indexLife changes when the index files were made anew.
	indexLife *atomic.Uint64
	// aborted is the number of entries in the transaction index.
	aborted int
}

func segmentName(base int64) string { return fmt.Sprintf("%020d", base) }

func segmentPath(dir string, base int64, suffix string) string {
	return path.Join(dir, segmentName(base)+suffix)
}

// parseSegmentName reads the base offset of "<20 digits><suffix>".
func parseSegmentName(name, suffix string) (base int64, ok bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	base, err := strconv.ParseInt(digits, 10, 64)
	return base, err == nil && base >= 0
}

func (s *segment) sibling(suffix string) string {
	return strings.TrimSuffix(s.file, logSuffix) + suffix
}

func (s *segment) key() fileKey { return fileKey{s.file, s.life} }

func (s *segment) indexKey() fileKey { return fileKey{s.sibling(indexSuffix), s.indexLife.Load()} }

func (s *segment) timeKey() fileKey { return fileKey{s.sibling(timeSuffix), s.indexLife.Load()} }

// batchPos is where one batch of the active segment starts.
type batchPos struct {
	base int64
	pos  int64
}

// batchesRecent bounds the exact positions kept of the newest batches of a log. Readers at the tail, which followers and
// most consumers are, find their place without reading the file.
const batchesRecent = 128

// view is what readers see of a log: one immutable value, replaced by every append, roll, cut and retention.
type view struct {
	segs   []*segment // oldest first, never empty; the last is the active one
	start  int64      // log start offset
	end    int64      // log end offset
	size   int64      // bytes of the active segment
	sealed int64      // bytes of all others
	index  []indexEntry
	recent []batchPos // of the active segment, rising
	cuts   uint64     // how often bytes were cut; a reader whose count is old looks again
}

func (v *view) active() *segment { return v.segs[len(v.segs)-1] }

// find is the index of the last segment whose base is at or below offset, 0 where there is none.
func (v *view) find(offset int64) int {
	i := sort.Search(len(v.segs), func(i int) bool { return v.segs[i].base > offset })
	return max(i-1, 0)
}

// extent is the size in bytes and the end offset of segment i.
func (v *view) extent(i int) (size, end int64) {
	if i == len(v.segs)-1 {
		return v.size, v.end
	}
	return v.segs[i].size, v.segs[i].end
}

// errIndex says that an index entry does not fit the batches: the index is made anew.
var errIndex = errors.New("index entry does not fit the batches")

// locate finds the byte where the first batch starts that ends after offset, in segment i of the view, and where the
// search had to begin. size is returned where there is none. r reads the segment's file.
func (l *Log) locate(v *view, i int, r io.ReaderAt, offset int64) (pos int64, err error) {
	s := v.segs[i]
	size, end := v.extent(i)
	if offset >= end {
		return size, nil
	}
	if offset <= s.base {
		return 0, nil
	}
	last := i == len(v.segs)-1
	if n := len(v.recent); last && n > 0 && offset >= v.recent[0].base {
		j := sort.Search(n, func(j int) bool { return v.recent[j].base > offset })
		return v.recent[j-1].pos, nil
	}
	from, err := l.floor(v, i, offset)
	if err != nil {
		return 0, err
	}
	pos, err = walkTo(r, s.base, from, size, offset)
	if errors.Is(err, errIndex) || from.pos > 0 && isBroken(err) {
		l.reindex(s, last)
		pos, err = walkTo(r, s.base, indexEntry{}, size, offset)
	}
	return pos, err
}

// walkTo reads headers from an index entry on until a batch ends after offset.
func walkTo(r io.ReaderAt, base int64, from indexEntry, size, offset int64) (int64, error) {
	if int64(from.pos) >= size {
		if size == 0 {
			return 0, nil
		}
		return 0, errIndex
	}
	w := newWalker(r, int64(from.pos), size)
	defer w.close()
	for first := true; ; first = false {
		h, pos, err := w.next()
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return 0, err
		}
		if first && from.pos > 0 && h.LastOffset() != base+int64(from.rel) {
			return 0, errIndex
		}
		if h.LastOffset() >= offset {
			return pos, nil
		}
	}
}

// floor is the index entry to begin a search for offset from; the zero entry is the segment's first byte.
func (l *Log) floor(v *view, i int, offset int64) (indexEntry, error) {
	s := v.segs[i]
	rel := uint32(min(offset-s.base, int64(^uint32(0))))
	if i == len(v.segs)-1 {
		e, _ := floorEntry(v.index, rel)
		return e, nil
	}
	h, err := l.dir.handles.acquire(s.indexKey())
	if errors.Is(err, fs.ErrNotExist) {
		l.reindex(s, false)
		h, err = l.dir.handles.acquire(s.indexKey())
	}
	if err != nil {
		return indexEntry{}, nil // without an index the search begins at the segment's first byte
	}
	defer h.release()
	size, err := h.f.Size()
	if err != nil {
		return indexEntry{}, nil
	}
	e, ok, err := floorEntryFile(h.f, size, rel)
	if err != nil || !ok {
		return indexEntry{}, nil
	}
	return e, nil
}

// indexer makes the two sparse indexes from batches in order.
type indexer struct {
	base     int64
	interval int64 // bytes between entries
	since    int64 // bytes since the last entry
	index    []indexEntry
	times    []timeEntry
	maxTS    int64
	exact    bool   // every batch of the segment went through add
	maxTSRel uint32 // last offset of the first batch that bears maxTS
}

func newIndexer(base, interval int64) indexer {
	return indexer{base: base, interval: interval, maxTS: record.NoTimestamp, exact: true}
}

// add takes the batch that starts at pos.
func (x *indexer) add(h *record.Header, pos int64) {
	rel := uint32(h.LastOffset() - x.base)
	if h.MaxTimestamp > x.maxTS {
		x.maxTS, x.maxTSRel = h.MaxTimestamp, rel
	}
	if x.since > x.interval && pos > 0 {
		x.index = append(x.index, indexEntry{rel, uint32(pos)})
		x.addTime()
		x.since = 0
	}
	x.since += h.Size()
}

// addTime notes the greatest timestamp so far, unless the newest entry says so already.
func (x *indexer) addTime() {
	n := len(x.times)
	if x.maxTS == record.NoTimestamp || n > 0 && (x.times[n-1].ts >= x.maxTS || x.times[n-1].rel >= x.maxTSRel) {
		return
	}
	x.times = append(x.times, timeEntry{x.maxTS, x.maxTSRel})
}

// full says that the segment must be followed by another one before the next entry.
func (x *indexer) full() bool { return len(x.index) >= indexEntryMax || len(x.times) >= timeEntryMax }

// indexRange walks the batches of a segment in [pos, size) into x and says where they end.
func (x *indexer) indexRange(r io.ReaderAt, pos, size int64, each func(h *record.Header, pos int64, w *walker) error) (end int64, err error) {
	w := newWalker(r, pos, size)
	defer w.close()
	end = x.base
	for {
		h, at, err := w.next()
		if errors.Is(err, io.EOF) {
			return end, nil
		}
		if err != nil {
			return end, err
		}
		x.add(&h, at)
		end = h.EndOffset()
		if each != nil {
			if err := each(&h, at, w); err != nil {
				return end, err
			}
		}
	}
}
