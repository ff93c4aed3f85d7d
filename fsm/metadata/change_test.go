package metadata

import (
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/logstore/record"
)

func (w *world) certs(p record.PartitionID, ids ...int32) (out []int64) {
	for _, id := range ids {
		out = append(out, w.at(p).Member(id).Cert)
	}
	return out
}

// S26: the rule of a topic is changed from isr to quorum, and A goes at every step.
func TestElectionsFollowTheOldRuleUntilAChangeIsFinished(t *testing.T) {
	start := func() (*world, record.PartitionID) {
		w, p := abcOf(t, RuleISR, DurabilityMemory, 1)
		require.NoError(t, w.alter(p, a))
		require.NoError(t, w.configure(p, TopicConfigChange{Rule: RuleQuorum}))
		return w, p
	}
	w, p := start()
	r := w.at(p)
	require.Equal(t, RuleISRToQuorum, r.Rule)
	require.Equal(t, r.PartitionEpoch, r.BeginPE)
	require.Zero(t, r.LeaderEpoch, "the leader stays, in its epoch")
	w.fence(a)
	require.Equal(t, NoNode, w.at(p).Leader, "A is the only candidate")
	require.ErrorIs(t, w.electReported(p, b, w.report(b, 0, 9), w.report(c, 0, 9)), ErrInvalidRequest)
	w.unfence(a)
	require.Equal(t, a, w.at(p).Leader)

	require.ErrorIs(t, w.finished(w.finish(p, a)), ErrNotEligible, "no majority has the point")
	require.ErrorIs(t, w.finished(w.finish(p, b, c)), ErrNotEligible, "the rule of before is in force too, and A is its ISR")
	require.Equal(t, RuleISRToQuorum, w.at(p).Rule)
	was := w.at(p)
	require.NoError(t, w.finished(w.finish(p, a, b)))
	r = w.at(p)
	require.Equal(t, RuleQuorum, r.Rule)
	require.Zero(t, r.BeginPE)
	require.Equal(t, []int32{a, was.LeaderEpoch, was.PartitionEpoch + 1}, []int32{r.Leader, r.LeaderEpoch, r.PartitionEpoch})
	w.fence(a)
	require.Equal(t, NoNode, w.at(p).Leader)
	require.NoError(t, w.electReported(p, b, w.report(b, 1, 9), w.report(c, 0, 4)))
}

// finReset: the finish certifies who is proven and leaves the others what they have; else one death among the proven would
// leave no trusted majority.
func TestAFinishedRuleLeavesLaggardsTheirVote(t *testing.T) {
	w, p := abcOf(t, RuleISR, DurabilityMemory, 1)
	require.NoError(t, w.alter(p, a))
	w.back(b)
	before := w.certs(p, a, b, c)
	require.NotEqual(t, w.epoch(b).Epoch, before[1], "certified under an earlier process")
	require.NoError(t, w.configure(p, TopicConfigChange{Rule: RuleQuorum}))
	require.NoError(t, w.finished(w.finish(p, a, b)))
	require.Equal(t, []int64{w.epoch(a).Epoch, w.epoch(b).Epoch, before[2]}, w.certs(p, a, b, c))
	w.fence(a)
	require.Equal(t, Offline, w.s.Image().Safety(w.at(p)))
}

// S27: the commit set is {A,B} and the ISR lists {A,C}: only C's own position proves the ISR rule.
func TestTheISRRuleComesBackOnlyOnPositionsOfItsISR(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
	require.NoError(t, w.alter(p, a, c))
	require.NoError(t, w.configure(p, TopicConfigChange{Rule: RuleISR}))
	require.Equal(t, RuleQuorumToISR, w.at(p).Rule)
	require.ErrorIs(t, w.finished(w.finish(p, a, b)), ErrNotEligible, "C is in the ISR and not proven")
	require.ErrorIs(t, w.finished(w.finish(p, a)), ErrNotEligible)
	early := w.finish(p, a, b, c)
	require.NoError(t, w.alter(p, a))
	require.ErrorIs(t, w.finished(early), ErrInvalidUpdate, "the ISR has changed since")
	require.ErrorIs(t, w.finished(w.finish(p, a, b)), ErrNotEligible, "an ISR below the minimum commits nothing")
	require.NoError(t, w.alter(p, a, c))
	before := w.certs(p, a, b, c)
	require.NoError(t, w.finished(w.finish(p, a, c)))
	r := w.at(p)
	require.Equal(t, RuleISR, r.Rule)
	require.Empty(t, r.ELR)
	require.Equal(t, []int32{a, c}, r.ISR)
	require.Equal(t, before, w.certs(p, a, b, c))
	w.fence(a)
	require.Equal(t, c, w.at(p).Leader, "C is complete")
	require.NotContains(t, w.at(p).ELR, b)
}

