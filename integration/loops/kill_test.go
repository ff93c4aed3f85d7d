//go:build integration

package loops

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/integration/harness"
	"cordwood/integration/workload"
)

// TestKilledNodesLoseNothingAcknowledged kills with SIGKILL the leader, a follower, the controller and then all nodes at
// once, each followed by a restart, under a steady idempotent acks=all writer. The commit rules take turns.
func TestKilledNodesLoseNothingAcknowledged(t *testing.T) {
	rng := random(t)
	table := NewTable("round", "rule", "killed", "node", "longest gap", "acknowledged", "lost", "duplicated", "reordered", "verdict")
	defer table.Print(os.Stdout)
	gaps := map[string][]time.Duration{}
	for round := range *rounds {
		c := start(t, 3, harness.Options{})
		rule := bothRules[round%len(bothRules)]
		topic(t, c, "loop", 3, "commit.rule="+rule)
		file := filepath.Join(t.TempDir(), "acked")
		w, err := workload.StartWriter(workload.WriterOptions{Seeds: c.Bootstrap(), Topic: "loop", Tag: fmt.Sprintf("r%d", round), File: file, Rate: 500, Size: 200})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		require.NoError(t, w.WaitAcked(ctx, 100))
		for _, kind := range []string{"leader", "follower", "controller", "all"} {
			inSync(t, c, "loop")
			victims := pick(t, c, kind, rng.IntN(3))
			since := time.Now()
			require.NoError(t, c.Kill(victims...))
			if kind != "all" {
				require.NoError(t, w.WaitAcked(ctx, 100+rng.IntN(200)), "the others go on without the %s", kind)
			}
			for _, n := range victims {
				require.NoError(t, n.Start())
			}
			require.NoError(t, c.WaitReady(ctx, 30*time.Second))
			require.NoError(t, w.WaitAcked(ctx, 100))
			g := w.LongestGap(since)
			gaps[kind] = append(gaps[kind], g)
			v := verify(t, c, "loop", flushed(t, w))
			table.Add(round, rule, kind, ids(victims), g, v.Acknowledged, v.Lost, v.Duplicated, v.Reordered, v.Verdict)
			require.Equal(t, "ok", v.Verdict, "%+v", v)
		}
		require.NoError(t, w.Stop(60*time.Second))
		require.Empty(t, w.Errors())
		v := verify(t, c, "loop", file)
		require.Equal(t, "ok", v.Verdict, "%+v", v)
		require.Equal(t, w.Acked(), v.Acknowledged)
		cancel()
		require.NoError(t, c.Close())
	}
	for _, kind := range []string{"leader", "follower", "controller", "all"} {
		fmt.Printf("gaps, %s killed: %s\n", kind, Spread(gaps[kind]))
	}
}

// pick gives the nodes to kill: of partition p its leader or a follower, the controller, or all.
func pick(t *testing.T, c *harness.Cluster, kind string, p int) []*harness.Node {
	t.Helper()
	switch kind {
	case "all":
		return c.Nodes
	case "controller":
		return []*harness.Node{c.Node(info(t, c).Controller)}
	}
	d := describe(t, c, "loop")[p]
	if kind == "leader" {
		return []*harness.Node{c.Node(d.Leader)}
	}
	for _, r := range d.Replicas {
		if r != d.Leader {
			return []*harness.Node{c.Node(r)}
		}
	}
	t.Fatalf("partition %d has no follower: %+v", p, d)
	return nil
}

// flushed writes what the writer noted so far to a copy and gives its name.
func flushed(t *testing.T, w *workload.Writer) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "so-far")
	require.NoError(t, w.SoFar(name))
	return name
}

func ids(nodes []*harness.Node) []int {
	var out []int
	for _, n := range nodes {
		out = append(out, n.ID)
	}
	return out
}
