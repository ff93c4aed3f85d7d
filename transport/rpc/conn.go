// Package rpc is the client that nodes use towards each other: Kafka requests over one connection, many in flight,
// answered in order, in versions that the caller fixes. It knows nothing of brokers or partitions.
package rpc

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/transport"
)

// Defaults of Options.
const (
	DefaultDialTimeout = 2 * time.Second
	DefaultTimeout     = 30 * time.Second
	DefaultMaxPending  = 64
	DefaultMaxBytes    = 128 << 20

	firstChunk = 64 << 10
	growth     = 16 // a buffer is at most this many times what has arrived
)

var (
	// ErrClosed is a connection that is closed, by Close or after a failure, which it wraps as well.
	ErrClosed = errors.New("connection is closed")
	// ErrNotSent says that the request certainly did not reach the peer: nothing of it was written.
	ErrNotSent = errors.New("request was not sent")
)

// Options of a connection. Zero values mean the defaults.
type Options struct {
	ClientID    string
	Secret      []byte        // proved to the peer at connect when not empty
	DialTimeout time.Duration // for resolving, connecting and the proof
	Timeout     time.Duration // of a request whose context has no deadline
	MaxPending  int           // requests without an answer
	MaxBytes    int64         // of one answer
	// Dial replaces the TCP dialer, for tests.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
}

// Conn is one connection to a node. It is safe for concurrent use. Any failure, also a request that is not answered in
// time, closes it: its owner dials again.
type Conn struct {
	opt    Options
	raw    net.Conn
	turn   chan struct{} // held while a request is queued and written, so that both have one order
	queue  chan *Pending // written and not answered
	closed chan struct{}
	once   sync.Once
	cause  error // why it is closed; read after closed
	reader sync.WaitGroup
	last   int32 // correlation id; of whoever holds turn
}

// Pending is a request in flight.
type Pending struct {
	conn        *Conn
	req         kmsg.Request
	correlation int32
	done        chan struct{}
	resp        kmsg.Response
	err         error
	buf         []byte // what resp's byte slices refer to
}

// Dial resolves addr, connects and proves the secret.
func Dial(ctx context.Context, addr string, opt Options) (*Conn, error) {
	if opt.DialTimeout == 0 {
		opt.DialTimeout = DefaultDialTimeout
	}
	if opt.Timeout == 0 {
		opt.Timeout = DefaultTimeout
	}
	if opt.MaxPending == 0 {
		opt.MaxPending = DefaultMaxPending
	}
	if opt.MaxBytes == 0 {
		opt.MaxBytes = DefaultMaxBytes
	}
	if opt.Dial == nil {
		opt.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, opt.DialTimeout)
	defer cancel()
	raw, err := opt.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	if len(opt.Secret) > 0 {
		stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
		err := transport.Prove(raw, opt.Secret)
		if !stop() && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			_ = raw.Close()
			return nil, fmt.Errorf("%s: %w", addr, err)
		}
	}
	c := &Conn{
		opt: opt, raw: raw, turn: make(chan struct{}, 1), queue: make(chan *Pending, opt.MaxPending), closed: make(chan struct{}),
	}
	c.reader.Add(1)
	go c.read()
	return c, nil
}

// Do sends req in the version set on it and returns the answer. The answer's byte slices belong to the caller. Errors
// that wrap ErrNotSent mean that the peer has not seen the request; after any other it may have been served.
func (c *Conn) Do(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	p, err := c.start(ctx, req)
	if err != nil {
		return nil, err
	}
	return p.Wait(ctx)
}

// Start sends req and returns while the answer is on its way; several may be. It blocks only while MaxPending are.
func (c *Conn) Start(req kmsg.Request) (*Pending, error) {
	return c.start(context.Background(), req)
}

// AckKey is the private key of a follower's acknowledgement, for Tell.
const AckKey = transport.AckKey

// Tell sends a frame of a private key, which has no answer. It blocks only while a request is written; an error ends the
// connection.
func (c *Conn) Tell(key int16, body []byte) error {
	_, err := c.write(context.Background(), &Pending{conn: c, req: transport.NewOneWay(key, body)}, false)
	return err
}

// Closed is closed when the connection is.
func (c *Conn) Closed() <-chan struct{} { return c.closed }

// RemoteAddr is the address that was dialled, resolved.
func (c *Conn) RemoteAddr() net.Addr { return c.raw.RemoteAddr() }

// Err is why the connection is closed; nil while it is open.
func (c *Conn) Err() error {
	select {
	case <-c.closed:
		return c.cause
	default:
		return nil
	}
}

// Close closes the connection and returns when its goroutine has ended. Requests in flight fail.
func (c *Conn) Close() error {
	c.fail(ErrClosed)
	c.reader.Wait()
	return nil
}

func (c *Conn) fail(cause error) {
	c.once.Do(func() {
		if !errors.Is(cause, ErrClosed) {
			cause = fmt.Errorf("%w: %w", ErrClosed, cause)
		}
		c.cause = cause
		close(c.closed)
		_ = c.raw.Close()
	})
}

func (c *Conn) start(ctx context.Context, req kmsg.Request) (*Pending, error) {
	return c.write(ctx, &Pending{conn: c, req: req, done: make(chan struct{})}, true)
}

