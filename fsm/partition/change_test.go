package partition

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
)

// quorum3 is record3 under the quorum rule.
func quorum3() *metadata.Partition {
	r := record3(1, 2, 3)
	r.Rule = metadata.RuleQuorum
	return r
}

// next gives rec's successor in the same leader epoch.
func next(rec *metadata.Partition, change func(*metadata.Partition)) *metadata.Partition {
	n := *rec
	n.PartitionEpoch++
	n.BeginPE = n.PartitionEpoch
	change(&n)
	return &n
}

func TestAMajorityCommitsUnderTheQuorumRule(t *testing.T) {
	o := lead(t, newMemLog(), quorum3())
	o.write(4)
	require.EqualValues(t, 0, o.HighWatermark())
	_, e := o.fetch(2, 12, 3)
	require.True(t, e.Advanced)
	require.EqualValues(t, 3, o.HighWatermark(), "node 3 need not have it")
}

func TestRecordsOfOlderEpochsCommitOnlyUnderTheMarker(t *testing.T) { // S2, mutants noBarrier and noMarker
	log := newMemLog(4, 4)
	o := lead(t, log, quorum3())
	require.EqualValues(t, 3, log.EndOffset(), "the log ended above the high watermark: a marker was due")
	require.EqualValues(t, 2, o.StartOffset())
	o.fetch(2, 12, 2)
	require.EqualValues(t, 0, o.HighWatermark(), "records of epoch 4 may lose to a log of a later epoch still")
	o.fetch(2, 12, 3)
	require.EqualValues(t, 3, o.HighWatermark())
}

func TestAnOfficeWithNothingOpenNeedsNoMarker(t *testing.T) {
	log := newMemLog(4, 4)
	log.hw = 2
	require.False(t, NeedsMarker(quorum3(), log))
	require.False(t, NeedsMarker(record3(1, 2, 3), newMemLog(4)), "the ISR rule needs none")
	both := record3(1, 2, 3)
	both.Rule = metadata.RuleISRToQuorum
	require.True(t, NeedsMarker(both, log), "a change of rule needs one in every epoch, also with nothing open")
}

func TestAProduceIsRefusedWhereNoMajorityIsAlive(t *testing.T) {
	o := lead(t, newMemLog(), quorum3())
	require.NoError(t, o.MayAppend(AcksAll, o.b, o.now))
	o.b[2] = &metadata.Broker{ID: 2, Epoch: 12, Fenced: true}
	require.NoError(t, o.MayAppend(AcksAll, o.b, o.now))
	o.b[3] = &metadata.Broker{ID: 3, Epoch: 13, Fenced: true}
	require.ErrorIs(t, o.MayAppend(AcksAll, o.b, o.now), ErrNotEnoughReplicas)
	require.NoError(t, o.MayAppend(1, o.b, o.now))
}

func TestARuleChangeIsProvenByPositionsAboveItsMarker(t *testing.T) { // S26, S27, mutants ruleEarly, proofByHW, ruleNoMarker
	rec := record3(1, 2)
	o := lead(t, newMemLog(), rec)
	o.write(3)
	o.fetch(2, 12, 3)
	require.EqualValues(t, 3, o.HighWatermark())

	both := next(rec, func(n *metadata.Partition) { n.Rule = metadata.RuleISRToQuorum })
	e := o.carry(o.OnView(both, o.b, o.log, o.now))
	require.True(t, e.Marker, "also with nothing open: the tail of a stale replica may carry a later epoch than what was committed")
	require.Nil(t, e.Finish)
	o.log.append(marker(5))
	e = o.carry(o.OnMarker(o.b, o.log, o.now))
	require.Nil(t, e.Finish, "nobody else has the marker yet")
	_, e = o.fetch(2, 12, 4)
	require.EqualValues(t, 4, o.HighWatermark())
	require.NotNil(t, e.Finish)
	require.EqualValues(t, 4, e.Finish.Point)
	require.Equal(t, []metadata.Evidence{{Broker: metadata.BrokerEpoch{ID: 1, Epoch: 11}, Offset: 4}, {Broker: metadata.BrokerEpoch{ID: 2, Epoch: 12}, Offset: 4}}, e.Finish.Evidence)
	require.Equal(t, both.PartitionEpoch, e.Finish.PartitionEpoch)

	_, e = o.fetch(2, 12, 4)
	require.Nil(t, e.Finish, "asked for already")
	o.now = o.now.Add(time.Second)
	require.NotNil(t, o.Tick(o.b, o.log, o.now).Finish, "asked again while no record ends it")
}

