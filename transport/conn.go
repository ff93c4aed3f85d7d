package transport

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// readBuffer is what every connection keeps for reading; larger bodies are read past it.
const readBuffer = 4 << 10

// conn is one connection. Its goroutine reads, decodes and handles requests, one after another, and sends answers that
// are ready itself. Answers that wait are sent by a second goroutine, in the order of the requests, which is started
// with the first of them. Answers never overtake each other.
type conn struct {
	server *Server
	lis    *listener
	raw    net.Conn
	info   *ConnInfo
	in     reader
	out    sender
	ctx    context.Context
	cancel context.CancelFunc

	queue  chan *pending // answers for the writer; nil until it runs
	queued atomic.Int32  // answers handed to the writer and not yet sent
	writer sync.WaitGroup

	held  atomic.Int64  // bytes of frames whose answers are not sent
	freed chan struct{} // signalled when held falls

	challenge *challenge // of a proof that has begun; the reader's

	draining atomic.Bool // no further request is read
	failure  error       // why the writer ended the connection; the writer's until it has ended
}

// pending is an answer on its way.
type pending struct {
	req   *Request
	resp  Response
	frame *frame
	start time.Time
	sent  chan struct{} // closed when the answer has left; nil where nobody waits for it
}

func newConn(s *Server, l *listener, raw net.Conn, id uint64) *conn {
	ctx, cancel := context.WithCancel(s.ctx)
	c := &conn{server: s, lis: l, raw: raw, ctx: ctx, cancel: cancel, freed: make(chan struct{}, 1)}
	c.info = &ConnInfo{
		ID: id, Listener: l.Name, Internal: l.Internal && len(s.opt.Secret) == 0,
		Remote: raw.RemoteAddr(), Local: raw.LocalAddr(), Closed: ctx.Done(),
	}
	c.in = reader{conn: raw, br: bufio.NewReaderSize(raw, readBuffer), budget: s.budget, maxBytes: s.opt.RequestMaxBytes, patience: s.opt.Patience}
	c.out = sender{conn: raw, patience: s.opt.Patience}
	return c
}

// serve runs the connection until it ends, and returns when both of its goroutines have.
func (c *conn) serve() {
	err := c.read()
	var bad *frameError
	var closed *closedByHandler
	switch {
	case errors.As(err, &bad), errors.As(err, &closed), c.draining.Load():
		// The answers to what came before still leave.
	default:
		c.abort()
	}
	if c.queue != nil {
		close(c.queue)
		c.writer.Wait()
	}
	c.abort()
	if c.failure != nil {
		err = c.failure
	}
	c.server.ended(c, err)
}

// abort ends the connection at once: waits end, reads and writes fail.
func (c *conn) abort() {
	c.cancel()
	_ = c.raw.Close()
}

// drain lets the connection answer what it has read, and end.
func (c *conn) drain() {
	c.draining.Store(true)
	_ = c.raw.SetReadDeadline(time.Unix(1, 0))
}

// closedByHandler ends a connection whose request is answered by closing. The reason is a label of the metric.
type closedByHandler struct{ reason string }

func (e *closedByHandler) Error() string { return "closed instead of an answer: " + e.reason }

// read is the reader's loop. It ends with io.EOF, a *frameError, a *closedByHandler or the error of the socket.
func (c *conn) read() error {
	var barrier chan struct{} // the next request is handled after it is closed
	for {
		f, err := c.next()
		if err != nil {
			return err
		}
		start := time.Now()
		if barrier != nil {
			select {
			case <-barrier:
				barrier = nil
			case <-c.ctx.Done():
				c.free(f)
				return c.ctx.Err()
			}
		}
		if c.lis.Internal && isProof(f.b) {
			err := c.prove(f.b)
			c.free(f)
			if err != nil {
				return err
			}
			continue
		}
		req, err := c.decode(f)
		if err != nil {
			c.free(f)
			return err
		}
		if barrier, err = c.handle(&pending{req: req, frame: f, start: start}); err != nil {
			return err
		}
	}
}

// handle calls the handler and sends the answer or hands it to the writer. It returns what the next request has to
// wait for: only answers that say so are prepared while later requests are handled, so that a connection never holds
// more than one encoded answer.
func (c *conn) handle(p *pending) (barrier chan struct{}, err error) {
	p.resp = c.server.opt.Handler.Handle(c.ctx, p.req)
	if p.resp.FrameDone {
		c.done(p)
	}
	if p.resp.Wait == nil && c.queued.Load() == 0 {
		return nil, c.finish(p)
	}
	if p.resp.None {
		c.done(p)
		return nil, nil
	}
	if p.resp.Wait == nil || p.resp.Ordered {
		p.sent = make(chan struct{})
		barrier = p.sent
	}
	if c.queue == nil {
		c.queue = make(chan *pending, c.server.opt.PendingMax)
		c.writer.Add(1)
		go c.write()
	}
	c.queued.Add(1)
	c.queue <- p // the writer always drains the queue, also of a connection that has ended
	return barrier, nil
}

// write is the writer's loop. After a failure it still takes every answer, to give back what it holds.
func (c *conn) write() {
	defer c.writer.Done()
	for p := range c.queue {
		if p.resp.Wait != nil {
			p.resp = p.resp.Wait(c.ctx)
		}
		if c.failure != nil {
			p.resp.release()
			c.done(p)
		} else if c.failure = c.finish(p); c.failure != nil {
			c.abort()
		}
		c.queued.Add(-1)
		if p.sent != nil {
			close(p.sent)
		}
	}
}