// write sends p in its turn, within ctx or, where that has no deadline, the time of a request; answered says that an
// answer will come.
func (c *Conn) write(ctx context.Context, p *Pending, answered bool) (*Pending, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(c.opt.Timeout)
	}
	if err := put(ctx, c, deadline, c.turn, struct{}{}); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	defer func() { <-c.turn }()
	if err := cmp.Or(c.Err(), ctx.Err()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	c.last++
	p.correlation = c.last
	if answered {
		if err := put(ctx, c, deadline, c.queue, p); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
		}
	}
	buf := c.encode(transport.GetBuffer(0), p)
	_ = c.raw.SetWriteDeadline(deadline)
	n, err := c.raw.Write(buf)
	transport.PutBuffer(buf)
	if err != nil {
		c.fail(err)
		if n == 0 {
			err = fmt.Errorf("%w: %w", ErrNotSent, err)
		}
		return nil, err
	}
	return p, nil
}

// put sends v to ch and waits for room until the deadline, the end of ctx or of the connection. Where there is room, as
// nearly always, it needs no timer.
func put[T any](ctx context.Context, c *Conn, deadline time.Time, ch chan<- T, v T) error {
	select {
	case ch <- v:
		return nil
	default:
	}
	t := startTimer(time.Until(deadline))
	defer stopTimer(t)
	select {
	case ch <- v:
		return nil
	case <-c.closed:
		return c.cause
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return context.DeadlineExceeded
	}
}

// timers are stopped ones, for requests without a deadline of the caller's.
var timers = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}}

func startTimer(d time.Duration) *time.Timer {
	t := timers.Get().(*time.Timer)
	t.Reset(d)
	return t
}

func stopTimer(t *time.Timer) {
	t.Stop() // after it nothing is in the channel
	timers.Put(t)
}

// encode makes the frame: size, header of the request's kind, body.
func (c *Conn) encode(b []byte, p *Pending) []byte {
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(p.req.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(p.req.GetVersion()))
	b = binary.BigEndian.AppendUint32(b, uint32(p.correlation))
	b = binary.BigEndian.AppendUint16(b, uint16(len(c.opt.ClientID)))
	b = append(b, c.opt.ClientID...)
	if p.req.IsFlexible() {
		b = append(b, 0)
	}
	b = p.req.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// Done is closed when Wait need not wait.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Wait returns the answer. It is called once. When ctx ends first, or the time of a request without a deadline, the
// connection is closed: what the peer did is not known.
func (p *Pending) Wait(ctx context.Context) (kmsg.Response, error) {
	var late <-chan time.Time
	if _, ok := ctx.Deadline(); !ok {
		t := startTimer(p.conn.opt.Timeout)
		defer stopTimer(t)
		late = t.C
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		p.conn.fail(fmt.Errorf("%s was not answered: %w", kmsg.NameForKey(p.req.Key()), ctx.Err()))
		<-p.done
	case <-late:
		p.conn.fail(fmt.Errorf("%s was not answered in %v", kmsg.NameForKey(p.req.Key()), p.conn.opt.Timeout))
		<-p.done
	}
	return p.resp, p.err
}

// Release gives the answer's buffer back for later answers. It may be called once after Wait, when nothing refers to
// the answer's byte slices any more; without it the buffer is left to the garbage collector.
func (p *Pending) Release() {
	if p.buf != nil {
		transport.PutBuffer(p.buf)
		p.buf = nil
	}
}

// read takes answers off the connection, in the order of the requests, until it is closed; then every request in
// flight fails.
func (c *Conn) read() {
	defer c.reader.Done()
	br := bufio.NewReaderSize(c.raw, 4<<10)
	for {
		p, err := c.answer(br)
		if err != nil {
			c.fail(err)
			if p != nil {
				p.err = c.cause
				close(p.done)
			}
			break
		}
		close(p.done)
	}
	// Whoever holds turn now may still put a request in the queue; after it nobody does.
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	for {
		select {
		case p := <-c.queue:
			p.err = c.cause
			close(p.done)
		default:
			return
		}
	}
}

// answer reads one frame and decodes it for the oldest request in flight.
func (c *Conn) answer(br *bufio.Reader) (*Pending, error) {
	head, err := br.Peek(8)
	if err != nil {
		return nil, err
	}
	n, correlation := int64(int32(binary.BigEndian.Uint32(head))), int32(binary.BigEndian.Uint32(head[4:]))
	_, _ = br.Discard(4)
	if n < 4 || n > c.opt.MaxBytes {
		return nil, fmt.Errorf("an answer of %d bytes; allowed are 4 to %d", n, c.opt.MaxBytes)
	}
	var p *Pending
	select {
	case p = <-c.queue:
	default:
		return nil, errors.New("an answer that nobody asked for")
	}
	if p.correlation != correlation {
		return p, fmt.Errorf("an answer to request %d where %d is due", correlation, p.correlation)
	}
	buf, err := readAll(br, int(n))
	if err != nil {
		return p, err
	}
	body := buf[4:]
	resp := p.req.ResponseKind()
	if resp.IsFlexible() && resp.Key() != kmsg.ApiVersions.Int16() {
		if len(body) == 0 || body[0] != 0 {
			return p, errors.New("an answer with header tags")
		}
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		return p, fmt.Errorf("answer to %s: %w", kmsg.NameForKey(resp.Key()), err)
	}
	p.resp, p.buf = resp, buf
	return p, nil
}

// readAll reads n bytes into a pooled buffer that grows as they arrive.
func readAll(r io.Reader, n int) ([]byte, error) {
	buf := transport.GetBuffer(min(n, firstChunk))
	for len(buf) < n {
		if len(buf) == cap(buf) {
			next := append(transport.GetBuffer(min(n, growth*len(buf))), buf...)
			transport.PutBuffer(buf)
			buf = next
		}
		m, err := io.ReadFull(r, buf[len(buf):min(n, cap(buf))])
		buf = buf[:len(buf)+m]
		if err != nil {
			transport.PutBuffer(buf)
			return nil, err
		}
	}
	return buf, nil
}
