package metadata

import (
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/logstore/record"
)

// A leader of the quorum rule that goes leaves nobody, in a new epoch: whoever is in the ISR may lack what was committed.
func TestAQuorumLeaderThatGoesIsNotReplacedFromTheISR(t *testing.T) {
	for name, goes := range map[string]func(w *world, p record.PartitionID){
		"fenced":     func(w *world, _ record.PartitionID) { w.fence(a) },
		"registered": func(w *world, _ record.PartitionID) { w.register(a) },
		"lost power": func(w *world, _ record.PartitionID) { w.restart(a, losePower) },
		"damaged":    func(w *world, p record.PartitionID) { w.damage(p, a) },
		"draining": func(w *world, _ record.PartitionID) {
			w.apply(&FenceBrokers{Brokers: []BrokerEpoch{w.epoch(a)}, Draining: true})
		},
		"begun anew":  func(w *world, p record.PartitionID) { w.begin(p) },
		"rule Q to I": func(w *world, p record.PartitionID) { _ = w.configure(p, TopicConfigChange{Rule: RuleISR}); w.fence(a) },
	} {
		t.Run(name, func(t *testing.T) {
			w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
			require.NoError(t, w.alter(p, a, b, c))
			before := w.at(p)
			goes(w, p)
			r := w.at(p)
			require.Equal(t, NoNode, r.Leader)
			require.Equal(t, before.LeaderEpoch+1, r.LeaderEpoch)
			require.Greater(t, r.PartitionEpoch, before.PartitionEpoch)
			require.Equal(t, a, r.LastLeader)
			require.Empty(t, r.ELR)
			require.ErrorIs(t, w.one(&Elect{Elections: []Election{{Partition: p, LeaderEpoch: r.LeaderEpoch, PartitionEpoch: r.PartitionEpoch, Leader: b}}}), ErrInvalidRequest)
		})
	}
}

func (w *world) damage(p record.PartitionID, id int32) {
	w.t.Helper()
	require.NoError(w.t, w.one(&ReplicaDamaged{Broker: w.epoch(id), Partitions: []record.PartitionID{p}}))
}

// S12: a start of an election that comes twice, or late, ends nobody's leadership.
func TestAStaleBeginElectionIsRefused(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
	start := ElectionStart{Partition: p, LeaderEpoch: 0, Leader: a}
	try := func(s ElectionStart) error { return w.one(&BeginElection{Elections: []ElectionStart{s}}) }
	require.ErrorIs(t, try(ElectionStart{Partition: p, LeaderEpoch: 0, Leader: b}), ErrInvalidUpdate, "another leader")
	require.ErrorIs(t, try(ElectionStart{Partition: p, LeaderEpoch: 1, Leader: a}), ErrInvalidRequest, "an epoch to come")
	require.NoError(t, try(start))
	require.ErrorIs(t, try(start), ErrFencedLeaderEpoch, "sent twice")
	require.NoError(t, w.electReported(p, b, w.report(b, 0, 5), w.report(c, 0, 4)))
	require.ErrorIs(t, try(start), ErrFencedLeaderEpoch, "sent late")
	require.Equal(t, []int32{b, 1}, []int32{w.at(p).Leader, w.at(p).LeaderEpoch})

	w.begin(p)
	w.begin(p) // nobody leads: the new epoch throws the reports of the last one away
	require.Equal(t, int32(3), w.at(p).LeaderEpoch)
	isr := w.topicOf("isr", RuleISR, DurabilityMemory, 2, []int32{a, b, c})
	require.ErrorIs(t, try(ElectionStart{Partition: isr, Leader: a}), ErrInvalidRequest, "its leaders come from the ISR")
}

func TestAnElectionByReportsKeepsTheEpochAndCertifiesTheLeader(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
	require.NoError(t, w.alter(p, a, b, c))
	w.fence(a)
	before := w.at(p)
	require.NoError(t, w.electReported(p, c, w.report(b, 0, 5), w.report(c, 0, 5)))
	r := w.at(p)
	require.Equal(t, []int32{c, c, before.LeaderEpoch, before.PartitionEpoch + 1}, []int32{r.Leader, r.LastLeader, r.LeaderEpoch, r.PartitionEpoch})
	require.Equal(t, []int32{c}, r.ISR)
	require.Equal(t, w.epoch(c).Epoch, r.LeaderBrokerEpoch)
	require.Equal(t, w.epoch(c).Epoch, r.Member(c).Cert)
	require.Equal(t, before.Member(b).Cert, r.Member(b).Cert)
}

