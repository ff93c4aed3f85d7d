//go:build integration

package loops

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/integration/harness"
	"cordwood/integration/workload"
)

const (
	changeWithin    = 30 * time.Second // of all its nodes being back
	livePartitions  = 2
	acceptedWithin  = 15 * time.Second
	liveSpare       = 4 // the node that holds no replica at first
	liveReplication = 3
)

// TestLiveChangesUnderFaultsLoseNothing changes a topic under load: the commit rule there and back, the durability there
// and back, and one replica to another node and back. At each step a node is killed, before the change is asked for, while
// it is or right after it was accepted, and comes back.
func TestLiveChangesUnderFaultsLoseNothing(t *testing.T) {
	rng := random(t)
	table := NewTable("round", "change", "killed", "what it was", "when", "finished in", "longest gap", "acknowledged", "lost", "duplicated", "reordered", "verdict")
	defer table.Print(os.Stdout)
	took := map[string][]time.Duration{}
	for round := range *rounds {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		l := newLive(t, ctx, round)
		for _, change := range l.changes(rng) {
			s := l.step(t, rng, change)
			took[change.what] = append(took[change.what], s.took)
			table.Add(round, change.what, s.victim.ID, s.was, s.when, s.took, s.gap, l.w.Acked(), "", "", "", "")
		}
		v := stopped(t, l.c, "loop", l.w)
		table.Add(round, "all", "", "", "", "", "", v.Acknowledged, v.Lost, v.Duplicated, v.Reordered, v.Verdict)
		require.Equal(t, "ok", v.Verdict, "%+v", v)
		require.Equal(t, l.w.Acked(), v.Acknowledged)
		lines := logsSince(t, l.c, l.mark)
		require.Empty(t, events(lines, "DataLossPossible"))
		require.Empty(t, events(lines, "PartitionOfflineUnsafe"))
		require.Zero(t, metric(t, l.c, "cordwood_replicas_quarantined"))
		cancel()
		require.NoError(t, l.c.Close())
	}
	for _, what := range slices.Sorted(maps.Keys(took)) {
		fmt.Printf("finished, %s: %s\n", what, Spread(took[what]))
	}
}

// live is a cluster of four with a topic of three replicas under load.
type live struct {
	c    *harness.Cluster
	ctx  context.Context
	w    *workload.Writer
	mark logMark
}

func newLive(t *testing.T, ctx context.Context, round int) *live {
	t.Helper()
	l := &live{c: start(t, 4, harness.Options{}), ctx: ctx}
	l.mark = markLogs(t, l.c)
	assigned(t, l.c, "loop", [][]int{{1, 2, 3}, {2, 3, 1}})
	inSync(t, l.c, "loop")
	l.w = write(t, l.c, "loop", fmt.Sprintf("r%d", round), 300)
	require.NoError(t, l.w.WaitAcked(ctx, 100))
	return l
}

// change is one change of the topic: how it is asked for, and when it is done.
type change struct {
	what string
	ask  func(t *testing.T, l *live) error // asked again until it is accepted
	done func(viewed) bool
}

func setting(key, value string, done func(viewed) bool) change {
	return change{key + " " + value, func(t *testing.T, l *live) error {
		if said, code := try(t, l.c, "topic", "alter", "loop", "-c", key+"="+value); code != 0 {
			return errors.New(said)
		}
		return nil
	}, done}
}

