package apitest

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/partition"
	"cordwood/logstore/record"
	"cordwood/transport/api"
)

// Logs plays the replica manager of a cluster of one: every partition is a file of batches behind one lock, committed as
// it is appended. It implements api.Replicas and api.ProducerIDs.
type Logs struct {
	*Cluster
	// Asked is given every fetch; nil: nobody wants to know.
	Asked func(*partition.FetchRequest)

	t       testing.TB
	mu      sync.Mutex
	dir     string
	logs    map[record.PartitionID]*memLog
	changed chan struct{} // closed and replaced at every append
	nextPID int64
	held    int // spans that are not given back
}

// memLog is one partition.
type memLog struct {
	file    *os.File
	batches []stored
	start   int64
	size    int64
	ends    map[int64]producerEnd // by producer id
}

type stored struct {
	h   record.Header
	pos int64
}

type producerEnd struct {
	epoch int16
	seen  []stored // the newest five
}

// NewLogs makes the logs of a cluster's first node, and gives the cluster handlers that use them.
func NewLogs(t testing.TB, w *Cluster) *Logs {
	l := &Logs{Cluster: w, t: t, dir: t.TempDir(), logs: map[record.PartitionID]*memLog{}, changed: make(chan struct{}), nextPID: 1000}
	t.Cleanup(func() {
		for _, g := range l.logs {
			_ = g.file.Close()
		}
	})
	deps := w.Handlers.Deps
	deps.Replicas, deps.ProducerIDs = l, l
	w.Handlers = api.New(deps, api.Options{})
	return l
}

// Held is the number of file ranges that answers hold.
func (l *Logs) Held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// Next implements api.ProducerIDs.
func (l *Logs) Next(context.Context) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nextPID++
	return l.nextPID, nil
}

// log gives a partition that this node leads. Its lock is held.
func (l *Logs) log(id record.PartitionID, epoch int32) (*memLog, int32, error) {
	p := l.Image().Partition(id)
	switch {
	case p == nil:
		return nil, -1, partition.ErrUnknownPartition
	case p.Leader != l.Handlers.Node.ID:
		return nil, p.LeaderEpoch, partition.ErrNotLeader
	case epoch > p.LeaderEpoch:
		return nil, p.LeaderEpoch, partition.ErrUnknownLeaderEpoch
	case epoch >= 0 && epoch < p.LeaderEpoch:
		return nil, p.LeaderEpoch, partition.ErrFencedLeaderEpoch
	}
	g := l.logs[id]
	if g == nil {
		f, err := os.CreateTemp(l.dir, filepath.Base(id.Topic.String()))
		require.NoError(l.t, err)
		g = &memLog{file: f, ends: map[int64]producerEnd{}}
		l.logs[id] = g
	}
	return g, p.LeaderEpoch, nil
}

func (g *memLog) end() int64 {
	if n := len(g.batches); n > 0 {
		return g.batches[n-1].h.EndOffset()
	}
	return g.start
}

type doneProduce []partition.ProduceAnswer

func (d doneProduce) Wait(context.Context) []partition.ProduceAnswer { return d }

// Ready says that nothing is waited for.
func (d doneProduce) Ready() bool { return true }

