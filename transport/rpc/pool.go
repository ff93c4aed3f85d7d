package rpc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Pauses between dials of a node that failed before.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
)

// ErrPause says that a node is not dialled now since a dial failed a moment ago. It wraps that failure too.
var ErrPause = errors.New("node is not dialled again so soon")

// PoolOptions of a Pool.
type PoolOptions struct {
	Options
	// Address gives the present address of a node. The name in it is resolved at every dial.
	Address func(node int32) (string, error)
	Now     func() time.Time // nil: time.Now
}

// Pool keeps connections to nodes, one for each purpose, and dials again when one has failed. It is safe for concurrent
// use.
type Pool struct {
	opt    PoolOptions
	mu     sync.Mutex
	slots  map[slotKey]*slot
	closed bool
}

// slotKey: connections of different purposes do not wait for each other (a heartbeat behind a parked fetch).
type slotKey struct {
	node    int32
	purpose string
}

type slot struct {
	dialing chan struct{} // holds one token while somebody dials
	mu      sync.Mutex
	conn    *Conn
	failure error
	pause   time.Duration
	until   time.Time // no dial before
	address string    // of the failure: a new address is dialled at once
}

// NewPool makes a pool without connections.
func NewPool(opt PoolOptions) *Pool {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &Pool{opt: opt, slots: map[slotKey]*slot{}}
}

// Get gives the open connection to a node for a purpose, and dials if there is none. After a failed dial it gives
// ErrPause at once for a growing pause of at most a second.
func (p *Pool) Get(ctx context.Context, node int32, purpose string) (*Conn, error) {
	s, err := p.slot(slotKey{node, purpose})
	if err != nil {
		return nil, err
	}
	if c := s.open(); c != nil {
		return c, nil
	}
	select {
	case s.dialing <- struct{}{}:
		defer func() { <-s.dialing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c := s.open(); c != nil {
		return c, nil
	}
	addr, err := p.opt.Address(node)
	if err != nil {
		return nil, err
	}
	if err := s.paused(p.opt.Now(), addr); err != nil {
		return nil, fmt.Errorf("node %d at %s: %w", node, addr, err)
	}
	c, err := Dial(ctx, addr, p.opt.Options)
	if err != nil {
		s.failed(p.opt.Now(), addr, err)
		return nil, fmt.Errorf("node %d at %s: %w", node, addr, err)
	}
	if !p.keep(slotKey{node, purpose}, s, c) {
		_ = c.Close()
		return nil, ErrClosed
	}
	return c, nil
}

func (p *Pool) slot(key slotKey) (*slot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	s := p.slots[key]
	if s == nil {
		s = &slot{dialing: make(chan struct{}, 1)}
		p.slots[key] = s
	}
	return s, nil
}

// keep stores a fresh connection; false if its slot was given up meanwhile.
func (p *Pool) keep(key slotKey, s *slot, c *Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slots[key] != s {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn, s.failure, s.pause = c, nil, 0
	return true
}

// open is the slot's connection if it has not failed.
func (s *slot) open() *Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil && s.conn.Err() == nil {
		return s.conn
	}
	s.conn = nil
	return nil
}

func (s *slot) paused(now time.Time, addr string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil || s.address != addr || !now.Before(s.until) {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrPause, s.failure)
}

func (s *slot) failed(now time.Time, addr string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pause = min(max(2*s.pause, firstPause), longestPause)
	jitter := time.Duration(rand.Int64N(int64(s.pause)/4 + 1))
	s.failure, s.address, s.until = err, addr, now.Add(s.pause-jitter)
}

// Forget closes the connections to a node that is gone.
func (p *Pool) Forget(node int32) {
	for _, c := range p.take(func(k slotKey) bool { return k.node == node }, false) {
		_ = c.Close()
	}
}

// Close closes all connections and returns when their goroutines have ended. Get fails from then on.
func (p *Pool) Close() error {
	for _, c := range p.take(func(slotKey) bool { return true }, true) {
		_ = c.Close()
	}
	return nil
}

// take removes slots and gives their connections.
func (p *Pool) take(which func(slotKey) bool, closing bool) []*Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = p.closed || closing
	var conns []*Conn
	for k, s := range p.slots {
		if !which(k) {
			continue
		}
		delete(p.slots, k)
		s.mu.Lock()
		if s.conn != nil {
			conns = append(conns, s.conn)
		}
		s.mu.Unlock()
	}
	return conns
}