func TestDuringARuleChangeBothRulesHold(t *testing.T) { // mutant ruleNoBoth
	rec := record3(1, 3)
	rec.Rule = metadata.RuleQuorumToISR
	o := lead(t, newMemLog(), rec)
	end := o.log.EndOffset()
	o.fetch(2, 12, end)
	require.EqualValues(t, 0, o.HighWatermark(), "a majority has it, the in-sync replica 3 has not")
	o.fetch(3, 13, end)
	require.Equal(t, end, o.HighWatermark())
}

func TestAnAbortedChangeIsForgottenAndTheNextOneTakesItsOwnPoint(t *testing.T) {
	rec := record3(1, 2)
	o := lead(t, newMemLog(), rec)
	both := next(rec, func(n *metadata.Partition) { n.Rule = metadata.RuleISRToQuorum })
	require.True(t, o.OnView(both, o.b, o.log, o.now).Marker)
	o.log.append(marker(5))
	o.carry(o.OnMarker(o.b, o.log, o.now))
	// Abort and a second begin in one difference: only the partition epoch of the begin tells.
	again := next(next(both, func(n *metadata.Partition) { n.Rule = metadata.RuleISR }), func(n *metadata.Partition) { n.Rule = metadata.RuleISRToQuorum })
	e := o.carry(o.OnView(again, o.b, o.log, o.now))
	require.True(t, e.Marker)
	_, e = o.fetch(2, 12, 1)
	require.Nil(t, e.Finish, "the first change's point proves nothing of the second")
}

func TestADurabilityChangeIsProvenByFlushedPositions(t *testing.T) { // S48, mutant durEarly
	rec := record3(1, 2, 3)
	rec.Durability, rec.BeginPE = metadata.DurabilityMemoryToDisk, rec.PartitionEpoch
	log := newMemLog(4, 4)
	log.flushed = 0
	log.hw = 2
	log.office(5)
	l, e := NewLeader(1, 11, rec, 2, threeBrokers(), log, opts, t0)
	o := &office{l, log, threeBrokers(), t0}
	require.True(t, e.Flush)
	require.Nil(t, e.Finish)
	o.fetch(2, 12, 2)
	_, e = o.fetch(3, 13, 2)
	require.Nil(t, e.Finish, "the leader's own copy is not on disk")
	log.flushed = 2
	e = o.OnFlush(o.b, log, o.now)
	require.NotNil(t, e.Finish)
	require.Len(t, e.Finish.Evidence, 3)
}

func TestADurabilityChangeWaitsForLiveReplicasAndThenTakesThoseThatAreEnough(t *testing.T) {
	rec := quorum3()
	rec.Durability, rec.BeginPE = metadata.DurabilityMemoryToDisk, rec.PartitionEpoch
	o := lead(t, newMemLog(), rec)
	o.write(1)
	o.log.flushed = 1
	o.fetch(2, 12, 1)
	require.EqualValues(t, 1, o.HighWatermark())
	require.Nil(t, o.Tick(o.b, o.log, o.now).Finish, "node 3 is alive and may still come")
	o.now = o.now.Add(bareMajorityAfter)
	e := o.Tick(o.b, o.log, o.now)
	require.NotNil(t, e.Finish)
	require.Len(t, e.Finish.Evidence, 2)
}

func TestADurabilityChangeNeedsTheLeadersOwnFlush(t *testing.T) {
	rec := quorum3()
	rec.Durability, rec.BeginPE = metadata.DurabilityMemoryToDisk, rec.PartitionEpoch
	o := lead(t, newMemLog(), rec)
	o.write(1)
	o.fetch(2, 12, 1)
	o.fetch(3, 13, 1)
	require.EqualValues(t, 1, o.HighWatermark(), "two followers have it on disk")
	// A point below what is flushed would hide it.
	o.change.point = 1
	o.now = o.now.Add(bareMajorityAfter)
	require.Nil(t, o.Tick(o.b, o.log, o.now).Finish)
	o.log.flushed = 1
	require.NotNil(t, o.OnFlush(o.b, o.log, o.now).Finish)
}

func TestAJointMoveIsProvenByBothMajorities(t *testing.T) { // S24, S25, S46, mutants finalEarly, noJoint
	rec := quorum3()
	o := lead(t, newMemLog(), rec)
	o.write(2)
	o.fetch(2, 12, 2)
	require.EqualValues(t, 2, o.HighWatermark())
	joint := next(rec, func(n *metadata.Partition) {
		n.NewReplicas = []int32{3, 4, 5}
		n.Members = append(append([]metadata.Replica{}, n.Members...), metadata.Replica{ID: 4, Cert: 14, JoinPE: 21}, metadata.Replica{ID: 5, Cert: 15, JoinPE: 21})
	})
	o.b[4], o.b[5] = &metadata.Broker{ID: 4, Epoch: 14}, &metadata.Broker{ID: 5, Epoch: 15}
	e := o.carry(o.OnView(joint, o.b, o.log, o.now))
	require.Nil(t, e.Finish, "the high watermark had passed the point before the new set held a byte")
	o.fetch(4, 14, 2)
	_, e = o.fetch(5, 15, 1)
	require.Nil(t, e.Finish)
	o.write(1)
	o.fetch(2, 12, 3)
	require.EqualValues(t, 2, o.HighWatermark(), "the new majority lacks it")
	_, e = o.fetch(5, 15, 3)
	require.NotNil(t, e.Finish)
	require.EqualValues(t, 2, e.Finish.Point)
}

