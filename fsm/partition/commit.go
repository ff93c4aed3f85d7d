package partition

import (
	"slices"
	"time"

	"cordwood/fsm/metadata"
	"cordwood/fsm/mutant"
)

// advance computes the high watermark by the partition's commit rule. It is the one place where records become
// committed.
func (l *Leader) advance(f Facts) Effects {
	h, ok := l.committed(f)
	if !ok || h <= l.hw || h > f.EndOffset() {
		return Effects{}
	}
	l.hw = h
	return Effects{Advanced: true, HighWatermark: h}
}

// committed is how far the rules in force let the high watermark go; during a change of rule both must hold.
func (l *Leader) committed(f Facts) (h int64, ok bool) {
	h = f.EndOffset()
	if l.rec.Rule != metadata.RuleISR {
		c := l.quorumPoint(f)
		// A record of an older epoch may still lose to a log of a later one: only a record of this epoch commits.
		if c <= 0 || EpochBefore(c, f) != l.rec.LeaderEpoch && !mutant.NoBarrier && !mutant.NoMarker {
			return 0, false
		}
		h = min(h, c)
	}
	if l.rec.Rule != metadata.RuleQuorum && !(mutant.RuleNoBoth && l.rec.Rule == metadata.RuleISRToQuorum) {
		if len(l.rec.ISR) < int(l.rec.MinISR) && !mutant.NoMinISR {
			return 0, false
		}
		h = min(h, l.inSyncPoint(f))
	}
	return h, true
}

// inSyncPoint is the lowest position over the maximal ISR: the recorded one and every one proposed since.
func (l *Leader) inSyncPoint(f Facts) int64 {
	low := l.lowest(l.rec.ISR, f)
	for _, p := range l.proposals {
		if mutant.NoMaximal {
			break
		}
		low = min(low, l.lowest(p, f))
	}
	return low
}

func (l *Leader) lowest(set []int32, f Facts) int64 {
	low := f.EndOffset()
	for _, id := range set {
		low = min(low, l.positionOf(id, f))
	}
	return low
}

// quorumPoint is the highest offset that W replicas hold, of both sets while the replica set changes.
func (l *Leader) quorumPoint(f Facts) int64 {
	c := l.quorumOf(l.rec.Replicas, f)
	if len(l.rec.NewReplicas) > 0 {
		c = min(c, l.quorumOf(l.rec.NewReplicas, f))
	}
	return c
}

func (l *Leader) quorumOf(set []int32, f Facts) int64 {
	if len(set) == 0 {
		return 0
	}
	var few [8]int64 // no allocation for what sets usually are
	held := few[:0]
	for _, id := range set {
		held = append(held, l.positionOf(id, f))
	}
	slices.Sort(held)
	w := writeQuorum(len(set), l.rec.MinISR)
	if mutant.WLow {
		w = max(1, w-1)
	}
	return held[len(held)-w]
}

// writeQuorum is W of a set of n replicas: a majority, or the minimum where that is more.
func writeQuorum(n int, minISR int32) int { return max(n/2+1, min(int(minISR), n)) }

// positionOf is a replica's position in this epoch; one that has not fetched in it has none.
func (l *Leader) positionOf(id int32, f Facts) int64 {
	if id == l.me {
		return Position(l.rec, f)
	}
	if m := l.member(id); m != nil && m.brokerEpoch != 0 {
		return m.off
	}
	return 0
}

// copies counts the replicas that hold the record at offset last, the leader among them, by positions of this epoch.
func (l *Leader) copies(last int64, f Facts) int {
	n := 0
	for _, id := range l.rec.Replicas {
		if l.positionOf(id, f) > last {
			n++
		}
	}
	return n
}

// WouldCommit gives the offsets up to which a majority and the in-sync replicas hold the log, whatever rule is in force:
// the same traffic seen by both.
func (l *Leader) WouldCommit(f Facts) (quorum, inSync int64) {
	return l.quorumPoint(f), l.inSyncPoint(f)
}

// MayAppend says whether a produce with these acks may be appended: ErrInvalidAcks, ErrNotEnoughReplicas or nil. acks is
// the effective wait, topic's minimum included. A wait for a commit that the live replicas cannot bring is refused at once.
func (l *Leader) MayAppend(acks int16, brokers Brokers, now time.Time) error {
	if acks < AcksAll || int(acks) > len(l.rec.Replicas) {
		return ErrInvalidAcks
	}
	if l.needsCommit(acks) {
		if l.rec.Rule != metadata.RuleQuorum && len(l.rec.ISR) < int(l.rec.MinISR) {
			return ErrNotEnoughReplicas
		}
		if l.rec.Rule != metadata.RuleISR && !(reachable(l.rec.Replicas, l.rec.MinISR, brokers) && reachable(l.rec.NewReplicas, l.rec.MinISR, brokers)) {
			return ErrNotEnoughReplicas
		}
	}
	if !l.heard(now) {
		return ErrNotEnoughReplicas
	}
	return nil
}

// reachable says that as many replicas of a set are unfenced as a commit needs; of an empty one none are needed.
func reachable(set []int32, minISR int32, brokers Brokers) bool {
	alive := 0
	for _, id := range set {
		if brokers.Broker(id).Alive() {
			alive++
		}
	}
	return len(set) == 0 || alive >= writeQuorum(len(set), minISR)
}

// needsCommit says that these acks promise a commit: all, and counts that reach the write quorum.
func (l *Leader) needsCommit(acks int16) bool {
	return acks == AcksAll || acks > 1 && int(acks) >= writeQuorum(len(l.rec.Replicas), l.rec.MinISR)
}

// heard is the leader's own check that it is not cut off: within the lag bound as many others have fetched in this epoch
// as the rule needs beside the leader. Under the ISR rule replicas that a record took out of the ISR are not waited for,
// so a leader that lives on alone goes on with acks=1.
func (l *Leader) heard(now time.Time) bool {
	need := min(int(l.rec.MinISR), len(l.rec.ISR)) - 1
	if l.rec.Rule.ElectBy() == metadata.RuleQuorum {
		need = writeQuorum(len(l.rec.Replicas), l.rec.MinISR) - 1
	}
	if need <= 0 || now.Sub(l.since) <= l.opt.LagMax {
		return true
	}
	for i := range l.match {
		if m := &l.match[i]; m.id != l.me && !m.lastFetch.IsZero() && now.Sub(m.lastFetch) <= l.opt.LagMax {
			need--
		}
	}
	return need <= 0
}

// Acked says whether a batch whose last record is at last is acknowledged for these acks. ErrNotEnoughReplicasAppend
// stands where it is committed but the ISR has fallen below the minimum.
func (l *Leader) Acked(acks int16, last int64, f Facts) (bool, error) {
	switch {
	case acks == AcksNone || acks == 1 || mutant.AckEarly:
		return true, nil
	case l.needsCommit(acks) && l.hw <= last:
		return false, nil
	case acks != AcksAll && l.copies(last, f) < int(acks):
		return false, nil
	case l.needsCommit(acks) && l.rec.Rule != metadata.RuleQuorum && len(l.rec.ISR) < int(l.rec.MinISR):
		return true, ErrNotEnoughReplicasAppend
	}
	return true, nil
}
