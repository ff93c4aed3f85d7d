package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"cordwood/integration/history"
)

const (
	sendWithin = 20 * time.Second       // of one record, with all its repeats
	pollWithin = 100 * time.Millisecond // of one poll
	pollMost   = 200                    // records of one poll
	askWithin  = 2 * time.Second        // of a watermark
)

// process is one client of the workload, which does one thing after another. Its clients are given up with it: the next one
// has another number and knows nothing.
type process struct {
	run    *Run
	id     int
	safe   bool   // its producers are idempotent where acks is all, and repeat; others try once
	once   writes // of those that try once
	rng    *rand.Rand
	begun  time.Time
	sender map[string]*kgo.Client // by acks
	reader *kgo.Client
	keys   []int // that it reads
	next   map[int]int64
}

func (r *Run) newProcess(slot int, rng *rand.Rand) *process {
	return &process{run: r, id: r.nextID(), safe: slot%2 == 0, rng: rng, begun: time.Now(), sender: map[string]*kgo.Client{}, next: map[int]int64{}}
}

// close gives all clients up.
func (p *process) close() {
	for _, c := range p.sender {
		c.Close()
	}
	if p.reader != nil {
		p.reader.Close()
	}
}

func (p *process) options(more ...kgo.Opt) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(p.run.opt.Seeds...), kgo.ClientID(fmt.Sprintf("torture-%d", p.id)),
		kgo.MetadataMinAge(50 * time.Millisecond), kgo.DialTimeout(time.Second), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
	}
	return append(append(opts, more...), p.run.opt.Client...)
}

// to gives the producer for a topic.
func (p *process) to(topic history.Topic) (*kgo.Client, error) {
	if c := p.sender[topic.Acks]; c != nil {
		return c, nil
	}
	opts := []kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.ProduceRequestTimeout(5 * time.Second), kgo.RecordDeliveryTimeout(sendWithin)}
	acks := kgo.AllISRAcks()
	switch topic.Acks {
	case "all":
	case "0":
		acks = kgo.NoAck()
	case "1":
		acks = kgo.LeaderAck()
	default:
		return nil, fmt.Errorf("the workload has no clients that send with acks=%s", topic.Acks)
	}
	opts = append(opts, kgo.RequiredAcks(acks))
	if topic.Acks != "all" || !p.safe {
		opts = append(opts, kgo.DisableIdempotentWrite(), kgo.RecordRetries(0), kgo.MaxProduceRequestsInflightPerBroker(1), kgo.WithHooks(&p.once))
	}
	c, err := kgo.NewClient(p.options(opts...)...)
	if err == nil {
		p.sender[topic.Acks] = c
	}
	return c, err
}

// send sends one value to a key, as part of op.
func (p *process) send(ctx context.Context, op *history.Op, key int) (history.Mop, history.Type, error) {
	k := p.run.opt.Header.Keys[key]
	topic := p.run.opt.Header.Topics[k.Topic]
	sent := &history.Sent{Key: key, Value: p.run.value(key), Offset: -1}
	mop := history.Mop{Send: sent}
	c, err := p.to(topic)
	if err != nil {
		return mop, history.Fail, err
	}
	once := topic.Acks != "all" || !p.safe
	p.once.reset()
	r := c.ProduceSync(ctx, &kgo.Record{Topic: topic.Name, Partition: k.Partition, Value: strconv.AppendInt(nil, sent.Value, 10)})[0]
	again := once && p.once.again()
	op.Repeats = op.Repeats || again
	if r.Err == nil {
		if topic.Acks != "0" {
			sent.Offset = r.Record.Offset
			p.run.reached(key, sent.Offset)
		}
		return mop, history.OK, nil
	}
	if once && !again && refusedBefore(r.Err) {
		return mop, history.Fail, r.Err
	}
	return mop, history.Info, r.Err
}