func TestAMoveUnderTheISRRuleEndsWhenTheTargetIsInSync(t *testing.T) {
	rec := record3(1, 2, 3)
	rec.Adding, rec.BeginPE = []int32{1, 2, 4}, rec.PartitionEpoch
	rec.Members = append(rec.Members, metadata.Replica{ID: 4, Cert: -1, JoinPE: 20})
	o := lead(t, newMemLog(), rec)
	o.b[4] = &metadata.Broker{ID: 4, Epoch: 14}
	o.fetch(2, 12, 0)
	o.fetch(3, 13, 0)
	_, e := o.fetch(4, 14, 0)
	require.NotNil(t, e.Propose, "a newcomer joins the ISR when it has caught up")
	require.Nil(t, e.Finish)
	in := next(rec, func(n *metadata.Partition) { n.ISR = []int32{1, 2, 3, 4}; n.BeginPE = rec.BeginPE })
	e = o.OnView(in, o.b, o.log, o.now)
	require.NotNil(t, e.Finish)
}

func TestAnObserverJoinsNoISRUnderTheQuorumRule(t *testing.T) {
	rec := quorum3()
	rec.Adding = []int32{1, 2, 4}
	rec.Members = append(rec.Members, metadata.Replica{ID: 4, Cert: -1, JoinPE: 20})
	o := lead(t, newMemLog(), rec)
	o.b[4] = &metadata.Broker{ID: 4, Epoch: 14}
	o.write(1)
	_, e := o.fetch(4, 14, 1)
	require.Nil(t, e.Propose)
	require.NotNil(t, e.Certify, "it is certified, so that the move can go on")
	require.EqualValues(t, 0, o.HighWatermark(), "and counts for nothing")
}

func TestAnAcknowledgementNeverPassesWhatWasFetched(t *testing.T) {
	o := lead(t, newMemLog(), quorum3())
	o.write(5)
	o.fetch(2, 12, 3)
	require.Equal(t, Effects{}, o.OnAck(2, 12, 5, 5, o.b, o.log, o.now), "nothing showed that its records from 3 on are ours")
	o.fetch(2, 12, 5)
	require.EqualValues(t, 5, o.HighWatermark())
}

func TestAReplicaThatCameBackIsNotCountedByItsEarlierStay(t *testing.T) { // S49
	rec := quorum3()
	o := lead(t, newMemLog(), rec)
	o.write(2)
	o.fetch(3, 13, 2)
	require.EqualValues(t, 2, o.HighWatermark())
	back := next(rec, func(n *metadata.Partition) {
		n.Members = []metadata.Replica{{ID: 1, Cert: 11}, {ID: 2, Cert: 12}, {ID: 3, Cert: -1, JoinPE: 25}}
	})
	e := o.OnView(back, o.b, o.log, o.now)
	require.Equal(t, []int32{3}, e.Anew)
	o.write(1)
	require.EqualValues(t, 2, o.HighWatermark())
	require.EqualValues(t, -1, o.Replicas(o.log, o.now)[2].Position)
}

func TestAFetchOfAnEarlierStayCountsForNothing(t *testing.T) { // on its way while the log was found damaged and emptied
	rec := quorum3()
	o := lead(t, newMemLog(), rec)
	o.write(2)
	back := next(rec, func(n *metadata.Partition) {
		n.Members = []metadata.Replica{{ID: 1, Cert: 11}, {ID: 2, Cert: 12}, {ID: 3, Cert: -1, JoinPE: 21}}
	})
	o.OnView(back, o.b, o.log, o.now)
	q := Fetch{Replica: 3, BrokerEpoch: 13, LeaderEpoch: 5, Offset: 2, LastFetchedEpoch: 5, AckOffset: -1}
	v, e := o.OnFetch(q, o.b, o.log, o.now)
	require.ErrorIs(t, v.Err, ErrOffsetNotAvailable)
	require.Nil(t, e.Certify)
	require.EqualValues(t, 0, o.HighWatermark())
	q.JoinPE = 21
	v, e = o.OnFetch(q, o.b, o.log, o.now)
	require.NoError(t, v.Err)
	require.NotNil(t, e.Certify)
	require.EqualValues(t, 2, e.HighWatermark)
}
