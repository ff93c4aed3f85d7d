package logstore

import (
	"container/heap"
	"math"
	"sync"
	"time"
)

// agenda knows which logs have something to do, so that the others cost Tick and Checkpoint nothing: those with a duty by
// time, and those of which a checkpoint would say something new. Its lock is a leaf. The zero value is empty.
type agenda struct {
	mu    sync.Mutex
	due   dueLogs
	noted []*Log
}

// wake asks for l's duties at the first Tick at or after at; the zero time is the next one. A log has one appointment,
// its earliest: what a visit finds too early is asked for again.
func (a *agenda) wake(l *Log, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case l.slot == 0:
		l.due = at
		heap.Push(&a.due, l)
	case at.Before(l.due):
		l.due = at
		heap.Fix(&a.due, l.slot-1)
	}
}

// take removes and gives the logs whose appointment is not after now.
func (a *agenda) take(now time.Time) []*Log {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []*Log
	for len(a.due) > 0 && !a.due[0].due.After(now) {
		out = append(out, heap.Pop(&a.due).(*Log))
	}
	return out
}

// drop forgets l's appointment.
func (a *agenda) drop(l *Log) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.slot > 0 {
		heap.Remove(&a.due, l.slot-1)
	}
}

// note keeps logs for the next checkpoint.
func (a *agenda) note(logs ...*Log) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.noted = append(a.noted, logs...)
}

// takeNoted gives the logs that changed since the last call. What changes from now on is noted again.
func (a *agenda) takeNoted() []*Log {
	a.mu.Lock()
	out := a.noted
	a.noted = nil
	a.mu.Unlock()
	for _, l := range out {
		l.noted.Store(false)
	}
	return out
}

// note says, after the change, that a checkpoint of the log would say something new: its high watermark, start, flushed
// offset or generation moved, or a segment was sealed, which a checkpoint syncs. Cheap where it is noted already.
func (l *Log) note() {
	if !l.noted.Load() && l.noted.CompareAndSwap(false, true) {
		l.dir.agenda.note(l)
	}
}

// plan makes the log's next appointment. mu is held: a log that is closed under it gets no new one.
func (l *Log) plan() {
	if l.writable() != nil {
		return
	}
	if at := l.nextDuty(l.config.Load()); !at.IsZero() {
		l.dir.agenda.wake(l, at)
	}
}

// nextDuty is when tick has something to do, the zero time where an append or a change of settings has to come first.
// mu is held.
func (l *Log) nextDuty(cfg *LogConfig) (at time.Time) {
	earliest := func(from time.Time, ms int64) {
		if ms > math.MaxInt64/int64(time.Millisecond) { // centuries
			return
		}
		if t := from.Add(time.Duration(ms) * time.Millisecond); at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if cfg.SegmentMS > 0 && l.view.Load().size > 0 {
		earliest(l.opened, min(cfg.SegmentMS, math.MaxInt64-1)+1)
	}
	if cfg.FlushMS > 0 && !l.unsynced.IsZero() {
		earliest(l.unsynced, cfg.FlushMS)
	}
	if cfg.ProducerExpirationMS > 0 && len(l.producers.byID) > 0 {
		earliest(l.swept, producerSweep.Milliseconds())
	}
	return at
}

// dueLogs is a heap of logs by appointment; each knows its place.
type dueLogs []*Log

// Len, Less, Swap, Push and Pop are heap.Interface.
func (q dueLogs) Len() int           { return len(q) }
func (q dueLogs) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q dueLogs) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].slot, q[j].slot = i+1, j+1
}

func (q *dueLogs) Push(x any) {
	l := x.(*Log)
	*q = append(*q, l)
	l.slot = len(*q)
}

func (q *dueLogs) Pop() any {
	last := len(*q) - 1
	l := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	l.slot = 0
	return l
}
