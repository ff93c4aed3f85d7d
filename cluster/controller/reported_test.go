package controller

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

// newQuorumWorld is a duty world of one partition whose leaders are elected by reports. The first replica leads.
func newQuorumWorld(t *testing.T, replicas ...int32) *dutyWorld {
	w := newDutyWorldOf(t, metadata.RuleQuorum, metadata.RecoverWaitAll, replicas...)
	require.Equal(t, replicas[0], w.partition().Leader)
	return w
}

// restart registers a new process that has lost nothing, and unfences it.
func (w *dutyWorld) restart(id int32) {
	b := w.state.Image().Broker(id)
	next := metadata.Broker{ID: id, Incarnation: time.Duration(w.index + 1).String(), DirectoryID: b.DirectoryID, MinLevel: 1, MaxLevel: metadata.LatestLevel}
	r := w.apply(&metadata.RegisterBroker{Broker: next, Earlier: []metadata.EarlierIncarnation{{ID: b.Incarnation, SameBoot: true}}, BootOK: true})
	require.Equal(w.t, metadata.RestartProcessCrash, r.Class)
	w.epoch[id] = r.Epoch
	w.unfence(id)
}

func (w *dutyWorld) unfence(id int32) {
	w.apply(&metadata.UnfenceBroker{Broker: metadata.BrokerEpoch{ID: id, Epoch: w.epoch[id]}})
}

// reported applies the one election of a plan: the state machine must agree with what was planned.
func (w *dutyWorld) reported(p dutyPlan, kind string) *metadata.Partition {
	w.t.Helper()
	require.Len(w.t, p.reported, 1)
	require.Equal(w.t, kind, p.reported[0].kind)
	w.apply(&metadata.ElectReported{Elections: []metadata.ReportedElection{p.reported[0].ReportedElection}})
	return w.partition()
}

func (w *dutyWorld) quiet(p dutyPlan) {
	w.t.Helper()
	require.Empty(w.t, p.reported)
	require.Empty(w.t, p.elect)
	require.Empty(w.t, p.unsafe)
	require.Empty(w.t, p.cancel)
}

