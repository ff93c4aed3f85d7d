// Package apitest drives the Kafka handlers in tests: over the real metadata, without raft and without logs.
package apitest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
	"cordwood/transport"
	"cordwood/transport/api"
)

// Cluster is a cluster without logs and without raft: the real metadata, applied as it is proposed, and handlers on
// the first of its nodes. It plays every part that handlers see. Partitions are in office at once and hold nothing.
type Cluster struct {
	Handlers *api.Handlers
	// Acks are the followers' acknowledgements that came.
	Acks []partition.Ack
	// Elsewhere says that the controller is another node; Forwarded then answers what is forwarded to it.
	Elsewhere bool
	Forwarded func(*transport.Request) (kmsg.Response, error)
	Removed   []int32 // voters that were taken out
	// Published is told of every change, one after another, before it is visible in Image.
	Published func(*metadata.Image, metadata.Delta)

	t      testing.TB
	mu     sync.Mutex
	state  *metadata.State
	index  uint64
	lose   error
	notYet int
}

// New starts a cluster of these nodes, of the newest metadata level.
func New(t testing.TB, nodes ...int32) *Cluster { return NewAt(t, metadata.LatestLevel, nodes...) }

// NewAt is New with an older metadata level.
func NewAt(t testing.TB, level int32, nodes ...int32) *Cluster {
	w := &Cluster{t: t, state: metadata.NewState(), index: 10}
	w.must(w.Propose(context.Background(), &metadata.SetCluster{ClusterID: "test", Level: level}))
	for _, id := range nodes {
		w.Start(id)
	}
	w.Handlers = api.New(api.Deps{
		Node:     api.Node{ID: nodes[0], TopicDefaults: api.TopicDefaults{Partitions: 1, Replication: 3}},
		Metadata: w, Replicas: w, Controller: w, Peers: w,
	}, api.Options{})
	return w
}

func (w *Cluster) must(res metadata.Result, err error) metadata.Result {
	w.t.Helper()
	require.NoError(w.t, err)
	require.NoError(w.t, res.Err)
	for _, e := range res.Items {
		require.NoError(w.t, e)
	}
	return res
}

// Start registers a process of a node and lets it in.
func (w *Cluster) Start(id int32) {
	w.t.Helper()
	w.StartAt(id, map[string]metadata.Endpoint{"internal": {Host: fmt.Sprintf("n%d", id), Port: 9092}, "external": {Host: "localhost", Port: 19092 + id}})
}

// StartAt is Start with the addresses that clients are told.
func (w *Cluster) StartAt(id int32, at map[string]metadata.Endpoint) {
	w.t.Helper()
	res := w.must(w.Propose(context.Background(), &metadata.RegisterBroker{BootOK: true, Broker: metadata.Broker{
		ID: id, Incarnation: fmt.Sprintf("i%d-%d", id, w.index), DirectoryID: fmt.Sprintf("d%d", id), MinLevel: 1, MaxLevel: metadata.LatestLevel, Version: "v0",
		Listeners: at,
	}}))
	w.must(w.Propose(context.Background(), &metadata.UnfenceBroker{Broker: metadata.BrokerEpoch{ID: id, Epoch: res.Epoch}}))
}

// Fence takes a node out.
func (w *Cluster) Fence(id int32) {
	w.t.Helper()
	w.must(w.Propose(context.Background(), &metadata.FenceBrokers{Brokers: []metadata.BrokerEpoch{{ID: id, Epoch: w.Image().BrokerEpoch(id)}}, Reason: "test"}))
}

// Call gives one request, in the version that it is set to, over the wire form and back to the handlers, and the answer
// over the wire form too, as a client reads it.
func (w *Cluster) Call(version int16, req kmsg.Request) kmsg.Response {
	w.t.Helper()
	return w.CallOn(&transport.ConnInfo{Listener: "external", Remote: &net.TCPAddr{}}, version, req)
}

// CallOn is Call over a given connection.
func (w *Cluster) CallOn(conn *transport.ConnInfo, version int16, req kmsg.Request) kmsg.Response {
	w.t.Helper()
	req.SetVersion(version)
	in, action := w.Handlers.Lookup(req.Key(), version, conn.Internal)
	require.Equal(w.t, transport.Serve, action, "%s v%d is not served", kmsg.NameForKey(req.Key()), version)
	require.NoError(w.t, in.ReadFrom(req.AppendTo(nil)))
	r := &transport.Request{Key: req.Key(), Version: version, Body: in, Conn: conn}
	resp := w.Handlers.Handle(context.Background(), r)
	if resp.Wait != nil {
		resp = resp.Wait(context.Background())
	}
	require.True(w.t, resp.Body != nil || resp.Pieces != nil, "closed: %s", resp.Reason)
	var raw []byte
	for _, p := range resp.Pieces {
		raw = append(raw, p.Bytes...)
		b := make([]byte, p.Span.Len)
		if len(b) > 0 {
			_, err := p.Span.Src.ReadAt(b, p.Span.Off)
			require.NoError(w.t, err)
		}
		raw = append(raw, b...)
		p.Span.Release()
	}
	if resp.Body != nil {
		raw = resp.Body.AppendTo(nil)
	}
	out := req.ResponseKind()
	require.NoError(w.t, out.ReadFrom(raw))
	require.Equal(w.t, raw, out.AppendTo(nil), "the answer does not come back as it went")
	return out
}