// Every check of an election by reports, one at a time, on records where all the others hold.
func TestEveryCheckOfAnElectionByReportsStandsAlone(t *testing.T) {
	start := func() (*world, record.PartitionID) {
		w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
		w.fence(a)
		return w, p
	}
	for name, x := range map[string]struct {
		change func(w *world, p record.PartitionID, el *ReportedElection)
		want   error
	}{
		"epoch of before":  {func(_ *world, _ record.PartitionID, el *ReportedElection) { el.LeaderEpoch-- }, ErrFencedLeaderEpoch},
		"epoch to come":    {func(_ *world, _ record.PartitionID, el *ReportedElection) { el.LeaderEpoch++ }, ErrInvalidRequest},
		"no majority":      {func(_ *world, _ record.PartitionID, el *ReportedElection) { el.Voters = el.Voters[:1] }, ErrNotEligible},
		"nobody":           {func(_ *world, _ record.PartitionID, el *ReportedElection) { el.Voters = nil }, ErrNotEligible},
		"leader not heard": {func(w *world, _ record.PartitionID, el *ReportedElection) { el.Leader = w.epoch(a) }, ErrNotEligible},
		"one voter twice":  {func(_ *world, _ record.PartitionID, el *ReportedElection) { el.Voters[1] = el.Voters[0] }, ErrInvalidRequest},
		"voter of no vote": {func(w *world, _ record.PartitionID, el *ReportedElection) { el.Voters[1].Broker = w.epoch(d) }, ErrInvalidRequest},
		"voter unknown":    {func(_ *world, _ record.PartitionID, el *ReportedElection) { el.Voters[1].Broker.ID = 77 }, ErrBrokerNotRegistered},
		"voter of before":  {func(_ *world, _ record.PartitionID, el *ReportedElection) { el.Voters[1].Broker.Epoch-- }, ErrStaleBrokerEpoch},
		"longer log":       {func(_ *world, _ record.PartitionID, el *ReportedElection) { el.Voters[1].End++ }, ErrNotEligible},
		"newer epoch": {func(_ *world, _ record.PartitionID, el *ReportedElection) {
			el.Voters[1].LastEpoch, el.Voters[1].End = 1, 0
		}, ErrNotEligible},
		"fenced leader": {func(w *world, _ record.PartitionID, _ *ReportedElection) { w.fence(b) }, ErrNotEligible},
		"leader that stops": {func(w *world, _ record.PartitionID, _ *ReportedElection) {
			w.apply(&FenceBrokers{Brokers: []BrokerEpoch{w.epoch(b)}, Draining: true})
		}, ErrNotEligible},
		"damaged voter": {func(w *world, p record.PartitionID, _ *ReportedElection) { w.damage(p, c) }, ErrNotEligible},
		"led already": {func(w *world, p record.PartitionID, _ *ReportedElection) {
			require.NoError(w.t, w.electReported(p, c, w.report(b, 0, 5), w.report(c, 0, 5)))
		}, ErrElectionNotNeeded},
	} {
		t.Run(name, func(t *testing.T) {
			w, p := start()
			el := w.proven(p, b, w.report(b, 0, 5), w.report(c, 0, 5))
			require.NoError(t, CheckReported(w.at(p), &el, w.s.Image().Broker))
			x.change(w, p, &el)
			require.ErrorIs(t, w.one(&ElectReported{Elections: []ReportedElection{el}}), x.want)
		})
	}
	w := newWorldOf(t, QuorumLevel, a, b, c)
	p := w.topic("isr", 2, []int32{a, b, c})
	w.fence(a, b, c)
	require.ErrorIs(t, w.electReported(p, b, w.report(b, 0, 5), w.report(c, 0, 5)), ErrInvalidRequest, "its leaders come from the ISR")
}

// S5: B loses power between its report and the election, and registers first. Its report speaks for a log that is gone.
func TestAVoterThatRegistersAgainBeforeTheElectionDoesNotCount(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
	w.fence(a)
	el := w.proven(p, c, w.report(b, 0, 5), w.report(c, 0, 5))
	w.restart(b, losePower)
	require.ErrorIs(t, w.one(&ElectReported{Elections: []ReportedElection{el}}), ErrStaleBrokerEpoch)
	el.Voters[0].Broker = w.epoch(b)
	require.ErrorIs(t, w.one(&ElectReported{Elections: []ReportedElection{el}}), ErrNotEligible, "under its new process it is not trusted")

	// noVoterBE: also where nothing was lost, the process that promised is gone.
	w, p = abcOf(t, RuleQuorum, DurabilityMemory, 2)
	w.fence(a)
	el = w.proven(p, c, w.report(b, 0, 5), w.report(c, 0, 5))
	w.register(b)
	require.True(t, Trusted(w.at(p), b, w.s.Image().Broker))
	require.ErrorIs(t, w.one(&ElectReported{Elections: []ReportedElection{el}}), ErrStaleBrokerEpoch)
}

