package history

import (
	"slices"
	"time"
)

// edge is a set of reasons why one node comes before another.
type edge uint8

const (
	ww       edge = 1 << iota // it wrote the value before, in some log
	wr                        // it wrote a value that the other polled
	process                   // the same process did it before
	realtime                  // it ended before the other began
)

// graph has one node for each operation that was ok or perhaps done, or one for each of its sends and polls where groups are
// no transactions; and after them one for each end of an ok operation. It leads from each node to those that come before it,
// so that no edge of polls must be turned around. The ends make it sparse: an operation comes after the last end before its
// start, and each end after the one before it.
type graph struct {
	ops   []int32 // operation of each node
	start []int32 // of the nodes' edges in wrote, one more than nodes
	wrote []int32 // nodes that wrote what a node polled

	startWW []int32 // the same for ww; empty without
	wwBy    []int32

	session []int32 // node of the same process before it, or none
	end     []int32 // last end before its start, or none: counted from 0
	ends    []int32 // node that ended
}

func (g *graph) nodes() int { return len(g.ops) }
func (g *graph) size() int  { return len(g.ops) + len(g.ends) }

// before calls each with every node that comes before n for the reasons given, until it returns false.
func (g *graph) before(n int32, why edge, each func(m int32, why edge) bool) {
	nodes := int32(len(g.ops))
	if n >= nodes {
		e := n - nodes
		if why&realtime == 0 || !each(g.ends[e], realtime) || e == 0 {
			return
		}
		each(n-1, realtime)
		return
	}
	if why&wr != 0 {
		for _, m := range g.wrote[g.start[n]:g.start[n+1]] {
			if !each(m, wr) {
				return
			}
		}
	}
	if why&ww != 0 && len(g.startWW) > 0 {
		for _, m := range g.wwBy[g.startWW[n]:g.startWW[n+1]] {
			if !each(m, ww) {
				return
			}
		}
	}
	if why&process != 0 && g.session[n] != none && !each(g.session[n], process) {
		return
	}
	if why&realtime != 0 && g.end[n] != none {
		each(nodes+g.end[n], realtime)
	}
}

// graphOf builds the graph of a history.
func (c *checker) graphOf(withWW bool) *graph {
	g := &graph{}
	first := make([]int32, len(c.h.Ops)+1) // node of each operation
	for i := range c.h.Ops {
		first[i] = int32(len(g.ops))
		for range c.nodesOf(&c.h.Ops[i]) {
			g.ops = append(g.ops, int32(i))
		}
	}
	first[len(c.h.Ops)] = int32(len(g.ops))
	writer := func(v *value) int32 {
		if v.writer == none || first[v.writer] == first[v.writer+1] {
			return none
		}
		if c.h.Header.Transactions {
			return first[v.writer]
		}
		return first[v.writer] + v.mop
	}

	last := map[int]int32{} // node of the last ok operation of each process
	var ended []time.Duration
	for i := range c.h.Ops {
		op := &c.h.Ops[i]
		if op.F == Crash {
			delete(last, op.Process)
		}
		nodes := first[i+1] - first[i]
		if nodes == 0 {
			continue
		}
		// Ends are in order, since operations are.
		before, _ := slices.BinarySearch(ended, op.Start)
		session := none
		if n, ok := last[op.Process]; ok && c.h.Ops[g.ops[n]].End <= op.Start {
			session = n
		}
		for at := range nodes {
			g.end = append(g.end, int32(before)-1) // -1 is none
			if at > 0 {
				session = first[i] + at - 1
			}
			g.session = append(g.session, session)
			c.polledBy(g, op, int(at), writer)
			if withWW {
				c.writtenAfter(g, op, int(at), writer)
			}
		}
		if op.Type == OK {
			last[op.Process] = first[i+1] - 1
			ended = append(ended, op.End)
			g.ends = append(g.ends, first[i+1]-1)
		}
	}
	g.start = append(g.start, int32(len(g.wrote)))
	if withWW {
		g.startWW = append(g.startWW, int32(len(g.wwBy)))
	}
	return g
}

// nodesOf is how many nodes an operation has.
func (c *checker) nodesOf(op *Op) int {
	switch {
	case op.Type == Fail || len(op.Mops) == 0:
		return 0
	case c.h.Header.Transactions:
		return 1
	}
	return len(op.Mops)
}

// mops are those of one node of an operation.
func (c *checker) mops(op *Op, at int) []Mop {
	if c.h.Header.Transactions {
		return op.Mops
	}
	return op.Mops[at : at+1]
}

func (c *checker) polledBy(g *graph, op *Op, at int, writer func(*value) int32) {
	n := int32(len(g.start)) // the next node
	g.start = append(g.start, int32(len(g.wrote)))
	for _, mop := range c.mops(op, at) {
		for _, s := range mop.Poll {
			l := c.logs[s.Key]
			_, p := l.at(s.Offset, s.Value)
			m := writer(&l.values[l.pairs[p].value])
			if m == none || m == n || len(g.wrote) > int(g.start[n]) && g.wrote[len(g.wrote)-1] == m {
				continue
			}
			g.wrote = append(g.wrote, m)
		}
	}
}

func (c *checker) writtenAfter(g *graph, op *Op, at int, writer func(*value) int32) {
	n := int32(len(g.startWW))
	g.startWW = append(g.startWW, int32(len(g.wwBy)))
	for _, mop := range c.mops(op, at) {
		if mop.Send == nil {
			continue
		}
		l := c.logs[mop.Send.Key]
		v := &l.values[l.byValue[mop.Send.Value]]
		if v.first < 1 {
			continue
		}
		before := l.pairs[l.slots[l.order[v.first-1]].pair].value
		if m := writer(&l.values[before]); m != none && m != n {
			g.wwBy = append(g.wwBy, m)
		}
	}
}

// within is which of the nodes of its operation n is.
func (g *graph) within(n int32) int {
	at := 0
	for n > 0 && g.ops[n-1] == g.ops[n] {
		n, at = n-1, at+1
	}
	return at
}

// nodeMops are the sends and polls of a node.
func (c *checker) nodeMops(g *graph, n int32) []Mop {
	return c.mops(&c.h.Ops[g.ops[n]], g.within(n))
}

// nodeHas says whether the writer of v, whose operation is that of n, is n.
func (c *checker) nodeHas(g *graph, n int32, v *value) bool {
	return c.h.Header.Transactions || g.within(n) == int(v.mop)
}
