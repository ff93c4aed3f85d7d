package replica

import (
	"bytes"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/partition"
	"cordwood/logstore/record"
)

// damagedFollower is a world of two in-sync replicas, of which the second finds its own log broken while it follows.
func damagedFollower(t *testing.T) (w *world, a, b *member) {
	w = newWorld(t, 1, 2)
	w.create(1, 1, 2)
	w.replayAll()
	a, b = w.nodes[1], w.nodes[2]
	for i := range 30 { // several segments
		a.produce(1, newBatch(i))
	}
	for range 60 {
		b.round(1)
		w.replayAll()
	}
	require.ElementsMatch(t, []int32{1, 2}, w.head().ISR)
	f, err := b.disk.OpenReadWrite(segments(t, b)[0])
	require.NoError(t, err)
	_, err = f.WriteAt(bytes.Repeat([]byte{0xff}, 300), 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	// As a reader of a leader would that was deposed meanwhile.
	_, err = b.part().log.Read(1, 100, 30, true)
	require.Error(t, err)
	_, broken := b.part().log.Damaged()
	require.True(t, broken)
	return w, a, b
}

// TestADamagedFollowersOldPositionIsForgotten: what it fetched before says nothing of what its log holds now, so that it
// is neither in sync nor certified by it.
func TestADamagedFollowersOldPositionIsForgotten(t *testing.T) {
	w, a, b := damagedFollower(t)
	b.heartbeat()
	require.Equal(t, []int32{1}, w.head().ISR)
	a.replay(100)
	a.tick()
	require.Equal(t, []int32{1}, w.head().ISR, "the leader knows of the damage")
	require.EqualValues(t, -1, w.head().Member(2).Cert)
	b.m.fetchers[1].add(b.part()) // as after a broken connection; it does not know the record yet
	b.round(1)
	a.tick()
	a.replay(100)
	require.Equal(t, []int32{1}, w.head().ISR, "a damaged log stands nowhere")
	require.EqualValues(t, -1, w.head().Member(2).Cert)

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
	require.Equal(t, b.be, w.head().Member(2).Cert)
}

// TestARepairedFollowerIsAskedWhereItStands: it is empty again before the leader has heard of its damage, which takes no
// word of it until then. Without one from the leader it would wait there for records, out of the ISR.
func TestARepairedFollowerIsAskedWhereItStands(t *testing.T) {
	w, a, b := damagedFollower(t)
	b.heartbeat()
	b.replay(100)
	for range 60 {
		b.round(1)
	}
	require.EqualValues(t, 0, b.part().log.EndOffset())
	w.replayAll()
	for range 60 {
		b.round(1)
		w.now = w.now.Add(proposeRetry + retryMax)
		a.tick()
		w.replayAll()
	}
	require.ElementsMatch(t, []int32{1, 2}, w.head().ISR)
	require.Equal(t, b.be, w.head().Member(2).Cert)
	pp := a.produce(partition.AcksAll, newBatch(99))
	for range 4 {
		b.round(1)
	}
	require.NoError(t, mustAnswer(t, pp).Err)
}

// TestAReadWithoutAFreeFileHandleEndsNoLeader: the next one may have one. A damaged log ends it.
func TestAReadWithoutAFreeFileHandleEndsNoLeader(t *testing.T) {
	w := newWorld(t, 1)
	w.create(1, 1)
	w.replayAll()
	a := w.nodes[1]
	a.part().readFailed(fmt.Errorf("open segment: %w", syscall.EMFILE))
	require.NoError(t, mustAnswer(t, a.produce(1, newBatch(1))).Err)
	a.part().readFailed(fmt.Errorf("read: %w", record.ErrDamaged))
	require.ErrorIs(t, mustAnswer(t, a.produce(1, newBatch(2))).Err, record.ErrDamaged)
}
