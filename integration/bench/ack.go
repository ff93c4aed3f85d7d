package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"cordwood/integration/load"
)

// What one acknowledgement has to wait for at least: the client's round trip, and one between the leader and the followers
// that complete the commit; on disk also the slower of two fsyncs that happen at the same time.
const (
	ackTrips  = 2
	ackFsyncs = 2
)

// ack measures one producer on three nodes that waits for every record, for both rules and both places where a copy
// counts, against the least that this machine's round trips and fsyncs allow.
func (b *bench) ack(ctx context.Context) error {
	c, _, err := b.start(ctx, "ack", 3)
	if err != nil {
		return err
	}
	defer b.end(c)
	for _, durability := range [...]string{"memory", "disk"} {
		for _, r := range rules {
			if r.acks != -1 {
				continue
			}
			name := "ack-" + durability + "-" + r.name
			settings := map[string]string{"commit.durability": durability}
			maps.Copy(settings, r.settings)
			limited, cancel := context.WithTimeout(ctx, time.Minute)
			err := load.CreateTopic(limited, c.Bootstrap(), name, 1, 3, settings)
			cancel()
			if err != nil {
				return err
			}
			t := load.Target{Seeds: c.Bootstrap(), Topic: name, Acks: r.acks}
			if err := b.ackOf(ctx, t, durability, r.name); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

func (b *bench) ackOf(ctx context.Context, t load.Target, durability, rule string) error {
	count, bound, aim := b.count, fmt.Sprintf("%d round trips", ackTrips), 12.5 // as of the synchronous producer: 25 round trips
	if durability == "disk" {
		count /= 5 // an fsync may take long
		aim = 0
		bound = fmt.Sprintf("(%d round trips + the slower of %d fsyncs)", ackTrips, ackFsyncs)
	}
	var half, most []pair
	var trip, sync []time.Duration
	for range b.rounds {
		trips, err := roundTrips(count)
		if err != nil {
			return err
		}
		syncs := make([]time.Duration, 1) // none: memory waits for no disk
		if durability == "disk" {
			if syncs, err = b.fsyncs(count); err != nil {
				return err
			}
		}
		if _, err := load.Synchronous(ctx, t, count/10); err != nil { // what is said and allocated only once
			return err
		}
		took, err := load.Synchronous(ctx, t, count)
		if err != nil {
			return err
		}
		least := func(q float64) pair {
			return pair{microseconds(load.Quantile(took, q)), microseconds(ackTrips*load.Quantile(trips, q) + load.Quantile(syncs, q))}
		}
		half, most = append(half, least(0.5)), append(most, least(0.99))
		trip, sync = append(trip, load.Quantile(trips, 0.5)), append(sync, load.Quantile(syncs, 0.5))
	}
	what := "acks=all, three replicas, " + durability + ", " + rule
	b.table.multiple(what+": p50 / "+bound, median(half), "us", aim)
	b.table.multiple("  p99 / the same at p99", median(most), "us", 0)
	slices.Sort(trip)
	slices.Sort(sync)
	b.table.plain("  a round trip, p50", microseconds(load.Quantile(trip, 0.5)), "us")
	if durability == "disk" {
		b.table.plain("  the slower of two fsyncs, p50", microseconds(load.Quantile(sync, 0.5)), "us")
	}
	return nil
}

// fsyncs appends a record's bytes to two files and syncs them at the same time, n times, and returns how long the slower
// one took, sorted.
func (b *bench) fsyncs(n int) (took []time.Duration, err error) {
	type job struct {
		begin chan struct{}
		end   chan error
	}
	var jobs [ackFsyncs]job
	for i := range jobs {
		name := filepath.Join(b.dir, fmt.Sprintf("fsync-%d", i))
		f, err := os.Create(name)
		if err != nil {
			return nil, err
		}
		defer os.Remove(name)
		defer f.Close()
		j := job{make(chan struct{}), make(chan error, 1)}
		defer close(j.begin)
		jobs[i] = j
		go func() {
			one := make([]byte, load.RecordBytes)
			for range j.begin {
				_, err := f.Write(one)
				j.end <- errors.Join(err, f.Sync())
			}
		}()
	}
	for range n {
		start := time.Now()
		for _, j := range jobs {
			j.begin <- struct{}{}
		}
		for _, j := range jobs {
			err = errors.Join(err, <-j.end)
		}
		if err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took, nil
}
