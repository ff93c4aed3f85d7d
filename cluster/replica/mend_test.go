package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

// settle lets time pass until what was refused for now is tried again.
func (n *member) settle() {
	n.w.now = n.w.now.Add(settleMax + 2*time.Second)
	n.dir.Tick(n.w.now)
	n.m.resettle()
	n.heartbeat()
}

// apply acts on all metadata and gives the error that replay takes for a failed test.
func (n *member) apply() error {
	to := len(n.w.images) - 1
	d := metadata.Delta{Old: n.w.images[n.applied], New: n.w.images[to], Full: true}
	n.applied = to
	return n.m.Apply(d.New, d)
}

func (n *member) rule(t *testing.T, r vfs.Rule) {
	t.Helper()
	require.NoError(t, n.fault.SetRules(r))
}

// TestAReplicaThatCouldNotBeMadeIsMadeLater: without a further record, for lack of room and of file handles.
func TestAReplicaThatCouldNotBeMadeIsMadeLater(t *testing.T) {
	for _, code := range []string{"ENOSPC", "EMFILE"} {
		w := newWorld(t, 1, 2)
		a, b := w.nodes[1], w.nodes[2]
		b.rule(t, vfs.Rule{Op: vfs.OpCreate, Path: "*.log", Error: code})
		w.create(1, 1, 2)
		a.replay(100)
		require.ErrorIs(t, b.apply(), record.ErrDirFull)
		require.Nil(t, b.part())
		b.settle()
		require.Nil(t, b.part(), "still refused")
		require.NoError(t, b.fault.SetRules())
		b.settle()
		require.NotNil(t, b.part(), code)
		a.produce(1, newBatch(1))
		for range 3 {
			b.round(1)
		}
		require.EqualValues(t, 1, b.part().log.EndOffset())
		require.Empty(t, b.m.duty.due(w.now.Add(time.Hour)), "settled")
	}
}

// TestAnOfficeWhoseMarkerFoundNoRoomIsTakenLater: it leads only with its marker in the log.
func TestAnOfficeWhoseMarkerFoundNoRoomIsTakenLater(t *testing.T) {
	w := newWorld(t, 1, 2, 3)
	w.createAs(metadata.RuleQuorum, metadata.DurabilityMemory, 2, 1, 2, 3)
	w.replayAll()
	a, b, c := w.nodes[1], w.nodes[2], w.nodes[3]
	a.produce(1, newBatch(1))
	b.round(1) // it has the record and does not know that a majority does
	require.EqualValues(t, 1, b.part().log.EndOffset())
	w.fence(1)
	b.replay(100)
	c.replay(100)
	ok, why := w.electReported()
	require.True(t, ok, why)
	require.EqualValues(t, 2, w.head().Leader)
	b.rule(t, vfs.Rule{Op: vfs.OpWrite, Path: "*.log", Error: "ENOSPC"})
	require.ErrorIs(t, b.apply(), record.ErrDirFull)
	require.Zero(t, b.m.Leading())
	require.ErrorIs(t, mustAnswer(t, b.produce(1, newBatch(2))).Err, partition.ErrNotLeader)
	require.NoError(t, b.fault.SetRules())
	b.settle()
	require.Equal(t, 1, b.m.Leading())
	_, ls := lines(t, b.part().log)
	require.Equal(t, []int{1, marker}, names(ls))
	require.Equal(t, []line{{ls[0].epoch, 1}, {w.head().LeaderEpoch, marker}}, ls)
}

// TestAMarkerOfAChangeIsAppendedLaterToo: nothing of the change is proven before it.
func TestAMarkerOfAChangeIsAppendedLaterToo(t *testing.T) {
	w := newWorld(t, 1, 2, 3)
	w.create(2, 1, 2, 3)
	w.replayAll()
	a, b, c := w.nodes[1], w.nodes[2], w.nodes[3]
	for _, n := range []*member{b, c} {
		n.round(1)
		n.round(1)
	}
	r := w.do(&metadata.AlterTopicConfigs{Topics: []metadata.TopicConfigChange{{Topic: w.topic, Rule: metadata.RuleQuorum}}})
	require.NoError(t, r.Items[0])
	a.rule(t, vfs.Rule{Op: vfs.OpWrite, Path: "*.log", Error: "ENOSPC"})
	require.ErrorIs(t, a.apply(), record.ErrDirFull)
	require.Equal(t, 1, a.m.Leading(), "it leads on")
	require.NoError(t, a.fault.SetRules())
	a.settle()
	_, ls := lines(t, a.part().log)
	require.Equal(t, []int{marker}, names(ls))
	w.replayAll()
	for range 3 {
		b.round(1)
		c.round(1)
		w.replayAll()
	}
	require.Equal(t, metadata.RuleQuorum, w.head().Rule, "finished")
}

