package main

import (
	"context"
	"os"
	"time"

	"cordwood/integration/harness"
	"cordwood/integration/load"
)

// idleFor is how long an idle cluster is watched.
const idleFor = 20 * time.Second

// idle measures what three nodes cost while nobody asks for anything, and the binary.
func (b *bench) idle(ctx context.Context) error {
	c, _, err := b.start(ctx, "idle", 3)
	if err != nil {
		return err
	}
	defer b.end(c)
	if err := createTopic(ctx, c, topic, 3); err != nil {
		return err
	}
	share, resident, err := watchIdle(ctx, c)
	if err != nil {
		return err
	}
	b.table.atMost("idle, three nodes together", share*100, "% of a core", 5)
	b.table.atMost("idle node, resident", float64(resident)/1e6, "MB", 60)
	st, err := os.Stat(b.binary)
	if err != nil {
		return err
	}
	b.table.atMost("binary", float64(st.Size())/1e6, "MB", 30)
	return nil
}

// watchIdle says which share of a core all nodes use together, and the most memory that one holds.
func watchIdle(ctx context.Context, c *harness.Cluster) (share float64, resident int64, err error) {
	if err := wait(ctx, 3*time.Second); err != nil { // whatever was begun before ends
		return 0, 0, err
	}
	before, err := load.CPU(pids(c)...)
	if err != nil {
		return 0, 0, err
	}
	start := time.Now()
	if err := wait(ctx, idleFor); err != nil {
		return 0, 0, err
	}
	after, err := load.CPU(pids(c)...)
	if err != nil {
		return 0, 0, err
	}
	share = (after - before).Seconds() / time.Since(start).Seconds()
	for _, pid := range pids(c) {
		r, err := load.Resident(pid)
		if err != nil {
			return 0, 0, err
		}
		resident = max(resident, r)
	}
	return share, resident, nil
}

// wait lets time pass, unless the run is ended.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
