package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

// dutyWorld is a real state with brokers and one partition, and the facts of the duties.
type dutyWorld struct {
	*sessionWorld
	facts dutyFacts
	id    record.PartitionID
	epoch map[int32]int64
}

func newDutyWorld(t *testing.T, recovery metadata.RecoveryPolicy, replicas ...int32) *dutyWorld {
	return newDutyWorldOf(t, metadata.RuleISR, recovery, replicas...)
}

func newDutyWorldOf(t *testing.T, rule metadata.CommitRule, recovery metadata.RecoveryPolicy, replicas ...int32) *dutyWorld {
	w := &dutyWorld{sessionWorld: newSessionWorld(t), epoch: map[int32]int64{}}
	for _, id := range replicas {
		w.epoch[id] = w.alive(id)
	}
	w.id = record.PartitionID{Topic: record.NewTopicID()}
	w.apply(&metadata.CreateTopics{Topics: []metadata.NewTopic{{
		ID: w.id.Topic, Name: "t", Assignment: [][]int32{replicas}, Rule: rule, Durability: metadata.DurabilityMemory, Recovery: recovery, MinISR: 1,
	}}})
	w.facts = dutyFacts{
		reports: reports{}, flaps: map[record.PartitionID]flap{}, forced: map[record.PartitionID]int32{},
		moves: map[record.PartitionID]*move{}, handovers: map[record.PartitionID]*handover{}, declined: map[record.PartitionID]declined{}, held: map[record.PartitionID]int32{},
		full:    map[int32]bool{},
		unclean: func(*metadata.Topic) bool { return false }, giveBack: true,
	}
	return w
}

func (w *dutyWorld) partition() *metadata.Partition { return w.state.Image().Partition(w.id) }

func (w *dutyWorld) fence(id int32) {
	w.apply(&metadata.FenceBrokers{Brokers: []metadata.BrokerEpoch{{ID: id, Epoch: w.epoch[id]}}})
}

// comeBack registers a new process that may have lost everything, and unfences it.
func (w *dutyWorld) comeBack(id int32) { w.epoch[id] = w.alive(id) }

func (w *dutyWorld) isr(ids ...int32) {
	p := w.partition()
	c := metadata.PartitionChange{Partition: w.id, Leader: p.Leader, LeaderBrokerEpoch: p.LeaderBrokerEpoch, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch}
	for _, id := range ids {
		c.ISR = append(c.ISR, metadata.BrokerEpoch{ID: id, Epoch: w.epoch[id]})
	}
	w.apply(&metadata.AlterPartitions{Changes: []metadata.PartitionChange{c}})
}

func (w *dutyWorld) report(id int32, lastEpoch int32, end int64) {
	w.facts.reports.add(w.id, w.partition().LeaderEpoch, metadata.ReplicaReport{Broker: metadata.BrokerEpoch{ID: id, Epoch: w.epoch[id]}, LastEpoch: lastEpoch, End: end})
}

func (w *dutyWorld) plan() dutyPlan {
	w.facts.now, w.facts.image = w.now, w.state.Image()
	w.facts.moved, w.facts.changing = []record.PartitionID{w.id}, []record.PartitionID{w.id}
	return planDuties(w.facts)
}

// unsafe applies the one unsafe election of a plan: the state machine must agree with what was planned.
func (w *dutyWorld) unsafe(p dutyPlan) *metadata.Partition {
	require.Len(w.t, p.unsafe, 1)
	w.apply(&metadata.UnsafeElect{Elections: p.unsafe})
	return w.partition()
}

// offlineUnsafe leaves a partition of 1 and 2 without anybody who has everything: both are up.
func offlineUnsafe(t *testing.T, recovery metadata.RecoveryPolicy) *dutyWorld {
	w := newDutyWorld(t, recovery, 1, 2)
	w.isr(1)
	w.fence(1)
	w.comeBack(1)
	require.Equal(t, metadata.OfflineUnsafe, w.state.Image().Safety(w.partition()))
	return w
}

func TestASafeCandidateIsElectedAndLeadershipIsGivenBackOnlyInSync(t *testing.T) {
	w := newDutyWorld(t, metadata.RecoverWaitAll, 1, 2)
	require.Equal(t, []record.PartitionID{w.id}, w.plan().settled)
	w.fence(1)
	require.Equal(t, int32(2), w.partition().Leader)
	w.comeBack(1)
	p := w.plan()
	require.Empty(t, p.give, "not in sync")
	require.Empty(t, p.settled, "it is looked at again")
	w.isr(2, 1)
	w.facts.giveBack = false
	require.Empty(t, w.plan().give, "not before its time")
	w.facts.giveBack = true
	p = w.plan()
	require.Len(t, p.give, 1)
	w.apply(&metadata.Elect{Elections: p.give})
	require.Equal(t, int32(1), w.partition().Leader)
}