// TestDamageMetWhileCuttingIsTheReplicasOwn: not taken for the leader's fault, which would be tried again for ever.
func TestDamageMetWhileCuttingIsTheReplicasOwn(t *testing.T) {
	w := newWorld(t, 1, 2)
	w.create(1, 1, 2)
	w.replayAll()
	a, b := w.nodes[1], w.nodes[2]
	a.produce(1, newBatch(1))
	for range 3 {
		b.round(1)
	}
	a.produce(1, newBatch(2)) // on the first alone, to be cut
	a.produce(1, newBatch(3))
	w.fence(1)
	b.replay(100)
	b.produce(1, newBatch(4))
	w.unfence(1)
	w.replayAll()
	f, err := a.disk.OpenReadWrite(segments(t, a)[0])
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	_, err = f.WriteAt(make([]byte, size), 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	for range 3 {
		a.round(2)
	}
	require.ErrorIs(t, a.part().failed, record.ErrCorruptBatch)
	require.Contains(t, a.m.session.damaged, w.head().ID, "told to the controller")
	for range 12 {
		a.heartbeat()
		w.replayAll()
		a.round(2)
		b.tick()
	}
	_, la := lines(t, a.part().log)
	_, lb := lines(t, b.part().log)
	require.Equal(t, lb, la)
	require.Equal(t, []int{1, 4}, names(la))
}

// TestALogStartThatWasNotTakenOverIsToldAgain, also when records came with it.
func TestALogStartThatWasNotTakenOverIsToldAgain(t *testing.T) {
	w := newWorld(t, 1, 2)
	w.create(1, 1, 2)
	w.replayAll()
	a, b := w.nodes[1], w.nodes[2]
	a.produce(1, newBatch(1))
	for range 3 {
		b.round(1)
	}
	a.produce(1, newBatch(2))
	_, err := a.part().raiseStart(1)
	require.NoError(t, err)
	b.rule(t, vfs.Rule{Op: vfs.OpCreate, Path: "cordwood-state*", Error: "EMFILE", Times: 1})
	b.round(1)
	require.EqualValues(t, 2, b.part().log.EndOffset())
	require.EqualValues(t, 0, b.part().log.StartOffset())
	for range 3 {
		w.now = w.now.Add(time.Second)
		b.round(1)
	}
	require.EqualValues(t, 1, b.part().log.StartOffset())
}

// TestBatchesThatWaitForTheDiskShareOneFsync, at the leader and at a follower.
func TestBatchesThatWaitForTheDiskShareOneFsync(t *testing.T) {
	_, a, b, _ := disk3(t, metadata.RuleQuorum)
	var pending []*pendingProduce
	for i := range 5 {
		pending = append(pending, a.produce(partition.AcksAll, newBatch(i)))
	}
	b.round(1)
	b.round(1)
	for _, n := range []*member{a, b} {
		before := n.fault.Calls(vfs.OpSync)
		n.flush()
		require.EqualValues(t, 1, n.fault.Calls(vfs.OpSync)-before, "node %d", n.id)
	}
	a.hear(b.ack(1))
	for _, pp := range pending {
		require.NoError(t, mustAnswer(t, pp).Err)
	}
}

// TestARecordAloneTellsALogThatItsCopyCountsFromDisk: no change of the topic comes with it where a change is finished.
func TestARecordAloneTellsALogThatItsCopyCountsFromDisk(t *testing.T) {
	w := newWorld(t, 1, 2)
	w.create(1, 1, 2)
	w.replayAll()
	p := w.nodes[2].part()
	require.False(t, p.log.Config().Disk)
	for _, d := range []metadata.Durability{metadata.DurabilityMemoryToDisk, metadata.DurabilityDisk, metadata.DurabilityMemory} {
		rec := *w.head()
		rec.Durability = d
		_, err := p.View(&rec)
		require.NoError(t, err)
		require.Equal(t, d != metadata.DurabilityMemory, p.log.Config().Disk, d)
	}
}

// TestAFailedFsyncEndsTheOfficeAndAcknowledgesNothing: nothing is assumed of bytes that an fsync failed for.
func TestAFailedFsyncEndsTheOfficeAndAcknowledgesNothing(t *testing.T) {
	_, a, b, _ := disk3(t, metadata.RuleQuorum)
	pp := a.produce(partition.AcksAll, newBatch(1))
	b.round(1)
	b.round(1)
	b.flush()
	a.rule(t, vfs.Rule{Op: vfs.OpSync, Path: "*.log", Error: "EIO", Times: 1})
	a.flush()
	require.ErrorIs(t, mustAnswer(t, pp).Err, partition.ErrNotLeader)
	require.Zero(t, a.m.Leading())
	require.ErrorIs(t, a.part().failed, record.ErrDirOffline)
	require.EqualValues(t, 0, a.part().log.FlushedOffset())
	a.hear(b.ack(1))
	require.EqualValues(t, 0, a.part().log.HighWatermark())

	// A follower whose fsync failed tells its leader nothing.
	_, a, b, _ = disk3(t, metadata.RuleQuorum)
	a.produce(partition.AcksAll, newBatch(1))
	b.round(1)
	b.round(1)
	b.rule(t, vfs.Rule{Op: vfs.OpSync, Path: "*.log", Error: "EIO", Times: 1})
	b.flush()
	require.Nil(t, b.ack(1))
	b.round(1)
	require.EqualValues(t, 0, a.position(2))
}
