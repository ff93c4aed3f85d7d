package replica

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

// flip turns a bit of a segment of n.
func flip(t *testing.T, n *member, segment int, at int64) {
	f, err := n.disk.OpenReadWrite(segments(t, n)[segment])
	require.NoError(t, err)
	b := []byte{0}
	_, err = f.ReadAt(b, at)
	require.NoError(t, err)
	b[0] ^= 0x10
	_, err = f.WriteAt(b, at)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// TestALeaderFindsItsOwnRotWhenAFollowerCannotGetOn: the follower refuses the batch and ends the connection; in the next
// session the leader reads through what it serves, finds it, and the replica that is whole leads.
func TestALeaderFindsItsOwnRotWhenAFollowerCannotGetOn(t *testing.T) {
	w := newWorld(t, 1, 2, 3)
	w.create(2, 1, 2, 3)
	w.replayAll()
	a, b, c := w.nodes[1], w.nodes[2], w.nodes[3]
	for i := range 3 {
		a.produce(1, newBatch(i))
	}
	for range 8 {
		b.round(1)
	}
	require.EqualValues(t, 3, b.part().log.EndOffset())
	flip(t, a, 0, 80)
	for range 8 {
		c.round(1)
		w.now = w.now.Add(retryMax)
		w.replayAll()
	}
	require.EqualValues(t, -1, w.head().Member(1).Cert, "node 1 is known to be damaged")
	require.Equal(t, int32(2), w.head().Leader)
	for range 60 {
		a.round(2)
		c.round(2)
		w.now = w.now.Add(retryMax)
		b.tick()
		w.replayAll()
	}
	_, lb := lines(t, b.part().log)
	_, la := lines(t, a.part().log)
	_, lc := lines(t, c.part().log)
	require.Equal(t, lb, la)
	require.Equal(t, lb, lc)
	require.ElementsMatch(t, []int32{1, 2, 3}, w.head().ISR)
}

// TestALastDamagedReplicaIsLedFromWhatIsSoundOfIt: nobody else has anything, so that the wait for all replicas would have
// no end. The bytes stay until then, and the election is flagged.
func TestALastDamagedReplicaIsLedFromWhatIsSoundOfIt(t *testing.T) {
	w := newWorld(t, 1)
	id := w.create(1, 1)
	w.replayAll()
	a := w.nodes[1]
	for i := range 5 {
		a.produce(1, newBatch(i))
	}
	last := a.part().log.Size() - 10
	flip(t, a, 0, last)
	a.m.OnDamage(a.part().log, "a scrub found it")
	a.heartbeat()
	require.Equal(t, metadata.OfflineUnsafe, w.st.Image().Safety(w.head()))
	require.EqualValues(t, 5, a.part().log.EndOffset(), "no record shows the damage yet: nothing goes")
	w.replayAll()
	reports := a.m.Reports([]record.PartitionID{id})
	require.Len(t, reports, 1)
	require.EqualValues(t, 4, reports[0].End)
	r := w.do(&metadata.UnsafeElect{Elections: []metadata.UnsafeElection{{Partition: id, Epoch: w.head().LeaderEpoch, Leader: w.epoch(1),
		Reports: []metadata.ReplicaReport{{Broker: w.epoch(1), LastEpoch: reports[0].LastEpoch, End: reports[0].End, HW: reports[0].HW}}}}})
	require.NoError(t, r.Items[0])
	w.replayAll()
	require.NoError(t, mustAnswer(t, a.produce(1, newBatch(9))).Err)
}

// TestDamageIsToldUntilARecordShowsIt and no longer: a replica that waits for a leader to repair it from would raise the
// partition epoch with every heartbeat.
func TestDamageIsToldUntilARecordShowsIt(t *testing.T) {
	w := newWorld(t, 1, 2)
	w.create(1, 1, 2)
	w.replayAll()
	a, b := w.nodes[1], w.nodes[2]
	w.fence(2) // leaves an ISR of one
	w.replayAll()
	b.m.OnDamage(b.part().log, "a scrub found it")
	require.Len(t, b.m.DrainSession().Damaged, 1)
	require.Len(t, b.m.DrainSession().Damaged, 1, "told again: the request may have been lost")
	b.heartbeat()
	w.fence(1)
	require.NotNil(t, a)
	b.replay(100)
	require.Empty(t, b.m.DrainSession().Damaged)
	require.Equal(t, int32(-1), w.head().Leader, "it still waits for a leader")
}

// TestAReadThatEndsInsideABatchIsSoundUpToThere: a follower that is more than one answer behind gets such reads, and a log
// that is longer than one is read through in several.
func TestAReadThatEndsInsideABatchIsSoundUpToThere(t *testing.T) {
	w := newWorld(t, 1)
	w.create(1, 1)
	w.replayAll()
	a := w.nodes[1]
	for i := range 5 {
		a.produce(1, newBatch(i))
	}
	p := a.part()
	one, err := p.log.Read(0, 1, 1, true)
	require.NoError(t, err)
	release(one.Spans)
	for cut := one.Bytes + 1; cut < p.log.Size(); cut++ {
		info, err := p.log.Read(0, int32(cut), 5, true)
		require.NoError(t, err)
		end, err := p.sound(0, info.Spans)
		release(info.Spans)
		require.NoError(t, err, "a read of %d bytes", cut)
		require.Greater(t, end, int64(0))
	}
	require.EqualValues(t, 5, p.soundEnd())
	flip(t, a, 0, one.Bytes+70)
	info, err := p.log.Read(0, int32(p.log.Size())-1, 5, true)
	require.NoError(t, err)
	end, err := p.sound(0, info.Spans)
	release(info.Spans)
	require.ErrorIs(t, err, record.ErrCorruptBatch)
	require.EqualValues(t, 1, end)
	require.EqualValues(t, 1, p.soundEnd())
}

// TestASecondDamageIsToldThoughARecordShowsTheFirst: between the two it was filled again, and what the leader counted then
// must not certify a log that is emptied once more.
func TestASecondDamageIsToldThoughARecordShowsTheFirst(t *testing.T) {
	w := newWorld(t, 1, 2)
	w.create(1, 1, 2)
	w.replayAll()
	a, b := w.nodes[1], w.nodes[2]
	for i := range 3 {
		a.produce(1, newBatch(i))
	}
	for range 6 {
		b.round(1)
	}
	b.m.OnDamage(b.part().log, "a scrub found it")
	b.heartbeat()
	w.replayAll()
	for range 60 {
		if b.part().log.EndOffset() == 3 {
			break
		}
		w.now = w.now.Add(retryMax)
		b.round(1)
	}
	require.EqualValues(t, 3, b.part().log.EndOffset(), "filled again")
	x := b.ask(1)
	req := requestOf(x.req)
	req.MaxWait = 0
	a.m.Fetch(context.Background(), req).Wait(context.Background())
	late := a.m.DrainSession().Certify
	require.Len(t, late, 1, "its leader is about to certify it")
	require.EqualValues(t, -1, w.head().Member(2).Cert)
	joined := w.head().Member(2).JoinPE

	b.m.OnDamage(b.part().log, "another scrub found more")
	require.Len(t, b.m.DrainSession().Damaged, 1)
	b.heartbeat()
	require.Greater(t, w.head().Member(2).JoinPE, joined)
	w.do(&metadata.Certify{Items: late})
	b.replay(100)
	require.EqualValues(t, 0, b.part().log.EndOffset())
	require.EqualValues(t, -1, w.head().Member(2).Cert, "its leader spoke of the log before the second damage")
}
