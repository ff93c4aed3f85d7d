package partition

import (
	"slices"
	"time"

	"cordwood/fsm/metadata"
	"cordwood/fsm/mutant"
)

// Leader is the state of a leader in one leader epoch. A new epoch makes a new Leader, also for the same replica, so that
// nothing counted in an older epoch survives. It is not safe for concurrent use.
type Leader struct {
	me          int32
	brokerEpoch int64
	opt         Options

	rec   *metadata.Partition // newest record applied, of this leader epoch
	leso  int64               // log end when the office was taken, before its marker
	tip   int64               // log end after the last append that was told
	hw    int64
	since time.Time // when the office was taken
	match []progress

	proposals  [][]int32 // every ISR proposed at rec.PartitionEpoch; only a later record empties it
	proposedAt time.Time

	change change // of rule, durability or replicas, while one is under way
}

// progress is what the leader knows of one member, itself included. Offsets were counted in this leader epoch.
type progress struct {
	id          int32
	brokerEpoch int64 // of the process that fetched; 0 none did in this epoch
	off         int64 // the position that counts
	fetched     int64 // its log end at its last fetch: nothing above it was found to continue this log
	certPoint   int64 // log end at its first fetch: at or above it the log of this process is complete
	logStart    int64 // -1 unknown
	mark        int64 // the leader's end at markAt; once the replica counts up to there, it had caught up then

	lastFetch    time.Time
	markAt       time.Time // zero: no mark
	lastCaughtUp time.Time
	certifiedAt  time.Time // when Certify was last asked for
}

// Fetch is what a leader judges of a follower's fetch.
type Fetch struct {
	Replica          int32
	BrokerEpoch      int64
	LeaderEpoch      int32
	Offset           int64
	LastFetchedEpoch int32 // epoch of the record before Offset; -1 only at offset 0
	AckOffset        int64 // the follower's position that counts; -1: equal to Offset
	LogStart         int64
	JoinPE           int32 // of the stay that the follower speaks of
}

// Verdict says how a follower's fetch is answered: refused, told to reset or where the logs part, else with records.
type Verdict struct {
	Err       error
	Reset     bool
	Diverging bool
	At        EpochEnd // where the logs part
}

// NewLeader takes office in rec's leader epoch. The caller has entered the epoch in the log before, at offset leso, and
// appended the marker there if NeedsMarker asked for it.
func NewLeader(me int32, brokerEpoch int64, rec *metadata.Partition, leso int64, brokers Brokers, f Facts, opt Options, now time.Time) (*Leader, Effects) {
	l := &Leader{me: me, brokerEpoch: brokerEpoch, opt: opt, leso: leso, tip: f.EndOffset(), since: now}
	l.hw = min(max(f.HighWatermark(), f.StartOffset()), leso)
	l.setRecord(rec, now)
	e := l.takePoint(f, true, now)
	e.merge(l.advance(f))
	e.Flush = e.Flush || l.unflushed(f)
	e.merge(l.finish(brokers, f, now))
	return l, e
}

// Epoch is the leader epoch of this office.
func (l *Leader) Epoch() int32 { return l.rec.LeaderEpoch }

// Record is the newest record applied.
func (l *Leader) Record() *metadata.Partition { return l.rec }

// StartOffset is the log end when the office was taken. Until the high watermark has reached it, the newest committed
// offset is not known (KIP-207).
func (l *Leader) StartOffset() int64 { return l.leso }

// HighWatermark is the exclusive end of what is committed.
func (l *Leader) HighWatermark() int64 { return l.hw }

