package history

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// ErrNoPlace says that a history has nothing in which an anomaly of a kind could be planted.
var ErrNoPlace = errors.New("no place for it in this history")

// Plant puts one anomaly of a kind into a generated history, at a place that rng draws. It may bring others with it: a record
// that is lost was also skipped by who polled it. Cycles of G0 and G1c need Transactions.
func Plant(kind Kind, h *History, rng *rand.Rand) error {
	do := planters[kind]
	if do == nil {
		return fmt.Errorf("plant %q: no such kind", kind)
	}
	if !do(&planter{h, rng}) {
		return fmt.Errorf("plant %s: %w", kind, ErrNoPlace)
	}
	slices.SortStableFunc(h.Ops, byEnd)
	return nil
}

var planters = map[Kind]func(*planter) bool{
	LostWrite: (*planter).lostWrite, Unseen: (*planter).unseen, LostOnNode: (*planter).lostOnNode,
	InconsistentOffsets: (*planter).inconsistentOffsets, AckOffset: (*planter).ackOffset, DirtyRead: (*planter).dirtyRead,
	CopiesDiffer: (*planter).copiesDiffer, WatermarkBack: (*planter).watermarkBack, Phantom: (*planter).phantom,
	AbortedRead: (*planter).abortedRead, PrecommittedRead: (*planter).precommittedRead, Gap: (*planter).gap,
	Miscount: (*planter).miscount, EpochBack: (*planter).epochBack, Duplicate: (*planter).duplicate, SentTwice: (*planter).sentTwice,
	NonmonotonicPoll: (*planter).nonmonotonicPoll, PollSkip: (*planter).pollSkip,
	IntNonmonotonicPoll: (*planter).intNonmonotonicPoll, IntPollSkip: (*planter).intPollSkip,
	NonmonotonicSend: (*planter).nonmonotonicSend, IntNonmonotonicSend: (*planter).intNonmonotonicSend,
	IntSendSkip: (*planter).intSendSkip,
	G1c:         (*planter).g1c, G1cProcess: (*planter).g1cProcess, G1cRealtime: (*planter).g1cRealtime,
	G0: (*planter).g0, G0Process: (*planter).g0Process, G0Realtime: (*planter).g0Realtime,
}

type planter struct {
	h   *History
	rng *rand.Rand
}

// spot is one polled record.
type spot struct {
	op   *Op
	mop  *Mop
	at   int // in mop.Poll
	seen Seen
}

// draw picks one of the polled records that are fit.
func (p *planter) draw(fit func(s spot) bool) (spot, bool) {
	var all []spot
	for i := range p.h.Ops {
		op := &p.h.Ops[i]
		for m := range op.Mops {
			mop := &op.Mops[m]
			for at, seen := range mop.Poll {
				if s := (spot{op, mop, at, seen}); fit(s) {
					all = append(all, s)
				}
			}
		}
	}
	if len(all) == 0 {
		return spot{}, false
	}
	return all[p.rng.IntN(len(all))], true
}

// sent is one sent record.
type sent struct {
	op *Op
	*Sent
}

// drawSent picks one of the sent records of ok operations that are fit.
func (p *planter) drawSent(fit func(s sent) bool) (sent, bool) {
	var all []sent
	for i := range p.h.Ops {
		op := &p.h.Ops[i]
		for _, mop := range op.Mops {
			if s := (sent{op, mop.Send}); mop.Send != nil && op.Type == OK && fit(s) {
				all = append(all, s)
			}
		}
	}
	if len(all) == 0 {
		return sent{}, false
	}
	return all[p.rng.IntN(len(all))], true
}

// hide takes a value out of every poll.
func (p *planter) hide(k int, v int64) {
	for i := range p.h.Ops {
		for m := range p.h.Ops[i].Mops {
			mop := &p.h.Ops[i].Mops[m]
			mop.Poll = slices.DeleteFunc(slices.Clone(mop.Poll), func(s Seen) bool { return s.Key == k && s.Value == v })
		}
	}
}

// drawBatch picks a batch that is fit and changes it in the copies of all nodes, or of one.
func (p *planter) drawBatch(all bool, fit func(c *Copy, i int) bool, change func(c *Copy, i int)) bool {
	type place struct{ key, i int }
	var places []place
	for k := range p.h.Header.Keys {
		for _, c := range p.h.Copies {
			if c.Key == k {
				for i := range c.Batches {
					if fit(&c, i) {
						places = append(places, place{k, i})
					}
				}
				break // copies of a key are the same
			}
		}
	}
	if len(places) == 0 {
		return false
	}
	at := places[p.rng.IntN(len(places))]
	only := 1 + p.rng.IntN(p.h.Header.Nodes)
	for n := range p.h.Copies {
		if c := &p.h.Copies[n]; c.Key == at.key && (all || c.Node == only) {
			c.Batches = slices.Clone(c.Batches)
			change(c, at.i)
		}
	}
	return true
}

// tail is where new operations go, behind all others: fresh values at the end of the log of one key.
type tail struct {
	p      *planter
	key    int
	value  int64 // next
	offset int64 // next
	start  time.Duration
	client int // next
}

func (p *planter) tail() *tail {
	t := &tail{p: p, key: p.rng.IntN(len(p.h.Header.Keys))}
	for _, op := range p.h.Ops {
		t.start, t.client = max(t.start, op.End+1), max(t.client, op.Process+1)
		for _, m := range op.Mops {
			if m.Send != nil && m.Send.Key == t.key {
				t.value, t.offset = max(t.value, m.Send.Value+1), max(t.offset, m.Send.Offset+1)
			}
			for _, s := range m.Poll {
				if s.Key == t.key {
					t.value, t.offset = max(t.value, s.Value+1), max(t.offset, s.Offset+1)
				}
			}
		}
	}
	t.value = max(t.value, 1)
	for _, c := range p.h.Copies {
		if c.Key == t.key {
			t.offset = max(t.offset, c.End)
		}
	}
	return t
}

// records puts n fresh values into all copies of the log, in that order, and gives each as it would be polled.
func (t *tail) records(n int) []Seen {
	var list []Seen
	for range n {
		list = append(list, Seen{Key: t.key, Value: t.value, Offset: t.offset})
		t.value++
		t.offset++
	}
	t.keep(list)
	return list
}

// keep puts records into all copies.
func (t *tail) keep(list []Seen) {
	for i := range t.p.h.Copies {
		c := &t.p.h.Copies[i]
		if c.Key != t.key {
			continue
		}
		for _, s := range list {
			b := Batch{Base: s.Offset, Last: s.Offset, Values: []int64{s.Value}}
			if n := len(c.Batches); n > 0 {
				b.Epoch = c.Batches[n-1].Epoch
			}
			b.CRC = checksum(&b)
			c.Batches = append(slices.Clone(c.Batches), b)
			c.End, c.High = s.Offset+1, s.Offset+1
		}
	}
}

func sendOf(s Seen) Mop { return Mop{Send: &Sent{Key: s.Key, Value: s.Value, Offset: s.Offset}} }

func pollOf(list ...Seen) Mop { return Mop{Poll: list} }

// do adds an operation of a process from one to another nanosecond behind all others.
func (t *tail) do(process, from, to int, mops ...Mop) {
	op := Op{Process: t.client + process, Type: OK, F: Txn, Start: t.start + time.Duration(from), End: t.start + time.Duration(to), Mops: mops}
	if len(mops) == 1 {
		op.F = Poll
		if mops[0].Send != nil {
			op.F = Send
		}
	}
	t.p.h.Ops = append(t.p.h.Ops, op)
}