func asked(p dutyPlan) (ids []int32) {
	for id := range p.wanted {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func TestTheReportThatCompletesAMajorityElectsTheMostCompleteLog(t *testing.T) {
	w := newQuorumWorld(t, 1, 2, 3)
	w.fence(1)
	epoch := w.partition().LeaderEpoch
	p := w.plan()
	w.quiet(p)
	require.Equal(t, []int32{1, 2, 3}, asked(p), "every registered replica is asked")
	require.Empty(t, p.waiting, "nobody is told of what takes a moment")
	require.NotEmpty(t, p.slow[w.id])
	w.report(2, 0, 5)
	p = w.plan()
	w.quiet(p)
	require.Equal(t, []int32{1, 3}, asked(p))
	w.report(3, 0, 7)
	led := w.reported(w.plan(), kindReported)
	require.Equal(t, int32(3), led.Leader)
	require.Equal(t, epoch, led.LeaderEpoch, "the epoch that was promised stays")
	require.Equal(t, []int32{3}, led.ISR)
}

func TestReportsOfADeadProcessAndOfAnotherEpochElectNobody(t *testing.T) {
	w := newQuorumWorld(t, 1, 2, 3)
	w.fence(1)
	w.report(2, 0, 5)
	w.report(3, 0, 7)
	p := w.plan()
	w.comeBack(2) // after its report it has lost its memory
	res, _ := w.state.Apply(w.index+1, &metadata.ElectReported{Elections: []metadata.ReportedElection{p.reported[0].ReportedElection}})
	w.index++
	require.Error(t, res.Items[0], "the state machine sees what happened since")
	p = w.plan()
	w.quiet(p)
	require.Contains(t, asked(p), int32(2))

	w = newQuorumWorld(t, 1, 2, 3)
	w.report(2, 0, 5) // of the epoch that 1 leads
	w.report(3, 0, 7)
	w.fence(1)
	w.quiet(w.plan())
	w.report(3, 0, 7)
	w.quiet(w.plan())
	w.report(2, 0, 5)
	w.reported(w.plan(), kindReported)
}

func TestAnObserverAndAReplicaThatMayHaveLostRecordsDoNotVote(t *testing.T) {
	w := newQuorumWorld(t, 1, 2, 3)
	w.comeBack(3)
	w.epoch[4] = w.alive(4)
	w.apply(&metadata.Reassign{Items: []metadata.Reassignment{{Partition: w.id, PartitionEpoch: metadata.AnyPartitionEpoch, Target: []int32{1, 2, 4}}}})
	w.fence(1)
	w.report(2, 0, 5)
	w.report(3, 0, 5)
	w.report(4, 0, 5)
	p := w.plan()
	w.quiet(p)
	require.NotContains(t, asked(p), int32(4))
}

// S54: two followers lose power, and the leader is fenced by mistake again and again.
func TestTheLastLeaderLeadsAgainOnItsOwnReportEachTime(t *testing.T) {
	w := newQuorumWorld(t, 1, 2, 3)
	w.comeBack(2)
	w.comeBack(3)
	for try := range 10 {
		epoch := w.partition().LeaderEpoch
		w.fence(1)
		require.Equal(t, epoch+1, w.partition().LeaderEpoch)
		w.report(2, 0, 0)
		w.report(3, 0, 0)
		w.report(1, epoch, int64(try))
		w.quiet(w.plan())
		require.NotEqual(t, metadata.OfflineUnsafe, w.state.Image().Safety(w.partition()))
		w.unfence(1)
		p := w.plan()
		if wait := w.facts.flaps[w.id].wait(); wait > 0 {
			w.quiet(p)
			require.Equal(t, w.now.Add(wait), p.again, "leaders that do not live are elected later and later")
			w.now = p.again
			p = w.plan()
		}
		require.Equal(t, int32(1), w.reported(p, kindLastLeader).Leader)
		w.facts.flaps[w.id] = flap{tries: w.facts.flaps[w.id].tries + 1, at: w.now}
	}
}

func TestAFencedReporterVotesAndDoesNotLead(t *testing.T) {
	w := newQuorumWorld(t, 1, 2, 3)
	w.fence(1)
	w.fence(2)
	w.report(2, 0, 9)
	w.report(3, 0, 5)
	w.quiet(w.plan())
	w.report(1, 0, 5)
	require.Equal(t, int32(3), w.reported(w.plan(), kindReported).Leader, "a majority remains without the fenced one")
}

// fill certifies a replica in the leader's name.
func (w *dutyWorld) fill(id int32) {
	p := w.partition()
	w.apply(&metadata.Certify{Items: []metadata.Certification{{
		Partition: w.id, LeaderEpoch: p.LeaderEpoch, LeaderBrokerEpoch: p.LeaderBrokerEpoch,
		Broker: metadata.BrokerEpoch{ID: id, Epoch: w.epoch[id]}, JoinPE: p.Member(id).JoinPE,
	}}})
}

func (w *dutyWorld) reassign(target ...int32) {
	w.apply(&metadata.Reassign{Items: []metadata.Reassignment{{Partition: w.id, PartitionEpoch: w.partition().PartitionEpoch, Target: target}}})
}

func (w *dutyWorld) enterJoint() {
	p := w.plan()
	require.Len(w.t, p.joint, 1)
	w.apply(&metadata.EnterJoint{Items: p.joint})
	require.NotEmpty(w.t, w.partition().NewReplicas)
}

func TestJointMajoritiesAreEnteredWhenAllOfTheTargetIsTrustedAndEnoughOfItLives(t *testing.T) {
	w := newQuorumWorld(t, 1, 2, 3)
	w.epoch[4], w.epoch[5] = w.alive(4), w.alive(5)
	w.reassign(3, 4, 5)
	require.Empty(t, w.plan().joint)
	w.fill(4)
	require.Empty(t, w.plan().joint, "one is not full yet")
	w.fill(5)
	w.fence(4)
	w.fence(5)
	require.Empty(t, w.plan().joint, "nothing could be committed")
	w.unfence(5)
	w.fence(1)
	require.Empty(t, w.plan().joint, "nobody leads")
	w.report(2, 0, 1)
	w.report(3, 0, 1)
	w.reported(w.plan(), kindReported)
	p := w.plan()
	require.Empty(t, p.still)
	w.enterJoint()
	require.Empty(t, w.plan().joint)
}

func TestAJointMajorityElectsByBothSets(t *testing.T) {
	w := newQuorumWorld(t, 1, 2, 3)
	w.epoch[4], w.epoch[5] = w.alive(4), w.alive(5)
	w.reassign(3, 4, 5)
	w.fill(4)
	w.fill(5)
	w.enterJoint()
	w.fence(1)
	require.Equal(t, []int32{1, 2, 3, 4, 5}, asked(w.plan()))
	w.report(2, 0, 1)
	w.report(3, 0, 1)
	w.quiet(w.plan())
	w.report(4, 0, 2)
	require.Equal(t, int32(4), w.reported(w.plan(), kindReported).Leader)
}

func TestAJointMajorityThatCannotElectIsCancelledUnlessItsLastLeaderIsThere(t *testing.T) {
	lost := func() *dutyWorld {
		w := newQuorumWorld(t, 1, 2, 3)
		w.epoch[4], w.epoch[5] = w.alive(4), w.alive(5)
		w.reassign(3, 4, 5)
		w.fill(4)
		w.fill(5)
		w.enterJoint()
		w.comeBack(4)
		w.comeBack(5)
		return w
	}
	w := lost()
	w.quiet(w.plan()) // led: the leader certifies them
	w.fence(1)
	p := w.plan()
	require.Len(t, p.cancel, 1)
	w.apply(&metadata.Reassign{Items: p.cancel})
	require.Empty(t, w.partition().NewReplicas)
	require.Equal(t, []record.PartitionID{w.id}, w.plan().still)
	w.report(2, 0, 1)
	w.report(3, 0, 1)
	w.reported(w.plan(), kindReported)

	w = lost()
	w.restart(1) // it may lead again on its own report
	w.quiet(w.plan())
	w.report(1, 0, 1)
	require.Equal(t, int32(1), w.reported(w.plan(), kindLastLeader).Leader)
}

func TestObserversAreDroppedBeforeAnUnsafeElection(t *testing.T) {
	w := newQuorumWorld(t, 1, 2, 3)
	w.epoch[4] = w.alive(4)
	w.reassign(2, 3, 4)
	for id := int32(1); id <= 3; id++ {
		w.comeBack(id)
	}
	require.Equal(t, metadata.OfflineUnsafe, w.state.Image().Safety(w.partition()))
	p := w.plan()
	require.Empty(t, p.unsafe)
	require.Len(t, p.cancel, 1)
	w.apply(&metadata.Reassign{Items: p.cancel})
	p = w.plan()
	require.Contains(t, p.waiting[w.id], "wait-all: no report from nodes 1, 2, 3")
	w.report(1, 0, 1)
	w.report(2, 0, 3)
	w.quiet(w.plan())
	w.report(3, 0, 2)
	led := w.unsafe(w.plan())
	require.Equal(t, int32(2), led.Leader)
	require.Equal(t, led.LeaderEpoch, led.LossEpoch)
}

func TestObserversAreDroppedBeforeAnUncleanElection(t *testing.T) {
	w := newDutyWorld(t, metadata.RecoverWaitAll, 1, 2)
	w.epoch[3] = w.alive(3)
	w.reassign(2, 3)
	w.isr(1)
	w.fence(1)
	w.quiet(w.plan()) // 1 may come back
	w.facts.forced[w.id] = metadata.NoNode
	p := w.plan()
	require.Empty(t, p.unsafe)
	require.Len(t, p.cancel, 1)
	w.apply(&metadata.Reassign{Items: p.cancel})
	w.report(2, 0, 1)
	require.Equal(t, int32(2), w.unsafe(w.plan()).Leader)
}

func TestAnUncleanElectionMayNameItsLeader(t *testing.T) {
	for _, rule := range []metadata.CommitRule{metadata.RuleISR, metadata.RuleQuorum} {
		w := newDutyWorldOf(t, rule, metadata.RecoverManual, 1, 2, 3)
		for id := int32(1); id <= 3; id++ {
			w.comeBack(id)
		}
		require.Equal(t, metadata.OfflineUnsafe, w.state.Image().Safety(w.partition()), rule)
		w.fence(3)
		w.report(1, 0, 1)
		w.report(2, 0, 3)
		w.report(3, 0, 2)
		require.Contains(t, w.plan().waiting[w.id], "an operator")
		w.facts.forced[w.id] = 3
		require.Contains(t, w.plan().waiting[w.id], "unclean election of node 3", "a fenced one cannot lead")
		w.facts.forced[w.id] = 1
		require.Equal(t, int32(1), w.unsafe(w.plan()).Leader, fmt.Sprint(rule))
	}
}