// LoseNext lets the next proposal be applied, and its proposer be told err.
func (w *Cluster) LoseNext(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose = err
}

// NotInOffice lets leaders be found out of office so many times more; it gives the number that was left before.
func (w *Cluster) NotInOffice(times int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := w.notYet
	w.notYet = times
	return left
}

// Metadata.

// Image implements api.Metadata.
func (w *Cluster) Image() *metadata.Image {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state.Image()
}

// WaitIndex implements api.Metadata: commands are in the image at once.
func (w *Cluster) WaitIndex(ctx context.Context, index uint64) error {
	if got := w.Image().Index(); got < index {
		return fmt.Errorf("image is at %d, not at %d", got, index)
	}
	return ctx.Err()
}

// ControllerID implements api.Metadata.
func (w *Cluster) ControllerID() int32 { return 1 }

// IsController implements api.Metadata.
func (w *Cluster) IsController() bool { return !w.Elsewhere }

// Propose implements api.Metadata: the command goes through the codec and is applied.
func (w *Cluster) Propose(_ context.Context, cmd metadata.Command) (metadata.Result, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	raw, err := metadata.EncodeCommand(cmd)
	if err != nil {
		return metadata.Result{}, err
	}
	if cmd, err = metadata.DecodeCommand(raw); err != nil {
		return metadata.Result{}, err
	}
	w.index++
	res, delta := w.state.Apply(w.index, cmd)
	if w.Published != nil {
		w.Published(delta.New, delta)
	}
	if lost := w.lose; lost != nil {
		w.lose = nil
		return metadata.Result{}, lost
	}
	return res, nil
}

// Forward implements api.Metadata.
func (w *Cluster) Forward(_ context.Context, r *transport.Request) (kmsg.Response, error) {
	if w.Forwarded == nil {
		return nil, metadata.ErrNoController
	}
	return w.Forwarded(r)
}

// Replicas: every partition that this node leads is in office.