// Produce implements api.Replicas.
func (l *Logs) Produce(_ context.Context, req *partition.ProduceRequest) partition.PendingProduce {
	l.mu.Lock()
	defer l.mu.Unlock()
	var answers doneProduce
	for i := range req.Partitions {
		a := partition.ProduceAnswer{BaseOffset: -1, AppendTime: -1, LogStart: -1, Leader: -1, LeaderEpoch: -1}
		l.append(&req.Partitions[i], req.Acks, &a)
		answers = append(answers, a)
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return answers
}

func (l *Logs) append(p *partition.ProducePartition, acks int16, a *partition.ProduceAnswer) {
	g, epoch, err := l.log(p.ID, -1)
	if err == nil && acks > int16(len(l.Image().Partition(p.ID).Replicas)) {
		err = partition.ErrInvalidAcks
	}
	if err != nil {
		a.Err, a.LeaderEpoch = err, epoch
		if q := l.Image().Partition(p.ID); q != nil {
			a.Leader = q.Leader
		}
		return
	}
	old, err := g.judge(&p.Header)
	switch {
	case err != nil:
		a.Err = err
	case old != nil:
		a.BaseOffset, a.AppendTime, a.LogStart = old.h.BaseOffset, old.h.MaxTimestamp, g.start
	default:
		base := g.end()
		record.SetOffset(p.Records, base, epoch)
		_, err = g.file.WriteAt(p.Records, g.size)
		require.NoError(l.t, err)
		s := stored{p.Header, g.size}
		s.h.BaseOffset = base
		g.batches, g.size = append(g.batches, s), g.size+int64(len(p.Records))
		g.remember(s)
		a.BaseOffset, a.LogStart = base, g.start
		if p.Header.HasLogAppendTime() {
			a.AppendTime = p.Header.MaxTimestamp
		}
	}
}

// judge checks a producer's sequence; it gives the stored batch of a duplicate.
func (g *memLog) judge(h *record.Header) (*stored, error) {
	end, known := g.ends[h.ProducerID]
	if !h.HasProducer() || !known {
		return nil, nil
	}
	if h.ProducerEpoch == end.epoch {
		for i := range end.seen {
			if s := &end.seen[i]; s.h.BaseSequence == h.BaseSequence && s.h.LastSequence() == h.LastSequence() {
				return s, nil
			}
		}
	}
	last := end.seen[len(end.seen)-1].h
	switch {
	case h.ProducerEpoch < end.epoch:
		return nil, record.ErrProducerEpoch
	case h.ProducerEpoch > end.epoch && h.BaseSequence != 0,
		h.ProducerEpoch == end.epoch && h.BaseSequence != record.IncrementSequence(last.LastSequence(), 1):
		return nil, record.ErrOutOfOrder
	}
	return nil, nil
}

func (g *memLog) remember(s stored) {
	if !s.h.HasProducer() {
		return
	}
	end := g.ends[s.h.ProducerID]
	if end.epoch != s.h.ProducerEpoch {
		end = producerEnd{epoch: s.h.ProducerEpoch}
	}
	end.seen = append(end.seen, s)
	end.seen = slices.Clone(end.seen[max(0, len(end.seen)-5):])
	g.ends[s.h.ProducerID] = end
}

type parkedFetch struct {
	l   *Logs
	req partition.FetchRequest
}

// Fetch implements api.Replicas.
func (l *Logs) Fetch(_ context.Context, req *partition.FetchRequest) partition.PendingFetch {
	if l.Asked != nil {
		l.Asked(req)
	}
	return &parkedFetch{l, *req}
}

// Wait implements partition.PendingFetch.
func (p *parkedFetch) Wait(ctx context.Context) partition.FetchResult {
	t := time.NewTimer(p.req.MaxWait)
	defer t.Stop()
	late := false
	for {
		p.l.mu.Lock()
		res, bytes, now := p.l.read(&p.req)
		changed := p.l.changed
		p.l.mu.Unlock()
		if late || now || bytes >= int64(p.req.MinBytes) {
			return res
		}
		res.Release()
		select {
		case <-changed:
		case <-t.C:
			late = true
		case <-ctx.Done():
			late = true
		}
	}
}

func (l *Logs) read(req *partition.FetchRequest) (res partition.FetchResult, bytes int64, now bool) {
	left, first := int64(req.MaxBytes), true
	for i := range req.Partitions {
		p := &req.Partitions[i]
		a := partition.FetchAnswer{ID: p.ID, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1, LogStartEpoch: -1, Leader: -1}
		g, epoch, err := l.log(p.ID, p.CurrentLeaderEpoch)
		a.LeaderEpoch = epoch
		switch {
		case err != nil:
			a.Err = err
		case p.LastFetchedEpoch > epoch, p.FetchOffset < g.start, p.FetchOffset > g.end() && p.LastFetchedEpoch < 0:
			a.Err = record.ErrOffsetOutOfRange
		default:
			a.HighWatermark, a.LastStableOffset, a.LogStartOffset = g.end(), g.end(), g.start
			if p.FetchOffset > g.end() {
				a.Diverging = &partition.EpochEnd{Epoch: epoch, End: g.end()}
				now = true
				break
			}
			if s, ok := l.span(g, p.FetchOffset, min(int64(p.MaxBytes), left), first); ok {
				a.Spans = append(a.Spans, s)
				bytes, left, first = bytes+s.Len, left-s.Len, false
			}
		}
		now = now || a.Err != nil
		res.Answers = append(res.Answers, a)
	}
	return res, bytes, now
}

// span gives the bytes from the batch that holds offset on, cut at limit, the first batch whole if whole is set.
func (l *Logs) span(g *memLog, offset, limit int64, whole bool) (record.Span, bool) {
	for _, s := range g.batches {
		if s.h.EndOffset() <= offset {
			continue
		}
		n := min(max(limit, 0), g.size-s.pos)
		if n < s.h.Size() {
			if !whole {
				return record.Span{}, false
			}
			n = s.h.Size()
		}
		l.held++
		return record.NewSpan(g.file, s.pos, n, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.held--
		}), true
	}
	return record.Span{}, false
}