// S6: X is elected and dies before it sees that. Its next process is not the one that was elected.
func TestAQuorumGrantDiesWithTheProcess(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
	w.fence(a)
	require.NoError(t, w.electReported(p, b, w.report(b, 0, 5), w.report(c, 0, 5)))
	granted := w.at(p)
	w.restart(b, losePower)
	r := w.at(p)
	require.Equal(t, []int32{NoNode, granted.LeaderEpoch + 1}, []int32{r.Leader, r.LeaderEpoch})
	require.NotEqual(t, granted.LeaderBrokerEpoch, w.epoch(b).Epoch)
	w.unfence(b)
	require.ErrorIs(t, w.electReported(p, b, w.report(b, 0, 5)), ErrNotEligible, "it may have lost what it acknowledged")
	_, ok, why := ChooseReported(r, []ReplicaReport{w.report(b, 0, 5), w.report(c, 0, 5)}, w.s.Image().Broker)
	require.False(t, ok)
	require.Contains(t, why, "away: [1], may have lost records: [2]")
}

// S54: two followers lose power; the leader is fenced by mistake, again and again, and comes back on its own report.
func TestTheLastLeaderIsElectedOnItsOwnReport(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
	w.restart(b, losePower)
	w.restart(c, losePower)
	for range 10 {
		w.fence(a)
		require.Equal(t, Offline, w.s.Image().Safety(w.at(p)), "the last leader has everything")
		// Fenced between report and election, it is not elected: nobody would hear of it.
		require.ErrorIs(t, w.electReported(p, a, w.report(a, w.at(p).LeaderEpoch-1, 5)), ErrNotEligible)
		w.unfence(a)
		el, ok, why := ChooseReported(w.at(p), []ReplicaReport{w.report(a, 0, 5), w.report(b, 0, 5)}, w.s.Image().Broker)
		require.True(t, ok, why)
		require.False(t, el.ByMajority(w.at(p)))
		require.Equal(t, a, el.Leader.ID)
		require.NoError(t, w.one(&ElectReported{Elections: []ReportedElection{el}}))
	}
	require.ErrorIs(t, w.electReported(p, b, w.report(b, 0, 5)), ErrElectionNotNeeded)
	w.fence(a)
	w.unfence(b)
	require.ErrorIs(t, w.electReported(p, b, w.report(b, 0, 5)), ErrNotEligible, "B is not the last leader")
}

// lastLeaderAnyTrust: on a topic that counts copies on disk, followers may have flushed what the leader had not. A leader
// that lost power may vote, and is not elected on its own word.
func TestALastLeaderThatLostPowerNeedsAMajorityOnDiskTopicsToo(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityDisk, 2)
	w.restart(a, losePower)
	w.unfence(a)
	require.True(t, Trusted(w.at(p), a, w.s.Image().Broker), "what it flushed it has")
	require.ErrorIs(t, w.electReported(p, a, w.report(a, 0, 5)), ErrNotEligible)
	_, ok, _ := ChooseReported(w.at(p), []ReplicaReport{w.report(a, 0, 5)}, w.s.Image().Broker)
	require.False(t, ok)
	require.NoError(t, w.electReported(p, b, w.report(a, 0, 5), w.report(b, 0, 6)))
}

// S42, metadata part: all lose power, and every copy of a disk topic still votes.
func TestAllVoteAfterAPowerLossWhereCopiesCountOnDisk(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityDisk, 2)
	for _, id := range []int32{a, b, c} {
		w.restart(id, losePower)
		w.unfence(id)
	}
	require.Equal(t, Offline, w.s.Image().Safety(w.at(p)))
	el, ok, why := ChooseReported(w.at(p), []ReplicaReport{w.report(a, 0, 4), w.report(c, 0, 6), w.report(b, 0, 6)}, w.s.Image().Broker)
	require.True(t, ok, why)
	require.Equal(t, b, el.Leader.ID)
	require.NoError(t, w.one(&ElectReported{Elections: []ReportedElection{el}}))
}

