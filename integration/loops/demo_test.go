//go:build integration

package loops

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestADemoThatWasKilledLeavesNothingBehind kills a demo with SIGKILL while its nodes run; the next one removes what it
// left, and its own.
func TestADemoThatWasKilledLeavesNothingBehind(t *testing.T) {
	tmp := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	first := exec.CommandContext(ctx, *binary, "demo")
	first.Env = append(os.Environ(), "TMPDIR="+tmp)
	out, err := first.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, first.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.Contains(lines.Text(), "topic demo") {
	}
	require.NoError(t, lines.Err())
	require.NoError(t, first.Process.Kill())
	_, err = io.Copy(io.Discard, out) // ends with the last child that writes there
	require.NoError(t, err)
	require.Error(t, first.Wait())
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Len(t, left, 1)

	second := exec.CommandContext(ctx, *binary, "demo")
	second.Env = first.Env
	said, err := second.CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Contains(t, string(said), left[0].Name()+", left by a demo that was killed")
	require.Contains(t, string(said), "verdict: ok")
	left, err = os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestACommandOnALeashEndsWithItsParent holds the pipe that a parent would hold.
func TestACommandOnALeashEndsWithItsParent(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	child, leash, err := os.Pipe()
	require.NoError(t, err)
	defer leash.Close()
	cmd := exec.CommandContext(ctx, *binary, "-b", "127.0.0.1:1", "--timeout", "50s", "cluster", "info", "--leash", "3")
	cmd.ExtraFiles = []*os.File{child}
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	child.Close()
	leash.Close()
	said, err := io.ReadAll(stderr)
	require.NoError(t, err)
	require.Error(t, cmd.Wait())
	require.NoError(t, ctx.Err())
	require.Contains(t, string(said), "the parent process has gone")
	require.Equal(t, 1, cmd.ProcessState.ExitCode())
}
