package nemesis

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// planned draws a plan on a fake of so many nodes, many times, and hands over who hears whom then, itself included.
func planned(t *testing.T, p planner, nodes int, check func(t *testing.T, pl plan, hears map[int][]int)) {
	t.Helper()
	for seed := range uint64(40) {
		f := newFake(t, nodes, 2, 3)
		s := NewSite(f, Options{Topics: []string{fakeTopic}})
		pl, err := p(t.Context(), seeded(seed), s)
		require.NoError(t, err)
		require.NotEmpty(t, pl.edges)
		require.NotEmpty(t, pl.what)
		hears := map[int][]int{}
		for _, to := range f.nodes {
			for _, from := range f.nodes {
				if !slices.Contains(pl.edges, [2]int{from, to}) {
					hears[to] = append(hears[to], from)
				}
			}
		}
		check(t, pl, hears)
	}
}

// bothWays says that whoever hears another is heard by it.
func bothWays(t *testing.T, hears map[int][]int) {
	t.Helper()
	for to, from := range hears {
		for _, id := range from {
			require.Contains(t, hears[id], to)
		}
	}
}

func TestAnIsolatedNodeHearsNobodyAndTheOthersHearEachOther(t *testing.T) {
	planned(t, planIsolate, 5, func(t *testing.T, p plan, hears map[int][]int) {
		bothWays(t, hears)
		for id, from := range hears {
			if id == p.nodes[0] {
				require.Equal(t, []int{id}, from)
			} else {
				require.Len(t, from, 4)
			}
		}
	})
}

func TestHalvesAreAMajorityAndAMinority(t *testing.T) {
	for nodes := 3; nodes <= 7; nodes++ {
		planned(t, planHalves, nodes, func(t *testing.T, p plan, hears map[int][]int) {
			bothWays(t, hears)
			require.Less(t, 2*len(p.nodes), nodes)
			for id, from := range hears {
				if slices.Contains(p.nodes, id) {
					require.ElementsMatch(t, p.nodes, from)
				} else {
					require.Len(t, from, nodes-len(p.nodes))
				}
			}
		})
	}
}

func TestInARingEachHearsAMajorityAndNoTwoTheSame(t *testing.T) {
	for nodes := 5; nodes <= 9; nodes++ {
		planned(t, planRing, nodes, func(t *testing.T, _ plan, hears map[int][]int) {
			bothWays(t, hears)
			seen := map[string]bool{}
			for id, from := range hears {
				require.Contains(t, from, id)
				require.Greater(t, 2*len(from), nodes)
				require.Less(t, len(from), nodes)
				seen[fmt.Sprint(from)] = true
			}
			require.Len(t, seen, nodes)
		})
	}
}

func TestABridgeAloneHearsAll(t *testing.T) {
	for nodes := 3; nodes <= 6; nodes++ {
		planned(t, planBridge, nodes, func(t *testing.T, _ plan, hears map[int][]int) {
			bothWays(t, hears)
			all := 0
			for _, from := range hears {
				if len(from) == nodes {
					all++
				} else {
					require.LessOrEqual(t, len(from), nodes/2+1)
				}
			}
			require.Equal(t, 1, all)
		})
	}
}

func TestOneWayLeavesTheOtherWay(t *testing.T) {
	in := 0
	planned(t, planOneWay, 4, func(t *testing.T, p plan, _ map[int][]int) {
		for _, x := range p.edges {
			require.NotContains(t, p.edges, [2]int{x[1], x[0]})
			require.Contains(t, x, p.nodes[0])
		}
		if p.edges[0][1] == p.nodes[0] {
			in++
		}
	})
	require.Greater(t, in, 5)
	require.Less(t, in, 35)
}

func TestPrimariesAreAlone(t *testing.T) {
	planned(t, planPrimaries, 5, func(t *testing.T, p plan, hears map[int][]int) {
		bothWays(t, hears)
		require.Equal(t, []int{1, 2}, p.nodes)
		require.Equal(t, []int{1}, hears[1])
		require.Equal(t, []int{2}, hears[2])
		require.Equal(t, []int{3, 4, 5}, hears[3])
	})
}

func TestAnUncontrolledNodeHearsAllButTheController(t *testing.T) {
	planned(t, planUncontrolled, 4, func(t *testing.T, p plan, hears map[int][]int) {
		bothWays(t, hears)
		require.Len(t, p.edges, 2)
		require.NotEqual(t, []int{1}, p.nodes, "the fake's controller")
		require.NotContains(t, hears[p.nodes[0]], 1)
		require.Len(t, hears[p.nodes[0]], 3)
	})
}

func TestSlownessAndLossAreDrawnWithinTheirBounds(t *testing.T) {
	for name, p := range map[string]planner{"slow": planSlow, "loss": planLoss} {
		planned(t, p, 3, func(t *testing.T, pl plan, _ map[int][]int) {
			require.NotNil(t, pl.do, name)
			for _, x := range pl.edges {
				require.NotEqual(t, x[0], x[1], name)
			}
		})
	}
}
