package harness

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	roadChunk  = 32 << 10
	dialWithin = time.Second
)

// road leads to one address of one node.
type road struct {
	e      *Edges
	node   int
	target string
	udp    *net.UDPConn
	to     netip.AddrPort

	flows map[int]*queue // of datagrams, by the node they come from; only for the loop that reads them
}

// accept serves connections until the listener is closed.
func (r *road) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			if !until(time.Now().Add(10*time.Millisecond), r.e.done) { // no descriptor is left, for now
				return
			}
			continue
		}
		in := c.(*net.TCPConn)
		if !r.e.own(in) {
			return
		}
		r.e.loops.Go(func() {
			defer r.e.disown(in)
			r.connection(in)
		})
	}
}

// connection leads one connection until both its ways have ended.
func (r *road) connection(in *net.TCPConn) {
	from, ok := r.e.opt.Source("tcp", addrPort(in.RemoteAddr()), addrPort(in.LocalAddr()))
	if !ok {
		_ = in.SetLinger(0)
		return
	}
	there, back := r.e.edge(from, r.node), r.e.edge(r.node, from)
	there.count(func(s *EdgeState) { s.Conns++ })
	out := &way{e: r.e, edge: there, back: back, from: in, q: newQueue()}
	var ways sync.WaitGroup
	ways.Go(out.read)
	if !r.opened(out) {
		out.q.kill()
		_ = in.SetLinger(0) // refused, as far as that can still be
		in.Close()
		ways.Wait()
		out.drop()
		return
	}
	answers := &way{e: r.e, edge: back, back: there, from: out.to, to: in, q: newQueue()}
	ways.Go(out.write)
	ways.Go(answers.read)
	ways.Go(answers.write)
	ways.Wait()
	out.drop()
	answers.drop()
	r.e.disown(out.to)
}

// opened dials the target when both edges are whole: what opens a connection goes there and back. A client that gave up
// meanwhile is not told of there.
func (r *road) opened(w *way) bool {
	for {
		if !w.edge.whole(r.e.done, w.q.ended) || !w.back.whole(r.e.done, w.q.ended) {
			return false
		}
		if cut, _ := w.edge.isCut(); !cut {
			break
		}
	}
	c, err := net.DialTimeout("tcp", r.target, dialWithin)
	if err != nil {
		return false
	}
	w.to = c.(*net.TCPConn)
	return r.e.own(w.to) // closed when not
}

// way is one way of a connection: one goroutine reads, another writes late.
type way struct {
	e          *Edges
	edge, back *edge
	from, to   *net.TCPConn
	q          *queue
}

func (w *way) read() {
	defer w.q.end()
	b := make([]byte, roadChunk)
	for {
		n, err := w.from.Read(b)
		if n > 0 {
			w.edge.count(func(s *EdgeState) { s.Held += int64(n) })
			if !w.q.put(late{w.edge.due(n, w.e.chance()), bytes.Clone(b[:n])}, w.e.done) {
				w.edge.count(func(s *EdgeState) { s.Held -= int64(n) })
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// drop lets what is still held go, when nobody reads or writes any more.
func (w *way) drop() {
	n := int64(w.q.bytes)
	w.edge.count(func(s *EdgeState) { s.Held -= n })
}

// write goes on until nothing more comes or can be written. The end of either side travels like bytes do: not over a cut.
func (w *way) write() {
	defer w.q.kill()
	for {
		l, ok := w.q.take(w.e.done)
		if !ok {
			break
		}
		n := int64(len(l.b))
		ok = until(l.due, w.e.done) && w.edge.whole(w.e.done, nil)
		w.edge.count(func(s *EdgeState) { s.Held -= n })
		if !ok {
			return
		}
		if _, err := w.to.Write(l.b); err != nil {
			if w.back.whole(w.e.done, nil) { // the other end has gone: the sender learns of it
				w.from.Close()
			}
			return
		}
		w.edge.count(func(s *EdgeState) { s.Bytes += n })
	}
	if w.edge.whole(w.e.done, nil) {
		_ = w.to.CloseWrite()
	}
}

// datagrams forwards what comes until the socket is closed. Answers do not come back this way: gossip tells in every
// question where the answer goes.
func (r *road) datagrams() {
	var writers sync.WaitGroup
	defer writers.Wait()
	b := make([]byte, 64<<10)
	for {
		n, addr, err := r.udp.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			break
		}
		if err != nil {
			continue // the target's port was closed when the last one came
		}
		from, ok := r.e.opt.Source("udp", netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()), addrPort(r.udp.LocalAddr()))
		if !ok {
			continue
		}
		x := r.e.edge(from, r.node)
		if x.loses(r.e.chance()) {
			continue
		}
		q := r.flows[from]
		if q == nil {
			q = newQueue()
			r.flows[from] = q
			writers.Go(func() { r.send(q, x) })
		}
		if !q.offer(late{x.due(n, r.e.chance()), bytes.Clone(b[:n])}) {
			x.count(func(s *EdgeState) { s.Dropped++ })
		}
	}
	for _, q := range r.flows {
		q.end()
	}
}

// send writes datagrams when they are due; one that meets a cut then has been lost on its way.
func (r *road) send(q *queue, x *edge) {
	for {
		l, ok := q.take(r.e.done)
		if !ok || !until(l.due, r.e.done) {
			return
		}
		if cut, _ := x.isCut(); cut {
			x.count(func(s *EdgeState) { s.Dropped++ })
			continue
		}
		_, _ = r.udp.WriteToUDPAddrPort(l.b, r.to) // as lost as any
	}
}

func addrPort(a net.Addr) netip.AddrPort {
	switch a := a.(type) {
	case *net.TCPAddr:
		return netip.AddrPortFrom(a.AddrPort().Addr().Unmap(), a.AddrPort().Port())
	case *net.UDPAddr:
		return netip.AddrPortFrom(a.AddrPort().Addr().Unmap(), a.AddrPort().Port())
	}
	return netip.AddrPort{}
}
