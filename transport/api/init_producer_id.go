package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/transport"
)

// handleInitProducerID gives an idempotent producer an id that nobody had before, with epoch 0. Transactional ids need a
// coordinator, which this version has none of: the client is told to ask again.
func handleInitProducerID(h *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.InitProducerIDRequest)
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	switch {
	case (req.ProducerID == -1) != (req.ProducerEpoch == -1),
		req.TransactionalID != nil && *req.TransactionalID == "":
		resp.ErrorCode = kerr.InvalidRequest.Code
		return body(resp)
	case req.TransactionalID != nil:
		resp.ErrorCode = kerr.CoordinatorNotAvailable.Code
		return body(resp)
	}
	return wait(func(ctx context.Context) kmsg.Response {
		id, err := h.ProducerIDs.Next(ctx)
		if err != nil {
			// No id was used up that a client knows of; it asks again.
			h.log.Debug("no producer id", "err", err)
			resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code
			return resp
		}
		resp.ProducerID, resp.ProducerEpoch = id, 0
		return resp
	})
}
