package history

import "slices"

// Anomalies of order.

// inside says whether a record was polled between two others of its key, in one operation that nothing moved.
func inside(s spot) bool {
	k, list := s.seen.Key, s.mop.Poll
	return len(s.op.Moved) == 0 && s.at > 0 && s.at+1 < len(list) && list[s.at-1].Key == k && list[s.at+1].Key == k
}

func (p *planter) intPollSkip() bool {
	s, ok := p.draw(inside)
	if ok {
		s.mop.Poll = slices.Delete(slices.Clone(s.mop.Poll), s.at, s.at+1)
	}
	return ok
}

func (p *planter) intNonmonotonicPoll() bool {
	s, ok := p.draw(inside)
	if !ok {
		return false
	}
	if p.rng.IntN(2) == 0 {
		s.mop.Poll = slices.Insert(slices.Clone(s.mop.Poll), s.at, s.seen)
	} else {
		list := s.mop.Poll
		list[s.at], list[s.at+1] = list[s.at+1], list[s.at]
	}
	return true
}

// later draws the first record of a key in a final poll, behind another final poll of the same process and key, with one more
// of the key to follow.
func (p *planter) later() (before Seen, s spot, ok bool) {
	type place struct{ process, key int }
	last := map[place]Seen{}
	begins := map[spot]Seen{} // and what was polled before
	var all []spot
	p.draw(func(s spot) bool {
		at := place{s.op.Process, s.seen.Key}
		list := s.mop.Poll
		if b, again := last[at]; s.op.Final && again && (s.at == 0 || list[s.at-1].Key != s.seen.Key) &&
			s.at+1 < len(list) && list[s.at+1].Key == s.seen.Key {
			begins[s] = b
			all = append(all, s)
		}
		if s.op.Final {
			last[at] = s.seen
		}
		return false
	})
	if len(all) == 0 {
		return Seen{}, spot{}, false
	}
	s = all[p.rng.IntN(len(all))]
	return begins[s], s, true
}

func (p *planter) pollSkip() bool {
	_, s, ok := p.later()
	if ok {
		s.mop.Poll = slices.Delete(slices.Clone(s.mop.Poll), s.at, s.at+1)
	}
	return ok
}

func (p *planter) nonmonotonicPoll() bool {
	before, s, ok := p.later()
	if ok {
		s.mop.Poll = slices.Insert(slices.Clone(s.mop.Poll), s.at, before)
	}
	return ok
}

func (p *planter) nonmonotonicSend() bool {
	t := p.tail()
	r := t.records(2)
	t.do(0, 0, 10, sendOf(r[1]))
	t.do(0, 11, 20, sendOf(r[0]))
	t.do(1, 21, 30, pollOf(r...))
	return true
}

func (p *planter) intNonmonotonicSend() bool {
	t := p.tail()
	r := t.records(2)
	t.do(0, 0, 10, sendOf(r[1]), sendOf(r[0]))
	t.do(1, 11, 20, pollOf(r...))
	return true
}

func (p *planter) intSendSkip() bool {
	t := p.tail()
	r := t.records(3)
	t.do(0, 0, 10, sendOf(r[0]), sendOf(r[2]))
	t.do(1, 0, 10, sendOf(r[1]))
	t.do(2, 11, 20, pollOf(r...))
	return true
}

func (p *planter) g0() bool {
	t := p.tail()
	if p.h.Header.Transactions {
		r := t.records(3)
		t.do(0, 0, 10, sendOf(r[0]), sendOf(r[2]))
		t.do(1, 0, 10, sendOf(r[1]))
		t.do(2, 11, 20, pollOf(r...))
	}
	return p.h.Header.Transactions
}

func (p *planter) g0Process() bool { return p.g0Late(0) }

func (p *planter) g0Realtime() bool { return p.g0Late(2) }

// g0Late has a write of another process go before one that ended earlier, with a third between them.
func (p *planter) g0Late(second int) bool {
	t := p.tail()
	r := t.records(3)
	t.do(0, 0, 10, sendOf(r[2]))
	t.do(1, 0, 30, sendOf(r[1]))
	t.do(second, 11, 20, sendOf(r[0]))
	t.do(3, 31, 40, pollOf(r...))
	return true
}

func (p *planter) g1c() bool {
	t := p.tail()
	if p.h.Header.Transactions {
		r := t.records(2)
		t.do(0, 0, 10, sendOf(r[0]), pollOf(r[1]))
		t.do(1, 0, 10, pollOf(r[0]), sendOf(r[1]))
		t.do(2, 11, 20, pollOf(r...))
	}
	return p.h.Header.Transactions
}

func (p *planter) g1cProcess() bool { return p.g1cLate(0) }

func (p *planter) g1cRealtime() bool { return p.g1cLate(2) }

// g1cLate has an operation poll what was sent only after its own send was polled. It must poll before it sends, so that this
// cannot be where groups are no transactions either.
func (p *planter) g1cLate(second int) bool {
	t := p.tail()
	r := t.records(2)
	t.do(1, 0, 30, pollOf(r[1]), sendOf(r[0]))
	t.do(0, 0, 10, pollOf(r[0]))
	t.do(second, 11, 20, sendOf(r[1]))
	t.do(3, 31, 40, pollOf(r...))
	return true
}
