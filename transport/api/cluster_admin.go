package api

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/transport"
)

// FeatureLevel is the feature of UpdateFeatures that stands for the finalised metadata level.
const FeatureLevel = "metadata.level"

// upgradeOnly is the type of a feature update that never lowers.
const upgradeOnly int8 = 1

func handleUnregisterBroker(h *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.UnregisterBrokerRequest)
	answer := func(err error) kmsg.Response {
		resp := req.ResponseKind().(*kmsg.UnregisterBrokerResponse)
		resp.ErrorCode, resp.ErrorMessage = code(err), message(err)
		return resp
	}
	return h.onController(r, func(ctx context.Context) kmsg.Response {
		ctx, cancel := context.WithTimeout(ctx, longestAdminWait)
		defer cancel()
		return answer(h.unregisterBroker(ctx, req.BrokerID))
	}, answer)
}

// unregisterBroker takes a node's registration out, then its voter. Asked again after the first succeeded alone it
// goes on with the second.
func (h *Handlers) unregisterBroker(ctx context.Context, node int32) error {
	img := h.Metadata.Image()
	b := img.Broker(node)
	if b == nil && !h.votes(node) {
		return fmt.Errorf("%w: %d", metadata.ErrBrokerNotRegistered, node)
	}
	if b != nil {
		if b.Alive() {
			return refuse(kerr.InvalidRequest, "node %d is alive; stop it first", node)
		}
		if held := replicasOn(img, node); held != "" {
			return fmt.Errorf("%w: node %d holds %s", metadata.ErrHoldsReplicas, node, held)
		}
		if _, err := h.propose(ctx, &metadata.UnregisterBroker{ID: node, Request: requestID(ctx)}); err != nil {
			return err
		}
	}
	return h.Controller.RemoveVoter(ctx, node)
}

func (h *Handlers) votes(node int32) bool {
	q := h.Controller.Quorum()
	for _, l := range [][]QuorumReplica{q.Voters, q.Observers} {
		for _, m := range l {
			if m.ID == node {
				return true
			}
		}
	}
	return false
}

// replicasOn names the partitions that a node holds, the first ten, "" if there are none.
func replicasOn(img *metadata.Image, node int32) string {
	var names []string
	held := 0
	for t := range img.Topics() {
		for n, p := range t.Partitions {
			if !p.IsReplica(node) {
				continue
			}
			if held++; held <= 10 {
				names = append(names, fmt.Sprintf("%s-%d", t.Name, n))
			}
		}
	}
	s := strings.Join(names, ", ")
	if more := held - len(names); more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

func handleUpdateFeatures(h *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.UpdateFeaturesRequest)
	answer := func(err error) kmsg.Response {
		resp := req.ResponseKind().(*kmsg.UpdateFeaturesResponse)
		resp.ErrorCode, resp.ErrorMessage = code(err), message(err)
		for _, f := range req.FeatureUpdates {
			if err != nil {
				break
			}
			x := kmsg.NewUpdateFeaturesResponseResult()
			x.Feature = f.Feature
			resp.Results = append(resp.Results, x)
		}
		return resp
	}
	return h.onController(r, func(ctx context.Context) kmsg.Response {
		ctx, cancel := within(ctx, req.TimeoutMillis)
		defer cancel()
		return answer(h.updateFeatures(ctx, req))
	}, answer)
}

// updateFeatures finalises a higher metadata level; there is no other feature.
func (h *Handlers) updateFeatures(ctx context.Context, req *kmsg.UpdateFeaturesRequest) error {
	if len(req.FeatureUpdates) == 0 {
		return nil
	}
	f := req.FeatureUpdates[0]
	if len(req.FeatureUpdates) > 1 || f.Feature != FeatureLevel {
		return refuse(kerr.InvalidUpdateVersion, "the only feature is %s, which UpdateFeatures raises once in a request", FeatureLevel)
	}
	img, level := h.Metadata.Image(), int32(f.MaxVersionLevel)
	switch {
	case req.Version >= 1 && f.UpgradeType != upgradeOnly || f.AllowDowngrade:
		return refuse(kerr.InvalidUpdateVersion, "%s is never lowered", FeatureLevel)
	case level < img.Level():
		return refuse(kerr.InvalidUpdateVersion, "%s is %d already and is never lowered to %d", FeatureLevel, img.Level(), level)
	case level > metadata.LatestLevel:
		return refuse(kerr.InvalidUpdateVersion, "%s %d is unknown to this version, which knows levels up to %d", FeatureLevel, level, metadata.LatestLevel)
	}
	for b := range img.Brokers() {
		if level > b.MaxLevel {
			return refuse(kerr.InvalidUpdateVersion, "%s %d: node %d (version %s) understands levels up to %d; upgrade or remove it first",
				FeatureLevel, level, b.ID, b.Version, b.MaxLevel)
		}
	}
	if level == img.Level() || req.ValidateOnly {
		return nil
	}
	_, err := h.propose(ctx, &metadata.SetLevel{Level: level, Request: requestID(ctx)})
	return err
}
