package replica

import (
	"slices"
	"time"

	"cordwood/fsm/partition"
)

// Follow counts where a follower stands; an error refuses its position. Whether it diverges is found when it is served.
func (p *Partition) Follow(l *link, fp *partition.FetchPartition, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	leader, err := p.leads(-1)
	if err != nil {
		return err
	}
	v, e := leader.OnFetch(partition.Fetch{
		Replica: l.replica, BrokerEpoch: l.brokerEpoch, LeaderEpoch: fp.CurrentLeaderEpoch,
		Offset: fp.FetchOffset, LastFetchedEpoch: fp.LastFetchedEpoch, AckOffset: fp.AckOffset, LogStart: fp.LogStartOffset, JoinPE: fp.JoinPE,
	}, p.node.brokers(), p.log, now)
	p.apply(e)
	p.attribute(l.replica)
	p.lowered()
	return v.Err
}

// Serve answers a follower that stands at fp with at most left bytes, or one batch. With check their checksums are verified
// before: the session before this one may have ended over bytes that are broken here, and nobody else would ever notice.
func (p *Partition) Serve(fp *partition.FetchPartition, left int64, check bool, a *partition.FetchAnswer) {
	p.mu.Lock()
	leader, err := p.leads(fp.CurrentLeaderEpoch)
	if err != nil || fp.CurrentLeaderEpoch < 0 {
		if err == nil {
			err = partition.ErrFencedLeaderEpoch
		}
		refuseFetch(a, err)
		a.Leader, a.LeaderEpoch = p.hint()
		p.mu.Unlock()
		return
	}
	v, whole := partition.Place(fp.FetchOffset, fp.LastFetchedEpoch, p.log)
	p.fill(leader, a)
	p.mu.Unlock()
	if !whole {
		a.Reset = v.Reset
		if v.Diverging {
			a.Diverging = &v.At
		}
		return
	}
	end := p.log.EndOffset()
	if fp.FetchOffset >= end {
		return
	}
	info, err := p.log.Read(fp.FetchOffset, int32(min(int64(fp.MaxBytes), left)), end, true)
	if err == nil && check {
		_, err = p.sound(fp.FetchOffset, info.Spans)
	}
	p.mu.Lock()
	// What was read is this epoch's only while it still leads: a log is cut only after its leader was deposed.
	if deposed := p.leader != leader; deposed || err != nil {
		if deposed {
			err = partition.ErrNotLeader
		}
		refuseFetch(a, err)
		a.Leader, a.LeaderEpoch = p.hint()
		p.mu.Unlock()
		release(info.Spans)
		if !deposed {
			p.readFailed(err)
		}
		return
	}
	p.mu.Unlock()
	a.Spans = info.Spans
}

// fill sets the offsets of an answer to a follower. The caller holds mu.
func (p *Partition) fill(l *partition.Leader, a *partition.FetchAnswer) {
	hw := l.HighWatermark()
	start, epoch := p.log.Start()
	*a = partition.FetchAnswer{ID: a.ID, HighWatermark: hw, LastStableOffset: hw, LogStartOffset: start,
		LogStartEpoch: epoch, LeaderEpoch: l.Epoch(), Leader: -1}
}

// standing fills an answer that tells nothing but the offsets.
func (p *Partition) standing(a *partition.FetchAnswer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leader == nil {
		refuseFetch(a, partition.ErrNotLeader)
		a.Leader, a.LeaderEpoch = p.hint()
		return
	}
	p.fill(p.leader, a)
}

// hinted adds who leads to a refusal.
func (p *Partition) hinted(a *partition.FetchAnswer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a.Leader, a.LeaderEpoch = p.hint()
}

func (p *Partition) attach(lp *linkPart) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links = append(p.links, lp)
}

func (p *Partition) detach(lp *linkPart) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links = slices.DeleteFunc(p.links, func(x *linkPart) bool { return x == lp })
}