// setRecord takes a record of this epoch and keeps the progress of those who are still members, but of no one whose log
// may have been damaged since or that left and came back: what it fetched before says nothing of what it holds now. anew
// lists those.
func (l *Leader) setRecord(rec *metadata.Partition, now time.Time) (anew []int32) {
	old := l.match
	changed := l.rec != nil && rec.PartitionEpoch != l.rec.PartitionEpoch
	l.match = make([]progress, 0, len(rec.Members))
	for i := range rec.Members {
		id := rec.Members[i].ID
		m := progress{id: id, logStart: -1}
		if k := slices.IndexFunc(old, func(p progress) bool { return p.id == id }); k >= 0 {
			m = old[k]
		}
		if changed && id != l.me && m.brokerEpoch != 0 && l.voided(rec, id) {
			m, anew = progress{id: id, logStart: -1}, append(anew, id)
		}
		if m.lastCaughtUp.IsZero() && slices.Contains(rec.ISR, id) {
			m.lastCaughtUp = now
		}
		l.match = append(l.match, m)
	}
	l.rec = rec
	return anew
}

// voided says that what a member's process fetched before rec does not speak for its log any more: it joined anew, or it
// has no certificate where a member of V lost one. A newcomer has none yet, and nothing is held against it.
func (l *Leader) voided(rec *metadata.Partition, id int32) bool {
	was, is := l.rec.Member(id), rec.Member(id)
	if was != nil && was.JoinPE != is.JoinPE && !mutant.FinNoBump {
		return true
	}
	newcomer := !slices.Contains(rec.Replicas, id)
	return is.Cert < 0 && !newcomer && !slices.Contains(rec.ISR, id)
}

func (l *Leader) member(id int32) *progress {
	for i := range l.match {
		if l.match[i].id == id {
			return &l.match[i]
		}
	}
	return nil
}

// OnView applies a newer record of the same leader epoch. It is the only thing that settles proposals: one partition
// epoch is won by one proposal, and only the record says by which.
func (l *Leader) OnView(rec *metadata.Partition, brokers Brokers, f Facts, now time.Time) Effects {
	if rec.PartitionEpoch > l.rec.PartitionEpoch || mutant.PendAnyUpdate {
		l.proposals = nil
	}
	anew := l.setRecord(rec, now)
	e := l.takePoint(f, false, now)
	e.merge(l.advance(f))
	e.merge(l.maintain(brokers, f, now))
	e.merge(l.finish(brokers, f, now))
	e.Anew = anew
	return e
}

// OnAppend follows an append of the leader's own. A replica that had everything before it starts to lag now.
func (l *Leader) OnAppend(f Facts, now time.Time) Effects {
	for i := range l.match {
		if m := &l.match[i]; m.brokerEpoch != 0 && m.off >= l.tip {
			m.lastCaughtUp = now
		}
		if mutant.CountsSent && l.match[i].brokerEpoch != 0 {
			l.match[i].off = f.EndOffset()
		}
	}
	l.tip = f.EndOffset()
	e := l.advance(f)
	e.Flush = l.unflushed(f)
	return e
}

// Heard notes that a follower's fetch was there at the given time although it did not name this partition: one that has
// fetched in this epoch is parked here until there is something to tell.
func (l *Leader) Heard(replica int32, brokerEpoch int64, at time.Time) {
	if m := l.member(replica); m != nil && m.brokerEpoch == brokerEpoch && at.After(m.lastFetch) {
		m.lastFetch = at
	}
}

// OnFlush follows a flush of the leader's own log.
func (l *Leader) OnFlush(brokers Brokers, f Facts, now time.Time) Effects {
	e := l.advance(f)
	e.merge(l.finish(brokers, f, now))
	return e
}

