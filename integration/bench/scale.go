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

// scaleTopics share the partitions: fewer than 10,000 may be made in one request, as in Kafka.
var scaleTopics = [...]string{"scale-1", "scale-2", "scale-3", "scale-4"}

// scale measures three nodes with very many partitions: cost must follow what changes, not what exists.
func (b *bench) scale(ctx context.Context, count int) error {
	c, _, err := b.start(ctx, "scale", 3)
	if err != nil {
		return err
	}
	defer b.end(c)
	limited, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()

	began := time.Now()
	each := count / len(scaleTopics)
	for _, name := range scaleTopics {
		if err := load.CreateTopic(limited, c.Bootstrap(), name, each, 3, nil); err != nil {
			return err
		}
	}
	b.table.atMost(fmt.Sprintf("%d partitions of three replicas, made and in sync", each*len(scaleTopics)), time.Since(began).Seconds(), "s", 30)

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
	b.table.plain(fmt.Sprintf("Metadata answer with %d of them, median of 9", each), float64(took.Microseconds())/1e3, "ms")

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
	for _, name := range scaleTopics {
		if err := load.Settled(limited, c.Bootstrap(), name, each, 3); err != nil {
			return err
		}
	}
	b.table.plain("  until all its replicas are in sync", time.Since(began).Seconds(), "s")
	return nil
}

// metadataTime is the median time that a Metadata request for one of the topics takes.
func metadataTime(ctx context.Context, c *harness.Cluster) (time.Duration, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Nodes[0].External))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	var pairs []pair
	for range 9 {
		start := time.Now()
		if _, err := load.Metadata(ctx, client, scaleTopics[0]); err != nil {
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
	for _, name := range scaleTopics {
		for {
			resp, err := load.Metadata(ctx, client, name)
			if err == nil && !leadsSome(resp, victim) {
				break
			}
			if werr := wait(ctx, 50*time.Millisecond); werr != nil {
				return errors.Join(werr, err)
			}
		}
	}
	return nil
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
