package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// kill ends processes with SIGKILL.
type kill struct {
	base
	all bool
}

func (k *kill) Check() error { return nil }

func (k *kill) Start(ctx context.Context, rng *rand.Rand) ([]int, string, error) {
	ids, how := k.s.c.Nodes(), "all"
	if !k.all {
		ids, how = k.s.target(ctx, rng)
	}
	if ids = k.s.take(k.kind.Name, ids); len(ids) == 0 {
		return nil, "", k.none()
	}
	k.up(ids)
	err := each(ids, func(id int) error { return k.s.c.Kill(ctx, id) })
	return ids, fmt.Sprintf("killed %s (%s)", named(ids), how), err
}

// pause lets processes stand still: for less than a session, then they go on by themselves, or until healed.
type pause struct{ base }

func (p *pause) Check() error { return nil }

func (p *pause) Start(ctx context.Context, rng *rand.Rand) ([]int, string, error) {
	ids, how := p.s.target(ctx, rng)
	if ids = p.s.take(p.kind.Name, ids); len(ids) == 0 {
		return nil, "", p.none()
	}
	for _, id := range ids {
		p.goOn(id)
	}
	short := rng.IntN(3) == 0
	d := time.Duration(rng.Int64N(int64(p.s.opt.Session)))
	what := fmt.Sprintf("paused %s (%s)", named(ids), how)
	if short {
		what += fmt.Sprintf(" for %v", d.Round(time.Millisecond))
	}
	if err := each(ids, func(id int) error { return p.s.c.Pause(ctx, id) }); err != nil || !short {
		return ids, what, err
	}
	if err := sleep(ctx, d); err != nil {
		return ids, what, err
	}
	return ids, what, each(ids, func(id int) error { return p.s.c.Resume(ctx, id) })
}

// restart ends processes with SIGTERM and starts them again, one after another.
type restart struct{ base }

func (r *restart) Check() error { return nil }

func (r *restart) Start(ctx context.Context, rng *rand.Rand) ([]int, string, error) {
	nodes := r.s.c.Nodes()
	ids := draw(rng, nodes, 1+rng.IntN(len(nodes)))
	taken := r.s.take(r.kind.Name, ids)
	if len(taken) == 0 {
		return nil, "", r.none()
	}
	what := "restarted " + named(taken) + " in an orderly way, one after another"
	r.up(taken)
	for _, id := range draw(rng, taken, len(taken)) {
		if err := r.s.c.Stop(ctx, id); err != nil {
			what += fmt.Sprintf("; node %d did not end in an orderly way", id)
		}
		if err := ctx.Err(); err != nil {
			return taken, what, err
		}
		if err := r.s.c.Start(ctx, id); err != nil {
			return taken, what, err
		}
		// Another fault may keep it from being ready. Then the next one has its turn all the same.
		bounded, cancel := context.WithTimeout(ctx, 2*r.s.opt.Session)
		err := r.s.c.WaitReady(bounded, id)
		cancel()
		if err != nil {
			what += fmt.Sprintf("; node %d was not ready within %v", id, 2*r.s.opt.Session)
		}
	}
	return taken, what, ctx.Err()
}
