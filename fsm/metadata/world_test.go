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

func newWorld(t tb, brokers ...int32) *world {
	w := &world{t: t, s: NewState(), index: 10, run: map[int32]*RegisterBroker{}}
	require.NoError(t, w.apply(&SetCluster{ClusterID: "c", Level: 1}).Err)
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
		Listeners: map[string]Endpoint{"external": {Host: "n", Port: id}}, MinLevel: 1, MaxLevel: 1, Version: "test",
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

// checkInvariants holds what every command must leave true (replication: I1 and the shape of a record).
func checkInvariants(t tb, d Delta) {
	t.Helper()
	for top := range d.New.Topics() {
		for i, p := range top.Partitions {
			require.Equal(t, record.PartitionID{Topic: top.ID, Partition: int32(i)}, p.ID)
			checkRecord(t, d.New, p)
			if old := d.Old.Partition(p.ID); old != nil && !d.Full {
				checkStep(t, d.New, old, p)
			}
		}
	}
	checkIndexes(t, d.New)
}

func checkRecord(t tb, i *Image, p *Partition) {
	t.Helper()
	for _, id := range slices.Concat(p.ISR, p.ELR) {
		require.Contains(t, p.Replicas, id, "%+v", p)
	}
	for _, id := range p.ISR {
		require.NotContains(t, p.ELR, id, "%+v", p)
		require.True(t, i.Broker(id).MayLead(), "member %d of the ISR is fenced: %+v", id, p)
	}
	if int32(len(p.ISR)) >= p.MinISR {
		require.Empty(t, p.ELR, "%+v", p)
	}
	if p.Leader == NoNode {
		require.Equal(t, int64(-1), p.LeaderBrokerEpoch, "%+v", p)
		require.Equal(t, NoNode, ChooseLeader(p, i.Broker), "a safe candidate was not elected: %+v", p)
	} else {
		require.Contains(t, p.ISR, p.Leader, "%+v", p)
		require.Equal(t, i.BrokerEpoch(p.Leader), p.LeaderBrokerEpoch, "%+v", p)
		require.Equal(t, p.Leader, p.LastLeader, "%+v", p)
	}
	require.GreaterOrEqual(t, p.MinISR, int32(1), "%+v", p)
	require.LessOrEqual(t, int(p.MinISR), len(p.Replicas), "%+v", p)
}

func checkStep(t tb, i *Image, old, p *Partition) {
	t.Helper()
	require.GreaterOrEqual(t, p.LeaderEpoch, old.LeaderEpoch, "%+v -> %+v", old, p)
	require.GreaterOrEqual(t, p.PartitionEpoch, old.PartitionEpoch, "%+v -> %+v", old, p)
	if old.Leader != NoNode && p.Leader != NoNode && (p.Leader != old.Leader || p.LeaderBrokerEpoch != old.LeaderBrokerEpoch) {
		require.Greater(t, p.LeaderEpoch, old.LeaderEpoch, "two leaders of one epoch: %+v -> %+v", old, p)
	}
	if old.Leader == NoNode && p.Leader != NoNode {
		require.Equal(t, old.LeaderEpoch, p.LeaderEpoch, "the epoch rose when leadership ended: %+v -> %+v", old, p)
	}
	same := p.Leader == old.Leader && p.LeaderEpoch == old.LeaderEpoch && slices.Equal(p.ISR, old.ISR) &&
		slices.Equal(p.ELR, old.ELR) && p.MinISR == old.MinISR
	if !same {
		require.Greater(t, p.PartitionEpoch, old.PartitionEpoch, "%+v -> %+v", old, p)
	}
	if p.LossEpoch == old.LossEpoch {
		for _, id := range slices.Concat(p.ISR, p.ELR) {
			claimed := slices.Contains(old.ISR, id) || slices.Contains(old.ELR, id)
			joined := old.Leader != NoNode && p.Leader == old.Leader && slices.Contains(p.ISR, id)
			require.True(t, claimed || joined, "node %d became a candidate without a leader's word: %+v -> %+v", id, old, p)
		}
	}
}

// checkIndexes compares the image's indexes with what its topics say.
func checkIndexes(t tb, i *Image) {
	t.Helper()
	hosted := map[int32]int{}
	leaderless := 0
	for top := range i.Topics() {
		require.Same(t, top, i.TopicByID(top.ID))
		for _, p := range top.Partitions {
			for _, m := range p.Members {
				hosted[m.ID]++
			}
			if p.Leader == NoNode {
				leaderless++
			}
		}
	}
	total := 0
	for b := range i.Brokers() {
		n := 0
		for p := range i.ReplicasOf(b.ID) {
			require.True(t, p.IsReplica(b.ID))
			n++
		}
		require.Equal(t, hosted[b.ID], n)
		total += n
	}
	require.Equal(t, total, i.hosts.Len())
	require.Equal(t, leaderless, i.LeaderlessCount())
	for p := range i.Leaderless() {
		require.Equal(t, NoNode, p.Leader)
	}
	require.Equal(t, i.topics.Len(), i.names.Len())
	require.Equal(t, i.topics.Len(), i.metrics.Len())
}

func (w *world) topicIDs() []record.TopicID {
	var ids []record.TopicID
	for t := range w.s.Image().Topics() {
		ids = append(ids, t.ID)
	}
	return ids
}
