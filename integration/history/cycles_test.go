package history

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// randomGraph has a few nodes with edges of polls and of processes, and ends of some of its nodes.
func randomGraph(rng *rand.Rand) *graph {
	g := &graph{}
	n := 2 + rng.IntN(9)
	for i := range n {
		g.ops = append(g.ops, int32(i))
		if rng.IntN(3) > 0 {
			g.ends = append(g.ends, int32(i))
		}
	}
	for i := range n {
		another := func() int32 { return int32((i + 1 + rng.IntN(n-1)) % n) }
		g.start = append(g.start, int32(len(g.wrote)))
		for range rng.IntN(3) {
			g.wrote = append(g.wrote, another())
		}
		g.session = append(g.session, none)
		if rng.IntN(2) == 0 {
			g.session[i] = another()
		}
		before := slices.Index(g.ends, int32(i)) // its own end is after it
		if before < 0 {
			before = len(g.ends)
		}
		g.end = append(g.end, int32(rng.IntN(before+1))-1)
	}
	g.start = append(g.start, int32(len(g.wrote)))
	return g
}

// distances are the least operations on a path from each node before another, by trying all nodes between; far: there is none.
func distances(g *graph, why edge) (d [][]int, far int) {
	n := g.size()
	far = 1000
	d = make([][]int, n)
	for i := range d {
		d[i] = slices.Repeat([]int{far}, n)
	}
	for to := range n {
		g.before(int32(to), why, func(m int32, _ edge) bool {
			cost := 0
			if int(m) < g.nodes() {
				cost = 1
			}
			d[m][to] = min(d[m][to], cost)
			return true
		})
	}
	for k := range n {
		for i := range n {
			for j := range n {
				d[i][j] = min(d[i][j], d[i][k]+d[k][j])
			}
		}
	}
	return d, far
}

func TestCyclesOfRandomGraphsAreFoundAndShortest(t *testing.T) {
	found := map[int]int{} // length to how often
	for seed := range uint64(3000) {
		g := randomGraph(rand.New(rand.NewPCG(seed, 2)))
		for _, why := range []edge{wr, wr | process, wr | process | realtime} {
			d, far := distances(g, why)
			parts := components(g, why)
			in := make([]int, g.size()) // component of each node, from 1
			for i, part := range parts {
				for _, n := range part {
					in[n] = i + 1
				}
			}
			for a := range g.size() {
				for b := range g.size() {
					if together := a != b && d[a][b] < far && d[b][a] < far; together != (a != b && in[a] > 0 && in[a] == in[b]) {
						t.Fatalf("seed %d: nodes %d and %d in one component: %v, not as Tarjan says", seed, a, b, together)
					}
				}
			}
			for _, part := range parts {
				cycle := shortestCycle(g, part, why)
				for i, n := range cycle {
					if next := cycle[(i+1)%len(cycle)]; d[n][next] > 1 {
						t.Fatalf("seed %d: node %d of cycle %v is not just before %d", seed, n, cycle, next)
					}
				}
				shortest := far
				for _, n := range part {
					if int(n) < g.nodes() {
						shortest = min(shortest, d[n][n])
					}
				}
				if len(cycle) != shortest {
					t.Fatalf("seed %d: %v has %d nodes, the shortest %d", seed, cycle, len(cycle), shortest)
				}
				found[len(cycle)]++
			}
		}
	}
	if found[2] < 100 || found[3] < 100 {
		t.Errorf("too few cycles to judge by: %v", found)
	}
}
