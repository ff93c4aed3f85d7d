package replica

import (
	"time"

	"cordwood/fsm/partition"
	"cordwood/logstore/record"
)

const (
	measuredMin = 32   // batches that a partition keeps at first
	measuredMax = 1024 // and at most; those that come while as many wait for one of the rules are not measured
)

// attribution measures, at a leader, when the same batches would have been acknowledged under each rule, and who
// completed their commit. Offsets rise, so that a rule needs one cursor each and a batch is looked at once a rule.
type attribution struct {
	total partition.AckLatency

	ring  []measured // a power of two long; batch number n stands at n modulo its length
	tail  int        // number of the next batch
	done  [3]int     // number of the first batch that a rule has not acknowledged
	first int        // the lowest of done
}

// measured is a batch on its way.
type measured struct {
	last int64 // offset of its last record
	at   time.Time
}

// The cursors of an attribution.
const (
	byQuorum = iota
	byISR
	byRule // the one in force
)

// appended begins to measure a batch that was taken up at and appended by now.
func (a *attribution) appended(last int64, at, now time.Time) {
	a.total.Leader.Observe(now.Sub(at))
	n := a.tail - a.first
	if n == measuredMax {
		a.total.Skipped++
		return
	}
	if n == len(a.ring) {
		bigger := make([]measured, max(measuredMin, 2*n))
		for i := a.first; i < a.tail; i++ {
			bigger[i&(len(bigger)-1)] = a.ring[i&(len(a.ring)-1)]
		}
		a.ring = bigger
	}
	a.ring[a.tail&(len(a.ring)-1)] = measured{last, at}
	a.tail++
}

// counted follows a step that may have moved a position: by is the replica that it was of.
func (a *attribution) counted(p partition.Points, hw int64, by int32, now time.Time) {
	a.done[byQuorum] = a.complete(a.done[byQuorum], p.Quorum, now, &a.total.Quorum)
	a.done[byISR] = a.complete(a.done[byISR], p.InSync, now, &a.total.ISR)
	before := a.done[byRule]
	a.done[byRule] = a.complete(before, hw, now, nil)
	if n := a.done[byRule] - before; n > 0 {
		if a.total.CompletedBy == nil {
			a.total.CompletedBy = make(map[int32]int64)
		}
		a.total.CompletedBy[by] += int64(n)
	}
	a.first = min(a.done[byQuorum], a.done[byISR], a.done[byRule])
}

// complete takes a cursor past the batches that end below point.
func (a *attribution) complete(cursor int, point int64, now time.Time, into *partition.AckHistogram) int {
	for ; cursor < a.tail; cursor++ {
		b := &a.ring[cursor&(len(a.ring)-1)]
		if b.last >= point {
			break
		}
		if into != nil {
			into.Observe(now.Sub(b.at))
		}
	}
	return cursor
}

// forget ends the measure of what is on its way: its office has ended.
func (a *attribution) forget() {
	a.ring, a.tail, a.first, a.done = nil, 0, 0, [3]int{}
}

// measure begins to measure a batch, taken up at. The caller holds mu and leads.
func (p *Partition) measure(last int64, at time.Time) {
	if p.acks == nil {
		p.acks = &attribution{}
	}
	p.acks.appended(last, at, p.node.now())
}

// attribute follows a step of the leader that may have moved a replica's position. The caller holds mu.
func (p *Partition) attribute(by int32) {
	if p.leader == nil || p.acks == nil || p.acks.first == p.acks.tail {
		return
	}
	p.acks.counted(p.leader.Points(p.log), p.leader.HighWatermark(), by, p.node.now())
}

// latency adds what was measured here to sum.
func (p *Partition) latency(sum *partition.AckLatency) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.acks != nil {
		sum.Add(&p.acks.total)
	}
	sum.Raised += p.raised
}

// AckLatency is what this node measured of a topic's batches, of the partitions that it hosts and while it led them.
func (m *Manager) AckLatency(topic record.TopicID) partition.AckLatency {
	var sum partition.AckLatency
	for _, p := range m.all() {
		if p.id.Topic == topic {
			p.latency(&sum)
		}
	}
	return sum
}

// allLatency is what this node measured since it started, of replicas that are gone too.
func (m *Manager) allLatency() partition.AckLatency {
	var sum partition.AckLatency
	m.mu.RLock()
	sum.Add(&m.goneLatency)
	m.mu.RUnlock()
	for _, p := range m.all() {
		p.latency(&sum)
	}
	return sum
}
