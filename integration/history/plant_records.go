package history

// Anomalies of records and copies.

func (p *planter) lostWrite() bool {
	if p.h.Header.Transactions && p.rng.IntN(2) == 0 {
		return p.tornTransaction()
	}
	read := map[int]int64{}
	p.draw(func(s spot) bool {
		if s.op.Type == OK {
			read[s.seen.Key] = max(read[s.seen.Key], s.seen.Offset)
		}
		return false
	})
	s, ok := p.drawSent(func(s sent) bool { return s.Offset >= 0 && s.Offset < read[s.Key] })
	if ok {
		p.hide(s.Key, s.Value)
	}
	return ok
}

// tornTransaction has a reader given the second of two records of a transaction, which proves it, but nobody the first.
func (p *planter) tornTransaction() bool {
	t := p.tail()
	r := t.records(2)
	t.do(0, 0, 10, sendOf(r[0]), sendOf(r[1]))
	p.h.Ops[len(p.h.Ops)-1].Type = Info
	t.do(1, 11, 20, pollOf(r[1]))
	return true
}

func (p *planter) unseen() bool {
	s, ok := p.drawSent(func(sent) bool { return true })
	if ok {
		p.hide(s.Key, s.Value)
	}
	return ok
}

func (p *planter) lostOnNode() bool {
	acked := map[int]map[int64]bool{}
	p.drawSent(func(s sent) bool {
		if acked[s.Key] == nil {
			acked[s.Key] = map[int64]bool{}
		}
		acked[s.Key][s.Value] = true
		return false
	})
	return p.drawBatch(false, func(c *Copy, i int) bool {
		return len(c.Batches[i].Values) > 0 && acked[c.Key][c.Batches[i].Values[0]]
	}, other)
}

// other makes a batch another one's.
func other(c *Copy, i int) {
	b := &c.Batches[i]
	b.Values = make([]int64, len(b.Values))
	b.CRC = checksum(b)
}

func (p *planter) inconsistentOffsets() bool {
	s, ok := p.draw(func(s spot) bool { return s.op.Final })
	if !ok {
		return false
	}
	another, ok := p.draw(func(o spot) bool { return o.seen.Key == s.seen.Key && o.seen.Value != s.seen.Value })
	if ok {
		s.mop.Poll[s.at].Value = another.seen.Value
	}
	return ok
}

func (p *planter) ackOffset() bool {
	s, ok := p.drawSent(func(s sent) bool { return s.Offset >= 0 })
	if ok {
		s.Offset += 1 + p.rng.Int64N(5)
	}
	return ok
}

func (p *planter) dirtyRead() bool {
	polled := map[Seen]bool{}
	p.draw(func(s spot) bool {
		polled[s.seen] = true
		return false
	})
	return p.drawBatch(true, func(c *Copy, i int) bool {
		b := c.Batches[i]
		return len(b.Values) > 0 && polled[Seen{c.Key, b.Values[0], b.Base}]
	}, other)
}

func (p *planter) copiesDiffer() bool {
	return p.drawBatch(false, func(*Copy, int) bool { return true }, func(c *Copy, i int) { c.Batches[i].CRC ^= 1 })
}

func (p *planter) gap() bool {
	remove := func(c *Copy, i int) { c.Batches = append(c.Batches[:i], c.Batches[i+1:]...) }
	return p.drawBatch(true, func(c *Copy, i int) bool { return c.Batches[i].Control }, remove) ||
		p.drawBatch(true, func(*Copy, int) bool { return true }, remove)
}

func (p *planter) miscount() bool {
	return p.drawBatch(true, func(c *Copy, i int) bool { return len(c.Batches[i].Values) > 0 }, func(c *Copy, i int) {
		c.Batches[i].Values = append([]int64{}, append(c.Batches[i].Values, 0)...)
	})
}

func (p *planter) epochBack() bool {
	return p.drawBatch(true, func(_ *Copy, i int) bool { return i > 0 }, func(c *Copy, i int) {
		c.Batches[i-1].Epoch = c.Batches[i].Epoch + 1
	})
}

func (p *planter) watermarkBack() bool {
	t := p.tail()
	newest := int32(0)
	for _, w := range p.h.Watermarks {
		newest = max(newest, w.Epoch)
	}
	for _, i := range p.rng.Perm(len(p.h.Watermarks)) {
		if w := p.h.Watermarks[i]; w.High > 0 {
			w.High, w.Epoch, w.At = w.High-1, newest, t.start
			p.h.Watermarks = append(p.h.Watermarks, w)
			return true
		}
	}
	return false
}

func (p *planter) phantom() bool {
	t := p.tail()
	t.do(0, 0, 1, pollOf(t.records(1)...))
	return true
}

func (p *planter) abortedRead() bool {
	s, ok := p.drawSent(func(s sent) bool { return s.op.F == Send || p.h.Header.Transactions })
	if !ok {
		return false
	}
	s.op.Type = Fail
	for _, mop := range s.op.Mops {
		if mop.Send != nil {
			mop.Send.Offset = -1
		}
	}
	return true
}

func (p *planter) precommittedRead() bool {
	if !p.h.Header.Transactions {
		return false
	}
	t := p.tail()
	r := t.records(1)
	t.do(0, 0, 1, sendOf(r[0]), pollOf(r...))
	return true
}

func (p *planter) duplicate() bool {
	t := p.tail()
	s, ok := p.draw(func(s spot) bool { return s.seen.Key == t.key })
	if !ok {
		return false
	}
	s.seen.Offset = t.offset
	t.keep([]Seen{s.seen})
	t.do(0, 0, 1, pollOf(s.seen))
	return true
}

func (p *planter) sentTwice() bool {
	t := p.tail()
	s, ok := p.drawSent(func(sent) bool { return true })
	if ok {
		t.do(0, 0, 1, Mop{Send: &Sent{s.Key, s.Value, -1}})
		p.h.Ops[len(p.h.Ops)-1].Type = Info
	}
	return ok
}
