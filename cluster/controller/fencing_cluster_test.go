package controller

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

// leads says that broker b leads in a higher epoch than before.
func leads(b *testBroker, after int32) func(*metadata.Partition) bool {
	return func(p *metadata.Partition) bool { return p.Leader == b.id && p.LeaderEpoch > after }
}

func partition(tc *testCluster, id record.PartitionID) *metadata.Partition {
	return tc.awaitController().ctl.Image().Partition(id)
}

func threeBrokers(t *testing.T, tc *testCluster) (b1, b2, b3 *testBroker) {
	b1, b2, b3 = tc.broker(1), tc.broker(2), tc.broker(3)
	for _, b := range []*testBroker{b1, b2, b3} {
		b.run()
		tc.awaitAlive(b)
	}
	return b1, b2, b3
}

func TestAKilledBrokerIsReplacedWithoutWaitingForItsSession(t *testing.T) {
	tc := newTestCluster(t, 1, func(o *Options) { o.SessionTimeout = time.Hour })
	tc.nodes[1].start()
	b1, b2, _ := threeBrokers(t, tc)
	id := tc.createTopic("t", 1, 1, 2, 3)
	tc.awaitLeader(id, "the preferred one leads", leads(b1, -1))
	epoch := partition(tc, id).LeaderEpoch

	begin := time.Now()
	b1.die()
	tc.awaitLeader(id, "another one leads", leads(b2, epoch))
	took := time.Since(begin)
	t.Logf("replaced after %s", took)
	require.False(t, tc.awaitController().ctl.Image().Broker(1).Alive())

	// It comes back, joins the ISR, and is given its leadership back.
	b1.run()
	tc.awaitAlive(b1)
	require.Equal(t, int32(2), partition(tc, id).Leader, "not in sync: it does not lead")
	expandISR(t, tc, id, 2, 3, 1)
	tc.awaitLeader(id, "the preferred one leads again", leads(b1, epoch+1))
}

func TestAVanishedBrokerIsReplacedAfterItsSessionTimeout(t *testing.T) {
	tc := newTestCluster(t, 1, func(o *Options) { o.SessionTimeout = time.Second })
	tc.nodes[1].start()
	b1, b2, _ := threeBrokers(t, tc)
	id := tc.createTopic("t", 1, 1, 2, 3)
	tc.awaitLeader(id, "the preferred one leads", leads(b1, -1))
	begin := time.Now()
	b1.stopHearts() // its connection does not close
	tc.awaitLeader(id, "another one leads", leads(b2, 0))
	took := time.Since(begin)
	t.Logf("replaced after %s", took)
	require.GreaterOrEqual(t, took, 900*time.Millisecond)
	b1.die()
}

func TestAClosedConnectionOfALivingBrokerFencesNobody(t *testing.T) {
	tc := newTestCluster(t, 1, func(o *Options) { o.SessionTimeout = time.Second })
	tc.nodes[1].start()
	b1, _, _ := threeBrokers(t, tc)
	id := tc.createTopic("t", 1, 1, 2, 3)
	tc.awaitLeader(id, "the preferred one leads", leads(b1, -1))
	before := partition(tc, id)
	for range 20 {
		b1.mu.Lock()
		old := b1.closed
		b1.closed = make(chan struct{})
		b1.last = nil
		b1.mu.Unlock()
		close(old)
		eventually(t, "a heartbeat over the new connection", func() bool {
			b1.mu.Lock()
			defer b1.mu.Unlock()
			return b1.last != nil
		})
	}
	require.Equal(t, before, partition(tc, id))
}

