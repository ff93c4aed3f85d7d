package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
)

// targets are the ways in which nodes are chosen.
var targets = []string{"any", "one", "minority", "majority", "all", "primaries", "controller"}

// target draws nodes: which, and how they were chosen. Where nobody answers who leads, any nodes are taken.
func (s *Site) target(ctx context.Context, rng *rand.Rand) (ids []int, how string) {
	nodes := s.c.Nodes()
	shuffled := draw(rng, nodes, len(nodes))
	switch how = targets[rng.IntN(len(targets))]; how {
	case "one":
		return shuffled[:1], how
	case "minority":
		return shuffled[:max(1, (len(nodes)-1)/2)], how
	case "majority":
		return shuffled[:len(nodes)/2+1], how
	case "all":
		return shuffled, how
	case "primaries":
		if v, err := s.c.View(ctx); err == nil {
			if ids := v.leaders(s.opt.Topics); len(ids) > 0 {
				return ids, how
			}
		}
	case "controller":
		if v, err := s.c.View(ctx); err == nil && slices.Contains(nodes, v.Controller) {
			return []int{v.Controller}, how
		}
	}
	return shuffled[:1+rng.IntN(len(nodes))], "any"
}

// draw gives n of the ids, in an order of its own.
func draw(rng *rand.Rand, ids []int, n int) []int {
	out := make([]int, 0, n)
	for _, i := range rng.Perm(len(ids))[:n] {
		out = append(out, ids[i])
	}
	return out
}

func oneOf[T any](rng *rand.Rand, all []T) T { return all[rng.IntN(len(all))] }

// named writes "node 1" or "nodes 1, 2 and 3".
func named(ids []int) string {
	if len(ids) == 1 {
		return fmt.Sprintf("node %d", ids[0])
	}
	s := "nodes "
	for i, id := range ids {
		switch {
		case i > 0 && i == len(ids)-1:
			s += " and "
		case i > 0:
			s += ", "
		}
		s += fmt.Sprint(id)
	}
	return s
}
