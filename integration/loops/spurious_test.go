//go:build integration

package loops

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/integration/harness"
	"cordwood/logstore/vfs"
)

const leadsAgainWithin = 2 * time.Second // of its coming back

// TestALeaderFencedByMistakeLeadsAgain lets two followers of a quorum topic lose power, so that no majority of them is
// trusted, and the leader be fenced while it stands still. Nobody else has everything, and it has: it leads again as soon
// as it is back, without a loss and without an event that says so.
func TestALeaderFencedByMistakeLeadsAgain(t *testing.T) {
	rng := random(t)
	table := NewTable("round", "leader", "fences", "unsynced bytes", "stood still for", "leads again in", "epochs", "acknowledged", "lost", "verdict")
	defer table.Print(os.Stdout)
	var all []time.Duration
	for round := range *rounds {
		mode, how := vfs.CrashLose, "all gone"
		if round%2 == 1 {
			mode, how = vfs.CrashTear, "torn"
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		c := start(t, 3, harness.Options{ClusterSettings: []string{shortSession}})
		topic(t, c, "loop", 1, "commit.rule=quorum")
		inSync(t, c, "loop")
		w := write(t, c, "loop", fmt.Sprintf("r%d", round), 300)
		require.NoError(t, w.WaitAcked(ctx, 200))
		mark := markLogs(t, c)
		first := describe(t, c, "loop")[0]
		leader := c.Node(first.Leader)
		for fence := range 2 {
			s := spurious{c: c, leader: leader}
			s.run(t, ctx, mode, rng.Uint64())
			all = append(all, s.took)
			inSync(t, c, "loop")
			allTrusted(t, c, "loop")
			require.NoError(t, w.WaitAcked(ctx, 100))
			table.Add(round, leader.ID, fence+1, how, s.still, s.took, fmt.Sprintf("%d to %d", s.from, s.to), w.Acked(), "", "")
			require.LessOrEqual(t, s.took, leadsAgainWithin)
		}
		v := stopped(t, c, "loop", w)
		table.Add(round, leader.ID, "all", how, "", "", "", v.Acknowledged, v.Lost, v.Verdict)
		require.Equal(t, "ok", v.Verdict, "%+v", v)
		lines := logsSince(t, c, mark)
		require.Empty(t, events(lines, "DataLossPossible"))
		require.Empty(t, events(lines, "PartitionOfflineUnsafe"), "its last leader has everything")
		cancel()
		require.NoError(t, c.Close())
	}
	fmt.Printf("leads again after a mistaken fence: %s\n", Spread(all))
}

// spurious is one fence by mistake, of a leader whose followers have lost power.
type spurious struct {
	c      *harness.Cluster
	leader *harness.Node

	still, took time.Duration
	from, to    int // leader epochs
}

func (s *spurious) run(t *testing.T, ctx context.Context, mode vfs.CrashMode, seed uint64) {
	t.Helper()
	before, err := look(ctx, s.leader, "loop")
	require.NoError(t, err)
	require.Equal(t, s.leader.ID, before[0].leader)
	s.from = before[0].epoch
	var followers []*harness.Node
	for _, n := range s.c.Nodes {
		if n != s.leader {
			followers = append(followers, n)
		}
	}
	// The leader stands still before they are back: it would certify them within milliseconds.
	for _, n := range followers {
		_, err := n.LosePower(mode, seed)
		require.NoError(t, err)
	}
	stood := time.Now()
	require.NoError(t, s.leader.Pause())
	for _, n := range followers {
		require.NoError(t, n.Start())
	}
	fenced(t, followers[0], s.leader, 30*time.Second)
	for _, n := range followers {
		require.NoError(t, n.WaitReady(ctx))
		unfenced(t, followers[0], n, 30*time.Second)
	}
	seen(t, followers[0], "loop", 10*time.Second, "nobody leads", func(v viewed) bool { return v.leader < 0 })
	s.still = time.Since(stood)
	came := time.Now()
	require.NoError(t, s.leader.Resume())
	after := seen(t, followers[0], "loop", 20*time.Second, "led by the same node", func(v viewed) bool { return v.leader == s.leader.ID })
	s.took, s.to = time.Since(came), after[0].epoch
	require.Greater(t, s.to, s.from)
}

// TestKillsAroundRegistrationTakeNoTrust kills all nodes with SIGKILL again and again, each around the moment in which it
// registers: between the writing of its session file, the registration's commit, and what follows. None of these starts is
// one that may have lost something, so no partition may end without anybody who has everything.
func TestKillsAroundRegistrationTakeNoTrust(t *testing.T) {
	rng := random(t)
	table := NewTable("round", "topics", "kills", "before it registered", "after", "led again in", "acknowledged", "lost", "verdict")
	defer table.Print(os.Stdout)
	const kills = 6 // a round
	c := start(t, 3, harness.Options{})
	files := map[string][]string{}
	for _, k := range commitKinds {
		topic(t, c, k.name(), 1, k.settings()...)
		inSync(t, c, k.name())
	}
	for round := range *rounds {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		for _, k := range commitKinds {
			w := write(t, c, k.name(), fmt.Sprintf("r%d-%s", round, k.name()), 300)
			require.NoError(t, w.WaitAcked(ctx, 50+rng.IntN(100)))
			require.NoError(t, w.Stop(30*time.Second))
			require.Empty(t, w.Errors())
			files[k.name()] = append(files[k.name()], w.File)
		}
		mark := markLogs(t, c)
		require.NoError(t, c.Kill())
		early, late := 0, 0
		for range kills {
			e, l := killAroundRegistration(t, c, rng)
			early, late = early+e, late+l
		}
		began := time.Now()
		require.NoError(t, c.Start())
		require.NoError(t, c.WaitReady(ctx, 60*time.Second))
		for _, k := range commitKinds {
			inSync(t, c, k.name())
		}
		took := time.Since(began)
		lines := logsSince(t, c, mark)
		require.Empty(t, events(lines, "PartitionOfflineUnsafe"), "a kill is no power cut")
		require.Empty(t, events(lines, "DataLossPossible"))
		for _, l := range lines {
			if l.Kind == "BrokerRegistered" || l.Msg == "registered" {
				require.NotContains(t, l.raw, "lossy", "a kill is no power cut")
			}
		}
		acked, lost, said := 0, 0, "ok"
		for _, k := range commitKinds {
			v := verify(t, c, k.name(), files[k.name()]...)
			acked, lost = acked+v.Acknowledged, lost+v.Lost
			if v.Verdict != "ok" {
				said = v.Verdict
			}
		}
		table.Add(round, len(commitKinds), kills*len(c.Nodes), early, late, took, acked, lost, said)
		require.Equal(t, "ok", said)
		cancel()
	}
}

// killAroundRegistration starts all nodes and kills each one a moment after it has opened its data directory, which is when
// it begins to register, or after it was told that it has. It counts the two kinds.
func killAroundRegistration(t *testing.T, c *harness.Cluster, rng *rand.Rand) (early, late int) {
	t.Helper()
	mark := markLogs(t, c)
	after := make([]string, len(c.Nodes))
	delay := make([]time.Duration, len(c.Nodes))
	for i := range c.Nodes {
		after[i] = "data directory opened"
		if rng.IntN(2) == 0 {
			after[i] = "registered"
		}
		delay[i] = time.Duration(rng.IntN(30)) * time.Millisecond
	}
	require.NoError(t, c.Start())
	var wg sync.WaitGroup
	errs := make([]error, len(c.Nodes))
	for i, n := range c.Nodes {
		wg.Go(func() { errs[i] = killAfter(n, mark[n], after[i], delay[i]) })
	}
	wg.Wait()
	for i, n := range c.Nodes {
		require.NoError(t, errs[i])
		if lineAfter(n, mark[n], "registered") {
			late++
		} else {
			early++
		}
	}
	return early, late
}

// killAfter kills a node so long after its log has a message; after 2 s without one, which a node without a majority may
// never write, it kills it anyway.
func killAfter(n *harness.Node, from int64, msg string, delay time.Duration) error {
	tick, timeout := time.NewTicker(2*time.Millisecond), time.NewTimer(2*time.Second)
	defer tick.Stop()
	defer timeout.Stop()
	for !lineAfter(n, from, msg) {
		select {
		case <-timeout.C:
			return n.Kill()
		case <-tick.C:
		}
	}
	moment := time.NewTimer(delay)
	defer moment.Stop()
	<-moment.C
	return n.Kill()
}

// lineAfter says whether a node's log has a message after an offset.
func lineAfter(n *harness.Node, from int64, msg string) bool {
	b, err := os.ReadFile(n.LogFile())
	return err == nil && int64(len(b)) >= from && strings.Contains(string(b[from:]), `"msg":"`+msg+`"`)
}
