package api

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
)

// adminWorld is a cluster without logs and without raft: the real metadata, applied as it is proposed, and handlers on
// one of its nodes.
type adminWorld struct {
	t *testing.T
	h *Handlers

	mu         sync.Mutex
	state      *metadata.State
	index      uint64
	controller bool
	forward    func(*transport.Request) (kmsg.Response, error)
	lose       error // what the next Propose answers after it has applied the command
	notYet     int   // times that a leader says it is not in office
	removed    []int32
}

func newAdminWorld(t *testing.T, nodes ...int32) *adminWorld {
	w := &adminWorld{t: t, state: metadata.NewState(), index: 10, controller: true}
	w.must(w.Propose(context.Background(), &metadata.SetCluster{ClusterID: "test", Level: 1}))
	for _, id := range nodes {
		w.start(id)
	}
	w.h = New(Deps{
		Node:     Node{ID: nodes[0], TopicDefaults: TopicDefaults{Partitions: 1, Replication: 3}},
		Metadata: w, Replicas: w, Controller: w, Peers: w,
	}, Options{})
	return w
}

func (w *adminWorld) must(res metadata.Result, err error) metadata.Result {
	w.t.Helper()
	require.NoError(w.t, err)
	require.NoError(w.t, res.Err)
	for _, e := range res.Items {
		require.NoError(w.t, e)
	}
	return res
}

func (w *adminWorld) start(id int32) {
	w.t.Helper()
	res := w.must(w.Propose(context.Background(), &metadata.RegisterBroker{BootOK: true, Broker: metadata.Broker{
		ID: id, Incarnation: fmt.Sprintf("i%d-%d", id, w.index), DirectoryID: fmt.Sprintf("d%d", id), MinLevel: 1, MaxLevel: 1, Version: "v0",
		Listeners: map[string]metadata.Endpoint{"internal": {Host: fmt.Sprintf("n%d", id), Port: 9092}, "external": {Host: "localhost", Port: 19092 + id}},
	}}))
	w.must(w.Propose(context.Background(), &metadata.UnfenceBroker{Broker: metadata.BrokerEpoch{ID: id, Epoch: res.Epoch}}))
}

func (w *adminWorld) fence(id int32) {
	w.t.Helper()
	w.must(w.Propose(context.Background(), &metadata.FenceBrokers{Brokers: []metadata.BrokerEpoch{{ID: id, Epoch: w.Image().BrokerEpoch(id)}}, Reason: "test"}))
}

// ask gives one request, in the version that it is set to, over the wire form and back to the handlers, and the answer
// over the wire form too, as a client reads it.
func (w *adminWorld) ask(version int16, req kmsg.Request) kmsg.Response {
	w.t.Helper()
	req.SetVersion(version)
	in, action := w.h.Lookup(req.Key(), version, false)
	require.Equal(w.t, transport.Serve, action, "%s v%d is not served", kmsg.NameForKey(req.Key()), version)
	require.NoError(w.t, in.ReadFrom(req.AppendTo(nil)))
	r := &transport.Request{Key: req.Key(), Version: version, Body: in, Conn: &transport.ConnInfo{Listener: "external", Remote: &net.TCPAddr{}}}
	resp := w.h.Handle(context.Background(), r)
	if resp.Wait != nil {
		resp = resp.Wait(context.Background())
	}
	require.NotNil(w.t, resp.Body, "closed: %s", resp.Reason)
	raw := resp.Body.AppendTo(nil)
	out := req.ResponseKind()
	require.NoError(w.t, out.ReadFrom(raw))
	require.Equal(w.t, raw, out.AppendTo(nil), "the answer does not come back as it went")
	return out
}

// Metadata.

func (w *adminWorld) Image() *metadata.Image {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state.Image()
}

func (w *adminWorld) WaitIndex(ctx context.Context, index uint64) error {
	if got := w.Image().Index(); got < index {
		return fmt.Errorf("image is at %d, not at %d", got, index)
	}
	return ctx.Err()
}

func (w *adminWorld) ControllerID() int32 { return 1 }
func (w *adminWorld) IsController() bool  { return w.controller }

