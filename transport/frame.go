package transport

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Bounds of what a peer may make this side hold before it has proved anything.
const (
	firstChunk   = 64 << 10 // bytes taken for a frame before any of its body has arrived
	growth       = 16       // a frame's buffer is at most this many times what has arrived
	maxTags      = 10_000   // tagged fields of a header, as Kafka's readers have it
	smallFrame   = 64 << 10 // frames up to here decode into little
	decodeWeight = 16       // decoded form of larger frames other than Produce, as a multiple of their bytes
	maxQuestion  = 16 << 20 // bytes of a frame that carries no records: an array of 1,000,000 names fits
)

// frameError is a client's mistake that ends its connection. Reason is the label of cordwood_bad_frames_total.
type frameError struct {
	reason string
	text   string
}

func (e *frameError) Error() string { return e.text }

func badFrame(reason, format string, args ...any) error {
	return &frameError{reason: reason, text: fmt.Sprintf(format, args...)}
}

// frame is one request in memory: its bytes after the size, and what they cost the budget.
type frame struct {
	b       []byte
	charged int64
}

// reader reads frames of one connection. It never takes memory for a declared size, only for bytes that have arrived,
// and the deadline moves only with progress.
type reader struct {
	conn     net.Conn
	br       *bufio.Reader
	budget   *budget
	maxBytes int64
	patience time.Duration // for memory, and for each chunk of a started frame
}

// size reads the next frame's length. io.EOF says that the peer closed between frames.
func (r *reader) size() (int, error) {
	head, err := r.br.Peek(4)
	if err != nil {
		if len(head) > 0 && errors.Is(err, io.EOF) {
			return 0, badFrame("cut", "connection ended inside a frame's size")
		}
		return 0, err
	}
	n := int32(binary.BigEndian.Uint32(head))
	if n <= 0 || int64(n) > r.maxBytes {
		return 0, strangeSize(head, n, r.maxBytes)
	}
	_, _ = r.br.Discard(4)
	return int(n), nil
}

// strangeSize names what the first bytes of an impossible frame look like.
func strangeSize(head []byte, n int32, limit int64) error {
	text := true
	for _, c := range head {
		text = text && (c >= ' ' && c < 0x7f || c == '\r' || c == '\n')
	}
	switch s := string(head); {
	case s == "GET " || s == "POST" || s == "PUT " || s == "HEAD" || s == "OPTI" || s == "CONN" || s == "DELE" || s == "PRI ":
		return badFrame("http", "first bytes look like HTTP %q: this port speaks the Kafka protocol", s)
	case s == "SSH-":
		return badFrame("ssh", "first bytes look like SSH: this port speaks the Kafka protocol")
	case head[0] == 0x16 && head[1] == 3:
		return badFrame("tls", "first bytes look like a TLS ClientHello on a plaintext listener")
	case head[0] == 0x15 && head[1] == 3:
		return badFrame("tls", "first bytes look like a TLS alert on a plaintext listener")
	case text:
		return badFrame("text", "first bytes look like text %q: this port speaks the Kafka protocol", s)
	default:
		return badFrame("size", "a frame of %d bytes; allowed are 1 to %d", n, limit)
	}
}

// body reads n bytes into a frame that grows as they arrive.
func (r *reader) body(ctx context.Context, n int) (*frame, error) {
	f := &frame{}
	for len(f.b) < n {
		want := min(n, max(firstChunk, growth*len(f.b)))
		if err := r.grow(ctx, f, want); err != nil {
			r.free(f)
			return nil, err
		}
		for len(f.b) < want {
			_ = r.conn.SetReadDeadline(time.Now().Add(r.patience))
			m, err := io.ReadFull(r.br, f.b[len(f.b):min(want, len(f.b)+firstChunk)])
			f.b = f.b[:len(f.b)+m]
			if err != nil {
				r.free(f)
				return nil, cutFrame(len(f.b), n, err)
			}
		}
	}
	return f, nil
}

func cutFrame(got, n int, err error) error {
	var timeout net.Error
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return badFrame("cut", "connection ended after %d of a frame's %d bytes", got, n)
	case errors.As(err, &timeout) && timeout.Timeout():
		return badFrame("slow", "a frame of %d bytes stood still after %d", n, got)
	}
	return err
}

