package nemesis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
)

const (
	lookWithin  = 2 * time.Second // of asking one node
	askedAtOnce = 1000            // partitions
)

// Look asks one node for its view, and nobody else, so that a node that was paused or killed delays nothing. What Kafka's
// protocol has no room for is left empty where the node does not tell it.
func Look(ctx context.Context, address string) (v View, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DialTimeout(lookWithin), kgo.RequestRetries(0))
	if err != nil {
		return v, err
	}
	defer client.Close()
	node := client.SeedBrokers()[0]
	if err := lookAtNodes(ctx, node, &v); err != nil {
		return v, fmt.Errorf("%s: %w", address, err)
	}
	if err := lookAtPartitions(ctx, node, &v); err != nil {
		return v, fmt.Errorf("%s: %w", address, err)
	}
	return v, nil
}

func lookAtNodes(ctx context.Context, node *kgo.Broker, v *View) error {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType, req.IncludeFencedBrokers = 1, true
	r, err := node.Request(ctx, req)
	if err != nil {
		return err
	}
	resp := r.(*kmsg.DescribeClusterResponse)
	v.Controller = int(resp.ControllerID)
	for _, b := range resp.Brokers {
		m := Member{ID: int(b.NodeID), Fenced: b.IsFenced}
		if body, ok := tagOf(&b.UnknownTags, metadata.TagNodeInfo); ok {
			info, err := metadata.DecodeNodeInfo(body)
			if err != nil {
				return err
			}
			m.Voter = info.Voter
		}
		v.Nodes = append(v.Nodes, m)
	}
	slices.SortFunc(v.Nodes, func(a, b Member) int { return a.ID - b.ID })
	return nil
}

func lookAtPartitions(ctx context.Context, node *kgo.Broker, v *View) error {
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = askedAtOnce
	for {
		r, err := node.Request(ctx, req)
		if err != nil {
			return err
		}
		resp := r.(*kmsg.DescribeTopicPartitionsResponse)
		for _, t := range resp.Topics {
			if t.ErrorCode != 0 || t.Topic == nil {
				return fmt.Errorf("topic %v: error code %d", t.TopicID, t.ErrorCode)
			}
			for _, p := range t.Partitions {
				seen, err := partitionOf(*t.Topic, t.IsInternal, &p)
				if err != nil {
					return err
				}
				v.Partitions = append(v.Partitions, seen)
			}
		}
		if resp.NextCursor == nil {
			break
		}
		if len(resp.Topics) == 0 {
			return errors.New("the partitions have no end")
		}
		next := kmsg.NewDescribeTopicPartitionsRequestCursor()
		next.Topic, next.Partition = resp.NextCursor.Topic, resp.NextCursor.Partition
		req.Cursor = &next
	}
	slices.SortFunc(v.Partitions, func(a, b Partition) int { return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.ID, b.ID)) })
	return nil
}

func partitionOf(topic string, internal bool, p *kmsg.DescribeTopicPartitionsResponseTopicPartition) (Partition, error) {
	out := Partition{Topic: topic, ID: p.Partition, Internal: internal, Leader: int(p.LeaderID), Replicas: ints(p.Replicas), ISR: ints(p.ISR)}
	out.Trusted = out.ISR
	body, ok := tagOf(&p.UnknownTags, metadata.TagPartitionInfo)
	if !ok {
		return out, nil
	}
	info, err := metadata.DecodePartitionInfo(body)
	if err != nil {
		return out, err
	}
	out.Trusted, out.Rule = ints(info.Trusted), string(info.Rule)
	out.Changing = info.Rule.Changing() || info.Durability != info.Durability.Target() || len(info.NewReplicas)+len(info.Adding) > 0
	return out, nil
}

func tagOf(tags *kmsg.Tags, tag uint32) (body []byte, ok bool) {
	tags.Each(func(t uint32, b []byte) {
		if t == tag {
			body, ok = b, true
		}
	})
	return body, ok
}

func ints(ids []int32) []int {
	out := make([]int, len(ids))
	for i, id := range ids {
		out[i] = int(id)
	}
	return out
}
