package metadata

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"

	"cordwood/logstore/record"
)

// tb is testing.TB or *rapid.T.
type tb interface {
	require.TestingT
	Helper()
}

// world drives one State in tests and checks the invariants after every command.
type world struct {
	t     tb
	s     *State
	index uint64
	run   map[int32]*RegisterBroker // the process that runs on each node
}

// newWorld is a cluster of level 1.
func newWorld(t tb, brokers ...int32) *world { return newWorldOf(t, MinLevel, brokers...) }

// newWorldOf is a cluster of a level, whose nodes know every level.
func newWorldOf(t tb, level int32, brokers ...int32) *world {
	w := &world{t: t, s: NewState(), index: 10, run: map[int32]*RegisterBroker{}}
	require.NoError(t, w.apply(&SetCluster{ClusterID: "c", Level: level}).Err)
	for _, id := range brokers {
		w.register(id)
		w.unfence(id)
	}
	return w
}

func (w *world) apply(cmd Command) Result {
	w.t.Helper()
	w.index++
	before := w.s.Image()
	r, d := w.s.Apply(w.index, cmd)
	require.Same(w.t, before, d.Old)
	checkInvariants(w.t, d)
	return r
}

// one gives the only refusal of a command with one item.
func (w *world) one(cmd Command) error {
	w.t.Helper()
	r := w.apply(cmd)
	require.NoError(w.t, r.Err)
	require.Len(w.t, r.Items, 1)
	return r.Items[0]
}

func (w *world) epoch(id int32) BrokerEpoch {
	return BrokerEpoch{ID: id, Epoch: w.s.Image().BrokerEpoch(id)}
}

// register starts a node that was never seen, or one with the same directory and boot after a crash.
func (w *world) register(id int32) Result {
	w.t.Helper()
	return w.restart(id, func(*RegisterBroker) {})
}

// restart registers the next process of a node; change says what is special about it.
func (w *world) restart(id int32, change func(*RegisterBroker)) Result {
	w.t.Helper()
	c := &RegisterBroker{Broker: Broker{
		ID: id, Incarnation: fmt.Sprintf("i%d-%d", id, w.index), DirectoryID: fmt.Sprintf("d%d", id),
		Listeners: map[string]Endpoint{"external": {Host: "n", Port: id}}, MinLevel: 1, MaxLevel: LatestLevel, Version: "test",
	}, BootOK: true}
	if last := w.run[id]; last != nil {
		c.Earlier = []EarlierIncarnation{{ID: last.Broker.Incarnation, SameBoot: true}}
	}
	change(c)
	r := w.apply(c)
	require.NoError(w.t, r.Err)
	w.run[id] = c
	return r
}

func losePower(c *RegisterBroker) {
	for i := range c.Earlier {
		c.Earlier[i].SameBoot = false
	}
}

func (w *world) fence(ids ...int32) {
	w.t.Helper()
	c := &FenceBrokers{Reason: "test"}
	for _, id := range ids {
		c.Brokers = append(c.Brokers, w.epoch(id))
	}
	require.NoError(w.t, errors.Join(w.apply(c).Items...))
}

func (w *world) unfence(id int32) {
	w.t.Helper()
	require.NoError(w.t, w.apply(&UnfenceBroker{Broker: w.epoch(id)}).Err)
}

// topic makes a topic and gives the id of its first partition.
func (w *world) topic(name string, minISR int32, assignment ...[]int32) record.PartitionID {
	w.t.Helper()
	id := topicID(name)
	require.NoError(w.t, w.one(&CreateTopics{Topics: []NewTopic{{ID: id, Name: name, Assignment: assignment, MinISR: minISR}}}))
	return record.PartitionID{Topic: id}
}

func topicID(name string) (id record.TopicID) {
	copy(id[:], name)
	id[15] = 1
	return id
}

func (w *world) at(p record.PartitionID) *Partition { return w.s.Image().Partition(p) }

