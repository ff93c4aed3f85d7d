package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// changes is a Check for faults that ask the cluster to change.
func (b *base) changes() error {
	if b.s.c.Changes() == nil {
		return fmt.Errorf("%w: %s needs a cluster that can be asked to change", ErrCannot, b.kind.Name)
	}
	return nil
}

// tested gives the partitions of a view that are tested and of which ok holds.
func (s *Site) tested(v View, ok func(Partition) bool) (ps []Partition) {
	for _, p := range v.Partitions {
		if (slices.Contains(s.opt.Topics, p.Topic) || len(s.opt.Topics) == 0 && !p.Internal) && ok(p) {
			ps = append(ps, p)
		}
	}
	return ps
}

// until waits until ok holds of all partitions of a topic.
func (s *Site) until(ctx context.Context, topic string, ok func(Partition) error) error {
	return eventually(ctx, func() error {
		v, err := s.c.View(ctx)
		if err != nil {
			return err
		}
		for _, p := range v.Partitions {
			if p.Topic != topic {
				continue
			}
			if err := ok(p); err != nil {
				return err
			}
		}
		return nil
	})
}

// elect moves leaderships to other replicas that are in sync, some of them on to a third one at once, before the replicas have
// found their place under the second. There is nothing to undo: any of them may lead.
type elect struct{ base }

func (e *elect) Check() error { return e.changes() }

func (e *elect) Start(ctx context.Context, rng *rand.Rand) ([]int, string, error) {
	v, err := e.s.view(ctx)
	if err != nil {
		return nil, "", err
	}
	movable := e.s.tested(v, func(p Partition) bool { return p.Leader >= 0 && len(p.ISR) > 1 })
	if len(movable) == 0 {
		return nil, "", fmt.Errorf("%w: no tested partition has another replica in sync", ErrCannot)
	}
	var ids []int
	var moved []string
	for _, i := range rng.Perm(len(movable))[:1+rng.IntN(len(movable))] {
		p := movable[i]
		to := oneOf(rng, without(p.ISR, p.Leader))
		if err = e.s.c.Changes().Elect(ctx, p.Topic, p.ID, to); err != nil {
			continue // it may be out of sync by now, or the controller be replaced: others may still move
		}
		what := fmt.Sprintf("%s/%d from node %d to node %d", p.Topic, p.ID, p.Leader, to)
		if others := without(p.ISR, to); rng.IntN(2) == 0 {
			on := oneOf(rng, others)
			if err := e.s.c.Changes().Elect(ctx, p.Topic, p.ID, on); err == nil {
				what, to = fmt.Sprintf("%s and on to node %d", what, on), on
			}
		}
		moved = append(moved, what)
		if !slices.Contains(ids, to) {
			ids = append(ids, to)
		}
	}
	if len(moved) == 0 {
		return nil, "", fmt.Errorf("%w: nobody could be elected: %w", ErrCannot, err)
	}
	slices.Sort(ids)
	return ids, "moved the leaderships of " + strings.Join(moved, ", "), nil
}

// accepted asks until the cluster takes a change, for a few sessions: another fault may leave it without a controller.
func (b *base) accepted(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 3*b.s.opt.Session)
	defer cancel()
	if err := eventually(ctx, func() error { return ask(ctx) }); err != nil {
		return fmt.Errorf("%w: the change is not accepted: %w", ErrCannot, err)
	}
	return nil
}

// reassign moves one replica to a node that has none of its partition, and back.
type reassign struct{ base }

func (r *reassign) Check() error {
	if err := r.changes(); err != nil {
		return err
	}
	return r.least(4)
}

func (r *reassign) Start(ctx context.Context, rng *rand.Rand) ([]int, string, error) {
	nodes := r.s.c.Nodes()
	v, err := r.s.view(ctx)
	if err != nil {
		return nil, "", err
	}
	movable := r.s.tested(v, func(p Partition) bool { return !p.Changing && len(p.Replicas) < len(nodes) })
	if len(movable) == 0 {
		return nil, "", fmt.Errorf("%w: every tested partition has a replica on every node, or is being changed", ErrCannot)
	}
	p := oneOf(rng, movable)
	from, to := oneOf(rng, p.Replicas), oneOf(rng, without(nodes, p.Replicas...))
	there := slices.Clone(p.Replicas)
	there[slices.Index(there, from)] = to
	what := fmt.Sprintf("moved a replica of %s/%d from node %d to node %d", p.Topic, p.ID, from, to)
	r.later(fmt.Sprintf("move %s/%d back to %v", p.Topic, p.ID, p.Replicas), func(ctx context.Context) error { return r.move(ctx, p, p.Replicas) })
	if err := r.accepted(ctx, func(ctx context.Context) error { return r.s.c.Changes().Move(ctx, p.Topic, p.ID, there) }); err != nil {
		return nil, what, err
	}
	return []int{from, to}, what, nil
}