func TestAnOfflinePartitionWaitsForThoseThatHaveEverything(t *testing.T) {
	w := newDutyWorld(t, metadata.RecoverWaitAll, 1, 2)
	w.isr(1)
	w.fence(1)
	require.Equal(t, metadata.Offline, w.state.Image().Safety(w.partition()))
	p := w.plan()
	require.Empty(t, p.elect)
	require.Empty(t, p.unsafe)
	require.Empty(t, p.wanted, "nobody is asked while a safe election can come")
}

func TestWaitAllNeedsEveryReplicaAndTakesTheMostComplete(t *testing.T) {
	w := offlineUnsafe(t, metadata.RecoverWaitAll)
	p := w.plan()
	require.Equal(t, []record.PartitionID{w.id}, p.wanted[1])
	require.Equal(t, []record.PartitionID{w.id}, p.wanted[2])
	require.Equal(t, "recovery.policy wait-all: no report from nodes 1, 2", p.waiting[w.id])
	w.report(1, 0, 3)
	p = w.plan()
	require.Equal(t, "recovery.policy wait-all: no report from nodes 2", p.waiting[w.id])
	require.Empty(t, p.wanted[1])
	w.report(2, 1, 2)
	leader := w.unsafe(w.plan())
	require.Equal(t, int32(2), leader.Leader, "the newer epoch wins over the longer log")
	require.Equal(t, leader.LeaderEpoch, leader.LossEpoch)
}

func TestReportsOfOtherEpochsAndProcessesDoNotCount(t *testing.T) {
	w := offlineUnsafe(t, metadata.RecoverWaitAll)
	w.report(1, 0, 3)
	w.report(2, 0, 3)
	w.fence(2)
	w.comeBack(2)
	require.Equal(t, "recovery.policy wait-all: no report from nodes 2", w.plan().waiting[w.id], "another process")
	w.report(2, 0, 1)
	w.facts.reports.add(w.id, w.partition().LeaderEpoch-1, metadata.ReplicaReport{Broker: metadata.BrokerEpoch{ID: 2, Epoch: w.epoch[2]}, LastEpoch: 9, End: 9})
	require.Equal(t, int32(1), w.unsafe(w.plan()).Leader, "an older epoch")
}

func TestTheMostCompleteReplicaIsWaitedForWhileItIsFenced(t *testing.T) {
	w := offlineUnsafe(t, metadata.RecoverWaitAll)
	w.report(1, 0, 3)
	w.fence(2)
	w.report(2, 1, 9)
	p := w.plan()
	require.Empty(t, p.unsafe)
	require.Contains(t, p.waiting[w.id], "node 2 has the most complete log")
}

func TestProactiveTakesTheLivingAndManualNobody(t *testing.T) {
	w := offlineUnsafe(t, metadata.RecoverProactive)
	w.fence(1)
	w.report(2, 0, 1)
	require.Equal(t, int32(2), w.unsafe(w.plan()).Leader)

	w = offlineUnsafe(t, metadata.RecoverManual)
	w.report(1, 0, 2)
	w.report(2, 0, 1)
	p := w.plan()
	require.Empty(t, p.unsafe)
	require.Contains(t, p.waiting[w.id], "an operator")
	w.facts.forced[w.id] = metadata.NoNode
	require.Equal(t, int32(1), w.unsafe(w.plan()).Leader)
}

func TestAnUncleanTopicIsLedByALiveReplicaThoughASafeOneMayComeBack(t *testing.T) {
	w := newDutyWorld(t, metadata.RecoverWaitAll, 1, 2)
	w.isr(1)
	w.fence(1)
	w.facts.unclean = func(t *metadata.Topic) bool { return t.Name == "t" }
	p := w.plan()
	require.Empty(t, p.unsafe)
	require.Equal(t, []record.PartitionID{w.id}, p.wanted[2])
	w.report(2, 0, 1)
	require.Equal(t, int32(2), w.unsafe(w.plan()).Leader)
}

func TestElectionsOfAPartitionWhoseLeadersDoNotLiveWaitLongerAndLonger(t *testing.T) {
	for _, c := range []struct {
		tries int
		want  time.Duration
	}{{0, 0}, {1, 0}, {2, 100 * time.Millisecond}, {3, 200 * time.Millisecond}, {4, 400 * time.Millisecond}, {7, 3200 * time.Millisecond}, {8, flapLongest}, {1000, flapLongest}} {
		require.Equal(t, c.want, flap{tries: c.tries}.wait(), fmt.Sprint(c.tries))
	}
	w := offlineUnsafe(t, metadata.RecoverWaitAll)
	w.report(1, 0, 1)
	w.report(2, 0, 1)
	w.facts.flaps[w.id] = flap{tries: 3, at: w.now}
	w.after(199 * time.Millisecond)
	p := w.plan()
	require.Empty(t, p.unsafe)
	require.Equal(t, w.now.Add(time.Millisecond), p.again, "it is looked at again in time")
	w.after(time.Millisecond)
	require.Len(t, w.plan().unsafe, 1)
	w.facts.flaps[w.id] = flap{tries: 1000, at: w.now}
	w.after(flapLived)
	require.Len(t, w.plan().unsafe, 1, "a leader lived: the waiting is over")
}
