package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"cordwood/integration/harness"
	"cordwood/integration/load"
)

const (
	topic      = "bench"
	partitions = 6
)

// one measures a single node, acks=1.
func (b *bench) one(ctx context.Context) error {
	c, _, err := b.start(ctx, "one", 1)
	if err != nil {
		return err
	}
	defer b.end(c)
	return b.produce(ctx, c, 1, 1, "acks=1, one node", 0.5)
}

// three measures three nodes, acks=all.
func (b *bench) three(ctx context.Context) error {
	c, ready, err := b.start(ctx, "three", 3)
	if err != nil {
		return err
	}
	defer b.end(c)
	b.table.atMost("three new nodes, start to ready", ready.Seconds(), "s", 3)
	return b.produce(ctx, c, 3, -1, "acks=all, three nodes", 0.15)
}

// produce measures a cluster against kfake, in turns.
func (b *bench) produce(ctx context.Context, c *harness.Cluster, replicas int, acks int16, what string, aim float64) error {
	if err := createTopic(ctx, c, topic, replicas); err != nil {
		return err
	}
	ours := load.Target{Seeds: c.Bootstrap(), Topic: topic, Acks: acks}
	var pairs []pair
	var used cost
	var written int64
	for range b.rounds {
		fake, err := b.fakeProduce(ctx, acks)
		if err != nil {
			return fmt.Errorf("kfake: %w", err)
		}
		before, err := spent(ctx, c)
		if err != nil {
			return err
		}
		r, err := load.Produce(ctx, ours, b.bytes)
		if err != nil {
			return err
		}
		after, err := spent(ctx, c)
		if err != nil {
			return err
		}
		used.cpu += after.cpu - before.cpu
		used.mallocs += after.mallocs - before.mallocs
		written += r.Bytes
		pairs = append(pairs, pair{r.MBs(), fake.MBs()})
	}
	b.table.atLeast("produce with kgo, "+what+" / kfake", median(pairs), aim)
	b.table.plain("  processor time, all nodes", used.cpu.Seconds()/(float64(written)/1e9), "s/GB")
	b.table.atMost("  allocations, all nodes", used.mallocs/float64(written/load.RecordBytes), "per record", 1)
	return nil
}

func (b *bench) fakeProduce(ctx context.Context, acks int16) (r load.Result, err error) {
	f, err := b.startFake() // a new one every time: it keeps all records in memory
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	return load.Produce(ctx, load.Target{Seeds: []string{f.addr}, Topic: topic, Acks: acks}, b.bytes)
}

// createTopic leaves no time for the cluster to be unready in.
func createTopic(ctx context.Context, c *harness.Cluster, name string, replicas int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return load.CreateTopic(ctx, c.Bootstrap(), name, partitions, replicas, nil)
}

// synchronous measures one producer on three nodes that waits for every record, against a round trip of the same bytes
// on loopback.
func (b *bench) synchronous(ctx context.Context) error {
	c, _, err := b.start(ctx, "synchronous", 3)
	if err != nil {
		return err
	}
	defer b.end(c)
	if err := createTopic(ctx, c, topic, 3); err != nil {
		return err
	}
	t := load.Target{Seeds: c.Bootstrap(), Topic: topic, Acks: -1}
	if _, err := load.Synchronous(ctx, t, b.count/10); err != nil { // what is said and allocated only once
		return err
	}
	trips, err := roundTrips(b.count)
	if err != nil {
		return err
	}
	before, err := spent(ctx, c)
	if err != nil {
		return err
	}
	took, err := load.Synchronous(ctx, t, b.count)
	if err != nil {
		return err
	}
	after, err := spent(ctx, c)
	if err != nil {
		return err
	}
	add := func(q float64, name string, aim string, limit float64) {
		ours, trip := load.Quantile(took, q), load.Quantile(trips, q)
		ratio := float64(ours) / float64(load.Quantile(trips, 0.5))
		b.table.rows = append(b.table.rows, row{"one synchronous producer, acks=all, " + name + " / round trips (p50)", ours.Round(time.Microsecond).String(),
			trip.Round(100 * time.Nanosecond).String(), fmt.Sprintf("%.1f", ratio), aim, limit > 0 && ratio > limit})
	}
	add(0.5, "p50", "<= 25", 25)
	add(0.99, "p99", "", 0)
	b.table.plain("  processor time, all nodes", float64((after.cpu-before.cpu).Microseconds())/float64(b.count), "us per record")
	b.table.plain("  allocations, all nodes", (after.mallocs-before.mallocs)/float64(b.count), "per record")
	return nil
}

// roundTrips sends a record's bytes to an echo on loopback, which answers a few, n times; sorted.
func roundTrips(n int) (took []time.Duration, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	echo := make(chan error, 1)
	go func() { echo <- answer(l) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, err
	}
	question, reply := make([]byte, load.RecordBytes+100), make([]byte, 64)
	for range n {
		start := time.Now()
		if _, err := c.Write(question); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		if _, err := io.ReadFull(c, reply); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took, errors.Join(c.Close(), <-echo)
}

// answer reads questions and writes replies until the peer closes.
func answer(l net.Listener) error {
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	question, reply := make([]byte, load.RecordBytes+100), make([]byte, 64)
	for {
		if _, err := io.ReadFull(c, question); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if _, err := c.Write(reply); err != nil {
			return err
		}
	}
}
