package metadata

import (
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/logstore/record"
)

func TestATargetIsJudgedBeforeAnythingMoves(t *testing.T) {
	for name, x := range map[string]struct {
		rule   CommitRule
		target []int32
		want   error
	}{
		"the replicas it has":     {RuleISR, []int32{a, b, c}, ErrInvalidAssignment},
		"an unknown node":         {RuleISR, []int32{a, b, 9}, ErrInvalidAssignment},
		"a node twice":            {RuleISR, []int32{d, d, a}, ErrInvalidAssignment},
		"fewer than the minimum":  {RuleISR, []int32{d}, ErrInvalidAssignment},
		"two under quorum":        {RuleQuorum, []int32{d, e}, ErrInvalidConfig},
		"nothing to cancel":       {RuleISR, nil, ErrNoReassignment},
		"nothing to cancel under": {RuleQuorum, []int32{}, ErrNoReassignment},
	} {
		t.Run(name, func(t *testing.T) {
			w, p := abcOf(t, x.rule, DurabilityMemory, 2)
			before := w.at(p)
			require.ErrorIs(t, w.reassign(p, x.target...), x.want)
			require.Same(t, before, w.at(p))
		})
	}
	w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
	stale := Reassignment{Partition: p, PartitionEpoch: w.at(p).PartitionEpoch + 1, Target: []int32{d, e, a}}
	require.ErrorIs(t, w.one(&Reassign{Items: []Reassignment{stale}}), ErrInvalidUpdate)
	require.NoError(t, w.reassign(p, c, d, e))
	require.ErrorIs(t, w.reassign(p, a, b, d), ErrChangeUnderWay)
	require.NoError(t, w.configure(p, TopicConfigChange{Set: map[string]string{SettingMinAcks: "3"}}))
	require.NoError(t, w.reassign(p))
	five := w.topicOf("five", RuleQuorum, DurabilityMemory, 3, []int32{a, b, c, d, e})
	require.NoError(t, w.configure(five, TopicConfigChange{Set: map[string]string{SettingMinAcks: "5"}}))
	require.ErrorIs(t, w.reassign(five, a, b, c, d), ErrInvalidAssignment, "min.acks asks for five copies")
}

// A target that only prefers others is one record: there is nothing to fill and nobody leaves.
func TestAnotherOrderOfTheReplicasIsOneRecord(t *testing.T) {
	for _, rule := range []CommitRule{RuleISR, RuleQuorum} {
		w, p := abcOf(t, rule, DurabilityMemory, 2)
		before := w.at(p)
		require.NoError(t, w.reassign(p, c, a, b))
		r := w.at(p)
		require.Equal(t, []int32{c, a, b}, r.Replicas)
		require.Equal(t, []int32{a, before.LeaderEpoch, before.PartitionEpoch + 1, 0}, []int32{r.Leader, r.LeaderEpoch, r.PartitionEpoch, r.BeginPE})
		require.Equal(t, NoChange, r.Change())
		require.Equal(t, before.Members, r.Members)
		require.ElementsMatch(t, before.ISR, r.ISR)
	}
}

// S24b and step 0: new replicas come in as observers. They count for nothing, and the old ones elect without them.
func TestObserversHaveNoVoteUntilAllOfThemAreTrusted(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
	before := w.at(p)
	require.NoError(t, w.reassign(p, c, d, e))
	r := w.at(p)
	require.Equal(t, []int32{c, d, e}, r.Adding)
	require.Equal(t, []int32{a, b, c}, r.Replicas)
	require.Equal(t, []int32{before.PartitionEpoch + 1, before.PartitionEpoch + 1, before.LeaderEpoch}, []int32{r.PartitionEpoch, r.BeginPE, r.LeaderEpoch})
	require.Equal(t, *before.Member(c), *r.Member(c), "C stays")
	for _, id := range []int32{d, e} {
		require.Equal(t, Replica{ID: id, JoinPE: r.PartitionEpoch, Cert: -1}, *r.Member(id))
	}
	require.ErrorIs(t, w.alter(p, a, d), ErrInvalidRequest, "no observer is in sync under the quorum rule")
	require.ErrorIs(t, w.finished(w.finish(p, a, b, c, d, e)), ErrNotEligible, "finalEarly: the new replicas are not in force")
	ready, untrusted := JointReady(r, w.s.Image().Broker)
	require.False(t, ready)
	require.Equal(t, []int32{d, e}, untrusted)
	require.ErrorIs(t, w.enterJoint(p), ErrNotEligible)
	w.certify(p, d)
	require.ErrorIs(t, w.enterJoint(p), ErrNotEligible, "noObservers: every one of them")

	w.fence(a)
	require.ErrorIs(t, w.electReported(p, d, w.report(b, 0, 5), w.report(d, 0, 9)), ErrInvalidRequest, "an observer has no vote")
	require.NoError(t, w.electReported(p, b, w.report(b, 0, 5), w.report(c, 0, 5)))
	w.certify(p, e)
	late := JointEntry{Partition: p, PartitionEpoch: w.at(p).PartitionEpoch - 1}
	require.ErrorIs(t, w.one(&EnterJoint{Items: []JointEntry{late}}), ErrInvalidUpdate)
	require.NoError(t, w.enterJoint(p))
	j := w.at(p)
	require.Equal(t, []int32{c, d, e}, j.NewReplicas)
	require.Empty(t, j.Adding)
	require.Equal(t, []int32{j.PartitionEpoch, 1, b}, []int32{j.BeginPE, j.LeaderEpoch, j.Leader})
	require.ErrorIs(t, w.enterJoint(p), ErrNoReassignment, "again")
}

