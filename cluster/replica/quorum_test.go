package replica

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

// disk3 is a world of three nodes with a topic whose copies count from disk; node 1 leads it.
func disk3(t *testing.T, rule metadata.CommitRule) (w *world, a, b, c *member) {
	w = newWorld(t, 1, 2, 3)
	w.createAs(rule, metadata.DurabilityDisk, 2, 1, 2, 3)
	w.replayAll()
	for _, id := range []int32{2, 3} { // sessions open
		w.nodes[id].round(1)
		w.nodes[id].round(1)
	}
	return w, w.nodes[1], w.nodes[2], w.nodes[3]
}

// position is what leader a counts of a replica.
func (n *member) position(replica int32) int64 {
	p := n.part()
	for _, r := range p.leader.Replicas(p.log, n.w.now) {
		if r.ID == replica {
			return r.Position
		}
	}
	return -2
}

func TestALeadersCopyCountsFromDisk(t *testing.T) {
	for _, rule := range []metadata.CommitRule{metadata.RuleISR, metadata.RuleQuorum} {
		_, a, b, c := disk3(t, rule)
		pp := a.produce(partition.AcksAll, newBatch(1))
		for _, n := range []*member{b, c} {
			n.round(1)
			n.round(1)
		}
		require.EqualValues(t, 1, b.part().log.EndOffset(), "served before it is on the leader's disk")
		b.flush()
		a.hear(b.ack(1))
		require.False(t, isAnswered(pp), "%s: one copy on disk", rule)
		require.EqualValues(t, 0, a.part().log.HighWatermark())
		a.flush()
		if rule == metadata.RuleQuorum {
			require.NoError(t, mustAnswer(t, pp).Err)
			continue
		}
		require.False(t, isAnswered(pp), "node 3 is in sync and has it in memory only")
		c.flush()
		a.hear(c.ack(1))
		require.NoError(t, mustAnswer(t, pp).Err)
	}
}

func TestAMajorityOfFollowersCommitsBeforeTheLeadersOwnFsync(t *testing.T) {
	_, a, b, c := disk3(t, metadata.RuleQuorum)
	pp := a.produce(partition.AcksAll, newBatch(1))
	for _, n := range []*member{b, c} {
		n.round(1)
		n.round(1)
		n.flush()
		a.hear(n.ack(1))
	}
	require.NoError(t, mustAnswer(t, pp).Err)
	require.EqualValues(t, 0, a.part().log.FlushedOffset())
	require.EqualValues(t, 1, a.part().log.HighWatermark())
}

func TestAFollowerAcknowledgesOnlyWhatItFlushed(t *testing.T) {
	_, a, b, _ := disk3(t, metadata.RuleQuorum)
	a.produce(partition.AcksAll, newBatch(1))
	a.produce(partition.AcksAll, newBatch(2))
	b.round(1)
	b.round(1) // asks for the next records before the last ones are on disk
	require.EqualValues(t, 0, a.position(2))
	require.Nil(t, b.ack(1), "nothing is flushed")
	b.flush()
	ack := b.ack(1)
	require.NotNil(t, ack)
	require.EqualValues(t, 2, ack.Positions[0].AckOffset)
	a.hear(ack)
	require.EqualValues(t, 2, a.position(2))
	require.Nil(t, b.ack(1), "told once")
	// What is flushed but not asked for behind yet waits for the fetch that shows it continues the leader's log.
	a.produce(partition.AcksAll, newBatch(3))
	b.round(1)
	b.flush()
	require.EqualValues(t, 3, b.part().log.FlushedOffset())
	require.Nil(t, b.ack(1))
	b.round(1)
	require.EqualValues(t, 3, a.position(2), "the fetch itself tells")
}

func TestAnAckOfAnotherTimeCountsForNothing(t *testing.T) {
	w, a, b, c := disk3(t, metadata.RuleQuorum)
	a.produce(partition.AcksAll, newBatch(1))
	b.round(1)
	b.round(1)
	b.flush()
	ack := b.ack(1)
	require.NotNil(t, ack)
	spoil := func(change func(*partition.Ack)) {
		t.Helper()
		x := *ack
		x.Positions = []partition.AckPosition{ack.Positions[0]}
		change(&x)
		a.hear(&x)
		require.EqualValues(t, 0, a.position(2))
	}
	spoil(func(x *partition.Ack) { x.Session++ })
	spoil(func(x *partition.Ack) { x.BrokerEpoch-- })
	spoil(func(x *partition.Ack) { x.BrokerEpoch++ })
	spoil(func(x *partition.Ack) { x.Replica = 3 })
	spoil(func(x *partition.Ack) { x.Positions[0].LeaderEpoch-- })
	spoil(func(x *partition.Ack) { x.Positions[0].LeaderEpoch++ })
	spoil(func(x *partition.Ack) { x.Positions[0].AckOffset++ })
	a.hear(ack)
	require.EqualValues(t, 1, a.position(2))

	// A new office of the same leader knows nothing of what was counted before it, nor of a late copy of that.
	w.do(&metadata.BeginElection{Elections: []metadata.ElectionStart{{Partition: ack.Positions[0].ID, LeaderEpoch: w.head().LeaderEpoch, Leader: 1}}})
	w.replayAll()
	for _, n := range []*member{a, b, c} {
		n.flush()
	}
	ok, why := w.electReported()
	require.True(t, ok, why)
	w.replayAll()
	if w.head().Leader == 1 {
		a.hear(ack)
		require.LessOrEqual(t, a.position(2), int64(0))
	}
}

