package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/IBM/sarama"
)

// saramaClient is sarama, speaking the protocol versions of one release of Kafka: what it speaks follows from a setting,
// not from what the broker can do.
type saramaClient struct {
	name    string
	version sarama.KafkaVersion
}

func (c saramaClient) Name() string { return c.name }
func (saramaClient) Version(context.Context) (string, error) {
	return moduleVersion("github.com/IBM/sarama")
}
func (saramaClient) Traits() Traits { return Traits{Codecs: Codecs} }

func (c saramaClient) config(j Job) *sarama.Config {
	cfg := sarama.NewConfig()
	cfg.Version = c.version
	cfg.Producer.RequiredAcks = sarama.WaitForAll
	cfg.Producer.Idempotent = true
	cfg.Net.MaxOpenRequests = 1 // sarama's condition for idempotence
	cfg.Producer.Return.Successes = true
	cfg.Producer.Compression = map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}[j.Codec]
	cfg.Consumer.Return.Errors = true
	return cfg
}

func (c saramaClient) Produce(_ context.Context, j Job) error {
	producer, err := sarama.NewSyncProducer(j.Seeds, c.config(j))
	if err != nil {
		return err
	}
	var messages []*sarama.ProducerMessage
	for i := range j.Count {
		r := j.Record(i)
		messages = append(messages, &sarama.ProducerMessage{Topic: j.Topic, Key: sarama.StringEncoder(r.Key), Value: sarama.StringEncoder(r.Value),
			Headers: []sarama.RecordHeader{
				{Key: []byte(headerClient), Value: []byte(r.Headers[headerClient])},
				{Key: []byte(headerNumber), Value: []byte(r.Headers[headerNumber])}}})
	}
	return errors.Join(producer.SendMessages(messages), producer.Close())
}

func (c saramaClient) Consume(ctx context.Context, j Job) (got []Record, err error) {
	consumer, err := sarama.NewConsumer(j.Seeds, c.config(j))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, consumer.Close()) }()
	for p, end := range j.Ends {
		records, err := c.partition(ctx, consumer, j.Topic, int32(p), end)
		got = append(got, records...)
		if err != nil {
			return got, fmt.Errorf("partition %d: %w", p, err)
		}
	}
	return got, nil
}

func (saramaClient) partition(ctx context.Context, consumer sarama.Consumer, topic string, p int32, end int64) (got []Record, err error) {
	if end == 0 {
		return nil, nil
	}
	part, err := consumer.ConsumePartition(topic, p, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, part.Close()) }()
	for {
		select {
		case <-ctx.Done():
			return got, ctx.Err()
		case err := <-part.Errors():
			return got, err
		case m := <-part.Messages():
			headers := map[string]string{}
			for _, h := range m.Headers {
				headers[string(h.Key)] = string(h.Value)
			}
			got = append(got, Record{Partition: m.Partition, Offset: m.Offset, Key: string(m.Key), Value: string(m.Value), Headers: headers})
			if m.Offset >= end-1 {
				return got, nil
			}
		}
	}
}