// S46: until both sets are proven nothing is finished, whatever the high watermark says.
func TestAReassignmentIsFinishedOnPositionsOfBothSets(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
	w.joint(p, c, d, e)
	require.ErrorIs(t, w.finished(w.finish(p, a, b, c)), ErrNotEligible, "proofByHW: one of the new ones")
	require.ErrorIs(t, w.finished(w.finish(p, c, d, e)), ErrNotEligible, "one of the present ones")
	w.restart(d, losePower)
	w.restart(e, losePower)
	require.ErrorIs(t, w.finished(w.finish(p, a, c, d, e)), ErrNotEligible, "the new set has no trusted majority")
	w.certify(p, d)
	before := w.at(p)
	require.NoError(t, w.finished(w.finish(p, a, c, d)))
	r := w.at(p)
	require.Equal(t, []int32{c, d, e}, r.Replicas)
	require.Empty(t, r.NewReplicas)
	require.Equal(t, []int32{NoNode, before.LeaderEpoch + 1, before.PartitionEpoch + 1, 0}, []int32{r.Leader, r.LeaderEpoch, r.PartitionEpoch, r.BeginPE}, "A leads no more: it is no replica")
	require.Nil(t, r.Member(a))
	require.Equal(t, before.Member(d), r.Member(d))
	require.ErrorIs(t, w.electReported(p, a, w.report(a, 1, 20)), ErrInvalidRequest)
	w.unfence(d)
	require.NoError(t, w.electReported(p, d, w.report(c, 1, 20), w.report(d, 1, 20)))
}

// A leader that stays takes office again: the epoch ends every stay of before.
func TestALeaderThatStaysTakesOfficeInANewEpoch(t *testing.T) {
	for name, end := range map[string]func(w *world, p record.PartitionID) error{
		"finished":       func(w *world, p record.PartitionID) error { return w.finished(w.finish(p, a, b, d, e)) },
		"taken back":     func(w *world, p record.PartitionID) error { return w.reassign(p) },
		"even if led by": func(w *world, p record.PartitionID) error { w.fence(a); return w.reassign(p) },
	} {
		t.Run(name, func(t *testing.T) {
			w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
			require.NoError(t, w.alter(p, a, b, c))
			w.joint(p, a, d, e)
			require.NoError(t, w.alter(p, a, b, c, d))
			before := w.at(p)
			require.NoError(t, end(w, p))
			r := w.at(p)
			require.Greater(t, r.LeaderEpoch, before.LeaderEpoch)
			require.Len(t, r.Members, 3)
			for _, id := range r.ISR {
				require.Contains(t, r.Replicas, id)
			}
			if name != "even if led by" {
				require.Equal(t, []int32{a, before.LeaderEpoch + 1, before.PartitionEpoch + 1}, []int32{r.Leader, r.LeaderEpoch, r.PartitionEpoch})
				require.Equal(t, before.LeaderBrokerEpoch, r.LeaderBrokerEpoch)
			}
		})
	}
}

// S25: a finish of the epoch before, and one of the record before, come late.
func TestALateFinishOfAReassignmentIsRefused(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
	require.NoError(t, w.reassign(p, c, d, e))
	early := w.finish(p, a, b, c, d, e)
	w.certify(p, d, e)
	require.NoError(t, w.enterJoint(p))
	require.ErrorIs(t, w.finished(early), ErrInvalidUpdate, "its point was taken before both sets were in force")
	late := w.finish(p, a, b, c, d, e)
	w.begin(p)
	require.NoError(t, w.electReported(p, c, w.report(b, 1, 9), w.report(c, 1, 9), w.report(d, 1, 9)))
	require.ErrorIs(t, w.finished(late), ErrFencedLeaderEpoch)
	require.NoError(t, w.finished(w.finish(p, b, c, d)))
	require.Equal(t, c, w.at(p).Leader, "a leader of the new set stays")
}

