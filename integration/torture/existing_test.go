package torture

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/integration/nemesis"
)

func TestCommandsOfTheUserAreRunForTheNodeAndUndoneAtTheEnd(t *testing.T) {
	dir := t.TempDir()
	gate := filepath.Join(dir, "gate")
	e := NewExisting([]string{"127.0.0.1:1"}, Commands{
		Kill:  "echo kill {id} >> " + dir + "/log",
		Start: "until [ -e " + gate + " ]; do sleep 0.01; done; echo start {id} >> " + dir + "/log",
		Pause: "echo pause {id} >> " + dir + "/log; exit 3",
	}, true)
	e.address = map[int]string{1: "127.0.0.1:1", 2: "127.0.0.1:1", 3: "127.0.0.1:1"}
	n := e.Nemesis()
	ctx := context.Background()
	require.NoError(t, n.Kill(ctx, 2))
	require.NoError(t, n.Kill(ctx, 2), "it is down")
	require.False(t, n.Running(2))
	require.ErrorContains(t, n.Pause(ctx, 1), "--pause-cmd for node 1: exit status 3")
	require.ErrorIs(t, n.Resume(ctx, 1), nemesis.ErrCannot, "there is no such command, and node 1 may stand still")
	require.NoError(t, n.Start(ctx, 2), "it does not wait: others may have to start before it serves")
	require.NoError(t, n.Kill(ctx, 3))
	require.NoError(t, os.WriteFile(gate, nil, 0o644))
	e.commands.Resume = "echo resume {id} >> " + dir + "/log"
	require.NoError(t, e.Close())
	b, err := os.ReadFile(filepath.Join(dir, "log"))
	require.NoError(t, err)
	for _, line := range []string{"kill 2", "pause 1", "start 2", "kill 3", "start 3", "resume 1"} {
		require.Contains(t, string(b), line+"\n")
	}
	require.True(t, n.Running(3))
}

func TestACommandThatFailsLeavesItsNodeDown(t *testing.T) {
	e := NewExisting([]string{"127.0.0.1:1"}, Commands{Kill: "true", Start: "echo no such disk; exit 1"}, true)
	e.address = map[int]string{1: "127.0.0.1:1"}
	n := e.Nemesis()
	require.NoError(t, n.Kill(t.Context(), 1))
	require.NoError(t, n.Start(t.Context(), 1))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.ErrorContains(t, n.WaitReady(ctx, 1), "--start-cmd for node 1: exit status 1: no such disk")
	require.False(t, n.Running(1))
}

func TestFaultsThatNobodyGaveACommandForAreRefused(t *testing.T) {
	e := NewExisting(nil, Commands{Kill: "x", Start: "y", Pause: "z"}, true)
	require.NoError(t, e.Able("kill"))
	require.ErrorContains(t, e.Able("pause"), "pause needs --resume-cmd")
	require.ErrorIs(t, e.Able("bitflip"), nemesis.ErrCannot)
}