// alter proposes an ISR as the present leader would, every member under its present epoch.
func (w *world) alter(p record.PartitionID, isr ...int32) error {
	w.t.Helper()
	return w.one(&AlterPartitions{Changes: []PartitionChange{w.proposal(p, isr...)}})
}

func (w *world) proposal(p record.PartitionID, isr ...int32) PartitionChange {
	r := w.at(p)
	c := PartitionChange{Partition: p, Leader: r.Leader, LeaderBrokerEpoch: r.LeaderBrokerEpoch, LeaderEpoch: r.LeaderEpoch, PartitionEpoch: r.PartitionEpoch}
	for _, id := range isr {
		c.ISR = append(c.ISR, w.epoch(id))
	}
	return c
}

func encoded(t tb, s *State) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, s.Encode(&b))
	return b.Bytes()
}

// must is require without reflection, for what runs after every command.
func must(t tb, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
		t.FailNow()
	}
}

// checkInvariants holds what every command must leave true (replication: I1 and the shape of a record).
func checkInvariants(t tb, d Delta) {
	t.Helper()
	for top := range d.New.Topics() {
		for i, p := range top.Partitions {
			must(t, p.ID == record.PartitionID{Topic: top.ID, Partition: int32(i)}, "partition %d of %s is %s", i, top.Name, p.ID)
			checkRecord(t, d.New, p)
			if old := d.Old.Partition(p.ID); old != nil && old != p && !d.Full {
				checkStep(t, old, p)
			}
		}
	}
	checkIndexes(t, d.New)
}

func checkRecord(t tb, i *Image, p *Partition) {
	t.Helper()
	byQuorum := p.Rule.ElectBy() == RuleQuorum
	for _, id := range p.ISR {
		observer := byQuorum && !p.votes(id)
		must(t, p.IsReplica(id) && !observer && !slices.Contains(p.ELR, id), "member %d of the ISR is no replica, or in the ELR too: %+v", id, p)
		must(t, i.Broker(id).MayLead(), "member %d of the ISR is fenced: %+v", id, p)
	}
	for _, id := range p.ELR {
		must(t, slices.Contains(p.Replicas, id) || slices.Contains(p.Adding, id), "member %d of the ELR is no replica: %+v", id, p)
	}
	must(t, (int32(len(p.ISR)) < p.MinISR && !byQuorum) || len(p.ELR) == 0, "an ELR beside an ISR that commits, or under the quorum rule: %+v", p)
	must(t, p.MinISR >= 1 && int(p.MinISR) <= p.fewestReplicas(), "minimum out of bounds: %+v", p)
	checkChange(t, p)
	if p.Leader == NoNode {
		must(t, p.LeaderBrokerEpoch == -1, "an epoch of no leader: %+v", p)
		must(t, ChooseLeader(p, i.Broker) == NoNode, "a safe candidate was not elected: %+v", p)
		return
	}
	must(t, slices.Contains(p.ISR, p.Leader), "the leader is not in the ISR: %+v", p)
	must(t, i.BrokerEpoch(p.Leader) == p.LeaderBrokerEpoch, "another process was elected: %+v", p)
	must(t, p.Leader == p.LastLeader, "%+v", p)
}

// checkChange: one change at a time, and the members are those of the sets in force, with those that are being filled.
func checkChange(t tb, p *Partition) {
	t.Helper()
	under := 0
	for _, is := range []bool{len(p.Adding) > 0, len(p.NewReplicas) > 0, p.Rule.Changing(), p.Durability == DurabilityMemoryToDisk} {
		if is {
			under++
		}
	}
	must(t, under <= 1, "two changes at once: %+v", p)
	must(t, (p.Change() != NoChange) == (under == 1) && (p.BeginPE != 0) == (under == 1) && p.BeginPE <= p.PartitionEpoch, "a change without a beginning: %+v", p)
	must(t, len(p.NewReplicas) == 0 || p.Rule == RuleQuorum, "two sets under the ISR rule: %+v", p)
	sets := slices.Concat(p.Replicas, p.NewReplicas, p.Adding)
	for k, m := range p.Members {
		must(t, slices.Contains(sets, m.ID) && (k == 0 || p.Members[k-1].ID < m.ID), "members: %+v", p)
		must(t, m.JoinPE <= p.PartitionEpoch, "joined in time to come: %+v", p)
	}
	for _, id := range sets {
		must(t, p.IsReplica(id), "replica %d is no member: %+v", id, p)
	}
}