// changes are the steps of a round. The replica that goes is drawn, and its place is kept.
func (l *live) changes(rng *rand.Rand) []change {
	gone := 1 + rng.IntN(3)
	p := rng.IntN(livePartitions)
	replace := func(from, to int) func(t *testing.T, l *live) error {
		return func(t *testing.T, l *live) error { return l.replace(t, p, from, to) }
	}
	onIt := func(id int, is bool) func(viewed) bool {
		return func(v viewed) bool {
			return v.partition != p || slices.Contains(v.replicas, id) == is && len(v.replicas) == liveReplication
		}
	}
	rule := func(r string) change {
		return setting("commit.rule", r, func(v viewed) bool { return string(v.Rule) == r })
	}
	durability := func(d string) change {
		return setting("commit.durability", d, func(v viewed) bool { return string(v.Durability) == d })
	}
	away := change{"replica away", replace(gone, liveSpare), onIt(gone, false)}
	back := change{"replica back", replace(liveSpare, gone), onIt(gone, true)}
	if rng.IntN(2) == 0 { // so that each rule and each durability meets a move
		return []change{rule("quorum"), durability("disk"), away, rule("isr"), back, durability("memory")}
	}
	return []change{durability("disk"), away, rule("quorum"), durability("memory"), back, rule("isr")}
}

// step is what became of one change.
type step struct {
	victim    *harness.Node
	was, when string
	took, gap time.Duration
}

func (l *live) step(t *testing.T, rng *rand.Rand, change change) (s step) {
	t.Helper()
	inSync(t, l.c, "loop")
	s.was = []string{"leader", "follower", "controller", "any"}[rng.IntN(4)]
	s.victim = l.c.Nodes[rng.IntN(len(l.c.Nodes))]
	if s.was != "any" {
		s.victim = pick(t, l.c, s.was, rng.IntN(livePartitions))[0]
	}
	since := time.Now()
	s.when = []string{"before", "during", "after"}[rng.IntN(3)]
	if s.when == "before" {
		require.NoError(t, s.victim.Kill())
	}
	var dying sync.WaitGroup
	var killed error
	if s.when == "during" {
		moment := time.NewTimer(time.Duration(rng.IntN(50)) * time.Millisecond)
		dying.Go(func() { <-moment.C; killed = s.victim.Kill() })
	}
	l.ask(t, change)
	dying.Wait()
	require.NoError(t, killed)
	require.NoError(t, s.victim.Kill()) // unless it was
	began := time.Now()
	require.NoError(t, l.w.WaitAcked(l.ctx, 100+rng.IntN(200)), "the others go on: %s", change.what)
	require.NoError(t, s.victim.Start())
	require.NoError(t, l.c.WaitReady(l.ctx, 30*time.Second))
	for _, n := range l.c.Nodes {
		seen(t, n, "loop", changeWithin, change.what, func(v viewed) bool { return v.settled() && change.done(v) })
	}
	s.took = time.Since(began)
	require.NoError(t, l.w.WaitAcked(l.ctx, 50))
	s.gap = l.w.LongestGap(since)
	v := verify(t, l.c, "loop", flushed(t, l.w))
	require.Equal(t, "ok", v.Verdict, "after %s: %+v", change.what, v)
	return s
}

// ask asks for a change until it is accepted: some are refused while a leader is being replaced.
func (l *live) ask(t *testing.T, change change) {
	t.Helper()
	said := map[string]bool{}
	eventually(t, acceptedWithin, change.what+" is accepted", func() bool {
		err := change.ask(t, l)
		if err != nil && !said[err.Error()] {
			said[err.Error()] = true
			t.Logf("%s: %s", change.what, err)
		}
		return err == nil
	})
}

// replace puts one replica of a partition on another node, in the same place.
func (l *live) replace(t *testing.T, partition, from, to int) error {
	t.Helper()
	all, err := look(l.ctx, l.c.Answering()[0], "loop")
	if err != nil {
		return err
	}
	now := all[partition]
	if slices.Contains(now.replicas, to) || slices.Contains(now.Adding, int32(to)) || slices.Contains(now.NewReplicas, int32(to)) {
		return nil // accepted before; its answer was lost
	}
	var target []int
	for _, id := range now.replicas {
		if id == from {
			id = to
		}
		target = append(target, id)
	}
	said, code := try(t, l.c, "partition", "move", fmt.Sprintf("loop/%d", partition), "--to", list(target))
	if code != 0 {
		return errors.New(said)
	}
	return nil
}
