package record

import (
	"bytes"
	"errors"
	"io"
)

// scanChunk is how many bytes the scanner asks for at least.
const scanChunk = 64 << 10

// Scanner reads batches one after the other from a file or any other place with offsets. It is for one goroutine.
type Scanner struct {
	Header Header // of the present batch
	Pos    int64  // where the present batch starts, in bytes; after Next answered false, the first byte not accepted

	src   io.ReaderAt
	end   int64
	next  int64
	batch []byte
	buf   []byte // bytes from bufAt on
	bufAt int64
	err   error
}

// Scan makes a Scanner over the bytes [from, end) of src.
func Scan(src io.ReaderAt, from, end int64) *Scanner {
	return &Scanner{src: src, Pos: from, next: from, end: end}
}

// Next reads the next batch whole and checks its length, magic and checksum. It answers false at the end, and at the
// first byte that does not start a sound batch: Err tells which.
func (s *Scanner) Next() bool {
	s.Pos = s.next
	if s.err != nil || s.next == s.end {
		return false
	}
	head, err := s.read(HeaderSize)
	if err == nil {
		s.Header, err = ParseHeader(head)
	}
	if err == nil {
		s.batch, err = s.read(s.Header.Size())
	}
	if err == nil {
		err = Verify(&s.Header, s.batch)
	}
	if s.err = err; err != nil {
		return false
	}
	s.next += s.Header.Size()
	return true
}

// Batch is the present batch, whole. It holds until the next call of Next.
func (s *Scanner) Batch() []byte { return s.batch }

// Err is nil at the end of the bytes, ErrShortBatch when they end inside a batch, ErrCorruptBatch, or what the read
// failed with.
func (s *Scanner) Err() error { return s.err }

// read answers n bytes from next on. A length is believed only as far as there are bytes, so it allocates no more.
func (s *Scanner) read(n int64) ([]byte, error) {
	if n > s.end-s.next {
		return nil, ErrShortBatch
	}
	if at := s.next - s.bufAt; at >= 0 && at+n <= int64(len(s.buf)) {
		return s.buf[at : at+n], nil
	}
	want := min(max(n, scanChunk), s.end-s.next)
	if int64(cap(s.buf)) < want {
		s.buf = make([]byte, want)
	}
	s.buf, s.bufAt = s.buf[:want], s.next
	got, err := s.src.ReadAt(s.buf, s.next)
	s.buf = s.buf[:got]
	switch {
	case int64(got) >= n:
		return s.buf[:n], nil
	case err == nil || errors.Is(err, io.EOF):
		return nil, ErrShortBatch
	}
	return nil, err
}

// ZeroTail says, after Next answered false, whether all bytes from Pos to the end are zero: room that was preallocated
// and never written. It is false when nothing is left.
func (s *Scanner) ZeroTail() (bool, error) {
	var b, zeros [4096]byte
	for at := s.Pos; at < s.end; {
		n, err := s.src.ReadAt(b[:min(int64(len(b)), s.end-at)], at)
		if !bytes.Equal(b[:n], zeros[:n]) {
			return false, nil
		}
		if n == 0 {
			return false, err
		}
		at += int64(n)
	}
	return s.Pos < s.end, nil
}
