package containers

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"cordwood/integration/nemesis"
)

// edges are what nodes hear of each other. A rule stands in the network of the one that hears.
type edges struct {
	c *Cluster

	mu   sync.Mutex
	cut  map[[2]int]bool
	lose map[[2]int]int // per cent
}

var _ nemesis.Edges = (*edges)(nil)

// Cut implements nemesis.Edges.
func (e *edges) Cut(from, to int) error {
	e.mu.Lock()
	e.cut[[2]int{from, to}] = true
	e.mu.Unlock()
	return e.apply(to)
}

// Loss implements nemesis.Edges.
func (e *edges) Loss(from, to int, share float64) error {
	e.mu.Lock()
	e.lose[[2]int{from, to}] = int(math.Round(100 * share))
	e.mu.Unlock()
	return e.apply(to)
}

// Delay implements nemesis.Edges.
func (e *edges) Delay(int, int, time.Duration, time.Duration) error { return errNoDelay }

// Rate implements nemesis.Edges.
func (e *edges) Rate(int, int, int64) error { return errNoDelay }

var errNoDelay = fmt.Errorf("%w: nothing delays what containers say to each other", nemesis.ErrCannot)

// Mend implements nemesis.Edges.
func (e *edges) Mend(from, to int) error {
	e.mu.Lock()
	delete(e.cut, [2]int{from, to})
	delete(e.lose, [2]int{from, to})
	e.mu.Unlock()
	return e.apply(to)
}

// apply tells a node's agent all that it is not to hear.
func (e *edges) apply(to int) error {
	n := e.c.node(to)
	if n == nil {
		return fmt.Errorf("there is no node %d", to)
	}
	n.wish.Lock() // what is told last is newest
	defer n.wish.Unlock()
	return n.agent.tell(e.wishes(to))
}

func (e *edges) wishes(to int) wishes {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := wishes{Lose: map[string]int{}}
	for _, from := range e.c.nodes {
		edge := [2]int{from.id, to}
		for _, a := range from.addressesNow() {
			if e.cut[edge] {
				w.Drop = append(w.Drop, a)
			}
			if share := e.lose[edge]; share > 0 {
				w.Lose[a] = share
			}
		}
	}
	slices.Sort(w.Drop)
	return w
}

// reapply tells all agents again: addresses have changed.
func (e *edges) reapply() error {
	e.mu.Lock()
	var hear []int
	for edge := range e.cut {
		hear = append(hear, edge[1])
	}
	for edge := range e.lose {
		hear = append(hear, edge[1])
	}
	e.mu.Unlock()
	slices.Sort(hear)
	for _, to := range slices.Compact(hear) {
		if err := e.apply(to); err != nil {
			return err
		}
	}
	return nil
}
