package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// benchRun is one comparison.
type benchRun struct {
	a      *app
	c      *client
	o      *benchOptions
	place  []int32
	prefix string

	rules    []benchRule
	made     []string // topics that are there and must go
	promised map[string]commitView
	slowed   bool
}

// benchSide is one rule's producer and what it measured.
type benchSide struct {
	benchRule
	topic string
	sink  *kgoSink
	value []byte

	mu     sync.Mutex // guards what follows; promises come from the library's goroutine
	acked  *hdrhistogram.Histogram
	failed int64
	first  error
	busy   time.Duration // that it was written to
}

// warmUp is how many records open a side's connections before anything is counted.
const warmUp = 20

// measure makes the topics, lets the rules take turns and puts what came of it into figures.
func (r *benchRun) measure(ctx context.Context) (*benchView, error) {
	r.promised = map[string]commitView{}
	for _, name := range r.o.rules {
		rule, _ := benchRules(name, r.o.durability)
		r.rules = append(r.rules, rule)
	}
	if err := r.createTopics(ctx); err != nil {
		return nil, err
	}
	var sides []*benchSide
	defer func() {
		for _, s := range sides {
			s.sink.close()
		}
	}()
	for _, rule := range r.rules {
		s, err := r.open(ctx, rule)
		if err != nil {
			return nil, err
		}
		sides = append(sides, s)
		if err := s.turn(ctx, 0, warmUp); err != nil {
			return nil, err
		}
		s.acked.Reset()
		s.busy = 0
	}
	if r.o.slowBy > 0 {
		r.slowed = true // also when the answer is lost: taking it back does no harm
		if err := r.c.delayNode(ctx, r.o.slowNode, r.o.slowBy); err != nil {
			return nil, err
		}
	}
	each := r.o.duration / time.Duration(r.o.rounds)
	for round := range r.o.rounds {
		for i := range sides {
			s := sides[(i+round)%len(sides)] // another one goes first in each round
			r.a.note("round %d of %d: %s", round+1, r.o.rounds, s.name)
			if err := s.turn(ctx, r.o.perSecond, max(1, int64(r.o.perSecond*each.Seconds()))); err != nil {
				return nil, err
			}
		}
	}
	return r.view(ctx, sides)
}

// open makes a side's producer.
func (r *benchRun) open(ctx context.Context, rule benchRule) (*benchSide, error) {
	o := &produceOptions{topic: r.topic(rule.name), partition: 0, compression: "none", delivery: time.Minute, acksCount: -1}
	if rule.acks == "1" {
		o.acksCount = 1
	}
	c, err := r.a.connect(ctx, o.producerOptions()...)
	if err != nil {
		return nil, err
	}
	return &benchSide{benchRule: rule, topic: o.topic, sink: &kgoSink{c: c}, value: make([]byte, r.o.bytes), acked: newHistogram()}, nil
}

// turn writes n records at a rate and waits for their acknowledgements.
func (s *benchSide) turn(ctx context.Context, perSecond float64, n int64) error {
	began := time.Now()
	pace := newPacer(perSecond)
	for i := range n {
		if err := pace.wait(ctx, i); err != nil {
			return err
		}
		sent := time.Now()
		s.sink.send(ctx, &kgo.Record{Topic: s.topic, Partition: 0, Value: s.value}, func(_ *kgo.Record, err error) { s.done(time.Since(sent), err) })
	}
	if err := s.sink.finish(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy += time.Since(began)
	if s.first != nil && s.acked.TotalCount() == 0 {
		return fmt.Errorf("%s: %w", s.topic, s.first)
	}
	return nil
}

func (s *benchSide) done(took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if s.failed++; s.first == nil {
			s.first = err
		}
		return
	}
	_ = s.acked.RecordValue(min(max(took.Microseconds(), 1), s.acked.HighestTrackableValue()))
}

// completedBy asks the leaders whose copies completed the commits.
func (r *benchRun) completedBy(ctx context.Context, s *benchSide) map[string]int64 {
	ctx, cancel := context.WithTimeout(ctx, r.a.timeout)
	defer cancel()
	cluster, err := r.c.cluster(ctx)
	if err == nil {
		var m *measured
		if m, err = r.c.measured(ctx, s.topic, cluster.Nodes); err == nil {
			return m.CompletedBy
		}
	}
	r.a.note("whose copies completed the commits of %s is unknown: %s", s.topic, describe(err))
	return map[string]int64{}
}
