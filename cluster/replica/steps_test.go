package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/partition"
	"cordwood/logstore/vfs"
)

// TestTwoReplicasBySteps appends, fetches, crashes each replica in each way, truncates and converges, all in one
// goroutine: every step is a plain call.
func TestTwoReplicasBySteps(t *testing.T) {
	for name, mode := range map[string]vfs.CrashMode{"keep": vfs.CrashKeep, "lose": vfs.CrashLose, "tear": vfs.CrashTear} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 2)
			w.create(1, 1, 2)
			w.replayAll()
			a, b := w.nodes[1], w.nodes[2]
			first := a.produce(partition.AcksAll, newBatch(1, 2))
			_, done := first.answered()
			require.False(t, done, "one copy of two in-sync ones")
			for range 3 {
				b.round(1)
			}
			ans, done := first.answered()
			require.True(t, done)
			require.NoError(t, ans.Err)
			require.EqualValues(t, 0, ans.BaseOffset)
			b.round(1)
			require.EqualValues(t, 2, b.part().log.HighWatermark())

			// The leader writes on alone and dies; the follower leads, and the first one's tail has to go.
			a.produce(1, newBatch(3))
			a.produce(1, newBatch(4))
			w.fence(1)
			b.replay(100)
			require.Equal(t, partition.RoleLead, b.part().role)
			require.NoError(t, mustAnswer(t, b.produce(1, newBatch(5))).Err)
			a.crash(mode, 3)
			a.start()
			w.unfence(1)
			w.replayAll()
			for range 6 {
				a.round(2)
				w.replayAll()
			}
			sa, la := lines(t, a.part().log)
			sb, lb := lines(t, b.part().log)
			require.Equal(t, sb, sa)
			require.Equal(t, lb, la)
			require.Equal(t, []int{1, 2, 5}, names(la))
			require.ElementsMatch(t, []int32{1, 2}, w.head().ISR, "the follower joined again")

			// The follower crashes; it comes back in its place.
			require.False(t, isAnswered(b.produce(partition.AcksAll, newBatch(6))))
			a.round(2)
			a.crash(mode, 4)
			w.now = w.now.Add(time.Second)
			a.start()
			w.unfence(1)
			w.replayAll()
			for range 6 {
				a.round(2)
				w.replayAll()
			}
			_, la = lines(t, a.part().log)
			require.Equal(t, []int{1, 2, 5, 6}, names(la))
			require.EqualValues(t, 4, b.part().log.HighWatermark())
		})
	}
}

func mustAnswer(t testing.TB, pp *pendingProduce) partition.ProduceAnswer {
	t.Helper()
	a, ok := pp.answered()
	require.True(t, ok)
	return a
}

func isAnswered(pp *pendingProduce) bool { _, ok := pp.answered(); return ok }

func names(ls []line) (out []int) {
	for _, l := range ls {
		out = append(out, l.name)
	}
	return out
}
