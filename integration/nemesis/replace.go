package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
)

// replace moves all replicas off one node, takes it out of the cluster for good, and lets a new one with its number and an
// empty disk join and get the replicas back.
type replace struct{ base }

func (r *replace) Check() error {
	if err := r.changes(); err != nil {
		return err
	}
	if err := r.disks(); err != nil {
		return err
	}
	return r.least(4)
}

func (r *replace) Start(ctx context.Context, rng *rand.Rand) ([]int, string, error) {
	ids, err := r.s.takeToHurt(ctx, r.kind.Name, rng, 1)
	if err != nil {
		return nil, "", err
	}
	id := ids[0]
	v, err := r.s.view(ctx)
	if err != nil {
		return ids, "", err
	}
	moves, err := r.away(v, id, rng)
	if err != nil {
		return ids, "", err
	}
	what := fmt.Sprintf("moved %d replicas off node %d", len(moves), id)
	r.later(fmt.Sprintf("move %d replicas back to node %d", len(moves), id), func(ctx context.Context) error { return r.back(ctx, moves) })
	for _, m := range moves {
		if err := r.accepted(ctx, func(ctx context.Context) error { return r.s.c.Changes().Move(ctx, m.Topic, m.ID, m.to) }); err != nil {
			return ids, what, err
		}
	}
	if err := r.moved(ctx, id); err != nil {
		return ids, what, err
	}
	what += ", removed it and let a new one take its place"
	r.up(ids)
	if err := r.s.c.Kill(ctx, id); err != nil {
		return ids, what, err
	}
	// Refused until its session ends.
	if err := r.accepted(ctx, func(ctx context.Context) error { return r.s.c.Changes().Remove(ctx, id) }); err != nil {
		return ids, what, err
	}
	if err := r.s.c.Disks().Wipe(ctx, id); err != nil {
		return ids, what, err
	}
	return ids, what, r.s.c.Start(ctx, id)
}

// relocation is a partition, as it was, and the replicas it is to have.
type relocation struct {
	Partition
	to []int
}

// away draws where each replica of a node goes.
func (r *replace) away(v View, id int, rng *rand.Rand) (moves []relocation, err error) {
	for _, p := range v.Partitions {
		i := slices.Index(p.Replicas, id)
		if i < 0 {
			continue
		}
		free := without(r.s.c.Nodes(), p.Replicas...)
		if p.Changing || len(free) == 0 {
			return nil, fmt.Errorf("%w: %s/%d has a replica on every node, or is being changed", ErrCannot, p.Topic, p.ID)
		}
		to := slices.Clone(p.Replicas)
		to[i] = oneOf(rng, free)
		moves = append(moves, relocation{p, to})
	}
	return moves, nil
}

// moved waits until a node holds no replica any more, for a few sessions: other faults may be in the way for longer.
func (r *replace) moved(ctx context.Context, id int) error {
	ctx, cancel := context.WithTimeout(ctx, 6*r.s.opt.Session)
	defer cancel()
	err := eventually(ctx, func() error {
		v, err := r.s.c.View(ctx)
		if err != nil {
			return err
		}
		for _, p := range v.Partitions {
			if p.Changing || slices.Contains(p.Replicas, id) {
				return fmt.Errorf("%s/%d has replicas %v still", p.Topic, p.ID, p.Replicas)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: node %d is not rid of its replicas: %w", ErrCannot, id, err)
	}
	return nil
}

// back gives every partition the replicas it had: all are asked for before any is waited for.
func (r *replace) back(ctx context.Context, moves []relocation) error {
	for _, m := range moves {
		if err := r.askMove(ctx, m.Partition, m.Replicas); err != nil {
			return err
		}
	}
	for _, m := range moves {
		if err := r.awaitMove(ctx, m.Partition, m.Replicas); err != nil {
			return err
		}
	}
	return nil
}
