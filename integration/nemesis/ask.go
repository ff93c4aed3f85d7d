package nemesis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
)

const (
	askWithin  = 5 * time.Second
	askTimeout = 4000 // milliseconds that the cluster may take for an answer
)

// Ask asks a Cordwood cluster to change, as an operator's tool does.
type Ask struct {
	// Seeds gives addresses of nodes that answer at the moment.
	Seeds func() []string
}

var _ Changes = Ask{}

func (a Ask) do(ctx context.Context, f func(context.Context, *kgo.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(a.Seeds()...), kgo.DialTimeout(lookWithin), kgo.RetryTimeout(askWithin), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		return err
	}
	defer client.Close()
	return f(ctx, client)
}

// Elect implements Changes.
func (a Ask) Elect(ctx context.Context, topic string, partition int32, node int) error {
	return a.do(ctx, func(ctx context.Context, client *kgo.Client) error {
		req := kmsg.NewPtrElectLeadersRequest()
		req.TimeoutMillis = askTimeout
		t := kmsg.NewElectLeadersRequestTopic()
		t.Topic, t.Partitions = topic, []int32{partition}
		req.Topics = append(req.Topics, t)
		req.UnknownTags.Set(metadata.TagElectReplica, metadata.EncodeNode(int32(node)))
		resp, err := req.RequestWith(ctx, client)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err != nil {
			return fmt.Errorf("elect node %d for %s/%d: %w", node, topic, partition, err)
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return fmt.Errorf("elect node %d for %s/%d: %w", node, topic, partition, told(err, p.ErrorMessage))
				}
			}
		}
		return nil
	})
}

// Move implements Changes.
func (a Ask) Move(ctx context.Context, topic string, partition int32, replicas []int) error {
	return a.do(ctx, func(ctx context.Context, client *kgo.Client) error {
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		req.TimeoutMillis = askTimeout
		t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		t.Topic = topic
		p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		p.Partition = partition
		for _, id := range replicas {
			p.Replicas = append(p.Replicas, int32(id))
		}
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		resp, err := req.RequestWith(ctx, client)
		if err == nil {
			err = told(kerr.ErrorForCode(resp.ErrorCode), resp.ErrorMessage)
		}
		if err != nil {
			return fmt.Errorf("move %s/%d: %w", topic, partition, err)
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return fmt.Errorf("move %s/%d: %w", topic, partition, told(err, p.ErrorMessage))
				}
			}
		}
		return nil
	})
}

// SetConfig implements Changes.
func (a Ask) SetConfig(ctx context.Context, topic, key, value string) error {
	return a.do(ctx, func(ctx context.Context, client *kgo.Client) error {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = key, &value
		r.Configs = append(r.Configs, c)
		req.Resources = append(req.Resources, r)
		resp, err := req.RequestWith(ctx, client)
		if err != nil {
			return fmt.Errorf("set %s of %s: %w", key, topic, err)
		}
		for _, r := range resp.Resources {
			if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
				return fmt.Errorf("set %s of %s: %w", key, topic, told(err, r.ErrorMessage))
			}
		}
		return nil
	})
}

// Remove implements Changes.
func (a Ask) Remove(ctx context.Context, node int) error {
	return a.do(ctx, func(ctx context.Context, client *kgo.Client) error {
		req := kmsg.NewPtrUnregisterBrokerRequest()
		req.BrokerID = int32(node)
		resp, err := req.RequestWith(ctx, client)
		if err == nil {
			err = told(kerr.ErrorForCode(resp.ErrorCode), resp.ErrorMessage)
		}
		if err != nil && !errors.Is(err, kerr.BrokerIDNotRegistered) {
			return fmt.Errorf("remove node %d: %w", node, err)
		}
		return nil
	})
}

// told adds what a node said to an error.
func told(err error, said *string) error {
	if err == nil || said == nil || *said == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, *said)
}