// TestAReportWaitsForTheDisk: under the quorum rule it comes unasked, with what outlives the power and not before that.
func TestAReportWaitsForTheDisk(t *testing.T) {
	w, a, b, c := disk3(t, metadata.RuleQuorum)
	a.produce(1, newBatch(1))
	b.round(1)
	b.round(1)
	require.EqualValues(t, 0, b.part().log.FlushedOffset())
	w.fence(1)
	epoch := w.head().LeaderEpoch
	require.Equal(t, metadata.NoNode, w.head().Leader)
	require.Empty(t, b.m.Reports([]record.PartitionID{w.head().ID}), "it leads no epoch it has not acted on")
	b.replay(100)
	c.replay(100)
	require.Equal(t, metadata.ReplicaReportItem{Partition: w.head().ID, Epoch: epoch, LastEpoch: -1}, w.reports[3], "nothing to flush: told at once")
	require.NotContains(t, w.reports, int32(2))
	require.Empty(t, b.m.Reports([]record.PartitionID{w.head().ID}), "nor when asked")
	b.flush()
	require.EqualValues(t, 1, w.reports[2].End)
	require.Equal(t, epoch, w.reports[2].Epoch)
	require.EqualValues(t, 1, b.part().log.FlushedOffset())
	ok, why := w.electReported()
	require.True(t, ok, why)
	require.EqualValues(t, 2, w.head().Leader, "the most complete log")
	b.replay(100)
	require.EqualValues(t, 2, b.part().log.EndOffset(), "an office above the high watermark begins with a marker")
	_, ls := lines(t, b.part().log)
	require.Equal(t, []int{1, marker}, names(ls))
}

// TestAReportNamesTheEpochItWasMadeIn: a flush that ends after the next epoch began reports for that one, and none for a
// replica that has not heard of it.
func TestAReportNamesTheEpochItWasMadeIn(t *testing.T) {
	w, a, b, _ := disk3(t, metadata.RuleQuorum)
	a.produce(1, newBatch(1))
	b.round(1)
	b.round(1)
	w.fence(1)
	first := w.head().LeaderEpoch
	b.replay(100)
	w.do(&metadata.BeginElection{Elections: []metadata.ElectionStart{{Partition: w.head().ID, LeaderEpoch: first, Leader: metadata.NoNode}}})
	b.flush()
	require.Equal(t, first, w.reports[2].Epoch, "it has acted on no later one")
	b.replay(100)
	require.Equal(t, first+1, w.reports[2].Epoch)
}

// TestNothingAcknowledgedFromDiskIsLostWhenAllLosePower is S42: all stay trusted and a majority elects at once.
func TestNothingAcknowledgedFromDiskIsLostWhenAllLosePower(t *testing.T) {
	for _, rule := range []metadata.CommitRule{metadata.RuleISR, metadata.RuleQuorum} {
		for seed := range uint64(6) {
			w, a, b, c := disk3(t, rule)
			nodes := []*member{a, b, c}
			var acked []int
			for i := 1; i <= 12; i++ { // several segments
				pp := a.produce(partition.AcksAll, newBatch(i))
				for _, n := range nodes[1:] {
					n.round(1)
					n.round(1)
				}
				for _, n := range nodes {
					if (uint64(n.id)+seed+uint64(i))%4 != 0 {
						n.flush()
						a.hear(n.ack(1))
					}
				}
				if isAnswered(pp) && mustAnswer(t, pp).Err == nil {
					acked = append(acked, i)
				}
			}
			require.NotEmpty(t, acked)
			for i, n := range nodes {
				mode := vfs.CrashLose
				if seed%2 == 1 {
					mode = vfs.CrashTear
				}
				n.crash(mode, seed*10+uint64(i))
			}
			for _, n := range nodes { // all sessions end before the first node is back
				w.fence(n.id)
			}
			for _, n := range nodes {
				n.start()
				w.unfence(n.id)
			}
			w.replayAll()
			require.NotEqual(t, metadata.OfflineUnsafe, w.st.Image().Safety(w.head()))
			if rule == metadata.RuleQuorum {
				for _, n := range nodes {
					n.flush()
				}
				ok, why := w.electReported()
				require.True(t, ok, why)
			} else if w.head().Leader == metadata.NoNode { // else an unfencing elected
				w.elect(metadata.ChooseLeader(w.head(), w.st.Image().Broker))
			}
			w.replayAll()
			_, ls := lines(t, w.nodes[w.head().Leader].part().log)
			require.Subset(t, names(ls), acked, "seed %d, %s", seed, rule)
		}
	}
}