// ListOffsets implements api.Replicas: times are those of batches, not of records.
func (l *Logs) ListOffsets(_ context.Context, q partition.ListOffsetsQuery) partition.ListOffsetsAnswer {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := partition.ListOffsetsAnswer{Offset: -1, Timestamp: -1, LeaderEpoch: -1, Leader: -1}
	g, epoch, err := l.log(q.ID, q.CurrentLeaderEpoch)
	if err != nil {
		a.Err = err
		return a
	}
	switch q.Timestamp {
	case partition.LatestTimestamp:
		a.Offset, a.LeaderEpoch = g.end(), epoch
	case partition.EarliestTimestamp, partition.EarliestLocalTimestamp:
		a.Offset, a.LeaderEpoch = g.start, epoch
	default:
		best := int64(math.MinInt64)
		for _, s := range g.batches {
			special := q.Timestamp == partition.MaxTimestamp
			if special && s.h.MaxTimestamp > best || q.Timestamp >= 0 && s.h.MaxTimestamp >= q.Timestamp {
				best, a.Offset, a.Timestamp, a.LeaderEpoch = s.h.MaxTimestamp, s.h.BaseOffset, s.h.MaxTimestamp, epoch
				if !special {
					break
				}
			}
		}
	}
	return a
}

// EpochEnd implements api.Replicas: all records are of the present epoch.
func (l *Logs) EpochEnd(id record.PartitionID, current, asked int32) (partition.EpochEnd, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g, epoch, err := l.log(id, current)
	switch {
	case err != nil:
		return partition.EpochEnd{}, err
	case asked == epoch:
		return partition.EpochEnd{Epoch: epoch, End: g.end()}, nil
	case asked == -1 || asked > epoch:
		return partition.EpochEnd{Epoch: -1, End: -1}, nil
	}
	return partition.EpochEnd{Epoch: asked, End: g.start}, nil
}

// State implements api.Replicas.
func (l *Logs) State(id record.PartitionID) (partition.PartitionState, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g, epoch, err := l.log(id, -1)
	if err != nil {
		return partition.PartitionState{}, false
	}
	return partition.PartitionState{
		ID: id, Leader: true, LeaderEpoch: epoch, LogStartOffset: g.start, HighWatermark: g.end(), LastStableOffset: g.end(), LogEndOffset: g.end(), Size: g.size,
	}, true
}

// DeleteRecords implements api.Replicas.
func (l *Logs) DeleteRecords(_ context.Context, id record.PartitionID, offset int64) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g, _, err := l.log(id, -1)
	if err != nil {
		return -1, err
	}
	if offset == -1 {
		offset = g.end()
	}
	if offset < 0 || offset > g.end() {
		return -1, record.ErrOffsetOutOfRange
	}
	g.start = max(g.start, offset)
	return g.start, nil
}
