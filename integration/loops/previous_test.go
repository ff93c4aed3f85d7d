//go:build integration

package loops

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/integration/harness"
	"cordwood/integration/workload"
)

// TestThePreviousVersionAndThisOneMakeOneCluster starts three nodes of the version that integration/previous names,
// replaces them one after another by this one under load, and then goes back, which is possible until the metadata level
// is raised. On the way each version is the controller beside the other.
func TestThePreviousVersionAndThisOneMakeOneCluster(t *testing.T) {
	old, now := buildPrevious(t), *binary
	table := NewTable("from", "to", "node", "controller before", "controller after", "acknowledged")
	defer table.Print(os.Stdout)
	c := start(t, 3, harness.Options{Binary: old})
	topic(t, c, "loop", 3)
	file := filepath.Join(t.TempDir(), "acked")
	w, err := workload.StartWriter(workload.WriterOptions{Seeds: c.Bootstrap(), Topic: "loop", Tag: "mixed", File: file, Rate: 300, Size: 200})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for _, turn := range []struct{ from, to, binary string }{{"previous", "this", now}, {"this", "previous", old}} {
		for _, n := range c.Nodes {
			inSync(t, c, "loop")
			before := info(t, c).Controller
			require.NoError(t, n.Stop(30*time.Second))
			n.Use(turn.binary)
			require.NoError(t, n.Start())
			require.NoError(t, n.WaitReady(ctx))
			require.NoError(t, w.WaitAcked(ctx, 100))
			inSync(t, c, "loop")
			table.Add(turn.from, turn.to, n.ID, before, info(t, c).Controller, w.Acked())
		}
	}
	require.NoError(t, w.Stop(30*time.Second))
	require.Empty(t, w.Errors())
	v := verify(t, c, "loop", file)
	require.Equal(t, "ok", v.Verdict, "%+v", v)
}

// buildPrevious builds the binary of the commit that integration/previous names, out of this clone's history.
func buildPrevious(t *testing.T) string {
	t.Helper()
	name, err := os.ReadFile("../previous")
	require.NoError(t, err)
	commit := strings.TrimSpace(string(name))
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir := t.TempDir()
	archive := exec.CommandContext(t.Context(), "bash", "-c", `set -euo pipefail; git -C "$1" archive "$2" | tar -x -C "$3"`, "archive", root, commit, dir)
	out, err := archive.CombinedOutput()
	require.NoError(t, err, "the commit %s of integration/previous: %s", commit, out)
	bin := filepath.Join(dir, "bin", "cordwood")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version=v0.1.0+"+commit[:12], "-o", bin, "./cmd/cordwood")
	build.Dir = dir
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-tags=hashicorpmetrics")
	out, err = build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return bin
}