// Until the change to isr is finished an election leaves {X} in the ISR: nobody else is known to have what X will commit.
func TestAnElectionDuringTheChangeToISRStartsItsISRAnew(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
	require.NoError(t, w.alter(p, a, b, c))
	require.NoError(t, w.configure(p, TopicConfigChange{Rule: RuleISR}))
	late := w.finish(p, a, b, c)
	w.begin(p)
	require.NoError(t, w.electReported(p, b, w.report(b, 1, 9), w.report(c, 1, 9)))
	require.Equal(t, []int32{b}, w.at(p).ISR)
	require.ErrorIs(t, w.finished(late), ErrFencedLeaderEpoch)
}

func TestARuleChangeIsTakenBackAtAnyTime(t *testing.T) {
	for from, to := range map[CommitRule]CommitRule{RuleISR: RuleQuorum, RuleQuorum: RuleISR} {
		w, p := abcOf(t, from, DurabilityMemory, 2)
		require.NoError(t, w.configure(p, TopicConfigChange{Rule: to}))
		late := w.finish(p, a, b, c)
		w.fence(a)
		before := w.at(p)
		require.NoError(t, w.configure(p, TopicConfigChange{Rule: from}))
		r := w.at(p)
		require.Equal(t, from, r.Rule)
		require.Zero(t, r.BeginPE)
		require.Equal(t, []int32{before.LeaderEpoch, before.PartitionEpoch + 1}, []int32{r.LeaderEpoch, r.PartitionEpoch})
		require.Error(t, w.finished(late))
		require.NoError(t, w.configure(p, TopicConfigChange{Rule: from}), "again")
		require.Equal(t, r.PartitionEpoch, w.at(p).PartitionEpoch, "there was nothing to change")
	}
}

// Every check of a finish, one at a time.
func TestEveryCheckOfAFinishStandsAlone(t *testing.T) {
	for name, x := range map[string]struct {
		change func(w *world, f *Finish)
		want   error
	}{
		"another leader":        {func(_ *world, f *Finish) { f.Leader = b }, ErrInvalidRequest},
		"another process":       {func(_ *world, f *Finish) { f.LeaderBrokerEpoch-- }, ErrStaleBrokerEpoch},
		"an epoch to come":      {func(_ *world, f *Finish) { f.LeaderEpoch++ }, ErrInvalidRequest},
		"an old epoch":          {func(_ *world, f *Finish) { f.LeaderEpoch-- }, ErrFencedLeaderEpoch},
		"an old record":         {func(_ *world, f *Finish) { f.PartitionEpoch-- }, ErrInvalidUpdate},
		"a process of before":   {func(_ *world, f *Finish) { f.Evidence[1].Broker.Epoch-- }, ErrStaleBrokerEpoch},
		"a position below":      {func(_ *world, f *Finish) { f.Evidence[1].Offset-- }, ErrInvalidRequest},
		"one position twice":    {func(_ *world, f *Finish) { f.Evidence[1] = f.Evidence[0] }, ErrInvalidRequest},
		"a node that is none":   {func(w *world, f *Finish) { f.Evidence[1].Broker = w.epoch(d) }, ErrInvalidRequest},
		"a minority":            {func(_ *world, f *Finish) { f.Evidence = f.Evidence[:1] }, ErrNotEligible},
		"an unknown partition":  {func(_ *world, f *Finish) { f.Partition.Partition = 7 }, ErrUnknownPartition},
		"a restart on the road": {func(w *world, _ *Finish) { w.restart(b, losePower) }, ErrInvalidUpdate},
	} {
		t.Run(name, func(t *testing.T) {
			w, p := abcOf(t, RuleISR, DurabilityMemory, 2)
			require.NoError(t, w.configure(p, TopicConfigChange{Rule: RuleQuorum}))
			require.NoError(t, w.alter(p, a, b))
			f := w.finish(p, a, b)
			x.change(w, &f)
			require.ErrorIs(t, w.finished(f), x.want)
			require.Equal(t, RuleISRToQuorum, w.at(p).Rule)
		})
	}
	w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
	require.ErrorIs(t, w.finished(w.finish(p, a, b, c)), ErrInvalidRequest, "nothing is being changed")
	require.ErrorIs(t, w.finished(Finish{Partition: p, Leader: NoNode, LeaderBrokerEpoch: -1}), ErrInvalidRequest)
}

