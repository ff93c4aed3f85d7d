package record

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Record is one record as a reader sees it. Its slices point into the batch, or into the reader's buffer for compressed
// batches, and hold until the reader's next Reset.
type Record struct {
	Offset    int64
	Timestamp int64  // milliseconds: the append time where the batch has that type
	Key       []byte // nil: null
	Value     []byte // nil: null
	headers   []byte
	Headers   int32 // how many EachHeader yields
}

// EachHeader yields the headers in their order: for key, value := range r.EachHeader. A null value is nil.
func (r *Record) EachHeader(yield func(key, value []byte) bool) {
	f := fields{b: r.headers}
	for range r.Headers {
		if !yield(f.bytes(), f.bytes()) {
			return
		}
	}
}

// RecordReader walks the records of one batch after the other. It copies nothing of uncompressed batches and reuses one
// buffer for the others. It is for one goroutine. The zero value is ready.
//
//	err := r.Reset(&h, batch)
//	for r.Next() { … r.Record … }
//	err = r.Err()
type RecordReader struct {
	Record   Record // valid after Next answered true
	h        Header
	rest     fields
	read     int32
	err      error
	unpacked []byte
}

// Reset starts on a batch; b starts at it and holds all of it. ErrShortBatch if it does not, ErrInvalidRecord if it
// cannot be unpacked, ErrBatchTooLarge if it unpacks to more than MaxUnpacked bytes. The checksum is the caller's to
// verify.
func (r *RecordReader) Reset(h *Header, b []byte) error {
	r.h, r.read, r.rest, r.Record = *h, 0, fields{}, Record{}
	if int64(len(b)) < h.Size() || h.Size() < HeaderSize {
		r.err = ErrShortBatch
		return r.err
	}
	r.rest.b, r.err = b[HeaderSize:h.Size()], nil
	if h.Codec() != CodecNone && h.Count > 0 {
		r.unpacked, r.err = Unpack(r.unpacked[:0], h, b, MaxUnpacked)
		r.rest.b = r.unpacked
	}
	return r.err
}

// Next moves to the next record; false at the end and after an error.
func (r *RecordReader) Next() bool {
	if r.err != nil || r.read >= r.h.Count {
		return false
	}
	r.read++
	body := fields{b: r.rest.take(int64(r.rest.varint()))}
	if !r.rest.bad && !body.record(&r.h, &r.Record) {
		r.rest.bad = true
	}
	if r.rest.bad {
		r.err = fmt.Errorf("record %d of the batch at offset %d is malformed: %w", r.read-1, r.h.BaseOffset, ErrInvalidRecord)
	}
	return r.err == nil
}

// Err is what ended the walk early.
func (r *RecordReader) Err() error { return r.err }

// fields reads the parts of a record from memory. After bad is set every read gives zero.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) varlong() int64 {
	v, n := binary.Varint(f.b)
	if n <= 0 {
		f.b, f.bad = nil, true
		return 0
	}
	f.b = f.b[n:]
	return v
}

func (f *fields) varint() int32 {
	v := f.varlong()
	if v < math.MinInt32 || v > math.MaxInt32 {
		f.b, f.bad = nil, true
		return 0
	}
	return int32(v)
}

func (f *fields) take(n int64) []byte {
	if n < 0 || n > int64(len(f.b)) {
		f.b, f.bad = nil, true
		return nil
	}
	b := f.b[:n:n]
	f.b = f.b[n:]
	return b
}

// bytes reads a length and as many bytes; -1 stands for null and gives nil, 0 gives an empty slice.
func (f *fields) bytes() []byte {
	n := f.varint()
	if n == -1 {
		return nil
	}
	return f.take(int64(n))
}

// record reads one whole record; false if its parts do not fill it exactly.
func (f *fields) record(h *Header, r *Record) bool {
	f.take(1) // the record's own attributes, unused
	r.Timestamp = h.BaseTimestamp + f.varlong()
	if h.HasLogAppendTime() {
		r.Timestamp = h.MaxTimestamp
	}
	r.Offset = h.BaseOffset + int64(f.varint())
	r.Key, r.Value = f.bytes(), f.bytes()
	r.Headers = f.varint()
	r.headers = f.b
	for range r.Headers {
		if key := f.bytes(); f.bad || key == nil {
			return false
		}
		f.bytes()
	}
	return !f.bad && r.Headers >= 0 && len(f.b) == 0
}
