package record

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
)

// walker reads the fields of records one after the other, from memory (src is nil) or through the window of an
// unpacker. It keeps nothing of what it skips. Its methods answer false at the end of the bytes or at a malformed
// number; err then says whether the source failed.
type walker struct {
	buf  []byte // unread bytes are buf[pos:]
	pos  int
	seen int64 // bytes before buf[0]
	src  io.Reader
	room int64 // bytes that src may still yield
	err  error // why src ended; io.EOF at its proper end
}

// at is the place of the next byte, counted from the first record.
func (w *walker) at() int64 { return w.seen + int64(w.pos) }

// fill reads more bytes behind the unread ones. It is called with less than a full window unread.
func (w *walker) fill() bool {
	if w.src == nil || w.err != nil {
		return false
	}
	unread := copy(w.buf[:cap(w.buf)], w.buf[w.pos:])
	w.seen += int64(w.pos)
	w.pos = 0
	n := 0
	for tries := 0; n == 0 && w.err == nil; tries++ {
		if n, w.err = w.src.Read(w.buf[unread:cap(w.buf)]); tries > 100 {
			w.err = io.ErrNoProgress
		}
	}
	w.buf = w.buf[:unread+n]
	if w.room -= int64(n); w.room < 0 {
		w.err = errUnpacked
		return false
	}
	return n > 0
}

// varint reads a zigzag number of at most 32 bits, in five bytes at the most: Java readers take no longer form.
func (w *walker) varint() (int32, bool) {
	if w.pos < len(w.buf) {
		if b := w.buf[w.pos]; b < 0x80 {
			w.pos++
			return int32(b>>1) ^ -int32(b&1), true
		}
	}
	start := w.at()
	v, ok := w.varlong()
	if v < math.MinInt32 || v > math.MaxInt32 || w.at()-start > binary.MaxVarintLen32 {
		return 0, false
	}
	return int32(v), ok
}

// varlong reads a zigzag number of at most 64 bits.
func (w *walker) varlong() (int64, bool) {
	for len(w.buf)-w.pos < binary.MaxVarintLen64 && w.fill() {
	}
	v, n := binary.Varint(w.buf[w.pos:])
	if n <= 0 {
		return 0, false
	}
	w.pos += n
	return v, true
}

// skip passes over n bytes; n is not negative.
func (w *walker) skip(n int64) bool {
	for n > int64(len(w.buf)-w.pos) {
		n -= int64(len(w.buf) - w.pos)
		w.pos = len(w.buf)
		if !w.fill() {
			return false
		}
	}
	w.pos += int(n)
	return true
}

// sized passes over a length and as many bytes; -1 stands for null. It answers the length.
func (w *walker) sized() (int32, bool) {
	n, ok := w.varint()
	if !ok || n < -1 {
		return 0, false
	}
	return n, n <= 0 || w.skip(int64(n))
}

// walked is what the validator looks at in one record.
type walked struct {
	timeDelta   int64
	offsetDelta int32
	nullKey     bool
}

// next walks one whole record and checks that its parts fill exactly the length it gives itself.
func (w *walker) next() (r walked, ok bool) {
	length, ok := w.varint()
	if !ok || length < 0 {
		return r, false
	}
	end := w.at() + int64(length)
	if !w.skip(1) { // the record's own attributes, unused
		return r, false
	}
	if r.timeDelta, ok = w.varlong(); !ok {
		return r, false
	}
	if r.offsetDelta, ok = w.varint(); !ok {
		return r, false
	}
	key, ok := w.sized()
	if !ok {
		return r, false
	}
	r.nullKey = key < 0
	if _, ok = w.sized(); !ok {
		return r, false
	}
	headers, ok := w.varint()
	if !ok || headers < 0 {
		return r, false
	}
	for range headers {
		if key, ok := w.sized(); !ok || key < 0 {
			return r, false
		}
		if _, ok := w.sized(); !ok || w.at() > end {
			return r, false
		}
	}
	return r, w.at() == end
}

// ended says that no byte is left.
func (w *walker) ended() bool {
	return w.pos == len(w.buf) && !w.fill() && (w.src == nil || errors.Is(w.err, io.EOF))
}
