package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/partition"
	"cordwood/logstore/record"
)

const (
	fetchVersion   = 17
	retryMin       = 20 * time.Millisecond
	retryMax       = time.Second
	answerGrace    = 10 * time.Second // beyond the wait: then the connection is given up
	dialTimeout    = 2 * time.Second
	maxInFlight    = 2
	fetchOpenEpoch = 0
)

// fetcher fetches everything that this node follows from one leader node, over one connection and one fetch session. Its
// goroutine (run) only calls steps: build a request, act on an answer.
type fetcher struct {
	m      *Manager
	leader int32
	cancel context.CancelFunc
	done   chan struct{}
	wake   chan struct{}

	// mu is a leaf lock.
	mu        sync.Mutex
	parts     map[record.PartitionID]*following
	dirty     []*following // to be named
	forgotten []record.PartitionID
	flushes   []*following // whose copies may count further than the leader was told
}

// following is one partition of a fetcher. Under fetcher.mu.
type following struct {
	p     *Partition
	dirty bool
	named bool      // in the present session
	acks  bool      // in flushes
	after time.Time // not to be named before
}

func newFetcher(m *Manager, leader int32) *fetcher {
	return &fetcher{m: m, leader: leader, done: make(chan struct{}), wake: make(chan struct{}, 1), parts: make(map[record.PartitionID]*following)}
}

// add starts to fetch p, or names it anew after its record changed.
func (f *fetcher) add(p *Partition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fo := f.parts[p.id]
	if fo == nil || fo.p != p {
		fo = &following{p: p, named: fo != nil && fo.named}
		f.parts[p.id] = fo
	}
	f.soil(fo, time.Time{})
}

// remove stops to fetch a partition. idle says that nothing is left.
func (f *fetcher) remove(id record.PartitionID) (idle bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fo := f.parts[id]; fo != nil {
		delete(f.parts, id)
		if fo.named {
			f.forgotten = append(f.forgotten, id)
		}
		f.rouse()
	}
	return len(f.parts) == 0
}

// soil marks fo to be named, not before a time. The caller holds mu.
func (f *fetcher) soil(fo *following, after time.Time) {
	fo.after = after
	if !fo.dirty {
		fo.dirty = true
		f.dirty = append(f.dirty, fo)
	}
	f.rouse()
}

func (f *fetcher) rouse() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// session is a fetch session as its follower sees it.
type session struct {
	id    int32
	epoch int32 // of the next request
	seq   int64 // of the last request
}

// build makes the next request; nil when there is nothing new to say. due is when a delayed partition may be named; zero:
// none is.
func (f *fetcher) build(s *session, now time.Time) (req *kmsg.FetchRequest, due time.Time) {
	f.mu.Lock()
	dirty, kept := f.dirty, f.dirty[:0:0]
	var name []*following
	for _, fo := range dirty {
		switch {
		case f.parts[fo.p.id] != fo:
		case fo.after.After(now):
			kept = append(kept, fo)
			if due.IsZero() || fo.after.Before(due) {
				due = fo.after
			}
		default:
			fo.dirty, fo.named = false, true
			name = append(name, fo)
		}
	}
	f.dirty = kept
	forgotten := f.forgotten
	f.forgotten = nil
	f.mu.Unlock()

	req = kmsg.NewPtrFetchRequest()
	req.Version = fetchVersion
	req.ReplicaState = kmsg.FetchRequestReplicaState{ID: f.m.opt.NodeID, Epoch: f.m.brokerEpoch()}
	req.MaxWaitMillis = int32(f.m.opt.FetchWaitMax.Milliseconds())
	if s.epoch == fetchOpenEpoch {
		req.MaxWaitMillis = 0 // the session's number is needed before anything else can be said
		forgotten = nil
	}
	req.MinBytes, req.MaxBytes = 1, f.m.opt.FetchMaxBytes
	req.SessionID, req.SessionEpoch = s.id, s.epoch
	s.seq++
	req.UnknownTags.Set(partition.TagFetchSequence, partition.EncodeInt64(s.seq))
	byTopic := make(map[record.TopicID]int)
	for _, fo := range name {
		fp, ok := fo.p.Next(f.leader, s.seq, f.m.opt.PieceBytes)
		if !ok {
			continue
		}
		addFetchPartition(req, byTopic, &fp)
	}
	for _, id := range forgotten {
		t := kmsg.NewFetchRequestForgottenTopic()
		t.TopicID, t.Partitions = id.Topic, []int32{id.Partition}
		req.ForgottenTopics = append(req.ForgottenTopics, t)
	}
	return req, due
}

