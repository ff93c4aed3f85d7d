package history

import (
	"fmt"
	"slices"
	"strings"
)

// search is one kind of cycle: the reasons its edges may have. A cycle that fewer reasons suffice for is of an earlier kind.
type search struct {
	kind Kind
	why  edge
	rule string
}

// searches without the order of writes, whose cycles are violations, and with it.
var (
	pureSearches = []search{
		{G1c, wr, ""}, {G1cProcess, wr | process, ""}, {G1cRealtime, wr | process | realtime, ""},
	}
	wwSearches = []search{
		{G0, ww, ruleWriteOrder}, {G0Process, ww | process, ruleWriteOrder}, {G0Realtime, ww | process | realtime, ruleWriteOrder},
		{G1c, ww | wr, ruleWriteOrder}, {G1cProcess, ww | wr | process, ruleWriteOrder}, {G1cRealtime, ww | wr | process | realtime, ruleWriteOrder},
	}
)

// checkCycles finds operations that each come before the other.
func (c *checker) checkCycles(withWW bool) {
	g := c.graphOf(withWW)
	told := make([]bool, g.size())
	c.searchAll(g, pureSearches, told)
	if withWW {
		c.searchAll(g, wwSearches, told)
	}
}

// searchAll does one search after another. What an earlier one told of is not looked at again: its cycle would only be found
// with detours.
func (c *checker) searchAll(g *graph, list []search, told []bool) {
	// One look with all reasons spares the others where there is no cycle at all, as in every good history.
	widest := edge(0)
	for _, s := range list {
		widest |= s.why
	}
	if len(components(g, widest)) == 0 {
		return
	}
	for _, s := range list {
		for _, part := range components(g, s.why) {
			if slices.ContainsFunc(part, func(n int32) bool { return told[n] }) {
				continue
			}
			for _, n := range part {
				told[n] = true
			}
			c.findCycle(g, s, shortestCycle(g, part, s.why))
		}
	}
}

// components are the strongly connected ones of more than one node, by Tarjan's search, without recursion.
func components(g *graph, why edge) [][]int32 {
	size := int32(g.size())
	var (
		number  = make([]int32, size) // in order of discovery from 1; 0: not yet
		low     = make([]int32, size)
		onStack = make([]bool, size)
		stack   []int32
		next    int32
		found   [][]int32
	)
	type frame struct {
		node int32
		todo int // index of the first of its edges in edges
	}
	var frames []frame
	var edges []int32 // of all frames, those of the top last
	enter := func(n int32) {
		next++
		number[n], low[n] = next, next
		stack, onStack[n] = append(stack, n), true
		frames = append(frames, frame{n, len(edges)})
		g.before(n, why, func(m int32, _ edge) bool {
			edges = append(edges, m)
			return true
		})
	}
	for root := range size {
		if number[root] != 0 {
			continue
		}
		enter(root)
		for len(frames) > 0 {
			top := frames[len(frames)-1]
			if len(edges) > top.todo {
				m := edges[len(edges)-1]
				edges = edges[:len(edges)-1]
				if number[m] == 0 {
					enter(m)
				} else if onStack[m] {
					low[top.node] = min(low[top.node], number[m])
				}
				continue
			}
			frames = frames[:len(frames)-1]
			if len(frames) > 0 {
				under := frames[len(frames)-1].node
				low[under] = min(low[under], low[top.node])
			}
			if low[top.node] != number[top.node] {
				continue
			}
			from := len(stack) - 1
			for stack[from] != top.node {
				from--
			}
			part := stack[from:]
			for _, n := range part {
				onStack[n] = false
			}
			if len(part) > 1 {
				found = append(found, slices.Clone(part))
			}
			stack = stack[:from]
		}
	}
	return found
}

// maxVisits bounds how many nodes are looked at for the shortest cycle of a component, once there is one: a wide one in real
// time has everything in it that happened meanwhile.
const maxVisits = 4_000_000

// shortestCycle finds the shortest cycle in a component, by operations: nodes, each of which comes before the next and the
// last before the first. Where maxVisits do not suffice it may miss the shortest.
func shortestCycle(g *graph, part []int32, why edge) []int32 {
	inside := make(map[int32]bool, len(part))
	for _, n := range part {
		inside[n] = true
	}
	var best []int32
	left := maxVisits
	for _, n := range part {
		if int(n) >= g.nodes() {
			continue
		}
		found, visits := cycleFrom(g, n, why, inside, len(best))
		if found != nil {
			best = found
		}
		if left -= visits; len(best) == 2 || len(best) > 0 && left < 0 {
			break
		}
	}
	return best
}

