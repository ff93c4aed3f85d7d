package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"cordwood/integration/load"
)

const (
	patience = time.Minute // for the writer's first records and the longest gap
	settle   = time.Minute // for the killed node's replicas to be in sync again
)

// failover kills the leader of a partition under an impatient synchronous writer and notes the longest time without an
// acknowledgement. controller says that the leader is to be the active controller too, or that it must not be.
func (c *contender) failover(ctx context.Context, controller bool) error {
	victim, topic, partition, err := c.victim(ctx, controller)
	if err != nil {
		return err
	}
	w, err := newImpatient(c.system.seeds(), topic, partition)
	if err != nil {
		return err
	}
	defer w.close()
	gap, err := w.longestGap(ctx, func() error { return c.system.kill(victim) })
	if err != nil {
		return err
	}
	what := mGap
	if controller {
		what = mGapController
	}
	c.note(what, gap.Seconds())
	if err := c.system.revive(ctx, victim); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	return load.Settled(ctx, c.system.seeds(), topic, 6, 3)
}

// victim is a partition's leader that is, or is not, the active controller.
func (c *contender) victim(ctx context.Context, controller bool) (node int32, topic string, partition int32, err error) {
	if topic, err = c.topic(ctx); err != nil {
		return 0, "", 0, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.system.seeds()...))
	if err != nil {
		return 0, "", 0, err
	}
	defer client.Close()
	active, err := load.ActiveController(ctx, client)
	if err != nil {
		return 0, "", 0, err
	}
	resp, err := load.Metadata(ctx, client, topic)
	if err != nil {
		return 0, "", 0, err
	}
	for _, p := range resp.Topics[0].Partitions {
		if (p.Leader == active) == controller {
			return p.Leader, topic, p.Partition, nil
		}
	}
	return 0, "", 0, fmt.Errorf("no partition of six has a leader that suits: the controller is node %d", active)
}

// impatient writes record after record to one partition and looks for a new leader every 20 ms when it has none.
type impatient struct {
	client    *kgo.Client
	partition int32

	mu     sync.Mutex
	acked  int
	last   time.Time
	widest time.Duration
}

func newImpatient(seeds []string, topic string, partition int32) (*impatient, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(seeds...), kgo.DefaultProduceTopic(topic), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(20*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.DialTimeout(time.Second), kgo.ProduceRequestTimeout(2*time.Second), kgo.RequestTimeoutOverhead(time.Second),
	)
	if err != nil {
		return nil, err
	}
	w := &impatient{client: client, partition: partition}
	if err := client.ProduceSync(context.Background(), &kgo.Record{Partition: partition, Value: []byte("first")}).FirstErr(); err != nil {
		client.Close()
		return nil, err
	}
	return w, nil
}

func (w *impatient) close() { w.client.Close() }

// longestGap writes, has the leader killed, and goes on until records are acknowledged for a while again.
func (w *impatient) longestGap(ctx context.Context, kill func() error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- w.write(ctx) }()
	err := w.until(ctx, func() bool { return w.acked >= 500 })
	if err == nil {
		w.mu.Lock()
		w.widest = 0 // of the start
		w.mu.Unlock()
		if err = kill(); err == nil {
			w.mu.Lock()
			before := w.acked
			w.mu.Unlock()
			err = w.until(ctx, func() bool { return w.acked >= before+500 }) // few were on their way
		}
	}
	cancel()
	werr := <-ended
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.widest, errors.Join(err, werr)
}

func (w *impatient) until(ctx context.Context, cond func() bool) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		w.mu.Lock()
		ok := cond()
		w.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the writer did not go on: %w", ctx.Err())
		}
	}
}

func (w *impatient) write(ctx context.Context) error {
	for ctx.Err() == nil {
		err := w.client.ProduceSync(ctx, &kgo.Record{Partition: w.partition, Value: []byte("next")}).FirstErr()
		now := time.Now()
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the end that was asked for breaks the write off
		case err != nil:
			return err
		}
		w.mu.Lock()
		if !w.last.IsZero() {
			w.widest = max(w.widest, now.Sub(w.last))
		}
		w.acked, w.last = w.acked+1, now
		w.mu.Unlock()
	}
	return nil
}
