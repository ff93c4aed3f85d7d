package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

// seeded gives the randomness of a test and prints its seed; CONTROLLER_SEED sets it.
func seeded(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("CONTROLLER_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("CONTROLLER_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// createQuorum makes a topic whose leaders are elected by reports, and gives the brokers equal logs of it.
func createQuorum(tc *testCluster, name string, partitions int, brokers ...*testBroker) (ids []record.PartitionID) {
	tc.t.Helper()
	var replicas []int32
	for _, b := range brokers {
		replicas = append(replicas, b.id)
	}
	topic := metadata.NewTopic{Name: name, Rule: metadata.RuleQuorum, MinISR: 1}
	for range partitions {
		topic.Assignment = append(topic.Assignment, replicas)
	}
	first := tc.create(topic)
	for i := range partitions {
		id := record.PartitionID{Topic: first.Topic, Partition: int32(i)}
		ids = append(ids, id)
		for _, b := range brokers {
			b.has(id, 0, 5)
		}
	}
	tc.awaitLeader(first, "the first replica leads", leads(brokers[0], -1))
	return ids
}

// awaitElections waits until so many elections of a kind are counted, which is after the image shows them.
func awaitElections(t *testing.T, c *Controller, kind string, want float64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%v elections of kind %s", want, kind), func() bool {
		return counterValue(t, c.metrics.elections.WithLabelValues(kind)) == want
	})
}

func TestAFencedLeaderOfTheQuorumRuleIsReplacedByReportsWithinAHeartbeat(t *testing.T) {
	tc := newTestCluster(t, 1, func(o *Options) { o.SessionTimeout = time.Hour })
	tc.nodes[1].start()
	b1, b2, b3 := threeBrokers(t, tc)
	id := createQuorum(tc, "q", 1, b1, b2, b3)[0]
	b3.has(id, 0, 9)
	epoch := partition(tc, id).LeaderEpoch
	begin := time.Now()
	b1.die()
	tc.awaitLeader(id, "the most complete log of the others leads", func(p *metadata.Partition) bool { return p.Leader == 3 })
	t.Logf("replaced after %s", time.Since(begin))
	require.Equal(t, epoch+1, partition(tc, id).LeaderEpoch, "one epoch: fencing begins the election")
	c := tc.awaitController().ctl
	awaitElections(t, c, kindReported, 1)
	awaitElections(t, c, kindLastLeader, 0)
}

func TestALeaderThatIsFencedByMistakeLeadsAgainThoughTheOthersMayHaveLostRecords(t *testing.T) {
	tc := newTestCluster(t, 1, func(o *Options) { o.SessionTimeout = time.Hour })
	tc.nodes[1].start()
	b1, b2, b3 := threeBrokers(t, tc)
	id := createQuorum(tc, "q", 1, b1, b2, b3)[0]
	for _, b := range []*testBroker{b2, b3} { // both lose their power
		b.die()
		eventually(t, "it is fenced", func() bool { return !tc.awaitController().ctl.Image().Broker(b.id).Alive() })
		b.has(id, -1, 0)
		b.mu.Lock()
		b.earlier = nil
		b.mu.Unlock()
		b.run()
		tc.awaitAlive(b)
	}
	c := tc.awaitController().ctl
	for range 3 {
		epoch := partition(tc, id).LeaderEpoch
		_, err := c.Propose(t.Context(), &metadata.FenceBrokers{Brokers: []metadata.BrokerEpoch{{ID: 1, Epoch: c.Image().BrokerEpoch(1)}}})
		require.NoError(t, err)
		tc.awaitLeader(id, "it leads again", leads(b1, epoch))
	}
	awaitElections(t, c, kindLastLeader, 3)
	require.Zero(t, counterValue(t, c.metrics.dataLoss))
}

// S12: the controller is killed after BeginElection, and a stale copy of that comes late.
func TestAControllerThatDiesInAnElectionLeavesOneLeaderOfTheEpoch(t *testing.T) {
	tc := newTestCluster(t, 3, nil)
	for _, n := range tc.nodes {
		n.start()
	}
	tc.awaitVoters(1, 2, 3)
	b1, b2, b3 := threeBrokers(t, tc)
	id := createQuorum(tc, "q", 1, b1, b2, b3)[0]
	brokers := []*testBroker{b1, b2, b3}
	for _, b := range brokers {
		b.setMute(true)
	}
	before := partition(tc, id)
	start := metadata.ElectionStart{Partition: id, LeaderEpoch: before.LeaderEpoch, Leader: before.Leader}
	old := tc.awaitController()
	res, err := old.ctl.Propose(t.Context(), &metadata.BeginElection{Elections: []metadata.ElectionStart{start}})
	require.NoError(t, err)
	require.NoError(t, res.Items[0])
	old.kill()
	eventually(t, "another controller serves", func() bool { n := tc.controller(); return n != nil && n != old })
	require.Equal(t, metadata.NoNode, partition(tc, id).Leader)
	for _, b := range brokers {
		b.setMute(false)
	}
	tc.awaitLeader(id, "it asks again and elects", func(p *metadata.Partition) bool { return p.Leader != metadata.NoNode })
	led := partition(tc, id)
	require.Equal(t, before.LeaderEpoch+1, led.LeaderEpoch, "the promises stand")
	res, err = tc.awaitController().ctl.Propose(t.Context(), &metadata.BeginElection{Elections: []metadata.ElectionStart{start}})
	require.NoError(t, err)
	require.ErrorIs(t, res.Items[0], metadata.ErrFencedLeaderEpoch, "a stale copy ends no leadership")
	require.Equal(t, led, partition(tc, id))
	old.start()
	tc.awaitVoters(1, 2, 3)
}

