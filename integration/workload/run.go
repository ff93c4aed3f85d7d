package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cordwood/integration/history"
)

// Sink takes what a run did and saw, from several goroutines at once.
type Sink interface {
	Op(history.Op)
	Watermark(history.Watermark)
}

// RunOptions says what a Run does.
type RunOptions struct {
	Seeds     []string // addresses of nodes
	Header    *history.Header
	Processes int     // clients at a time; at least 1
	Rate      float64 // operations a second of all together; 0: as many as they can
	Crash     time.Duration
	Sink      Sink
	Client    string // library: Franz, Librdkafka or Both; empty: Franz
}

// Run is a workload in the manner of Jepsen's Kafka tests: clients that send, poll, do both in groups, change what they read
// and are given up now and then, and that read everything in the end. Some of them subscribe, if the header says so.
type Run struct {
	opt   RunOptions
	keyOf map[place]int
	ids   atomic.Int64
	keys  []keyState
	took  atomic.Int64 // operations
	acks  atomic.Int64 // records that were acknowledged

	libraries []library // in turns, by slot
	awaited   []int     // keys whose producers wait for the commit
}

type place struct {
	topic     string
	partition int32
}

// keyState is what all clients together know of a key.
type keyState struct {
	values  atomic.Int64 // that were handed out
	reached atomic.Int64 // highest offset that an operation was told; -1: none
	seen    atomic.Int64 // highest offset that was polled; -1: none
}

// NewRun makes a run over the topics and keys of a header.
func NewRun(opt RunOptions) (*Run, error) {
	if opt.Processes < 1 || len(opt.Header.Keys) == 0 {
		return nil, errors.New("a workload needs a client and a key")
	}
	libraries, err := librariesOf(opt.Client)
	if err != nil {
		return nil, err
	}
	r := &Run{opt: opt, libraries: libraries, keyOf: map[place]int{}, keys: make([]keyState, len(opt.Header.Keys))}
	for i, k := range opt.Header.Keys {
		r.keyOf[place{opt.Header.Topics[k.Topic].Name, k.Partition}] = i
		if opt.Header.Topics[k.Topic].Acks == "all" {
			r.awaited = append(r.awaited, i)
		}
		r.keys[i].reached.Store(-1)
		r.keys[i].seen.Store(-1)
	}
	if opt.Header.Transactions && len(r.awaited) == 0 {
		return nil, errors.New("transactions need a topic whose producers send with acks=all")
	}
	return r, nil
}

func (r *Run) now() time.Duration  { return time.Since(r.opt.Header.Began) }
func (r *Run) nextID() int         { return int(r.ids.Add(1)) - 1 }
func (r *Run) value(key int) int64 { return r.keys[key].values.Add(1) }
func raise(to *atomic.Int64, v int64) {
	for have := to.Load(); have < v && !to.CompareAndSwap(have, v); have = to.Load() {
	}
}
func (r *Run) reached(key int, offset int64) { raise(&r.keys[key].reached, offset) }
func (r *Run) seen(key int, offset int64) {
	raise(&r.keys[key].seen, offset)
	raise(&r.keys[key].reached, offset)
}

// Operations counts what was done so far.
func (r *Run) Operations() int64 { return r.took.Load() }

// Acknowledged counts the records that were acknowledged so far.
func (r *Run) Acknowledged() int64 { return r.acks.Load() }

// Drive lets all clients work until ctx ends, and returns when the last of them has ended what it was at.
func (r *Run) Drive(ctx context.Context) {
	tick := make(chan struct{})
	var all sync.WaitGroup
	if r.opt.Rate > 0 {
		all.Go(func() { pace(ctx, r.opt.Rate, tick) })
	} else {
		close(tick)
	}
	for slot := range r.opt.Processes {
		all.Go(func() { r.work(ctx, slot, tick) })
	}
	all.Wait()
}

// pace gives out operations at a rate, in small lots, and none of those that nobody wanted in time.
func pace(ctx context.Context, rate float64, tick chan<- struct{}) {
	const lot = 5 * time.Millisecond
	t := time.NewTicker(lot)
	defer t.Stop()
	due := 0.0
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		for due = min(due+rate*lot.Seconds(), rate); due >= 1; due-- {
			select {
			case tick <- struct{}{}:
				continue
			default:
			}
			break
		}
	}
}

// work is one slot: one process after another.
func (r *Run) work(ctx context.Context, slot int, tick <-chan struct{}) {
	rng := rand.New(rand.NewPCG(r.opt.Header.Seed, uint64(slot)+1))
	p := r.newProcess(slot, rng)
	defer func() { p.close() }()
	asked := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		if time.Since(asked) > time.Second {
			asked = time.Now()
			p.watermarks(ctx)
		}
		if op := p.do(ctx); op.Type != history.OK || op.F == history.Crash {
			p.close()
			p = r.newProcess(slot, rng)
		}
	}
}

// do draws one operation and does it. What is under way when ctx ends is given its time.
func (p *process) do(ctx context.Context) history.Op {
	ctx = context.WithoutCancel(ctx)
	r, rng := p.run, p.rng
	op := history.Op{Process: p.id, Type: history.OK, Start: r.now()}
	switch d := rng.IntN(256); {
	case r.opt.Crash > 0 && time.Since(p.begun) > r.opt.Crash && d < 64:
		op.F, op.Type = history.Crash, history.Info
	case p.reader == nil, d == 0 && !(p.subscribes && rng.IntN(stayOneIn) > 0):
		op.F = history.Assign
		if p.subscribes {
			op.F = history.Subscribe
		}
		p.reassign(&op)
	case d < 40:
		op.F = history.Txn
		if r.opt.Header.Transactions {
			p.transaction(ctx, &op)
		} else {
			p.group(ctx, &op)
		}
	case d < 150:
		op.F = history.Send
		p.sends(ctx, &op, rng.IntN(len(r.keys)))
	default:
		op.F = history.Poll
		p.polls(ctx, &op)
	}
	p.done(&op)
	return op
}

