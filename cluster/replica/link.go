package replica

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"cordwood/fsm/partition"
	"cordwood/logstore/record"
)

// link is the fetch session of one follower node with this leader node. It remembers what the follower fetches of every
// partition, so that a request names only what changed, and is parked until a partition has something to tell.
type link struct {
	replica     int32
	brokerEpoch int64
	id          int32
	seen        atomic.Int64 // newest request, nanoseconds since base
	base        time.Time

	// mu is a leaf lock.
	mu      sync.Mutex
	next    int32                            // session epoch of the next request
	parts   map[record.PartitionID]*linkPart // nil: closed
	ready   []*linkPart                      // may have something to tell, oldest first
	current *followerFetch                   // the newest request; only it may answer
	signal  chan<- struct{}                  // current's
}

// linkPart is one partition of a link.
type linkPart struct {
	link *link
	id   record.PartitionID
	// armed says that the follower waits for this partition. Whatever makes it fetch anew disarms it until it is named
	// again: records, a divergence, a reset, an error.
	armed atomic.Bool

	// Under link.mu.
	p         *Partition // nil: not hosted here
	fp        partition.FetchPartition
	err       error // the position was refused
	queued    bool
	offsets   bool // only offsets are to be told; a gathering keeps it
	checked   bool // records were served in this session: the first are read through before
	anew      bool // the position that was counted is void: the follower is to name the partition again
	sentHW    int64
	sentStart int64
}

// tellAfter is how long offsets alone, such as a high watermark that moved, wait for records to travel with: an answer
// costs the follower another request.
const tellAfter = 5 * time.Millisecond

func newLink(replica int32, brokerEpoch int64, now time.Time) *link {
	return &link{replica: replica, brokerEpoch: brokerEpoch, id: 1 + rand.Int32N(1<<30), base: now, next: 1,
		parts: make(map[record.PartitionID]*linkPart)}
}

func (l *link) lastFetch() time.Time { return l.base.Add(time.Duration(l.seen.Load())) }

// notify says that the partition may have something to tell. It takes the leaf lock alone.
func (lp *linkPart) notify() {
	if !lp.armed.Load() {
		return
	}
	l := lp.link
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue(lp)
}

// askAnew refuses the position that the follower waits with, so that it names the partition again.
func (lp *linkPart) askAnew() {
	l := lp.link
	l.mu.Lock()
	defer l.mu.Unlock()
	lp.anew = true
	l.queue(lp)
}

// queue puts lp among those to look at. The caller holds mu.
func (l *link) queue(lp *linkPart) {
	if lp.queued {
		return
	}
	lp.queued = true
	l.ready = append(l.ready, lp)
	if l.signal != nil {
		select {
		case l.signal <- struct{}{}:
		default:
		}
	}
}

// followerFetch is a fetch of a follower whose positions were counted.
type followerFetch struct {
	m        *Manager
	link     *link
	req      *partition.FetchRequest
	err      error
	deadline time.Time
	ready    chan struct{}
	only     bool // without a session: the link ends with the answer
}

// fetchFollower counts the positions of a follower's fetch and parks it in its link.
func (m *Manager) fetchFollower(req *partition.FetchRequest) partition.PendingFetch {
	now := m.now()
	f := &followerFetch{m: m, req: req, deadline: now.Add(req.MaxWait), ready: make(chan struct{}, 1), only: req.SessionEpoch < 0}
	image := m.image()
	if image == nil { // not started: nothing is led here yet, whatever the others have heard
		f.err = partition.ErrNotLeader
		return f
	}
	if b := image.Broker(req.ReplicaID); b != nil && req.BrokerEpoch < b.Epoch {
		f.err = partition.ErrStaleBrokerEpoch
		return f
	}
	if req.SessionEpoch <= 0 {
		f.link = newLink(req.ReplicaID, req.BrokerEpoch, now)
		if !f.only {
			m.replaceLink(f.link)
		}
	} else if f.link, f.err = m.resume(req); f.err != nil {
		return f
	}
	l := f.link
	l.seen.Store(int64(now.Sub(l.base)))
	l.mu.Lock()
	if l.parts == nil { // a newer session has taken its place since
		l.mu.Unlock()
		f.err = partition.ErrSessionNotFound
		return f
	}
	l.current = f
	if l.signal != nil { // the request before answers now with what it has
		select {
		case l.signal <- struct{}{}:
		default:
		}
	}
	l.signal = f.ready
	l.mu.Unlock()
	for _, id := range req.Forgotten {
		l.forget(id)
	}
	for i := range req.Partitions {
		l.name(m, &req.Partitions[i], now)
	}
	return f
}

