package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
	"cordwood/transport/api"
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

// scriptedController answers each heartbeat by a function.
type scriptedController struct {
	api.Controller
	answer func(resp *kmsg.BrokerHeartbeatResponse)
}

func (c scriptedController) BrokerHeartbeat(_ context.Context, req *kmsg.BrokerHeartbeatRequest, _ <-chan struct{}) *kmsg.BrokerHeartbeatResponse {
	resp := req.ResponseKind().(*kmsg.BrokerHeartbeatResponse)
	c.answer(resp)
	return resp
}

func TestASessionCountsFromWhenAnAnsweredHeartbeatWasSentAndEndsWhenTheControllerSaysSo(t *testing.T) {
	c := &scriptedController{}
	leader := &leaderIs{}
	leader.Store(1)
	s := newSession(&upstream{node: 1, controller: c, metadata: leader}, time.Hour,
		func() (*kmsg.BrokerRegistrationRequest, error) { return nil, errors.New("not now") }, slog.New(slog.DiscardHandler))
	s.epoch.Store(7)
	var arrived time.Duration
	index, fenced := uint64(7), true
	c.answer = func(resp *kmsg.BrokerHeartbeatResponse) {
		arrived = time.Since(s.begun)
		resp.IsFenced = fenced
		answer := metadata.HeartbeatAnswer{Index: index}
		resp.UnknownTags.Set(metadata.TagHeartbeatAnswer, answer.Encode())
	}
	_, err := s.beat(t.Context(), noReplicas{})
	require.NoError(t, err)
	_, ok := s.lives(time.Hour)
	require.False(t, ok, "it is fenced")
	index, fenced = 9, false
	_, err = s.beat(t.Context(), noReplicas{})
	require.NoError(t, err)
	known, ok := s.lives(time.Hour)
	require.True(t, ok)
	require.EqualValues(t, 9, known)
	require.LessOrEqual(t, s.last.Load().sent, arrived, "not from when the answer came")

	c.answer = func(resp *kmsg.BrokerHeartbeatResponse) { resp.ErrorCode = kerr.NotController.Code }
	_, err = s.beat(t.Context(), noReplicas{})
	require.Error(t, err)
	_, ok = s.lives(time.Hour)
	require.True(t, ok, "who is not the controller ends no session")
	for _, over := range []*kerr.Error{kerr.StaleBrokerEpoch, kerr.BrokerIDNotRegistered} {
		s.last.Store(&answeredHeartbeat{sent: time.Since(s.begun), index: 9})
		c.answer = func(resp *kmsg.BrokerHeartbeatResponse) { resp.ErrorCode = over.Code }
		_, err = s.beat(t.Context(), noReplicas{})
		require.ErrorContains(t, err, "not now")
		_, ok = s.lives(time.Hour)
		require.False(t, ok, "%v", over)
	}
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
