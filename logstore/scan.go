package logstore

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"cordwood/logstore/record"
)

// walker reads batch headers one after another from a range of a file, without the records and without their checksum.
// It reads ahead only where batches are small. Not safe for concurrent use; close gives its buffer back.
type walker struct {
	r     io.ReaderAt
	pos   int64 // of the next batch
	limit int64 // byte after the range
	buf   *[]byte
	at    int64 // file position of the buffer's first byte
	n     int   // bytes in the buffer
}

// crcStart is the first byte of a batch that its checksum covers: the attributes.
const crcStart = 21

const (
	walkSmall = 512     // read where batches are large
	walkLarge = 4 << 10 // read where batches are small
)

func newWalker(r io.ReaderAt, pos, limit int64) *walker {
	return &walker{r: r, pos: pos, limit: limit, buf: getBuf(walkLarge)}
}

func (w *walker) close() {
	if w.buf != nil {
		putBuf(w.buf)
		w.buf = nil
	}
}

// next decodes the header at pos and moves behind its batch. io.EOF at the limit; ErrShortBatch where the batch runs
// past it; ErrCorruptBatch where there is none.
func (w *walker) next() (h record.Header, pos int64, err error) {
	if w.pos >= w.limit {
		return h, w.pos, io.EOF
	}
	if w.limit-w.pos < record.HeaderSize {
		return h, w.pos, record.ErrShortBatch
	}
	b, err := w.bytes(w.pos, record.HeaderSize)
	if err != nil {
		return h, w.pos, err
	}
	if h, err = record.ParseHeader(b); err != nil {
		return h, w.pos, err
	}
	if h.Size() > w.limit-w.pos {
		return h, w.pos, record.ErrShortBatch
	}
	pos = w.pos
	w.pos += h.Size()
	return h, pos, nil
}

// bytes returns n bytes from off, from the buffer where it holds them. n is at most walkLarge; valid until the next call.
func (w *walker) bytes(off int64, n int) ([]byte, error) {
	if off >= w.at && off+int64(n) <= w.at+int64(w.n) {
		return (*w.buf)[off-w.at:][:n], nil
	}
	want := walkSmall
	if w.n == 0 || off < w.at+int64(w.n)+walkLarge {
		want = walkLarge
	}
	want = int(min(int64(want), w.limit-off))
	w.n = 0
	if err := readFull(w.r, (*w.buf)[:want], off); err != nil {
		return nil, err
	}
	w.at, w.n = off, want
	return (*w.buf)[:n], nil
}

// marker reads the content of the control batch at pos; nil where it was emptied.
func (w *walker) marker(h *record.Header, pos int64) (*marker, error) {
	if !h.IsControl() || h.Size() > markerBytesMax {
		return nil, nil
	}
	b, err := w.bytes(pos, int(h.Size()))
	if err != nil {
		return nil, err
	}
	if m, ok := parseMarker(h, b); ok {
		return &m, nil
	}
	return nil, nil
}

// breakKind says why a scan of a segment's bytes stopped before their end.
type breakKind uint8

const (
	breakNone   breakKind = iota
	breakTorn             // the last batch runs past the end of the file and nothing valid follows
	breakZeros            // zeros up to the end of the file
	breakBad              // a batch that is complete and wrong, or wrong bytes where a header should be
	breakHidden           // as breakTorn, but valid batches follow: a length that lies, not a write cut short
	breakOrder            // offsets or epochs that go back
	breakGap              // the segment does not begin where the one before ended
	breakRead             // the disk refused to read
)

var breakNames = [...]string{"", "a batch cut short at the end", "zeros at the end", "a corrupt batch", "a corrupt batch before valid ones",
	"offsets or epochs that go back", "a gap before the segment", "a failed read"}

func (k breakKind) String() string { return breakNames[k] }

// scanned is what a check of a segment's bytes found.
type scanned struct {
	pos    int64 // bytes that hold good batches
	end    int64 // offset after the last good batch
	last   int32 // epoch of the last good batch, the given one where there is none
	kind   breakKind
	err    error  // of breakRead
	epochs epochs // of the batches: the first one's, and where each later one begins
}

