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
	for _, rt := range req.Topics {
		if len(rt.Partitions) == 0 {
			continue
		}
		t := kmsg.NewDeleteRecordsResponseTopic()
		t.Topic = rt.Topic
		t.Partitions = make([]kmsg.DeleteRecordsResponseTopicPartition, len(rt.Partitions))
		resp.Topics = append(resp.Topics, t)
	}
	var wg sync.WaitGroup
	places := make(chan struct{}, deletingAtOnce)
	n := 0
	for _, rt := range req.Topics {
		if len(rt.Partitions) == 0 {
			continue
		}
		topic := img.Topic(rt.Topic)
		for i, p := range rt.Partitions {
			answer := &resp.Topics[n].Partitions[i]
			answer.Default()
			answer.Partition, answer.LowWatermark = p.Partition, -1
			id, err := h.trimmable(topic, p.Partition)
			if err != nil {
				answer.ErrorCode = code(err)
				continue
			}
			places <- struct{}{}
			wg.Go(func() {
				defer func() { <-places }()
				start, err := h.Replicas.DeleteRecords(ctx, id, p.Offset)
				if answer.ErrorCode = code(err); err == nil {
					answer.LowWatermark = start
				}
			})
		}
		n++
	}
	wg.Wait()
	return resp
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
