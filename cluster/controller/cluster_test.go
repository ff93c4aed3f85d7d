package controller

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var nextPort atomic.Int32

// testAddress gives a loopback address that no other test of this package uses.
func testAddress() string { return fmt.Sprintf("127.0.0.1:%d", 21000+nextPort.Add(1)) }

// testCluster is a few nodes in one process: real raft over loopback, real state machine, a list in memory for gossip.
type testCluster struct {
	t       *testing.T
	join    []string
	options func(*Options) // changes the options of every node

	mu    sync.Mutex
	nodes map[int32]*testNode

	witness witness
}

// witness sees every image that any node publishes: there is one leader of an epoch.
type witness struct {
	mu      sync.Mutex
	leaders map[record.PartitionID]map[int32]int32 // by epoch
	broken  []string
}

func (w *witness) see(_ *metadata.Image, d metadata.Delta) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range d.Partitions {
		p := d.New.Partition(id)
		if p == nil || p.Leader == metadata.NoNode {
			continue
		}
		if w.leaders[id] == nil {
			w.leaders[id] = map[int32]int32{}
		}
		if was, ok := w.leaders[id][p.LeaderEpoch]; ok && was != p.Leader {
			w.broken = append(w.broken, fmt.Sprintf("%s: nodes %d and %d lead in epoch %d", id, was, p.Leader, p.LeaderEpoch))
		}
		w.leaders[id][p.LeaderEpoch] = p.Leader
	}
}

// testNode is one node, running or not. Its addresses stay; its directory is replaced by wipe.
type testNode struct {
	cluster      *testCluster
	id           int32
	dir          string
	directoryID  string
	gossip, raft string
	ctl          *Controller // nil: not running
	fatal        chan error
	published    atomic.Int64
}

func newTestCluster(t *testing.T, size int, options func(*Options)) *testCluster {
	tc := &testCluster{t: t, nodes: map[int32]*testNode{}, options: options}
	tc.witness.leaders = map[record.PartitionID]map[int32]int32{}
	for id := int32(1); id <= int32(size); id++ {
		n := &testNode{cluster: tc, id: id, gossip: fmt.Sprintf("n%d:7946", id), raft: testAddress(), fatal: make(chan error, 1)}
		tc.nodes[id] = n
		tc.join = append(tc.join, n.gossip)
		n.wipe()
	}
	t.Cleanup(func() {
		for _, n := range tc.nodes {
			if n.ctl != nil {
				n.stop()
			}
		}
		require.Empty(t, tc.witness.broken)
	})
	return tc
}

// wipe gives the node an empty directory with another id.
func (n *testNode) wipe() {
	n.dir, n.directoryID = n.cluster.t.TempDir(), record.NewTopicID().String()
}

func (n *testNode) start() *Controller {
	t := n.cluster.t
	opt := Options{
		NodeID: n.id, DirectoryID: n.directoryID, ClusterName: "test", DataDir: n.dir, GossipAddress: n.gossip, Join: n.cluster.join,
		RaftBind: n.raft, RaftAdvertise: n.raft, InterBrokerListener: "internal", Peers: func() []Peer { return n.cluster.peers(n.id) },
		OnFatal: func(err error) { n.fatal <- err }, Registerer: prometheus.NewRegistry(),
		HeartbeatTimeout: 200 * time.Millisecond, ElectionTimeout: 200 * time.Millisecond, PreferredInterval: 500 * time.Millisecond,
		Publish: func(i *metadata.Image, d metadata.Delta) { n.published.Add(1); n.cluster.witness.see(i, d) },
	}
	if os.Getenv("CONTROLLER_LOG") != "" {
		opt.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", n.id)
	}
	if n.cluster.options != nil {
		n.cluster.options(&opt)
	}
	c, err := New(opt)
	require.NoError(t, err)
	require.NoError(t, c.Start(context.Background()))
	n.cluster.mu.Lock()
	n.ctl = c
	n.cluster.mu.Unlock()
	return c
}

// stop ends the node. Its raft says good-bye to nobody when it is no leader.
func (n *testNode) stop() {
	n.cluster.mu.Lock()
	c := n.ctl
	n.ctl = nil
	n.cluster.mu.Unlock()
	require.NoError(n.cluster.t, c.Close())
}

// kill ends the node without handing leadership over.
func (n *testNode) kill() {
	n.cluster.mu.Lock()
	c := n.ctl
	n.ctl = nil
	n.cluster.mu.Unlock()
	require.NoError(n.cluster.t, c.node.raft.Shutdown().Error())
	require.NoError(n.cluster.t, c.Close())
}

func (tc *testCluster) peers(self int32) (peers []Peer) {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	for _, n := range tc.nodes {
		if n.id != self && n.ctl != nil {
			peers = append(peers, Peer{NodeID: n.id, DirectoryID: n.directoryID, ClusterID: n.ctl.clusterID(), RaftAddress: n.raft, Alive: true})
		}
	}
	return peers
}

