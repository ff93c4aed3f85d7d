package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"cordwood/integration/harness"
	"cordwood/integration/load"
)

const (
	failoverChanges = 21 // changes of metadata of which the median is the yardstick
	failoverWait    = time.Minute
)

// failover measures how long an impatient writer is without an acknowledgement: after its leader was killed, under each
// rule, and once a leader that stood still goes on, of a topic of which nobody else may lead. The yardstick is a change of
// metadata on the same nodes: an election is one or two of these and little else.
func (b *bench) failover(ctx context.Context) error {
	c, _, err := b.start(ctx, "failover", 3, "session_timeout: 2s") // a leader that stands still is fenced soon
	if err != nil {
		return err
	}
	defer b.end(c)
	f := failovers{c: c}
	for _, r := range [...]string{"isr", "quorum"} {
		limited, cancel := context.WithTimeout(ctx, failoverWait)
		err := load.CreateTopic(limited, c.Bootstrap(), failoverTopic(r), 3, 3, map[string]string{"commit.rule": r})
		cancel()
		if err != nil {
			return err
		}
	}
	for _, x := range [...]struct {
		what, rule string
		round      func(context.Context, string) (time.Duration, error)
	}{
		{"kill -9 of the leader until a record is acknowledged, isr", "isr", f.killed},
		{"  quorum, another leader", "quorum", f.killed},
		{"  quorum, a fenced leader goes on, the last leader again", "quorum", f.again},
	} {
		var pairs []pair
		for range b.rounds {
			change, err := f.change(ctx, failoverTopic(x.rule))
			if err != nil {
				return fmt.Errorf("change of metadata: %w", err)
			}
			took, err := x.round(ctx, failoverTopic(x.rule))
			if err != nil {
				return fmt.Errorf("%s: %w", x.what, err)
			}
			pairs = append(pairs, pair{milliseconds(took), milliseconds(change)})
		}
		b.table.multiple(x.what+" / a change of metadata", median(pairs), "ms", 0)
	}
	return nil
}

func failoverTopic(rule string) string { return "failover-" + rule }

// failovers makes leaders fail.
type failovers struct{ c *harness.Cluster }

// change is the median time that a change of one topic's setting takes.
func (f failovers) change(ctx context.Context, topic string) (time.Duration, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(f.c.Bootstrap()...))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, failoverWait)
	defer cancel()
	adm := kadm.NewClient(client)
	took := make([]time.Duration, 0, failoverChanges)
	for i := range failoverChanges {
		value := fmt.Sprint(100_000_000 + i)
		start := time.Now()
		answers, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "retention.ms", Value: &value}}, topic)
		if err == nil {
			_, err = answers.On(topic, func(r *kadm.AlterConfigsResponse) error { return r.Err })
		}
		if err != nil {
			return 0, err
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return load.Quantile(took, 0.5), nil
}

// killed kills a leader that is not the controller too, which would be two failures in one, and starts it again.
func (f failovers) killed(ctx context.Context, topic string) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, failoverWait)
	defer cancel()
	victim, partition, err := f.victim(ctx, topic)
	if err != nil {
		return 0, err
	}
	w, err := newImpatient(ctx, f.c.Bootstrap(), topic, partition)
	if err != nil {
		return 0, err
	}
	defer w.client.Close()
	began := time.Now()
	if err := victim.Kill(); err != nil {
		return 0, err
	}
	if err := w.write(ctx); err != nil {
		return 0, err
	}
	took = time.Since(began)
	if err := restarted(ctx, victim); err != nil {
		return 0, err
	}
	return took, load.Settled(ctx, f.c.Bootstrap(), topic, 3, 3)
}

// again has both followers lose power, so that they may have lost records, and their leader stand still until it is
// fenced. Only it can lead, and does once it goes on.
func (f failovers) again(ctx context.Context, topic string) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, failoverWait)
	defer cancel()
	leader, partition, err := f.victim(ctx, topic)
	if err != nil {
		return 0, err
	}
	w, err := newImpatient(ctx, f.c.Bootstrap(), topic, partition)
	if err != nil {
		return 0, err
	}
	defer w.client.Close()
	followers := slices.DeleteFunc(slices.Clone(f.c.Nodes), func(n *harness.Node) bool { return n == leader })
	if err := f.c.Kill(followers...); err != nil {
		return 0, err
	}
	if err := leader.Pause(); err != nil { // before they are back: it would vouch for them within milliseconds
		return 0, err
	}
	for _, n := range followers {
		if err := errors.Join(n.Reboot(), n.Start()); err != nil {
			return 0, err
		}
	}
	for _, n := range followers {
		if err := n.WaitReady(ctx); err != nil {
			return 0, err
		}
		if err := leaderAt(ctx, n, topic, partition, -1); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	if err := leader.Resume(); err != nil {
		return 0, err
	}
	if err := w.write(ctx); err != nil {
		return 0, err
	}
	took = time.Since(began)
	if err := leaderAt(ctx, followers[0], topic, partition, int32(leader.ID)); err != nil {
		return 0, fmt.Errorf("it is not led by its last leader: %w", err)
	}
	return took, load.Settled(ctx, f.c.Bootstrap(), topic, 3, 3)
}

func restarted(ctx context.Context, n *harness.Node) error {
	if err := n.Start(); err != nil {
		return err
	}
	return n.WaitReady(ctx)
}

// impatient writes to one partition and looks for a new leader every 20 ms when it has none.
type impatient struct {
	client    *kgo.Client
	partition int32
}

// newImpatient has its connections open and a record acknowledged.
func newImpatient(ctx context.Context, seeds []string, topic string, partition int32) (*impatient, error) {
	const often = 20 * time.Millisecond
	client, err := kgo.NewClient(
		kgo.SeedBrokers(seeds...), kgo.DefaultProduceTopic(topic), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(often), kgo.RetryBackoffFn(func(int) time.Duration { return often }),
		kgo.DialTimeout(time.Second), kgo.ProduceRequestTimeout(2*time.Second), kgo.RequestTimeoutOverhead(time.Second),
	)
	if err != nil {
		return nil, err
	}
	w := &impatient{client, partition}
	for range 20 {
		if err := w.write(ctx); err != nil {
			client.Close()
			return nil, err
		}
	}
	return w, nil
}

// write returns when one more record is acknowledged.
func (w *impatient) write(ctx context.Context) error {
	return w.client.ProduceSync(ctx, &kgo.Record{Partition: w.partition, Value: []byte("next")}).FirstErr()
}
