package sim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/partition"
	"cordwood/logstore/record"
)

// TestS28_ARetryThatTheNewLeaderHasWaitsForItsCommit
func TestS28_ARetryThatTheNewLeaderHasWaitsForItsCommit(t *testing.T) {
	byRule(t, Setup{}, func(t *testing.T, w *World) {
		committed(t, w, 2)
		s := w.putAgain(A)
		w.round(B)
		require.False(t, s.done)
		w.kill(A)
		failover(t, w, B, B, C)
		end := w.end(B)
		again := w.putAgain(B)
		require.Equal(t, s.names, again.names)
		require.False(t, again.done, "it is on one replica")
		require.Equal(t, end, w.end(B), "it is there already")
		w.round(C)
		require.False(t, again.done, "C has not told")
		w.sync(C)
		require.True(t, again.acked())
		require.EqualValues(t, 2, again.answer.BaseOffset)
		next := w.putAgain(B)
		w.sync(C)
		require.True(t, next.acked())
	})
}

// TestS29_ARetryThatTheNewLeaderLacksIsAppendedOnce, and the old leader forgets the producer's batch with its record.
func TestS29_ARetryThatTheNewLeaderLacksIsAppendedOnce(t *testing.T) {
	byBoth(t, Setup{}, func(t *testing.T, w *World) {
		first := w.putAgain(A)
		w.sync(B, C)
		require.True(t, first.acked())
		s := w.putAgain(A)
		w.cut(A, controller)
		failover(t, w, B, B, C)
		again := w.putAgain(B)
		require.Equal(t, s.names, again.names)
		w.sync(C)
		require.True(t, again.acked())
		w.join(A)
		w.in(A)
		w.learn()
		w.sync(A)
		w.settle()
		require.Equal(t, w.names(B), w.names(A))
		require.Equal(t, append(first.names, s.names...), w.names(A))
		w.news() // A is in sync again
		w.learn()
		w.sync(A, C)
		moveTo(t, w, A, A, B, C)
		next := w.putAgain(A)
		w.sync(B, C)
		require.NotErrorIs(t, next.answer.Err, record.ErrOutOfOrder)
		require.True(t, next.acked())
	})
}

// TestS40_AFollowerServesNoConsumer: nobody reads what may be cut, and an offset that is ahead of a node resets nobody.
func TestS40_AFollowerServesNoConsumer(t *testing.T) {
	byRule(t, Setup{}, func(t *testing.T, w *World) {
		committed(t, w, 3)
		refused := func(id int32, want error) {
			t.Helper()
			_, err := w.consume(id)
			require.ErrorIs(t, err, want)
			_, err = w.latest(id)
			require.ErrorIs(t, err, want)
		}
		refused(B, partition.ErrNotLeader)
		w.cut(A, B)
		w.cut(A, C)
		w.write(A, 2) // a tail that goes
		w.cut(A, controller)
		failover(t, w, B, B, C)
		w.join(A)
		w.learn()
		refused(A, partition.ErrNotLeader)
		w.round(A) // cuts
		require.EqualValues(t, 3, w.end(A))
		refused(A, partition.ErrNotLeader)
		w.power(C)
		w.boot(C)
		require.False(t, w.trusted(C))
		refused(C, partition.ErrNotLeader)
	})
}