// finish sends a ready answer and gives back what the request held. An error ends the connection.
func (c *conn) finish(p *pending) error {
	defer c.done(p)
	switch {
	case p.resp.None:
		return nil
	case p.resp.Close || p.resp.Body == nil && p.resp.Pieces == nil:
		return &closedByHandler{p.resp.Reason}
	}
	err := c.send(p)
	c.server.metrics.failures(p.req.Key, &p.resp)
	c.server.observe(p.req.Key, time.Since(p.start))
	return err
}

// send encodes and sends, with the encoded bytes counted in the budget.
func (c *conn) send(p *pending) error {
	flexible := p.req.Body.IsFlexible() && p.req.Key != kmsg.ApiVersions.Int16()
	if p.resp.Pieces != nil {
		return c.out.pieces(p.req.CorrelationID, flexible, p.resp.Pieces)
	}
	select {
	case c.server.encoders <- struct{}{}:
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
	buf := appendHead(GetBuffer(0), p.req.CorrelationID, flexible)
	buf = p.resp.Body.AppendTo(buf)
	n := int64(cap(buf))
	err := c.server.budget.acquireAnswer(c.ctx, n, c.server.opt.Patience)
	<-c.server.encoders
	if err == nil {
		binary.BigEndian.PutUint32(buf, uint32(len(buf)-4))
		err = c.out.bytes(buf)
		c.server.budget.release(n)
	}
	PutBuffer(buf)
	return err
}

// done gives back what a request held.
func (c *conn) done(p *pending) {
	if p.frame != nil {
		c.free(p.frame)
		p.frame = nil
	}
}

func (c *conn) free(f *frame) {
	c.held.Add(-f.charged)
	c.in.free(f)
	select {
	case c.freed <- struct{}{}:
	default:
	}
}

// next reads a frame, within the idle limit and what this connection may hold.
func (c *conn) next() (*frame, error) {
	n, err := c.size()
	if err != nil {
		return nil, err
	}
	for c.held.Load() > 0 && c.held.Load()+int64(n) > c.server.opt.ConnectionBytes {
		select {
		case <-c.freed:
		case <-c.ctx.Done():
			return nil, c.ctx.Err()
		}
	}
	f, err := c.in.body(c.ctx, n)
	if err != nil {
		return nil, err
	}
	c.held.Add(f.charged)
	return f, nil
}

// size waits for the next frame. A connection that waits for nothing is closed after the idle limit.
func (c *conn) size() (int, error) {
	for {
		_ = c.raw.SetReadDeadline(time.Now().Add(c.server.opt.IdleMax))
		if c.draining.Load() {
			return 0, errDraining
		}
		_, err := c.in.br.Peek(1)
		switch {
		case err == nil:
			_ = c.raw.SetReadDeadline(time.Now().Add(c.server.opt.Patience))
			n, err := c.in.size()
			if errors.Is(err, os.ErrDeadlineExceeded) && !c.draining.Load() {
				err = badFrame("slow", "a frame's size did not arrive in time")
			}
			return n, err
		case errors.Is(err, os.ErrDeadlineExceeded) && c.draining.Load():
			return 0, errDraining
		case errors.Is(err, os.ErrDeadlineExceeded) && c.queued.Load() == 0:
			return 0, errIdle
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue
		default:
			return 0, err
		}
	}
}

var (
	errDraining = errors.New("server shuts down")
	errIdle     = errors.New("idle")
)

// decode checks a frame against the table. The decoded form of a large frame without records may be many times the
// frame, so that it is charged for before.
func (c *conn) decode(f *frame) (*Request, error) {
	if len(f.b) > smallFrame {
		if key := int16(binary.BigEndian.Uint16(f.b)); key != kmsg.Produce.Int16() && key != kmsg.Envelope.Int16() {
			if len(f.b) > maxQuestion {
				return nil, badFrame("size", "%d bytes of %s", len(f.b), kmsg.NameForKey(key))
			}
			extra := min(decodeWeight*int64(len(f.b)), c.server.budget.requests/2)
			if err := c.server.budget.acquireRequest(c.ctx, extra, c.server.opt.Patience); err != nil {
				return nil, err
			}
			f.charged += extra
			c.held.Add(extra)
		}
	}
	req, err := decode(c.server.opt.Table, f.b, c.info.Internal)
	if err != nil {
		return nil, err
	}
	req.Conn = c.info
	return req, nil
}

// why gives the metric label for the end of a connection.
func why(err error) string {
	var bad *frameError
	var closed *closedByHandler
	switch {
	case errors.As(err, &bad):
		return "bad-frame"
	case errors.As(err, &closed) && closed.reason != "":
		return closed.reason
	case errors.As(err, &closed):
		return "refused"
	case errors.Is(err, errMemory):
		return "memory"
	case errors.Is(err, errIdle):
		return "idle"
	case errors.Is(err, errDraining), errors.Is(err, context.Canceled):
		return "shutdown"
	case errors.Is(err, io.EOF):
		return "client"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "slow"
	default:
		return "error"
	}
}

// release gives back every file range of an answer that is not sent.
func (r *Response) release() {
	for i := range r.Pieces {
		r.Pieces[i].Span.Release()
	}
}
