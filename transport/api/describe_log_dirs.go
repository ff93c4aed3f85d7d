package api

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/transport"
)

func handleDescribeLogDirs(h *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.DescribeLogDirsRequest)
	return wait(func(context.Context) kmsg.Response { return h.describeLogDirs(req) })
}

// describeLogDirs tells what this node hosts. A node has one log directory; topics that it does not host are left out.
func (h *Handlers) describeLogDirs(req *kmsg.DescribeLogDirsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	img := h.Metadata.Image()
	asked := logDirsAsked(req)
	byTopic := map[string][]kmsg.DescribeLogDirsResponseDirTopicPartition{}
	for _, s := range h.Replicas.States() {
		t := img.TopicByID(s.ID.Topic)
		if t == nil || !asked(t.Name, s.ID.Partition) {
			continue
		}
		p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		p.Partition, p.Size, p.OffsetLag = s.ID.Partition, s.Size, max(0, s.HighWatermark-s.LogEndOffset)
		byTopic[t.Name] = append(byTopic[t.Name], p)
	}
	var topics []kmsg.DescribeLogDirsResponseDirTopic
	for name, partitions := range byTopic {
		slices.SortFunc(partitions, func(a, b kmsg.DescribeLogDirsResponseDirTopicPartition) int { return int(a.Partition - b.Partition) })
		t := kmsg.NewDescribeLogDirsResponseDirTopic()
		t.Topic, t.Partitions = name, partitions
		topics = append(topics, t)
	}
	slices.SortFunc(topics, func(a, b kmsg.DescribeLogDirsResponseDirTopic) int { return strings.Compare(a.Topic, b.Topic) })
	for _, d := range h.Replicas.Dirs() {
		x := kmsg.NewDescribeLogDirsResponseDir()
		x.Dir, x.TotalBytes, x.UsableBytes = d.Path, d.Total, d.Free
		if d.Offline {
			x.ErrorCode = kerr.KafkaStorageError.Code
		} else {
			x.Topics, topics = topics, nil
		}
		resp.Dirs = append(resp.Dirs, x)
	}
	return resp
}

// logDirsAsked says which partitions a request asks for: all where it has no list of topics.
func logDirsAsked(req *kmsg.DescribeLogDirsRequest) func(topic string, partition int32) bool {
	if req.Topics == nil {
		return func(string, int32) bool { return true }
	}
	asked := map[string]map[int32]bool{}
	for _, t := range req.Topics {
		if asked[t.Topic] == nil {
			asked[t.Topic] = map[int32]bool{}
		}
		for _, n := range t.Partitions {
			asked[t.Topic][n] = true
		}
	}
	return func(topic string, partition int32) bool { return asked[topic][partition] }
}
