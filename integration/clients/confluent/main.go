// Command confluent is the confluent-kafka-go client of the matrix: librdkafka through cgo, therefore a program of its own.
// It speaks as the matrix tells the clients that it starts.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// patience bounds each wait for the cluster.
const patience = time.Minute

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "version":
		_, library := kafka.LibraryVersion()
		fmt.Println("librdkafka " + library)
		return nil
	case len(args) == 4 && args[0] == "produce":
		return produce(args[1], args[2], args[3])
	case len(args) > 3 && args[0] == "consume":
		return consume(args[1], args[2], args[3:])
	}
	return errors.New("usage: version | produce SEEDS TOPIC CODEC | consume SEEDS TOPIC END...")
}

func produce(seeds, topic, codec string) error {
	p, err := kafka.NewProducer(&kafka.ConfigMap{"bootstrap.servers": seeds, "enable.idempotence": true, "acks": "all",
		"compression.type": codec, "queue.buffering.max.messages": 1_000_000})
	if err != nil {
		return err
	}
	defer p.Close()
	failed := make(chan error, 1)
	go func() {
		var fault error
		for e := range p.Events() {
			if m, ok := e.(*kafka.Message); ok && m.TopicPartition.Error != nil {
				fault = m.TopicPartition.Error
			}
			if _, ok := e.(closing); ok {
				failed <- fault
				return
			}
		}
	}()
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		f := strings.Split(in.Text(), "\t")
		err := p.Produce(&kafka.Message{
			TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: kafka.PartitionAny}, Key: []byte(f[0]), Value: []byte(f[1]),
			Headers: []kafka.Header{{Key: "client", Value: []byte(f[2])}, {Key: "n", Value: []byte(f[3])}},
		}, nil)
		if err != nil {
			return err
		}
	}
	if err := in.Err(); err != nil {
		return err
	}
	if left := p.Flush(int(patience.Milliseconds())); left > 0 {
		return fmt.Errorf("%d records were not acknowledged within %v", left, patience)
	}
	p.Events() <- closing{}
	return <-failed
}

// closing ends the reading of events.
type closing struct{}

func (closing) String() string { return "closing" }

func consume(seeds, topic string, ends []string) error {
	c, err := kafka.NewConsumer(&kafka.ConfigMap{"bootstrap.servers": seeds, "group.id": "none", "enable.auto.commit": false,
		"auto.offset.reset": "error"})
	if err != nil {
		return err
	}
	defer c.Close()
	due := int64(0)
	var parts []kafka.TopicPartition
	for p, s := range ends {
		end, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return err
		}
		due += end
		parts = append(parts, kafka.TopicPartition{Topic: &topic, Partition: int32(p), Offset: 0})
	}
	if err := c.Assign(parts); err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	for ; due > 0; due-- {
		m, err := c.ReadMessage(patience)
		if err != nil {
			return err
		}
		var headers []string
		for _, h := range m.Headers {
			headers = append(headers, h.Key+"="+string(h.Value))
		}
		fmt.Fprintf(out, "%d\t%d\t%s\t%s\t%s\n", m.TopicPartition.Partition, m.TopicPartition.Offset, m.Key, m.Value, strings.Join(headers, ","))
	}
	return out.Flush()
}
