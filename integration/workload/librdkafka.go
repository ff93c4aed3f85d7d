//go:build librdkafka && cgo

package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// linked is librdkafka.
var linked library = rdkafka{}

// rdkafka makes clients of librdkafka. Its consumers are assigned what they read: none is a subscriber.
type rdkafka struct{}

func (rdkafka) name() string { return Librdkafka }

// settings are those of every client, with more. Its log is not ours to show: what it means, errors say.
func (rdkafka) settings(seeds []string, id string, more kafka.ConfigMap) *kafka.ConfigMap {
	set := kafka.ConfigMap{
		"bootstrap.servers": strings.Join(seeds, ","), "client.id": id, "log_level": 0,
		"socket.connection.setup.timeout.ms": millis(dialWithin), "reconnect.backoff.ms": millis(retryAfter), "reconnect.backoff.max.ms": millis(dialWithin),
		"retry.backoff.ms": millis(retryAfter), "topic.metadata.refresh.fast.interval.ms": millis(metadataAge),
	}
	for name, value := range more {
		set[name] = value
	}
	return &set
}

func millis(d time.Duration) int { return int(d.Milliseconds()) }

// told is how long after a record's time is over its end may be told: past it the client is not believed to tell.
const told = 10 * time.Second

type rdkafkaProducer struct {
	client *kafka.Producer
	acks   string
	once   bool
	ready  bool          // for transactions, where it has an id for them
	read   chan struct{} // closed when nobody reads events any more
}

func (r rdkafka) producer(o producerOptions) (producer, error) {
	if err := acksKnown(o.acks); err != nil {
		return nil, err
	}
	set := kafka.ConfigMap{
		"acks": o.acks, "linger.ms": 0, "request.timeout.ms": millis(requestWithin), "message.timeout.ms": millis(sendWithin),
		"enable.idempotence": !o.once, "go.events.channel.size": 1, "go.produce.channel.size": 1,
	}
	if o.once {
		set["message.send.max.retries"], set["max.in.flight.requests.per.connection"] = 0, 1
	}
	if o.transactional != "" {
		set["transactional.id"], set["transaction.timeout.ms"], set["message.timeout.ms"] = o.transactional, millis(abortAfter), millis(abortAfter)
	}
	c, err := kafka.NewProducer(r.settings(o.seeds, o.id, set))
	if err != nil {
		return nil, err
	}
	p := &rdkafkaProducer{client: c, acks: o.acks, once: o.once, read: make(chan struct{})}
	go func() {
		defer close(p.read)
		for range c.Events() { // of the client itself: what it means for a record, its delivery says
		}
	}()
	return p, nil
}

// send implements producer. librdkafka writes a record again whose partition has moved, whatever it was told of retries, and
// tells nobody: so each of a producer without idempotence counts as one that may be there twice, and no answer of a broker
// says that it is not there. Only what the library did not take is certainly nowhere.
func (p *rdkafkaProducer) send(ctx context.Context, to place, value []byte) delivery {
	done := make(chan kafka.Event, 1)
	m := &kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &to.topic, Partition: to.partition}, Value: value}
	if err := p.client.Produce(m, done); err != nil {
		return delivery{offset: -1, refused: true, err: err}
	}
	d := delivery{offset: -1, again: p.once}
	late := time.NewTimer(sendWithin + told)
	defer late.Stop()
	select {
	case e := <-done:
		m, ok := e.(*kafka.Message)
		switch {
		case !ok:
			d.err = fmt.Errorf("librdkafka gave %v for a delivery", e)
		case m.TopicPartition.Error != nil:
			d.err = m.TopicPartition.Error
		case p.acks != "0":
			d.offset = int64(m.TopicPartition.Offset)
		}
	case <-late.C:
		d.err = errors.New("librdkafka did not tell what became of a record")
	case <-ctx.Done():
		d.err = ctx.Err()
	}
	return d
}

func (p *rdkafkaProducer) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endWithin)
	defer cancel()
	if !p.ready {
		if err := p.client.InitTransactions(ctx); err != nil {
			return err
		}
		p.ready = true
	}
	return p.client.BeginTransaction()
}

