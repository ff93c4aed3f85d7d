//go:build integration

package loops

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/integration/harness"
	"cordwood/logstore/vfs"
)

// TestALeaderWhoseDiskIsFullIsRelieved fills the disk of the node that leads a topic of each rule. Records are refused there
// and nowhere else: within seconds another node leads, the same producers go on without an error, and once there is room
// again the node catches up and leads as before.
func TestALeaderWhoseDiskIsFullIsRelieved(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	c := start(t, 3, harness.Options{ClusterSettings: []string{shortSession}})
	full := c.Node(1)
	names := []string{"i", "q"}
	for _, name := range names {
		rule := "isr"
		if name == "q" {
			rule = "quorum"
		}
		assigned(t, c, name, [][]int{{1, 2, 3}}, "commit.rule="+rule)
		inSync(t, c, name)
	}
	leader := func(name string, is func(id int) bool) {
		seen(t, c.Node(3), name, 30*time.Second, "another leader", func(v viewed) bool { return is(v.leader) })
	}
	leader("i", func(id int) bool { return id == full.ID })
	leader("q", func(id int) bool { return id == full.ID })
	i, q := write(t, c, "i", "a", 200), write(t, c, "q", "a", 200)
	require.NoError(t, i.WaitAcked(ctx, 200))
	require.NoError(t, q.WaitAcked(ctx, 200))

	rules := vfs.RulesFile(full.DataDir())
	require.NoError(t, os.WriteFile(rules, []byte(`[{"op":"write","path":"*.log","error":"ENOSPC","short":10},{"op":"write","path":"cordwood-reserve","error":"ENOSPC"}]`), 0o644))
	began := time.Now()
	for _, name := range names {
		leader(name, func(id int) bool { return id > 0 && id != full.ID })
	}
	moved := time.Since(began)
	require.NoError(t, i.WaitAcked(ctx, i.Acked()+200))
	require.NoError(t, q.WaitAcked(ctx, q.Acked()+200))

	require.NoError(t, os.WriteFile(rules, []byte(`[]`), 0o644))
	for _, name := range names {
		leader(name, func(id int) bool { return id == full.ID })
		inSync(t, c, name)
	}
	t.Logf("other nodes lead %s after the disk was full; the longest pause of a producer: isr %s, quorum %s", moved.Round(time.Millisecond),
		i.LongestGap(began).Round(time.Millisecond), q.LongestGap(began).Round(time.Millisecond))
	for _, w := range []struct {
		topic string
		v     verdict
	}{{"i", stopped(t, c, "i", i)}, {"q", stopped(t, c, "q", q)}} {
		require.Equal(t, "ok", w.v.Verdict, "%s: %+v", w.topic, w.v)
		require.Zero(t, w.v.Lost+w.v.Duplicated)
	}
}
