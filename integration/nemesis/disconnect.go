package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// Networks takes nodes off their networks.
type Networks interface {
	// Disconnect leaves a node without any network: neither nodes nor clients reach it.
	Disconnect(ctx context.Context, node int) error
	// Connect undoes it; a node that has its networks is no error.
	Connect(ctx context.Context, node int) error
}

// networked is a Cluster whose nodes can be taken off their networks; nil: they cannot.
type networked interface{ Networks() Networks }

// disconnect takes a minority off its networks. Unlike a cut it ends what clients say to it, too.
type disconnect struct{ base }

func (d *disconnect) networks() Networks {
	if c, ok := d.s.c.(networked); ok {
		return c.Networks()
	}
	return nil
}

func (d *disconnect) Check() error {
	if d.networks() == nil {
		return fmt.Errorf("%w: %s needs nodes with networks of their own, such as containers have", ErrCannot, d.kind.Name)
	}
	return nil
}

func (d *disconnect) Start(ctx context.Context, rng *rand.Rand) ([]int, string, error) {
	n := d.networks()
	ids := d.s.minority(rng)
	what := "took " + named(ids) + " off the network"
	for _, id := range ids {
		d.later(fmt.Sprintf("connect node %d", id), func(ctx context.Context) error { return n.Connect(ctx, id) })
		if err := n.Disconnect(ctx, id); err != nil {
			return ids, what, err
		}
	}
	return ids, what, nil
}
