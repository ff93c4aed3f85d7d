package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Shape says what a generated history is like. Zero fields take small defaults.
type Shape struct {
	Seed         uint64
	Processes    int
	Topics       int
	Keys         int // of each topic
	Nodes        int
	Ops          int  // before the final polls
	Transactions bool // groups are transactions
	PollMax      int  // records of one poll at most
	FinalMax     int  // the same for a final poll
}

// Generate makes a random history of a cluster that keeps every promise, under faults: operations of several clients at a
// time, groups, clients that crash, failed ones and such of which nobody knows what became, some of which come about late,
// control batches, aborted records, new leader epochs. At the end every process reads everything. The same shape gives the
// same history.
func Generate(s Shape) *History {
	s.Processes, s.Topics, s.Keys = orDefault(s.Processes, 4), orDefault(s.Topics, 2), orDefault(s.Keys, 2)
	s.Nodes, s.Ops = orDefault(s.Nodes, 3), orDefault(s.Ops, 200)
	s.PollMax, s.FinalMax = orDefault(s.PollMax, 8), orDefault(s.FinalMax, 20)
	g := &generator{Shape: s, rng: rand.New(rand.NewPCG(s.Seed, 0xc0de)), now: time.Millisecond}
	g.h.Header = Header{Version: Version, Began: time.Unix(1796000000, 0).UTC(), Seed: s.Seed, Nodes: s.Nodes, Transactions: s.Transactions}
	for t := range s.Topics {
		g.h.Header.Topics = append(g.h.Header.Topics, g.topic(t))
		for p := range s.Keys {
			g.h.Header.Keys = append(g.h.Header.Keys, Key{t, int32(p)})
			g.logs = append(g.logs, &madeLog{})
		}
	}
	for p := range s.Processes {
		g.clients = append(g.clients, &client{process: p})
	}
	for i := range s.Ops {
		if i%max(s.Ops/8, 1) == 0 {
			g.fault()
		}
		g.step()
	}
	g.settle()
	for _, c := range g.clients {
		g.readAll(c)
	}
	for k, l := range g.logs {
		for n := range s.Nodes {
			g.h.Copies = append(g.h.Copies, Copy{Key: k, Node: n + 1, End: l.end, High: l.end, Batches: slices.Clone(l.batches)})
		}
	}
	slices.SortStableFunc(g.h.Ops, byEnd)
	return &g.h
}

func orDefault(n, d int) int {
	if n == 0 {
		return d
	}
	return n
}

type generator struct {
	Shape
	rng     *rand.Rand
	h       History
	now     time.Duration // when the present operation takes effect; no two do at the same time
	logs    []*madeLog    // by key
	clients []*client
	late    []*Op // infos whose sends come later
}

// client is one process.
type client struct {
	process    int
	free       time.Duration // end of its last operation
	keys       []int         // assigned
	at         []int         // next of what is visible, by key
	subscribed bool
}

func (g *generator) topic(t int) Topic {
	acks := []string{"all", "all", "all", "2", "1", "0"}
	return Topic{
		Name: fmt.Sprintf("t%d", t), Replicas: g.Nodes, MinISR: g.Nodes/2 + 1, Rule: []string{"isr", "quorum"}[g.rng.IntN(2)],
		Durability: []string{"memory", "disk"}[g.rng.IntN(2)], MinAcks: "0", Acks: acks[g.rng.IntN(len(acks))],
	}
}

// step makes one operation.
func (g *generator) step() {
	c := g.clients[g.rng.IntN(len(g.clients))]
	g.now = max(g.now+1+g.upTo(time.Millisecond), c.free)
	op := &Op{Process: c.process, Type: OK, Start: max(c.free, g.now-g.upTo(5*time.Millisecond)), End: g.now + g.upTo(5*time.Millisecond)}
	if len(g.late) > 0 && g.rng.IntN(4) == 0 {
		g.comeLate()
	}
	switch g.rng.IntN(50) {
	case 0, 1:
		op.Type = Info
	case 2, 3:
		op.Type = Fail
	}
	switch n := g.rng.IntN(100); {
	case len(c.keys) == 0 || n < 3:
		op.F, op.Type = []F{Assign, Subscribe}[g.rng.IntN(2)], OK
		g.assign(c, op, g.someKeys())
	case n < 4:
		op.F, op.Type = Crash, Info
		c.keys = nil
	case n < 50:
		op.F, op.Mops = Send, []Mop{g.send()}
	case n < 85:
		op.F, op.Mops = Poll, []Mop{{}}
	default:
		op.F = Txn
		for range 2 + g.rng.IntN(3) {
			if g.rng.IntN(2) == 0 {
				op.Mops = append(op.Mops, g.send())
			} else {
				op.Mops = append(op.Mops, Mop{})
			}
		}
	}
	g.carryOut(c, op)
	c.free = op.End
	g.h.Ops = append(g.h.Ops, *op)
	if g.rng.IntN(20) == 0 {
		k := g.rng.IntN(len(g.logs))
		g.h.Watermarks = append(g.h.Watermarks, Watermark{Process: c.process, Key: k, High: g.logs[k].end, Epoch: g.logs[k].epoch, At: g.now})
	}
}