// TestACutSegmentDoesNotComeBack is S42's truncation: the replica that cut records of a later epoch must not win an
// election with them after the power was lost.
func TestACutSegmentDoesNotComeBack(t *testing.T) {
	for seed := range uint64(6) {
		w, a, b, c := disk3(t, metadata.RuleQuorum)
		for i := range 30 { // node 1 alone, over several segments, on its disk
			a.produce(1, newBatch(100+i))
		}
		a.flush()
		w.fence(1)
		for _, n := range []*member{b, c} {
			n.replay(100)
			n.flush()
		}
		ok, why := w.electReported()
		require.True(t, ok, why)
		lead := w.nodes[w.head().Leader]
		lead.replay(100)
		pp := lead.produce(partition.AcksAll, newBatch(1))
		other := b
		if lead == b {
			other = c
		}
		other.replay(100)
		for range 3 {
			other.round(lead.id)
		}
		other.flush()
		lead.hear(other.ack(lead.id))
		lead.flush()
		require.NoError(t, mustAnswer(t, pp).Err)
		a.replay(100)
		for range 4 {
			a.round(lead.id)
		}
		require.LessOrEqual(t, a.part().log.EndOffset(), lead.part().log.EndOffset(), "cut to the leader's")
		want := a.part().log.LastEpoch()
		mode := vfs.CrashLose
		if seed%2 == 1 {
			mode = vfs.CrashTear
		}
		a.crash(mode, seed)
		a.start()
		_, ls := lines(t, a.part().log)
		for _, l := range ls {
			require.Less(t, l.name, 100, "seed %d: a record that was cut came back", seed)
		}
		require.LessOrEqual(t, a.part().log.LastEpoch(), want)
	}
}

// TestConsumersSeeNothingThatIsNotOnEnoughDisks, though followers are served all of it (mutant serveUnflushed).
func TestConsumersSeeNothingThatIsNotOnEnoughDisks(t *testing.T) {
	w, a, b, _ := disk3(t, metadata.RuleQuorum)
	id := w.head().ID
	a.produce(1, newBatch(1, 2))
	b.round(1)
	b.round(1)
	require.EqualValues(t, 2, b.part().log.EndOffset())
	see := func() (bytes int64, latest int64) {
		t.Helper()
		for _, committed := range []bool{false, true} {
			r := a.m.Fetch(context.Background(), &partition.FetchRequest{ReplicaID: -1, BrokerEpoch: -1, MinBytes: 1, MaxBytes: 1 << 20, Committed: committed,
				Partitions: []partition.FetchPartition{{ID: id, LastFetchedEpoch: -1, CurrentLeaderEpoch: -1, LogStartOffset: -1, AckOffset: -1, MaxBytes: 1 << 20}}}).Wait(context.Background())
			require.NoError(t, r.Answers[0].Err)
			bytes += spanBytes(r.Answers[0].Spans)
			require.Equal(t, a.part().log.HighWatermark(), r.Answers[0].HighWatermark)
			r.Release()
			latest = max(latest, a.m.ListOffsets(context.Background(), partition.ListOffsetsQuery{ID: id, Timestamp: partition.LatestTimestamp, CurrentLeaderEpoch: -1, Committed: committed}).Offset)
			for _, at := range []int64{partition.MaxTimestamp, 0} {
				o := a.m.ListOffsets(context.Background(), partition.ListOffsetsQuery{ID: id, Timestamp: at, CurrentLeaderEpoch: -1, Committed: committed})
				require.NoError(t, o.Err)
				require.Less(t, o.Offset, a.part().log.HighWatermark(), "an offset that is not committed")
			}
		}
		return bytes, latest
	}
	for _, step := range []func(){func() {}, b.flush, func() { a.hear(b.ack(1)) }} {
		step()
		bytes, latest := see()
		require.Zero(t, bytes)
		require.Zero(t, latest)
	}
	a.flush()
	bytes, latest := see()
	require.Positive(t, bytes)
	require.EqualValues(t, 2, latest)
}