// resume finds the link that an incremental request belongs to and steps it on.
func (m *Manager) resume(req *partition.FetchRequest) (*link, error) {
	l := m.link(req.ReplicaID)
	if l == nil || l.id != req.SessionID || l.brokerEpoch != req.BrokerEpoch {
		return nil, partition.ErrSessionNotFound
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.parts == nil: // replaced since it was found
		return nil, partition.ErrSessionNotFound
	case req.SessionEpoch != l.next:
		return nil, partition.ErrSessionEpoch
	}
	if l.next++; l.next <= 0 {
		l.next = 1
	}
	return l, nil
}

// name takes over where the follower stands with one partition, and counts its position there. A session that a newer
// one has replaced meanwhile names nothing.
func (l *link) name(m *Manager, fp *partition.FetchPartition, now time.Time) {
	l.mu.Lock()
	if l.parts == nil {
		l.mu.Unlock()
		return
	}
	lp := l.parts[fp.ID]
	if lp == nil {
		lp = &linkPart{link: l, id: fp.ID, sentHW: -1, sentStart: -1}
		l.parts[fp.ID] = lp
	}
	p, old := m.find(fp.ID), lp.p
	lp.p = p
	l.mu.Unlock()
	if p != old { // the replica arrived, or is another than before
		if old != nil {
			old.detach(lp)
		}
		if p != nil {
			p.attach(lp)
		}
	}
	err := partition.ErrUnknownPartition
	if p != nil {
		err = p.Follow(l, fp, now)
	}
	l.mu.Lock()
	if l.parts == nil { // closed meanwhile, perhaps before lp was attached
		l.mu.Unlock()
		lp.end()
		return
	}
	defer l.mu.Unlock()
	// A follower that got further has taken the answer that brought it there, and the offsets told with it. Any other may
	// have dropped it, or was told to do something else first.
	if took := fp.FetchOffset > lp.fp.FetchOffset && fp.CurrentLeaderEpoch == lp.fp.CurrentLeaderEpoch; took {
		lp.sentHW = min(lp.sentHW, fp.FetchOffset)
		if fp.LogStartOffset < lp.sentStart {
			lp.sentStart = -1 // told, but not taken over
		}
	} else {
		lp.sentHW, lp.sentStart = -1, -1
	}
	lp.fp, lp.err = *fp, err
	lp.armed.Store(true)
	l.queue(lp)
}

func (l *link) forget(id record.PartitionID) {
	l.mu.Lock()
	lp := l.parts[id]
	delete(l.parts, id)
	l.mu.Unlock()
	if lp != nil {
		lp.end()
	}
}

// close forgets every partition and lets a parked request go.
func (l *link) close() {
	l.mu.Lock()
	parts := l.parts
	l.parts, l.ready, l.current = nil, nil, nil
	if l.signal != nil {
		select {
		case l.signal <- struct{}{}:
		default:
		}
	}
	l.signal = nil
	l.mu.Unlock()
	for _, lp := range parts {
		lp.end()
	}
}

func (lp *linkPart) end() {
	lp.armed.Store(false)
	lp.link.mu.Lock()
	p := lp.p
	lp.link.mu.Unlock()
	if p != nil {
		p.detach(lp)
	}
}

// Wait answers as soon as a partition has records or a correction to tell, soon after it has new offsets, else when the
// time is over, a newer request of the session has come or ctx ends.
func (f *followerFetch) Wait(ctx context.Context) partition.FetchResult {
	if f.err != nil {
		return partition.FetchResult{Err: f.err}
	}
	if f.only {
		defer f.link.close()
	}
	g := gathering{f: f, left: int64(f.req.MaxBytes), patient: true}
	timer := time.NewTimer(time.Until(f.deadline))
	defer timer.Stop()
	for hurried := false; !g.take() && len(g.answers) == 0; {
		if len(g.offsets) > 0 && !hurried {
			hurried = true
			timer.Reset(min(tellAfter, time.Until(f.deadline)))
		}
		select {
		case <-f.ready:
			continue
		case <-timer.C:
		case <-ctx.Done():
		}
		break
	}
	g.patient = false
	g.giveBack()
	g.take()
	r := partition.FetchResult{Answers: g.answers}
	if !f.only {
		r.SessionID = f.link.id
	}
	if f.req.SessionEpoch <= 0 {
		r.Answers = f.inOrder(g.answers)
	}
	return r
}

