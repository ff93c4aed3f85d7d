package harness

import (
	"sync"
	"time"
)

// edge is what one node sends to another.
type edge struct {
	mu      sync.Mutex // guards all below
	policy  Policy
	changed chan struct{} // closed at the next change of the policy
	free    time.Time     // when the rate lets the next byte through
	counts  EdgeState     // without what the policy says
}

func (x *edge) alter(f func(*Policy)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f(&x.policy)
	x.free = time.Time{}
	close(x.changed)
	x.changed = make(chan struct{})
}

func (x *edge) state() EdgeState {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.counts
	s.Policy = x.policy
	return s
}

func (x *edge) count(f func(*EdgeState)) {
	x.mu.Lock()
	f(&x.counts)
	x.mu.Unlock()
}

// due says when n bytes that came now may go on, whatever is cut; chance is a number from 0 to 1.
func (x *edge) due(n int, chance float64) time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	p := x.policy
	if p.Delay == 0 && p.Jitter == 0 && p.Rate == 0 {
		return now
	}
	x.counts.Changed += int64(n)
	at := now.Add(p.Delay + time.Duration(chance*float64(p.Jitter)))
	if p.Rate > 0 {
		if x.free.Before(now) {
			x.free = now
		}
		x.free = x.free.Add(time.Duration(float64(n) / float64(p.Rate) * float64(time.Second)))
		if x.free.After(at) {
			at = x.free
		}
	}
	return at
}

// loses says whether a datagram vanishes that came now; chance is a number from 0 to 1.
func (x *edge) loses(chance float64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.counts.Datagrams++
	if x.policy.Loss > 0 {
		x.counts.Changed++
	}
	if x.policy.Cut || chance < x.policy.Loss {
		x.counts.Dropped++
		return true
	}
	return false
}

func (x *edge) isCut() (bool, chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.policy.Cut, x.changed
}

// whole waits until the edge is not cut; false: one of the others was closed first.
func (x *edge) whole(done, given <-chan struct{}) bool {
	for {
		cut, changed := x.isCut()
		if !cut {
			return true
		}
		select {
		case <-changed:
		case <-done:
			return false
		case <-given:
			return false
		}
	}
}
