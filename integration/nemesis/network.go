package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// network changes some edges. One at a time: what mends an edge mends all of it.
type network struct {
	base
	nodes int // that it needs
	plan  planner
}

// planner draws what is done.
type planner func(ctx context.Context, rng *rand.Rand, s *Site) (plan, error)

// plan is what is done to which edges.
type plan struct {
	nodes []int
	what  string
	edges [][2]int
	do    func(e Edges, from, to int) error // nil: cut
}

func (n *network) Check() error {
	if n.s.c.Edges() == nil {
		return fmt.Errorf("%w: nothing stands between the nodes that could be cut", ErrCannot)
	}
	return n.least(n.nodes)
}

func (n *network) Start(ctx context.Context, rng *rand.Rand) ([]int, string, error) {
	p, err := n.plan(ctx, rng, n.s)
	if err != nil {
		return nil, "", err
	}
	e := n.s.c.Edges()
	do := p.do
	if do == nil {
		do = func(e Edges, from, to int) error { return e.Cut(from, to) }
	}
	for _, x := range p.edges {
		n.later(fmt.Sprintf("mend the edge from %d to %d", x[0], x[1]), func(context.Context) error { return e.Mend(x[0], x[1]) })
		if err := do(e, x[0], x[1]); err != nil {
			return p.nodes, p.what, err
		}
	}
	return p.nodes, p.what, nil
}

// between gives the edges from each of a to each of b and back.
func between(a, b []int) (edges [][2]int) {
	for _, i := range a {
		for _, j := range b {
			if i != j {
				edges = append(edges, [2]int{i, j}, [2]int{j, i})
			}
		}
	}
	return edges
}

// apart gives all edges between nodes that do not see each other.
func apart(nodes []int, sees func(i, j int) bool) (edges [][2]int) {
	for a, i := range nodes {
		for _, j := range nodes[a+1:] {
			if !sees(i, j) {
				edges = append(edges, [2]int{i, j}, [2]int{j, i})
			}
		}
	}
	return edges
}

func without(ids []int, gone ...int) []int {
	return slices.DeleteFunc(slices.Clone(ids), func(id int) bool { return slices.Contains(gone, id) })
}

func planIsolate(_ context.Context, rng *rand.Rand, s *Site) (plan, error) {
	nodes := s.c.Nodes()
	id := oneOf(rng, nodes)
	return plan{nodes: []int{id}, what: fmt.Sprintf("cut node %d off from all others", id), edges: between([]int{id}, without(nodes, id))}, nil
}

func planHalves(_ context.Context, rng *rand.Rand, s *Site) (plan, error) {
	nodes := draw(rng, s.c.Nodes(), len(s.c.Nodes()))
	most := len(nodes)/2 + 1
	a, b := slices.Sorted(slices.Values(nodes[:most])), slices.Sorted(slices.Values(nodes[most:]))
	return plan{nodes: b, what: fmt.Sprintf("cut %s off from %s", named(b), named(a)), edges: between(a, b)}, nil
}

// planRing puts the nodes in a ring in which each sees as many neighbours as make a majority with it, no two the same.
func planRing(_ context.Context, rng *rand.Rand, s *Site) (plan, error) {
	ring := draw(rng, s.c.Nodes(), len(s.c.Nodes()))
	n := len(ring)
	reach := (n/2 + 1) / 2 // to each side
	sees := func(i, j int) bool {
		d := slices.Index(ring, i) - slices.Index(ring, j)
		d = max(d, -d)
		return min(d, n-d) <= reach
	}
	return plan{nodes: s.c.Nodes(), what: fmt.Sprintf("let each node see its neighbours in the ring %v only", ring), edges: apart(s.c.Nodes(), sees)}, nil
}