// hasNews says that a request could name or forget something now.
func (f *fetcher) hasNews(now time.Time) (news bool, due time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.forgotten) > 0 {
		return true, due
	}
	for _, fo := range f.dirty {
		if !fo.after.After(now) {
			return true, due
		}
		if due.IsZero() || fo.after.Before(due) {
			due = fo.after
		}
	}
	return false, due
}

func addFetchPartition(req *kmsg.FetchRequest, byTopic map[record.TopicID]int, fp *partition.FetchPartition) {
	i, ok := byTopic[fp.ID.Topic]
	if !ok {
		t := kmsg.NewFetchRequestTopic()
		t.TopicID = fp.ID.Topic
		i = len(req.Topics)
		byTopic[fp.ID.Topic] = i
		req.Topics = append(req.Topics, t)
	}
	q := kmsg.NewFetchRequestTopicPartition()
	q.Partition = fp.ID.Partition
	q.CurrentLeaderEpoch = fp.CurrentLeaderEpoch
	q.FetchOffset = fp.FetchOffset
	q.LastFetchedEpoch = fp.LastFetchedEpoch
	q.LogStartOffset = fp.LogStartOffset
	q.PartitionMaxBytes = fp.MaxBytes
	q.UnknownTags.Set(partition.TagAckOffset, partition.EncodeInt64(fp.AckOffset))
	if fp.JoinPE != 0 {
		q.UnknownTags.Set(partition.TagJoinPE, partition.EncodeInt64(int64(fp.JoinPE)))
	}
	req.Topics[i].Partitions = append(req.Topics[i].Partitions, q)
}

// reopen begins a new session: everything is named again.
func (f *fetcher) reopen(s *session) {
	s.id, s.epoch = 0, fetchOpenEpoch
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgotten = nil
	f.dropAcks()
	for _, fo := range f.parts {
		fo.named = false
		f.soil(fo, fo.after)
	}
}