// S12, second half: the controller is killed with an election under way, at a random moment.
func TestAnElectionOfUnknownOutcomeIsAppliedAtMostOnce(t *testing.T) {
	random := seeded(t)
	tc := newTestCluster(t, 3, nil)
	for _, n := range tc.nodes {
		n.start()
	}
	tc.awaitVoters(1, 2, 3)
	b1, b2, b3 := threeBrokers(t, tc)
	brokers := []*testBroker{b1, b2, b3}
	id := createQuorum(tc, "q", 1, b1, b2, b3)[0]
	for round := range 4 {
		for _, b := range brokers {
			b.setMute(true)
		}
		n := tc.awaitController()
		c := n.ctl
		p := partition(tc, id)
		_, err := c.Propose(t.Context(), &metadata.BeginElection{Elections: []metadata.ElectionStart{{Partition: id, LeaderEpoch: p.LeaderEpoch, Leader: p.Leader}}})
		require.NoError(t, err)
		image := c.Image()
		p = image.Partition(id)
		e := metadata.ReportedElection{Partition: id, LeaderEpoch: p.LeaderEpoch, Leader: metadata.BrokerEpoch{ID: 3, Epoch: image.BrokerEpoch(3)}}
		for _, b := range []int32{2, 3} {
			e.Voters = append(e.Voters, metadata.ReplicaReport{Broker: metadata.BrokerEpoch{ID: b, Epoch: image.BrokerEpoch(b)}, End: 5})
		}
		var proposing sync.WaitGroup
		proposing.Add(1)
		go func() {
			defer proposing.Done()
			_, _ = c.Propose(context.Background(), &metadata.ElectReported{Elections: []metadata.ReportedElection{e}})
		}()
		if d := time.Duration(random.IntN(3000)) * time.Microsecond; d > 0 {
			<-time.After(d)
		}
		n.kill()
		proposing.Wait()
		for _, b := range brokers {
			b.setMute(false)
		}
		n.start()
		tc.awaitVoters(1, 2, 3)
		tc.awaitLeader(id, fmt.Sprintf("round %d ends with a leader", round), func(now *metadata.Partition) bool {
			return now.Leader != metadata.NoNode && now.LeaderEpoch >= p.LeaderEpoch
		})
		now := partition(tc, id)
		t.Logf("round %d: epoch %d, now %d of node %d", round, p.LeaderEpoch, now.LeaderEpoch, now.Leader)
	}
}

func TestAThousandPartitionsThatLoseTheirLeaderAreLedAgainByFewCommands(t *testing.T) {
	tc := newTestCluster(t, 1, func(o *Options) { o.SessionTimeout = time.Hour })
	tc.nodes[1].start()
	b1, b2, b3 := threeBrokers(t, tc)
	const partitions = 1000
	ids := createQuorum(tc, "q", partitions, b1, b2, b3)
	c := tc.awaitController().ctl
	before := c.node.raft.LastIndex()
	begin := time.Now()
	b1.die()
	eventually(t, "all are led again", func() bool {
		image := c.Image()
		return !image.Broker(1).Alive() && image.LeaderlessCount() == 0
	})
	took, entries := time.Since(begin), c.node.raft.LastIndex()-before
	t.Logf("%d leaders after %s, by %d entries", partitions, took.Round(time.Millisecond), entries)
	require.Less(t, took, 10*time.Second)
	require.LessOrEqual(t, entries, uint64(10))
	for _, id := range ids {
		require.Equal(t, int32(2), c.Image().Partition(id).Leader)
	}
}

func TestOperatorsMoveLeadershipUnderTheQuorumRule(t *testing.T) {
	tc := newTestCluster(t, 1, func(o *Options) { o.PreferredInterval = time.Hour })
	tc.nodes[1].start()
	b1, b2, b3 := threeBrokers(t, tc)
	id := createQuorum(tc, "q", 1, b1, b2, b3)[0]
	c := tc.awaitController().ctl
	elect := func(replica int32) error {
		return c.ElectLeaders(t.Context(), false, replica, []record.PartitionID{id})[id]
	}
	require.ErrorIs(t, elect(metadata.NoNode), metadata.ErrElectionNotNeeded)
	require.ErrorIs(t, elect(4), metadata.ErrNotEligible)
	require.NoError(t, elect(3))
	require.Equal(t, int32(3), partition(tc, id).Leader)
	require.ErrorContains(t, elect(2), "node 2 is not in sync (ISR [3])")
	expandISR(t, tc, id, 3, 2, 1)
	b3.has(id, 1, 8) // it goes on while the others lag
	err := elect(2)
	require.ErrorIs(t, err, metadata.ErrNotEligible)
	require.ErrorContains(t, err, "node 3 leads in epoch 2: the log of node 2 ends in epoch 0 at 5, that of node 3 in epoch 1 at 8")
	expandISR(t, tc, id, 3, 2, 1)
	b1.has(id, 1, 8)
	require.NoError(t, elect(metadata.NoNode), "the preferred one")
	require.Equal(t, int32(1), partition(tc, id).Leader)
	awaitElections(t, c, kindPreferred, 2)
}

