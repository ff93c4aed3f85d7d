package replica

import (
	"strings"
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

// TestAnOpenWaitFailsWithItsEpoch is the zombie's end: what it appended is not acknowledged, whoever leads next.
func TestAnOpenWaitFailsWithItsEpoch(t *testing.T) {
	w := newWorld(t, 1, 2)
	w.create(2, 1, 2)
	w.replayAll()
	a := w.nodes[1]
	open := a.produce(partition.AcksAll, newBatch(1))
	require.False(t, isAnswered(open))
	w.fence(1)
	w.unfence(1)
	require.False(t, isAnswered(open), "it does not know yet")
	a.replay(100)
	require.ErrorIs(t, mustAnswer(t, open).Err, partition.ErrNotLeader)
	require.ErrorIs(t, mustAnswer(t, a.produce(1, newBatch(2))).Err, partition.ErrNotLeader)
}

// TestADamagedReplicaIsRepairedFromItsLeader: out of the ISR before it is opened, whole again after.
func TestADamagedReplicaIsRepairedFromItsLeader(t *testing.T) {
	w := newWorld(t, 1, 2)
	w.create(1, 1, 2)
	w.replayAll()
	a, b := w.nodes[1], w.nodes[2]
	for i := range 30 { // several segments
		a.produce(1, newBatch(i))
	}
	for range 60 {
		b.round(1)
		w.replayAll()
	}
	require.EqualValues(t, 30, b.part().log.EndOffset())
	name := segments(t, b)[0]
	b.crash(vfs.CrashKeep, 1)
	f, err := b.disk.OpenReadWrite(name)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte{0xff}, 100)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	b.start()
	w.replayAll()
	p := w.head()
	require.NotContains(t, p.ISR, int32(2))
	w.unfence(2)
	w.replayAll()
	for range 60 {
		b.round(1)
		a.tick()
		w.replayAll()
	}
	_, la := lines(t, a.part().log)
	_, lb := lines(t, b.part().log)
	require.Equal(t, la, lb)
	require.ElementsMatch(t, []int32{1, 2}, w.head().ISR)
	require.Equal(t, b.be, w.head().Member(2).Cert, "certified again")
}

func segments(t testing.TB, n *member) (names []string) {
	t.Helper()
	es, err := n.disk.ReadDir("/data/t-0")
	require.NoError(t, err)
	for _, e := range es {
		if strings.HasSuffix(e.Name(), ".log") {
			names = append(names, "/data/t-0/"+e.Name())
		}
	}
	return names
}
