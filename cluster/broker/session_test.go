package broker

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/cluster/replica"
	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
	"cordwood/transport/api"
	"cordwood/transport/rpc"
)

// noReplicas has nothing to tell.
type noReplicas struct{}

func (noReplicas) SessionChanged() <-chan struct{}                           { return nil }
func (noReplicas) DrainSession() replica.SessionNews                         { return replica.SessionNews{} }
func (noReplicas) HandOver([]metadata.Handover)                              {}
func (noReplicas) DiskFull() bool                                            { return false }
func (noReplicas) Reports([]record.PartitionID) []metadata.ReplicaReportItem { return nil }

// localController answers heartbeats and tells that it heard one.
type localController struct {
	api.Controller
	heard chan struct{}
}

func (c *localController) BrokerHeartbeat(_ context.Context, req *kmsg.BrokerHeartbeatRequest, _ <-chan struct{}) *kmsg.BrokerHeartbeatResponse {
	select {
	case c.heard <- struct{}{}:
	default:
	}
	return req.ResponseKind().(*kmsg.BrokerHeartbeatResponse)
}

// leaderIs says who is the controller.
type leaderIs struct{ atomic.Int32 }

func (l *leaderIs) ControllerID() int32 { return l.Load() }

func TestAHeartbeatToAControllerThatStandsStillIsGivenUpInTimeForTheNextOne(t *testing.T) {
	still, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and bytes, and never answers
	require.NoError(t, err)
	defer still.Close()
	pool := rpc.NewPool(rpc.PoolOptions{
		Options: rpc.Options{Timeout: 30 * time.Second}, Address: func(int32) (string, error) { return still.Addr().String(), nil },
	})
	defer pool.Close()
	leader := &leaderIs{}
	leader.Store(2)
	local := &localController{heard: make(chan struct{}, 1)}
	up := &upstream{node: 1, controller: local, metadata: leader, pool: pool}
	s := newSession(up, 50*time.Millisecond, nil, slog.New(slog.DiscardHandler))
	s.epoch.Store(7)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.run(ctx, noReplicas{}) }()
	conn, err := still.Accept() // the first heartbeat is under way
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Read(make([]byte, 1))
	require.NoError(t, err)
	leader.Store(1)
	begin := time.Now()
	<-local.heard
	require.Less(t, time.Since(begin), 3*time.Second, "the session timeout is 4 s by default")
	cancel()
	require.NoError(t, <-done)
}

func TestADrainWithoutAnyControllerIsGivenUpBeforeItsLimit(t *testing.T) {
	leader := &leaderIs{}
	leader.Store(metadata.NoNode)
	s := newSession(&upstream{node: 1, metadata: leader}, 50*time.Millisecond, nil, slog.New(slog.DiscardHandler))
	s.epoch.Store(7)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.run(ctx, noReplicas{}) }()
	limited, stop := context.WithTimeout(ctx, drainLimit)
	defer stop()
	require.ErrorIs(t, s.drain(limited), metadata.ErrNoController)
	require.NoError(t, limited.Err(), "given up before the limit")
	cancel()
	require.NoError(t, <-done)
}

// curiousController wants the same report with every heartbeat.
type curiousController struct{ api.Controller }

func (curiousController) BrokerHeartbeat(_ context.Context, req *kmsg.BrokerHeartbeatRequest, _ <-chan struct{}) *kmsg.BrokerHeartbeatResponse {
	resp := req.ResponseKind().(*kmsg.BrokerHeartbeatResponse)
	answer := metadata.HeartbeatAnswer{WantReports: []record.PartitionID{{Partition: 1}}}
	resp.UnknownTags.Set(metadata.TagHeartbeatAnswer, answer.Encode())
	return resp
}

func TestAReportThatCannotBeGivenIsNotAskedForWithoutPause(t *testing.T) {
	leader := &leaderIs{}
	leader.Store(1)
	s := newSession(&upstream{node: 1, controller: curiousController{}, metadata: leader}, time.Hour, nil, slog.New(slog.DiscardHandler))
	s.epoch.Store(7)
	next, err := s.beat(context.Background(), noReplicas{})
	require.NoError(t, err)
	require.Zero(t, next, "a new question is answered at once")
	next, err = s.beat(context.Background(), noReplicas{})
	require.NoError(t, err)
	require.Equal(t, retryPause, next)
}
