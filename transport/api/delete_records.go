package api

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
	"cordwood/transport"
)

// deletingAtOnce bounds the partitions of one DeleteRecords request that wait for their replicas at a time.
const deletingAtOnce = 32

func handleDeleteRecords(h *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.DeleteRecordsRequest)
	return wait(func(ctx context.Context) kmsg.Response {
		ctx, cancel := within(ctx, req.TimeoutMillis)
		defer cancel()
		return h.deleteRecords(ctx, req)
	})
}

func (h *Handlers) deleteRecords(ctx context.Context, req *kmsg.DeleteRecordsRequest) kmsg.Response {
	img := h.Metadata.Image()
	resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
	resp.Topics = trimmings(req)
	var wg sync.WaitGroup
	places := make(chan struct{}, deletingAtOnce)
	for i := range resp.Topics {
		topic := img.Topic(resp.Topics[i].Topic)
		for j := range resp.Topics[i].Partitions {
			answer := &resp.Topics[i].Partitions[j]
			offset := answer.LowWatermark
			answer.LowWatermark = -1
			id, err := h.trimmable(topic, answer.Partition)
			if err != nil {
				answer.ErrorCode = code(err)
				continue
			}
			places <- struct{}{}
			wg.Go(func() {
				defer func() { <-places }()
				start, err := h.Replicas.DeleteRecords(ctx, id, offset)
				if answer.ErrorCode = code(err); err == nil {
					answer.LowWatermark = start
				}
			})
		}
	}
	wg.Wait()
	return resp
}

// trimmings lays the answer out: topics named twice become one, and topics without partitions none. Where the new log
// start will stand is the offset asked, for now.
func trimmings(req *kmsg.DeleteRecordsRequest) []kmsg.DeleteRecordsResponseTopic {
	var l []kmsg.DeleteRecordsResponseTopic
	at := make(map[string]int, len(req.Topics))
	for _, rt := range req.Topics {
		for _, p := range rt.Partitions {
			n, known := at[rt.Topic]
			if !known {
				n = len(l)
				at[rt.Topic] = n
				t := kmsg.NewDeleteRecordsResponseTopic()
				t.Topic = rt.Topic
				l = append(l, t)
			}
			x := kmsg.NewDeleteRecordsResponseTopicPartition()
			x.Partition, x.LowWatermark = p.Partition, p.Offset
			l[n].Partitions = append(l[n].Partitions, x)
		}
	}
	return l
}

// trimmable names a partition whose records may be deleted: a topic that keeps old segments keeps its records.
func (h *Handlers) trimmable(t *metadata.Topic, n int32) (record.PartitionID, error) {
	if t == nil || n < 0 || int(n) >= len(t.Partitions) {
		return record.PartitionID{}, partition.ErrUnknownPartition
	}
	if !h.Node.TopicDefaults.Settings.Effective(t).CleanupDelete {
		return record.PartitionID{}, partition.ErrPolicy
	}
	return record.PartitionID{Topic: t.ID, Partition: n}, nil
}
