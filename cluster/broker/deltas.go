package broker

import (
	"sync"
	"time"

	"cordwood/fsm/metadata"
)

// deltas carries image changes from the FSM's goroutine to the apply loop. put never blocks: what the loop has not taken
// yet is merged, so that the memory is bounded by what exists, and the loop may skip images but never a change.
type deltas struct {
	mu      sync.Mutex // guards pending; held for memory only
	pending *metadata.Delta
	wake    chan struct{} // holds one token while pending is not nil
}

func newDeltas() *deltas { return &deltas{wake: make(chan struct{}, 1)} }

// published takes a new image from the state machine's goroutine.
func (b *Broker) published(_ *metadata.Image, d metadata.Delta) {
	var at time.Time
	if b.registered.Load() {
		at = b.wall()
	}
	b.history.note(&d, at)
	b.deltas.put(d)
}

// Events are the controller's to tell and are not kept: a loop that is late would pile them up.
func (q *deltas) put(d metadata.Delta) {
	d.Events = nil
	q.mu.Lock()
	if q.pending == nil {
		q.pending = &d
	} else {
		q.pending.Merge(d)
	}
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take gives all that changed since the last take, nil if nothing did.
func (q *deltas) take() *metadata.Delta {
	q.mu.Lock()
	defer q.mu.Unlock()
	d := q.pending
	q.pending = nil
	return d
}
