package broker

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestANodeIsSureOnlyWhileNobodyCanHaveFencedIt and while it knows what the controller knew.
func TestANodeIsSureOnlyWhileNobodyCanHaveFencedIt(t *testing.T) {
	s := newSession(nil, time.Second, nil, slog.New(slog.DiscardHandler))
	s.begun = time.Now().Add(-time.Hour)
	at := func(ago time.Duration) int64 { return int64(time.Since(s.begun) - ago) }
	require.False(t, s.sure(time.Minute), "no heartbeat was answered")
	s.sent.Store(at(30 * time.Second))
	require.False(t, s.sure(time.Minute), "it is fenced")
	s.fenced.Store(false)
	require.True(t, s.sure(time.Minute))
	s.known.Store(7)
	require.False(t, s.sure(time.Minute), "it has not replayed what the controller knows")
	s.index.Store(7)
	require.True(t, s.sure(time.Minute))
	s.sent.Store(at(2 * time.Minute))
	require.False(t, s.sure(time.Minute), "the session may be over")
}