// cycleFrom finds the shortest cycle through a node by a breadth-first search, if it has fewer than bound operations; any if
// bound is 0. Ends of operations take no step. It tells how many nodes it looked at, too.
func cycleFrom(g *graph, start int32, why edge, inside map[int32]bool, bound int) (cycle []int32, visits int) {
	after := map[int32]int32{} // the node from which one was reached
	level, steps := []int32{start}, 1
	for len(level) > 0 && (bound == 0 || steps < bound) {
		var following []int32
		for len(level) > 0 {
			n := level[len(level)-1]
			level = level[:len(level)-1]
			closed := false
			g.before(n, why, func(m int32, _ edge) bool {
				if m == start {
					closed = true
					return false
				}
				if _, known := after[m]; known || !inside[m] {
					return true
				}
				after[m] = n
				if int(m) < g.nodes() {
					following = append(following, m)
				} else {
					level = append(level, m)
				}
				return true
			})
			if closed {
				cycle = []int32{start}
				for m := n; m != start; m = after[m] {
					if int(m) < g.nodes() {
						cycle = append(cycle, m)
					}
				}
				return cycle, len(after)
			}
		}
		level = following
		steps++
	}
	return nil, len(after)
}

// findCycle notes a cycle, from its first operation on, for the key of its first write that was polled, or written upon.
func (c *checker) findCycle(g *graph, s search, cycle []int32) {
	first := slices.Index(cycle, slices.Min(cycle))
	cycle = slices.Concat(cycle[first:], cycle[:first])
	key := none
	var ops []int
	var values []int64
	var parts []string
	for i, n := range cycle {
		m := cycle[(i+1)%len(cycle)]
		text, k, v := c.reason(g, n, m, s.why)
		if k >= 0 {
			values = append(values, v)
			if key == none {
				key = int32(k)
			}
		}
		ops = append(ops, int(g.ops[n]))
		parts = append(parts, text)
	}
	c.find(s.kind, int(key), s.rule, func() Example {
		return Example{Ops: ops, Values: values, Text: strings.Join(parts, "; ")}
	})
}

// reason says why node n comes before node m; the key is -1 if no value is the reason.
func (c *checker) reason(g *graph, n, m int32, why edge) (text string, key int, v int64) {
	a, b := int(g.ops[n]), int(g.ops[m])
	g.before(m, why, func(before int32, is edge) bool {
		if before != n {
			return true
		}
		switch is {
		case wr:
			s := c.polledFrom(g, m, n)
			key, v = s.Key, s.Value
			text = fmt.Sprintf("%s sent value %d of %s, which %s polled", c.op(a), s.Value, c.key(s.Key), c.op(b))
		case ww:
			before, after, k := c.writtenOn(g, m, n)
			key, v = k, after
			text = fmt.Sprintf("%s sent value %d of %s, after which comes value %d of %s", c.op(a), before, c.key(k), after, c.op(b))
		case process:
			key = -1
			text = fmt.Sprintf("%s did it before operation %d", c.op(a), b)
			if a == b {
				text = c.op(a) + " did it before what follows"
			}
		}
		return false
	})
	if text == "" {
		return fmt.Sprintf("%s ended %s before %s began", c.op(a), c.h.Ops[b].Start-c.h.Ops[a].End, c.op(b)), -1, 0
	}
	return text, key, v
}

// polledFrom is a value that node m polled and node n sent.
func (c *checker) polledFrom(g *graph, m, n int32) Seen {
	for _, mop := range c.nodeMops(g, m) {
		for _, s := range mop.Poll {
			l := c.logs[s.Key]
			if v := &l.values[l.byValue[s.Value]]; v.writer == g.ops[n] && c.nodeHas(g, n, v) {
				return s
			}
		}
	}
	panic("history: an edge of a poll without a value")
}

// writtenOn are a value of node n and the one of node m that comes next in the log, and their key.
func (c *checker) writtenOn(g *graph, m, n int32) (before, after int64, key int) {
	for _, mop := range c.nodeMops(g, m) {
		if mop.Send == nil {
			continue
		}
		l := c.logs[mop.Send.Key]
		v := &l.values[l.byValue[mop.Send.Value]]
		if v.first < 1 {
			continue
		}
		b := &l.values[l.pairs[l.slots[l.order[v.first-1]].pair].value]
		if b.writer == g.ops[n] && c.nodeHas(g, n, b) {
			return b.v, v.v, mop.Send.Key
		}
	}
	panic("history: an edge of writes without a value")
}
