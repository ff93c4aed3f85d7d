package metadata

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// S48: B lost power and is not certified when the topic is changed to disk. Only what the evidence shows is trusted after.
func TestTheChangeToDiskMakesNoAmnesiacTrusted(t *testing.T) {
	for _, rule := range []CommitRule{RuleISR, RuleQuorum} {
		w, p := abcOf(t, rule, DurabilityMemory, 2)
		trusted := func() []int32 { return TrustedReplicas(w.at(p), w.s.Image().Broker) }
		w.restart(b, losePower)
		require.Equal(t, []int32{a, c}, trusted())
		before := w.at(p)
		counted := w.finish(p, a, b, c)
		require.NoError(t, w.configure(p, TopicConfigChange{Durability: DurabilityDisk}))
		r := w.at(p)
		require.Equal(t, DurabilityMemoryToDisk, r.Durability)
		require.Equal(t, []int32{a, before.LeaderEpoch + 1, r.PartitionEpoch}, []int32{r.Leader, r.LeaderEpoch, r.BeginPE}, "A takes office again: positions of before an fsync are forgotten")
		require.Equal(t, before.LeaderBrokerEpoch, r.LeaderBrokerEpoch)
		require.Equal(t, []int32{a, c}, trusted(), "trust is still that of memory")
		require.ErrorIs(t, w.finished(counted), ErrFencedLeaderEpoch, "durNoBump: positions of the epoch before")

		require.ErrorIs(t, w.finished(w.finish(p, a)), ErrNotEligible, "%s", rule)
		require.ErrorIs(t, w.finished(w.finish(p, b, c)), ErrNotEligible, "the leader is not proven")
		require.NoError(t, w.finished(w.finish(p, a, c)))
		require.Equal(t, DurabilityDisk, w.at(p).Durability)
		require.Zero(t, w.at(p).BeginPE)
		require.Equal(t, []int64{w.epoch(a).Epoch, -1, w.epoch(c).Epoch}, w.certs(p, a, b, c))
		require.Equal(t, []int32{a, c}, trusted(), "%s", rule)
		w.certify(p, b)
		w.restart(b, losePower)
		require.Equal(t, []int32{a, b, c}, trusted(), "a power loss takes nothing that was flushed")
	}
}

// A bare majority finishes; who was not in the evidence starts anew, whatever it was trusted with in memory.
func TestWhoIsNotProvenOnDiskLosesItsTrust(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
	require.NoError(t, w.configure(p, TopicConfigChange{Durability: DurabilityDisk}))
	require.NoError(t, w.finished(w.finish(p, a, b)))
	require.Equal(t, []int32{a, b}, TrustedReplicas(w.at(p), w.s.Image().Broker))
	w.begin(p)
	require.ErrorIs(t, w.electReported(p, b, w.report(b, 1, 9), w.report(c, 1, 9)), ErrNotEligible, "C has no vote yet")
}

// S48, the other half: all lose power before the change is finished. It counts as in memory until then.
func TestAPowerLossBeforeTheFinishCountsAsInMemory(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
	require.NoError(t, w.configure(p, TopicConfigChange{Durability: DurabilityDisk}))
	f := w.finish(p, a, b)
	for _, id := range []int32{a, b, c} {
		w.restart(id, losePower)
	}
	require.Error(t, w.finished(f))
	require.Equal(t, OfflineUnsafe, w.s.Image().Safety(w.at(p)))
}

func TestTheChangeToDiskNeedsALeader(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
	w.fence(a)
	before := w.at(p)
	require.ErrorIs(t, w.configure(p, TopicConfigChange{Durability: DurabilityDisk}), ErrNotEligible)
	require.Same(t, before, w.at(p))
	require.NoError(t, w.configure(p, TopicConfigChange{Durability: DurabilityMemory}), "as it is")
}