func TestAKilledControllerIsReplacedAndItsOwnBrokerFencedWithoutWaitingForItsSession(t *testing.T) {
	tc := newTestCluster(t, 3, func(o *Options) {
		o.HeartbeatTimeout, o.ElectionTimeout = 0, 0 // the defaults
		o.SessionTimeout = time.Hour
	})
	for _, n := range tc.nodes {
		n.start()
	}
	tc.awaitVoters(1, 2, 3)
	b1, b2, b3 := threeBrokers(t, tc)
	brokers := map[int32]*testBroker{1: b1, 2: b2, 3: b3}
	c := tc.awaitController()
	next := c.id%3 + 1
	id := tc.createTopic("t", 1, c.id, next, next%3+1)
	tc.awaitLeader(id, "the controller's own broker leads", leads(brokers[c.id], -1))
	epoch := partition(tc, id).LeaderEpoch
	for _, n := range tc.nodes {
		eventually(t, "all have it", func() bool { return n.ctl.Image().Partition(id) != nil })
	}

	begin := time.Now()
	brokers[c.id].die()
	c.kill()
	tc.awaitLeader(id, "another one leads", leads(brokers[next], epoch))
	took := time.Since(begin)
	t.Logf("replaced after %s", took)
	for _, b := range brokers {
		if b.id != c.id {
			require.True(t, tc.awaitController().ctl.Image().Broker(b.id).Alive(), "nobody else is fenced")
		}
	}
}

func TestANodeThatCannotCommitIsNoController(t *testing.T) {
	tc := newTestCluster(t, 3, nil)
	for _, n := range tc.nodes {
		n.start()
	}
	tc.awaitVoters(1, 2, 3)
	c := tc.awaitController()
	others := 0
	for _, n := range tc.nodes {
		if n != c {
			n.kill()
			others++
		}
	}
	require.Equal(t, 2, others)
	eventually(t, "its lease ends", func() bool { return !c.ctl.IsController() && c.ctl.ControllerID() == metadata.NoNode })
	_, err := c.ctl.Propose(context.Background(), &metadata.SetLevel{Level: 1})
	require.ErrorIs(t, err, metadata.ErrNotController)
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	require.Equal(t, kerr.NotController.Code, c.ctl.BrokerHeartbeat(context.Background(), req, nil).ErrorCode)
	require.Equal(t, kerr.NotController.Code, c.ctl.AlterPartition(context.Background(), kmsg.NewPtrAlterPartitionRequest()).ErrorCode)
	require.Equal(t, kerr.NotController.Code, c.ctl.BrokerRegistration(context.Background(), kmsg.NewPtrBrokerRegistrationRequest()).ErrorCode)
	require.Equal(t, kerr.NotController.Code, c.ctl.AllocateProducerIDs(context.Background(), kmsg.NewPtrAllocateProducerIDsRequest()).ErrorCode)
}

func TestControlledShutdownMovesLeadersBeforeTheBrokerMayStop(t *testing.T) {
	tc := newTestCluster(t, 1, nil)
	tc.nodes[1].start()
	b1, b2, _ := threeBrokers(t, tc)
	id := tc.createTopic("t", 1, 1, 2, 3)
	tc.awaitLeader(id, "the preferred one leads", leads(b1, -1))
	b1.mu.Lock()
	b1.want.WantShutdown = true
	b1.mu.Unlock()
	eventually(t, "it may stop", func() bool {
		b1.mu.Lock()
		defer b1.mu.Unlock()
		return b1.last != nil && b1.last.ShouldShutdown
	})
	require.Equal(t, b2.id, partition(tc, id).Leader)
	require.True(t, tc.awaitController().ctl.Image().Broker(1).Draining)
	b1.die()
	eventually(t, "its end fences it", func() bool { return !tc.awaitController().ctl.Image().Broker(1).Alive() })
}