// State implements api.Replicas.
func (w *Cluster) State(id record.PartitionID) (partition.PartitionState, bool) {
	p := w.Image().Partition(id)
	if p == nil || !p.IsReplica(w.Handlers.Node.ID) {
		return partition.PartitionState{}, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.notYet > 0 {
		w.notYet--
		return partition.PartitionState{}, false
	}
	s := partition.PartitionState{ID: id, Leader: p.Leader == w.Handlers.Node.ID, LeaderEpoch: p.LeaderEpoch, HighWatermark: 5, LogEndOffset: 7, Size: 100}
	for _, n := range p.Replicas {
		s.Replicas = append(s.Replicas, partition.ReplicaState{ID: n, LogEnd: 7, Flushed: 6, LastCaughtUp: 1, LastFetch: 1, InSync: true})
	}
	return s, true
}

// States implements api.Replicas.
func (w *Cluster) States() []partition.PartitionState {
	var l []partition.PartitionState
	for t := range w.Image().Topics() {
		for n := range t.Partitions {
			if s, ok := w.State(record.PartitionID{Topic: t.ID, Partition: int32(n)}); ok {
				l = append(l, s)
			}
		}
	}
	return l
}

// Dirs implements api.Replicas.
func (w *Cluster) Dirs() []partition.DirState {
	return []partition.DirState{{Path: "/data", Free: 10, Total: 20}}
}

// AckLatency implements api.Replicas.
func (w *Cluster) AckLatency(record.TopicID) partition.AckLatency {
	a := partition.AckLatency{CompletedBy: map[int32]int64{2: 1}, Raised: 3}
	a.Leader.Observe(time.Millisecond)
	return a
}

// DeleteRecords implements api.Replicas: above 0 it waits for replicas that never follow.
func (w *Cluster) DeleteRecords(ctx context.Context, id record.PartitionID, offset int64) (int64, error) {
	s, ok := w.State(id)
	switch {
	case !ok || !s.Leader:
		return 0, partition.ErrNotLeader
	case offset == -1:
		return s.HighWatermark, nil
	case offset < 0 || offset > s.HighWatermark:
		return 0, record.ErrOffsetOutOfRange
	}
	<-ctx.Done() // replicas that never follow
	return 0, partition.ErrTimedOut
}

var errNoData = errors.New("this world holds no records")

// Produce implements api.Replicas.
func (w *Cluster) Produce(context.Context, *partition.ProduceRequest) partition.PendingProduce {
	panic(errNoData)
}

// Fetch implements api.Replicas.
func (w *Cluster) Fetch(context.Context, *partition.FetchRequest) partition.PendingFetch {
	panic(errNoData)
}

// Ack implements api.Replicas and keeps what it was told.
func (w *Cluster) Ack(a *partition.Ack) { w.Acks = append(w.Acks, *a) }

// ListOffsets implements api.Replicas: all partitions are empty.
func (w *Cluster) ListOffsets(context.Context, partition.ListOffsetsQuery) partition.ListOffsetsAnswer {
	return partition.ListOffsetsAnswer{Offset: 0, Timestamp: -1, LeaderEpoch: 0, Leader: w.Handlers.Node.ID}
}

// EpochEnd implements api.Replicas.
func (w *Cluster) EpochEnd(record.PartitionID, int32, int32) (partition.EpochEnd, error) {
	return partition.EpochEnd{}, errNoData
}

// Producers implements api.Replicas.
func (w *Cluster) Producers(record.PartitionID) ([]partition.ActiveProducer, error) {
	return nil, errNoData
}

// Controller.

// BrokerRegistration implements api.Controller.
func (w *Cluster) BrokerRegistration(context.Context, *kmsg.BrokerRegistrationRequest) *kmsg.BrokerRegistrationResponse {
	panic(errNoData)
}

// BrokerHeartbeat implements api.Controller.
func (w *Cluster) BrokerHeartbeat(context.Context, *kmsg.BrokerHeartbeatRequest, <-chan struct{}) *kmsg.BrokerHeartbeatResponse {
	panic(errNoData)
}

// AlterPartition implements api.Controller.
func (w *Cluster) AlterPartition(context.Context, *kmsg.AlterPartitionRequest) *kmsg.AlterPartitionResponse {
	panic(errNoData)
}

// AllocateProducerIDs implements api.Controller.
func (w *Cluster) AllocateProducerIDs(context.Context, *kmsg.AllocateProducerIDsRequest) *kmsg.AllocateProducerIDsResponse {
	panic(errNoData)
}

// ElectLeaders implements api.Controller: no election is done, preferred leaders are told that none is needed, and a
// replica that is named is refused by its number.
func (w *Cluster) ElectLeaders(_ context.Context, _ bool, replica int32, partitions []record.PartitionID) map[record.PartitionID]error {
	answers := map[record.PartitionID]error{}
	img := w.Image()
	if partitions == nil {
		for t := range img.Topics() {
			for n := range t.Partitions {
				partitions = append(partitions, record.PartitionID{Topic: t.ID, Partition: int32(n)})
			}
		}
	}
	for _, id := range partitions {
		answers[id] = nil
		if p := img.Partition(id); p.Leader == p.Replicas[0] {
			answers[id] = metadata.ErrElectionNotNeeded
		}
		if replica != metadata.NoNode {
			answers[id] = fmt.Errorf("%w: node %d", metadata.ErrNotEligible, replica)
		}
	}
	return answers
}

// Quorum implements api.Controller.
func (w *Cluster) Quorum() api.Quorum {
	id := record.NewTopicID().String()
	return api.Quorum{Leader: 1, Term: 3, HighWatermark: 40, Voters: []api.QuorumReplica{{ID: 1, DirectoryID: id, Address: "n1:9093", LogEnd: 41, LastFetch: -1, LastCaught: -1}}}
}

// RemoveVoter implements api.Controller.
func (w *Cluster) RemoveVoter(_ context.Context, node int32) error {
	w.Removed = append(w.Removed, node)
	return nil
}

// Peers: other nodes answer for their leaders as this one does.

// Ask implements api.Peers: other nodes lead as this one does.
func (w *Cluster) Ask(_ context.Context, node int32, req kmsg.Request) (kmsg.Response, error) {
	q := req.(*kmsg.ListOffsetsRequest)
	resp := q.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, t := range q.Topics {
		x := kmsg.NewListOffsetsResponseTopic()
		x.Topic = t.Topic
		for _, p := range t.Partitions {
			y := kmsg.NewListOffsetsResponseTopicPartition()
			y.Partition = p.Partition
			if topic := w.Image().Topic(t.Topic); topic.Partitions[p.Partition].Leader != node {
				return nil, fmt.Errorf("node %d is asked for a partition that it does not lead", node)
			}
			w.mu.Lock()
			if w.notYet > 0 {
				w.notYet--
				y.ErrorCode = 6
			}
			w.mu.Unlock()
			x.Partitions = append(x.Partitions, y)
		}
		resp.Topics = append(resp.Topics, x)
	}
	return resp, nil
}

// Soon fails the test when f takes longer than a bound that only a hang exceeds.
func (w *Cluster) Soon(f func()) {
	w.t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		w.t.Fatal("no answer in 10 s")
	}
}
