package replica

import (
	"context"
	"time"

	"cordwood/fsm/metadata"
	"cordwood/fsm/mutant"
	"cordwood/fsm/partition"
)

// Produce appends every batch in the request's order and returns at once, or when a leader that is being succeeded has
// ended its pause; Wait waits for the acknowledgements.
func (m *Manager) Produce(ctx context.Context, req *partition.ProduceRequest) partition.PendingProduce {
	now := m.now()
	pp := newPendingProduce(req, now)
	for i := range req.Partitions {
		part := &req.Partitions[i]
		p := m.find(part.ID)
		if p == nil {
			leader, epoch, err := m.absent(part.ID)
			pp.refuse(i, err, leader, epoch)
			continue
		}
		for over := p.Append(part, req.Acks, pp, i, now); over != nil; over = p.Append(part, req.Acks, pp, i, m.now()) {
			select {
			case <-over:
				continue
			case <-ctx.Done():
			}
			pp.refuse(i, partition.ErrNotLeader, metadata.NoNode, -1)
			break
		}
	}
	return pp
}

// Append appends one batch where this replica leads, and opens its acknowledgement in pp's place i. It waits for the
// stronger of what the producer asked for and what the topic accepts; a producer that wants no answer gets none, but is
// refused and counted all the same. Not nil: nothing was done, since appends pause until over is closed.
func (p *Partition) Append(part *partition.ProducePartition, asked int16, pp *pendingProduce, i int, now time.Time) (over <-chan struct{}) {
	acks, raised := p.effective(asked)
	p.writing.Lock()
	defer p.writing.Unlock()
	p.mu.Lock()
	leader, err := p.leads(-1)
	if err == nil {
		p.hear(leader)
		err = leader.MayAppend(acks, p.node.brokers(), now)
	}
	if err != nil {
		node, epoch := p.hint()
		p.mu.Unlock()
		pp.refuse(i, err, node, epoch)
		return nil
	}
	if p.handover != nil {
		over = p.handover.over
		p.mu.Unlock()
		return over
	}
	epoch := leader.Epoch()
	p.mu.Unlock()

	info, err := p.log.Append(part.Records, &part.Header, epoch, part.FromZero)

	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		node, at := p.hint()
		if storageFault(err) {
			p.fail(err)
		}
		pp.refuse(i, err, node, at)
		return nil
	}
	if p.leader != leader { // deposed while it wrote: the record may stay or go, the client asks the next leader
		node, at := p.hint()
		pp.refuse(i, partition.ErrNotLeader, node, at)
		return nil
	}
	a := &pp.answers[i]
	if mutant.OffByOne && epoch > 0 {
		info.Base++
	}
	a.BaseOffset, a.AppendTime, a.LogStart = info.Base, info.AppendTime, p.log.StartOffset()
	e := leader.OnAppend(p.log, now)
	if raised {
		p.raised++
	}
	if asked == partition.AcksNone {
		acks = partition.AcksNone // nobody waits for an answer
	}
	if acked, err := leader.Acked(acks, info.Last, p.log); acked || mutant.DupEarly && info.Duplicate {
		pp.acks[i].done(err)
	} else {
		pp.acks[i].p = p
		p.waits.Add(info.Last, acks, &pp.acks[i])
	}
	p.apply(e)
	if !info.Duplicate {
		p.measure(info.Last, now)
		p.attribute(p.me)
	}
	if !info.Duplicate && !e.Advanced {
		p.notifyFollowers()
	}
	return nil
}

// hear credits followers that are parked here without naming this partition. The caller holds mu.
func (p *Partition) hear(l *partition.Leader) {
	for _, lp := range p.links {
		if lp.armed.Load() {
			l.Heard(lp.link.replica, lp.link.brokerEpoch, lp.link.lastFetch())
		}
	}
}

// giveUp ends an open acknowledgement whose time is over; false if it was answered meanwhile.
func (p *Partition) giveUp(a *ack) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waits.Remove(a)
}
