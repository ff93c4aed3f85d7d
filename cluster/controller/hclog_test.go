package controller

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

func TestRaftsLogIsReadableAndKeepsDailyLifeQuiet(t *testing.T) {
	var out bytes.Buffer
	l := newRaftLog(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})))
	l.Named("net").Error("failed to heartbeat to", "peer", raft.Server{ID: "1.a", Address: "n1:1/a"}, "backoff", 3)
	require.Contains(t, out.String(), `"level":"INFO"`)
	require.Contains(t, out.String(), `raft.net: failed to heartbeat to`)
	require.Contains(t, out.String(), `"peer":"{Voter 1.a n1:1/a}"`)
	out.Reset()
	l.Error("snapshot lost", "err", raft.ErrNothingNewToSnapshot)
	require.Contains(t, out.String(), `"level":"ERROR"`)
	out.Reset()
	l.Info("failed to contact", "server-id", "2", "time", 3)
	require.Equal(t, 1, strings.Count(out.String(), `"time":`), "a name is there once")
	require.Contains(t, out.String(), `"raft.time":3`)
	out.Reset()
	l.Debug("not shown")
	require.Empty(t, out.String())
	require.True(t, l.IsInfo())
	require.False(t, l.IsDebug())
}