// take acts on the answer to request number seq. An error ends the connection.
func (f *fetcher) take(s *session, seq int64, resp *kmsg.FetchResponse, now time.Time) error {
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return fmt.Errorf("fetch session with node %d: %w", f.leader, err)
	}
	if got, err := tag(&resp.UnknownTags, partition.TagFetchSequence); err != nil {
		return err
	} else if n, err := partition.DecodeInt64(got); err != nil || n != seq {
		return fmt.Errorf("%w: request number %d, asked %d: %w", errPeer, n, seq, errors.Join(err))
	}
	if s.epoch == fetchOpenEpoch+1 && s.id == 0 {
		s.id = resp.SessionID
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for k := range t.Partitions {
			if err := f.takePartition(seq, record.PartitionID{Topic: t.TopicID, Partition: t.Partitions[k].Partition}, &t.Partitions[k], now); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *fetcher) takePartition(seq int64, id record.PartitionID, a *kmsg.FetchResponseTopicPartition, now time.Time) error {
	f.mu.Lock()
	fo := f.parts[id]
	f.mu.Unlock()
	if fo == nil {
		return nil // followed no more
	}
	if a.ErrorCode != 0 {
		if again, n := fo.p.Refused(seq); again {
			f.later(fo, now.Add(min(retryMax, retryMin<<min(n-1, 10))))
		}
		return nil
	}
	b, err := tag(&a.UnknownTags, partition.TagFetchState)
	if err != nil {
		return err
	}
	st, err := partition.DecodeFetchState(b)
	if err != nil {
		return err
	}
	again, err := fo.p.Answer(seq, partition.Answer{
		LeaderEpoch: st.LeaderEpoch, Reset: st.Reset,
		Diverging: a.DivergingEpoch.Epoch >= 0 || a.DivergingEpoch.EndOffset >= 0,
		At:        partition.EpochEnd{Epoch: a.DivergingEpoch.Epoch, End: a.DivergingEpoch.EndOffset},

		HighWatermark: a.HighWatermark, LogStart: st.LogStart, LogStartEpoch: st.LogStartEpoch,
	}, a.RecordBatches)
	after := time.Time{}
	if err != nil {
		f.m.opt.Logger.Warn("an answer of the leader was not taken", "leader", f.leader, "partition", id.String(), "err", err)
		after = now.Add(fo.p.backoff())
	}
	if again {
		f.later(fo, after)
	}
	if errors.Is(err, errPeer) {
		return err
	}
	return nil
}

func (f *fetcher) later(fo *following, after time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.parts[fo.p.id] == fo {
		f.soil(fo, after)
	}
}

func tag(tags *kmsg.Tags, key uint32) (found []byte, err error) {
	there := false
	tags.Each(func(k uint32, v []byte) {
		if k == key {
			found, there = v, true
		}
	})
	if !there {
		return nil, fmt.Errorf("%w: field %d is missing", errPeer, key)
	}
	return found, nil
}

// flight is a request on its way.
type flight struct {
	seq  int64
	call Call
	sent time.Time
}

// run keeps a session with the leader until ctx ends.
func (f *fetcher) run(ctx context.Context) {
	defer close(f.done)
	s := &session{}
	for wait := time.Duration(0); ; {
		if !sleep(ctx, wait) {
			return
		}
		dialing, cancel := context.WithTimeout(ctx, dialTimeout)
		conn, err := f.m.opt.Dial(dialing, f.leader)
		cancel()
		if err == nil {
			wait = 0
			f.reopen(s)
			err = f.talk(ctx, conn, s)
			_ = conn.Close() // nothing was written that is not answered
		}
		if ctx.Err() != nil {
			return
		}
		f.m.opt.Logger.Debug("no fetch session with the leader", "leader", f.leader, "err", err)
		wait = min(max(2*wait, retryMin), retryMax/2)
	}
}

// talk sends requests and acts on answers until the connection fails or ctx ends. A second request overtakes a parked one
// when there is news: it makes the leader answer the first.
func (f *fetcher) talk(ctx context.Context, conn Conn, s *session) error {
	var flying []flight
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := f.m.now()
		news, due := f.hasNews(now)
		opening := s.epoch == fetchOpenEpoch+1 && s.id == 0
		for ack := f.nextAck(s); ack != nil; ack = f.nextAck(s) {
			if err := conn.Ack(ack); err != nil {
				return err
			}
		}
		if len(flying) == 0 || news && len(flying) < maxInFlight && !opening {
			var req *kmsg.FetchRequest
			req, _ = f.build(s, now)
			call, err := conn.Start(req)
			if err != nil {
				return err
			}
			if s.epoch++; s.epoch <= 0 {
				s.epoch = 1
			}
			flying = append(flying, flight{s.seq, call, now})
			continue
		}
		limit := flying[0].sent.Add(f.m.opt.FetchWaitMax + answerGrace)
		if !due.IsZero() && due.Before(limit) {
			limit = due
		}
		timer.Reset(max(0, limit.Sub(now)))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.wake:
		case <-timer.C:
			if f.m.now().Sub(flying[0].sent) > f.m.opt.FetchWaitMax+answerGrace {
				return fmt.Errorf("node %d did not answer a fetch", f.leader)
			}
		case <-flying[0].call.Done():
			first := flying[0]
			flying = flying[1:]
			resp, err := first.call.Wait(ctx)
			if err != nil {
				return err
			}
			if f.m.opt.Delay != nil && !sleep(ctx, f.m.opt.Delay()) {
				first.call.Release()
				return ctx.Err()
			}
			fetched, ok := resp.(*kmsg.FetchResponse)
			if !ok {
				return fmt.Errorf("%w: a %T", errPeer, resp)
			}
			err = f.take(s, first.seq, fetched, f.m.now())
			first.call.Release()
			if err != nil {
				return err
			}
		}
	}
}

// sleep waits, at most until ctx ends; false if it did.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