// OnFetch judges a follower's fetch and counts its position. A refused, diverging or reset fetch counts for nothing.
func (l *Leader) OnFetch(q Fetch, brokers Brokers, f Facts, now time.Time) (Verdict, Effects) {
	if err := CheckEpoch(l.rec.LeaderEpoch, q.LeaderEpoch); err != nil && !(mutant.OldEpochFetch && q.LeaderEpoch < l.rec.LeaderEpoch) {
		return Verdict{Err: err}, Effects{}
	}
	m := l.member(q.Replica)
	if m == nil || q.Replica == l.me {
		return Verdict{Err: ErrNotReplica}, Effects{}
	}
	if b := brokers.Broker(q.Replica); q.BrokerEpoch < m.brokerEpoch || b != nil && q.BrokerEpoch < b.Epoch {
		return Verdict{Err: ErrStaleBrokerEpoch}, Effects{}
	}
	if r := l.rec.Member(q.Replica); r.JoinPE != q.JoinPE {
		// It speaks of a log that was emptied since, or one of both has not heard yet that it was.
		return Verdict{Err: ErrOffsetNotAvailable}, Effects{}
	}
	if v, whole := Place(q.Offset, q.LastFetchedEpoch, f); !whole {
		if mutant.DivergeCounts && v.Diverging {
			l.count(m, q, f, now)
			return v, l.counted(m, brokers, f, now)
		}
		return v, Effects{}
	}
	l.count(m, q, f, now)
	return Verdict{}, l.counted(m, brokers, f, now)
}

// counted follows a position that was counted.
func (l *Leader) counted(m *progress, brokers Brokers, f Facts, now time.Time) Effects {
	e := l.advance(f)
	e.merge(l.certify(m, brokers, now))
	if !slices.Contains(l.rec.ISR, m.id) {
		e.merge(l.maintain(brokers, f, now))
	}
	e.merge(l.finish(brokers, f, now))
	return e
}

// OnAck counts a position that came without a fetch. It is dropped where it does not speak of this epoch and process, or
// names more than the process has shown to continue this log: a follower asks for the next records before it acknowledges
// the last ones.
func (l *Leader) OnAck(replica int32, brokerEpoch int64, leaderEpoch int32, off int64, brokers Brokers, f Facts, now time.Time) Effects {
	m := l.member(replica)
	if m == nil || leaderEpoch != l.rec.LeaderEpoch || m.brokerEpoch == 0 || brokerEpoch != m.brokerEpoch || off > min(m.fetched, f.EndOffset()) {
		return Effects{}
	}
	m.off = off
	m.reached(f.EndOffset(), now)
	return l.counted(m, brokers, f, now)
}

// Place finds whether a follower's offset continues this log; else where it has to go. Retention may raise the log start
// meanwhile: what was found holds only for the start it was found with.
func Place(offset int64, last int32, f Facts) (v Verdict, whole bool) {
	for {
		start, epoch := f.Start()
		v, whole = place(start, epoch, offset, last, f)
		if f.StartOffset() == start {
			return v, whole
		}
	}
}

func place(start int64, startEpoch int32, offset int64, last int32, f Facts) (Verdict, bool) {
	if offset < start {
		return Verdict{Reset: true}, false
	}
	if offset == start {
		// What lies before the log start is known by its epoch alone; another one is another history than ours.
		return Verdict{Reset: startEpoch != last}, startEpoch == last
	}
	if offset <= f.EndOffset() && f.EpochAt(offset-1) == last {
		return Verdict{}, true
	}
	epoch, end := f.EpochEnd(last)
	if epoch < 0 || end < start {
		epoch, end = startEpoch, start // older than all that is left here: nothing after the log start is shared
	}
	return Verdict{Diverging: true, At: EpochEnd{Epoch: epoch, End: end}}, false
}

// EpochBefore is the leader epoch of the record before offset, which lies in [start, end].
func EpochBefore(offset int64, f Facts) int32 {
	if start, epoch := f.Start(); offset <= start {
		return epoch
	}
	return f.EpochAt(offset - 1)
}

func (l *Leader) count(m *progress, q Fetch, f Facts, now time.Time) {
	off := q.AckOffset
	if off < 0 {
		off = q.Offset
	}
	end := f.EndOffset()
	off = min(off, q.Offset, end)
	if q.BrokerEpoch > m.brokerEpoch { // another process: what the one before had says nothing
		next := progress{id: m.id, brokerEpoch: q.BrokerEpoch, off: off, certPoint: end}
		if m.brokerEpoch == 0 {
			next.lastCaughtUp = m.lastCaughtUp // an in-sync replica's grace since the office was taken
		}
		*m = next
	} else {
		m.off = off
	}
	m.reached(end, now)
	m.fetched, m.logStart, m.lastFetch = q.Offset, q.LogStart, now
}

