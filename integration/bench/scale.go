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

// scale measures three nodes with very many partitions: cost must follow what changes, not what exists.
func (b *bench) scale(ctx context.Context, count int) error {
	c, _, err := b.start(ctx, "scale", 3)
	if err != nil {
		return err
	}
	defer c.Close()
	limited, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()

	began := time.Now()
	if err := load.CreateTopic(limited, c.Bootstrap(), topic, count, 3, nil); err != nil {
		return err
	}
	b.table.atMost(fmt.Sprintf("%d partitions of three replicas, made and in sync", count), time.Since(began).Seconds(), "s", 30)

	share, resident, err := watchIdle(ctx, c)
	if err != nil {
		return err
	}
	b.table.atMost("idle, three nodes together", share*100, "% of a core", 5)
	b.table.atMost("idle node, resident", float64(resident)/1e6, "MB", 300)
	took, err := metadataTime(limited, c)
	if err != nil {
		return err
	}
	b.table.plain("Metadata answer with all of them, median of 9", float64(took.Microseconds())/1e3, "ms")

	victim := c.Nodes[len(c.Nodes)-1]
	began = time.Now()
	if err := victim.Kill(); err != nil {
		return err
	}
	if err := moved(limited, c, victim); err != nil {
		return err
	}
	b.table.atMost("kill -9 of a node until it leads nothing", time.Since(began).Seconds(), "s", 5)

	began = time.Now()
	if err := victim.Start(); err != nil {
		return err
	}
	if err := victim.WaitReady(limited); err != nil {
		return err
	}
	b.table.atMost("that node, start to ready", time.Since(began).Seconds(), "s", 10)
	if err := load.Settled(limited, c.Bootstrap(), topic, count, 3); err != nil {
		return err
	}
	b.table.plain("  until all its replicas are in sync", time.Since(began).Seconds(), "s")
	return nil
}

// metadataTime is the median time that a Metadata request for the topic takes.
func metadataTime(ctx context.Context, c *harness.Cluster) (time.Duration, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Nodes[0].External))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	var pairs []pair
	for range 9 {
		start := time.Now()
		if _, err := load.Metadata(ctx, client, topic); err != nil {
			return 0, err
		}
		pairs = append(pairs, pair{float64(time.Since(start)), 1})
	}
	return time.Duration(median(pairs).figure), nil
}

// moved waits until every live node says that the victim leads nothing and every partition has a leader.
func moved(ctx context.Context, c *harness.Cluster, victim *harness.Node) error {
	for _, n := range c.Nodes {
		if n == victim {
			continue
		}
		if err := movedAt(ctx, n, int32(victim.ID)); err != nil {
			return fmt.Errorf("node %d: %w", n.ID, err)
		}
	}
	return nil
}

func movedAt(ctx context.Context, n *harness.Node, victim int32) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(n.External))
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		resp, err := load.Metadata(ctx, client, topic)
		if err == nil && !leadsSome(resp, victim) {
			return nil
		}
		if werr := wait(ctx, 50*time.Millisecond); werr != nil {
			return errors.Join(werr, err)
		}
	}
}

// leadsSome says that a partition has no leader, or the node.
func leadsSome(resp *kmsg.MetadataResponse, node int32) bool {
	for i := range resp.Topics {
		if len(resp.Topics[i].Partitions) == 0 {
			return true
		}
		for k := range resp.Topics[i].Partitions {
			if l := resp.Topics[i].Partitions[k].Leader; l < 0 || l == node {
				return true
			}
		}
	}
	return len(resp.Topics) == 0
}
