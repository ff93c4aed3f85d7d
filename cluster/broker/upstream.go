package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/transport/api"
	"cordwood/transport/rpc"
)

// Purposes of connections between nodes: one connection each, so that a heartbeat never waits behind a forwarded request.
const (
	purposeSession = "session"
	purposeAlter   = "alter"
	purposeForward = "forward"
	purposeAsk     = "ask"
)

// Versions that nodes use towards each other: the newest that the codec knows of APIs that clients are not offered.
const (
	registrationVersion   = 4
	heartbeatVersion      = 1
	alterPartitionVersion = 3
	allocateVersion       = 0
	envelopeVersion       = 0
)

// upstream is the road to the active controller, which is found anew for every request: this node itself, called
// directly, or another one over its listener between nodes.
type upstream struct {
	node       int32
	controller api.Controller
	metadata   interface{ ControllerID() int32 }
	pool       *rpc.Pool
}

// to gives the controller's node id, metadata.ErrNoController while none is known.
func (u *upstream) to() (int32, error) {
	id := u.metadata.ControllerID()
	if id == metadata.NoNode {
		return id, metadata.ErrNoController
	}
	return id, nil
}

// ask sends one request to another node. An error that wraps rpc.ErrNotSent, a failed dial among them, means that it did
// not get there.
func (u *upstream) ask(ctx context.Context, node int32, purpose string, req kmsg.Request) (kmsg.Response, error) {
	conn, err := u.pool.Get(ctx, node, purpose)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", rpc.ErrNotSent, err)
	}
	return conn.Do(ctx, req)
}

// register registers this process with the controller.
func (u *upstream) register(ctx context.Context, req *kmsg.BrokerRegistrationRequest) (*kmsg.BrokerRegistrationResponse, error) {
	req.SetVersion(registrationVersion)
	id, err := u.to()
	if err != nil {
		return nil, err
	}
	if id == u.node {
		return u.controller.BrokerRegistration(ctx, req), nil
	}
	return typed[*kmsg.BrokerRegistrationResponse](u.ask(ctx, id, purposeSession, req))
}

// heartbeat sends one heartbeat. The connection stays open between heartbeats: its end tells the controller that this
// process may be gone.
func (u *upstream) heartbeat(ctx context.Context, req *kmsg.BrokerHeartbeatRequest) (*kmsg.BrokerHeartbeatResponse, error) {
	req.SetVersion(heartbeatVersion)
	id, err := u.to()
	if err != nil {
		return nil, err
	}
	if id == u.node {
		return u.controller.BrokerHeartbeat(ctx, req, nil), nil
	}
	return typed[*kmsg.BrokerHeartbeatResponse](u.ask(ctx, id, purposeSession, req))
}

// AlterPartition implements replica.Controller.
func (u *upstream) AlterPartition(ctx context.Context, req *kmsg.AlterPartitionRequest) (*kmsg.AlterPartitionResponse, error) {
	req.SetVersion(alterPartitionVersion)
	id, err := u.to()
	if err != nil {
		return nil, err
	}
	if id == u.node {
		return u.controller.AlterPartition(ctx, req), nil
	}
	return typed[*kmsg.AlterPartitionResponse](u.ask(ctx, id, purposeAlter, req))
}

// allocate asks for a block of producer ids.
func (u *upstream) allocate(ctx context.Context, req *kmsg.AllocateProducerIDsRequest) (*kmsg.AllocateProducerIDsResponse, error) {
	req.SetVersion(allocateVersion)
	id, err := u.to()
	if err != nil {
		return nil, err
	}
	if id == u.node {
		return u.controller.AllocateProducerIDs(ctx, req), nil
	}
	return typed[*kmsg.AllocateProducerIDsResponse](u.ask(ctx, id, purposeForward, req))
}

// typed gives the response as what it must be.
func typed[T kmsg.Response](resp kmsg.Response, err error) (T, error) {
	var none T
	if err != nil {
		return none, err
	}
	t, ok := resp.(T)
	if !ok {
		return none, fmt.Errorf("answer to key %d is a %T", none.Key(), resp)
	}
	return t, nil
}

// unknownOutcome says whether a failed request may have been carried out all the same: everything but a request that
// certainly was not sent.
func unknownOutcome(err error) bool {
	return err != nil && !errors.Is(err, rpc.ErrNotSent) && !errors.Is(err, rpc.ErrPause) && !errors.Is(err, metadata.ErrNoController)
}

// peers implements api.Peers.
type peers struct{ *upstream }

// Ask implements api.Peers.
func (p peers) Ask(ctx context.Context, node int32, req kmsg.Request) (kmsg.Response, error) {
	return p.ask(ctx, node, purposeAsk, req)
}

// pause waits for d or ctx's end; false at the end.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
