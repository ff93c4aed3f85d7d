package metadata

import (
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/logstore/record"
)

// The scenarios of the replication design that metadata alone decides, for replicas A, B, C = 1, 2, 3 with A leading.
const a, b, c int32 = 1, 2, 3

func abc(t testing.TB, minISR int32) (*world, record.PartitionID) {
	w := newWorld(t, a, b, c)
	return w, w.topic("orders", minISR, []int32{a, b, c})
}

// S16: the leader proposes to add C; the request is under way while the controller fences C, then A.
func TestAStaleExpansionDoesNotMakeANodeElectable(t *testing.T) {
	w, p := abc(t, 2)
	require.NoError(t, w.alter(p, a, b))
	late := w.proposal(p, a, b, c)
	w.fence(c)
	require.ErrorIs(t, w.one(&AlterPartitions{Changes: []PartitionChange{late}}), ErrIneligibleReplica, "C is fenced")
	w.unfence(c)
	w.fence(a)
	require.Equal(t, b, w.at(p).Leader)
	require.ErrorIs(t, w.one(&AlterPartitions{Changes: []PartitionChange{late}}), ErrFencedLeaderEpoch)
	w.fence(b)
	require.NotContains(t, w.at(p).ELR, c)
	require.Equal(t, NoNode, w.at(p).Leader, "C never came back into the ISR")
}

// Of several proposals of one partition epoch one wins, and proposing the present ISR again rules out the others.
func TestOneProposalOfAPartitionEpochWins(t *testing.T) {
	w, p := abc(t, 2)
	shrink, same := w.proposal(p, a, b), w.proposal(p, a, b, c)
	require.NoError(t, w.one(&AlterPartitions{Changes: []PartitionChange{same}}))
	require.Equal(t, int32(1), w.at(p).PartitionEpoch, "an accepted proposal that changes nothing raises the epoch")
	require.ErrorIs(t, w.one(&AlterPartitions{Changes: []PartitionChange{shrink}}), ErrInvalidUpdate)
	require.Equal(t, []int32{a, b, c}, w.at(p).ISR)
}

func TestAProposalThatIsNoISROfThePartitionIsRefused(t *testing.T) {
	w, p := abc(t, 2)
	other := w.topic("other", 1, []int32{b})
	for name, c := range map[string]struct {
		change func(*PartitionChange)
		want   error
	}{
		"without its leader":     {func(x *PartitionChange) { x.ISR = x.ISR[1:] }, ErrInvalidRequest},
		"empty":                  {func(x *PartitionChange) { x.ISR = nil }, ErrInvalidRequest},
		"a member twice":         {func(x *PartitionChange) { x.ISR[1] = x.ISR[0] }, ErrInvalidRequest},
		"another node":           {func(x *PartitionChange) { x.ISR[1].ID = 9 }, ErrInvalidRequest},
		"of somebody else":       {func(x *PartitionChange) { x.Leader, x.LeaderBrokerEpoch = b, w.epoch(b).Epoch }, ErrInvalidRequest},
		"of an earlier process":  {func(x *PartitionChange) { x.LeaderBrokerEpoch-- }, ErrStaleBrokerEpoch},
		"of an earlier epoch":    {func(x *PartitionChange) { x.LeaderEpoch-- }, ErrFencedLeaderEpoch},
		"of an epoch to come":    {func(x *PartitionChange) { x.LeaderEpoch++ }, ErrInvalidRequest},
		"after another proposal": {func(x *PartitionChange) { x.PartitionEpoch-- }, ErrInvalidUpdate},
		"with another process":   {func(x *PartitionChange) { x.ISR[2].Epoch-- }, ErrIneligibleReplica},
		"of another partition":   {func(x *PartitionChange) { x.Partition = other }, ErrInvalidRequest},
		"of no partition":        {func(x *PartitionChange) { x.Partition.Partition = 1 }, ErrUnknownPartition},
		"of a negative one":      {func(x *PartitionChange) { x.Partition.Partition = -1 }, ErrUnknownPartition},
		"of no topic":            {func(x *PartitionChange) { x.Partition.Topic = topicID("no") }, ErrUnknownTopicID},
	} {
		x := w.proposal(p, a, b, 3)
		c.change(&x)
		require.ErrorIs(t, w.one(&AlterPartitions{Changes: []PartitionChange{x}}), c.want, name)
		require.Zero(t, w.at(p).PartitionEpoch, name)
	}
}