func (r *reader) grow(ctx context.Context, f *frame, want int) error {
	next := GetBuffer(want)
	if extra := int64(cap(next)) - f.charged; extra > 0 {
		if err := r.budget.acquireRequest(ctx, extra, r.patience); err != nil {
			PutBuffer(next)
			return err
		}
		f.charged += extra
	}
	next = append(next, f.b...)
	if f.b != nil {
		PutBuffer(f.b)
	}
	f.b = next
	return nil
}

// free gives a frame's bytes and its charge back.
func (r *reader) free(f *frame) {
	if f.b != nil {
		PutBuffer(f.b)
	}
	r.budget.release(f.charged)
	f.b, f.charged = nil, 0
}

// header is a request header, version 0 to 2.
type header struct {
	key, version int16
	correlation  int32
	client       *string
	rest         []byte // after the client id: header tags if flexible, then the body
}

// parseHeader reads key, version, correlation id and client id. As with Kafka any negative length of the client id is
// null and its bytes need not be UTF-8.
func parseHeader(b []byte) (header, error) {
	var h header
	if len(b) < 10 {
		return h, badFrame("header", "a request header cut after %d bytes", len(b))
	}
	h.key = int16(binary.BigEndian.Uint16(b))
	h.version = int16(binary.BigEndian.Uint16(b[2:]))
	h.correlation = int32(binary.BigEndian.Uint32(b[4:]))
	n := int(int16(binary.BigEndian.Uint16(b[8:])))
	h.rest = b[10:]
	if n >= 0 {
		if n > len(h.rest) {
			return h, badFrame("header", "a client id of %d bytes in a frame that has %d left", n, len(h.rest))
		}
		s := string(h.rest[:n])
		h.client, h.rest = &s, h.rest[n:]
	}
	return h, nil
}

// skipTags reads over a tag section. Unknown, repeated and unordered tags pass; the count and every size are checked
// against what is there.
func skipTags(b []byte) ([]byte, error) {
	count, b, err := uvarint(b)
	if err != nil {
		return nil, err
	}
	if count > maxTags {
		return nil, badFrame("header", "%d tagged fields in a header", count)
	}
	for range count {
		var size uint32
		if _, b, err = uvarint(b); err != nil {
			return nil, err
		}
		if size, b, err = uvarint(b); err != nil {
			return nil, err
		}
		if uint64(size) > uint64(len(b)) {
			return nil, badFrame("header", "a tag of %d bytes in a frame that has %d left", size, len(b))
		}
		b = b[size:]
	}
	return b, nil
}

// uvarint reads an unsigned varint of at most five bytes.
func uvarint(b []byte) (uint32, []byte, error) {
	var v uint64
	for i := range min(5, len(b)) {
		v |= uint64(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return uint32(v), b[i+1:], nil
		}
	}
	return 0, nil, badFrame("header", "a broken varint in a header")
}

// decode turns a frame into a request by the table. A refused or broken frame is a *frameError.
func decode(table Table, b []byte, internal bool) (*Request, error) {
	h, err := parseHeader(b)
	if err != nil {
		return nil, err
	}
	body, action := table.Lookup(h.key, h.version, internal)
	if action == Refuse {
		if kmsg.RequestForKey(h.key) == nil {
			return nil, badFrame("unknown-key", "api key %d is unknown", h.key)
		}
		return nil, badFrame("refused", "%s of version %d is not served here", kmsg.NameForKey(h.key), h.version)
	}
	r := &Request{Key: h.key, Version: body.GetVersion(), CorrelationID: h.correlation, ClientID: h.client, Body: body, Frame: b}
	if action == AnswerOldest {
		r.TooNew = true
		return r, nil
	}
	rest := h.rest
	if body.IsFlexible() {
		if rest, err = skipTags(rest); err != nil {
			return nil, err
		}
	}
	if err := readBody(body, rest); err != nil {
		return nil, badFrame("body", "%s of version %d does not decode: %v", kmsg.NameForKey(h.key), h.version, err)
	}
	return r, nil
}

// readBody decodes, and takes a panic of the decoder for what it is: a body that it cannot read. The decoder touches
// nothing but the body and its own new structs.
func readBody(body kmsg.Request, b []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decoder: %v", p)
		}
	}()
	return body.ReadFrom(b)
}

// DecodeFrame decodes a request frame that came inside another request (Envelope). b is the frame without its size.
func DecodeFrame(table Table, b []byte, internal bool) (*Request, error) {
	return decode(table, b, internal)
}
