package replica

import (
	"context"
	"errors"
	"time"

	"cordwood/fsm/mutant"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
)

// Fetch reads, or registers a waiter. A follower's positions count before it returns.
func (m *Manager) Fetch(_ context.Context, req *partition.FetchRequest) partition.PendingFetch {
	if req.ReplicaID >= 0 {
		return m.fetchFollower(req)
	}
	return &consumerFetch{m: m, req: req, deadline: m.now().Add(req.MaxWait)}
}

// consumerFetch is a fetch of a consumer. It reads when it is its turn to be answered and holds nothing before.
type consumerFetch struct {
	m        *Manager
	req      *partition.FetchRequest
	deadline time.Time
}

// Wait answers when MinBytes are there, something must be told at once, the time is over or ctx ends.
func (c *consumerFetch) Wait(ctx context.Context) partition.FetchResult {
	r := c.read()
	if r.enough {
		return r.result
	}
	w := newReader()
	for i := range c.req.Partitions {
		if p := c.m.find(c.req.Partitions[i].ID); p != nil {
			p.park(w)
			defer p.unpark(w)
		}
	}
	timer := time.NewTimer(time.Until(c.deadline))
	defer timer.Stop()
	for last := false; ; {
		r.result.Release()
		if r = c.read(); r.enough || last {
			return r.result
		}
		select {
		case <-w.ready:
		case <-timer.C:
			last = true
		case <-ctx.Done():
			return r.result
		}
	}
}

// consumerRead is one look at all partitions of a fetch.
type consumerRead struct {
	result partition.FetchResult
	enough bool
}

func (c *consumerFetch) read() consumerRead {
	r := consumerRead{result: partition.FetchResult{Answers: make([]partition.FetchAnswer, len(c.req.Partitions))}}
	left, bytes := int64(c.req.MaxBytes), int64(0)
	for i := range c.req.Partitions {
		q := &c.req.Partitions[i]
		a := &r.result.Answers[i]
		var n int64
		var now bool
		if p := c.m.find(q.ID); p != nil {
			n, now = p.read(q, c.req.Committed, left, bytes == 0, a)
		} else {
			leader, epoch, err := c.m.absent(q.ID)
			refuseFetch(a, err)
			a.Leader, a.LeaderEpoch = leader, epoch
			now = true
		}
		a.ID = q.ID
		left -= n
		bytes += n
		r.enough = r.enough || now
	}
	r.enough = r.enough || bytes >= int64(c.req.MinBytes)
	return r
}

func refuseFetch(a *partition.FetchAnswer, err error) {
	*a = partition.FetchAnswer{ID: a.ID, Err: err, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1, LogStartEpoch: -1, LeaderEpoch: -1, Leader: -1}
}

// read answers a consumer from this partition, with at most left bytes; first says that nothing else is in the answer
// yet, so one batch may be larger than every limit. now says that the answer must not wait for more.
func (p *Partition) read(q *partition.FetchPartition, committed bool, left int64, first bool, a *partition.FetchAnswer) (n int64, now bool) {
	p.mu.Lock()
	leader, err := p.leads(q.CurrentLeaderEpoch)
	if err != nil {
		refuseFetch(a, err)
		a.Leader, a.LeaderEpoch = p.hint()
		p.mu.Unlock()
		return 0, true
	}
	// All of one moment, in which this node leads: a follower's log may be cut below what it said as a leader.
	hw, epoch := leader.HighWatermark(), leader.Epoch()
	start, end, stable := p.log.StartOffset(), p.log.EndOffset(), min(p.log.LastStableOffset(), hw)
	p.mu.Unlock()

	if q.LastFetchedEpoch >= 0 {
		at := epochEnd(p.log, q.LastFetchedEpoch)
		switch {
		case at.Epoch < 0 || q.FetchOffset < start:
			refuseFetch(a, record.ErrOffsetOutOfRange)
			return 0, true
		case at.Epoch < q.LastFetchedEpoch || at.End < q.FetchOffset:
			*a = partition.FetchAnswer{HighWatermark: hw, LastStableOffset: stable, LogStartOffset: start,
				LeaderEpoch: epoch, Leader: -1, Diverging: &at}
			return 0, true
		}
	}
	if q.FetchOffset > end && !p.node.sureToLead(p.id, epoch) {
		// Another node may lead and have more. A client that is told that its offset is out of range gives its position up.
		refuseFetch(a, partition.ErrNotLeader)
		p.hinted(a)
		return 0, true
	}
	if q.FetchOffset < start || q.FetchOffset > end {
		refuseFetch(a, record.ErrOffsetOutOfRange)
		return 0, true
	}
	*a = partition.FetchAnswer{HighWatermark: hw, LastStableOffset: stable, LogStartOffset: start, LeaderEpoch: epoch, Leader: -1}
	bound := hw
	if committed {
		bound = a.LastStableOffset
	}
	if mutant.ServeUnflushed {
		bound = end
	}
	if q.FetchOffset >= bound || left <= 0 && !first {
		return 0, false
	}
	info, err := p.log.Read(q.FetchOffset, int32(max(0, min(int64(q.MaxBytes), left))), bound, first)
	if err != nil {
		p.readFailed(err)
	}
	if p.deposed(leader) { // what was read, or was not there, may be another leader's already
		if err == nil {
			release(info.Spans)
		}
		refuseFetch(a, partition.ErrNotLeader)
		p.hinted(a)
		return 0, true
	}
	if err != nil {
		refuseFetch(a, err)
		return 0, true
	}
	a.Spans = info.Spans
	if committed {
		upper := info.End
		if upper < 0 {
			upper = bound
		}
		if a.Aborted, err = p.aborted(q.FetchOffset, upper); err != nil {
			p.readFailed(err)
			release(a.Spans)
			refuseFetch(a, err)
			return 0, true
		}
	}
	// A share ends with its segment: waiting would not make it larger.
	return info.Bytes, info.Bytes > 0 && info.End >= 0 && info.End < bound
}

// aborted lists what a reader of committed records has to leave out of [from, upper).
func (p *Partition) aborted(from, upper int64) ([]partition.AbortedTransaction, error) {
	list, err := p.log.Aborted(from, upper)
	if err != nil {
		return nil, err
	}
	out := make([]partition.AbortedTransaction, 0, len(list))
	for _, t := range list {
		out = append(out, partition.AbortedTransaction{ProducerID: t.ProducerID, FirstOffset: t.FirstOffset})
	}
	return out, nil
}

// readFailed notes that the log can be read no more. What ails this one read alone, a wrong offset or a file that could
// not be opened now, is for its caller to tell.
func (p *Partition) readFailed(err error) {
	if !errors.Is(err, record.ErrDamaged) && !errors.Is(err, record.ErrCorruptBatch) && !errors.Is(err, record.ErrDirOffline) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail(err)
}

func (p *Partition) deposed(l *partition.Leader) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leader != l
}
