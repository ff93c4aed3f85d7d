package api

import (
	"context"
	"slices"
	"sort"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/transport"
)

// mostPartitionsDescribed bounds one answer, whatever limit the request names.
const mostPartitionsDescribed = 2000

func handleDescribeTopicPartitions(h *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.DescribeTopicPartitionsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeTopicPartitionsResponse)
	img := h.Metadata.Image()
	names := namesToDescribe(img, req)
	room := int(min(max(1, req.ResponsePartitionLimit), mostPartitionsDescribed))
	past := h.History != nil && asksFor(&req.UnknownTags, metadata.TagHistory)
	if past {
		room = min(room, mostHistoriesTold)
	}
	first := 0 // partition to start at, of the first topic only
	if c := req.Cursor; c != nil {
		from := sort.SearchStrings(names, c.Topic)
		if c.Partition < 0 || len(req.Topics) > 0 && (from == len(names) || names[from] != c.Topic) {
			for _, name := range names {
				t := topicUndescribed(name, kerr.InvalidRequest.Code)
				t.AuthorizedOperations = operationsNotAsked
				resp.Topics = append(resp.Topics, t)
			}
			return body(resp)
		}
		if names = names[from:]; len(names) > 0 && names[0] == c.Topic {
			first = int(c.Partition)
		}
	}
	for _, name := range names {
		topic := img.Topic(name)
		if topic == nil {
			reason := kerr.UnknownTopicOrPartition.Code
			if err := metadata.CheckTopicName(name); err != nil {
				reason = code(err)
			}
			resp.Topics = append(resp.Topics, topicUndescribed(name, reason))
			continue
		}
		if room == 0 {
			resp.NextCursor = cursorAt(name, 0)
			break
		}
		t := topicUndescribed(name, 0)
		t.TopicID, t.IsInternal = topic.ID, metadata.InternalTopic(name)
		for n := first; n < len(topic.Partitions) && room > 0; n++ {
			x := describePartition(img, topic.Partitions[n], int32(n), r.Conn.Listener)
			if past {
				x.UnknownTags.Set(metadata.TagHistory, metadata.EncodeHistory(h.History(topic.Partitions[n].ID)))
			}
			t.Partitions = append(t.Partitions, x)
			room--
		}
		resp.Topics = append(resp.Topics, t)
		if next := first + len(t.Partitions); next < len(topic.Partitions) {
			resp.NextCursor = cursorAt(name, int32(next))
			break
		}
		first = 0
	}
	return body(resp)
}

// mostHistoriesTold bounds an answer that tells what happened to each partition, too.
const mostHistoriesTold = 100

// asksFor says that a request carries a private field that asks for more than Kafka's answer.
func asksFor(tags *kmsg.Tags, tag uint32) bool {
	asked := false
	tags.Each(func(key uint32, _ []byte) { asked = asked || key == tag })
	return asked
}

func topicUndescribed(name string, reason int16) kmsg.DescribeTopicPartitionsResponseTopic {
	t := kmsg.NewDescribeTopicPartitionsResponseTopic()
	t.Topic, t.ErrorCode, t.AuthorizedOperations = &name, reason, topicOperations
	return t
}

func cursorAt(topic string, partition int32) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	c.Topic, c.Partition = topic, partition
	return &c
}

// namesToDescribe gives the topics that are asked, all where none is named, sorted and each once.
func namesToDescribe(img *metadata.Image, req *kmsg.DescribeTopicPartitionsRequest) []string {
	var names []string
	for _, t := range req.Topics {
		names = append(names, t.Topic)
	}
	if len(names) == 0 {
		for t := range img.Topics() {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func describePartition(img *metadata.Image, p *metadata.Partition, n int32, listener string) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	x := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	x.Partition, x.LeaderEpoch = n, p.LeaderEpoch
	x.LeaderID, x.ErrorCode = leaderOn(img, p, listener)
	x.Replicas, x.ISR = shownReplicas(p), p.ISR
	x.EligibleLeaderReplicas = append([]int32{}, p.ELR...)
	x.LastKnownELR = []int32{}
	for _, id := range x.Replicas {
		if !img.Broker(id).Alive() {
			x.OfflineReplicas = append(x.OfflineReplicas, id)
		}
	}
	x.UnknownTags.Set(metadata.TagPartitionInfo, img.PartitionInfo(p).Encode())
	return x
}

// leaderOn gives the leader as clients of a listener are told: none where there is none, or where it cannot be reached
// on that listener.
func leaderOn(img *metadata.Image, p *metadata.Partition, listener string) (leader int32, reason int16) {
	b := img.Broker(p.Leader)
	if !b.Alive() {
		return metadata.NoNode, kerr.LeaderNotAvailable.Code
	}
	if _, ok := b.Listeners[listener]; !ok {
		return metadata.NoNode, kerr.ListenerNotFound.Code
	}
	return p.Leader, 0
}