// scanSegment checks every batch of r in [pos, size): length, checksum, order. Offsets go on from end without a hole,
// except below holes, where compaction may have taken some away; epoch is the one the first batch must not be older than.
func scanSegment(r io.ReaderAt, pos, size, end, holes int64, epoch int32) scanned {
	s := scanned{pos: pos, end: end, last: epoch}
	buf := getBuf(pieceMax)
	defer putBuf(buf)
	win := window{r: r, buf: (*buf)[:pieceMax], size: size}
	for s.pos < size {
		h, kind, err := checkBatch(&win, s.pos)
		if kind == breakNone && (h.BaseOffset < s.end || h.LeaderEpoch < s.last || h.BaseOffset > s.end && s.end >= holes) {
			kind = breakOrder
		}
		if kind != breakNone {
			s.kind, s.err = kind, err
			if kind == breakTorn && hasBatchAfter(&win, s.pos, s.end) {
				s.kind = breakHidden
			}
			return s
		}
		if s.epochs.last() != h.LeaderEpoch {
			s.epochs = append(s.epochs, epochEntry{h.LeaderEpoch, h.BaseOffset})
		}
		s.last = h.LeaderEpoch
		s.pos += h.Size()
		s.end = h.EndOffset()
	}
	return s
}

// checkBatch checks the batch at pos against the file's size, the format and its checksum.
func checkBatch(w *window, pos int64) (record.Header, breakKind, error) {
	if w.size-pos < record.HeaderSize {
		return record.Header{}, tornOrZero(w, pos), nil
	}
	b, err := w.at(pos, record.HeaderSize)
	if err != nil {
		return record.Header{}, breakRead, err
	}
	h, err := record.ParseHeader(b)
	if err != nil {
		if zero, zerr := w.zeros(pos); zerr != nil {
			return h, breakRead, zerr
		} else if zero {
			return h, breakZeros, nil
		}
		return h, breakBad, nil
	}
	if h.Size() > w.size-pos {
		return h, breakTorn, nil
	}
	sum, err := w.checksum(pos+crcStart, pos+h.Size())
	if err != nil {
		return h, breakRead, err
	}
	if sum != h.CRC {
		if zero, zerr := w.zeros(pos); zerr == nil && zero {
			return h, breakZeros, nil
		}
		return h, breakBad, nil
	}
	return h, breakNone, nil
}

func tornOrZero(w *window, pos int64) breakKind {
	if zero, err := w.zeros(pos); err == nil && zero {
		return breakZeros
	}
	return breakTorn
}

// hasBatchAfter looks for a whole valid batch anywhere behind pos that continues offsets from end. It tells a length
// field that lies from a write that was cut short.
func hasBatchAfter(w *window, pos, end int64) bool {
	for pos++; w.size-pos >= record.HeaderSize; pos++ {
		b, err := w.at(pos, record.HeaderSize)
		if err != nil {
			return false
		}
		h, err := record.ParseHeader(b)
		if err != nil || h.BaseOffset < end || h.BaseOffset-end > math.MaxInt32 || h.Size() > w.size-pos {
			continue
		}
		if sum, err := w.checksum(pos+crcStart, pos+h.Size()); err == nil && sum == h.CRC {
			return true
		}
	}
	return false
}

// window reads a file through one buffer.
type window struct {
	r     io.ReaderAt
	buf   []byte
	start int64
	n     int
	size  int64
}

// at returns n bytes from off, n at most the buffer. Valid until the next call.
func (w *window) at(off int64, n int) ([]byte, error) {
	if off < w.start || off+int64(n) > w.start+int64(w.n) {
		want := int(min(int64(len(w.buf)), w.size-off))
		if want < n {
			return nil, io.ErrUnexpectedEOF
		}
		w.n = 0
		if err := readFull(w.r, w.buf[:want], off); err != nil {
			return nil, err
		}
		w.start, w.n = off, want
	}
	return w.buf[off-w.start:][:n], nil
}

func (w *window) checksum(from, to int64) (uint32, error) {
	var sum uint32
	for from < to {
		n := min(to-from, int64(len(w.buf)))
		if have := w.start + int64(w.n) - from; from >= w.start && have > 0 {
			n = min(n, have)
		}
		b, err := w.at(from, int(n))
		if err != nil {
			return 0, err
		}
		sum = crc32.Update(sum, record.Castagnoli, b)
		from += n
	}
	return sum, nil
}

// zeros says that every byte from off to the end of the file is zero.
func (w *window) zeros(off int64) (bool, error) {
	for off < w.size {
		n := min(w.size-off, int64(len(w.buf)))
		b, err := w.at(off, int(n))
		if err != nil {
			return false, err
		}
		if !isZero(b) {
			return false, nil
		}
		off += n
	}
	return true, nil
}

// errBroken says that the bytes of a log are not what was written. It wraps record.ErrCorruptBatch.
var errBroken = fmt.Errorf("stored bytes are damaged: %w", record.ErrCorruptBatch)

// isBroken tells damage of the bytes from a disk that does not answer.
func isBroken(err error) bool {
	return errors.Is(err, record.ErrCorruptBatch) || errors.Is(err, record.ErrShortBatch)
}
