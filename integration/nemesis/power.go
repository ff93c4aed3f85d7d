package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"cordwood/logstore/vfs"
)

// disks is a Check for faults that reach what nodes keep.
func (b *base) disks() error {
	if b.s.c.Disks() == nil {
		return fmt.Errorf("%w: %s needs to reach what nodes keep on their disks", ErrCannot, b.kind.Name)
	}
	return nil
}

// power ends processes as a power cut does.
type power struct {
	base
	all bool
}

func (p *power) Check() error { return p.disks() }

func (p *power) Start(ctx context.Context, rng *rand.Rand) ([]int, string, error) {
	var ids []int
	var err error
	if p.all {
		ids, err = p.s.takeAllToHurt(p.kind.Name)
	} else {
		ids, err = p.s.takeToHurt(ctx, p.kind.Name, rng, 1)
	}
	if err != nil {
		return nil, "", err
	}
	p.up(ids)
	// All at once: else those that are still up could take over what is about to be lost.
	if err := each(ids, func(id int) error { return p.s.c.Kill(ctx, id) }); err != nil {
		return ids, "", err
	}
	mode, how := crash(rng)
	seed := rng.Uint64()
	var said []string
	for _, id := range ids {
		lost, err := p.s.c.Disks().LosePower(ctx, id, mode, seed)
		said = append(said, lost)
		if err != nil {
			return ids, "", err
		}
	}
	return ids, fmt.Sprintf("took the power of %s, what was not synced is %s: %s", named(ids), how, strings.Join(said, "; ")), nil
}

// crash draws what becomes of bytes that were not synced.
func crash(rng *rand.Rand) (vfs.CrashMode, string) {
	if rng.IntN(2) == 0 {
		return vfs.CrashLose, "gone"
	}
	return vfs.CrashTear, "torn"
}

// amnesia lets one node lose its unsynced bytes and come back in a majority that lacks what was acknowledged: a minority is
// paused while the others go on; one of these loses power; then the rest of them is paused, and the minority and the one
// that forgot are alone.
type amnesia struct{ base }

func (a *amnesia) Check() error {
	if err := a.disks(); err != nil {
		return err
	}
	if n := len(a.s.c.Nodes()); n < 3 || n%2 == 0 {
		return fmt.Errorf("%w: %s needs 3, 5 or more nodes, an odd number, and there are %d", ErrCannot, a.kind.Name, n)
	}
	return nil
}

func (a *amnesia) Start(ctx context.Context, rng *rand.Rand) ([]int, string, error) {
	c := a.s.c
	nodes := c.Nodes()
	if !a.s.idle() {
		return nil, "", fmt.Errorf("%w: another fault has nodes in hand", ErrCannot)
	}
	crashed, err := a.s.takeToHurt(ctx, a.kind.Name, rng, 1)
	if err != nil {
		return nil, "", err
	}
	id := crashed[0]
	others := draw(rng, without(nodes, id), len(nodes)-1)
	first, holders := others[:(len(nodes)-1)/2], others[(len(nodes)-1)/2:]
	a.s.take(a.kind.Name, others)
	slices.Sort(first)
	slices.Sort(holders)
	mode, how := crash(rng)
	what := fmt.Sprintf("paused %s, took the power of node %d (what was not synced is %s), paused %s and let the former go on", named(first), id, how, named(holders))

	a.up(crashed)
	for _, o := range others {
		a.goOn(o)
	}
	if err := each(first, func(id int) error { return c.Pause(ctx, id) }); err != nil {
		return nodes, what, err
	}
	if err := a.without(ctx, first); err != nil {
		return nodes, what, err
	}
	if err := sleep(ctx, a.s.opt.Lag); err != nil {
		return nodes, what, err
	}
	lost, err := c.Disks().LosePower(ctx, id, mode, rng.Uint64())
	what += ": " + lost
	if err != nil {
		return nodes, what, err
	}
	if err := each(holders, func(id int) error { return c.Pause(ctx, id) }); err != nil {
		return nodes, what, err
	}
	if err := each(first, func(id int) error { return c.Resume(ctx, id) }); err != nil {
		return nodes, what, err
	}
	if err := c.Start(ctx, id); err != nil {
		return nodes, what, err
	}
	return nodes, what, sleep(ctx, 3*a.s.opt.Session/2) // the holders are fenced, and somebody is asked for
}

// without waits until the nodes lead nothing that is tested and others do.
func (a *amnesia) without(ctx context.Context, ids []int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*a.s.opt.Session)
	defer cancel()
	return eventually(ctx, func() error {
		v, err := a.s.c.View(ctx)
		if err != nil {
			return err
		}
		for _, p := range v.Partitions {
			if slices.Contains(ids, p.Leader) || p.Leader < 0 && len(p.Replicas) > 1 {
				return fmt.Errorf("%s/%d is led by node %d still", p.Topic, p.ID, p.Leader)
			}
		}
		return nil
	})
}
