package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
)

// handOver begins a handover of the leader's epoch.
func (w *world) handOver(leader, to int32) *handover {
	return w.nodes[leader].part().Pause(metadata.Handover{Partition: w.head().ID, LeaderEpoch: w.head().LeaderEpoch, To: to})
}

// over says that a pause has ended.
func (h *handover) isOver() bool {
	select {
	case <-h.over:
		return true
	default:
		return false
	}
}

// appends tries to append one batch and says whether it has to wait.
func (n *member) pauses(batch []byte) bool {
	h, err := record.ParseHeader(batch)
	require.NoError(n.w.t, err)
	req := &partition.ProduceRequest{Acks: 1, Partitions: []partition.ProducePartition{{ID: n.w.head().ID, Records: batch, Header: h}}}
	return n.part().Append(&req.Partitions[0], 1, newPendingProduce(req, n.w.now), 0, n.w.now) != nil
}

func TestALeaderAppendsNothingUntilItsSuccessorHasEverything(t *testing.T) {
	w := newWorld(t, 1, 2, 3)
	w.createAs(metadata.RuleQuorum, metadata.DurabilityMemory, 1, 1, 2, 3)
	w.replayAll()
	a, b, c := w.nodes[1], w.nodes[2], w.nodes[3]
	for range 2 {
		b.round(1)
		c.round(1)
	}
	require.NoError(t, mustAnswer(t, a.produce(1, newBatch(1))).Err)
	h := w.handOver(1, 3)
	require.NotNil(t, h)
	require.Nil(t, w.handOver(1, 2), "one at a time")
	require.True(t, a.pauses(newBatch(2)))
	b.round(1)
	b.round(1)
	require.False(t, h.told, "another one has everything")
	c.round(1)
	require.False(t, h.told, "it was given everything, and has not said that it has it")
	c.round(1)
	require.True(t, h.told)
	require.True(t, a.pauses(newBatch(2)), "until it is deposed")
	require.EqualValues(t, 1, a.part().log.EndOffset())

	a.part().resume(h)
	require.True(t, h.isOver())
	require.NoError(t, mustAnswer(t, a.produce(1, newBatch(2))).Err)
	a.part().resume(h) // its timer comes late

	c.round(1)
	c.round(1)
	h = w.handOver(1, 3)
	require.Equal(t, []metadata.Handover{h.Handover}, a.m.DrainSession().Ready, "it has everything already")
	c.round(1)
	require.Empty(t, a.m.DrainSession().Ready, "told once")
	w.fence(1)
	require.False(t, h.isOver())
	a.replay(100)
	require.True(t, h.isOver(), "who waits is told that it leads no more")
	require.ErrorIs(t, mustAnswer(t, a.produce(1, newBatch(3))).Err, partition.ErrNotLeader)
	require.Nil(t, w.handOver(1, 3), "it does not lead")
}

func TestALeaderThatIsNotDeposedGoesOnByItself(t *testing.T) {
	w := newWorld(t, 1, 2)
	w.createAs(metadata.RuleQuorum, metadata.DurabilityMemory, 1, 1, 2)
	w.replayAll()
	a := w.nodes[1]
	h := metadata.Handover{Partition: w.head().ID, LeaderEpoch: w.head().LeaderEpoch - 1, To: 2, PauseMS: 50}
	a.m.HandOver([]metadata.Handover{h, {}})
	require.False(t, a.pauses(newBatch(1)), "another epoch's leader is meant")
	h.LeaderEpoch++
	began := time.Now()
	a.m.HandOver([]metadata.Handover{h})
	require.NoError(t, mustAnswer(t, a.produce(1, newBatch(2))).Err)
	require.GreaterOrEqual(t, time.Since(began), 50*time.Millisecond)
}
