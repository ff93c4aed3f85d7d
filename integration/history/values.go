package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// checkValues judges each value, and each offset, by itself.
func (c *checker) checkValues() {
	for k, l := range c.logs {
		bound := l.bound()
		for id := range l.values {
			v := &l.values[id]
			if v.v == 0 {
				continue // another's, of which nothing is known
			}
			c.checkValue(k, l, v)
			if bound != none && v.committed && !v.read && v.last != none && v.last <= l.values[bound].first {
				c.find(LostWrite, k, c.rules.lose(k, &c.h.Ops[v.writer], l.ends(v)...), func() Example {
					return c.lostWrite(k, l, v, &l.values[bound])
				})
			}
		}
		for s := range l.slots {
			if p := l.slots[s].pair; l.pairs[p].next != none {
				c.checkOffset(k, l, &l.slots[s])
			}
		}
	}
}

// bound is the value that was read the farthest in the log, by its first index.
func (l *keyLog) bound() int32 {
	bound := none
	for id := range l.values {
		if v := &l.values[id]; v.read && v.v != 0 && (bound == none || l.values[bound].first < v.first) {
			bound = int32(id)
		}
	}
	return bound
}

func (c *checker) checkValue(k int, l *keyLog, v *value) {
	at := l.ends(v)
	if v.writer == none {
		c.find(Phantom, k, "", func() Example {
			by := l.pairs[v.firstAt].by
			return Example{Ops: []int{int(by)}, Offsets: at[:1], Values: []int64{v.v}, Text: fmt.Sprintf(
				"%s polled value %d of %s at offset %d, which nobody sent", c.op(int(by)), v.v, c.key(k), at[0])}
		})
	} else {
		c.checkSent(k, l, v, &c.h.Ops[v.writer])
	}
	if v.first != v.last {
		rule := ""
		if v.writer != none {
			rule = c.rules.twice(k, &c.h.Ops[v.writer], at...)
		}
		c.find(Duplicate, k, rule, func() Example {
			ops := l.placers(v)
			return Example{Ops: ops, Offsets: at, Values: []int64{v.v}, Text: fmt.Sprintf(
				"value %d of %s is at offset %d (%s) and again at offset %d (%s)",
				v.v, c.key(k), at[0], c.op(ops[0]), at[1], c.op(ops[1]))}
		})
	}
}

// checkSent judges a value of which the writer is known.
func (c *checker) checkSent(k int, l *keyLog, v *value, op *Op) {
	writer := int(v.writer)
	if v.read && op.Type == Fail {
		c.find(AbortedRead, k, "", func() Example {
			at := l.where(v, func(p pair) bool { return p.read })
			return Example{Ops: []int{writer, int(at.by)}, Offsets: []int64{l.slots[at.slot].offset}, Values: []int64{v.v}, Text: fmt.Sprintf(
				"%s failed to send value %d of %s, but %s read it at offset %d",
				c.op(writer), v.v, c.key(k), c.op(int(at.by)), l.slots[at.slot].offset)}
		})
	}
	if v.acked && !v.read {
		c.find(Unseen, k, c.rules.lose(k, op, append(l.ends(v), v.told)...), func() Example {
			e := Example{Ops: []int{writer}, Values: []int64{v.v}, Text: fmt.Sprintf(
				"%s was told that value %d of %s is written%s, but nobody ever read it", c.op(writer), v.v, c.key(k), atOffset(v.told))}
			if v.told >= 0 {
				e.Offsets = []int64{v.told}
			}
			return e
		})
	}
	if v.committed && v.told >= 0 && v.polled {
		if _, told := l.at(v.told, v.v); !l.pairs[told].polled {
			at := l.where(v, func(p pair) bool { return p.polled })
			c.find(AckOffset, k, c.rules.lose(k, op, v.told, l.slots[at.slot].offset), func() Example {
				return Example{Ops: []int{writer, int(at.by)}, Offsets: []int64{v.told, l.slots[at.slot].offset}, Values: []int64{v.v}, Text: fmt.Sprintf(
					"%s was told that value %d of %s is at offset %d, but %s polled it at offset %d",
					c.op(writer), v.v, c.key(k), v.told, c.op(int(at.by)), l.slots[at.slot].offset)}
			})
		}
	}
}

