package controller

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

func counterValue(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	require.NoError(t, c.Write(&m))
	return m.GetCounter().GetValue()
}

func TestManyISRChangesBecomeFewCommandsAndEachIsJudgedByItself(t *testing.T) {
	tc := newTestCluster(t, 1, nil)
	tc.nodes[1].start()
	b1, _, _ := threeBrokers(t, tc)
	const n = 50
	var ids []record.PartitionID
	for i := range n {
		ids = append(ids, tc.createTopic(fmt.Sprintf("t%d", i), 1, 1, 2, 3))
	}
	tc.awaitLeader(ids[n-1], "led", leads(b1, -1))
	c := tc.awaitController().ctl
	before := c.node.raft.LastIndex()
	var wait sync.WaitGroup
	for _, id := range ids {
		wait.Add(1)
		go func() {
			defer wait.Done()
			got := alter(t, tc, id, 1, 2)
			require.Zero(t, got.ErrorCode)
			require.Equal(t, []int32{1, 2}, got.ISR)
			require.Equal(t, int32(1), got.LeaderID)
		}()
	}
	wait.Wait()
	entries := c.node.raft.LastIndex() - before
	t.Logf("%d changes in %d entries", n, entries)
	require.Less(t, entries, uint64(n))

	// The same proposal at the old partition epoch loses.
	image := c.Image()
	p := image.Partition(ids[0])
	errs := c.active().changes.submit(t.Context(), []metadata.PartitionChange{{
		Partition: ids[0], Leader: 1, LeaderBrokerEpoch: image.BrokerEpoch(1), LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch - 1,
		ISR: []metadata.BrokerEpoch{{ID: 1, Epoch: image.BrokerEpoch(1)}},
	}})
	require.ErrorIs(t, errs[0], metadata.ErrInvalidUpdate)
}

func TestRequestsOfProcessesThatAreNotRegisteredAreRefused(t *testing.T) {
	tc := newTestCluster(t, 1, nil)
	tc.nodes[1].start()
	b := tc.broker(1)
	b.run()
	tc.awaitAlive(b)
	c := tc.awaitController().ctl
	ctx := context.Background()

	hb := kmsg.NewPtrBrokerHeartbeatRequest()
	hb.BrokerID, hb.BrokerEpoch = 9, 1
	require.Equal(t, kerr.BrokerIDNotRegistered.Code, c.BrokerHeartbeat(ctx, hb, nil).ErrorCode)
	hb.BrokerID, hb.BrokerEpoch = 1, 1
	require.Equal(t, kerr.StaleBrokerEpoch.Code, c.BrokerHeartbeat(ctx, hb, nil).ErrorCode)
	ap := kmsg.NewPtrAlterPartitionRequest()
	ap.BrokerID, ap.BrokerEpoch = 1, 1
	require.Equal(t, kerr.StaleBrokerEpoch.Code, c.AlterPartition(ctx, ap).ErrorCode)
	pid := kmsg.NewPtrAllocateProducerIDsRequest()
	pid.BrokerID, pid.BrokerEpoch = 1, 1
	require.Equal(t, kerr.StaleBrokerEpoch.Code, c.AllocateProducerIDs(ctx, pid).ErrorCode)

	reg := kmsg.NewPtrBrokerRegistrationRequest()
	reg.BrokerID, reg.ClusterID = 2, "another"
	require.Equal(t, kerr.InconsistentClusterID.Code, c.BrokerRegistration(ctx, reg).ErrorCode)
	reg.ClusterID = ""
	require.Equal(t, kerr.InvalidRequest.Code, c.BrokerRegistration(ctx, reg).ErrorCode, "without our own fields")
	hb.BrokerEpoch = c.Image().BrokerEpoch(1)
	hb.UnknownTags.Set(metadata.TagHeartbeat, []byte{1, '{'})
	require.Equal(t, kerr.InvalidRequest.Code, c.BrokerHeartbeat(ctx, hb, nil).ErrorCode)
}

func TestBlocksOfProducerIDsNeverOverlap(t *testing.T) {
	tc := newTestCluster(t, 1, nil)
	tc.nodes[1].start()
	b := tc.broker(1)
	b.run()
	tc.awaitAlive(b)
	c := tc.awaitController().ctl
	req := kmsg.NewPtrAllocateProducerIDsRequest()
	req.BrokerID, req.BrokerEpoch = 1, c.Image().BrokerEpoch(1)
	end := int64(0)
	for range 3 {
		resp := c.AllocateProducerIDs(context.Background(), req)
		require.Zero(t, resp.ErrorCode)
		require.GreaterOrEqual(t, resp.ProducerIDStart, end)
		end = resp.ProducerIDStart + int64(resp.ProducerIDLen)
	}
}

func TestDamageLeavesTheISRBeforeTheHeartbeatIsAnswered(t *testing.T) {
	tc := newTestCluster(t, 1, nil)
	tc.nodes[1].start()
	b1, _, _ := threeBrokers(t, tc)
	id := tc.createTopic("t", 1, 1, 2, 3)
	tc.awaitLeader(id, "led", leads(b1, -1))
	c := tc.awaitController().ctl
	hb := kmsg.NewPtrBrokerHeartbeatRequest()
	hb.BrokerID, hb.BrokerEpoch, hb.CurrentMetadataOffset = 2, c.Image().BrokerEpoch(2), int64(c.Image().Index())
	hb.UnknownTags.Set(metadata.TagHeartbeat, metadata.HeartbeatExtra{Damaged: []record.PartitionID{id}}.Encode())
	require.Zero(t, c.BrokerHeartbeat(context.Background(), hb, nil).ErrorCode)
	require.Equal(t, []int32{1, 3}, c.Image().Partition(id).ISR)
}

func TestWaitIndexReturnsWhenTheImageIsThereOrTheContextEnds(t *testing.T) {
	tc := newTestCluster(t, 1, nil)
	tc.nodes[1].start()
	c := tc.awaitController().ctl
	require.NoError(t, c.WaitIndex(context.Background(), c.Image().Index()))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, c.WaitIndex(ctx, c.Image().Index()+1000), context.DeadlineExceeded)
	next := c.Image().Index() + 1
	done := make(chan error, 1)
	go func() { done <- c.WaitIndex(context.Background(), next) }()
	res, err := c.Propose(context.Background(), &metadata.SetLevel{Level: metadata.LatestLevel})
	require.NoError(t, err)
	require.NoError(t, res.Err)
	require.NoError(t, <-done)
	require.GreaterOrEqual(t, c.Image().Index(), next)
	require.Positive(t, tc.nodes[1].published.Load())
}

func TestRaftComesBackFromASnapshotWithEverything(t *testing.T) {
	tc := newTestCluster(t, 1, func(o *Options) { o.SnapshotThreshold, o.TrailingLogs = 20, 5 })
	n := tc.nodes[1]
	n.start()
	b1, _, _ := threeBrokers(t, tc)
	id := tc.createTopic("t", 1, 1, 2, 3)
	tc.awaitLeader(id, "led", leads(b1, -1))
	for i := range 30 {
		tc.createTopic(fmt.Sprintf("more%d", i), 1, 1, 2, 3)
	}
	c := tc.awaitController().ctl
	require.NoError(t, c.node.raft.Snapshot().Error())
	count := c.Image().TopicCount()
	n.stop()
	c = n.start()
	require.Equal(t, count, c.Image().TopicCount(), "the snapshot is there when Start returns")
	tc.awaitController()
	require.NotNil(t, c.Image().Partition(id))
}
