package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"cordwood/integration/history"
)

// process is one client of the workload, which does one thing after another. Its clients are given up with it: the next one
// has another number and knows nothing.
type process struct {
	run     *Run
	id      int
	slot    int
	library library
	safe    bool // its producers are idempotent where acks is all, and repeat; others try once
	rng     *rand.Rand
	begun   time.Time
	sender  map[string]producer // by acks
	reader  consumer
	txns    producer      // of transactions; nil: none was begun
	open    producer      // txns, while a transaction is open
	next    map[int]int64 // offsets, of the keys that it reads

	subscribes bool  // else it is assigned what it reads
	moved      []int // keys of which the next poll may still be from before a rebalance that was noted already
}

func (r *Run) newProcess(slot int, rng *rand.Rand) *process {
	return &process{run: r, id: r.nextID(), slot: slot, library: r.libraryOf(slot), safe: slot%2 == 0, rng: rng, begun: time.Now(),
		sender: map[string]producer{}, next: map[int]int64{}, subscribes: r.subscribes(slot)}
}

// libraryOf gives a slot's library. Both kinds of producers are of each.
func (r *Run) libraryOf(slot int) library { return r.libraries[slot/2%len(r.libraries)] }

// close gives all clients up.
func (p *process) close() {
	for _, c := range p.sender {
		c.close()
	}
	if p.txns != nil {
		p.txns.close()
	}
	if p.reader != nil {
		p.reader.close()
	}
}

func (p *process) name() string { return fmt.Sprintf("torture-%d", p.id) }

// place is that of a key.
func (r *Run) place(key int) place {
	k := r.opt.Header.Keys[key]
	return place{r.opt.Header.Topics[k.Topic].Name, k.Partition}
}

// to gives the producer for a topic.
func (p *process) to(topic history.Topic) (producer, error) {
	if c := p.sender[topic.Acks]; c != nil {
		return c, nil
	}
	c, err := p.library.producer(producerOptions{seeds: p.run.opt.Seeds, id: p.name(), acks: topic.Acks, once: topic.Acks != "all" || !p.safe})
	if err == nil {
		p.sender[topic.Acks] = c
	}
	return c, err
}

// send sends one value to a key, as part of op.
func (p *process) send(ctx context.Context, op *history.Op, key int) (history.Mop, history.Type, error) {
	sent := &history.Sent{Key: key, Value: p.run.value(key), Offset: -1}
	mop := history.Mop{Send: sent}
	c := p.open
	if c == nil {
		var err error
		if c, err = p.to(p.run.opt.Header.Topics[p.run.opt.Header.Keys[key].Topic]); err != nil {
			return mop, history.Fail, err
		}
	}
	d := c.send(ctx, p.run.place(key), strconv.AppendInt(nil, sent.Value, 10))
	op.Repeats = op.Repeats || d.again
	switch {
	case d.err == nil:
		if sent.Offset = d.offset; d.offset >= 0 && p.open == nil {
			p.run.reached(key, d.offset)
		}
		return mop, history.OK, nil
	case d.refused:
		return mop, history.Fail, d.err
	}
	return mop, history.Info, d.err
}

// assign reads other keys from now on: those that it reads already go on, others begin where known says or at the log's
// start.
func (p *process) assign(keys []int, known map[int]int64) error {
	if p.reader != nil {
		p.reader.close()
		p.reader = nil
	}
	next := make(map[int]int64, len(keys))
	from := make(map[place]int64, len(keys))
	for _, key := range keys {
		at, goesOn := p.next[key]
		if !goesOn {
			at, goesOn = known[key]
		}
		from[p.run.place(key)] = beginning
		if goesOn {
			from[p.run.place(key)] = at
			next[key] = at
		}
	}
	c, err := p.library.consumer(consumerOptions{seeds: p.run.opt.Seeds, id: p.name(), from: from})
	if err != nil {
		return err
	}
	p.reader, p.next, p.moved = c, next, nil
	return nil
}

// poll asks for records once.
func (p *process) poll(ctx context.Context) (history.Mop, error) {
	ctx, cancel := context.WithTimeout(ctx, pollWithin)
	defer cancel()
	mop := history.Mop{Poll: []history.Seen{}}
	if p.reader == nil {
		return mop, nil
	}
	var bad error
	err := p.reader.poll(ctx, pollMost, func(r read) {
		key, ok := p.run.keyOf[r.from]
		if ok && r.passed {
			p.next[key] = max(p.next[key], r.offset+1)
			return
		}
		value, err := strconv.ParseInt(string(r.value), 10, 64)
		if !ok || err != nil || value < 1 {
			bad = errors.Join(bad, fmt.Errorf("%s/%d has %.40q at offset %d, which nobody here has sent", r.from.topic, r.from.partition, r.value, r.offset))
			return
		}
		mop.Poll = append(mop.Poll, history.Seen{Key: key, Value: value, Offset: r.offset})
		p.next[key] = r.offset + 1
		p.run.seen(key, r.offset)
	})
	if bad != nil {
		return mop, bad
	}
	return mop, err
}

// atEnds says that this client has read every key to the end that the cluster tells, whatever was told of it before.
func (p *process) atEnds(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var all []place
	for key := range p.run.keys {
		all = append(all, p.run.place(key))
	}
	read := 0
	p.reader.ends(ctx, all, func(at place, high int64, _ int32) {
		if p.next[p.run.keyOf[at]] >= high {
			read++
		}
	})
	return read == len(all)
}

// watermarks asks for the ends of one topic's partitions.
func (p *process) watermarks(ctx context.Context) {
	if p.reader == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	topic := p.rng.IntN(len(p.run.opt.Header.Topics))
	var of []place
	for key, k := range p.run.opt.Header.Keys {
		if k.Topic == topic {
			of = append(of, p.run.place(key))
		}
	}
	p.reader.ends(ctx, of, func(at place, high int64, epoch int32) {
		p.run.opt.Sink.Watermark(history.Watermark{Process: p.id, Key: p.run.keyOf[at], High: high, Epoch: epoch, At: p.run.now()})
	})
}
