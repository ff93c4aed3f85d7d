package partition

import (
	"slices"
	"time"

	"cordwood/fsm/metadata"
	"cordwood/fsm/mutant"
)

// Tick checks what only time decides: in-sync replicas that lag, and proposals and certificates without a record.
// Only a leader that Ticking says yes for needs it.
func (l *Leader) Tick(brokers Brokers, f Facts, now time.Time) Effects {
	e := l.maintain(brokers, f, now)
	for i := range l.match {
		if m := &l.match[i]; m.id != l.me && m.brokerEpoch != 0 {
			e.merge(l.certify(m, brokers, now))
			if e.Certify != nil {
				break
			}
		}
	}
	e.merge(l.finish(brokers, f, now))
	return e
}

// Ticking says that something waits for time: an in-sync replica is behind, a proposal is open, or a replica that keeps
// up is outside the ISR or without certificate.
func (l *Leader) Ticking(f Facts) bool {
	if len(l.proposals) > 0 || changeOf(l.rec) != changeNone {
		return true
	}
	for i := range l.match {
		m := &l.match[i]
		if m.id == l.me {
			continue
		}
		in := slices.Contains(l.rec.ISR, m.id)
		if in && l.positionOf(m.id, f) < f.EndOffset() || !in && m.brokerEpoch != 0 || !m.certifiedAt.IsZero() && l.rec.Member(m.id).Cert < m.brokerEpoch {
			return true
		}
	}
	return false
}

// maintain proposes the ISR that should be, if it is not the recorded one. While proposals are open it waits for their
// record and then says again what should be: the present ISR too, since only an accepted proposal settles the others.
func (l *Leader) maintain(brokers Brokers, f Facts, now time.Time) Effects {
	want := l.wanted(brokers, f, now)
	if len(l.proposals) == 0 && sameSet(want, l.rec.ISR) {
		return Effects{}
	}
	if len(l.proposals) > 0 && now.Sub(l.proposedAt) < l.opt.Retry {
		return Effects{}
	}
	change := &metadata.PartitionChange{
		Partition:         l.rec.ID,
		Leader:            l.me,
		LeaderBrokerEpoch: l.brokerEpoch,
		LeaderEpoch:       l.rec.LeaderEpoch,
		PartitionEpoch:    l.rec.PartitionEpoch,
	}
	for _, id := range want {
		be := l.brokerEpoch
		if id != l.me {
			b := brokers.Broker(id)
			if b == nil || b.Fenced {
				return Effects{} // a record that takes it out is on its way; this proposal could only be refused
			}
			be = b.Epoch
		}
		change.ISR = append(change.ISR, metadata.BrokerEpoch{ID: id, Epoch: be})
	}
	if !slices.ContainsFunc(l.proposals, func(p []int32) bool { return sameSet(p, want) }) {
		l.proposals = append(l.proposals, want) // before it is sent
	}
	l.proposedAt = now
	return Effects{Propose: change}
}

// wanted is the ISR that should be, from one snapshot of the brokers, sorted by id.
func (l *Leader) wanted(brokers Brokers, f Facts, now time.Time) []int32 {
	var want []int32
	for i := range l.match {
		m := &l.match[i]
		switch {
		case m.id == l.me:
			want = append(want, m.id)
		case slices.Contains(l.rec.ISR, m.id):
			if !l.lagging(m, f, now) {
				want = append(want, m.id)
			}
		case l.mayJoin(m, brokers, f, now):
			want = append(want, m.id)
		}
	}
	return want
}

// lagging says that an in-sync replica has been behind the log end for too long.
func (l *Leader) lagging(m *progress, f Facts, now time.Time) bool {
	return l.positionOf(m.id, f) < f.EndOffset() && now.Sub(m.lastCaughtUp) > l.opt.LagMax
}

// mayJoin holds the conditions under which a replica is added to the ISR.
func (l *Leader) mayJoin(m *progress, brokers Brokers, f Facts, now time.Time) bool {
	b := brokers.Broker(m.id)
	switch {
	case !slices.Contains(l.rec.Replicas, m.id) && (l.rec.Rule.ElectBy() == metadata.RuleQuorum || !slices.Contains(l.rec.Adding, m.id)):
		return false // only V, and those being added under the ISR rule
	case m.brokerEpoch == 0: // has not fetched in this epoch
		return false
	case b == nil || b.Fenced || b.Draining || b.Epoch != m.brokerEpoch: // another process than the one that is registered
		return false
	case m.off < l.hw:
		return false
	case m.off < l.leso && !mutant.NoLESO: // the high watermark of a new leader may be behind the true one
		return false
	case m.off < f.EndOffset() && now.Sub(m.lastCaughtUp) > l.opt.LagMax: // at a frozen high watermark, but far behind
		return false
	}
	return true
}

// MaximalISR is everybody who may be in the ISR that a record has or will have: the recorded one and every one proposed
// since.
func (l *Leader) MaximalISR() []int32 {
	all := slices.Clone(l.rec.ISR)
	for _, p := range l.proposals {
		for _, id := range p {
			if !slices.Contains(all, id) {
				all = append(all, id)
			}
		}
	}
	return all
}

// sameSet compares two sets of node ids.
func sameSet(a, b []int32) bool {
	if len(a) != len(b) {
		return false
	}
	for _, id := range a {
		if !slices.Contains(b, id) {
			return false
		}
	}
	return true
}