func planBridge(_ context.Context, rng *rand.Rand, s *Site) (plan, error) {
	nodes := draw(rng, s.c.Nodes(), len(s.c.Nodes()))
	bridge, rest := nodes[0], nodes[1:]
	a, b := slices.Sorted(slices.Values(rest[:len(rest)/2])), slices.Sorted(slices.Values(rest[len(rest)/2:]))
	return plan{nodes: s.c.Nodes(), what: fmt.Sprintf("cut %s off from %s; node %d sees all", named(a), named(b), bridge), edges: between(a, b)}, nil
}

func planOneWay(_ context.Context, rng *rand.Rand, s *Site) (plan, error) {
	nodes := s.c.Nodes()
	id := oneOf(rng, nodes)
	others := without(nodes, id)
	if rng.IntN(3) == 0 {
		others = draw(rng, others, 1)
	}
	p := plan{nodes: []int{id}, what: fmt.Sprintf("let nothing through from node %d to %s", id, named(others))}
	in := rng.IntN(2) == 0
	if in {
		p.what = fmt.Sprintf("let nothing through from %s to node %d", named(others), id)
	}
	for _, o := range others {
		x := [2]int{id, o}
		if in {
			x = [2]int{o, id}
		}
		p.edges = append(p.edges, x)
	}
	return p, nil
}

func planPrimaries(ctx context.Context, _ *rand.Rand, s *Site) (plan, error) {
	v, err := s.view(ctx)
	if err != nil {
		return plan{}, err
	}
	leaders := v.leaders(s.opt.Topics)
	if len(leaders) == 0 {
		return plan{}, fmt.Errorf("%w: nobody leads a tested partition", ErrCannot)
	}
	sees := func(i, j int) bool { return !slices.Contains(leaders, i) && !slices.Contains(leaders, j) }
	return plan{nodes: leaders, what: "cut " + named(leaders) + ", which lead, off from everybody", edges: apart(s.c.Nodes(), sees)}, nil
}

func planUncontrolled(ctx context.Context, rng *rand.Rand, s *Site) (plan, error) {
	v, err := s.view(ctx)
	if err != nil {
		return plan{}, err
	}
	if !slices.Contains(s.c.Nodes(), v.Controller) {
		return plan{}, fmt.Errorf("%w: nobody is known to be the controller", ErrCannot)
	}
	id := oneOf(rng, without(s.c.Nodes(), v.Controller))
	return plan{nodes: []int{id}, what: fmt.Sprintf("cut node %d off from the controller, node %d, only", id, v.Controller), edges: between([]int{id}, []int{v.Controller})}, nil
}

func planSlow(_ context.Context, rng *rand.Rand, s *Site) (plan, error) {
	nodes := s.c.Nodes()
	ids := slices.Sorted(slices.Values(draw(rng, nodes, 1+rng.IntN(len(nodes)))))
	d := time.Duration(5+rng.IntN(200)) * time.Millisecond
	jitter := time.Duration(rng.Int64N(int64(d)))
	p := plan{nodes: ids, what: fmt.Sprintf("made all from and to %s %v to %v late", named(ids), d, (d + jitter).Round(time.Millisecond)), edges: between(ids, nodes)}
	rate := int64(0)
	if rng.IntN(3) == 0 {
		rate = int64(64+rng.IntN(1000)) << 10
		p.what += fmt.Sprintf(", at most %d KiB/s", rate>>10)
	}
	p.do = func(e Edges, from, to int) error {
		if err := e.Delay(from, to, d, jitter); err != nil || rate == 0 {
			return err
		}
		return e.Rate(from, to, rate)
	}
	return p, nil
}

func planLoss(_ context.Context, rng *rand.Rand, s *Site) (plan, error) {
	share := float64(10+rng.IntN(60)) / 100
	nodes := s.c.Nodes()
	return plan{nodes: nodes, what: fmt.Sprintf("lost %.0f %% of all datagrams", share*100), edges: apart(nodes, func(int, int) bool { return false }),
		do: func(e Edges, from, to int) error { return e.Loss(from, to, share) }}, nil
}
