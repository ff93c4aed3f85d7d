package api

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
)

// Pauses between two looks at partitions whose leaders are not in office yet.
const (
	firstOfficeWait = 2 * time.Millisecond
	lastOfficeWait  = 50 * time.Millisecond
)

// awaitLeaders returns when the leader of every partition of a topic from first on has taken office, so that a client
// that was told of the topic can use it at once, or when ctx ends: the topic is there in any case. It asks each leader's
// node by one ListOffsets for all its partitions.
func (h *Handlers) awaitLeaders(ctx context.Context, id record.TopicID, first int) {
	for pause := firstOfficeWait; ; pause = min(2*pause, lastOfficeWait) {
		t := h.Metadata.Image().TopicByID(id)
		if t == nil || h.inOffice(ctx, t, first) {
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// inOffice says whether all leaders have taken office. A partition without a leader has none that could.
func (h *Handlers) inOffice(ctx context.Context, t *metadata.Topic, first int) bool {
	elsewhere := map[int32][]int32{}
	for n := first; n < len(t.Partitions); n++ {
		p := t.Partitions[n]
		switch p.Leader {
		case metadata.NoNode:
		case h.Node.ID:
			s, ok := h.Replicas.State(record.PartitionID{Topic: t.ID, Partition: int32(n)})
			if !ok || !s.Leader || s.LeaderEpoch < p.LeaderEpoch {
				return false
			}
		default:
			elsewhere[p.Leader] = append(elsewhere[p.Leader], int32(n))
		}
	}
	if h.Peers == nil {
		return true
	}
	for node, partitions := range elsewhere {
		if !h.peerLeads(ctx, node, t.Name, partitions) {
			return false
		}
	}
	return true
}

func (h *Handlers) peerLeads(ctx context.Context, node int32, topic string, partitions []int32) bool {
	req := kmsg.NewPtrListOffsetsRequest()
	req.SetVersion(7)
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	for _, n := range partitions {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = n, partition.LatestTimestamp
		rt.Partitions = append(rt.Partitions, p)
	}
	req.Topics = append(req.Topics, rt)
	resp, err := h.Peers.Ask(ctx, node, req)
	if err != nil {
		h.log.Debug("a leader was not asked whether it leads", "node", node, "topic", topic, "err", err)
		return false
	}
	answer, ok := resp.(*kmsg.ListOffsetsResponse)
	if !ok {
		return false
	}
	for _, t := range answer.Topics {
		for _, p := range t.Partitions {
			switch p.ErrorCode {
			case kerr.NotLeaderForPartition.Code, kerr.UnknownTopicOrPartition.Code, kerr.LeaderNotAvailable.Code,
				kerr.FencedLeaderEpoch.Code, kerr.UnknownLeaderEpoch.Code:
				return false
			}
		}
	}
	return true
}