func checkStep(t tb, old, p *Partition) {
	t.Helper()
	must(t, p.LeaderEpoch >= old.LeaderEpoch && p.PartitionEpoch >= old.PartitionEpoch, "an epoch fell: %+v -> %+v", old, p)
	otherLeader := p.Leader != old.Leader || p.LeaderBrokerEpoch != old.LeaderBrokerEpoch
	left := slices.ContainsFunc(old.Members, func(m Replica) bool { return !p.IsReplica(m.ID) })
	toDisk := p.Durability == DurabilityMemoryToDisk && old.Durability != p.Durability
	if old.Leader != NoNode && otherLeader || left || toDisk {
		must(t, p.LeaderEpoch > old.LeaderEpoch, "two leaders of one epoch, or an epoch that outlives a stay: %+v -> %+v", old, p)
	} else if old.Rule == RuleISR && p.Rule == RuleISR && old.Change() == NoChange {
		must(t, p.LeaderEpoch == old.LeaderEpoch, "the epoch rises when leadership ends: %+v -> %+v", old, p)
	}
	must(t, !changes(old, p) || p.PartitionEpoch > old.PartitionEpoch, "changed in one partition epoch: %+v -> %+v", old, p)
	must(t, p.BeginPE == old.BeginPE || p.PartitionEpoch > old.PartitionEpoch, "a change began in an old partition epoch: %+v -> %+v", old, p)
	if p.LossEpoch != old.LossEpoch || old.Rule.ElectBy() == RuleQuorum || p.Rule.ElectBy() == RuleQuorum {
		return
	}
	for _, id := range slices.Concat(p.ISR, p.ELR) {
		claimed := slices.Contains(old.ISR, id) || slices.Contains(old.ELR, id)
		joined := old.Leader != NoNode && p.Leader == old.Leader && slices.Contains(p.ISR, id)
		must(t, claimed || joined, "node %d became a candidate without a leader's word: %+v -> %+v", id, old, p)
	}
}

// checkIndexes compares the image's indexes with what its topics say.
func checkIndexes(t tb, i *Image) {
	t.Helper()
	hosted := map[int32]int{}
	leaderless, total := 0, 0
	for top := range i.Topics() {
		must(t, top == i.TopicByID(top.ID), "topic %s by its id", top.Name)
		for _, p := range top.Partitions {
			for _, m := range p.Members {
				hosted[m.ID]++
				total++
			}
			if p.Leader == NoNode {
				leaderless++
			}
		}
	}
	for b := range i.Brokers() {
		n := 0
		for p := range i.ReplicasOf(b.ID) {
			must(t, p.IsReplica(b.ID), "node %d is no replica of %s", b.ID, p.ID)
			n++
		}
		must(t, n == hosted[b.ID], "node %d holds %d replicas, the index has %d", b.ID, hosted[b.ID], n)
	}
	must(t, total == i.hosts.Len(), "%d replicas, the index has %d", total, i.hosts.Len())
	for p := range i.Leaderless() {
		must(t, p.Leader == NoNode, "%+v is led", p)
	}
	must(t, leaderless == i.LeaderlessCount(), "%d without a leader, the index has %d", leaderless, i.LeaderlessCount())
	must(t, i.topics.Len() == i.names.Len() && i.topics.Len() == i.metrics.Len(), "names left behind")
}

func (w *world) topicIDs() []record.TopicID {
	var ids []record.TopicID
	for t := range w.s.Image().Topics() {
		ids = append(ids, t.ID)
	}
	return ids
}
