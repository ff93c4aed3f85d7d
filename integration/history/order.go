package history

import "fmt"

// step is where a process is in a key: the last index it sent to or polled from.
type step struct {
	index int32
	op    int32
}

// consumer is that of a process.
type consumer struct {
	at map[int]step // by key, of its last ok poll
}

// checkPolls judges the order in which each process polled: within each operation, and from one to the next. Of one that
// subscribed each key is judged from one rebalance that moved it to the next: a rebalance may move its position anywhere.
func (c *checker) checkPolls() {
	all := map[int]*consumer{}
	keys := len(c.h.Header.Keys)
	last, seenBy := make([]int32, keys), make([]int32, keys) // of the present operation
	for k := range seenBy {
		seenBy[k] = none
	}
	for i := range c.h.Ops {
		op := &c.h.Ops[i]
		r := all[op.Process]
		if r == nil {
			r = &consumer{at: map[int]step{}}
			all[op.Process] = r
		}
		r.move(op)
		for _, mop := range op.Mops {
			for _, s := range mop.Poll {
				l := c.logs[s.Key]
				slotID, at := l.at(s.Offset, s.Value)
				if v := &l.values[l.pairs[at].value]; v.writer == int32(i) && c.h.Header.Transactions {
					c.find(PrecommittedRead, s.Key, "", func() Example { return c.precommitted(i, s) })
				}
				to := l.slots[slotID].index
				if seenBy[s.Key] != int32(i) {
					if from, ok := r.at[s.Key]; ok && op.Type == OK {
						c.checkStep(s.Key, from, step{to, int32(i)})
					}
					seenBy[s.Key] = int32(i)
				} else if !moved(op, s.Key) {
					c.checkStep(s.Key, step{last[s.Key], int32(i)}, step{to, int32(i)})
				}
				last[s.Key] = to
			}
		}
		if op.Type == OK {
			for _, mop := range op.Mops {
				for _, s := range mop.Poll {
					r.at[s.Key] = step{last[s.Key], int32(i)}
				}
			}
		}
	}
}

// move forgets the positions that an operation makes the consumer give up.
func (r *consumer) move(op *Op) {
	for _, k := range op.Moved {
		delete(r.at, k)
	}
	switch op.F {
	case Assign, Subscribe:
		kept := map[int]step{}
		for _, k := range op.Keys {
			if s, ok := r.at[k]; ok {
				kept[k] = s
			}
		}
		r.at = kept
	case Crash:
		*r = consumer{at: map[int]step{}}
	}
}

func moved(op *Op, key int) bool {
	for _, k := range op.Moved {
		if k == key {
			return true
		}
	}
	return false
}

// checkStep judges one step of a poll: it must go to the next index.
func (c *checker) checkStep(k int, from, to step) {
	if to.index == from.index+1 {
		return
	}
	within := from.op == to.op
	kind := IntPollSkip
	switch back := to.index <= from.index; {
	case within && back:
		kind = IntNonmonotonicPoll
	case !within && back:
		kind = NonmonotonicPoll
	case !within:
		kind = PollSkip
	}
	l := c.logs[k]
	lo, hi := min(from.index, to.index), max(from.index, to.index)
	var rule string
	switch {
	case to.index > from.index:
		rule = c.skipped(k, lo+1, hi)
	default:
		rule = c.rules.flagged(k, c.h.Ops[from.op].Start, l.offset(lo), l.offset(hi))
	}
	c.find(kind, k, rule, func() Example {
		ops := []int{int(from.op), int(to.op)}
		var text string
		if within {
			ops = ops[:1]
			text = fmt.Sprintf("%s polled offset %d of %s right after offset %d", c.op(ops[0]), l.offset(to.index), c.key(k), l.offset(from.index))
		} else {
			text = fmt.Sprintf("%s polled offset %d of %s next after offset %d in operation %d", c.op(int(to.op)), l.offset(to.index), c.key(k), l.offset(from.index), from.op)
		}
		if to.index > from.index+1 {
			text += fmt.Sprintf("; %d known records are between, from offset %d", to.index-from.index-1, l.offset(from.index+1))
		}
		return Example{Ops: ops, Offsets: []int64{l.offset(from.index), l.offset(to.index)}, Text: text}
	})
}

// skipped gives the rule by which a poll may leave out all indexes of [lo, hi): each is known only by what producers were
// told, and may be lost, or the cluster told that it may have lost it.
func (c *checker) skipped(k int, lo, hi int32) string {
	l, rule := c.logs[k], ""
	for i := lo; i < hi; i++ {
		s := &l.slots[l.order[i]]
		for p := s.pair; p != none; p = l.pairs[p].next {
			v := &l.values[l.pairs[p].value]
			if v.writer == none {
				return ""
			}
			op := &c.h.Ops[v.writer]
			rule = c.rules.flagged(k, op.Start, s.offset)
			if rule == "" && !l.pairs[p].polled {
				rule = c.rules.weakly(k, op)
			}
			if rule == "" {
				return ""
			}
		}
	}
	return rule
}

func (c *checker) precommitted(i int, s Seen) Example {
	return Example{Ops: []int{i}, Offsets: []int64{s.Offset}, Values: []int64{s.Value}, Text: fmt.Sprintf(
		"%s polled value %d of %s at offset %d, which it sends itself and had not committed", c.op(i), s.Value, c.key(s.Key), s.Offset)}
}
