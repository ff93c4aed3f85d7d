package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func errNoPartition(topic string, partition int32, partitions int) error {
	return fmt.Errorf("topic %s has no partition %d; it has %d", topic, partition, partitions)
}

const (
	countBatchRecords = 1000
	countBatchBytes   = 512 << 10
	countQueue        = 4096 // records waiting per partition
)

// countSink sends with acks of a number of replicas, which the library's producer has no word for: batches of its own
// making, one under way per partition, so that order is kept. What a node refuses without having written it is sent
// again; what may have been written is not.
type countSink struct {
	c          *client
	opt        *produceOptions
	topicID    [16]byte
	partitions []chan countRecord
	byKey      kgo.TopicPartitioner
	turn       int32 // partition of the next record without a key
	workers    sync.WaitGroup
	stop       context.CancelFunc // fails what the workers still hold
	serial     sync.Mutex         // done is called from one goroutine at a time
}

type countRecord struct {
	r    *kgo.Record
	done func(*kgo.Record, error)
}

func newCountSink(c *client, o *produceOptions, t *kmsg.MetadataResponseTopic) *countSink {
	ctx, stop := context.WithCancel(context.Background())
	s := &countSink{c: c, opt: o, topicID: t.TopicID, byKey: kgo.StickyKeyPartitioner(nil).ForTopic(o.topic), stop: stop}
	for p := range t.Partitions {
		queue := make(chan countRecord, countQueue)
		s.partitions = append(s.partitions, queue)
		w := &countWorker{sink: s, partition: int32(p), leader: -1}
		s.workers.Go(func() { w.work(ctx, queue) })
	}
	return s
}

// send puts the record into its partition's queue; it waits while that is full.
func (s *countSink) send(ctx context.Context, r *kgo.Record, done func(*kgo.Record, error)) {
	switch {
	case s.opt.partition >= 0:
	case r.Key != nil:
		r.Partition = int32(s.byKey.Partition(r, len(s.partitions)))
	default:
		r.Partition, s.turn = s.turn, (s.turn+1)%int32(len(s.partitions))
	}
	r.Timestamp = time.Now().Truncate(time.Millisecond)
	select {
	case s.partitions[r.Partition] <- countRecord{r, done}:
	case <-ctx.Done():
		s.finished([]countRecord{{r, done}}, ctx.Err())
	}
}

// finish ends the queues and waits for the workers, each of which is bounded by --delivery-timeout; after an interruption
// only a short while, and what is unfinished then fails.
func (s *countSink) finish(ctx context.Context) error {
	for _, q := range s.partitions {
		close(q)
	}
	done := make(chan struct{})
	go func() {
		s.workers.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-done:
	case <-time.After(finishWhenBroken):
	}
	s.stop()
	<-done
	return nil
}

func (s *countSink) close() {
	s.stop()
	s.c.Close()
}

func (s *countSink) finished(batch []countRecord, err error) {
	s.serial.Lock()
	defer s.serial.Unlock()
	for _, c := range batch {
		c.done(c.r, err)
	}
}

// countWorker sends one partition's records. It is used by its own goroutine alone.
type countWorker struct {
	sink      *countSink
	partition int32
	leader    int32 // -1: to be looked up
}

// work sends records, as many at a time as wait, until the queue is closed and empty.
func (w *countWorker) work(ctx context.Context, queue chan countRecord) {
	for first := range queue {
		batch, bytes := []countRecord{first}, len(first.r.Value)
	fill:
		for len(batch) < countBatchRecords && bytes < countBatchBytes {
			select {
			case next, ok := <-queue:
				if !ok {
					break fill
				}
				batch, bytes = append(batch, next), bytes+len(next.r.Value)
			default:
				break fill
			}
		}
		w.sink.finished(batch, w.deliver(ctx, batch))
	}
}

// deliver sends a batch until it is acknowledged, may have been written, or its time is over.
func (w *countWorker) deliver(ctx context.Context, batch []countRecord) error {
	ctx, cancel := context.WithTimeout(ctx, w.sink.opt.delivery)
	defer cancel()
	records, err := encodeBatch(batch, w.sink.opt.compression)
	if err != nil {
		return err
	}
	for {
		offset, err := w.try(ctx, records)
		if err == nil {
			for i, c := range batch {
				c.r.Offset = offset + int64(i)
			}
			return nil
		}
		w.leader = -1
		if !neverWritten(err) {
			return err
		}
		select {
		case <-afterRetry():
		case <-ctx.Done():
			return err
		}
	}
}