// S17: C comes back empty between its fetch and the proposal that counts on it.
func TestANodeThatCameBackEmptyIsNotAddedOnItsOldFetch(t *testing.T) {
	w, p := abc(t, 2)
	require.NoError(t, w.alter(p, a, b))
	before := w.proposal(p, a, b, c)
	w.restart(c, func(r *RegisterBroker) { r.Earlier = nil })
	w.unfence(c)
	before.PartitionEpoch = w.at(p).PartitionEpoch
	require.ErrorIs(t, w.one(&AlterPartitions{Changes: []PartitionChange{before}}), ErrIneligibleReplica)
	require.Equal(t, []int32{a, b}, w.at(p).ISR)
	require.NoError(t, w.alter(p, a, b, c), "under its present epoch it is added")
}

// S20: the ISR shrinks to A, which then loses power. The ELR holds one that has everything.
func TestTheELROutlivesAnISROfOneThatLosesPower(t *testing.T) {
	w, p := abc(t, 2)
	require.NoError(t, w.alter(p, a, b))
	require.NoError(t, w.alter(p, a))
	require.Equal(t, []int32{b}, w.at(p).ELR, "C left when the ISR was still large enough to commit without it")
	w.restart(a, losePower)
	r := w.at(p)
	require.Equal(t, b, r.Leader, "elected in the record of the registration")
	require.Equal(t, []int32{b}, r.ISR)
	require.Empty(t, r.ELR, "A lost what it had")
	require.Equal(t, int32(1), r.LeaderEpoch)
}

// S21: all are killed within one boot. Nobody lost anything, so the first that comes back leads.
func TestAllKilledInOneBootComeBackWithoutLoss(t *testing.T) {
	w, p := abc(t, 2)
	w.fence(a)
	w.fence(b)
	w.fence(c)
	require.Equal(t, []int32{b, c}, w.at(p).ELR)
	require.Equal(t, Offline, w.s.Image().Safety(w.at(p)))
	for _, id := range []int32{a, b, c} {
		require.Equal(t, RestartProcessCrash, w.register(id).Class)
	}
	w.unfence(a)
	require.Equal(t, NoNode, w.at(p).Leader, "A left while B and C could commit without it")
	w.unfence(c)
	require.Equal(t, c, w.at(p).Leader)
	require.Zero(t, w.at(p).LossEpoch)
}

// S22, metadata part: all lose power. Nobody is elected quietly; wait-all hears all three and says what may be gone.
func TestAllLosePowerAndTheLossIsFlagged(t *testing.T) {
	w, p := abc(t, 2)
	for _, id := range []int32{a, b, c} {
		w.restart(id, losePower)
		w.unfence(id)
	}
	r := w.at(p)
	require.Equal(t, OfflineUnsafe, w.s.Image().Safety(r))
	u := UnsafeElection{Partition: p, Epoch: r.LeaderEpoch, Leader: w.epoch(b), Reports: []ReplicaReport{
		{Broker: w.epoch(a), LastEpoch: 0, End: 90, HW: 80}, {Broker: w.epoch(b), LastEpoch: 1, End: 70, HW: 70},
	}}
	elect := func(u UnsafeElection) error { return w.one(&UnsafeElect{Elections: []UnsafeElection{u}}) }
	require.Equal(t, []int32{c}, MissingReports(r, u.Reports, w.s.Image().Broker))
	require.ErrorIs(t, elect(u), ErrNotEligible, "C has not reported")

	u.Reports = append(u.Reports, ReplicaReport{Broker: w.epoch(c), LastEpoch: 1, End: 60, HW: 95})
	wrong := u
	wrong.Leader = w.epoch(a)
	require.ErrorIs(t, elect(wrong), ErrNotEligible, "a longer log of an older epoch is not the most complete one")

	w.index++
	res, d := w.s.Apply(w.index, &UnsafeElect{Elections: []UnsafeElection{u}})
	require.NoError(t, res.Items[0])
	checkInvariants(t, d)
	r = w.at(p)
	require.Equal(t, b, r.Leader)
	require.Equal(t, []int32{b}, r.ISR)
	require.Equal(t, r.LeaderEpoch, r.LossEpoch)
	require.Equal(t, []int64{-1, w.epoch(b).Epoch, -1}, []int64{r.Member(a).Cert, r.Member(b).Cert, r.Member(c).Cert})
	require.Len(t, d.Events, 1)
	require.Equal(t, EventDataLoss, d.Events[0].Kind)
	require.Equal(t, "orders", d.Events[0].Topic)
	require.Equal(t, &u, d.Events[0].Unsafe)
	require.Contains(t, d.Events[0].Detail, "broker 2 leads from end 70: records at offset 70 and above may be gone, and 70 to 94 were committed;")
	require.Contains(t, d.Events[0].Detail, "broker 3: last epoch 1, end 60, high watermark 95")
	require.ErrorIs(t, elect(u), ErrElectionNotNeeded, "a copy of the command")

	// S51: the chosen one dies at once. The others were not certified: the loss is flagged again, not passed over.
	w.restart(b, losePower)
	require.Equal(t, OfflineUnsafe, w.s.Image().Safety(w.at(p)))
}

