package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"cordwood/logstore/record"
)

const (
	// copyBelow is the size of file ranges that are read into the buffer: one write is cheaper than three calls.
	copyBelow = 16 << 10
	// sendBuffer is what small pieces are gathered in.
	sendBuffer = 64 << 10
	// sendStep is the progress within which a slow peer must move, and the most one sendfile call may take.
	sendStep = 1 << 20
	// readStep is the chunk of a file range that does not leave by sendfile.
	readStep = 256 << 10
)

// sender writes answers to one connection; its methods are called by one goroutine at a time. An error after the first
// byte means that the connection cannot go on: the frame's length was promised.
type sender struct {
	conn     net.Conn
	patience time.Duration // for each sendStep of progress
	deadline time.Time
}

// appendHead begins an answer: room for the size, the correlation id, and the tag section of flexible headers.
func appendHead(b []byte, correlation int32, flexible bool) []byte {
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	if flexible {
		b = append(b, 0)
	}
	return b
}

// progress moves the write deadline, not oftener than it matters.
func (s *sender) progress() {
	if now := time.Now(); s.deadline.Sub(now) < s.patience-s.patience/8 {
		s.deadline = now.Add(s.patience)
		_ = s.conn.SetWriteDeadline(s.deadline)
	}
}

// bytes sends b.
func (s *sender) bytes(b []byte) error {
	for len(b) > 0 {
		s.progress()
		n, err := s.conn.Write(b[:min(len(b), sendStep)])
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// pieces sends an encoded body whose file ranges leave by sendfile where that is possible. It releases every range
// exactly once, sent or not.
func (s *sender) pieces(correlation int32, flexible bool, pieces []Piece) error {
	next := 0 // pieces before it are released
	defer func() {
		for ; next < len(pieces); next++ {
			pieces[next].Span.Release()
		}
	}()
	buf := appendHead(GetBuffer(sendBuffer), correlation, flexible)
	total := int64(len(buf) - 4)
	for i := range pieces {
		total += int64(len(pieces[i].Bytes)) + pieces[i].Span.Len
	}
	if total > 1<<31-1 {
		PutBuffer(buf)
		return fmt.Errorf("an answer of %d bytes does not fit a frame", total)
	}
	binary.BigEndian.PutUint32(buf, uint32(total))
	var err error
	for ; next < len(pieces) && err == nil; next++ {
		buf, err = s.piece(buf, &pieces[next])
		pieces[next].Span.Release()
	}
	if err == nil && len(buf) > 0 {
		err = s.bytes(buf)
	}
	PutBuffer(buf)
	return err
}

// piece gathers p in buf or sends it behind buf, and returns what is gathered then.
func (s *sender) piece(buf []byte, p *Piece) ([]byte, error) {
	if len(buf)+len(p.Bytes) > sendBuffer {
		if err := s.more(buf); err != nil {
			return buf, err
		}
		buf = buf[:0]
	}
	if len(p.Bytes) > sendBuffer {
		if err := s.bytes(p.Bytes); err != nil {
			return buf, err
		}
	} else {
		buf = append(buf, p.Bytes...)
	}
	n := p.Span.Len
	switch {
	case n <= 0:
		return buf, nil
	case n <= copyBelow && len(buf)+int(n) <= sendBuffer:
		at := len(buf)
		buf = buf[:at+int(n)]
		return buf, readSpan(p.Span, 0, buf[at:])
	}
	if err := s.more(buf); err != nil {
		return buf, err
	}
	return buf[:0], s.span(p.Span)
}

// more sends b, with more to follow at once.
func (s *sender) more(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	s.progress()
	if c, ok := s.conn.(*net.TCPConn); ok {
		return sendMore(c, b)
	}
	return s.bytes(b)
}

// span sends a file range.
func (s *sender) span(sp record.Span) error {
	if c, ok := s.conn.(*net.TCPConn); ok {
		if f, ok := sp.Src.(syscall.Conn); ok {
			err := s.sendFile(c, f, sp.Off, sp.Len)
			if !errors.Is(err, errors.ErrUnsupported) {
				return err
			}
		}
	}
	return s.copySpan(sp)
}

// sendFile sends n bytes of f from off on, in steps that each must make progress in time. The file's own position is
// neither used nor moved, so that many answers may share the file.
func (s *sender) sendFile(c *net.TCPConn, f syscall.Conn, off, n int64) error {
	for n > 0 {
		s.progress()
		step := min(n, sendStep)
		if err := sendFileAt(c, f, off, step); err != nil {
			return err
		}
		off, n = off+step, n-step
	}
	return nil
}

// copySpan sends a file range through a pooled buffer.
func (s *sender) copySpan(sp record.Span) error {
	buf := GetBuffer(int(min(sp.Len, readStep)))
	defer PutBuffer(buf)
	for done := int64(0); done < sp.Len; {
		b := buf[:min(sp.Len-done, readStep)]
		if err := readSpan(sp, done, b); err != nil {
			return err
		}
		if err := s.bytes(b); err != nil {
			return err
		}
		done += int64(len(b))
	}
	return nil
}

// readSpan fills b from the range's byte at on. A file that is shorter than the range is an error.
func readSpan(sp record.Span, at int64, b []byte) error {
	n, err := sp.Src.ReadAt(b, sp.Off+at)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read of a record range at byte %d: %w", sp.Off+at, err)
}
