package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/transport"
)

// Requests between nodes that the active controller serves. The table keeps them off the clients' listeners.

func handleBrokerRegistration(h *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.BrokerRegistrationRequest)
	return wait(func(ctx context.Context) kmsg.Response { return h.Controller.BrokerRegistration(ctx, req) })
}

func handleBrokerHeartbeat(h *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req, closed := r.Body.(*kmsg.BrokerHeartbeatRequest), r.Conn.Closed
	return wait(func(ctx context.Context) kmsg.Response { return h.Controller.BrokerHeartbeat(ctx, req, closed) })
}

func handleAlterPartition(h *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.AlterPartitionRequest)
	return wait(func(ctx context.Context) kmsg.Response { return h.Controller.AlterPartition(ctx, req) })
}

func handleAllocateProducerIDs(h *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.AllocateProducerIDsRequest)
	return wait(func(ctx context.Context) kmsg.Response { return h.Controller.AllocateProducerIDs(ctx, req) })
}