// neverWritten says that a refusal came before anything was appended, so that sending again cannot duplicate.
func neverWritten(err error) bool {
	var none *noLeaderError
	if errors.As(err, &none) {
		return true
	}
	for _, e := range []error{kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.UnknownTopicOrPartition, kerr.NotEnoughReplicas, kerr.ThrottlingQuotaExceeded} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// noLeaderError says that a partition had no leader to send to.
type noLeaderError struct{ cause error }

func (e *noLeaderError) Error() string { return e.cause.Error() }
func (e *noLeaderError) Unwrap() error { return e.cause }

// lookUp finds the partition's leader.
func (w *countWorker) lookUp(ctx context.Context) error {
	t, err := w.sink.c.topic(ctx, w.sink.opt.topic)
	if err != nil {
		return &noLeaderError{err}
	}
	for _, p := range t.Partitions {
		if p.Partition == w.partition {
			w.leader = p.Leader
		}
	}
	if w.leader < 0 {
		return &noLeaderError{refused(w.name(), kerr.LeaderNotAvailable.Code, nil)}
	}
	return nil
}

func (w *countWorker) name() string { return fmt.Sprintf("%s/%d", w.sink.opt.topic, w.partition) }

// countRequest hides a produce request's type from the library, which writes its own acks over those of the type it knows.
type countRequest struct{ *kmsg.ProduceRequest }

// try sends one request to the partition's leader of the moment and gives the offset of its first record.
func (w *countWorker) try(ctx context.Context, records []byte) (int64, error) {
	if w.leader < 0 {
		if err := w.lookUp(ctx); err != nil {
			return 0, err
		}
	}
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = w.sink.opt.acksCount, int32(produceTimeout.Milliseconds())
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = w.sink.opt.topic, w.sink.topicID
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = w.partition, records
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	r, err := w.sink.c.Broker(int(w.leader)).Request(ctx, countRequest{req})
	if err != nil {
		return 0, err
	}
	for _, at := range r.(*kmsg.ProduceResponse).Topics {
		for _, ap := range at.Partitions {
			return ap.BaseOffset, refused(w.name(), ap.ErrorCode, ap.ErrorMessage)
		}
	}
	return 0, errNotAcknowledged
}

// batchHeader is the length of what stands before the records of a batch.
const batchHeader = 61

// encodeBatch writes records as one batch of version 2 that no producer id guards.
func encodeBatch(batch []countRecord, compression string) ([]byte, error) {
	first := batch[0].r.Timestamp.UnixMilli()
	b := kmsg.RecordBatch{Magic: 2, FirstTimestamp: first, MaxTimestamp: first, PartitionLeaderEpoch: -1,
		LastOffsetDelta: int32(len(batch) - 1), NumRecords: int32(len(batch)), ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1}
	var raw []byte
	for i, c := range batch {
		ms := c.r.Timestamp.UnixMilli()
		b.MaxTimestamp = max(b.MaxTimestamp, ms)
		rec := kmsg.Record{TimestampDelta64: ms - first, OffsetDelta: int32(i), Key: c.r.Key, Value: c.r.Value}
		for _, h := range c.r.Headers {
			rec.Headers = append(rec.Headers, kmsg.Header{Key: h.Key, Value: h.Value})
		}
		body := rec.AppendTo(nil)[1:] // without the length, a varint of one byte for 0
		rec.Length = int32(len(body))
		raw = rec.AppendTo(raw)
	}
	b.Records = raw
	if compression != "none" {
		comp, err := kgo.DefaultCompressor(codecs[compression])
		if err != nil {
			return nil, err
		}
		var buf bytes.Buffer
		packed, codec := comp.Compress(&buf, raw)
		b.Records, b.Attributes = packed, int16(codec)
	}
	b.Length = int32(batchHeader - 12 + len(b.Records))
	out := b.AppendTo(nil)
	crc := crc32.Checksum(out[21:], crc32.MakeTable(crc32.Castagnoli))
	b.CRC = int32(crc)
	return b.AppendTo(out[:0]), nil
}
