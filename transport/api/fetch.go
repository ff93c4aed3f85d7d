package api

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
	"cordwood/transport"
)

// defaultMaxFetchBytes caps an answer where the configuration does not, as Kafka's fetch.max.bytes.
const defaultMaxFetchBytes = 55 << 20

// committedOnly is the isolation level that sees committed transactions only; levels above it are unknown.
const committedOnly = 1

// fetching is a fetch on its way.
type fetching struct {
	h        *Handlers
	req      *kmsg.FetchRequest
	img      *metadata.Image
	listener string
	follower bool // a replica of the cluster, on the listener between nodes
	replica  int32
	epoch    int64 // broker epoch of the follower
	sequence int64 // request number of the follower, -1 absent
	open     openFetch
	ask      partition.FetchRequest
	asked    []int // index in open.list of each partition asked of the replicas; nil: all, in order
}

// handleFetch reads, or parks the request at its partitions. The answer's records leave as file ranges.
func handleFetch(h *Handlers, ctx context.Context, r *transport.Request) transport.Response {
	f := &fetching{h: h, req: r.Body.(*kmsg.FetchRequest), img: h.Metadata.Image(), listener: r.Conn.Listener, sequence: -1}
	f.asker(r.Conn.Internal)
	if f.follower {
		return f.handleFollower(ctx)
	}
	var refused *kerr.Error
	if f.open, refused = h.sessions.open(f.req, f.img, h.now()); refused != nil {
		resp := f.req.ResponseKind().(*kmsg.FetchResponse)
		resp.ErrorCode = refused.Code
		return body(resp)
	}
	f.build()
	if len(f.ask.Partitions) == 0 {
		return f.answer(partition.FetchResult{})
	}
	pending := h.Replicas.Fetch(ctx, &f.ask)
	if ready(pending) {
		return f.answer(pending.Wait(ctx))
	}
	return transport.Response{Wait: func(ctx context.Context) transport.Response { return f.answer(pending.Wait(ctx)) }}
}

// asker finds out who fetches. Only a connection between nodes may fetch as a replica; replica ids below zero are
// consumers (and debugging tools) everywhere.
func (f *fetching) asker(internal bool) {
	f.replica, f.epoch = f.req.ReplicaID, -1
	if f.req.Version >= 15 {
		f.replica, f.epoch = f.req.ReplicaState.ID, f.req.ReplicaState.Epoch
	}
	f.follower = internal && f.replica >= 0 && f.req.Version >= followerVersion
	if f.follower && f.req.UnknownTags.Len() > 0 {
		f.req.UnknownTags.Each(func(tag uint32, b []byte) {
			if n, err := partition.DecodeInt64(b); err == nil && tag == partition.TagFetchSequence {
				f.sequence = n
			}
		})
	}
}

// build makes the request to the replicas out of the partitions that exist.
func (f *fetching) build() {
	f.limits()
	a := &f.ask
	list := &f.open.list
	if err := f.refusedWhole(); err != nil {
		list.refuse(err)
		return
	}
	if f.replica >= 0 {
		list.refuseEach(func(p *partition.FetchPartition) error {
			if p.CurrentLeaderEpoch < 0 {
				return partition.ErrNotLeader
			}
			return partition.ErrNotReplica
		})
		return
	}
	if list.errs == nil {
		a.Partitions = list.parts
		return
	}
	a.MaxWait = 0 // an error is told at once
	for i := range list.parts {
		if list.errs[i] == nil {
			f.asked = append(f.asked, i)
			a.Partitions = append(a.Partitions, list.parts[i])
		}
	}
}

// refusedWhole checks what stands for every partition.
func (f *fetching) refusedWhole() error {
	if f.req.IsolationLevel < 0 || f.req.IsolationLevel > committedOnly {
		return kerr.InvalidRequest
	}
	return nil
}

// answer encodes what the replicas gave, with the partitions that a session need not be told again left out.
func (f *fetching) answer(res partition.FetchResult) transport.Response {
	list := &f.open.list
	tell := make([]fetchPart, 0, min(len(list.keys), 16))
	hints := hintedLeaders{img: f.img, listener: f.listener}
	told := f.open.session.tell(&f.open)
	next := 0 // in res.Answers, where f.asked is nil every entry has one
	for i := range list.keys {
		part := fetchPart{key: list.keys[i], hw: -1, lso: -1, logStart: -1, leader: -1, leaderEpoch: -1}
		if list.errs != nil && list.errs[i] != nil {
			part.code, part.aborted = code(list.errs[i]), []partition.AbortedTransaction{}
			if errors.Is(list.errs[i], partition.ErrNotLeader) || errors.Is(list.errs[i], partition.ErrNotReplica) {
				part.aborted = nil
			}
		} else {
			f.fill(&part, &res.Answers[next], &hints)
			next++
		}
		if told.owes(i, &part) {
			tell = append(tell, part)
		}
	}
	told.done(f.ask.MaxBytes)
	e := fetchEncoder{version: f.req.Version, session: f.open.id, sequence: f.sequence}
	if f.req.Version >= 16 {
		e.hints = &hints
	}
	return transport.Response{Pieces: e.encode(tell), Failed: e.failed(tell)}
}

// fill takes the replicas' answer for one partition.
func (f *fetching) fill(part *fetchPart, a *partition.FetchAnswer, hints *hintedLeaders) {
	part.code = code(a.Err)
	if f.ask.Committed {
		part.aborted = []partition.AbortedTransaction{}
	}
	if f.follower {
		part.state = &partition.FetchState{
			LeaderEpoch: a.LeaderEpoch, LogStart: a.LogStartOffset, LogStartEpoch: a.LogStartEpoch, Reset: a.Reset,
		}
	}
	if a.Err != nil {
		if (errors.Is(a.Err, partition.ErrNotLeader) || errors.Is(a.Err, partition.ErrFencedLeaderEpoch)) && f.req.Version >= 16 && a.Leader >= 0 {
			part.leader, part.leaderEpoch = a.Leader, a.LeaderEpoch
			hints.add(a.Leader)
		}
		return
	}
	part.hw, part.lso, part.logStart = a.HighWatermark, a.LastStableOffset, a.LogStartOffset
	if a.Aborted != nil {
		part.aborted = a.Aborted
	}
	part.diverging = a.Diverging
	for _, s := range a.Spans {
		part.bytes += s.Len
	}
	part.spans = a.Spans
}

// fetchPart is the answer for one partition, as it is encoded.
type fetchPart struct {
	key         fetchKey
	code        int16
	hw, lso     int64
	logStart    int64
	aborted     []partition.AbortedTransaction // nil is null
	leader      int32                          // with leaderEpoch the hint where the leader is, -1 none
	leaderEpoch int32
	diverging   *partition.EpochEnd
	state       *partition.FetchState // private, for followers
	bytes       int64
	spans       []record.Span
}