func TestAReassignmentIsTakenBackWithoutProof(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
	require.NoError(t, w.reassign(p, c, d, e))
	w.certify(p, d)
	before := w.at(p)
	cancel := Reassignment{Partition: p, PartitionEpoch: before.PartitionEpoch}
	require.NoError(t, w.one(&Reassign{Items: []Reassignment{cancel}}))
	r := w.at(p)
	require.Equal(t, []int32{a, b, c}, r.Replicas)
	require.Equal(t, []int32{a, before.LeaderEpoch + 1, before.PartitionEpoch + 1, 0}, []int32{r.Leader, r.LeaderEpoch, r.PartitionEpoch, r.BeginPE})
	require.Nil(t, r.Member(d))
	require.ErrorIs(t, w.one(&Reassign{Items: []Reassignment{cancel}}), ErrInvalidUpdate, "sent twice")

	// With both sets in force, and led by a new replica.
	w.joint(p, c, d, e)
	w.begin(p)
	require.NoError(t, w.electReported(p, d, w.report(b, 1, 9), w.report(c, 1, 9), w.report(d, 2, 9)))
	before = w.at(p)
	require.NoError(t, w.reassign(p))
	r = w.at(p)
	require.Equal(t, []int32{a, b, c}, r.Replicas)
	require.Equal(t, []int32{NoNode, before.LeaderEpoch + 1, before.PartitionEpoch + 1}, []int32{r.Leader, r.LeaderEpoch, r.PartitionEpoch})
	require.ErrorIs(t, w.electReported(p, d, w.report(d, 3, 9)), ErrInvalidRequest, "the last leader is no replica any more")
	require.NoError(t, w.electReported(p, b, w.report(b, 2, 9), w.report(c, 1, 9)))
}

// S49: C is moved away and back, and what was said of its first stay comes late.
func TestWhatWasSaidOfAnEarlierStayDoesNotSpeakForALaterOne(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
	late := w.certification(p, c)
	w.joint(p, a, b, d)
	require.NoError(t, w.finished(w.finish(p, a, b, d)))
	require.Nil(t, w.at(p).Member(c))
	require.NoError(t, w.reassign(p, a, b, c))
	require.Equal(t, int64(-1), w.at(p).Member(c).Cert)
	require.ErrorIs(t, w.one(&Certify{Items: []Certification{late}}), ErrFencedLeaderEpoch, "finNoBump: every stay ends with its epoch")
	late.LeaderEpoch = w.at(p).LeaderEpoch
	require.ErrorIs(t, w.one(&Certify{Items: []Certification{late}}), ErrInvalidUpdate, "and names the record by which it began")
	require.ErrorIs(t, w.enterJoint(p), ErrNotEligible)
	w.certify(p, c)
	require.NoError(t, w.enterJoint(p))
}

// Damage ends a stay too: what the leader said before, or says of a fetch of before, is refused.
func TestDamageEndsTheStayOfAReplica(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
	late := w.certification(p, b)
	w.damage(p, b)
	r := w.at(p)
	require.Equal(t, Replica{ID: b, JoinPE: r.PartitionEpoch, Cert: -1}, *r.Member(b))
	require.ErrorIs(t, w.one(&Certify{Items: []Certification{late}}), ErrInvalidUpdate)
	w.certify(p, b)

	old := newWorld(t, a, b, c)
	q := old.topic("orders", 2, []int32{a, b, c})
	old.damage(q, b)
	require.Zero(t, old.at(q).Member(b).JoinPE, "as binaries of level 1 have it")
}