// Min.insync.replicas above a majority raises what the quorum rule needs, in a finish too.
func TestAFinishNeedsAsManyAsACommit(t *testing.T) {
	w, p := abcOf(t, RuleISR, DurabilityMemory, 3)
	require.NoError(t, w.configure(p, TopicConfigChange{Rule: RuleQuorum}))
	require.ErrorIs(t, w.finished(w.finish(p, a, b)), ErrNotEligible)
	require.NoError(t, w.finished(w.finish(p, a, b, c)))
}

// All partitions of a topic change, or none: one that cannot keeps the others back.
func TestAChangeOfATopicIsAllOrNothing(t *testing.T) {
	w := newWorldOf(t, QuorumLevel, a, b, c, d)
	p := w.topicOf("orders", RuleISR, DurabilityMemory, 2, []int32{a, b, c}, []int32{b, c, a})
	second := record.PartitionID{Topic: p.Topic, Partition: 1}
	require.NoError(t, w.reassign(second, b, c, d))
	before := w.at(p)
	for _, change := range []TopicConfigChange{{Rule: RuleQuorum}, {Durability: DurabilityDisk}} {
		change.Set = map[string]string{SettingRetentionMS: "1000"}
		require.ErrorIs(t, w.configure(p, change), ErrChangeUnderWay)
		require.Same(t, before, w.at(p))
		require.Empty(t, w.s.Image().TopicByID(p.Topic).Configs)
	}
	require.NoError(t, w.reassign(second))
	require.ErrorIs(t, w.configure(p, TopicConfigChange{Rule: RuleQuorum, Durability: DurabilityDisk}), ErrChangeUnderWay, "one after the other")
	require.NoError(t, w.configure(p, TopicConfigChange{Rule: RuleQuorum}))
	require.ErrorIs(t, w.configure(p, TopicConfigChange{Durability: DurabilityDisk}), ErrChangeUnderWay)
	require.ErrorIs(t, w.reassign(p, b, c, d), ErrChangeUnderWay)
	require.NoError(t, w.finished(w.finish(p, a, b, c)))
	require.NoError(t, w.configure(p, TopicConfigChange{Rule: RuleQuorum}), "one is done, the other goes on")
	require.Equal(t, []CommitRule{RuleQuorum, RuleISRToQuorum}, []CommitRule{w.at(p).Rule, w.at(second).Rule})
	require.NoError(t, w.configure(p, TopicConfigChange{Rule: RuleISR}))
	require.Equal(t, []CommitRule{RuleQuorumToISR, RuleISR}, []CommitRule{w.at(p).Rule, w.at(second).Rule}, "one begins again, the other is taken back")
	require.NoError(t, w.configure(p, TopicConfigChange{Rule: RuleQuorum, MinISR: 3}))
	require.Equal(t, []CommitRule{RuleQuorum, RuleISRToQuorum}, []CommitRule{w.at(p).Rule, w.at(second).Rule})
	require.Equal(t, []int32{3, 3}, []int32{w.at(p).MinISR, w.at(second).MinISR})
	for _, change := range []TopicConfigChange{{Rule: RuleISRToQuorum}, {Rule: "most"}, {Durability: DurabilityMemoryToDisk}, {Set: map[string]string{SettingMinAcks: "4"}}} {
		require.ErrorIs(t, w.configure(p, change), ErrInvalidConfig)
	}
	require.NoError(t, w.one(&CreatePartitions{Topics: []MorePartitions{{Topic: p.Topic, First: 2, Assignment: [][]int32{{a, b, c}}}}}))
	require.Equal(t, RuleQuorum, w.at(record.PartitionID{Topic: p.Topic, Partition: 2}).Rule, "a new partition has what is changed to from the start")
}