func TestReportsChooseTheMostCompleteLogOfAMajority(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
	w.begin(p)
	image := w.s.Image()
	choose := func(reports ...ReplicaReport) (int32, bool, string) {
		el, ok, why := ChooseReported(w.at(p), reports, w.s.Image().Broker)
		if ok {
			require.NoError(t, CheckReported(w.at(p), &el, w.s.Image().Broker))
		}
		return el.Leader.ID, ok, why
	}
	leads := func(want int32, why string, reports ...ReplicaReport) {
		t.Helper()
		id, ok, reason := choose(reports...)
		require.True(t, ok, reason)
		require.Equal(t, want, id, why)
	}
	leads(c, "the newest last epoch", w.report(a, 1, 9), w.report(b, 1, 9), w.report(c, 2, 3))
	leads(b, "then the later end", w.report(a, 1, 8), w.report(b, 1, 9))
	leads(a, "then the first of the replica list", w.report(c, 1, 9), w.report(b, 1, 9), w.report(a, 1, 9))
	leads(b, "of those that reported", w.report(c, 1, 9), w.report(b, 1, 9))
	leads(a, "the last leader alone", w.report(a, 1, 9))
	_, ok, why := choose(w.report(b, 1, 9))
	require.False(t, ok)
	require.Contains(t, why, "no report from [1 3]")
	stale := w.report(c, 1, 9)
	stale.Broker.Epoch--
	_, ok, why = choose(w.report(b, 1, 9), stale, w.report(d, 1, 9))
	require.False(t, ok, "reports of another process and of a node without a vote")
	require.Contains(t, why, "no report from [1 3]")

	w.fence(c)
	leads(b, "a fenced node votes", w.report(b, 1, 9), w.report(c, 1, 8))
	leads(b, "among equals one that is not fenced", w.report(c, 1, 9), w.report(b, 1, 9))
	leads(a, "the most complete one is fenced, and a majority remains", w.report(a, 1, 8), w.report(b, 1, 7), w.report(c, 1, 9))
	_, ok, why = choose(w.report(b, 1, 8), w.report(c, 1, 9))
	require.False(t, ok, "nobody knows what C has beyond B")
	require.Contains(t, why, "node 3 has the most complete log and is fenced")

	led := image.Partition(p).clone()
	led.Leader = b
	_, ok, _ = ChooseReported(led, []ReplicaReport{w.report(a, 1, 9), w.report(b, 1, 9)}, image.Broker)
	require.False(t, ok, "somebody leads")
}

// While two sets are in force both must elect; the last leader of either needs nobody.
func TestAJointElectionNeedsAMajorityOfBothSets(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
	w.joint(p, c, d, e)
	w.begin(p)
	reports := func(ids ...int32) (out []ReplicaReport) {
		for _, id := range ids {
			out = append(out, w.report(id, 1, int64(10+id)))
		}
		return out
	}
	require.ErrorIs(t, w.electReported(p, c, reports(b, c)...), ErrNotEligible, "of the present replicas only")
	require.ErrorIs(t, w.electReported(p, e, reports(c, d, e)...), ErrNotEligible, "of the new ones only")
	_, ok, why := ChooseReported(w.at(p), reports(b, c), w.s.Image().Broker)
	require.False(t, ok)
	require.Contains(t, why, "its new ones")
	el, ok, why := ChooseReported(w.at(p), reports(b, c, d), w.s.Image().Broker)
	require.True(t, ok, why)
	require.Equal(t, d, el.Leader.ID, "a new replica may lead")
	require.NoError(t, w.one(&ElectReported{Elections: []ReportedElection{el}}))
	w.begin(p)
	require.NoError(t, w.electReported(p, d, w.report(d, 2, 20)), "the last leader's own report")

	w.fence(d)
	w.restart(d, losePower)
	w.restart(e, losePower)
	require.Equal(t, OfflineUnsafe, w.s.Image().Safety(w.at(p)), "the new set has no trusted majority")
	require.True(t, MustCancel(w.at(p), w.s.Image().Broker))
	require.NoError(t, w.reassign(p))
	require.Equal(t, Offline, w.s.Image().Safety(w.at(p)), "the present replicas can elect without it")
	require.NoError(t, w.electReported(p, b, w.report(b, 2, 20), w.report(c, 2, 20)))
}
