package controller

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
)

// tag gives a private field of a message, nil if it is absent.
func tag(tags *kmsg.Tags, number uint32) (value []byte) {
	tags.Each(func(n uint32, v []byte) {
		if n == number {
			value = v
		}
	})
	return value
}

// BrokerRegistration registers a process of a node. The answer's broker epoch is the raft index of the registration; the
// same incarnation again gets the same one.
func (c *Controller) BrokerRegistration(ctx context.Context, req *kmsg.BrokerRegistrationRequest) *kmsg.BrokerRegistrationResponse {
	resp := req.ResponseKind().(*kmsg.BrokerRegistrationResponse)
	resp.BrokerEpoch = -1
	r := c.active()
	if r == nil {
		resp.ErrorCode = code(metadata.ErrNotController)
		return resp
	}
	if id := c.Image().ClusterID(); req.ClusterID != "" && req.ClusterID != id {
		r.refusal(req.BrokerID, "registration", fmt.Errorf("its directory is of cluster %s, this one is %s", req.ClusterID, id))
		resp.ErrorCode = kerr.InconsistentClusterID.Code
		return resp
	}
	epoch, err := c.register(ctx, req)
	r.refusal(req.BrokerID, "registration", err)
	if resp.ErrorCode = code(err); err == nil {
		resp.BrokerEpoch = epoch
	}
	return resp
}

// register proposes a registration that the image would take, and gives its broker epoch.
func (c *Controller) register(ctx context.Context, req *kmsg.BrokerRegistrationRequest) (int64, error) {
	cmd, err := registration(req)
	if err != nil {
		return 0, err
	}
	if err := c.Image().CheckRegistration(cmd); err != nil {
		return 0, err
	}
	res, err := c.Propose(ctx, cmd)
	if err == nil {
		err = res.Err
	}
	return res.Epoch, err
}

// registration makes the command of a request.
func registration(req *kmsg.BrokerRegistrationRequest) (*metadata.RegisterBroker, error) {
	extra, err := metadata.DecodeRegistrationExtra(tag(&req.UnknownTags, metadata.TagRegistration))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", metadata.ErrInvalidRequest, err)
	}
	cmd := &metadata.RegisterBroker{
		Broker: metadata.Broker{
			ID: req.BrokerID, Incarnation: uuid.UUID(req.IncarnationID).String(), DirectoryID: extra.DirectoryID,
			Listeners: make(map[string]metadata.Endpoint, len(req.Listeners)), RaftAddress: extra.RaftAddress,
			MinLevel: extra.MinLevel, MaxLevel: extra.MaxLevel, Version: extra.Version,
		},
		Earlier: extra.Earlier, Clean: extra.Clean, Mismatch: extra.Mismatch, BootOK: extra.BootOK,
	}
	if req.Rack != nil {
		cmd.Broker.Rack = *req.Rack
	}
	for _, l := range req.Listeners {
		cmd.Broker.Listeners[l.Name] = metadata.Endpoint{Host: l.Host, Port: int32(l.Port)}
	}
	return cmd, nil
}
