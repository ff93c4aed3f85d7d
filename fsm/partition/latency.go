package partition

import "time"

// AckBounds are the upper bounds of an AckHistogram's buckets; the last bucket is open.
var AckBounds = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
}

// AckHistogram counts how long batches waited.
type AckHistogram struct {
	Counts [len(AckBounds) + 1]int64 // by bucket, not cumulative
	Sum    time.Duration
}

// Observe counts one batch.
func (h *AckHistogram) Observe(d time.Duration) {
	i := 0
	for i < len(AckBounds) && d > AckBounds[i] {
		i++
	}
	h.Counts[i]++
	h.Sum += max(d, 0)
}

// Add counts what o counted too.
func (h *AckHistogram) Add(o *AckHistogram) {
	for i, n := range o.Counts {
		h.Counts[i] += n
	}
	h.Sum += o.Sum
}

// ByRecord stands among AckLatency.CompletedBy where no replica completed an acknowledgement, but a change of the
// partition's record, such as an ISR that shrank.
const ByRecord int32 = -1

// AckLatency is what leaders measured of the same batches: when each would have been acknowledged, whatever rule is in
// force, from the moment that its request was taken up.
type AckLatency struct {
	Leader AckHistogram // the leader had appended it
	Quorum AckHistogram // a majority, or min.insync.replicas where that is more, counted it
	ISR    AckHistogram // every in-sync replica counted it, and they were enough
	// CompletedBy counts, for each replica, the batches that were committed, by the rule in force, when it counted them.
	CompletedBy map[int32]int64
	// Skipped are batches that were not measured, because too many before them waited for one of the rules.
	Skipped int64
	// Raised are batches whose topic waits for more acknowledgement than their producer asked for.
	Raised int64
}

// Add counts what o counted too.
func (a *AckLatency) Add(o *AckLatency) {
	a.Leader.Add(&o.Leader)
	a.Quorum.Add(&o.Quorum)
	a.ISR.Add(&o.ISR)
	a.Skipped += o.Skipped
	a.Raised += o.Raised
	for id, n := range o.CompletedBy {
		if a.CompletedBy == nil {
			a.CompletedBy = make(map[int32]int64)
		}
		a.CompletedBy[id] += n
	}
}

// Points is how far the records of a leader count under each rule by now, whatever rule is in force: exclusive ends.
type Points struct {
	Quorum int64 // on W replicas, of both sets while the replica set changes
	InSync int64 // on the maximal ISR; 0 where that is below the minimum
}

// Points computes them from positions of this epoch.
func (l *Leader) Points(f Facts) Points {
	p := Points{Quorum: l.quorumPoint(f)}
	if len(l.rec.ISR) >= int(l.rec.MinISR) {
		p.InSync = l.inSyncPoint(f)
	}
	return p
}
