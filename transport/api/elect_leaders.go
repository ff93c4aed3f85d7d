package api

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
	"cordwood/transport"
)

// Types of elections.
const (
	electPreferred int8 = 0
	electUnclean   int8 = 1
)

func handleElectLeaders(h *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.ElectLeadersRequest)
	refused := func(err error) kmsg.Response {
		return electionAnswer(req, req.Topics, func(string, int32) error { return err }, err)
	}
	if req.Version >= 1 && req.ElectionType != electPreferred && req.ElectionType != electUnclean {
		return body(refused(refuse(kerr.InvalidRequest, "election type %d is unknown", req.ElectionType)))
	}
	replica, err := electReplica(req)
	if err != nil {
		return body(refused(err))
	}
	return h.onController(r, func(ctx context.Context) kmsg.Response {
		ctx, cancel := within(ctx, req.TimeoutMillis)
		defer cancel()
		return h.electLeaders(ctx, req, replica)
	}, refused)
}

// electReplica reads who should lead, metadata.NoNode if the request names nobody.
func electReplica(req *kmsg.ElectLeadersRequest) (replica int32, err error) {
	replica = metadata.NoNode
	req.UnknownTags.Each(func(tag uint32, b []byte) {
		if tag == metadata.TagElectReplica {
			if replica, err = metadata.DecodeNode(b); err != nil {
				err = refuse(kerr.InvalidRequest, "the replica that should lead: %v", err)
			}
		}
	})
	if err == nil && replica != metadata.NoNode && req.Topics == nil {
		err = refuse(kerr.InvalidRequest, "node %d cannot be elected for every partition there is: name them", replica)
	}
	return replica, err
}

func (h *Handlers) electLeaders(ctx context.Context, req *kmsg.ElectLeadersRequest, replica int32) kmsg.Response {
	img := h.Metadata.Image()
	unclean := req.Version >= 1 && req.ElectionType == electUnclean
	if req.Topics == nil {
		return h.electAll(ctx, img, req, unclean)
	}
	var ids []record.PartitionID
	seen := map[record.PartitionID]bool{}
	for _, t := range req.Topics {
		for _, n := range t.Partitions {
			if id, ok := partitionNamed(img, t.Topic, n); ok && !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
	}
	elected := map[record.PartitionID]error{}
	if len(ids) > 0 {
		elected = h.Controller.ElectLeaders(ctx, unclean, replica, ids)
	}
	return electionAnswer(req, req.Topics, func(topic string, n int32) error {
		id, ok := partitionNamed(img, topic, n)
		if !ok {
			return refuse(kerr.UnknownTopicOrPartition, "topic %q has no partition %d", topic, n)
		}
		return elected[id]
	}, nil)
}

func partitionNamed(img *metadata.Image, topic string, n int32) (record.PartitionID, bool) {
	t := img.Topic(topic)
	if t == nil || n < 0 || int(n) >= len(t.Partitions) {
		return record.PartitionID{}, false
	}
	return record.PartitionID{Topic: t.ID, Partition: n}, true
}

// electAll elects wherever it is needed; partitions whose leader is the right one already are left out of the answer.
func (h *Handlers) electAll(ctx context.Context, img *metadata.Image, req *kmsg.ElectLeadersRequest, unclean bool) kmsg.Response {
	elected := h.Controller.ElectLeaders(ctx, unclean, metadata.NoNode, nil)
	var topics []kmsg.ElectLeadersRequestTopic
	for t := range img.Topics() {
		x := kmsg.NewElectLeadersRequestTopic()
		x.Topic = t.Name
		for n := range t.Partitions {
			err, judged := elected[record.PartitionID{Topic: t.ID, Partition: int32(n)}]
			if judged && !errors.Is(err, metadata.ErrElectionNotNeeded) {
				x.Partitions = append(x.Partitions, int32(n))
			}
		}
		topics = append(topics, x)
	}
	return electionAnswer(req, topics, func(topic string, n int32) error {
		id, _ := partitionNamed(img, topic, n)
		return elected[id]
	}, nil)
}

func electionAnswer(req *kmsg.ElectLeadersRequest, topics []kmsg.ElectLeadersRequestTopic, judge func(topic string, n int32) error, whole error) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ElectLeadersResponse)
	resp.ErrorCode = code(whole)
	for _, t := range topics {
		x := kmsg.NewElectLeadersResponseTopic()
		x.Topic = t.Topic
		for _, n := range t.Partitions {
			err := judge(t.Topic, n)
			p := kmsg.NewElectLeadersResponseTopicPartition()
			p.Partition, p.ErrorCode, p.ErrorMessage = n, code(err), message(err)
			x.Partitions = append(x.Partitions, p)
		}
		resp.Topics = append(resp.Topics, x)
	}
	return resp
}
