package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// franz makes clients of franz-go.
type franz struct{}

func (franz) name() string { return Franz }

func (franz) options(seeds []string, id string, more ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.SeedBrokers(seeds...), kgo.ClientID(id),
		kgo.MetadataMinAge(metadataAge), kgo.DialTimeout(dialWithin), kgo.RetryBackoffFn(func(int) time.Duration { return retryAfter }),
	}, more...)
}

type franzProducer struct {
	client *kgo.Client
	acks   string
	once   *writes // nil: idempotent
}

func (f franz) producer(o producerOptions) (producer, error) {
	if err := acksKnown(o.acks); err != nil {
		return nil, err
	}
	opts := []kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.ProduceRequestTimeout(requestWithin), kgo.RecordDeliveryTimeout(sendWithin),
		kgo.RequiredAcks(map[string]kgo.Acks{"all": kgo.AllISRAcks(), "0": kgo.NoAck(), "1": kgo.LeaderAck()}[o.acks])}
	p := &franzProducer{acks: o.acks}
	if o.once {
		p.once = &writes{}
		opts = append(opts, kgo.DisableIdempotentWrite(), kgo.RecordRetries(0), kgo.MaxProduceRequestsInflightPerBroker(1), kgo.WithHooks(p.once))
	}
	if o.transactional != "" {
		opts = append(opts, kgo.TransactionalID(o.transactional), kgo.TransactionTimeout(abortAfter))
	}
	var err error
	p.client, err = kgo.NewClient(f.options(o.seeds, o.id, opts...)...)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (p *franzProducer) send(ctx context.Context, to place, value []byte) delivery {
	if p.once != nil {
		p.once.reset()
	}
	r := p.client.ProduceSync(ctx, &kgo.Record{Topic: to.topic, Partition: to.partition, Value: value})[0]
	d := delivery{offset: -1, again: p.once != nil && p.once.again(), err: r.Err}
	if d.err == nil && p.acks != "0" {
		d.offset = r.Record.Offset
	}
	d.refused = p.once != nil && !d.again && refusedBefore(d.err)
	return d
}

func (p *franzProducer) begin(context.Context) error { return p.client.BeginTransaction() }

// end implements producer. franz-go says of a commit that it did not ask for it; of any other trouble the end is not known.
func (p *franzProducer) end(ctx context.Context, commit bool) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, endWithin)
	defer cancel()
	if !commit {
		return aborted, p.client.EndTransaction(ctx, kgo.TryAbort)
	}
	err := p.client.EndTransaction(ctx, kgo.TryCommit)
	o := committedBy(err)
	if o == aborted {
		err = errors.Join(err, p.client.EndTransaction(ctx, kgo.TryAbort))
	}
	return o, err
}

// committedBy says what a commit's error means.
func committedBy(err error) outcome {
	switch {
	case err == nil:
		return committed
	case errors.Is(err, kerr.OperationNotAttempted):
		return aborted
	}
	return unknown
}

func (p *franzProducer) close() { ended(p.client.Close) }

// refusedBefore says that a broker refused a record before it appended anything. After a repeat it would say nothing of the
// first try; and a leader that is deposed while a record waits says NOT_LEADER_OR_FOLLOWER, though it has it.
func refusedBefore(err error) bool {
	for _, e := range []error{kerr.NotEnoughReplicas, kerr.MessageTooLarge, kerr.InvalidRequiredAcks} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

type franzConsumer struct{ client *kgo.Client }

// reading is how all consumers read.
func (franz) reading() []kgo.Opt {
	return []kgo.Opt{kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(pollWithin), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxPartitionBytes(partitionMost), kgo.KeepControlRecords()}
}

func (f franz) consumer(o consumerOptions) (consumer, error) {
	parts := map[string]map[int32]kgo.Offset{}
	for at, next := range o.from {
		if parts[at.topic] == nil {
			parts[at.topic] = map[int32]kgo.Offset{}
		}
		parts[at.topic][at.partition] = kgo.NewOffset().AtStart()
		if next != beginning {
			parts[at.topic][at.partition] = kgo.NewOffset().At(next)
		}
	}
	c, err := kgo.NewClient(f.options(o.seeds, o.id, append(f.reading(), kgo.ConsumePartitions(parts))...)...)
	if err != nil {
		return nil, err
	}
	return &franzConsumer{c}, nil
}

func (c *franzConsumer) poll(ctx context.Context, most int, each func(read)) error {
	fetches := c.client.PollRecords(ctx, most)
	fetches.EachRecord(func(r *kgo.Record) {
		each(read{place{r.Topic, r.Partition}, r.Offset, r.Value, r.Attrs.IsControl()})
	})
	for _, e := range fetches.Errors() {
		if !errors.Is(e.Err, context.DeadlineExceeded) && !errors.Is(e.Err, context.Canceled) {
			return fmt.Errorf("%s/%d: %w", e.Topic, e.Partition, e.Err)
		}
	}
	return nil
}

func (c *franzConsumer) ends(ctx context.Context, of []place, each func(place, int64, int32)) {
	wanted := map[place]bool{}
	var topics []string
	for _, at := range of {
		wanted[at] = true
		topics = append(topics, at.topic)
	}
	ends, err := kadm.NewClient(c.client).ListEndOffsets(ctx, topics...)
	if err != nil {
		return // nobody is asked again: what one was told counts
	}
	ends.Each(func(o kadm.ListedOffset) {
		if at := (place{o.Topic, o.Partition}); wanted[at] && o.Err == nil {
			each(at, o.Offset, o.LeaderEpoch)
		}
	})
}

func (c *franzConsumer) close() { ended(c.client.Close) }

// closeWithin bounds the end of a client. Leaving a group takes up to a join and a request.
const closeWithin = 20 * time.Second

// ended says whether a client's end came in time. One that does not is left behind: it reads nothing for anybody any more. In
// franz-go the end of a consumer waits for offsets that were asked for, which a cluster that is broken may never tell.
func ended(end func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		end()
	}()
	t := time.NewTimer(closeWithin)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}