// The ISR rule adds, then shrinks: new replicas join the ISR and count, and the old ones leave when all of them are in it.
func TestTheISRRuleAddsThenShrinks(t *testing.T) {
	w, p := abcOf(t, RuleISR, DurabilityMemory, 2)
	require.NoError(t, w.reassign(p, d, c, e))
	require.ErrorIs(t, w.enterJoint(p), ErrNoReassignment, "that is the other rule's way")
	require.NoError(t, w.alter(p, a, b, c, d))
	require.ErrorIs(t, w.finished(w.finish(p, a, b, c, d)), ErrNotEligible, "E is not in sync")
	require.NoError(t, w.alter(p, a, b, c, d, e))
	f := w.finish(p, a, b, c, d, e)
	f.Point = 0
	before := w.at(p)
	require.NoError(t, w.finished(f))
	r := w.at(p)
	require.Equal(t, []int32{d, c, e}, r.Replicas)
	require.Equal(t, []int32{d, c, e}, r.ISR)
	require.Empty(t, r.ELR)
	require.Empty(t, r.Adding)
	require.Equal(t, []int32{d, before.LeaderEpoch + 1, before.PartitionEpoch + 1, 0}, []int32{r.Leader, r.LeaderEpoch, r.PartitionEpoch, r.BeginPE}, "A leads no more, and D does in the same record")
	require.ErrorIs(t, w.finished(f), ErrFencedLeaderEpoch, "sent twice")

	w, p = abcOf(t, RuleISR, DurabilityMemory, 2)
	require.NoError(t, w.reassign(p, a, d, e))
	require.NoError(t, w.alter(p, a, b, c, d, e))
	before = w.at(p)
	require.NoError(t, w.finished(w.finish(p, a, b, c, d, e)))
	require.Equal(t, []int32{a, before.LeaderEpoch + 1}, []int32{w.at(p).Leader, w.at(p).LeaderEpoch}, "A stays")
}

// A new replica that is in the ISR holds everything, so it may lead, and may be in the ELR.
func TestANewReplicaInTheISRMayLead(t *testing.T) {
	w, p := abcOf(t, RuleISR, DurabilityMemory, 2)
	require.NoError(t, w.reassign(p, d, e))
	require.NoError(t, w.alter(p, a, d))
	w.fence(a)
	require.Equal(t, d, w.at(p).Leader)
	require.Equal(t, []int32{a}, w.at(p).ELR)
	require.ErrorIs(t, w.reassign(p), ErrNotEligible, "D alone has what is committed, with A that is away")
	require.False(t, MustCancel(w.at(p), w.s.Image().Broker))
	w.fence(d)
	require.Equal(t, []int32{a, d}, w.at(p).ELR)
	require.ErrorIs(t, w.reassign(p), ErrNotEligible)
	w.unfence(a)
	require.Equal(t, a, w.at(p).Leader)
	require.NoError(t, w.alter(p, a, b))
	require.NoError(t, w.reassign(p))
	require.Equal(t, []int32{a, b}, w.at(p).ISR)
}

// Nobody is known to have everything: the reassignment is taken back before anybody may be elected at a loss.
func TestAReassignmentIsTakenBackBeforeAnUnsafeElection(t *testing.T) {
	for _, rule := range []CommitRule{RuleISR, RuleQuorum} {
		w, p := abcOf(t, rule, DurabilityMemory, 2)
		require.NoError(t, w.reassign(p, c, d, e))
		for _, id := range []int32{a, b, c, d, e} {
			w.restart(id, losePower)
			w.unfence(id)
		}
		require.Equal(t, OfflineUnsafe, w.s.Image().Safety(w.at(p)))
		u := func() UnsafeElection {
			return UnsafeElection{Partition: p, Epoch: w.at(p).LeaderEpoch, Leader: w.epoch(b), Reports: []ReplicaReport{w.report(a, 0, 5), w.report(b, 0, 7), w.report(c, 0, 6)}}
		}
		require.ErrorIs(t, w.one(&UnsafeElect{Elections: []UnsafeElection{u()}}), ErrInvalidRequest)
		require.True(t, MustCancel(w.at(p), w.s.Image().Broker))
		require.NoError(t, w.reassign(p))
		require.False(t, MustCancel(w.at(p), w.s.Image().Broker))
		require.NoError(t, w.one(&UnsafeElect{Elections: []UnsafeElection{u()}}))
	}
}

// The last leader can come back on its own report: a reassignment is not taken back where that would end its claim.
func TestAReassignmentIsKeptWhereTakingItBackWouldHelpNobody(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
	w.joint(p, c, d, e)
	w.begin(p)
	require.NoError(t, w.electReported(p, d, w.report(b, 1, 9), w.report(c, 1, 9), w.report(d, 2, 9)))
	w.restart(a, losePower)
	w.restart(b, losePower)
	w.restart(c, losePower)
	w.restart(e, losePower)
	w.fence(d)
	require.Equal(t, Offline, w.s.Image().Safety(w.at(p)))
	require.False(t, MustCancel(w.at(p), w.s.Image().Broker))
	w.unfence(d)
	require.NoError(t, w.electReported(p, d, w.report(d, 3, 9)))
	require.False(t, MustCancel(w.at(p), w.s.Image().Broker), "somebody leads")
}

