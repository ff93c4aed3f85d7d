package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// franz is franz-go. It is the reference too: it reads what every other client wrote, and tells the codecs.
type franz struct{}

func (franz) Name() string { return "franz-go" }
func (franz) Version(context.Context) (string, error) {
	return moduleVersion("github.com/twmb/franz-go")
}
func (franz) Traits() Traits { return Traits{Codecs: Codecs} }

var franzCodecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func (franz) Produce(ctx context.Context, j Job) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(j.Seeds...), kgo.DefaultProduceTopic(j.Topic), kgo.ProducerBatchCompression(franzCodecs[j.Codec]))
	if err != nil {
		return err
	}
	defer client.Close()
	var records []*kgo.Record
	for i := range j.Count {
		r := j.Record(i)
		records = append(records, &kgo.Record{Key: []byte(r.Key), Value: []byte(r.Value), Headers: []kgo.RecordHeader{
			{Key: headerClient, Value: []byte(r.Headers[headerClient])}, {Key: headerNumber, Value: []byte(r.Headers[headerNumber])}}})
	}
	return client.ProduceSync(ctx, records...).FirstErr()
}

func (franz) Consume(ctx context.Context, j Job) ([]Record, error) {
	starts := map[int32]kgo.Offset{}
	due := int64(0)
	for p, end := range j.Ends {
		starts[int32(p)] = kgo.NewOffset().At(0)
		due += end
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(j.Seeds...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{j.Topic: starts}))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var got []Record
	for int64(len(got)) < due {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return got, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			headers := map[string]string{}
			for _, h := range r.Headers {
				headers[h.Key] = string(h.Value)
			}
			got = append(got, Record{Partition: r.Partition, Offset: r.Offset, Key: string(r.Key), Value: string(r.Value),
				Headers: headers, Codec: Codecs[r.Attrs.CompressionType()]})
		})
	}
	return got, nil
}

// createTopic makes a topic with three replicas.
func createTopic(ctx context.Context, seeds []string, topic string, partitions int32) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...))
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = kadm.NewClient(client).CreateTopic(ctx, partitions, 3, nil, topic)
	return err
}

// ends asks where the partitions of a topic end.
func ends(ctx context.Context, seeds []string, topic string, partitions int32) ([]int64, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	listed, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	all := make([]int64, partitions)
	for p := range all {
		o, ok := listed.Lookup(topic, int32(p))
		if !ok || o.Err != nil {
			return nil, fmt.Errorf("end of %s partition %d: %w", topic, p, o.Err)
		}
		all[p] = o.Offset
	}
	return all, nil
}
