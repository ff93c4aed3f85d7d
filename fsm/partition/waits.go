package partition

import "slices"

// Waits holds the acknowledgements that are open at one leader, by the last offset they wait for. All of them were
// appended in the leader's epoch (a duplicate counts anew in it); a change of epoch fails all. T names the waiter.
type Waits[T comparable] struct {
	list []wait[T] // rising last offset
}

type wait[T comparable] struct {
	last int64 // offset of the batch's last record
	acks int16 // AcksAll or a count of copies
	who  T
}

// Len is the number of open acknowledgements.
func (w *Waits[T]) Len() int { return len(w.list) }

// Add opens one. Appends come in rising order; only a duplicate is sorted in.
func (w *Waits[T]) Add(last int64, acks int16, who T) {
	i := len(w.list)
	for i > 0 && w.list[i-1].last > last {
		i--
	}
	w.list = slices.Insert(w.list, i, wait[T]{last, acks, who})
}

// Remove takes out who's, which gave up; false if it is open no more.
func (w *Waits[T]) Remove(who T) bool {
	i := slices.IndexFunc(w.list, func(x wait[T]) bool { return x.who == who })
	if i < 0 {
		return false
	}
	w.list = slices.Delete(w.list, i, i+1)
	return true
}

// Complete hands out, in order, what the leader now acknowledges. A wait ends nothing behind it, but one that is open
// for a commit keeps every later commit open, so the scan is short.
func (w *Waits[T]) Complete(l *Leader, f Facts, done func(who T, err error)) {
	kept, open := 0, false
	for i := range w.list {
		x := w.list[i]
		if open && x.acks == AcksAll {
			w.list[kept] = x
			kept++
			continue
		}
		ok, err := l.Acked(x.acks, x.last, f)
		if !ok {
			open = open || x.acks == AcksAll
			w.list[kept] = x
			kept++
			continue
		}
		done(x.who, err)
	}
	clear(w.list[kept:])
	w.list = w.list[:kept]
}

// Fail hands out all and forgets them.
func (w *Waits[T]) Fail(err error, done func(who T, err error)) {
	for _, x := range w.list {
		done(x.who, err)
	}
	clear(w.list)
	w.list = w.list[:0]
}