func (g *generator) upTo(d time.Duration) time.Duration { return time.Duration(g.rng.Int64N(int64(d))) }

func (g *generator) someKeys() []int {
	keys := g.rng.Perm(len(g.logs))
	return keys[:1+g.rng.IntN(len(keys))]
}

func (g *generator) send() Mop {
	k := g.rng.IntN(len(g.logs))
	g.logs[k].value++
	return Mop{Send: &Sent{Key: k, Value: g.logs[k].value, Offset: -1}}
}

// assign keeps the positions of keys that stay and starts the others somewhere near the end.
func (g *generator) assign(c *client, op *Op, keys []int) {
	at := make([]int, len(g.logs))
	for _, k := range keys {
		if slices.Contains(c.keys, k) {
			at[k] = c.at[k]
		} else {
			at[k] = max(0, len(g.logs[k].visible)-g.rng.IntN(30))
		}
	}
	c.keys, c.at, c.subscribed, op.Keys = keys, at, op.F == Subscribe, slices.Clone(keys)
}

// fault begins a new leader epoch in every log, with a control batch at its start.
func (g *generator) fault() {
	g.h.Faults = append(g.h.Faults, Fault{Name: "kill", Nodes: []int{1 + g.rng.IntN(g.Nodes)}, Start: g.now, End: g.now + g.upTo(20*time.Millisecond)})
	for _, l := range g.logs {
		if g.rng.IntN(2) == 0 {
			l.epoch++
			l.control()
		}
	}
}

// carryOut does an operation's sends and polls, all at one time.
func (g *generator) carryOut(c *client, op *Op) {
	sends := slices.ContainsFunc(op.Mops, func(m Mop) bool { return m.Send != nil })
	fate := op.Type
	if fate == Info && sends {
		switch g.rng.IntN(3) {
		case 0:
			fate = OK
		case 1:
			fate = Fail
		default:
			defer func() { g.late = append(g.late, op) }()
		}
	}
	if c.subscribed && (op.F == Poll || op.F == Txn) && g.rng.IntN(10) == 0 {
		g.rebalance(c, op)
	}
	// What is not ok is polled again.
	at := slices.Clone(c.at)
	for i := range op.Mops {
		m := &op.Mops[i]
		switch {
		case m.Send == nil:
			m.Poll = g.poll(c, g.PollMax)
		case fate == OK && !g.Transactions:
			g.append(op, m.Send)
		}
	}
	if op.Type != OK {
		c.at = at
	}
	if g.Transactions && sends {
		g.end(op, fate)
	}
}

// rebalance moves some of what a client reads to anywhere, before an operation.
func (g *generator) rebalance(c *client, op *Op) {
	for _, i := range g.rng.Perm(len(c.keys))[:1+g.rng.IntN(len(c.keys))] {
		k := c.keys[i]
		op.Moved = append(op.Moved, k)
		c.at[k] = g.rng.IntN(len(g.logs[k].visible) + 1)
	}
}

// poll gives the next records of some of the assigned keys.
func (g *generator) poll(c *client, most int) []Seen {
	var got []Seen
	from := 0
	if len(c.keys) > 1 {
		from = g.rng.IntN(len(c.keys))
	}
	for i := range c.keys {
		k := c.keys[(from+i)%len(c.keys)]
		l := g.logs[k]
		n := min(most-len(got), len(l.visible)-c.at[k])
		for _, r := range l.visible[c.at[k] : c.at[k]+n] {
			got = append(got, Seen{Key: k, Value: r.value, Offset: r.offset})
		}
		c.at[k] += n
	}
	return got
}

// readAll is the final polls of one process.
func (g *generator) readAll(c *client) {
	op := func(f F, t Type) *Op {
		g.now = max(g.now, c.free) + 1 + g.upTo(time.Millisecond)
		o := &Op{Process: c.process, Type: t, F: f, Start: g.now, End: g.now + g.upTo(time.Millisecond), Final: true}
		c.free = o.End
		return o
	}
	g.h.Ops = append(g.h.Ops, *op(Crash, Info))
	o := op(Assign, OK)
	c.keys = nil
	all := make([]int, len(g.logs))
	for k := range all {
		all[k] = k
	}
	g.assign(c, o, all)
	clear(c.at)
	g.h.Ops = append(g.h.Ops, *o)
	for {
		o := op(Poll, OK)
		o.Mops = []Mop{{Poll: g.poll(c, g.FinalMax)}}
		g.h.Ops = append(g.h.Ops, *o)
		if len(o.Mops[0].Poll) == 0 {
			return
		}
	}
}
