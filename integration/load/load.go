// Package load puts the same load on any Kafka-speaking cluster and measures what it takes: for benchmarks, never for
// tests.
package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// RecordBytes is the size of every record's value.
const RecordBytes = 1 << 10

// Target says whom to write to, and how sure a write must be.
type Target struct {
	Seeds []string
	Topic string
	Acks  int16 // 1, or -1 for all in-sync replicas
}

// Result is what a write took.
type Result struct {
	Bytes int64 // of values
	Took  time.Duration
}

// MBs is the rate in 1e6 bytes a second.
func (r Result) MBs() float64 { return float64(r.Bytes) / 1e6 / r.Took.Seconds() }

func (t Target) client(extra ...kgo.Opt) (*kgo.Client, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(t.Seeds...), kgo.DefaultProduceTopic(t.Topic), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RecordDeliveryTimeout(time.Minute),
	}
	if t.Acks == 1 {
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(5))
	} else {
		opts = append(opts, kgo.RequiredAcks(kgo.AllISRAcks()))
	}
	return kgo.NewClient(append(opts, extra...)...)
}

// value gives bytes that no codec makes smaller.
func value() []byte {
	b := make([]byte, RecordBytes)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(b)
	return b
}

// Produce writes so many bytes with many records in flight and returns when all are acknowledged. Any record that is not
// is an error.
func Produce(ctx context.Context, t Target, bytes int64) (Result, error) {
	c, err := t.client(kgo.MaxBufferedRecords(1 << 16))
	if err != nil {
		return Result{}, err
	}
	defer c.Close()
	if err := warm(ctx, c); err != nil {
		return Result{}, err
	}
	var mu sync.Mutex
	var failed error
	done := func(_ *kgo.Record, err error) {
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed = err
		}
	}
	v := value()
	start := time.Now()
	n := bytes / RecordBytes
	for range n {
		c.Produce(ctx, &kgo.Record{Value: v}, done)
	}
	if err := c.Flush(ctx); err != nil {
		return Result{}, err
	}
	mu.Lock()
	defer mu.Unlock()
	if failed != nil {
		return Result{}, fmt.Errorf("produce to %s: %w", t.Topic, failed)
	}
	return Result{Bytes: n * RecordBytes, Took: time.Since(start)}, nil
}

// warm opens connections and learns the partitions, so that the measure is of writing alone.
func warm(ctx context.Context, c *kgo.Client) error {
	for range 20 {
		if err := c.ProduceSync(ctx, &kgo.Record{Value: []byte("warm")}).FirstErr(); err != nil {
			return fmt.Errorf("first records: %w", err)
		}
	}
	return nil
}

// Synchronous writes n records, each after the one before was acknowledged, and returns how long each took, sorted.
func Synchronous(ctx context.Context, t Target, n int) ([]time.Duration, error) {
	c, err := t.client(kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := warm(ctx, c); err != nil {
		return nil, err
	}
	v := value()
	took := make([]time.Duration, n)
	for i := range took {
		start := time.Now()
		if err := c.ProduceSync(ctx, &kgo.Record{Value: v}).FirstErr(); err != nil {
			return nil, fmt.Errorf("record %d of %d to %s: %w", i, n, t.Topic, err)
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return took, nil
}

// Quantile gives the value below which the share q of sorted durations lies.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// CreateTopic makes a topic and waits until every partition has a leader that all replicas are in sync with. Configs are
// name, value pairs in turn.
func CreateTopic(ctx context.Context, seeds []string, topic string, partitions, replicas int, configs map[string]string) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(seeds...))
	if err != nil {
		return err
	}
	defer c.Close()
	adm := kadm.NewClient(c)
	set := make(map[string]*string, len(configs))
	for k, v := range configs {
		set[k] = &v
	}
	adm.SetTimeoutMillis(120_000)
	r, err := adm.CreateTopic(ctx, int32(partitions), int16(replicas), set, topic)
	if err != nil {
		return fmt.Errorf("create topic %s: %w: %s", topic, err, r.ErrMessage)
	}
	return Settled(ctx, seeds, topic, partitions, replicas)
}

// Settled waits until every partition of a topic has a leader and all its replicas in sync, in the answer of every seed.
func Settled(ctx context.Context, seeds []string, topic string, partitions, replicas int) error {
	for _, seed := range seeds {
		if err := settled(ctx, seed, topic, partitions, replicas); err != nil {
			return err
		}
	}
	return nil
}

func settled(ctx context.Context, seed, topic string, partitions, replicas int) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(seed))
	if err != nil {
		return err
	}
	defer c.Close()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		resp, err := Metadata(ctx, c, topic)
		if err == nil && whole(resp, partitions, replicas) {
			return nil
		}
		if err != nil {
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("topic %s is not whole at %s: %w", topic, seed, errors.Join(ctx.Err(), last))
		}
	}
}

// Metadata asks one seed of the client for one topic, past the client's cache.
func Metadata(ctx context.Context, c *kgo.Client, topic string) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	resp, err := c.SeedBrokers()[0].Request(ctx, req)
	if err != nil {
		return nil, err
	}
	return resp.(*kmsg.MetadataResponse), nil
}

func whole(resp *kmsg.MetadataResponse, partitions, replicas int) bool {
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != partitions {
		return false
	}
	for _, p := range resp.Topics[0].Partitions {
		if p.ErrorCode != 0 || p.Leader < 0 || len(p.ISR) != replicas {
			return false
		}
	}
	return true
}
