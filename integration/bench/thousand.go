package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/integration/harness"
	"cordwood/integration/load"
)

const (
	thousandPartitions = 1000
	thousandWait       = 2 * time.Minute
	thousandAim        = 3000 // ms
)

// thousand measures kill -9 of a node that leads very many partitions, until every node that lives knows a new leader of
// each, against the same with one partition: elections are made in batches, so it should take little longer.
func (b *bench) thousand(ctx context.Context) error {
	for _, rule := range [...]string{"isr", "quorum"} {
		if err := b.thousandOf(ctx, rule); err != nil {
			return fmt.Errorf("%s: %w", rule, err)
		}
	}
	return nil
}

func (b *bench) thousandOf(ctx context.Context, rule string) error {
	c, _, err := b.start(ctx, "thousand-"+rule, 3)
	if err != nil {
		return err
	}
	defer b.end(c)
	ctx, cancel := context.WithTimeout(ctx, thousandWait*time.Duration(b.rounds))
	defer cancel()
	victim, err := bystander(ctx, c)
	if err != nil {
		return err
	}
	var few, many []time.Duration
	for _, x := range [...]struct {
		topic      string
		partitions int
		took       *[]time.Duration
	}{{"one", 1, &few}, {"thousand", thousandPartitions, &many}} {
		if err := ledBy(ctx, c, victim, x.topic, x.partitions, rule); err != nil {
			return err
		}
		for range b.rounds {
			took, err := killLeaderOf(ctx, c, victim, x.topic, x.partitions)
			if err != nil {
				return err
			}
			*x.took = append(*x.took, took)
		}
	}
	var pairs []pair
	for i := range many {
		pairs = append(pairs, pair{milliseconds(many[i]), milliseconds(few[i])})
	}
	b.table.within(fmt.Sprintf("kill -9 of the leader of %d partitions until the last new one, %s / of one", thousandPartitions, rule), median(pairs), "ms", thousandAim)
	return nil
}

// bystander is a node that is not the active controller.
func bystander(ctx context.Context, c *harness.Cluster) (*harness.Node, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	active, err := load.ActiveController(ctx, client)
	if err != nil {
		return nil, err
	}
	for _, n := range c.Nodes {
		if int32(n.ID) != active {
			return n, nil
		}
	}
	return nil, fmt.Errorf("node %d is the controller and there is no other", active)
}

// ledBy makes a topic of which all partitions prefer one leader, and waits until that leads them, with all in sync.
func ledBy(ctx context.Context, c *harness.Cluster, leader *harness.Node, topic string, partitions int, rule string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...))
	if err != nil {
		return err
	}
	defer client.Close()
	replicas := []int32{int32(leader.ID)}
	for _, n := range c.Nodes {
		if n != leader {
			replicas = append(replicas, int32(n.ID))
		}
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(thousandWait.Milliseconds())
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, -1, -1
	for i := range partitions {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(i), replicas
		t.ReplicaAssignment = append(t.ReplicaAssignment, a)
	}
	s := kmsg.NewCreateTopicsRequestTopicConfig()
	s.Name, s.Value = "commit.rule", &rule
	t.Configs = append(t.Configs, s)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	for i := range resp.Topics {
		if err := kerr.ErrorForCode(resp.Topics[i].ErrorCode); err != nil {
			return fmt.Errorf("create topic %s: %w", topic, err)
		}
	}
	if err := whole(ctx, c, leader, topic, partitions); err != nil {
		return err
	}
	return writeEach(ctx, c, topic, partitions)
}

// writeEach writes a record to every partition, so that there is something to lose.
func writeEach(ctx context.Context, c *harness.Cluster, topic string, partitions int) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	records := make([]*kgo.Record, partitions)
	for i := range records {
		records[i] = &kgo.Record{Partition: int32(i), Value: []byte("to keep")}
	}
	return client.ProduceSync(ctx, records...).FirstErr()
}

// whole waits until every node says that a topic has all its replicas in sync and is led by one node alone.
func whole(ctx context.Context, c *harness.Cluster, leader *harness.Node, topic string, partitions int) error {
	if err := load.Settled(ctx, c.Bootstrap(), topic, partitions, len(c.Nodes)); err != nil {
		return err
	}
	for _, n := range c.Nodes {
		err := seen(ctx, n, topic, func(p *kmsg.MetadataResponseTopicPartition) bool { return p.Leader == int32(leader.ID) })
		if err != nil {
			return err
		}
	}
	return nil
}

// killLeaderOf kills the node that leads the whole topic, and brings everything back to how it was.
func killLeaderOf(ctx context.Context, c *harness.Cluster, leader *harness.Node, topic string, partitions int) (took time.Duration, err error) {
	began := time.Now()
	if err := leader.Kill(); err != nil {
		return 0, err
	}
	for _, n := range c.Nodes {
		if n == leader {
			continue
		}
		err := seen(ctx, n, topic, func(p *kmsg.MetadataResponseTopicPartition) bool {
			return p.Leader >= 0 && p.Leader != int32(leader.ID)
		})
		if err != nil {
			return 0, err
		}
	}
	took = time.Since(began)
	if err := restarted(ctx, leader); err != nil {
		return 0, err
	}
	return took, whole(ctx, c, leader, topic, partitions)
}
