package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	produceTimeout   = 5 * time.Second // that a node may wait for replicas, before the request is sent again
	bufferedRecords  = 10_000
	bufferedBytes    = 64 << 20
	finishWhenBroken = 5 * time.Second // that an interrupted run waits for what it has sent
)

// openSink reaches the cluster, checks that the topic is there and makes the sender that acks asks for.
func (a *app) openSink(ctx context.Context, o *produceOptions) (sink, error) {
	c, err := a.connect(ctx, o.producerOptions()...)
	if err != nil {
		return nil, err
	}
	reach, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	t, err := c.topic(reach, o.topic)
	if err == nil && o.partition >= int32(len(t.Partitions)) {
		err = &failure{code: exitNotFound, err: errNoPartition(o.topic, o.partition, len(t.Partitions)), kafka: "UNKNOWN_TOPIC_OR_PARTITION"}
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	if o.acksCount >= 2 {
		return newCountSink(c, o, t), nil
	}
	return &kgoSink{c: c}, nil
}

func (o *produceOptions) producerOptions() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.ProduceRequestTimeout(produceTimeout),
		kgo.RecordDeliveryTimeout(o.delivery),
		kgo.RetryTimeout(o.delivery),
		kgo.MaxBufferedRecords(bufferedRecords),
		kgo.MaxBufferedBytes(bufferedBytes),
		kgo.ProducerBatchCompression(codecs[o.compression]),
		kgo.ProducerLinger(0),
		kgo.UnknownTopicRetries(-1),
	}
	switch {
	case o.partition >= 0:
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	case o.perSecond > 0:
		opts = append(opts, kgo.RecordPartitioner(spread()))
	}
	switch o.acksCount {
	case 0:
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	case 1:
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	default:
		opts = append(opts, kgo.RequiredAcks(kgo.AllISRAcks()))
	}
	return opts
}

// spread puts each record without a key into a partition of its own choice, where the library's default keeps to one for
// many records: at a slow rate every partition shall see some.
func spread() kgo.Partitioner { return kgo.UniformBytesPartitioner(1, false, true, nil) }

// kgoSink sends through the library's producer: idempotent with acks=all.
type kgoSink struct{ c *client }

func (s *kgoSink) send(ctx context.Context, r *kgo.Record, done func(*kgo.Record, error)) {
	s.c.Produce(ctx, r, done)
}

// finish waits for all records; after an interruption only a short while, and what is unfinished then fails.
func (s *kgoSink) finish(ctx context.Context) error {
	if err := s.c.Flush(ctx); err == nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishWhenBroken)
	defer cancel()
	return s.c.Flush(bounded)
}

// close fails what is still unfinished and waits for its promises.
func (s *kgoSink) close() { s.c.Close() }