func atOffset(o int64) string {
	if o < 0 {
		return ""
	}
	return fmt.Sprintf(" at offset %d", o)
}

// pairOf gives the pair of a value at an index, or one that nobody polled if it is not there.
func (l *keyLog) pairOf(index int32, v *value) pair {
	if _, p := l.at(l.offset(index), v.v); p != none {
		return l.pairs[p]
	}
	return pair{by: none}
}

// where is the first pair of a value in the log that is as told. There must be one.
func (l *keyLog) where(v *value, is func(pair) bool) pair {
	for i := v.first; i <= v.last; i++ {
		if p := l.pairOf(i, v); is(p) {
			return p
		}
	}
	panic(fmt.Sprintf("history: value %d is at no such offset from %d to %d", v.v, l.offset(v.first), l.offset(v.last)))
}

// placers are the operations that saw a value at its lowest and its highest offset.
func (l *keyLog) placers(v *value) []int {
	return []int{int(l.pairs[v.firstAt].by), int(l.pairOf(v.last, v).by)}
}

func (c *checker) lostWrite(k int, l *keyLog, v, bound *value) Example {
	at := l.offset(v.last)
	after := l.where(bound, func(p pair) bool { return p.read })
	how := "was told that"
	if !v.acked {
		how = "took effect, as other values of it show, so that"
	}
	return Example{
		Ops: []int{int(v.writer), int(after.by)}, Offsets: []int64{at, l.slots[after.slot].offset}, Values: []int64{v.v, bound.v},
		Text: fmt.Sprintf("%s %s value %d of %s is at offset %d; nobody ever read it, though %s read value %d at offset %d",
			c.op(int(v.writer)), how, v.v, c.key(k), at, c.op(int(after.by)), bound.v, l.slots[after.slot].offset),
	}
}

func (c *checker) sentTwice(s *Sent, first, second int32) Example {
	return Example{Ops: []int{int(first), int(second)}, Values: []int64{s.Value}, Text: fmt.Sprintf(
		"the harness sent value %d of %s twice, by %s and by %s", s.Value, c.key(s.Key), c.op(int(first)), c.op(int(second)))}
}

// checkOffset judges an offset that has several values.
func (c *checker) checkOffset(k int, l *keyLog, s *slot) {
	var all []pair
	polled, since := 0, c.h.Ops[l.pairs[s.pair].by].Start
	for p := s.pair; p != none; p = l.pairs[p].next {
		all = append(all, l.pairs[p])
		since = min(since, c.h.Ops[l.pairs[p].by].Start)
		if l.pairs[p].polled {
			polled++
		}
	}
	rule := c.rules.flagged(k, since, s.offset)
	if polled < 2 && rule == "" {
		// What was polled is what is there. The others are only what producers were told, and may be lost.
		for _, p := range all {
			if w := l.values[p.value].writer; !p.polled {
				if rule = c.rules.weakly(k, &c.h.Ops[w]); rule == "" {
					break
				}
			}
		}
	}
	c.find(InconsistentOffsets, k, rule, func() Example {
		e := Example{Offsets: []int64{s.offset}}
		var parts []string
		slices.SortStableFunc(all, func(a, b pair) int { return cmp.Compare(a.by, b.by) })
		for _, p := range all[:min(len(all), maxExamples)] {
			v := l.values[p.value].v
			e.Ops = append(e.Ops, int(p.by))
			e.Values = append(e.Values, v)
			saw := "polled"
			if !p.polled {
				saw = "was told it is"
			}
			parts = append(parts, fmt.Sprintf("%s %s value %d", c.op(int(p.by)), saw, v))
		}
		e.Text = fmt.Sprintf("offset %d of %s has several values: %s", s.offset, c.key(k), strings.Join(parts, ", "))
		return e
	})
}
