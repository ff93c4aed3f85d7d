package main

import (
	"context"
	"fmt"
	"time"

	"cordwood/integration/load"
)

// The load of the rules' latencies: far below what a small machine can take, so that waiting is measured and not queues.
const (
	rulesRate = 500 // records of 1 KiB a second
	rulesFor  = 4   // seconds of each rule in a round
)

// rule is one way to acknowledge.
type rule struct {
	name     string
	acks     int16
	settings map[string]string
}

// rules lists the ways to acknowledge, each of which is compared with those before it.
var rules = [...]rule{
	{"leader", 1, map[string]string{"commit.rule": "isr"}},
	{"quorum", -1, map[string]string{"commit.rule": "quorum"}},
	{"isr", -1, map[string]string{"commit.rule": "isr"}},
}

// rulesMeasure is what one rule reached in one round.
type rulesMeasure struct {
	rate     float64 // MB/s of a writer with many records in flight
	p50, p99 float64 // microseconds at a fixed rate
}

// rules measures the rules at equal load on the same three nodes, in turns, each against the cheaper ones.
func (b *bench) rules(ctx context.Context) error {
	c, _, err := b.start(ctx, "rules", 3)
	if err != nil {
		return err
	}
	defer b.end(c)
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, r := range rules {
		if err := load.CreateTopic(limited, c.Bootstrap(), "rule-"+r.name, partitions, 3, r.settings); err != nil {
			return err
		}
		if _, err := load.Produce(limited, load.Target{Seeds: c.Bootstrap(), Topic: "rule-" + r.name, Acks: r.acks}, b.bytes/8); err != nil {
			return err // what is said and allocated only once
		}
	}
	rounds := make([][len(rules)]rulesMeasure, b.rounds)
	for i := range rounds {
		for k := range rules {
			at := (k + i) % len(rules) // another one goes first in each round
			if rounds[i][at], err = b.rule(ctx, c.Bootstrap(), rules[at]); err != nil {
				return fmt.Errorf("%s: %w", rules[at].name, err)
			}
		}
	}
	for _, x := range [...]struct{ ours, yardstick int }{{1, 0}, {2, 0}, {1, 2}} {
		against := func(of func(rulesMeasure) float64) pair {
			var pairs []pair
			for _, round := range rounds {
				pairs = append(pairs, pair{of(round[x.ours]), of(round[x.yardstick])})
			}
			return median(pairs)
		}
		names := rules[x.ours].name + " / " + rules[x.yardstick].name
		b.table.times("three nodes, many in flight: "+names, against(func(m rulesMeasure) float64 { return m.rate }), "MB/s", 0)
		for _, q := range [...]struct {
			name string
			of   func(rulesMeasure) float64
		}{{"p50", func(m rulesMeasure) float64 { return m.p50 }}, {"p99", func(m rulesMeasure) float64 { return m.p99 }}} {
			b.table.multiple(fmt.Sprintf("  %d records a second, %s: %s", rulesRate, q.name, names), against(q.of), "us", 0)
		}
	}
	return nil
}

func (b *bench) rule(ctx context.Context, seeds []string, r rule) (m rulesMeasure, err error) {
	t := load.Target{Seeds: seeds, Topic: "rule-" + r.name, Acks: r.acks}
	took, err := load.Paced(ctx, t, rulesRate, rulesRate*rulesFor)
	if err != nil {
		return m, err
	}
	m.p50, m.p99 = microseconds(load.Quantile(took, 0.5)), microseconds(load.Quantile(took, 0.99))
	many, err := load.Produce(ctx, t, b.bytes)
	m.rate = many.MBs()
	return m, err
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
