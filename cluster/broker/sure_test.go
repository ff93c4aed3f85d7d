package broker

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

func TestASessionLivesOnlyWhileNobodyCanHaveFencedIt(t *testing.T) {
	s := newSession(nil, time.Second, nil, slog.New(slog.DiscardHandler))
	s.begun = time.Now().Add(-time.Hour)
	ago := func(d time.Duration) time.Duration { return time.Since(s.begun) - d }
	_, ok := s.lives(time.Minute)
	require.False(t, ok, "no heartbeat was answered")
	s.last.Store(&answeredHeartbeat{sent: ago(30 * time.Second), fenced: true, index: 7})
	_, ok = s.lives(time.Minute)
	require.False(t, ok, "it is fenced")
	s.last.Store(&answeredHeartbeat{sent: ago(30 * time.Second), index: 7})
	index, ok := s.lives(time.Minute)
	require.True(t, ok)
	require.EqualValues(t, 7, index)
	s.last.Store(&answeredHeartbeat{sent: ago(2 * time.Minute), index: 7})
	_, ok = s.lives(time.Minute)
	require.False(t, ok, "the session may be over")
}

// TestANodeLedAsOfAnIndex that its image has reached, where it says so, and not before or after.
func TestANodeLedAsOfAnIndex(t *testing.T) {
	w := &world{t: t, state: metadata.NewState(), h: newHistory()}
	w.apply(&metadata.SetCluster{ClusterID: "c", Level: metadata.LatestLevel})
	for _, id := range []int32{1, 2} {
		name := fmt.Sprint(id)
		res := w.apply(&metadata.RegisterBroker{BootOK: true, Broker: metadata.Broker{ID: id, Incarnation: name, DirectoryID: name, MinLevel: 1, MaxLevel: metadata.LatestLevel}})
		w.apply(&metadata.UnfenceBroker{Broker: metadata.BrokerEpoch{ID: id, Epoch: res.Epoch}})
	}
	id := record.PartitionID{Topic: record.NewTopicID()}
	require.False(t, ledAsOf(w.index, w.state.Image(), 1, id, 0), "there is no such partition")
	w.apply(&metadata.CreateTopics{Topics: []metadata.NewTopic{{ID: id.Topic, Name: "t", Assignment: [][]int32{{1, 2}}}}})
	before, p := w.state.Image(), w.state.Image().Partition(id)
	require.True(t, ledAsOf(w.index, before, 1, id, p.LeaderEpoch))
	require.True(t, ledAsOf(w.index-1, before, 1, id, p.LeaderEpoch), "an image may be ahead of the answer")
	require.False(t, ledAsOf(w.index+1, before, 1, id, p.LeaderEpoch), "the controller knew more")
	require.False(t, ledAsOf(w.index, before, 2, id, p.LeaderEpoch), "another node leads")
	w.apply(&metadata.Elect{Elections: []metadata.Election{{Partition: id, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Leader: 2}}})
	require.False(t, ledAsOf(w.index, w.state.Image(), 1, id, p.LeaderEpoch), "it was deposed, whether its replicas know it or not")
	p = w.state.Image().Partition(id)
	w.apply(&metadata.Elect{Elections: []metadata.Election{{Partition: id, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Leader: 1}}})
	require.False(t, ledAsOf(w.index, w.state.Image(), 1, id, before.Partition(id).LeaderEpoch), "it leads again, in another epoch")
}