func (p *process) done(op *history.Op) {
	op.End = p.run.now()
	p.run.took.Add(1)
	for _, m := range op.Mops {
		if m.Send != nil && op.Type == history.OK {
			p.run.acks.Add(1)
		}
	}
	if name := p.library.name(); name != Franz {
		op.Client = name
	}
	p.run.opt.Sink.Op(*op)
}

// sends sends one value as part of an operation; false: it is not known to be there.
func (p *process) sends(ctx context.Context, op *history.Op, key int) bool {
	mop, t, err := p.send(ctx, op, key)
	op.Mops = append(op.Mops, mop)
	if err == nil {
		return true
	}
	op.Error = err.Error()
	if op.Type = t; len(op.Mops) > 1 {
		op.Type = history.Info // what came before it may be there
	}
	return false
}

func (p *process) polls(ctx context.Context, op *history.Op) bool {
	p.noteMoved(op, true)
	mop, err := p.poll(ctx)
	p.noteMoved(op, false)
	op.Mops = append(op.Mops, mop)
	if err != nil {
		op.Type, op.Error = history.Info, err.Error()
	}
	return err == nil
}

// group is up to four polls and sends in one operation. It is no transaction, so what it sends it could read at once: it
// polls first.
func (p *process) group(ctx context.Context, op *history.Op) {
	n := 2 + p.rng.IntN(3)
	polls := p.rng.IntN(n)
	for i := range n {
		if i < polls {
			if !p.polls(ctx, op) {
				return
			}
		} else if !p.sends(ctx, op, p.rng.IntN(len(p.run.keys))) {
			return
		}
	}
}

// reassign draws the keys to read from now on: a few, and now and then all that nobody has read to the end. Who subscribes reads
// the topics that these are of.
func (p *process) reassign(op *history.Op) {
	r := p.run
	drawn := map[int]bool{}
	for range 1 + p.rng.IntN(4) {
		drawn[p.rng.IntN(len(r.keys))] = true
	}
	unseen := p.rng.IntN(3) == 0
	known := map[int]int64{}
	for key := range r.keys {
		k := &r.keys[key]
		if unseen && k.reached.Load() > k.seen.Load() {
			drawn[key] = true
		}
		if p.rng.IntN(8) > 0 { // else from the start of the log
			known[key] = max(0, k.seen.Load()-p.rng.Int64N(50))
		}
	}
	keys := make([]int, 0, len(drawn))
	for key := range drawn {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	op.Keys = keys
	var err error
	if p.subscribes {
		err = p.subscribe(op)
	} else {
		err = p.assign(keys, known)
	}
	if err != nil {
		op.Type, op.Error = history.Fail, err.Error()
	}
}

// Finish lets every client read everything from the start until it has all that anybody was told of, and gives what could
// not be read within limit: per key the highest offset that is missing. Of a settled cluster, of which no end is still to be
// found out, a client is content with the ends that it tells: what was said of more is lost, and nothing to wait for.
func (r *Run) Finish(ctx context.Context, limit time.Duration, settled bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	errs := make([]error, r.opt.Processes)
	var all sync.WaitGroup
	for slot := range r.opt.Processes {
		all.Go(func() { errs[slot] = r.finish(ctx, slot, settled) })
	}
	all.Wait()
	return errors.Join(errs...)
}

const (
	finalQuiet = 3 * time.Second  // without anything new a client asks whether there is more
	finalAgain = 10 * time.Second // without anything new it begins anew
)

func (r *Run) finish(ctx context.Context, slot int, settled bool) error {
	p := r.newProcess(slot, rand.New(rand.NewPCG(r.opt.Header.Seed, uint64(slot)+1e6)))
	defer func() { p.close() }()
	keys := make([]int, len(r.keys))
	for i := range keys {
		keys[i] = i
	}
	var fresh time.Time
	for {
		if p.reader == nil || time.Since(fresh) > finalAgain {
			p.close()
			p = r.newProcess(slot, p.rng)
			op := history.Op{Process: p.id, Type: history.OK, F: history.Assign, Keys: keys, Start: r.now(), Final: true}
			if err := p.assign(keys, nil); err != nil {
				return err
			}
			p.done(&op)
			fresh = time.Now()
		}
		missing := p.missing()
		if missing == "" || settled && time.Since(fresh) > finalQuiet && p.atEnds(ctx) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("client %d has not read all: %s: %w", p.id, missing, ctx.Err())
		}
		op := history.Op{Process: p.id, Type: history.OK, F: history.Poll, Start: r.now(), Final: true}
		p.polls(ctx, &op)
		if ctx.Err() != nil && len(op.Mops[0].Poll) == 0 {
			continue
		}
		p.done(&op)
		switch {
		case op.Type != history.OK:
			fresh = time.Time{} // what it gave counts for less: begin anew
		case len(op.Mops[0].Poll) > 0:
			fresh = time.Now()
		}
	}
}

// missing names the first key of which this client has not read all that anybody was told of; empty: none.
func (p *process) missing() string {
	for key := range p.run.keys {
		if want := p.run.keys[key].reached.Load(); p.next[key] <= want {
			k := p.run.opt.Header.Keys[key]
			return fmt.Sprintf("%s/%d up to %d, has %d", p.run.opt.Header.Topics[k.Topic].Name, k.Partition, want, p.next[key])
		}
	}
	return ""
}
