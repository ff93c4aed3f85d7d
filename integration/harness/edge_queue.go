package harness

import (
	"sync"
	"time"
)

// mostHeld bounds the bytes that are held of one way of a connection, or of the datagrams from one node on one road; what
// comes then waits in the sender's kernel, or vanishes if it is a datagram.
const mostHeld = 1 << 20

// late is bytes that go on at a time.
type late struct {
	due time.Time
	b   []byte
}

// queue holds what is under way in its order, between one who puts and one who takes.
type queue struct {
	more, room chan struct{} // a token when something was put, or taken
	ended      chan struct{} // closed by end
	dead       chan struct{} // closed by kill

	mu    sync.Mutex // guards all below
	items []late
	bytes int
	over  bool
}

func newQueue() *queue {
	return &queue{more: make(chan struct{}, 1), room: make(chan struct{}, 1), ended: make(chan struct{}), dead: make(chan struct{})}
}

func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// offer puts l if there is room.
func (q *queue) offer(l late) bool {
	q.mu.Lock()
	if q.bytes >= mostHeld {
		q.mu.Unlock()
		return false
	}
	q.items = append(q.items, l)
	q.bytes += len(l.b)
	q.mu.Unlock()
	token(q.more)
	return true
}

// put waits for room; false: done or dead came first.
func (q *queue) put(l late, done <-chan struct{}) bool {
	for !q.offer(l) {
		select {
		case <-q.room:
		case <-q.dead:
			return false
		case <-done:
			return false
		}
	}
	return true
}

// take waits for the oldest; false: there will be none, or done came first.
func (q *queue) take(done <-chan struct{}) (late, bool) {
	for {
		q.mu.Lock()
		if len(q.items) > 0 {
			l := q.items[0]
			q.items[0] = late{}
			q.items = q.items[1:]
			q.bytes -= len(l.b)
			q.mu.Unlock()
			token(q.room)
			return l, true
		}
		over := q.over
		q.mu.Unlock()
		if over {
			return late{}, false
		}
		select {
		case <-q.more:
		case <-done:
			return late{}, false
		}
	}
}

// end says that no more is put. The one who puts calls it, once.
func (q *queue) end() {
	q.mu.Lock()
	q.over = true
	q.mu.Unlock()
	close(q.ended)
	token(q.more)
}

// kill says that nothing is taken any more. The one who takes calls it, once.
func (q *queue) kill() { close(q.dead) }

// until waits for a moment; false: done came first.
func until(at time.Time, done <-chan struct{}) bool {
	d := time.Until(at)
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-done:
		return false
	}
}