// Two replicas make a majority of both: it only costs, so it has to be forced.
func TestTheQuorumRuleForTwoReplicasIsForced(t *testing.T) {
	w := newWorldOf(t, QuorumLevel, a, b, c)
	pair := NewTopic{ID: topicID("pair"), Name: "pair", Assignment: [][]int32{{a, b}}, Rule: RuleQuorum}
	err := w.one(&CreateTopics{Topics: []NewTopic{pair}})
	require.ErrorIs(t, err, ErrInvalidConfig)
	require.ErrorContains(t, err, "a majority of two is both")
	pair.Forced = true
	require.NoError(t, w.one(&CreateTopics{Topics: []NewTopic{pair}}))
	require.NoError(t, w.reassign(record.PartitionID{Topic: pair.ID}, b, c), "who has two may be moved")

	p := w.topic("two", 1, []int32{a, b})
	require.ErrorIs(t, w.configure(p, TopicConfigChange{Rule: RuleQuorum}), ErrInvalidConfig)
	require.NoError(t, w.configure(p, TopicConfigChange{Rule: RuleQuorum, Forced: true}))
	three := w.topicOf("three", RuleQuorum, DurabilityMemory, 2, []int32{a, b, c})
	require.ErrorIs(t, w.reassign(three, a, b), ErrInvalidConfig)
	require.NoError(t, w.one(&Reassign{Items: []Reassignment{{Partition: three, PartitionEpoch: AnyPartitionEpoch, Target: []int32{a, b}, Forced: true}}}))
}

func TestWhatAnOlderNodeCannotReadIsRefusedBelowItsLevel(t *testing.T) {
	w := newWorld(t, a, b, c)
	p := w.topic("orders", 2, []int32{a, b, c})
	before := w.at(p)
	for _, cmd := range []Command{
		&BeginElection{Elections: []ElectionStart{{Partition: p, Leader: a}}},
		&ElectReported{Elections: []ReportedElection{w.proven(p, a)}},
		&Reassign{Items: []Reassignment{{Partition: p, PartitionEpoch: AnyPartitionEpoch, Target: []int32{c, b, a}}}},
		&EnterJoint{Items: []JointEntry{{Partition: p}}},
		&FinishChange{Items: []Finish{w.finish(p, a, b, c)}},
		&AlterTopicConfigs{Topics: []TopicConfigChange{{Topic: p.Topic, Rule: RuleQuorum}}},
		&AlterTopicConfigs{Topics: []TopicConfigChange{{Topic: p.Topic, Durability: DurabilityDisk}}},
		&AlterTopicConfigs{Topics: []TopicConfigChange{{Topic: p.Topic, Set: map[string]string{SettingMinAcks: "2"}}}},
		&AlterTopicConfigs{Topics: []TopicConfigChange{{Topic: p.Topic, MinISR: 1, Forced: true}}},
		&CreateTopics{Topics: []NewTopic{{ID: topicID("n"), Name: "n", Assignment: [][]int32{{a}}, Rule: RuleQuorum}}},
		&CreateTopics{Topics: []NewTopic{{ID: topicID("n"), Name: "n", Assignment: [][]int32{{a}}, Durability: DurabilityDisk}}},
		&CreateTopics{Topics: []NewTopic{{ID: topicID("n"), Name: "n", Assignment: [][]int32{{a}}, Configs: map[string]string{SettingMinAcks: "all"}}}},
	} {
		require.ErrorIs(t, w.s.Image().CheckLevel(cmd), ErrLevel)
		r := w.apply(cmd)
		err := r.Err
		if len(r.Items) > 0 {
			err = r.Items[0]
		}
		require.ErrorIs(t, err, ErrLevel, "%T", cmd)
		require.ErrorContains(t, err, "cordwood cluster upgrade")
		require.Same(t, before, w.at(p))
	}
	require.NoError(t, w.configure(p, TopicConfigChange{Set: map[string]string{SettingMinAcks: "0"}}), "that is what older nodes do")
	require.NoError(t, w.apply(&SetLevel{Level: QuorumLevel}).Err)
	require.NoError(t, w.configure(p, TopicConfigChange{Rule: RuleQuorum, Set: map[string]string{SettingMinAcks: "2"}}))
}