// S52: a lower minimum empties the ELR as soon as the ISR can commit alone.
func TestALowerMinimumEndsTheClaimsOfTheELR(t *testing.T) {
	w, p := abc(t, 2)
	require.NoError(t, w.alter(p, a, b))
	require.NoError(t, w.alter(p, a))
	require.Equal(t, []int32{b}, w.at(p).ELR)
	require.NoError(t, w.apply(&SetMinISR{Partition: p, PartitionEpoch: w.at(p).PartitionEpoch, MinISR: 1}).Err)
	require.Empty(t, w.at(p).ELR, "A commits alone from now on")
	w.restart(a, losePower)
	require.Equal(t, NoNode, w.at(p).Leader, "B may lack what A committed")

	w, p = abc(t, 2)
	w.fence(a)
	w.fence(b)
	w.fence(c)
	require.Equal(t, []int32{b, c}, w.at(p).ELR)
	require.NoError(t, w.apply(&SetMinISR{Partition: p, PartitionEpoch: w.at(p).PartitionEpoch, MinISR: 1}).Err)
	require.Equal(t, []int32{b, c}, w.at(p).ELR, "nobody commits while the ISR is empty")
	w.unfence(b)
	require.Equal(t, b, w.at(p).Leader)
	require.Empty(t, w.at(p).ELR, "B commits alone from now on")
	w.unfence(c)
	w.fence(b)
	require.Equal(t, NoNode, w.at(p).Leader, "C is not electable")
}

// S6 and S9, metadata part: a leader that restarted is not the one that was elected, and cannot speak as it.
func TestAGrantToAnEarlierProcessIsVoid(t *testing.T) {
	w, p := abc(t, 2)
	zombie := w.proposal(p, a)
	w.register(a)
	w.unfence(a)
	require.Equal(t, b, w.at(p).Leader)
	require.ErrorIs(t, w.one(&AlterPartitions{Changes: []PartitionChange{zombie}}), ErrFencedLeaderEpoch)
	require.NoError(t, w.alter(p, a, b, c))
	w.fence(b)
	require.Equal(t, a, w.at(p).Leader)
	zombie.LeaderEpoch, zombie.PartitionEpoch = w.at(p).LeaderEpoch, w.at(p).PartitionEpoch
	require.ErrorIs(t, w.one(&AlterPartitions{Changes: []PartitionChange{zombie}}), ErrStaleBrokerEpoch)
}

func TestDamageTakesAReplicaOutOfEveryClaim(t *testing.T) {
	w, p := abc(t, 3)
	require.NoError(t, w.one(&ReplicaDamaged{Broker: w.epoch(a), Partitions: []record.PartitionID{p}}))
	r := w.at(p)
	require.Equal(t, b, r.Leader)
	require.Equal(t, []int32{b, c}, r.ISR)
	require.Empty(t, r.ELR)
	require.Equal(t, int64(-1), r.Member(a).Cert)
	require.Equal(t, int32(1), r.LeaderEpoch)

	w.fence(c)
	require.Equal(t, []int32{c}, w.at(p).ELR)
	require.NoError(t, w.one(&ReplicaDamaged{Broker: w.epoch(c), Partitions: []record.PartitionID{p}}))
	require.Empty(t, w.at(p).ELR)
	stale := w.epoch(b)
	w.register(b)
	require.ErrorIs(t, w.apply(&ReplicaDamaged{Broker: stale, Partitions: []record.PartitionID{p}}).Err, ErrStaleBrokerEpoch)
	require.Equal(t, []int32{b}, w.at(p).ELR, "a word of an earlier process takes nothing away")
}