func TestTheISRRuleNeedsItsWholeISROnDisk(t *testing.T) {
	w, p := abcOf(t, RuleISR, DurabilityMemory, 2)
	require.NoError(t, w.configure(p, TopicConfigChange{Durability: DurabilityDisk}))
	require.ErrorIs(t, w.finished(w.finish(p, a, b)), ErrNotEligible, "C is in the ISR")
	require.NoError(t, w.alter(p, a))
	require.Equal(t, []int32{b, c}, w.at(p).ELR)
	require.ErrorIs(t, w.finished(w.finish(p, a)), ErrNotEligible, "an ISR below the minimum")
	require.NoError(t, w.alter(p, a, c))
	require.NoError(t, w.finished(w.finish(p, a, c)))
	require.Empty(t, w.at(p).ELR)
}

func TestTheChangeToDiskIsTakenBackAtAnyTime(t *testing.T) {
	w, p := abcOf(t, RuleISR, DurabilityMemory, 2)
	require.NoError(t, w.configure(p, TopicConfigChange{Durability: DurabilityDisk}))
	late := w.finish(p, a, b, c)
	before := w.at(p)
	require.NoError(t, w.configure(p, TopicConfigChange{Durability: DurabilityMemory}))
	r := w.at(p)
	require.Equal(t, DurabilityMemory, r.Durability)
	require.Zero(t, r.BeginPE)
	require.Equal(t, []int32{before.LeaderEpoch, before.PartitionEpoch + 1}, []int32{r.LeaderEpoch, r.PartitionEpoch})
	require.ErrorIs(t, w.finished(late), ErrInvalidUpdate)
}

// On a disk topic a power loss takes nothing, in memory every one does, those before as well: who is trusted on the way
// back is certified as of now.
func TestTheWayBackToMemoryUntrustsNobody(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityDisk, 2)
	w.restart(b, losePower)
	w.restart(c, func(r *RegisterBroker) { r.Mismatch = true })
	require.Equal(t, []int32{a, b}, TrustedReplicas(w.at(p), w.s.Image().Broker))
	before := w.at(p)
	require.NoError(t, w.configure(p, TopicConfigChange{Durability: DurabilityMemory}))
	r := w.at(p)
	require.Equal(t, DurabilityMemory, r.Durability)
	require.Equal(t, []int32{before.LeaderEpoch, before.PartitionEpoch + 1, 0}, []int32{r.LeaderEpoch, r.PartitionEpoch, r.BeginPE})
	require.Equal(t, []int64{w.epoch(a).Epoch, w.epoch(b).Epoch}, w.certs(p, a, b))
	require.Equal(t, []int32{a, b}, TrustedReplicas(r, w.s.Image().Broker), "C's disk is another one, and stays untrusted")
	w.restart(b, losePower)
	require.Equal(t, []int32{a}, TrustedReplicas(w.at(p), w.s.Image().Broker))
}

// A last leader of a disk topic lost power: followers may have flushed what it committed and had not. The way back to
// memory leaves it its vote, and does not make its own report enough.
func TestTheWayBackToMemoryDoesNotMakeALastLeaderComplete(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityDisk, 2)
	w.restart(a, losePower)
	w.unfence(a)
	require.ErrorIs(t, w.electReported(p, a, w.report(a, 0, 5)), ErrNotEligible)
	require.NoError(t, w.configure(p, TopicConfigChange{Durability: DurabilityMemory}))
	require.Equal(t, []int32{a, b, c}, TrustedReplicas(w.at(p), w.s.Image().Broker))
	require.ErrorIs(t, w.electReported(p, a, w.report(a, 0, 5)), ErrNotEligible)
	_, ok, _ := ChooseReported(w.at(p), []ReplicaReport{w.report(a, 0, 5)}, w.s.Image().Broker)
	require.False(t, ok)
	require.NoError(t, w.electReported(p, b, w.report(a, 0, 5), w.report(b, 0, 6)))

	// One that lost nothing keeps its word.
	w, p = abcOf(t, RuleQuorum, DurabilityDisk, 2)
	w.fence(a)
	require.NoError(t, w.configure(p, TopicConfigChange{Durability: DurabilityMemory}))
	w.unfence(a)
	require.NoError(t, w.electReported(p, a, w.report(a, 0, 5)))

	// One that leads has lost nothing since its election, however long ago it was certified.
	w, p = abcOf(t, RuleISR, DurabilityDisk, 1)
	require.NoError(t, w.alter(p, a, b))
	w.restart(a, losePower)
	w.unfence(a)
	require.NoError(t, w.alter(p, b, a))
	w.fence(b)
	require.Less(t, w.at(p).Member(a).Cert, w.s.Image().Broker(a).LossPower)
	require.NoError(t, w.configure(p, TopicConfigChange{Durability: DurabilityMemory}))
	require.Equal(t, []int32{a, a}, []int32{w.at(p).Leader, w.at(p).LastLeader})
}

