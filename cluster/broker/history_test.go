package broker

import (
	"fmt"
	"testing"
	"time"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

// world applies commands and tells a history of each.
type world struct {
	t     *testing.T
	state *metadata.State
	index uint64
	h     *history
	at    time.Time
}

func (w *world) apply(cmd metadata.Command) metadata.Result {
	w.t.Helper()
	w.index++
	res, d := w.state.Apply(w.index, cmd)
	if res.Err != nil {
		w.t.Fatal(res.Err)
	}
	for _, err := range res.Items {
		if err != nil {
			w.t.Fatal(err)
		}
	}
	w.h.note(&d, w.at)
	return res
}

func TestTheNewestChangesOfAPartitionAreKeptInOrder(t *testing.T) {
	w := &world{t: t, state: metadata.NewState(), h: newHistory()}
	w.apply(&metadata.SetCluster{ClusterID: "c", Level: metadata.LatestLevel})
	for id := range int32(2) {
		res := w.apply(&metadata.RegisterBroker{BootOK: true, Broker: metadata.Broker{ID: id, Incarnation: fmt.Sprint(id), DirectoryID: fmt.Sprint(id), MinLevel: 1, MaxLevel: metadata.LatestLevel}})
		w.apply(&metadata.UnfenceBroker{Broker: metadata.BrokerEpoch{ID: id, Epoch: res.Epoch}})
	}
	topic := record.NewTopicID()
	w.apply(&metadata.CreateTopics{Topics: []metadata.NewTopic{{ID: topic, Name: "t", Assignment: [][]int32{{0, 1}, {1, 0}}}}})
	id := record.PartitionID{Topic: topic}
	w.at = time.UnixMilli(1000)
	for n := range 30 {
		p := w.state.Image().Partition(id)
		w.apply(&metadata.SetMinISR{Partition: id, PartitionEpoch: p.PartitionEpoch, MinISR: int32(1 + n%2)})
	}
	got := w.h.of(id)
	if len(got) != pastOfOne || got[len(got)-1].PartitionEpoch != 30 || got[0].PartitionEpoch != 11 || got[0].Time != 1000 {
		t.Fatalf("%d entries, %+v to %+v", len(got), got[0], got[len(got)-1])
	}
	other := w.h.of(record.PartitionID{Topic: topic, Partition: 1})
	if len(other) != 1 || other[0].Time != 0 || other[0].Changes[0] != "created on 1,0, led by 1" {
		t.Fatalf("%+v", other)
	}
	w.apply(&metadata.DeleteTopics{Topics: []record.TopicID{topic}})
	if len(w.h.past) != 0 || w.h.total != 0 {
		t.Errorf("%d partitions and %d changes are left of a deleted topic", len(w.h.past), w.h.total)
	}
}

func TestAHistoryOfManyPartitionsKeepsFewerChangesOfEach(t *testing.T) {
	h := newHistory()
	p := &metadata.Partition{}
	for n := range pastOfAll / 10 {
		for range 21 {
			h.keep(record.PartitionID{Partition: int32(n)}, metadata.Past{Old: p, New: p})
		}
	}
	sum := 0
	for _, l := range h.past {
		sum += len(l)
	}
	if sum != h.total || sum > pastOfAll || len(h.past) != pastOfAll/10 {
		t.Errorf("%d changes of %d partitions, %d counted", sum, len(h.past), h.total)
	}
}