func TestCertificationNamesTheStayItSpeaksOf(t *testing.T) {
	w, p := abc(t, 2)
	w.restart(c, losePower)
	w.unfence(c)
	r := w.at(p)
	require.False(t, Trusted(r, c, w.s.Image().Broker))
	ok := Certification{Partition: p, LeaderEpoch: r.LeaderEpoch, LeaderBrokerEpoch: r.LeaderBrokerEpoch, Broker: w.epoch(c), JoinPE: r.Member(c).JoinPE}
	for name, f := range map[string]func(*Certification){
		"an older leader epoch":          func(x *Certification) { x.LeaderEpoch-- },
		"another process of the leader":  func(x *Certification) { x.LeaderBrokerEpoch-- },
		"another process of the replica": func(x *Certification) { x.Broker.Epoch-- },
		"another stay":                   func(x *Certification) { x.JoinPE++ },
		"no replica":                     func(x *Certification) { x.Broker = BrokerEpoch{ID: 9, Epoch: 1} },
	} {
		bad := ok
		f(&bad)
		require.Error(t, w.one(&Certify{Items: []Certification{bad}}), name)
	}
	require.NoError(t, w.one(&Certify{Items: []Certification{ok}}))
	require.True(t, Trusted(w.at(p), c, w.s.Image().Broker))
	require.Equal(t, r.PartitionEpoch, w.at(p).PartitionEpoch, "certification leaves the partition epoch")
}

func TestAMemoryCopyIsLostByPowerAndAFlushedOneIsNot(t *testing.T) {
	for durability, survives := range map[Durability]bool{DurabilityMemory: false, DurabilityMemoryToDisk: false, DurabilityDisk: true} {
		w, p := abcOf(t, RuleISR, durability.Target(), 3)
		if durability == DurabilityMemoryToDisk {
			w, p = abcOf(t, RuleISR, DurabilityMemory, 3)
			require.NoError(t, w.configure(p, TopicConfigChange{Durability: DurabilityDisk}))
		}
		require.Equal(t, durability, w.at(p).Durability)
		w.restart(c, losePower)
		require.Equal(t, survives, len(w.at(p).ELR) == 1, "%s", durability)
		require.Equal(t, survives, Trusted(w.at(p), c, w.s.Image().Broker), "%s", durability)
		w.restart(c, func(r *RegisterBroker) { r.Mismatch = true })
		require.Empty(t, w.at(p).ELR, "%s", durability)
	}
}

func TestElectionsAreJudgedByTheRecordAndNotByTheProposer(t *testing.T) {
	w, p := abc(t, 2)
	w.fence(c)
	elect := func(leader int32, change func(*Election)) error {
		r := w.at(p)
		e := Election{Partition: p, LeaderEpoch: r.LeaderEpoch, PartitionEpoch: r.PartitionEpoch, Leader: leader}
		change(&e)
		return w.one(&Elect{Elections: []Election{e}})
	}
	asIs := func(*Election) {}
	require.ErrorIs(t, elect(a, asIs), ErrElectionNotNeeded)
	require.ErrorIs(t, elect(c, asIs), ErrNotEligible, "fenced")
	w.unfence(c)
	require.ErrorIs(t, elect(c, asIs), ErrNotEligible, "not in sync")
	require.ErrorIs(t, elect(9, asIs), ErrNotEligible, "nobody")
	require.ErrorIs(t, elect(b, func(e *Election) { e.LeaderEpoch-- }), ErrFencedLeaderEpoch)
	require.ErrorIs(t, elect(b, func(e *Election) { e.PartitionEpoch-- }), ErrInvalidUpdate)
	require.NoError(t, elect(b, asIs))
	require.Equal(t, b, w.at(p).Leader)
	require.Equal(t, int32(1), w.at(p).LeaderEpoch, "a leader without a pause before it")
	require.Equal(t, a, PreferredMove(w.at(p), w.s.Image().Broker))
	require.NoError(t, w.alter(p, b))
	require.ErrorIs(t, elect(a, asIs), ErrNotEligible, "A is in the ELR, and B leads")
	require.Equal(t, NoNode, PreferredMove(w.at(p), w.s.Image().Broker))
}

