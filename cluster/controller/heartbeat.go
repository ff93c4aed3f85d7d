package controller

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
)

// BrokerHeartbeat takes a broker's sign of life and what it brings: damage, reports, certifications, finishes of
// changes, the wish to be fenced or to leave. closed is closed with the connection it came over; a closed session connection makes the controller
// dial the broker. The answer says what the metadata has of the broker and which partitions it should report.
func (c *Controller) BrokerHeartbeat(ctx context.Context, req *kmsg.BrokerHeartbeatRequest, closed <-chan struct{}) *kmsg.BrokerHeartbeatResponse {
	resp := req.ResponseKind().(*kmsg.BrokerHeartbeatResponse)
	r := c.active()
	if r == nil {
		resp.ErrorCode = code(metadata.ErrNotController)
		return resp
	}
	err := r.heartbeat(ctx, req, closed, resp)
	resp.ErrorCode = code(err)
	r.refusal(req.BrokerID, "heartbeat", err)
	return resp
}

func (r *reign) heartbeat(ctx context.Context, req *kmsg.BrokerHeartbeatRequest, closed <-chan struct{}, resp *kmsg.BrokerHeartbeatResponse) error {
	be := metadata.BrokerEpoch{ID: req.BrokerID, Epoch: req.BrokerEpoch}
	if err := checkBroker(r.c.Image(), be.ID, be.Epoch); err != nil {
		return err
	}
	if !r.sessions.heartbeat(be.ID, be.Epoch, closed) {
		return fmt.Errorf("%w: node %d", metadata.ErrStaleBrokerEpoch, be.ID)
	}
	var extra metadata.HeartbeatExtra
	if b := tag(&req.UnknownTags, metadata.TagHeartbeat); b != nil {
		var err error
		if extra, err = metadata.DecodeHeartbeatExtra(b); err != nil {
			return fmt.Errorf("%w: %w", metadata.ErrInvalidRequest, err)
		}
	}
	if err := r.takeExtra(ctx, be, &extra); err != nil {
		return err
	}
	if err := r.moveBroker(ctx, req, be); err != nil {
		return err
	}

	image := r.c.Image()
	b := image.Broker(be.ID)
	if b == nil || b.Epoch != be.Epoch {
		return fmt.Errorf("%w: node %d", metadata.ErrStaleBrokerEpoch, be.ID)
	}
	resp.IsCaughtUp = req.CurrentMetadataOffset >= b.Epoch
	resp.IsFenced = b.Fenced
	resp.ShouldShutdown = req.WantShutdown && (b.Draining || b.Fenced) && !leadsAny(image, b.ID)
	answer := metadata.HeartbeatAnswer{Index: image.Index(), WantReports: r.duties.wants(b.ID), Handovers: r.duties.asks(be)}
	resp.UnknownTags.Set(metadata.TagHeartbeatAnswer, answer.Encode())
	return nil
}

// takeExtra takes what rides on a heartbeat: damage first, since it comes before any report.
func (r *reign) takeExtra(ctx context.Context, be metadata.BrokerEpoch, extra *metadata.HeartbeatExtra) error {
	if len(extra.Damaged) > 0 {
		res, err := r.c.Propose(ctx, &metadata.ReplicaDamaged{Broker: be, Partitions: extra.Damaged})
		if err == nil {
			err = res.Err
		}
		if err != nil {
			return fmt.Errorf("replicas damaged: %w", err)
		}
	}
	r.duties.noteFull(be, extra.Full)
	r.duties.report(be, extra.Reports)
	r.duties.ready(be, extra.Ready)
	if len(extra.Certify) > 0 {
		if _, err := r.c.Propose(ctx, &metadata.Certify{Items: extra.Certify}); err != nil {
			return fmt.Errorf("certify: %w", err) // the leader sends it again; refusals by item are for it to see in the image
		}
	}
	if len(extra.Finish) > 0 {
		if err := r.finish(ctx, extra.Finish); err != nil {
			return fmt.Errorf("finish changes: %w", err) // as above
		}
	}
	return nil
}

// moveBroker fences, drains or unfences a broker by its own wish and state.
func (r *reign) moveBroker(ctx context.Context, req *kmsg.BrokerHeartbeatRequest, be metadata.BrokerEpoch) error {
	b := r.c.Image().Broker(be.ID)
	if b == nil || b.Epoch != be.Epoch {
		return fmt.Errorf("%w: node %d", metadata.ErrStaleBrokerEpoch, be.ID)
	}
	var cmd metadata.Command
	switch {
	case req.WantFence && !b.Fenced:
		cmd = &metadata.FenceBrokers{Brokers: []metadata.BrokerEpoch{be}, Reason: "it asked for it"}
	case req.WantFence:
	case req.WantShutdown && !b.Fenced && !b.Draining:
		cmd = &metadata.FenceBrokers{Brokers: []metadata.BrokerEpoch{be}, Draining: true, Reason: "controlled shutdown"}
	case req.WantShutdown:
	case b.Fenced && req.CurrentMetadataOffset >= b.Epoch:
		cmd = &metadata.UnfenceBroker{Broker: be}
	}
	if cmd == nil {
		return nil
	}
	res, err := r.c.Propose(ctx, cmd)
	if err == nil {
		err = res.Err
	}
	if err == nil && len(res.Items) > 0 {
		err = res.Items[0]
	}
	return err
}

// leadsAny says that a broker leads a partition.
func leadsAny(image *metadata.Image, id int32) bool {
	for p := range image.ReplicasOf(id) {
		if p.Leader == id {
			return true
		}
	}
	return false
}
