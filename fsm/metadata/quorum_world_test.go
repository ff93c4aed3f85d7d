package metadata

import (
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/logstore/record"
)

// d, e are nodes beside A, B and C, which replicas may be moved to.
const d, e int32 = 4, 5

// abcOf is a topic on A, B and C with A leading, in a cluster of level 2 with two nodes more.
func abcOf(t testing.TB, rule CommitRule, durability Durability, minISR int32) (*world, record.PartitionID) {
	t.Helper()
	w := newWorldOf(t, QuorumLevel, a, b, c, d, e)
	p := w.topicOf("orders", rule, durability, minISR, []int32{a, b, c})
	require.Equal(t, a, w.at(p).Leader)
	return w, p
}

// topicOf makes a topic of a rule and a durability and gives the id of its first partition.
func (w *world) topicOf(name string, rule CommitRule, durability Durability, minISR int32, assignment ...[]int32) record.PartitionID {
	w.t.Helper()
	n := NewTopic{ID: topicID(name), Name: name, Assignment: assignment, Rule: rule, Durability: durability, MinISR: minISR}
	require.NoError(w.t, w.one(&CreateTopics{Topics: []NewTopic{n}}))
	return record.PartitionID{Topic: n.ID}
}

func (w *world) configure(p record.PartitionID, c TopicConfigChange) error {
	w.t.Helper()
	c.Topic = p.Topic
	return w.one(&AlterTopicConfigs{Topics: []TopicConfigChange{c}})
}

// report is what the present process of a node says of its log.
func (w *world) report(id, lastEpoch int32, end int64) ReplicaReport {
	return ReplicaReport{Broker: w.epoch(id), LastEpoch: lastEpoch, End: end}
}

func (w *world) begin(p record.PartitionID) {
	w.t.Helper()
	require.NoError(w.t, w.one(&BeginElection{Elections: []ElectionStart{{Partition: p, LeaderEpoch: w.at(p).LeaderEpoch, Leader: w.at(p).Leader}}}))
}

// proven is an election that a leader's own and other reports are to prove.
func (w *world) proven(p record.PartitionID, leader int32, voters ...ReplicaReport) ReportedElection {
	return ReportedElection{Partition: p, LeaderEpoch: w.at(p).LeaderEpoch, Leader: w.epoch(leader), Voters: voters}
}

func (w *world) electReported(p record.PartitionID, leader int32, voters ...ReplicaReport) error {
	w.t.Helper()
	return w.one(&ElectReported{Elections: []ReportedElection{w.proven(p, leader, voters...)}})
}

// certification is what the present leader says of a replica's present stay.
func (w *world) certification(p record.PartitionID, id int32) Certification {
	r := w.at(p)
	x := Certification{Partition: p, LeaderEpoch: r.LeaderEpoch, LeaderBrokerEpoch: r.LeaderBrokerEpoch, Broker: w.epoch(id)}
	if m := r.Member(id); m != nil {
		x.JoinPE = m.JoinPE
	}
	return x
}

func (w *world) certify(p record.PartitionID, ids ...int32) {
	w.t.Helper()
	for _, id := range ids {
		require.NoError(w.t, w.one(&Certify{Items: []Certification{w.certification(p, id)}}))
		require.True(w.t, Trusted(w.at(p), id, w.s.Image().Broker))
	}
}

// finish is what the present leader sends when replicas hold offset 10.
func (w *world) finish(p record.PartitionID, holders ...int32) Finish {
	r := w.at(p)
	f := Finish{Partition: p, Leader: r.Leader, LeaderBrokerEpoch: r.LeaderBrokerEpoch, LeaderEpoch: r.LeaderEpoch, PartitionEpoch: r.PartitionEpoch, Point: 10}
	for _, id := range holders {
		f.Evidence = append(f.Evidence, Evidence{Broker: w.epoch(id), Offset: 10})
	}
	return f
}

func (w *world) finished(f Finish) error {
	w.t.Helper()
	return w.one(&FinishChange{Items: []Finish{f}})
}

func (w *world) reassign(p record.PartitionID, target ...int32) error {
	w.t.Helper()
	return w.one(&Reassign{Items: []Reassignment{{Partition: p, PartitionEpoch: AnyPartitionEpoch, Target: target}}})
}

func (w *world) enterJoint(p record.PartitionID) error {
	w.t.Helper()
	return w.one(&EnterJoint{Items: []JointEntry{{Partition: p, PartitionEpoch: w.at(p).PartitionEpoch}}})
}

// joint moves a partition of the quorum rule to the moment when both sets are in force.
func (w *world) joint(p record.PartitionID, target ...int32) {
	w.t.Helper()
	require.NoError(w.t, w.reassign(p, target...))
	for _, id := range target {
		if !Trusted(w.at(p), id, w.s.Image().Broker) {
			w.certify(p, id)
		}
	}
	require.NoError(w.t, w.enterJoint(p))
	require.Equal(w.t, target, w.at(p).NewReplicas)
}

// back brings a node's next process in, killed within one boot.
func (w *world) back(id int32) {
	w.t.Helper()
	w.register(id)
	w.unfence(id)
}

// events applies a command and gives what operators are told.
func (w *world) events(cmd Command) []string {
	w.t.Helper()
	w.index++
	r, delta := w.s.Apply(w.index, cmd)
	require.NoError(w.t, r.Err)
	checkInvariants(w.t, delta)
	var kinds []string
	for _, ev := range delta.Events {
		kinds = append(kinds, ev.Kind)
	}
	return kinds
}