// refusedBefore says that a broker refused a record before it appended anything. After a repeat it would say nothing of the
// first try; and a leader that is deposed while a record waits says NOT_LEADER_OR_FOLLOWER, though it has it.
func refusedBefore(err error) bool {
	for _, e := range []error{kerr.NotEnoughReplicas, kerr.MessageTooLarge, kerr.InvalidRequiredAcks} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// assign reads other keys from now on: those that it reads already go on, others begin where known says or at the log's
// start.
func (p *process) assign(keys []int, known map[int]int64) error {
	if p.reader != nil {
		p.reader.Close()
		p.reader = nil
	}
	next := make(map[int]int64, len(keys))
	parts := map[string]map[int32]kgo.Offset{}
	for _, key := range keys {
		k := p.run.opt.Header.Keys[key]
		name := p.run.opt.Header.Topics[k.Topic].Name
		if parts[name] == nil {
			parts[name] = map[int32]kgo.Offset{}
		}
		at, goesOn := p.next[key]
		if !goesOn {
			at, goesOn = known[key]
		}
		parts[name][k.Partition] = kgo.NewOffset().AtStart()
		if goesOn {
			parts[name][k.Partition] = kgo.NewOffset().At(at)
			next[key] = at
		}
	}
	c, err := kgo.NewClient(p.options(kgo.ConsumePartitions(parts), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(pollWithin),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxPartitionBytes(256<<10))...)
	if err != nil {
		return err
	}
	p.reader, p.keys, p.next = c, keys, next
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
	fetches := p.reader.PollRecords(ctx, pollMost)
	var bad error
	fetches.EachRecord(func(r *kgo.Record) {
		key, ok := p.run.keyOf[place{r.Topic, r.Partition}]
		value, err := strconv.ParseInt(string(r.Value), 10, 64)
		if !ok || err != nil || value < 1 {
			bad = errors.Join(bad, fmt.Errorf("%s/%d has %.40q at offset %d, which nobody here has sent", r.Topic, r.Partition, r.Value, r.Offset))
			return
		}
		mop.Poll = append(mop.Poll, history.Seen{Key: key, Value: value, Offset: r.Offset})
		p.next[key] = r.Offset + 1
		p.run.seen(key, r.Offset)
	})
	if bad != nil {
		return mop, bad
	}
	for _, e := range fetches.Errors() {
		if !errors.Is(e.Err, context.DeadlineExceeded) && !errors.Is(e.Err, context.Canceled) {
			return mop, fmt.Errorf("%s/%d: %w", e.Topic, e.Partition, e.Err)
		}
	}
	return mop, nil
}

// atEnds says that this client has read every key to the end that the cluster tells, whatever was told of it before.
func (p *process) atEnds(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var topics []string
	for _, t := range p.run.opt.Header.Topics {
		topics = append(topics, t.Name)
	}
	ends, err := kadm.NewClient(p.reader).ListEndOffsets(ctx, topics...)
	if err != nil {
		return false
	}
	for key := range p.run.keys {
		k := p.run.opt.Header.Keys[key]
		end, ok := ends.Lookup(p.run.opt.Header.Topics[k.Topic].Name, k.Partition)
		if !ok || end.Err != nil || p.next[key] < end.Offset {
			return false
		}
	}
	return true
}

// watermarks asks for the ends of one topic's partitions.
func (p *process) watermarks(ctx context.Context) {
	if p.reader == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	topics := p.run.opt.Header.Topics
	ends, err := kadm.NewClient(p.reader).ListEndOffsets(ctx, topics[p.rng.IntN(len(topics))].Name)
	if err != nil {
		return // nobody is asked again: what one was told counts
	}
	ends.Each(func(o kadm.ListedOffset) {
		if key, ok := p.run.keyOf[place{o.Topic, o.Partition}]; ok && o.Err == nil {
			p.run.opt.Sink.Watermark(history.Watermark{Process: p.id, Key: key, High: o.Offset, Epoch: o.LeaderEpoch, At: p.run.now()})
		}
	})
}
