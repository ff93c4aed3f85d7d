package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/partition"
	"cordwood/logstore/record"
	"cordwood/transport"
)

// handleOffsetForLeaderEpoch says where the records of a leader epoch end (KIP-101, 320), so that a reader finds out
// what was cut off its log. Every question is answered, also the same one twice.
func handleOffsetForLeaderEpoch(h *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.OffsetForLeaderEpochRequest)
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	img := h.Metadata.Image()
	for i := range req.Topics {
		t := &req.Topics[i]
		topic, unknown := findTopic(img, t.Topic, [16]byte{}, false)
		rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		rt.Topic = t.Topic
		for j := range t.Partitions {
			p := &t.Partitions[j]
			end, err := partition.EpochEnd{Epoch: -1, End: -1}, unknown
			switch {
			case unknown != nil:
			case p.Partition < 0 || int(p.Partition) >= len(topic.Partitions):
				err = partition.ErrUnknownPartition
			case p.CurrentLeaderEpoch < -1:
				err = partition.ErrFencedLeaderEpoch
			default:
				end, err = h.Replicas.EpochEnd(record.PartitionID{Topic: topic.ID, Partition: p.Partition}, p.CurrentLeaderEpoch, p.LeaderEpoch)
			}
			rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			rp.Partition, rp.ErrorCode, rp.LeaderEpoch, rp.EndOffset = p.Partition, code(err), end.Epoch, end.End
			if err != nil {
				rp.LeaderEpoch, rp.EndOffset = -1, -1
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return body(resp)
}
