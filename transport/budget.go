package transport

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errMemory is why a connection is closed that waited too long for memory which other connections hold.
var errMemory = errors.New("no memory for requests in time")

// budget bounds the bytes that all connections together hold: frames until their answer has left, and encoded answers
// until they are sent. Requests may use seven eighths of it, so that answers always find room that no request holds and
// the two cannot wait for each other.
type budget struct {
	mu       sync.Mutex
	limit    int64
	requests int64 // bound for requests
	used     int64
	waiters  []*waiter // in order of arrival
}

type waiter struct {
	n, bound int64
	ready    chan struct{}
}

func newBudget(limit int64) *budget { return &budget{limit: limit, requests: limit - limit/8} }

// acquireRequest takes n bytes for a request. It waits, at most patience, while requests hold too much.
func (b *budget) acquireRequest(ctx context.Context, n int64, patience time.Duration) error {
	return b.acquire(ctx, n, b.requests, patience)
}

// acquireAnswer takes n bytes for an answer.
func (b *budget) acquireAnswer(ctx context.Context, n int64, patience time.Duration) error {
	return b.acquire(ctx, n, b.limit, patience)
}

func (b *budget) acquire(ctx context.Context, n, bound int64, patience time.Duration) error {
	b.mu.Lock()
	if b.fits(n, bound) && len(b.waiters) == 0 {
		b.used += n
		b.mu.Unlock()
		return nil
	}
	w := &waiter{n: n, bound: bound, ready: make(chan struct{})}
	b.waiters = append(b.waiters, w)
	b.wake() // an answer may fit where the requests before it do not
	b.mu.Unlock()

	t := time.NewTimer(patience)
	defer t.Stop()
	err := errMemory
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-t.C:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, x := range b.waiters {
		if x == w {
			b.waiters = append(b.waiters[:i], b.waiters[i+1:]...)
			b.wake()
			return err
		}
	}
	return nil // it was given in the meantime
}

// fits says whether n may be taken. What is larger than the whole bound fits when nothing else is held.
func (b *budget) fits(n, bound int64) bool { return b.used+n <= bound || b.used == 0 }

func (b *budget) release(n int64) {
	b.mu.Lock()
	b.used -= n
	b.wake()
	b.mu.Unlock()
}

// wake gives to waiters, first come first served. A request that does not fit holds back the requests behind it, not
// the answers.
func (b *budget) wake() {
	kept, blocked := b.waiters[:0], false
	for _, w := range b.waiters {
		if request := w.bound == b.requests; request && blocked || !b.fits(w.n, w.bound) {
			blocked = blocked || request
			kept = append(kept, w)
			continue
		}
		b.used += w.n
		close(w.ready)
	}
	clear(b.waiters[len(kept):])
	b.waiters = kept
}

// held is the number of bytes taken now.
func (b *budget) held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