// A minimum that the smaller of the sets could not meet is refused while replicas are moved.
func TestTheMinimumFitsTheReplicasToCome(t *testing.T) {
	w := newWorldOf(t, QuorumLevel, a, b, c, d, e)
	p := w.topicOf("five", RuleISR, DurabilityMemory, 2, []int32{a, b, c, d, e})
	require.NoError(t, w.reassign(p, a, b, c))
	set := func(minISR int32) error {
		return w.apply(&SetMinISR{Partition: p, PartitionEpoch: w.at(p).PartitionEpoch, MinISR: minISR}).Err
	}
	require.ErrorIs(t, set(4), ErrInvalidConfig)
	require.ErrorIs(t, w.configure(p, TopicConfigChange{MinISR: 4}), ErrInvalidConfig)
	require.NoError(t, set(3))
	require.NoError(t, w.finished(w.finish(p, a, b, c)))
	require.Equal(t, []int32{a, b, c}, w.at(p).Replicas)
}

// S47, metadata part: an expansion that is sent twice wins once; one that is refused for now may win later, and raises the
// partition epoch when it does.
func TestALateCopyOfAnExpansionWinsAtMostOnce(t *testing.T) {
	w, p := abc(t, 2)
	require.NoError(t, w.alter(p, a, b))
	expand := w.proposal(p, a, b, c)
	send := func() error { return w.one(&AlterPartitions{Changes: []PartitionChange{expand}}) }
	require.NoError(t, send())
	require.ErrorIs(t, send(), ErrInvalidUpdate)

	require.NoError(t, w.alter(p, a, b))
	expand = w.proposal(p, a, b, c)
	w.fence(c)
	require.Equal(t, expand.PartitionEpoch, w.at(p).PartitionEpoch, "the fence changed nothing here")
	require.ErrorIs(t, send(), ErrIneligibleReplica)
	w.unfence(c)
	require.NoError(t, send(), "so a leader counts a refused proposal until a record ends it")
	require.Equal(t, expand.PartitionEpoch+1, w.at(p).PartitionEpoch)
	require.Equal(t, []int32{a, b, c}, w.at(p).ISR)
	require.ErrorIs(t, send(), ErrInvalidUpdate)
}

// What operators are told of changes is enough to show their history.
func TestChangesAreTold(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
	configure := func(c TopicConfigChange) []string {
		c.Topic = p.Topic
		return w.events(&AlterTopicConfigs{Topics: []TopicConfigChange{c}})
	}
	finish := func(ids ...int32) []string { return w.events(&FinishChange{Items: []Finish{w.finish(p, ids...)}}) }
	move := func(target ...int32) []string {
		return w.events(&Reassign{Items: []Reassignment{{Partition: p, PartitionEpoch: AnyPartitionEpoch, Target: target}}})
	}
	require.Equal(t, []string{EventReassignBegun}, move(a, b, d))
	require.Equal(t, []string{EventReassignCancelled}, move())
	move(a, b, d)
	w.certify(p, d)
	require.Equal(t, []string{EventReassignJoint}, w.events(&EnterJoint{Items: []JointEntry{{Partition: p, PartitionEpoch: w.at(p).PartitionEpoch}}}))
	require.Equal(t, []string{EventReassigned}, finish(a, b, d))
	require.Equal(t, []string{EventReassigned}, move(b, a, d))
	require.Equal(t, []string{EventRuleBegun}, configure(TopicConfigChange{Rule: RuleISR}))
	require.Equal(t, []string{EventRuleAborted}, configure(TopicConfigChange{Rule: RuleQuorum}))
	require.Equal(t, []string{EventDurabilityBegun}, configure(TopicConfigChange{Durability: DurabilityDisk}))
	require.Equal(t, []string{EventDurabilityAborted}, configure(TopicConfigChange{Durability: DurabilityMemory}))
	configure(TopicConfigChange{Durability: DurabilityDisk})
	require.Equal(t, []string{EventDurabilityFinished}, finish(a, b))
	require.Equal(t, []string{EventDurabilityFinished}, configure(TopicConfigChange{Durability: DurabilityMemory}))
	configure(TopicConfigChange{Rule: RuleISR})
	require.NoError(t, w.alter(p, a, b, d))
	require.Equal(t, []string{EventRuleFinished}, finish(a, b, d))
	require.Empty(t, configure(TopicConfigChange{Rule: RuleISR, Durability: DurabilityMemory}))
}
