package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/integration/harness"
	"cordwood/integration/load"
)

// victim is a leader of one of the topic's partitions that is not the active controller. It waits until there is one:
// leaders move back to their preferred replicas after a restart.
func (f failovers) victim(ctx context.Context, topic string) (leader *harness.Node, partition int32, err error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(f.c.Bootstrap()...))
	if err != nil {
		return nil, 0, err
	}
	defer client.Close()
	for {
		active, err := load.ActiveController(ctx, client)
		if err == nil {
			var resp *kmsg.MetadataResponse
			if resp, err = load.Metadata(ctx, client, topic); err == nil {
				for i := range resp.Topics[0].Partitions {
					if p := &resp.Topics[0].Partitions[i]; p.Leader >= 0 && p.Leader != active {
						return f.c.Node(int(p.Leader)), p.Partition, nil
					}
				}
			}
		}
		if werr := wait(ctx, 20*time.Millisecond); werr != nil {
			return nil, 0, fmt.Errorf("no leader that is not the controller: %w", errors.Join(werr, err))
		}
	}
}

// seen asks one node until its answer about a topic has every partition that it should have and each is as wanted.
func seen(ctx context.Context, n *harness.Node, topic string, as func(*kmsg.MetadataResponseTopicPartition) bool) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(n.External))
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		resp, err := load.Metadata(ctx, client, topic)
		if err == nil && len(resp.Topics) == 1 && resp.Topics[0].ErrorCode == 0 {
			all := true
			for i := range resp.Topics[0].Partitions {
				all = all && as(&resp.Topics[0].Partitions[i])
			}
			if all {
				return nil
			}
		}
		if werr := wait(ctx, 5*time.Millisecond); werr != nil {
			return fmt.Errorf("node %d about topic %s: %w", n.ID, topic, errors.Join(werr, err))
		}
	}
}

// leaderAt waits until a node says that a partition is led by a node, -1 for none.
func leaderAt(ctx context.Context, n *harness.Node, topic string, partition, leader int32) error {
	return seen(ctx, n, topic, func(p *kmsg.MetadataResponseTopicPartition) bool {
		return p.Partition != partition || p.Leader == leader
	})
}
