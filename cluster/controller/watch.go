package controller

import (
	"context"
	"sync"
)

// watch wakes goroutines that wait for an index. Waking costs nothing while nobody waits. The zero value is ready.
type watch struct {
	mu    sync.Mutex
	woken chan struct{} // nil: nobody waits
	index uint64        // the newest one
}

// wake tells all waiters that index is reached.
func (w *watch) wake(index uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.index = max(w.index, index)
	if w.woken != nil {
		close(w.woken)
		w.woken = nil
	}
}

// until returns when index is reached, by what wake was told or by now's word, or with ctx's error.
func (w *watch) until(ctx context.Context, index uint64, now func() uint64) error {
	for {
		w.mu.Lock()
		if w.index >= index {
			w.mu.Unlock()
			return nil
		}
		if w.woken == nil {
			w.woken = make(chan struct{})
		}
		woken := w.woken
		w.mu.Unlock()
		if now() >= index {
			return nil
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
