//go:build integration

package loops

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/integration/harness"
	"cordwood/integration/workload"
	"cordwood/logstore/vfs"
)

const (
	shortSession = "session_timeout: 2s" // so that a paused node is fenced soon
	// watchedFor is how long nobody may be elected where nobody safe is up: many times what an election takes.
	watchedFor = 3 * time.Second
)

// TestAnAmnesiacElectsNobody lets one node lose its unsynced bytes and come back in a majority that lacks what was
// acknowledged: three nodes, of which one is paused while the other two acknowledge; one of the two loses power and comes
// back, the other is paused and the first one goes on. No leader may come of the two that are left, under either rule,
// until the one that has everything is back.
func TestAnAmnesiacElectsNobody(t *testing.T) {
	rng := random(t)
	table := NewTable("round", "topic", "paused first", "lost power", "has all", "unsynced bytes", "untrusted", "no leader for", "led again in", "certified in", "acknowledged", "lost", "verdict")
	defer table.Print(os.Stdout)
	for round := range *rounds {
		mode, how := vfs.CrashLose, "all gone"
		if round%2 == 1 {
			mode, how = vfs.CrashTear, "torn"
		}
		a := newAmnesia(t, rng)
		a.run(t, mode, rng.Uint64())
		for _, rule := range bothRules {
			v := stopped(t, a.c, rule, a.writers[rule])
			table.Add(round, rule, a.first.ID, a.amnesiac.ID, a.holder.ID, how, list(a.untrusted[rule]), a.leaderless, a.ledAgain, a.certified, v.Acknowledged, v.Lost, v.Verdict)
			require.Equal(t, "ok", v.Verdict, "%+v", v)
			require.Equal(t, a.writers[rule].Acked(), v.Acknowledged)
		}
		lines := logsSince(t, a.c, a.mark)
		require.Empty(t, events(lines, "DataLossPossible"), "nothing is lost, and nothing is said to be")
		require.Empty(t, events(lines, "PartitionOfflineUnsafe"), "one that has everything is only away")
		require.NoError(t, a.c.Close())
	}
}

// bothRules are the commit rules, and the names of the topics that have them.
var bothRules = []string{"isr", "quorum"}

// amnesia is one run of the script.
type amnesia struct {
	c                       *harness.Cluster
	mark                    logMark
	writers                 map[string]*workload.Writer // by rule
	first, amnesiac, holder *harness.Node

	untrusted                       map[string][]int // as told while the holder was away
	leaderless, ledAgain, certified time.Duration
}

func newAmnesia(t *testing.T, rng *rand.Rand) *amnesia {
	t.Helper()
	a := &amnesia{c: start(t, 3, harness.Options{ClusterSettings: []string{shortSession}}), writers: map[string]*workload.Writer{}, untrusted: map[string][]int{}}
	for _, rule := range bothRules {
		topic(t, a.c, rule, 3, "commit.rule="+rule)
		inSync(t, a.c, rule)
		a.writers[rule] = write(t, a.c, rule, rule, 200)
	}
	order := rng.Perm(3)
	a.first, a.amnesiac, a.holder = a.c.Nodes[order[0]], a.c.Nodes[order[1]], a.c.Nodes[order[2]]
	a.mark = markLogs(t, a.c)
	return a
}

func (a *amnesia) run(t *testing.T, mode vfs.CrashMode, seed uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	acked := func(n int, why string) {
		for rule, w := range a.writers {
			require.NoError(t, w.WaitAcked(ctx, n), "%s: %s", rule, why)
		}
	}
	acked(100, "all three are there")

	// What is acknowledged from here on, the first one lacks.
	require.NoError(t, a.first.Pause())
	for _, rule := range bothRules {
		seen(t, a.holder, rule, 20*time.Second, "the paused node leads nothing and is out of sync", func(v viewed) bool {
			return v.leader != a.first.ID && v.leader >= 0 && !slices.Contains(v.isr, a.first.ID)
		})
	}
	acked(200, "two of three go on")

	_, err := a.amnesiac.LosePower(mode, seed)
	require.NoError(t, err)
	require.NoError(t, a.holder.Pause())
	require.NoError(t, a.first.Resume())
	require.NoError(t, a.amnesiac.Start())

	// The two make a majority, of raft and of the replicas, without what was acknowledged.
	fenced(t, a.first, a.holder, 30*time.Second) // a record of the new controller: the image is of now
	require.NoError(t, a.amnesiac.WaitReady(ctx))
	unfenced(t, a.first, a.first, 30*time.Second)
	unfenced(t, a.first, a.amnesiac, 30*time.Second)
	began := time.Now()
	for _, rule := range bothRules {
		seen(t, a.first, rule, 10*time.Second, "nobody leads", func(v viewed) bool { return v.leader < 0 })
	}
	eventually(t, 2*watchedFor, "the time in which nobody may be elected", func() bool {
		for _, rule := range bothRules {
			all, err := look(t.Context(), a.first, rule)
			require.NoError(t, err)
			for _, v := range all {
				require.Negative(t, v.leader, "%s/%d: node %d was elected without node %d, which alone has all that was acknowledged", rule, v.partition, v.leader, a.holder.ID)
			}
		}
		return time.Since(began) > watchedFor
	})
	for _, rule := range bothRules {
		a.untrusted[rule] = untrusted(t, a.first, rule)
		require.Equal(t, []int{a.amnesiac.ID}, a.untrusted[rule], "the one that forgot is named")
	}
	a.leaderless = time.Since(began)

	began = time.Now()
	require.NoError(t, a.holder.Resume())
	for _, rule := range bothRules {
		seen(t, a.holder, rule, 20*time.Second, "led again", func(v viewed) bool { return v.leader >= 0 })
	}
	a.ledAgain = time.Since(began)
	acked(100, "all three are back")
	for _, rule := range bothRules {
		inSync(t, a.c, rule)
		allTrusted(t, a.c, rule)
	}
	a.certified = time.Since(began)
	acked(100, fmt.Sprintf("node %d is certified", a.amnesiac.ID))
}
