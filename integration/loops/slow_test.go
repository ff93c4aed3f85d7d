//go:build integration && linux

package loops

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/integration/harness"
	"cordwood/integration/workload"
)

var slowFor = flag.Duration("slow-for", time.Minute, "how long a slow node must live without being fenced")

const (
	slowNode  = 3
	slowDelay = 200 * time.Millisecond // each way
	slowLoss  = 0.2                    // of its datagrams
)

// TestASlowNodeIsNotFenced puts a node behind a slow road: all that it sends to the others and they to it comes 200 ms
// late, and a fifth of its datagrams never. It stays a member under load; metadata leadership may move.
func TestASlowNodeIsNotFenced(t *testing.T) {
	random(t)
	table := NewTable("slow for", "connections", "bytes late", "datagrams", "dropped", "fences", "controllers", "acknowledged", "verdict")
	defer table.Print(os.Stdout)

	c := prepare(t, 3, harness.Options{Edges: &harness.EdgeOptions{Seed: *seed}})
	for _, n := range c.Nodes {
		if n.ID == slowNode {
			continue
		}
		for _, edge := range [][2]int{{slowNode, n.ID}, {n.ID, slowNode}} {
			require.NoError(t, c.Edges.Set(edge[0], edge[1], harness.Policy{Delay: slowDelay, Loss: slowLoss}))
		}
	}
	require.NoError(t, c.Start())
	require.NoError(t, c.WaitReady(t.Context(), 60*time.Second))
	topic(t, c, "loop", 3)
	inSync(t, c, "loop")

	mark := markLogs(t, c)
	file := filepath.Join(t.TempDir(), "acked")
	w, err := workload.StartWriter(workload.WriterOptions{Seeds: c.Bootstrap(), Topic: "loop", Tag: "slow", File: file, Rate: 100, Size: 200})
	require.NoError(t, err)
	began := time.Now()
	fences, controllers := 0, 1
	eventually(t, *slowFor+10*time.Second, "the time of the slow road", func() bool {
		fences, controllers = 0, 1
		for _, l := range logsSince(t, c, mark) {
			if l.Kind == "BrokerFenced" {
				fences++
			}
			if l.Msg == "this node is the controller" {
				controllers++
			}
		}
		return fences > 0 || time.Since(began) > *slowFor
	})
	took := time.Since(began)
	require.NoError(t, w.Stop(30*time.Second))
	var n harness.EdgeState
	for _, s := range c.Edges.State() {
		if s.Delay > 0 {
			n.Conns, n.Bytes, n.Datagrams, n.Dropped = n.Conns+s.Conns, n.Bytes+s.Bytes, n.Datagrams+s.Datagrams, n.Dropped+s.Dropped
		}
	}
	v := verify(t, c, "loop", file)
	table.Add(took, n.Conns, n.Bytes, n.Datagrams, n.Dropped, fences, controllers, v.Acknowledged, v.Verdict)
	require.Zero(t, fences, "nobody is fenced for a slow road")
	require.Positive(t, n.Conns)
	require.Positive(t, n.Dropped)
	require.Equal(t, "ok", v.Verdict, "%+v", v)
	require.Empty(t, w.Errors())
	fmt.Printf("no fence in %v behind a road that is %v late each way and loses %d of %d datagrams\n", took.Round(time.Second), slowDelay, n.Dropped, n.Datagrams)
}
