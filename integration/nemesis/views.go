package nemesis

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Address is where a node answers clients.
type Address struct {
	ID int
	At string
}

// errNobody is a cluster of which no node answers.
var errNobody = errors.New("no node answers")

// ViewOf asks nodes side by side. One that is cut off tells of a moment long ago: the one that most take for the controller is
// believed, and where it does not answer, one of these.
func ViewOf(ctx context.Context, nodes []Address) (View, error) {
	views, errs := make([]View, len(nodes)), make([]error, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() { views[i], errs[i] = Look(ctx, n.At) })
	}
	all.Wait()
	claims := map[int]int{}
	for i := range views {
		if errs[i] == nil && views[i].Controller >= 0 {
			claims[views[i].Controller]++
		}
	}
	best := -1
	better := func(i int) bool {
		a, b := claims[views[i].Controller], claims[views[best].Controller]
		return a > b || a == b && views[i].Controller == nodes[i].ID
	}
	for i := range views {
		if errs[i] == nil && (best < 0 || better(i)) {
			best = i
		}
	}
	if best < 0 {
		return View{}, errors.Join(append(errs, errNobody)...)
	}
	return views[best], nil
}

// Whole waits until a cluster is whole, as Cluster.Settled says. It remembers how many nodes have voted on the metadata.
// Methods are called by one goroutine, one after another.
type Whole struct {
	voters int // as many as there were once; 0: not asked yet
}

// Settled waits for these nodes, which are all. Every one of them is asked: one knows what is newest.
func (w *Whole) Settled(ctx context.Context, nodes []Address) error {
	var ids []int
	for _, n := range nodes {
		ids = append(ids, n.ID)
	}
	return eventually(ctx, func() error {
		for _, n := range nodes {
			v, err := Look(ctx, n.At)
			if err == nil {
				err = w.unsettled(v, ids)
			}
			if err != nil {
				return fmt.Errorf("node %d: %w", n.ID, err)
			}
		}
		return nil
	})
}

func (w *Whole) unsettled(v View, nodes []int) error {
	if err := v.Unsettled(nodes); err != nil {
		return err
	}
	// A wiped node gets its vote back when it has caught up.
	if n := len(v.voters()); n < w.voters {
		return fmt.Errorf("%d of %d nodes vote on the metadata", n, w.voters)
	} else if n > w.voters {
		w.voters = n
	}
	return nil
}