// The unsafe election of the quorum rule (S51): everybody else starts anew, so that the next death is flagged too.
func TestAnUnsafeQuorumElectionCertifiesItsLeaderAlone(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
	unsafe := func(forced bool) UnsafeElection {
		u := UnsafeElection{Partition: p, Epoch: w.at(p).LeaderEpoch, Leader: w.epoch(b), Forced: forced}
		u.Reports = []ReplicaReport{w.report(a, 0, 5), w.report(b, 0, 7), w.report(c, 0, 6)}
		return u
	}
	try := func(forced bool) error { return w.one(&UnsafeElect{Elections: []UnsafeElection{unsafe(forced)}}) }
	w.restart(b, losePower)
	w.fence(a)
	w.unfence(b)
	require.ErrorIs(t, try(false), ErrElectionNotNeeded, "the trusted majority of A and C has reported, so a safe leader can be elected")
	w.restart(c, losePower)
	w.unfence(c)
	require.ErrorIs(t, try(false), ErrNotEligible, "the last leader may come back")
	w.index++
	r, delta := w.s.Apply(w.index, &RegisterBroker{Broker: Broker{ID: a, Incarnation: "new", DirectoryID: "new disk", MinLevel: 1, MaxLevel: LatestLevel}})
	require.NoError(t, r.Err)
	require.Equal(t, EventPartitionUnsafe, delta.Events[len(delta.Events)-1].Kind, "no record changed, and it is told all the same")
	require.Equal(t, OfflineUnsafe, w.s.Image().Safety(w.at(p)))
	require.NoError(t, try(false))
	x := w.at(p)
	require.Equal(t, []int64{-1, w.epoch(b).Epoch, -1}, w.certs(p, a, b, c))
	require.Equal(t, []int32{b, b, x.LeaderEpoch}, []int32{x.Leader, x.LastLeader, x.LossEpoch})
	require.Equal(t, []int32{b}, x.ISR)
	w.unfence(a)
	w.fence(b)
	require.Contains(t, w.events(&RegisterBroker{Broker: Broker{ID: b, Incarnation: "after", DirectoryID: "other disk", MinLevel: 1, MaxLevel: LatestLevel}}), EventPartitionUnsafe, "S51: X dies, and it is told again")
	require.Equal(t, OfflineUnsafe, w.s.Image().Safety(w.at(p)))
}

// A fence of the last trusted replica that is up is told, though it changes no record.
func TestAWaitForReportsIsToldWhenItBecomesLong(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
	fence := func(id int32) []string { return w.events(&FenceBrokers{Brokers: []BrokerEpoch{w.epoch(id)}}) }
	require.NotContains(t, fence(a), EventPartitionOffline, "B and C elect at once")
	require.Contains(t, fence(b), EventPartitionOffline, "C alone does not")
	require.NotContains(t, fence(c), EventPartitionOffline, "that was told")
	require.Equal(t, NoNode, w.at(p).Leader)
}
