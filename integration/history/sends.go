package history

import "fmt"

// checkSends judges the order in which the sends of each process came into the logs: within each operation, and from one that
// was ok to the next.
func (c *checker) checkSends() {
	type place struct{ process, key int }
	last := map[place]*value{}
	within := make([]*value, len(c.h.Header.Keys)) // the send before, of the present operation
	for i := range c.h.Ops {
		op := &c.h.Ops[i]
		if op.F == Crash {
			// The new client's connections owe nothing to those of the old.
			for k := range within {
				delete(last, place{op.Process, k})
			}
		}
		for m, mop := range op.Mops {
			s := mop.Send
			if s == nil {
				continue
			}
			l := c.logs[s.Key]
			v := &l.values[l.byValue[s.Value]]
			if v.first == none || v.writer != int32(i) || v.mop != int32(m) {
				continue
			}
			if before := within[s.Key]; before != nil {
				c.checkSendStep(s.Key, before, v)
			} else if before := last[place{op.Process, s.Key}]; before != nil && v.first <= before.first {
				c.findSend(NonmonotonicSend, s.Key, c.reordered(s.Key, before, v), before, v)
			}
			within[s.Key] = v
		}
		for _, mop := range op.Mops {
			if s := mop.Send; s != nil && within[s.Key] != nil {
				if op.Type == OK {
					last[place{op.Process, s.Key}] = within[s.Key]
				}
				within[s.Key] = nil
			}
		}
	}
}

func (c *checker) checkSendStep(k int, before, v *value) {
	switch step := v.first - before.first; {
	case step > 1:
		c.findSend(IntSendSkip, k, ruleGroups, before, v)
	case step < 1:
		c.findSend(IntNonmonotonicSend, k, c.reordered(k, before, v), before, v)
	}
}

// reordered gives the rule by which two sends may be known in the wrong order: one is lost and known only by what its
// producer was told before another leader's log went on from less, or its producer waited for nothing at all.
func (c *checker) reordered(k int, a, b *value) string {
	l := c.logs[k]
	if c.rules.unanswered[c.h.Header.Keys[k].Topic] || a.ghost || b.ghost {
		for _, v := range []*value{a, b} {
			if rule := c.rules.weakly(k, &c.h.Ops[v.writer]); rule != "" {
				return rule
			}
		}
	}
	return c.rules.flagged(k, c.h.Ops[a.writer].Start, append(l.ends(a), l.ends(b)...)...)
}

func (c *checker) findSend(kind Kind, k int, rule string, before, v *value) {
	c.find(kind, k, rule, func() Example {
		l := c.logs[k]
		ops, then := []int{int(before.writer)}, "then, in the same operation,"
		if v.writer != before.writer {
			ops, then = append(ops, int(v.writer)), fmt.Sprintf("then, in operation %d,", v.writer)
		}
		from, to := l.offset(before.first), l.offset(v.first)
		return Example{Ops: ops, Offsets: []int64{from, to}, Values: []int64{before.v, v.v}, Text: fmt.Sprintf(
			"%s sent value %d of %s, which is at offset %d, and %s value %d, which is at offset %d",
			c.op(ops[0]), before.v, c.key(k), from, then, v.v, to)}
	})
}