// controller gives the running node that serves as the controller, nil if there is none.
func (tc *testCluster) controller() *testNode {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	for _, n := range tc.nodes {
		if n.ctl != nil && n.ctl.IsController() {
			return n
		}
	}
	return nil
}

// awaitController waits for a controller.
func (tc *testCluster) awaitController() *testNode {
	tc.t.Helper()
	var n *testNode
	eventually(tc.t, "a controller serves", func() bool { n = tc.controller(); return n != nil })
	return n
}

// awaitVoters waits until raft's voters are exactly these nodes, each once.
func (tc *testCluster) awaitVoters(want ...int32) {
	tc.t.Helper()
	eventually(tc.t, fmt.Sprintf("voters are %v", want), func() bool {
		n := tc.controller()
		return n != nil && fmt.Sprint(voterIDs(n.ctl.Quorum())) == fmt.Sprint(want)
	})
}

func voterIDs(q Quorum) []int32 {
	ids := []int32{}
	for id := int32(0); id < 10; id++ {
		for _, v := range q.Voters {
			if v.ID == id {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// eventually waits for a condition, polling its cheap check.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
		<-tick.C
	}
}

// testBroker is a broker as the controller sees one: a listener that is dialled, and heartbeats over a session connection.
type testBroker struct {
	cluster   *testCluster
	id        int32
	address   string
	directory string

	mu       sync.Mutex
	earlier  []metadata.EarlierIncarnation
	listener net.Listener
	closed   chan struct{} // the session connection
	epoch    int64
	reports  map[record.PartitionID]metadata.ReplicaReportItem // what it says when asked
	logs     map[record.PartitionID]testLog                    // what it has: reported unasked too, once in each epoch without a leader
	told     map[record.PartitionID]int32                      // epochs of those reports
	mute     bool                                              // it reports nothing
	finishes []metadata.Finish                                 // for the next heartbeat
	ready    []metadata.Handover                               // the same: it has done what it was asked
	want     kmsg.BrokerHeartbeatRequest                       // wishes
	last     *kmsg.BrokerHeartbeatResponse
	stopped  chan struct{}
	wait     sync.WaitGroup
}

// testLog is where a log ends.
type testLog struct {
	lastEpoch int32
	end       int64
}

// has gives the broker a log.
func (b *testBroker) has(id record.PartitionID, lastEpoch int32, end int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.logs[id] = testLog{lastEpoch, end}
}

func (b *testBroker) setMute(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mute = on
}

// report says what of its logs is asked for, or new. Under mu.
func (b *testBroker) report(image *metadata.Image) (items []metadata.ReplicaReportItem) {
	if b.mute {
		return nil
	}
	say := func(id record.PartitionID) {
		p := image.Partition(id)
		if l, ok := b.logs[id]; ok && p != nil && p.Leader == metadata.NoNode {
			b.told[id] = p.LeaderEpoch
			items = append(items, metadata.ReplicaReportItem{Partition: id, Epoch: p.LeaderEpoch, LastEpoch: l.lastEpoch, End: l.end})
		}
	}
	for id := range b.logs {
		if p := image.Partition(id); p != nil && p.Rule.ElectBy() == metadata.RuleQuorum && p.LeaderEpoch > b.told[id] {
			say(id)
		}
	}
	if b.last == nil {
		return items
	}
	asked, err := metadata.DecodeHeartbeatAnswer(tag(&b.last.UnknownTags, metadata.TagHeartbeatAnswer))
	if err != nil {
		return items
	}
	for _, id := range asked.WantReports {
		say(id)
		if r, ok := b.reports[id]; ok {
			items = append(items, r)
		}
	}
	return items
}

func (tc *testCluster) broker(id int32) *testBroker {
	b := &testBroker{
		cluster: tc, id: id, address: testAddress(), directory: "dir", reports: map[record.PartitionID]metadata.ReplicaReportItem{},
		logs: map[record.PartitionID]testLog{}, told: map[record.PartitionID]int32{},
	}
	tc.t.Cleanup(b.die)
	return b
}

// run starts a process of the broker: it registers with whoever is the controller and sends heartbeats.
func (b *testBroker) run() {
	l, err := net.Listen("tcp", b.address)
	require.NoError(b.cluster.t, err)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listener, b.stopped, b.closed, b.epoch = l, make(chan struct{}), make(chan struct{}), -1
	incarnation := uuid.New()
	b.wait.Add(2)
	go func() {
		defer b.wait.Done()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	go func() {
		defer b.wait.Done()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			b.step(incarnation)
			select {
			case <-tick.C:
			case <-b.stopped:
				return
			}
		}
	}()
}

func (b *testBroker) step(incarnation uuid.UUID) {
	n := b.cluster.controller()
	if n == nil {
		return
	}
	b.cluster.mu.Lock()
	c := n.ctl
	b.cluster.mu.Unlock()
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	b.mu.Lock()
	epoch, closed := b.epoch, b.closed
	b.mu.Unlock()
	if epoch < 0 {
		b.register(ctx, c, incarnation)
		return
	}
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	b.mu.Lock()
	req.BrokerID, req.BrokerEpoch, req.CurrentMetadataOffset = b.id, epoch, epoch
	req.WantFence, req.WantShutdown = b.want.WantFence, b.want.WantShutdown
	extra := metadata.HeartbeatExtra{Reports: b.report(c.Image()), Finish: b.finishes, Ready: b.ready}
	b.finishes, b.ready = nil, nil
	b.mu.Unlock()
	req.UnknownTags.Set(metadata.TagHeartbeat, extra.Encode())
	resp := c.BrokerHeartbeat(ctx, req, closed)
	b.mu.Lock()
	if resp.ErrorCode == 0 {
		b.last = resp
		if a, err := metadata.DecodeHeartbeatAnswer(tag(&resp.UnknownTags, metadata.TagHeartbeatAnswer)); err == nil && !b.mute {
			b.ready = a.Handovers
		}
	}
	b.mu.Unlock()
}

func (b *testBroker) register(ctx context.Context, c *Controller, incarnation uuid.UUID) {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.BrokerID, req.IncarnationID = b.id, incarnation
	host, port, err := net.SplitHostPort(b.address)
	require.NoError(b.cluster.t, err)
	l := kmsg.NewBrokerRegistrationRequestListener()
	l.Name, l.Host = "internal", host
	fmt.Sscan(port, &l.Port)
	req.Listeners = append(req.Listeners, l)
	b.mu.Lock()
	defer b.mu.Unlock()
	extra := metadata.RegistrationExtra{
		Earlier: b.earlier, BootOK: true, DirectoryID: b.directory, RaftAddress: "x:1", MinLevel: metadata.MinLevel, MaxLevel: metadata.LatestLevel, Version: "test",
	}
	req.UnknownTags.Set(metadata.TagRegistration, extra.Encode())
	if resp := c.BrokerRegistration(ctx, req); resp.ErrorCode == 0 {
		b.epoch = resp.BrokerEpoch
		b.earlier = append([]metadata.EarlierIncarnation{{ID: incarnation.String(), SameBoot: true}}, b.earlier...)
	}
}

// stopHearts ends listener and heartbeats and leaves the session connection open: a host that vanished.
func (b *testBroker) stopHearts() {
	b.mu.Lock()
	running := b.listener != nil
	if running {
		close(b.stopped)
		b.listener.Close()
		b.listener = nil
	}
	b.mu.Unlock()
	b.wait.Wait()
}

// die is kill -9: the listener is gone and the session connection closes.
func (b *testBroker) die() {
	b.mu.Lock()
	closed := b.closed
	b.closed = nil
	b.mu.Unlock()
	b.stopHearts()
	if closed != nil {
		close(closed)
	}
}

// awaitAlive waits until the controller's image has the broker unfenced.
func (tc *testCluster) awaitAlive(b *testBroker) {
	tc.t.Helper()
	eventually(tc.t, fmt.Sprintf("broker %d is unfenced", b.id), func() bool {
		b.mu.Lock()
		epoch := b.epoch
		b.mu.Unlock()
		n := tc.controller()
		return n != nil && n.ctl.Image().Broker(b.id).Alive() && n.ctl.Image().BrokerEpoch(b.id) == epoch
	})
}

// createTopic makes a topic of the ISR rule with one partition on these brokers and gives its id.
func (tc *testCluster) createTopic(name string, minISR int32, replicas ...int32) record.PartitionID {
	tc.t.Helper()
	return tc.create(metadata.NewTopic{Name: name, Assignment: [][]int32{replicas}, Rule: metadata.RuleISR, MinISR: minISR})
}

// create makes a topic and gives its first partition.
func (tc *testCluster) create(topic metadata.NewTopic) record.PartitionID {
	tc.t.Helper()
	topic.ID, topic.Durability, topic.Recovery = record.NewTopicID(), metadata.DurabilityMemory, metadata.RecoverWaitAll
	eventually(tc.t, "a topic is created", func() bool {
		n := tc.controller()
		if n == nil {
			return false
		}
		res, err := n.ctl.Propose(context.Background(), &metadata.CreateTopics{Topics: []metadata.NewTopic{topic}})
		if err == nil && res.Err != nil {
			tc.t.Fatal(res.Err)
		}
		if err == nil && res.Items[0] != nil {
			tc.t.Fatal(res.Items[0])
		}
		return err == nil
	})
	return record.PartitionID{Topic: topic.ID}
}

// awaitLeader waits until the controller's image has a leader of the partition that ok takes.
func (tc *testCluster) awaitLeader(id record.PartitionID, what string, ok func(*metadata.Partition) bool) {
	tc.t.Helper()
	eventually(tc.t, what, func() bool {
		n := tc.controller()
		if n == nil {
			return false
		}
		p := n.ctl.Image().Partition(id)
		return p != nil && ok(p)
	})
}

func raftFiles(dir string) string { return filepath.Join(dir, raftDir) }
