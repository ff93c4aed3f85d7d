package partition

import (
	"slices"
	"time"

	"cordwood/fsm/metadata"
	"cordwood/fsm/mutant"
)

// This file holds what a leader does for a change that is under way on its partition, of rule, durability or replicas:
// from which offset on both regimes have held, when the new one is proven, and the finish that says so.

// bareMajorityAfter is how long the finish of a durability change waits for every live replica before it takes those that
// are enough: each one left out has to be certified anew.
const bareMajorityAfter = 10 * time.Second

// change is the state of the change under way. The zero value: none.
type change struct {
	beginPE    int32 // partition epoch of the record that began it
	point      int64 // log end when both regimes were in force, the marker included; -1 not taken yet
	since      time.Time
	finishedAt time.Time // when the finish was last asked for
}

// kind says what is being changed.
type kind uint8

const (
	changeNone kind = iota
	changeRule
	changeDurability
	changeJoint  // both replica sets are in force
	changeAdding // the ISR rule: newcomers join the ISR, then the others leave
)

func changeOf(rec *metadata.Partition) kind {
	switch {
	case rec.Rule == metadata.RuleISRToQuorum || rec.Rule == metadata.RuleQuorumToISR:
		return changeRule
	case rec.Durability == metadata.DurabilityMemoryToDisk:
		return changeDurability
	case len(rec.NewReplicas) > 0:
		return changeJoint
	case len(rec.Adding) > 0 && rec.Rule.ElectBy() == metadata.RuleISR:
		return changeAdding
	}
	return changeNone
}

// NeedsMarker says that whoever takes office by rec appends an epoch-start marker before anything else: records of older
// epochs commit only under one of this epoch, and nobody else may ever write one.
func NeedsMarker(rec *metadata.Partition, f Facts) bool {
	hw := min(max(f.HighWatermark(), f.StartOffset()), f.EndOffset())
	if mutant.NoMarker || mutant.RuleNoMarker && f.EndOffset() == hw {
		return false
	}
	return changeOf(rec) == changeRule || rec.Rule == metadata.RuleQuorum && f.EndOffset() > hw
}

// takePoint looks at the change that rec has under way. One that began since the last look gets its point: at once, or
// after the marker that is asked for. inOffice says that the marker was appended already, for the office.
func (l *Leader) takePoint(f Facts, inOffice bool, now time.Time) Effects {
	k := changeOf(l.rec)
	if k == changeNone {
		l.change = change{}
		return Effects{}
	}
	if l.change.beginPE == l.rec.BeginPE && !l.change.since.IsZero() {
		return Effects{}
	}
	l.change = change{beginPE: l.rec.BeginPE, point: -1, since: now}
	switch {
	case k == changeRule && !inOffice && !mutant.NoMarker && !(mutant.RuleNoMarker && l.hw == f.EndOffset()):
		return Effects{Marker: true}
	case k == changeAdding:
		l.change.point = 0 // membership of the committed ISR is the proof
	default:
		l.change.point = f.EndOffset()
	}
	return Effects{Flush: l.unflushed(f)}
}

// unflushed says that the leader's own copy counts from disk and is not there yet.
func (l *Leader) unflushed(f Facts) bool {
	return Position(l.rec, f) < f.EndOffset()
}

// OnMarker follows the append of the marker that Effects.Marker asked for.
func (l *Leader) OnMarker(brokers Brokers, f Facts, now time.Time) Effects {
	l.tip = f.EndOffset()
	if changeOf(l.rec) == changeRule && l.change.point < 0 {
		l.change.point = f.EndOffset()
	}
	e := l.advance(f)
	e.Flush = l.unflushed(f)
	e.merge(l.finish(brokers, f, now))
	return e
}

// proven says that the new regime holds everything below point, by positions of this epoch and never by the high
// watermark alone: the old regime may have moved that before the new one held a byte.
func (l *Leader) proven(point int64, f Facts) bool {
	if mutant.ProofByHW {
		return l.hw >= point
	}
	if l.unproven() {
		return true
	}
	if l.rec.Rule != metadata.RuleISR && l.quorumPoint(f) < point {
		return false
	}
	if l.rec.Rule != metadata.RuleQuorum {
		if len(l.rec.ISR) < int(l.rec.MinISR) || len(l.proposals) > 0 || l.lowest(l.rec.ISR, f) < point {
			return false
		}
	}
	return l.hw >= point
}

// finish asks for the end of the change under way once it is proven.
func (l *Leader) finish(brokers Brokers, f Facts, now time.Time) Effects {
	k := changeOf(l.rec)
	if k == changeNone || l.change.point < 0 {
		return Effects{}
	}
	if !l.change.finishedAt.IsZero() && now.Sub(l.change.finishedAt) < l.opt.Retry {
		return Effects{}
	}
	switch {
	case k == changeAdding && !l.targetInSync():
		return Effects{}
	case k != changeAdding && !l.proven(l.change.point, f):
		return Effects{}
	case k == changeDurability && !mutant.DurEarly && !l.everyLiveProven(brokers, f) && now.Sub(l.change.since) < bareMajorityAfter:
		return Effects{}
	case k == changeDurability && (len(l.proposals) > 0 || f.FlushedOffset() < l.change.point):
		return Effects{}
	}
	l.change.finishedAt = now
	return Effects{Finish: &metadata.Finish{
		Partition:         l.rec.ID,
		Leader:            l.me,
		LeaderBrokerEpoch: l.brokerEpoch,
		LeaderEpoch:       l.rec.LeaderEpoch,
		PartitionEpoch:    l.rec.PartitionEpoch,
		Point:             l.change.point,
		Evidence:          l.evidence(l.change.point, f),
	}}
}

// targetInSync: every member of the target is in the committed ISR, no proposal is open, and the target can hold the
// minimum.
func (l *Leader) targetInSync() bool {
	out := func(id int32) bool { return !slices.Contains(l.rec.ISR, id) }
	return len(l.proposals) == 0 && len(l.rec.Adding) >= int(l.rec.MinISR) && !slices.ContainsFunc(l.rec.Adding, out)
}

// everyLiveProven says that all replicas that are not fenced have reached the point.
func (l *Leader) everyLiveProven(brokers Brokers, f Facts) bool {
	return !slices.ContainsFunc(l.rec.Replicas, func(id int32) bool {
		return brokers.Broker(id).Alive() && l.positionOf(id, f) < l.change.point
	})
}

// unproven says that the simulation lets a finish go unproven, to see that it is found.
func (l *Leader) unproven() bool {
	switch changeOf(l.rec) {
	case changeRule:
		return mutant.RuleEarly
	case changeDurability:
		return mutant.DurEarly
	case changeJoint:
		return mutant.FinalEarly
	}
	return false
}

// evidence lists every position of this epoch at or above point, with the process it was counted from.
func (l *Leader) evidence(point int64, f Facts) []metadata.Evidence {
	var list []metadata.Evidence
	for i := range l.match {
		m := &l.match[i]
		be := m.brokerEpoch
		if m.id == l.me {
			be = l.brokerEpoch
		}
		off := l.positionOf(m.id, f)
		if mutant.ProofByHW || l.unproven() {
			off = max(off, point)
		}
		if be != 0 && off >= point {
			list = append(list, metadata.Evidence{Broker: metadata.BrokerEpoch{ID: m.id, Epoch: be}, Offset: off})
		}
	}
	return list
}
