package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"cordwood/logstore/vfs"
)

// full lets writes of records find no room, on a minority.
type full struct{ base }

func (f *full) Check() error { return f.disks() }

func (f *full) Start(ctx context.Context, rng *rand.Rand) ([]int, string, error) {
	ids := f.s.take(f.kind.Name, f.s.minority(rng))
	if len(ids) == 0 {
		return nil, "", f.none()
	}
	err := f.rules(ctx, ids,
		vfs.Rule{Op: vfs.OpWrite, Path: "*.log", Error: "ENOSPC", Short: rng.IntN(100)},
		vfs.Rule{Op: vfs.OpWrite, Path: "cordwood-reserve", Error: "ENOSPC"})
	return ids, "filled the disk of " + named(ids), err
}

// minority draws fewer than half of the nodes, at least one.
func (s *Site) minority(rng *rand.Rand) []int {
	nodes := s.c.Nodes()
	return draw(rng, nodes, 1+rng.IntN(max(1, (len(nodes)-1)/2)))
}

// rules puts rules in force on nodes, until healed.
func (b *base) rules(ctx context.Context, ids []int, rules ...vfs.Rule) error {
	for _, id := range ids {
		b.later(fmt.Sprintf("end the rules of the disk of node %d", id), func(ctx context.Context) error { return b.s.c.Disks().SetRules(ctx, id) })
		if err := b.s.c.Disks().SetRules(ctx, id, rules...); err != nil {
			return err
		}
	}
	return nil
}

// eio lets syncs of records fail, on as many nodes as may lose their copies. A node does not trust a disk again whose sync
// failed: it is healed by another process.
type eio struct{ base }

func (e *eio) Check() error { return e.disks() }

func (e *eio) Start(ctx context.Context, rng *rand.Rand) ([]int, string, error) {
	ids, err := e.s.takeToHurt(ctx, e.kind.Name, rng, 1)
	if err != nil {
		return nil, "", err
	}
	e.up(ids)
	for _, id := range ids { // after the rules ended, and before it is started
		e.later(fmt.Sprintf("end node %d", id), func(ctx context.Context) error { return e.s.c.Kill(ctx, id) })
	}
	return ids, "made syncs of " + named(ids) + " fail", e.rules(ctx, ids, vfs.Rule{Op: vfs.OpSync, Path: "*.log", Error: "EIO"})
}

// slowDisk makes writes and syncs slow.
type slowDisk struct{ base }

func (d *slowDisk) Check() error { return d.disks() }

func (d *slowDisk) Start(ctx context.Context, rng *rand.Rand) ([]int, string, error) {
	nodes := d.s.c.Nodes()
	ids := d.s.take(d.kind.Name, draw(rng, nodes, 1+rng.IntN(len(nodes))))
	if len(ids) == 0 {
		return nil, "", d.none()
	}
	write, sync := time.Duration(1+rng.IntN(20))*time.Millisecond, time.Duration(20+rng.IntN(500))*time.Millisecond
	err := d.rules(ctx, ids,
		vfs.Rule{Op: vfs.OpWrite, Path: "*.log", Delay: vfs.Duration(write)},
		vfs.Rule{Op: vfs.OpSync, Delay: vfs.Duration(sync)})
	return ids, fmt.Sprintf("made each write of %s %v and each sync %v slower", named(ids), write, sync), err
}