// end implements producer. librdkafka says of a commit that the transaction must be aborted instead; only when it was aborted
// then is that certain.
func (p *rdkafkaProducer) end(ctx context.Context, commit bool) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, endWithin)
	defer cancel()
	if !commit {
		return aborted, p.client.AbortTransaction(ctx)
	}
	err := p.client.CommitTransaction(ctx)
	if err == nil {
		return committed, nil
	}
	var e kafka.Error
	if !errors.As(err, &e) || !e.TxnRequiresAbort() {
		return unknown, err
	}
	if failed := p.client.AbortTransaction(ctx); failed != nil {
		return unknown, errors.Join(err, failed)
	}
	return aborted, err
}

func (p *rdkafkaProducer) close() {
	p.client.Close()
	<-p.read
}

type rdkafkaConsumer struct{ client *kafka.Consumer }

func (r rdkafka) consumer(o consumerOptions) (consumer, error) {
	c, err := kafka.NewConsumer(r.settings(o.seeds, o.id, kafka.ConfigMap{
		"group.id": o.id, "enable.auto.commit": false, "auto.offset.reset": "earliest", "isolation.level": "read_committed", "enable.partition.eof": true, // no group: partitions are assigned
		"fetch.wait.max.ms": millis(pollWithin), "max.partition.fetch.bytes": partitionMost, "fetch.error.backoff.ms": millis(retryAfter),
	}))
	if err != nil {
		return nil, err
	}
	var parts []kafka.TopicPartition
	for at, next := range o.from {
		offset := kafka.OffsetBeginning
		if next != beginning {
			offset = kafka.Offset(next)
		}
		parts = append(parts, kafka.TopicPartition{Topic: &at.topic, Partition: at.partition, Offset: offset})
	}
	if err := c.Assign(parts); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &rdkafkaConsumer{c}, nil
}

// poll implements consumer. What librdkafka says of itself, such as that a node is down, it gets over by itself unless it is
// fatal; what it says of a partition in the place of a record, it does not.
func (c *rdkafkaConsumer) poll(ctx context.Context, most int, each func(read)) error {
	until, ok := ctx.Deadline()
	if !ok {
		until = time.Now().Add(pollWithin)
	}
	for n := 0; n < most && ctx.Err() == nil; {
		wait := max(time.Until(until), 0)
		if n > 0 {
			wait = 0 // the rest is for what comes at once
		}
		switch e := c.client.Poll(millis(wait)).(type) {
		case nil:
			return nil
		case *kafka.Message:
			at := place{*e.TopicPartition.Topic, e.TopicPartition.Partition}
			if err := e.TopicPartition.Error; err != nil {
				return fmt.Errorf("%s/%d: %w", at.topic, at.partition, err)
			}
			each(read{from: at, offset: int64(e.TopicPartition.Offset), value: e.Value})
			n++
		case kafka.PartitionEOF:
			each(read{from: place{*e.Topic, e.Partition}, offset: int64(e.Offset) - 1, passed: true})
		case kafka.Error:
			if e.IsFatal() {
				return e
			}
		}
	}
	return nil
}

func (c *rdkafkaConsumer) ends(ctx context.Context, of []place, each func(place, int64, int32)) {
	admin, err := kafka.NewAdminClientFromConsumer(c.client)
	if err != nil {
		return
	}
	defer admin.Close()
	ask := map[kafka.TopicPartition]kafka.OffsetSpec{}
	for _, at := range of {
		ask[kafka.TopicPartition{Topic: &at.topic, Partition: at.partition}] = kafka.LatestOffsetSpec
	}
	r, err := admin.ListOffsets(ctx, ask, kafka.SetAdminIsolationLevel(kafka.IsolationLevelReadUncommitted))
	if err != nil {
		return // nobody is asked again: what one was told counts
	}
	for at, info := range r.ResultInfos {
		if info.Error.Code() == kafka.ErrNoError && info.LeaderEpoch != nil {
			each(place{*at.Topic, at.Partition}, int64(info.Offset), *info.LeaderEpoch)
		}
	}
}

func (c *rdkafkaConsumer) close() {
	_ = c.client.Close() // it tells only that it is closed already
}
