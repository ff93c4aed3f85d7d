package harness

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Edges leads what nodes say to one another over proxies on loopback, and decides for each directed edge, from one node to
// another, what becomes of it. There is a road in front of each address that nodes know of each other; who speaks on it is
// found by the port that a connection or datagram comes from. Clients' traffic goes past it.
//
// It works on bytes, not on packets: a cut from i to j holds what i sends, while the kernel of j's host still acknowledges
// what it gets from the proxy, so one way may be cut and the other not. Connections stand still meanwhile, are neither
// closed nor reset, and go on when the edge is whole again with all that was held; new ones are accepted and hang, and are
// given up when their client gives up first. Datagrams vanish.
type Edges struct {
	opt  EdgeOptions
	done chan struct{} // closed by Close

	mu      sync.Mutex // guards all below
	rng     *rand.Rand
	edges   map[[2]int]*edge
	closers map[io.Closer]struct{}
	closed  bool

	loops sync.WaitGroup
}

// EdgeOptions says how Edges decides.
type EdgeOptions struct {
	Seed uint64 // of losses and jitter
	// Source names the node whose traffic comes from an address to a road; what comes from no node is refused. New gives
	// its own where this is nil.
	Source func(network string, from, road netip.AddrPort) (node int, ok bool)
}

// Policy is what becomes of what one node sends to another. The zero value lets all pass.
type Policy struct {
	Cut    bool          // nothing gets through
	Delay  time.Duration // added to every byte and datagram
	Jitter time.Duration // added by chance, up to this much; bytes of one connection stay in order
	Loss   float64       // share of the datagrams that vanish, 0 to 1
	Rate   int64         // bytes a second that get through, over all connections; 0: no limit
}

// EdgeState is one edge at a moment. Counts are of the whole time.
type EdgeState struct {
	From, To int
	Policy
	Conns     int64 // that From opened
	Bytes     int64 // that got through on connections
	Held      int64 // bytes under way or held at the moment, kernels' buffers not counted
	Datagrams int64 // that came, lost ones included
	Dropped   int64
	Changed   int64 // bytes and datagrams that a delay, a loss or a rate was applied to
}

// ErrNoEdge is an edge that cannot be: from a node to itself, or of a node id below 1.
var ErrNoEdge = errors.New("there is no such edge")

// NewEdges makes a set without roads, on which all passes.
func NewEdges(opt EdgeOptions) *Edges {
	return &Edges{opt: opt, done: make(chan struct{}), rng: rand.New(rand.NewPCG(opt.Seed, 0)), edges: map[[2]int]*edge{}, closers: map[io.Closer]struct{}{}}
}

// Road opens a road to an address of a node, for TCP and UDP on one port, and gives where it begins.
func (e *Edges) Road(node int, target string) (string, error) {
	to, err := net.ResolveUDPAddr("udp", target)
	if err != nil {
		return "", err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	u, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(l.Addr().(*net.TCPAddr).AddrPort()))
	if err != nil {
		l.Close()
		return "", err
	}
	r := &road{e: e, node: node, target: target, udp: u, to: to.AddrPort(), flows: map[int]*queue{}}
	if !e.own(l) || !e.own(u) {
		l.Close()
		return "", net.ErrClosed
	}
	e.loops.Go(func() { r.accept(l) })
	e.loops.Go(r.datagrams)
	return l.Addr().String(), nil
}

// edge gives one edge, made at its first use.
func (e *Edges) edge(from, to int) *edge {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := [2]int{from, to}
	if e.edges[k] == nil {
		e.edges[k] = &edge{changed: make(chan struct{})}
	}
	return e.edges[k]
}

// Set replaces the policy of one edge.
func (e *Edges) Set(from, to int, p Policy) error {
	return e.alter(from, to, func(old *Policy) { *old = p })
}

// Cut lets nothing through from one node to another until Mend or Heal.
func (e *Edges) Cut(from, to int) error {
	return e.alter(from, to, func(p *Policy) { p.Cut = true })
}

// Delay makes everything from one node to another late by d and up to jitter more.
func (e *Edges) Delay(from, to int, d, jitter time.Duration) error {
	return e.alter(from, to, func(p *Policy) { p.Delay, p.Jitter = d, jitter })
}

// Loss lets a share of the datagrams from one node to another vanish.
func (e *Edges) Loss(from, to int, share float64) error {
	return e.alter(from, to, func(p *Policy) { p.Loss = share })
}

// Rate lets only so many bytes a second through from one node to another.
func (e *Edges) Rate(from, to int, bytes int64) error {
	return e.alter(from, to, func(p *Policy) { p.Rate = bytes })
}

// Mend lets all pass again from one node to another.
func (e *Edges) Mend(from, to int) error {
	return e.alter(from, to, func(p *Policy) { *p = Policy{} })
}

func (e *Edges) alter(from, to int, f func(*Policy)) error {
	if from == to || from < 1 || to < 1 {
		return fmt.Errorf("%w: from %d to %d", ErrNoEdge, from, to)
	}
	e.edge(from, to).alter(f)
	return nil
}

// Heal lets all pass again everywhere.
func (e *Edges) Heal() {
	e.mu.Lock()
	all := make([]*edge, 0, len(e.edges))
	for _, x := range e.edges {
		all = append(all, x)
	}
	e.mu.Unlock()
	for _, x := range all {
		x.alter(func(p *Policy) { *p = Policy{} })
	}
}

// State tells of every edge that was used or changed, by rising ids.
func (e *Edges) State() []EdgeState {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []EdgeState
	for k, x := range e.edges {
		if k[0] == k[1] {
			continue
		}
		s := x.state()
		s.From, s.To = k[0], k[1]
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b EdgeState) int {
		if a.From != b.From {
			return a.From - b.From
		}
		return a.To - b.To
	})
	return out
}

// own closes c with Edges; it says no, and closes c, when that has happened.
func (e *Edges) own(c io.Closer) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		c.Close()
		return false
	}
	e.closers[c] = struct{}{}
	return true
}

func (e *Edges) disown(c io.Closer) {
	e.mu.Lock()
	delete(e.closers, c)
	e.mu.Unlock()
	c.Close()
}

// chance draws a number from 0 to 1.
func (e *Edges) chance() float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rng.Float64()
}

// Close ends all roads, with what is held on them, and waits for them.
func (e *Edges) Close() error {
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		close(e.done)
	}
	for c := range e.closers {
		c.Close()
	}
	e.mu.Unlock()
	e.loops.Wait()
	return nil
}