func (w *adminWorld) Propose(_ context.Context, cmd metadata.Command) (metadata.Result, error) {
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
	res, _ := w.state.Apply(w.index, cmd)
	if lost := w.lose; lost != nil {
		w.lose = nil
		return metadata.Result{}, lost
	}
	return res, nil
}

func (w *adminWorld) Forward(_ context.Context, r *transport.Request) (kmsg.Response, error) {
	if w.forward == nil {
		return nil, metadata.ErrNoController
	}
	return w.forward(r)
}

// Replicas: every partition that this node leads is in office.

func (w *adminWorld) State(id record.PartitionID) (partition.PartitionState, bool) {
	p := w.Image().Partition(id)
	if p == nil || !p.IsReplica(w.h.Node.ID) {
		return partition.PartitionState{}, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.notYet > 0 {
		w.notYet--
		return partition.PartitionState{}, false
	}
	s := partition.PartitionState{ID: id, Leader: p.Leader == w.h.Node.ID, LeaderEpoch: p.LeaderEpoch, HighWatermark: 5, LogEndOffset: 7, Size: 100}
	for _, n := range p.Replicas {
		s.Replicas = append(s.Replicas, partition.ReplicaState{ID: n, LogEnd: 7, LastCaughtUp: 1, LastFetch: 1, InSync: true})
	}
	return s, true
}

func (w *adminWorld) States() []partition.PartitionState {
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

func (w *adminWorld) Dirs() []partition.DirState {
	return []partition.DirState{{Path: "/data", Free: 10, Total: 20}}
}

func (w *adminWorld) DeleteRecords(ctx context.Context, id record.PartitionID, offset int64) (int64, error) {
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

func (w *adminWorld) Produce(context.Context, *partition.ProduceRequest) partition.PendingProduce {
	panic(errNoData)
}
func (w *adminWorld) Fetch(context.Context, *partition.FetchRequest) partition.PendingFetch {
	panic(errNoData)
}
func (w *adminWorld) Ack(int32, int64, []partition.AckPosition) {}
func (w *adminWorld) ListOffsets(context.Context, partition.ListOffsetsQuery) partition.ListOffsetsAnswer {
	panic(errNoData)
}
func (w *adminWorld) EpochEnd(record.PartitionID, int32, int32) (partition.EpochEnd, error) {
	return partition.EpochEnd{}, errNoData
}
func (w *adminWorld) Producers(record.PartitionID) ([]partition.ActiveProducer, error) {
	return nil, errNoData
}

// Controller.

func (w *adminWorld) BrokerRegistration(context.Context, *kmsg.BrokerRegistrationRequest) *kmsg.BrokerRegistrationResponse {
	panic(errNoData)
}
func (w *adminWorld) BrokerHeartbeat(context.Context, *kmsg.BrokerHeartbeatRequest, <-chan struct{}) *kmsg.BrokerHeartbeatResponse {
	panic(errNoData)
}
func (w *adminWorld) AlterPartition(context.Context, *kmsg.AlterPartitionRequest) *kmsg.AlterPartitionResponse {
	panic(errNoData)
}
func (w *adminWorld) AllocateProducerIDs(context.Context, *kmsg.AllocateProducerIDsRequest) *kmsg.AllocateProducerIDsResponse {
	panic(errNoData)
}

func (w *adminWorld) ElectLeaders(_ context.Context, _ bool, partitions []record.PartitionID) map[record.PartitionID]error {
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
	}
	return answers
}

func (w *adminWorld) Quorum() Quorum {
	id := record.NewTopicID().String()
	return Quorum{Leader: 1, Term: 3, HighWatermark: 40, Voters: []QuorumReplica{{ID: 1, DirectoryID: id, Address: "n1:9093", LogEnd: 41, LastFetch: -1, LastCaught: -1}}}
}

func (w *adminWorld) RemoveVoter(_ context.Context, node int32) error {
	w.removed = append(w.removed, node)
	return nil
}

// Peers: other nodes answer for their leaders as this one does.

func (w *adminWorld) Ask(_ context.Context, node int32, req kmsg.Request) (kmsg.Response, error) {
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

// soon fails the test when f takes longer than a bound that only a hang exceeds.
func (w *adminWorld) soon(f func()) {
	w.t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		w.t.Fatal("no answer in 10 s")
	}
}
