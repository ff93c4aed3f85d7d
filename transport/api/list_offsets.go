package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/partition"
	"cordwood/logstore/record"
	"cordwood/transport"
)

// handleListOffsets looks up offsets by time or by place (KIP-79, 207, 405, 734). A partition asked twice is refused.
func handleListOffsets(h *Handlers, ctx context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.ListOffsetsRequest)
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	img := h.Metadata.Image()
	times := map[fetchKey]int{}
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			times[fetchKey{topic: req.Topics[i].Topic, partition: req.Topics[i].Partitions[j].Partition}]++
		}
	}
	answered := map[fetchKey]bool{}
	entry := map[string]int{}
	for i := range req.Topics {
		t := &req.Topics[i]
		topic, unknown := findTopic(img, t.Topic, [16]byte{}, false)
		for j := range t.Partitions {
			p := &t.Partitions[j]
			key := fetchKey{topic: t.Topic, partition: p.Partition}
			if answered[key] {
				continue
			}
			answered[key] = true
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition = p.Partition
			a := partition.ListOffsetsAnswer{Err: unknown, Offset: -1, Timestamp: -1, LeaderEpoch: -1}
			switch {
			case times[key] > 1:
				a.Err = kerr.InvalidRequest
			case unknown != nil:
			case p.Partition < 0 || int(p.Partition) >= len(topic.Partitions):
				a.Err = partition.ErrUnknownPartition
			case p.CurrentLeaderEpoch < -1:
				a.Err = partition.ErrFencedLeaderEpoch
			case p.Timestamp < earliestSpecial(req.Version):
				a.Err = partition.ErrUnsupportedTimestamp
			default:
				a = h.Replicas.ListOffsets(ctx, partition.ListOffsetsQuery{
					ID:                 record.PartitionID{Topic: topic.ID, Partition: p.Partition},
					Timestamp:          p.Timestamp,
					CurrentLeaderEpoch: p.CurrentLeaderEpoch,
					Committed:          req.IsolationLevel == committedOnly,
					Follower:           r.Conn.Internal && req.ReplicaID >= 0,
				})
			}
			rp.ErrorCode, rp.Offset, rp.Timestamp, rp.LeaderEpoch = code(a.Err), a.Offset, a.Timestamp, a.LeaderEpoch
			if a.Err != nil {
				rp.Offset, rp.Timestamp, rp.LeaderEpoch = -1, -1, -1
			}
			at, ok := entry[t.Topic]
			if !ok {
				at = len(resp.Topics)
				entry[t.Topic] = at
				rt := kmsg.NewListOffsetsResponseTopic()
				rt.Topic = t.Topic
				resp.Topics = append(resp.Topics, rt)
			}
			resp.Topics[at].Partitions = append(resp.Topics[at].Partitions, rp)
		}
	}
	return body(resp)
}

// earliestSpecial is the lowest special timestamp that a version knows.
func earliestSpecial(version int16) int64 {
	switch {
	case version >= 11:
		return partition.PendingUploadTimestamp
	case version >= 9:
		return partition.LatestTieredTimestamp
	case version == 8:
		return partition.EarliestLocalTimestamp
	case version == 7:
		return partition.MaxTimestamp
	}
	return partition.EarliestTimestamp
}
