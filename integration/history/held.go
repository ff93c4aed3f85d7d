package history

import "fmt"

// held is what became of the acknowledged values of one writer on one node, in the order they were sent.
type held struct {
	split Split
	gone  int // since the last that is there
	any   bool
}

func (h *held) add(there bool) {
	switch {
	case !there:
		h.gone++
	case h.any:
		h.split.Middle += h.gone
		h.gone = 0
	default:
		h.split.Prefix, h.gone, h.any = h.gone, 0, true
	}
}

// end gives the split. What is gone after the last that is there is the postfix; where none is there, all of it is.
func (h *held) end() Split {
	h.split.Postfix = h.gone
	return h.split
}

// checkPassed judges whether readers were given every record of ours that they passed. Where groups are transactions, one that
// perhaps was aborted is rightly hidden; an acknowledged one is Unseen already.
func (c *checker) checkPassed(k int, r *replica) {
	l := c.logs[k]
	bound := l.bound()
	if bound == none || c.h.Header.Transactions {
		return
	}
	read := min(r.End, r.High, l.offset(l.values[bound].first))
	for _, b := range r.batches {
		for i, x := range b.Values {
			at := b.Base + int64(i)
			id, sent := l.byValue[x]
			if !sent || x == 0 || at < r.Start || at >= read || l.values[id].polled || l.values[id].acked {
				continue
			}
			writer := l.values[id].writer
			c.find(Gap, k, c.rules.flagged(k, c.h.Ops[writer].Start, at), func() Example {
				return Example{Ops: []int{int(writer)}, Offsets: []int64{at}, Values: []int64{x}, Nodes: []int{r.Node}, Text: fmt.Sprintf(
					"the copy of %s on node %d has value %d of operation %d at offset %d, but readers who came farther were not given it",
					c.key(k), r.Node, x, writer, at)}
			})
		}
	}
}

// checkHeld judges whether the copy of each node has every acknowledged value of its key. A node that is merely behind is
// not accused: a value at or above the end of its copy is missed there only if no copy has it.
func (c *checker) checkHeld(k int, list []*replica) {
	l := c.logs[k]
	for _, r := range list {
		writers := map[int]*held{}
		var order []int
		lost := false
		var f *finding
		for id := range l.values {
			v := &l.values[id]
			if !v.acked {
				continue
			}
			process := c.h.Ops[v.writer].Process
			if writers[process] == nil {
				writers[process] = &held{}
				order = append(order, process)
			}
			there := c.isHeld(k, v, r, list)
			writers[process].add(there)
			if there {
				continue
			}
			lost = true
			f = c.find(LostOnNode, k, c.rules.lose(k, &c.h.Ops[v.writer], append(l.ends(v), v.told)...), func() Example {
				e := Example{Ops: []int{int(v.writer)}, Values: []int64{v.v}, Nodes: []int{r.Node}, Text: fmt.Sprintf(
					"%s was told that value %d of %s is written%s, but it is not in the copy on node %d",
					c.op(int(v.writer)), v.v, c.key(k), atOffset(v.told), r.Node)}
				if v.told >= 0 {
					e.Offsets = []int64{v.told}
				}
				return e
			})
		}
		if !lost {
			continue
		}
		if f.Split == nil {
			f.Split = &Split{}
		}
		for _, process := range order {
			s := writers[process].end()
			f.Split.Prefix += s.Prefix
			f.Split.Middle += s.Middle
			f.Split.Postfix += s.Postfix
		}
	}
}

// isHeld says whether the copy r has v, or need not have it. A value that is elsewhere than its producer was told is noted.
func (c *checker) isHeld(k int, v *value, r *replica, all []*replica) bool {
	at := v.told
	if v.polled {
		at = c.logs[k].offset(v.last) // where it must be as long as any is there
	}
	if at >= 0 && (at < r.Start || r.holds(at) == v.v) {
		return true
	}
	if r.has(v.v) {
		if at >= 0 && at < r.End && !v.polled {
			c.find(AckOffset, k, c.rules.lose(k, &c.h.Ops[v.writer], v.told), func() Example {
				return Example{Ops: []int{int(v.writer)}, Offsets: []int64{v.told}, Values: []int64{v.v}, Nodes: []int{r.Node}, Text: fmt.Sprintf(
					"%s was told that value %d of %s is at offset %d, but the copy on node %d has it elsewhere",
					c.op(int(v.writer)), v.v, c.key(k), v.told, r.Node)}
			})
		}
		return true
	}
	if at >= 0 && at < r.End {
		return false
	}
	for _, other := range all {
		if other.has(v.v) {
			return true
		}
	}
	return false
}