func TestRecoveryPolicies(t *testing.T) {
	start := func(policy RecoveryPolicy) (*world, UnsafeElection) {
		w := newWorld(t, a, b, c)
		id := topicID("x")
		require.NoError(t, w.one(&CreateTopics{Topics: []NewTopic{{ID: id, Name: "x", Assignment: [][]int32{{a, b, c}}, Recovery: policy}}}))
		for _, n := range []int32{a, b, c} {
			w.restart(n, losePower)
		}
		w.unfence(a)
		w.unfence(b)
		p := record.PartitionID{Topic: id}
		return w, UnsafeElection{Partition: p, Epoch: w.at(p).LeaderEpoch, Leader: w.epoch(b), Reports: []ReplicaReport{
			{Broker: w.epoch(a), End: 5}, {Broker: w.epoch(b), End: 9},
		}}
	}
	judge := func(w *world, u UnsafeElection) error { return w.one(&UnsafeElect{Elections: []UnsafeElection{u}}) }

	w, u := start(RecoverWaitAll)
	require.ErrorContains(t, judge(w, u), "replicas [3] have not reported")
	u.Reports = append(u.Reports, ReplicaReport{Broker: w.epoch(c), End: 20})
	require.ErrorIs(t, judge(w, u), ErrNotEligible, "the fenced node has the most complete log")
	u.Leader = w.epoch(c)
	require.ErrorIs(t, judge(w, u), ErrNotEligible, "it has to come back first")
	w.unfence(c)
	require.NoError(t, judge(w, u))

	w, u = start(RecoverProactive)
	u.Leader = w.epoch(a)
	require.ErrorIs(t, judge(w, u), ErrNotEligible)
	u.Leader = w.epoch(b)
	require.NoError(t, judge(w, u))

	w, u = start(RecoverManual)
	require.ErrorContains(t, judge(w, u), "an operator names the leader")
	u.Leader, u.Forced = w.epoch(a), true
	require.NoError(t, judge(w, u))
	require.Equal(t, a, w.at(u.Partition).Leader)

	w, u = start(RecoverWaitAll)
	u.Reports[0].Broker.Epoch--
	require.ErrorIs(t, judge(w, u), ErrStaleBrokerEpoch)
	u.Reports = u.Reports[:1]
	u.Reports[0].Broker = w.epoch(a)
	u.Forced = true
	require.ErrorIs(t, judge(w, u), ErrNotEligible, "B has not reported")
	u.Reports = append(u.Reports, u.Reports[0])
	require.ErrorIs(t, judge(w, u), ErrInvalidRequest, "twice")
	u.Epoch--
	require.ErrorIs(t, judge(w, u), ErrFencedLeaderEpoch)
}

func TestAnUncleanElectionIsOnlyTakenWhereNoSafeOneIs(t *testing.T) {
	w, p := abc(t, 2)
	w.fence(c)
	w.fence(a, b)
	w.unfence(c)
	r := w.at(p)
	require.Equal(t, Offline, w.s.Image().Safety(r))
	u := UnsafeElection{Partition: p, Epoch: r.LeaderEpoch, Leader: w.epoch(c), Reports: []ReplicaReport{{Broker: w.epoch(c)}}}
	require.ErrorContains(t, w.one(&UnsafeElect{Elections: []UnsafeElection{u}}), "may come back")
	u.Forced = true
	require.NoError(t, w.one(&UnsafeElect{Elections: []UnsafeElection{u}}))
	require.Equal(t, []int32{c}, w.at(p).ISR)
	require.Empty(t, w.at(p).ELR)
	w.unfence(a)
	w.fence(c)
	require.Equal(t, NoNode, w.at(p).Leader, "A may lack what C committed; C may come back")
	require.Equal(t, []int32{c}, w.at(p).ELR)
}