func TestAPartitionWithoutAnySafeCandidateWaitsForAllReportsAndTakesTheMostComplete(t *testing.T) {
	tc := newTestCluster(t, 1, nil)
	tc.nodes[1].start()
	b1, b2, _ := threeBrokers(t, tc)
	id := tc.createTopic("t", 1, 1, 2)
	tc.awaitLeader(id, "the preferred one leads", leads(b1, -1))
	// Broker 2 falls out; then 1 dies and loses its memory: nobody is safe.
	shrinkISR(t, tc, id, 1)
	b1.die()
	eventually(t, "no leader", func() bool { return partition(tc, id).Leader == metadata.NoNode })
	b1.mu.Lock()
	b1.earlier = nil // another disk
	b1.mu.Unlock()
	b1.run()
	tc.awaitAlive(b1)
	eventually(t, "OFFLINE_UNSAFE", func() bool {
		image := tc.awaitController().ctl.Image()
		return image.Safety(image.Partition(id)) == metadata.OfflineUnsafe
	})
	epoch := partition(tc, id).LeaderEpoch
	say := func(b *testBroker, lastEpoch int32, end int64) {
		b.mu.Lock()
		b.reports[id] = metadata.ReplicaReportItem{Partition: id, Epoch: epoch, LastEpoch: lastEpoch, End: end}
		b.mu.Unlock()
	}
	say(b1, -1, 0)
	eventually(t, "one report is heard and the other missed by name", func() bool {
		r := tc.awaitController().ctl.active()
		r.duties.mu.Lock()
		defer r.duties.mu.Unlock()
		return r.duties.waiting[id] == "recovery.policy wait-all: no report from nodes 2"
	})
	require.Equal(t, metadata.NoNode, partition(tc, id).Leader)
	say(b2, 0, 5)
	tc.awaitLeader(id, "the most complete log leads", func(p *metadata.Partition) bool { return p.Leader == 2 && p.LossEpoch == p.LeaderEpoch })
	require.Equal(t, float64(1), counterValue(t, tc.awaitController().ctl.metrics.dataLoss))
}

func TestAnOperatorsUncleanElectionTakesALiveReplica(t *testing.T) {
	tc := newTestCluster(t, 1, nil)
	tc.nodes[1].start()
	b1, b2, _ := threeBrokers(t, tc)
	id := tc.createTopic("t", 1, 1, 2)
	tc.awaitLeader(id, "the preferred one leads", leads(b1, -1))
	c := tc.awaitController().ctl
	require.ErrorIs(t, c.ElectLeaders(t.Context(), true, metadata.NoNode, []record.PartitionID{id})[id], metadata.ErrElectionNotNeeded)
	shrinkISR(t, tc, id, 1)
	b1.die()
	eventually(t, "no leader: only broker 1 has everything", func() bool { return partition(tc, id).Leader == metadata.NoNode })
	epoch := partition(tc, id).LeaderEpoch
	require.ErrorIs(t, c.ElectLeaders(t.Context(), false, metadata.NoNode, []record.PartitionID{id})[id], metadata.ErrNotEligible)
	b2.mu.Lock()
	b2.reports[id] = metadata.ReplicaReportItem{Partition: id, Epoch: epoch, LastEpoch: 0, End: 3}
	b2.mu.Unlock()
	out := c.ElectLeaders(t.Context(), true, metadata.NoNode, []record.PartitionID{id, {Partition: 7}})
	require.NoError(t, out[id])
	require.ErrorIs(t, out[record.PartitionID{Partition: 7}], metadata.ErrUnknownPartition)
	require.Equal(t, int32(2), partition(tc, id).Leader)
}

// expandISR and shrinkISR propose an ISR in the leader's name.
func expandISR(t *testing.T, tc *testCluster, id record.PartitionID, isr ...int32) {
	t.Helper()
	require.Zero(t, alter(t, tc, id, isr...).ErrorCode)
}

func shrinkISR(t *testing.T, tc *testCluster, id record.PartitionID, isr ...int32) {
	t.Helper()
	require.Zero(t, alter(t, tc, id, isr...).ErrorCode)
}

func alter(t *testing.T, tc *testCluster, id record.PartitionID, isr ...int32) kmsg.AlterPartitionResponseTopicPartition {
	t.Helper()
	c := tc.awaitController().ctl
	image := c.Image()
	p := image.Partition(id)
	req := kmsg.NewPtrAlterPartitionRequest()
	req.BrokerID, req.BrokerEpoch = p.Leader, image.BrokerEpoch(p.Leader)
	rt := kmsg.NewAlterPartitionRequestTopic()
	rt.TopicID = id.Topic
	rp := kmsg.NewAlterPartitionRequestTopicPartition()
	rp.Partition, rp.LeaderEpoch, rp.PartitionEpoch = id.Partition, p.LeaderEpoch, p.PartitionEpoch
	for _, b := range isr {
		m := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
		m.BrokerID, m.BrokerEpoch = b, image.BrokerEpoch(b)
		rp.NewEpochISR = append(rp.NewEpochISR, m)
	}
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp := c.AlterPartition(t.Context(), req)
	require.Zero(t, resp.ErrorCode)
	return resp.Topics[0].Partitions[0]
}
