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

// TestARollingRestartShowsNoErrorToClients stops each node in turn with SIGTERM, under load, and starts it again.
func TestARollingRestartShowsNoErrorToClients(t *testing.T) {
	table := NewTable("round", "node", "stopped in", "longest gap", "acknowledged", "verdict")
	defer table.Print(os.Stdout)
	var all []time.Duration
	c := start(t, 3, harness.Options{})
	topic(t, c, "loop", 6)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for round := range *rounds {
		file := filepath.Join(t.TempDir(), "acked")
		w, err := workload.StartWriter(workload.WriterOptions{Seeds: c.Bootstrap(), Topic: "loop", Tag: fmt.Sprintf("r%d", round), File: file, Rate: 500, Size: 200})
		require.NoError(t, err)
		require.NoError(t, w.WaitAcked(ctx, 100))
		for _, n := range c.Nodes {
			inSync(t, c, "loop")
			since := time.Now()
			require.NoError(t, n.Stop(30*time.Second))
			stopped := time.Since(since)
			require.NoError(t, w.WaitAcked(ctx, 200))
			require.NoError(t, n.Start())
			require.NoError(t, n.WaitReady(ctx))
			inSync(t, c, "loop")
			g := w.LongestGap(since)
			all = append(all, g)
			table.Add(round, n.ID, stopped, g, w.Acked(), "")
		}
		require.NoError(t, w.Stop(30*time.Second))
		require.Empty(t, w.Errors(), "no client error surfaces")
		v := verify(t, c, "loop", file)
		table.Add(round, "all", "", "", v.Acknowledged, v.Verdict)
		require.Equal(t, "ok", v.Verdict, "%+v", v)
	}
	fmt.Printf("gaps, rolling restart: %s\n", Spread(all))
}