func TestANamedMemberOfTheISRLeadsAndIsLeftInPeace(t *testing.T) {
	tc := newTestCluster(t, 1, func(o *Options) { o.PreferredInterval = 50 * time.Millisecond })
	tc.nodes[1].start()
	b1, b2, _ := threeBrokers(t, tc)
	id := tc.createTopic("t", 1, 1, 2, 3)
	other := tc.createTopic("other", 1, 1, 2, 3)
	tc.awaitLeader(id, "led", leads(b1, -1))
	c := tc.awaitController().ctl
	elect := func(replica int32) error {
		return c.ElectLeaders(t.Context(), false, replica, []record.PartitionID{id})[id]
	}
	require.ErrorIs(t, elect(7), metadata.ErrNotEligible)
	require.NoError(t, elect(2))
	// Another partition is given back, and this one is not.
	res, err := c.Propose(t.Context(), &metadata.Elect{Elections: []metadata.Election{{Partition: other, LeaderEpoch: partition(tc, other).LeaderEpoch, PartitionEpoch: partition(tc, other).PartitionEpoch, Leader: 2}}})
	require.NoError(t, err)
	require.NoError(t, res.Items[0])
	tc.awaitLeader(other, "given back", leads(b1, partition(tc, other).LeaderEpoch-1))
	require.True(t, leads(b2, -1)(partition(tc, id)))
	shrinkISR(t, tc, id, 2)
	require.ErrorContains(t, elect(3), "node 3 is in neither ISR [2] nor ELR")
}

func TestLeadershipIsGivenBackUnderTheQuorumRule(t *testing.T) {
	tc := newTestCluster(t, 1, func(o *Options) { o.PreferredInterval = 50 * time.Millisecond })
	tc.nodes[1].start()
	b1, b2, b3 := threeBrokers(t, tc)
	id := createQuorum(tc, "q", 1, b1, b2, b3)[0]
	c := tc.awaitController().ctl
	require.NoError(t, c.ElectLeaders(t.Context(), false, 2, []record.PartitionID{id})[id])
	expandISR(t, tc, id, 2, 3, 1)
	r := c.active()
	r.duties.mu.Lock()
	held := r.duties.held[id]
	delete(r.duties.held, id) // nobody chose
	r.duties.mu.Unlock()
	require.Equal(t, partition(tc, id).LeaderEpoch, held)
	tc.awaitLeader(id, "the preferred one leads again", leads(b1, held))
	require.Equal(t, held+1, partition(tc, id).LeaderEpoch)
}

func TestFinishesRideOnHeartbeatsAndAreCounted(t *testing.T) {
	tc := newTestCluster(t, 1, nil)
	tc.nodes[1].start()
	b1, b2, b3 := threeBrokers(t, tc)
	id := tc.createTopic("t", 1, 1, 2)
	tc.awaitLeader(id, "led", leads(b1, -1))
	c := tc.awaitController().ctl
	res, err := c.Propose(t.Context(), &metadata.Reassign{Items: []metadata.Reassignment{{Partition: id, PartitionEpoch: metadata.AnyPartitionEpoch, Target: []int32{1, 3}}}})
	require.NoError(t, err)
	require.NoError(t, res.Items[0])
	eventually(t, "the gauge shows it", func() bool { return c.active().duties.underWay() == 1 })
	expandISR(t, tc, id, 1, 2, 3)
	p := partition(tc, id)
	f := metadata.Finish{Partition: id, Leader: 1, LeaderBrokerEpoch: p.LeaderBrokerEpoch, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch}
	for _, b := range []*testBroker{b1, b2, b3} {
		f.Evidence = append(f.Evidence, metadata.Evidence{Broker: metadata.BrokerEpoch{ID: b.id, Epoch: c.Image().BrokerEpoch(b.id)}})
	}
	b1.mu.Lock()
	b1.finishes = []metadata.Finish{f}
	b1.mu.Unlock()
	tc.awaitLeader(id, "the target is in force", func(p *metadata.Partition) bool { return fmt.Sprint(p.Replicas) == "[1 3]" && len(p.Adding) == 0 })
	eventually(t, "it is counted", func() bool {
		return counterValue(t, c.metrics.finishes.WithLabelValues(string(metadata.ChangeReplicas))) == 1
	})
	eventually(t, "and nothing is under way", func() bool { return c.active().duties.underWay() == 0 })
}
