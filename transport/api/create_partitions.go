package api

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/transport"
)

func handleCreatePartitions(h *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.CreatePartitionsRequest)
	refused := func(err error) kmsg.Response {
		resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
		for _, t := range growthsAsked(req) {
			resp.Topics = append(resp.Topics, grown(t.Topic, err))
		}
		return resp
	}
	return h.onController(r, func(ctx context.Context) kmsg.Response {
		ctx, cancel := within(ctx, req.TimeoutMillis)
		defer cancel()
		return h.createPartitions(ctx, req, refused)
	}, refused)
}

// growthsAsked gives the wishes of a request by topic, in order. A topic named more than once is there once, and marked.
func growthsAsked(req *kmsg.CreatePartitionsRequest) []growthAsked {
	at := make(map[string]int, len(req.Topics))
	var l []growthAsked
	for i := range req.Topics {
		t := &req.Topics[i]
		if n, again := at[t.Topic]; again {
			l[n].again = true
			continue
		}
		at[t.Topic] = len(l)
		l = append(l, growthAsked{CreatePartitionsRequestTopic: t})
	}
	return l
}

type growthAsked struct {
	*kmsg.CreatePartitionsRequestTopic
	again bool
}

func grown(topic string, err error) kmsg.CreatePartitionsResponseTopic {
	t := kmsg.NewCreatePartitionsResponseTopic()
	t.Topic, t.ErrorCode, t.ErrorMessage = topic, code(err), message(err)
	if t.ErrorCode == kerr.UnknownTopicOrPartition.Code {
		t.ErrorMessage = nil
	}
	return t
}

func (h *Handlers) createPartitions(ctx context.Context, req *kmsg.CreatePartitionsRequest, refused func(error) kmsg.Response) kmsg.Response {
	img := h.Metadata.Image()
	resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	cmd := &metadata.CreatePartitions{Request: requestID(ctx)}
	var at []int
	total := 0
	for _, t := range growthsAsked(req) {
		more, err := h.planGrowth(img, t)
		if err == nil {
			at = append(at, len(resp.Topics))
			cmd.Topics = append(cmd.Topics, more)
			total += len(more.Assignment)
		}
		resp.Topics = append(resp.Topics, grown(t.Topic, err))
	}
	if total > mostPartitionsPerRequest {
		return refused(tooManyPartitions(total))
	}
	if req.ValidateOnly || len(cmd.Topics) == 0 {
		return resp
	}
	res, err := h.propose(ctx, cmd)
	for i, n := range at {
		e := err
		if e == nil {
			e = itemError(res, i)
		}
		resp.Topics[n] = grown(resp.Topics[n].Topic, e)
		if e == nil {
			h.awaitLeaders(ctx, cmd.Topics[i].Topic, int(cmd.Topics[i].First))
		}
	}
	return resp
}

func tooManyPartitions(n int) error {
	return refuse(kerr.PolicyViolation, "%d new partitions in one request; it may create %d", n, mostPartitionsPerRequest)
}

func (h *Handlers) planGrowth(img *metadata.Image, t growthAsked) (metadata.MorePartitions, error) {
	var more metadata.MorePartitions
	if t.again {
		return more, refuse(kerr.InvalidRequest, "the request names topic %q more than once", t.Topic)
	}
	topic := img.Topic(t.Topic)
	if topic == nil {
		return more, fmt.Errorf("%w: %q", metadata.ErrUnknownTopic, t.Topic)
	}
	present := len(topic.Partitions)
	if int(t.Count) <= present {
		return more, fmt.Errorf("%w: topic %q has %d, and %d is not more", metadata.ErrInvalidPartitions, t.Topic, present, t.Count)
	}
	added := int(t.Count) - present
	if added > mostPartitionsPerRequest {
		return more, tooManyPartitions(added)
	}
	more.Topic, more.First = topic.ID, int32(present)
	replication := len(topic.Partitions[0].Replicas)
	if t.Assignment != nil {
		if len(t.Assignment) != added {
			return more, fmt.Errorf("%w: %d new partitions and an assignment for %d", metadata.ErrInvalidAssignment, added, len(t.Assignment))
		}
		for i, a := range t.Assignment {
			if err := checkReplicas(img, a.Replicas, replication); err != nil {
				return more, fmt.Errorf("partition %d: %w", present+i, err)
			}
			more.Assignment = append(more.Assignment, slices.Clone(a.Replicas))
		}
		return more, nil
	}
	var err error
	more.Assignment, err = metadata.Place(img, added, replication, rand.Uint64())
	return more, err
}