// move gives a partition these replicas and waits until it has them alone.
func (b *base) move(ctx context.Context, p Partition, replicas []int) error {
	if err := b.askMove(ctx, p, replicas); err != nil {
		return err
	}
	return b.awaitMove(ctx, p, replicas)
}

// askMove asks for it. A move that is under way is cancelled.
func (b *base) askMove(ctx context.Context, p Partition, replicas []int) error {
	c := b.s.c.Changes()
	err := c.Move(ctx, p.Topic, p.ID, replicas)
	if err == nil || c.Move(ctx, p.Topic, p.ID, nil) != nil {
		return err
	}
	return c.Move(ctx, p.Topic, p.ID, replicas)
}

func (b *base) awaitMove(ctx context.Context, p Partition, replicas []int) error {
	return b.s.until(ctx, p.Topic, func(now Partition) error {
		if now.ID == p.ID && (now.Changing || !slices.Equal(now.Replicas, replicas)) {
			return fmt.Errorf("%s/%d has replicas %v still", p.Topic, p.ID, now.Replicas)
		}
		return nil
	})
}

// commitRule is the setting that says when a record is committed.
const commitRule = "commit.rule"

// rule changes the commit rule of a topic, and back.
type rule struct{ base }

func (r *rule) Check() error { return r.changes() }

func (r *rule) Start(ctx context.Context, rng *rand.Rand) ([]int, string, error) {
	v, err := r.s.view(ctx)
	if err != nil {
		return nil, "", err
	}
	all := r.s.tested(v, func(p Partition) bool {
		return otherRule[p.Rule] != "" && !p.Changing && p.ID == 0 && len(p.Replicas) > 2
	})
	if len(all) == 0 {
		return nil, "", fmt.Errorf("%w: no tested topic has a commit rule that could be another one", ErrCannot)
	}
	p := oneOf(rng, all)
	to := otherRule[p.Rule]
	what := fmt.Sprintf("changed the commit rule of %s from %s to %s", p.Topic, p.Rule, to)
	r.later(fmt.Sprintf("change the commit rule of %s back to %s", p.Topic, p.Rule), func(ctx context.Context) error { return r.change(ctx, p.Topic, p.Rule) })
	return nil, what, r.accepted(ctx, func(ctx context.Context) error { return r.s.c.Changes().SetConfig(ctx, p.Topic, commitRule, to) })
}

var otherRule = map[string]string{"isr": "quorum", "quorum": "isr"}

// change gives a topic a commit rule and waits until all its partitions have it.
func (r *rule) change(ctx context.Context, topic, to string) error {
	if err := r.s.c.Changes().SetConfig(ctx, topic, commitRule, to); err != nil {
		return err
	}
	return r.s.until(ctx, topic, func(p Partition) error {
		if p.Rule != to || p.Changing {
			return fmt.Errorf("%s/%d commits by %s still", topic, p.ID, p.Rule)
		}
		return nil
	})
}

// wipe gives one node an empty disk, with which it joins again.
type wipe struct{ base }

func (w *wipe) Check() error {
	if err := w.disks(); err != nil {
		return err
	}
	return w.least(3)
}

func (w *wipe) Start(ctx context.Context, rng *rand.Rand) ([]int, string, error) {
	ids, err := w.s.takeToHurt(ctx, w.kind.Name, rng, 1)
	if err != nil {
		return nil, "", err
	}
	what := "wiped " + named(ids)
	w.up(ids)
	for _, id := range ids {
		if err := w.s.c.Kill(ctx, id); err != nil {
			return ids, what, err
		}
		if err := w.s.c.Disks().Wipe(ctx, id); err != nil {
			return ids, what, err
		}
		if err := w.s.c.Start(ctx, id); err != nil {
			return ids, what, err
		}
	}
	return ids, what, nil
}