// inOrder gives an answer for every partition in the request's order, as whoever names all of them expects.
func (f *followerFetch) inOrder(some []partition.FetchAnswer) []partition.FetchAnswer {
	at := make(map[record.PartitionID]int, len(some))
	for i := range some {
		at[some[i].ID] = i
	}
	all := make([]partition.FetchAnswer, len(f.req.Partitions))
	for i := range f.req.Partitions {
		id := f.req.Partitions[i].ID
		if k, ok := at[id]; ok {
			all[i] = some[k]
			delete(at, id)
			continue
		}
		all[i].ID = id
		if p := f.m.find(id); p != nil {
			p.standing(&all[i])
		} else {
			refuseFetch(&all[i], partition.ErrUnknownPartition)
		}
	}
	return all
}

// gathering is an answer in the making.
type gathering struct {
	f       *followerFetch
	answers []partition.FetchAnswer
	left    int64 // bytes
	patient bool  // keep partitions that have only offsets to tell in offsets, instead of answering
	offsets []*linkPart
}

// giveBack makes partitions that were kept ready again.
func (g *gathering) giveBack() {
	l := g.f.link
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lp := range g.offsets {
		lp.offsets = false
		if l.parts[lp.id] == lp {
			l.queue(lp)
		}
	}
	g.offsets = nil
}

// take looks at what is ready, within the byte limit; what is left over is first next time. over says that a newer
// request has taken the session.
func (g *gathering) take() (over bool) {
	l := g.f.link
	for {
		l.mu.Lock()
		if l.current != g.f {
			l.mu.Unlock()
			return true
		}
		if len(l.ready) == 0 || g.left <= 0 && len(g.answers) > 0 {
			l.mu.Unlock()
			return false
		}
		lp := l.ready[0]
		l.ready[0] = nil
		l.ready = l.ready[1:]
		lp.queued = false
		if l.parts[lp.id] != lp || !lp.armed.Load() {
			l.mu.Unlock()
			continue
		}
		p, fp, err, hw, start, check := lp.p, lp.fp, lp.err, lp.sentHW, lp.sentStart, !lp.checked
		anew := lp.anew
		if anew {
			err = partition.ErrOffsetNotAvailable
		}
		l.mu.Unlock()

		a := partition.FetchAnswer{ID: lp.id}
		if err != nil {
			refuseFetch(&a, err)
			if p != nil {
				p.hinted(&a)
			}
		} else {
			p.Serve(&fp, g.left, check, &a)
		}
		bytes := spanBytes(a.Spans)

		l.mu.Lock()
		switch {
		case l.current != g.f:
			if l.parts[lp.id] == lp {
				l.queue(lp)
			}
			l.mu.Unlock()
			release(a.Spans)
			return true
		case a.Err != nil || a.Reset || a.Diverging != nil || bytes > 0:
			lp.armed.Store(false)
			lp.checked = lp.checked || bytes > 0
			lp.anew = lp.anew && !anew
			lp.sentHW, lp.sentStart = a.HighWatermark, a.LogStartOffset
		case a.HighWatermark != hw || a.LogStartOffset != start:
			if g.patient {
				if !lp.offsets {
					lp.offsets = true
					g.offsets = append(g.offsets, lp)
				}
				l.mu.Unlock()
				continue
			}
			lp.sentHW, lp.sentStart = a.HighWatermark, a.LogStartOffset
		default:
			l.mu.Unlock()
			continue // nothing to tell
		}
		l.mu.Unlock()
		g.left -= bytes
		g.answers = append(g.answers, a)
	}
}

func spanBytes(spans []record.Span) (n int64) {
	for _, s := range spans {
		n += s.Len
	}
	return n
}

func release(spans []record.Span) {
	for _, s := range spans {
		s.Release()
	}
}
