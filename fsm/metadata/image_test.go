package metadata

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/logstore/record"
)

// crowd makes a cluster with n partitions of three replicas, in topics of at most per partitions.
func crowd(t testing.TB, n, per int) (*world, record.PartitionID) {
	w := &world{t: t, s: NewState(), index: 10, run: map[int32]*RegisterBroker{}}
	w.s.Apply(1, &SetCluster{ClusterID: "c", Level: 1})
	for id := range int32(3) {
		w.s.Apply(uint64(2+2*id), &RegisterBroker{Broker: Broker{ID: id + 1, Incarnation: "i", DirectoryID: "d", MinLevel: 1, MaxLevel: 1}})
		w.s.Apply(uint64(3+2*id), &UnfenceBroker{Broker: BrokerEpoch{ID: id + 1, Epoch: int64(2 + 2*id)}})
	}
	last := record.PartitionID{}
	for made := 0; made < n; {
		count := min(per, n-made)
		placed, err := Place(w.s.Image(), count, 3, uint64(made))
		require.NoError(t, err)
		topic := NewTopic{ID: topicID(fmt.Sprint(made)), Name: fmt.Sprint("t", made), Assignment: placed}
		w.index++
		r, _ := w.s.Apply(w.index, &CreateTopics{Topics: []NewTopic{topic}})
		require.NoError(t, r.Items[0])
		last = record.PartitionID{Topic: topic.ID}
		made += count
	}
	return w, last
}

// proposeAgain gives the present ISR of a partition as its leader proposes it.
func (w *world) proposeAgain(p record.PartitionID) *AlterPartitions {
	return &AlterPartitions{Changes: []PartitionChange{w.proposal(p, w.at(p).ISR...)}}
}

func TestAnImageStaysAsItWasWhileTheStateGoesOn(t *testing.T) {
	w, p := abc(t, 2)
	before := w.s.Image()
	saved := w.s.Capture()
	want := encoded(t, saved)
	w.fence(1)
	w.topic("later", 1, []int32{1, 2})
	require.NoError(t, w.one(&DeleteTopics{Topics: []record.TopicID{p.Topic}}))
	require.Equal(t, int32(1), before.Partition(p).Leader)
	require.False(t, before.Broker(1).Fenced)
	require.Equal(t, 1, before.TopicCount())
	require.Nil(t, w.at(p))
	require.Equal(t, string(want), string(encoded(t, saved)))
}

// A capture may be taken between the commands of one batch, and both copies go on.
func TestACaptureInsideABatchIsNotWrittenTo(t *testing.T) {
	w, p := abc(t, 2)
	w.s.Step(w.index+1, w.proposeAgain(p))
	saved := w.s.Capture()
	want := encoded(t, saved)
	w.s.Step(w.index+2, &FenceBrokers{Brokers: []BrokerEpoch{w.epoch(1)}})
	require.Equal(t, string(want), string(encoded(t, saved)))
	d := w.s.Publish()
	require.Equal(t, []record.PartitionID{p}, d.Partitions)
	require.Equal(t, int32(2), d.New.Partition(p).PartitionEpoch, "both commands")
}

func TestADeltaNamesWhatChangedAndNothingElse(t *testing.T) {
	w := newWorld(t, 1, 2, 3)
	p := w.topic("a", 1, []int32{1, 2}, []int32{2, 3})
	q := w.topic("b", 1, []int32{3})
	w.index++
	_, d := w.s.Apply(w.index, &FenceBrokers{Brokers: []BrokerEpoch{w.epoch(1)}, Reason: "r"})
	require.Equal(t, []int32{1}, d.Brokers)
	require.Equal(t, []record.PartitionID{p}, d.Partitions)
	require.Empty(t, d.Topics)
	require.False(t, d.Full)
	require.Len(t, d.Events, 1)
	require.Equal(t, EventBrokerFenced, d.Events[0].Kind)
	w.index++
	_, d = w.s.Apply(w.index, &FenceBrokers{Brokers: []BrokerEpoch{w.epoch(3)}, Reason: "r"})
	require.Equal(t, EventPartitionOffline, d.Events[1].Kind)
	require.Equal(t, "b", d.Events[1].Topic)
	w.index++
	_, d = w.s.Apply(w.index, &ReplicaDamaged{Broker: w.epoch(3), Partitions: []record.PartitionID{q}})
	require.Equal(t, []string{EventPartitionUnsafe, EventReplicaDamaged}, []string{d.Events[0].Kind, d.Events[1].Kind})
	w.index++
	_, d = w.s.Apply(w.index, &DeleteTopics{Topics: []record.TopicID{q.Topic}})
	require.Equal(t, []record.TopicID{q.Topic}, d.Topics)
	require.Equal(t, []record.PartitionID{q}, d.Partitions)
	w.index++
	_, d = w.s.Apply(w.index, &FenceBrokers{Brokers: []BrokerEpoch{w.epoch(1)}})
	require.Equal(t, Delta{Old: d.Old, New: d.New}, d, "a copy changes nothing")
}

// TestOneChangeCostsItsDelta counts allocated bytes, which do not depend on the machine: hundred times the partitions may
// cost a deeper tree, and no more. Topics are copied one by one, so their own size is part of the delta.
func TestOneChangeCostsItsDelta(t *testing.T) {
	bytesPer := func(n int) int64 {
		w, p := crowd(t, n, 10)
		cmd := w.proposeAgain(p)
		const times = 500
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range times {
			cmd.Changes[0].PartitionEpoch = w.at(p).PartitionEpoch
			w.index++
			r, _ := w.s.Apply(w.index, cmd)
			require.NoError(t, r.Items[0])
		}
		runtime.ReadMemStats(&after)
		return int64(after.TotalAlloc-before.TotalAlloc) / times
	}
	small, large := bytesPer(100), bytesPer(10_000)
	t.Logf("one AlterPartition allocates %d bytes among 100 partitions and %d among 10,000", small, large)
	require.Less(t, large, 2*small+4096)
}

func BenchmarkAlterPartition(bench *testing.B) {
	for _, shape := range []struct{ n, per int }{{100, 10}, {10_000, 10}, {10_000, 10_000}} {
		bench.Run(fmt.Sprintf("%d partitions in topics of %d", shape.n, shape.per), func(bench *testing.B) {
			w, p := crowd(bench, shape.n, shape.per)
			cmd := w.proposeAgain(p)
			bench.ReportAllocs()
			for bench.Loop() {
				cmd.Changes[0].PartitionEpoch = w.at(p).PartitionEpoch
				w.index++
				w.s.Apply(w.index, cmd)
			}
		})
	}
}

// BenchmarkFence moves the leaders of one node in three among 10,000 partitions and brings it back.
func BenchmarkFence(bench *testing.B) {
	w, _ := crowd(bench, 10_000, 100)
	for bench.Loop() {
		w.index++
		w.s.Apply(w.index, &FenceBrokers{Brokers: []BrokerEpoch{w.epoch(1)}})
		w.index++
		w.s.Apply(w.index, &UnfenceBroker{Broker: w.epoch(1)})
		cmd := &AlterPartitions{}
		for p := range w.s.Image().ReplicasOf(1) {
			cmd.Changes = append(cmd.Changes, w.proposal(p.ID, p.Replicas...))
		}
		w.index++
		w.s.Apply(w.index, cmd)
	}
}