// reached notes when a replica was last known to have everything: now, or at the mark that it has got to since. A mark
// stays until then: positions that count from disk lag behind fetches, and would never meet one that moved with each.
func (m *progress) reached(end int64, now time.Time) {
	switch {
	case m.off >= end:
		m.lastCaughtUp = now
	case m.markAt.IsZero():
	case m.off < m.mark:
		return
	case m.markAt.After(m.lastCaughtUp):
		m.lastCaughtUp = m.markAt
	}
	m.mark, m.markAt = end, now
}

// certify asks for the certificate of a replica that lost its memory or was never certified, once its log has
// everything that was here at its first fetch.
func (l *Leader) certify(m *progress, brokers Brokers, now time.Time) Effects {
	r, b := l.rec.Member(m.id), brokers.Broker(m.id)
	if r == nil || b == nil || b.Epoch != m.brokerEpoch {
		return Effects{}
	}
	point := m.certPoint
	switch {
	case mutant.CertEarly:
		point = 0
	case mutant.CertAtHW:
		point = min(point, l.hw)
	}
	if r.Cert >= b.LossPower && r.Cert >= 0 || m.off < point || now.Sub(m.certifiedAt) < l.opt.Retry && !m.certifiedAt.IsZero() {
		return Effects{}
	}
	m.certifiedAt = now
	return Effects{Certify: &metadata.Certification{
		Partition:         l.rec.ID,
		LeaderEpoch:       l.rec.LeaderEpoch,
		LeaderBrokerEpoch: l.brokerEpoch,
		Broker:            metadata.BrokerEpoch{ID: m.id, Epoch: m.brokerEpoch},
		JoinPE:            r.JoinPE,
	}}
}

// LogStart is the lowest log start of the replicas for which live says yes; a replica that has not told any yet counts
// with -1. DeleteRecords waits for it.
func (l *Leader) LogStart(f Facts, live func(id int32) bool) int64 {
	low := f.StartOffset()
	for i := range l.match {
		if m := &l.match[i]; m.id != l.me && live(m.id) {
			low = min(low, m.logStart)
		}
	}
	return low
}

// ReplicaView is what a leader knows of one replica.
type ReplicaView struct {
	ID           int32
	Position     int64 // that counts; -1 unknown in this epoch
	LogEnd       int64 // at its last fetch; -1 unknown in this epoch
	InSync       bool
	LastFetch    time.Time // zero: none in this epoch
	LastCaughtUp time.Time
}

// Replicas lists the members with what is known of them.
func (l *Leader) Replicas(f Facts, now time.Time) []ReplicaView {
	out := make([]ReplicaView, 0, len(l.match))
	for i := range l.match {
		m := &l.match[i]
		v := ReplicaView{ID: m.id, Position: -1, LogEnd: -1, InSync: slices.Contains(l.rec.ISR, m.id), LastFetch: m.lastFetch, LastCaughtUp: m.lastCaughtUp}
		switch {
		case m.id == l.me:
			v.Position, v.LogEnd, v.LastFetch, v.LastCaughtUp = Position(l.rec, f), f.EndOffset(), now, now
		case m.brokerEpoch != 0:
			v.Position, v.LogEnd = m.off, m.fetched
		}
		out = append(out, v)
	}
	return out
}

// CheckEpoch fences a request by leader epoch. A negative epoch of a consumer is none; a follower always has one.
func CheckEpoch(mine, theirs int32) error {
	switch {
	case theirs < mine:
		return ErrFencedLeaderEpoch
	case theirs > mine:
		return ErrUnknownLeaderEpoch
	}
	return nil
}