func TestEqualLogsGoToTheTrustedThenTheLowestNode(t *testing.T) {
	w, p := abc(t, 2)
	w.restart(a, losePower)
	broker := w.s.Image().Broker
	reports := []ReplicaReport{{Broker: w.epoch(c), End: 4}, {Broker: w.epoch(a), End: 4}, {Broker: w.epoch(b), End: 4}}
	best, ok := ChooseUnsafe(w.at(p), reports, broker)
	require.True(t, ok)
	require.Equal(t, b, best.Broker.ID)
	_, ok = ChooseUnsafe(w.at(p), []ReplicaReport{{Broker: BrokerEpoch{ID: a, Epoch: 1}}}, broker)
	require.False(t, ok, "an old process")
}

func TestAPartitionOfTheQuorumRuleWaitsForReports(t *testing.T) {
	w, p := abc(t, 2)
	q := w.at(p).clone()
	q.Rule = RuleQuorum
	w.s.putPartition(q)
	w.s.Publish()
	broker := func(id int32) *Broker { return w.s.Image().Broker(id) }
	require.Equal(t, NoNode, ChooseLeader(q, broker))
	q = q.clone()
	q.dropLeader()
	require.Equal(t, Offline, SafetyOf(q, broker), "all three are trusted")
	w.s.head.brokers.Set(a, &Broker{ID: a, LossPower: 100, LossMedia: 100})
	require.Equal(t, Offline, SafetyOf(q, w.s.head.Broker), "two of three are")
	w.s.head.brokers.Set(b, &Broker{ID: b, LossPower: 100})
	require.Equal(t, OfflineUnsafe, SafetyOf(q, w.s.head.Broker))
	q.Durability = DurabilityDisk
	require.Equal(t, Offline, SafetyOf(q, w.s.head.Broker), "B lost nothing that was flushed")
	w.s.head.brokers.Set(b, &Broker{ID: b, LossPower: 100, LossMedia: 100})
	require.Equal(t, OfflineUnsafe, SafetyOf(q, w.s.head.Broker))
	q.LastLeader = c
	require.Equal(t, Offline, SafetyOf(q, w.s.head.Broker), "the last leader has everything")
}

// The FSM elects whoever is safe at once, so these records never come about in it: each check stands alone all the same.
func TestEveryCheckOfACandidateStandsAlone(t *testing.T) {
	alive := map[int32]*Broker{a: {ID: a}, b: {ID: b}, c: {ID: c, Fenced: true}}
	broker := func(id int32) *Broker { return alive[id] }
	p := &Partition{Replicas: []int32{a, b, c}, Rule: RuleISR, MinISR: 2, Leader: NoNode, ISR: []int32{b}, ELR: []int32{a}}
	require.ErrorContains(t, CheckCandidate(p, a, broker), "is alive", "a member of the ISR comes first")
	require.Equal(t, b, ChooseLeader(p, broker))
	p.ISR = []int32{c}
	require.NoError(t, CheckCandidate(p, a, broker), "nobody of the ISR is alive")
	require.Equal(t, a, ChooseLeader(p, broker))
	p.Leader = c
	require.ErrorIs(t, CheckCandidate(p, a, broker), ErrNotEligible, "leadership moves inside the ISR only")

	w, id := abc(t, 2)
	p = w.at(id).clone()
	p.dropLeader()
	w.s.putPartition(p)
	w.s.Publish()
	u := UnsafeElection{Partition: id, Leader: w.epoch(c), Reports: []ReplicaReport{{Broker: w.epoch(c)}}, Forced: true}
	w.index++
	r, _ := w.s.Apply(w.index, &UnsafeElect{Elections: []UnsafeElection{u}})
	require.ErrorIs(t, r.Items[0], ErrElectionNotNeeded, "a safe leader can be elected, whatever was forced")
}

func TestTheMinimumChangesByCompareAndSet(t *testing.T) {
	w, p := abc(t, 2)
	require.ErrorIs(t, w.apply(&SetMinISR{Partition: p, PartitionEpoch: -1, MinISR: 1}).Err, ErrInvalidUpdate)
	require.ErrorIs(t, w.apply(&SetMinISR{Partition: p, MinISR: 4}).Err, ErrInvalidConfig)
	require.NoError(t, w.apply(&SetMinISR{Partition: p, MinISR: 3}).Err)
	require.Equal(t, []int32{3, 1}, []int32{w.at(p).MinISR, w.at(p).PartitionEpoch})
}
