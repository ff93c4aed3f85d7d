package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/compress"
)

// kafkaGo is kafka-go, written with its Writer and read with its Reader.
type kafkaGo struct{}

func (kafkaGo) Name() string { return "kafka-go" }
func (kafkaGo) Version(context.Context) (string, error) {
	return moduleVersion("github.com/segmentio/kafka-go")
}
func (kafkaGo) Traits() Traits { return Traits{Codecs: Codecs} }

var kafkaGoCodecs = map[string]compress.Compression{
	"none": compress.None, "gzip": compress.Gzip, "snappy": compress.Snappy, "lz4": compress.Lz4, "zstd": compress.Zstd,
}

func kafkaGoMessage(r Record) kafka.Message {
	return kafka.Message{Key: []byte(r.Key), Value: []byte(r.Value), Headers: []kafka.Header{
		{Key: headerClient, Value: []byte(r.Headers[headerClient])}, {Key: headerNumber, Value: []byte(r.Headers[headerNumber])}}}
}

func (kafkaGo) Produce(ctx context.Context, j Job) (err error) {
	// A transport of its own: the shared one keeps a list of topics for seconds and does not know the new one.
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	w := &kafka.Writer{Addr: kafka.TCP(j.Seeds...), Transport: transport, Topic: j.Topic, Balancer: &kafka.Hash{}, RequiredAcks: kafka.RequireAll,
		Compression: kafkaGoCodecs[j.Codec], BatchTimeout: 10 * time.Millisecond}
	defer func() { err = errors.Join(err, w.Close()) }()
	var messages []kafka.Message
	for i := range j.Count {
		messages = append(messages, kafkaGoMessage(j.Record(i)))
	}
	return w.WriteMessages(ctx, messages...)
}

func (kafkaGo) Consume(ctx context.Context, j Job) ([]Record, error) {
	var got []Record
	for p, end := range j.Ends {
		records, err := kafkaGoPartition(ctx, j, p, end)
		got = append(got, records...)
		if err != nil {
			return got, fmt.Errorf("partition %d: %w", p, err)
		}
	}
	return got, nil
}

func kafkaGoPartition(ctx context.Context, j Job, p int, end int64) (got []Record, err error) {
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: j.Seeds, Topic: j.Topic, Partition: p, MaxWait: 500 * time.Millisecond})
	defer func() { err = errors.Join(err, r.Close()) }()
	for int64(len(got)) < end {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			return got, err
		}
		got = append(got, kafkaGoRecord(m, int32(p)))
	}
	return got, nil
}

func kafkaGoRecord(m kafka.Message, p int32) Record {
	headers := map[string]string{}
	for _, h := range m.Headers {
		headers[h.Key] = string(h.Value)
	}
	return Record{Partition: p, Offset: m.Offset, Key: string(m.Key), Value: string(m.Value), Headers: headers}
}

// kafkaGoConn is kafka-go's older road, one connection to a partition's leader. It asks ApiVersions in version 0 and
// speaks versions that no other client here does.
type kafkaGoConn struct{ kafkaGo }

func (kafkaGoConn) Name() string { return "kafka-go (Conn)" }

func (kafkaGoConn) dial(ctx context.Context, j Job, p int32) (*kafka.Conn, error) {
	conn, err := kafka.DialLeader(ctx, "tcp", j.Seeds[0], j.Topic, int(p))
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		err = conn.SetDeadline(deadline)
	}
	return conn, err
}

func (c kafkaGoConn) Produce(ctx context.Context, j Job) error {
	byPartition := make([][]kafka.Message, j.Partitions)
	for i := range j.Count {
		m := kafkaGoMessage(j.Record(i))
		p := i % 997 % int(j.Partitions) // as the key goes
		byPartition[p] = append(byPartition[p], m)
	}
	for p, messages := range byPartition {
		if err := c.write(ctx, j, int32(p), messages); err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
	}
	return nil
}

func (c kafkaGoConn) write(ctx context.Context, j Job, p int32, messages []kafka.Message) (err error) {
	conn, err := c.dial(ctx, j, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	const batch = 500
	for len(messages) > 0 {
		n := min(batch, len(messages))
		if codec := kafkaGoCodecs[j.Codec]; codec == compress.None {
			_, err = conn.WriteMessages(messages[:n]...)
		} else {
			_, err = conn.WriteCompressedMessages(codec.Codec(), messages[:n]...)
		}
		if err != nil {
			return err
		}
		messages = messages[n:]
	}
	return nil
}

func (c kafkaGoConn) Consume(ctx context.Context, j Job) ([]Record, error) {
	var got []Record
	for p, end := range j.Ends {
		records, err := c.read(ctx, j, int32(p), end)
		got = append(got, records...)
		if err != nil {
			return got, fmt.Errorf("partition %d: %w", p, err)
		}
	}
	return got, nil
}

func (c kafkaGoConn) read(ctx context.Context, j Job, p int32, end int64) (got []Record, err error) {
	conn, err := c.dial(ctx, j, p)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.Seek(0, kafka.SeekAbsolute); err != nil {
		return nil, err
	}
	for int64(len(got)) < end {
		records, err := kafkaGoBatch(conn, p)
		got = append(got, records...)
		if err != nil {
			return got, err
		}
	}
	return got, nil
}

// kafkaGoBatch reads what one Fetch brings.
func kafkaGoBatch(conn *kafka.Conn, p int32) ([]Record, error) {
	batch := conn.ReadBatch(1, 1<<20)
	var got []Record
	for {
		m, err := batch.ReadMessage()
		if err != nil { // the batch's end too; Close tells it from a fault
			return got, batch.Close()
		}
		got = append(got, kafkaGoRecord(m, p))
	}
}
