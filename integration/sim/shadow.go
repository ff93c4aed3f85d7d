package sim

import (
	"slices"

	"cordwood/fsm/metadata"
	"cordwood/logstore"
	"cordwood/logstore/record"
)

// entry is one record as the shadow knows it.
type entry struct {
	epoch int32
	name  int // -1: a marker
}

// shadow is what no replica can see: everything that was committed, in order, and what was acknowledged.
type shadow struct {
	committed []entry
	acked     map[int64]int
	written   map[place]int   // record by the place that its leader gave it: there is one leader in an epoch
	losses    int             // flagged elections
	leaders   map[int32]int32 // leader by leader epoch
}

// place is a leader epoch and an offset: two logs that agree on it have the same record there.
type place struct {
	epoch  int32
	offset int64
}

// at says what stands at an offset of a log by its place, without reading it. A place that no producer's record was
// written to holds a marker.
func (w *World) at(l *logstore.Log, offset int64) entry {
	e := entry{epoch: l.EpochAt(offset), name: -1}
	if name, ok := w.shadow.written[place{e.epoch, offset}]; ok {
		e.name = name
	}
	return e
}

// read gives the entries [from, to) of a log; an error of the disk is the caller's to judge.
func read(l *logstore.Log, from, to int64) (out []entry, err error) {
	for at := from; at < to; {
		info, err := l.Read(at, 1<<20, l.EndOffset(), true)
		if err != nil {
			return nil, err
		}
		es, end, err := entriesOf(info.Spans, at)
		for _, s := range info.Spans {
			s.Release()
		}
		if err != nil {
			return nil, err
		}
		if end == at {
			return nil, errEmpty
		}
		for i, e := range es {
			if e.epoch != l.EpochAt(at+int64(i)) { // no checksum covers it
				return nil, record.ErrCorruptBatch
			}
		}
		out = append(out, es[:min(int64(len(es)), to-at)]...)
		at = end
	}
	return out, nil
}

// entriesOf gives the entries from an offset on that spans hold, and their end. The spans are not released.
func entriesOf(spans []record.Span, from int64) (out []entry, end int64, err error) {
	var rr record.RecordReader
	var b []byte
	for _, s := range spans {
		piece := make([]byte, s.Len)
		if _, e := s.Src.ReadAt(piece, s.Off); e != nil && err == nil {
			err = e
		}
		b = append(b, piece...)
	}
	end = from
	for len(b) > 0 && err == nil {
		var h record.Header
		if h, err = record.ParseHeader(b); err == nil {
			err = record.Verify(&h, b)
		}
		if err == nil && (h.BaseOffset > end || h.EndOffset() <= end) { // no checksum covers these
			err = record.ErrCorruptBatch
		}
		if err == nil {
			err = rr.Reset(&h, b)
		}
		if err != nil {
			break
		}
		for off := h.BaseOffset; rr.Next(); off++ {
			e := entry{h.LeaderEpoch, -1}
			if !h.IsControl() {
				e.name = nameOf(rr.Record.Value)
			}
			if off >= from {
				out = append(out, e)
			}
		}
		end, b = h.EndOffset(), b[h.Size():]
	}
	return out, end, err
}

var errEmpty = logstoreError("nothing was read")

type logstoreError string

func (e logstoreError) Error() string { return string(e) }

// observe takes over what leaders committed since, and checks what every replica takes for committed: I2 and I6.
func (w *World) observe() {
	for _, n := range w.nodes {
		p := n.replica()
		if p == nil {
			continue
		}
		l := p.Log()
		hw, start := l.HighWatermark(), l.StartOffset()
		if n.seen.log != l {
			n.seen = seen{log: l}
		}
		if loss := l.AppliedLoss(); loss > n.seen.loss {
			n.seen.loss, n.seen.hw = loss, min(n.seen.hw, hw) // old claims have ended
		}
		led := p.Office() != nil || n.seen.led
		n.seen.led = p.Office() != nil
		if hw == n.seen.hw {
			continue
		}
		if m := p.Record().Member(n.id); hw < n.seen.hw && (n.seen.empty || m != nil && m.Cert < 0) {
			n.seen.hw = hw
		}
		if hw < n.seen.hw {
			w.fail("I6: node %d moves its high watermark from %d back to %d", n.id, n.seen.hw, hw)
		}
		if hw > l.EndOffset() || hw < start {
			w.fail("I6: node %d has high watermark %d, log %d to %d", n.id, hw, start, l.EndOffset())
		}
		w.note("node %d: high watermark %d to %d (leads %v), end %d", n.id, n.seen.hw, hw, led, l.EndOffset())
		from := max(n.seen.hw, start)
		for off := from; off < hw; off++ {
			e := w.at(l, off)
			switch {
			case off < int64(len(w.shadow.committed)):
				if have := w.shadow.committed[off]; have != e {
					w.fail("I2: node %d takes %v at %d for committed, %v is", n.id, e, off, have)
				}
			case off == int64(len(w.shadow.committed)) && led:
				w.shadow.committed = append(w.shadow.committed, e)
				w.count("committed")
			default:
				w.fail("I2: node %d (leads: %v) takes %d for committed, the committed log ends at %d", n.id, led, off, len(w.shadow.committed))
			}
		}
		n.seen.hw = hw
	}
}

// checkRecord is I1: epochs only rise, and an epoch has one leader.
func (w *World) checkRecord(old, p *metadata.Partition) {
	if p.LeaderEpoch < old.LeaderEpoch || p.PartitionEpoch < old.PartitionEpoch {
		w.fail("I1: epochs fall: leader epoch %d to %d, partition epoch %d to %d", old.LeaderEpoch, p.LeaderEpoch, old.PartitionEpoch, p.PartitionEpoch)
	}
	if p.Leader == metadata.NoNode {
		return
	}
	if have, ok := w.shadow.leaders[p.LeaderEpoch]; ok && have != p.Leader {
		w.fail("I1: nodes %d and %d lead epoch %d", have, p.Leader, p.LeaderEpoch)
	}
	w.shadow.leaders[p.LeaderEpoch] = p.Leader
}

// check holds what is true between any two steps.
func (w *World) check() {
	w.observe()
	w.settle()
	w.checkLeader()
	w.checkEligible()
	w.checkHeld()
	for _, n := range w.nodes {
		if p := n.replica(); p != nil {
			if q, _ := p.Stuck(); q != "" {
				w.fail("I7: node %d is quarantined: %s", n.id, q)
			}
		}
	}
}

// checkLeader is I3: whoever leads by the newest record has everything committed.
func (w *World) checkLeader() {
	p := w.head()
	if p.Leader == metadata.NoNode {
		return
	}
	n := w.node(p.Leader)
	l := n.office()
	if l == nil || n.be != p.LeaderBrokerEpoch || l.Epoch() != p.LeaderEpoch || n.seen.epoch == p.LeaderEpoch {
		return
	}
	n.seen.epoch = p.LeaderEpoch
	log := n.replica().Log()
	end, start := int64(len(w.shadow.committed)), log.StartOffset()
	if log.EndOffset() < end {
		w.fail("I3: node %d leads epoch %d with end %d, %d records are committed", n.id, p.LeaderEpoch, log.EndOffset(), end)
	}
	if start >= end {
		return
	}
	for off := start; off < end; off++ {
		if e := w.at(log, off); e != w.shadow.committed[off] {
			w.fail("I3: node %d leads epoch %d with %v at %d, %v is committed", n.id, p.LeaderEpoch, e, off, w.shadow.committed[off])
		}
	}
}

// position is what a node's copy counts for.
func (n *node) position(durability metadata.Durability) int64 {
	l := n.replica().Log()
	if durability == metadata.DurabilityDisk {
		return l.FlushedOffset()
	}
	return l.EndOffset()
}

// checkEligible is I8 and I9: whoever the ISR rule may elect has everything, and the leader counts it.
func (w *World) checkEligible() {
	p := w.head()
	if p.Rule.ElectBy() != metadata.RuleISR {
		return
	}
	for _, id := range slices.Concat(p.ISR, p.ELR) {
		n := w.node(id)
		if !n.current() || n.replica() == nil {
			continue
		}
		if pos := n.position(p.Durability); pos < int64(len(w.shadow.committed)) {
			w.fail("I8: node %d is in ISR %v or ELR %v with position %d, %d records are committed", id, p.ISR, p.ELR, pos, len(w.shadow.committed))
		}
	}
	if p.Leader == metadata.NoNode || len(p.ISR) < int(p.MinISR) {
		return
	}
	n := w.node(p.Leader)
	l := n.office()
	if l == nil || l.Epoch() != p.LeaderEpoch || n.be != p.LeaderBrokerEpoch || len(l.Record().ISR) < int(l.Record().MinISR) {
		return
	}
	counts := l.MaximalISR()
	for _, id := range slices.Concat(p.ISR, p.ELR) {
		if !slices.Contains(counts, id) {
			w.fail("I9: node %d may be elected, but leader %d counts only %v", id, n.id, counts)
		}
	}
}

// checkHeld is I10: under the quorum rule, with u replicas untrusted or their memory gone, W-u others hold all of the
// committed log.
func (w *World) checkHeld() {
	p := w.head()
	if p.Rule != metadata.RuleQuorum || len(p.NewReplicas) > 0 || p.LossEpoch > 0 && w.settling() {
		return
	}
	holders, untrusted := 0, 0
	for _, id := range p.Replicas {
		n := w.node(id)
		lossy := n.lost && p.Durability != metadata.DurabilityDisk
		switch {
		case lossy || !metadata.Trusted(p, id, w.image().Broker):
			untrusted++
		case n.end() >= int64(len(w.shadow.committed)):
			holders++
		}
	}
	if need := max(len(p.Replicas)/2+1, min(int(p.MinISR), len(p.Replicas))); holders+untrusted < min(need, len(p.Replicas)/2+1) {
		w.fail("I10: %d trusted replicas hold the %d committed records, %d are untrusted, %d are needed", holders, len(w.shadow.committed), untrusted, need)
	}
}

// settling says that a flagged election was not followed by a commit yet.
func (w *World) settling() bool { return w.shadow.losses > 0 }

// end is a node's log end, also while it is down.
func (n *node) end() int64 {
	if p := n.replica(); p != nil {
		return p.Log().EndOffset()
	}
	return n.claim.end
}

// flagged shortens what must survive to what the chosen log has: the loss was told.
func (w *World) flagged(e *metadata.UnsafeElection) {
	w.shadow.losses++
	w.count("flagged election")
	n := w.node(e.Leader.ID)
	p := n.replica()
	if p == nil {
		w.fail("a process that does not run was elected")
	}
	l := p.Log()
	start, end := l.StartOffset(), l.EndOffset()
	keep := min(int64(len(w.shadow.committed)), end)
	for off := start; off < keep; off++ {
		if w.at(l, off) != w.shadow.committed[off] {
			keep = off
		}
	}
	w.note("flagged election of node %d: %d of %d committed stay", n.id, keep, len(w.shadow.committed))
	if keep < int64(len(w.shadow.committed)) {
		w.count("flagged loss")
	}
	w.shadow.committed = w.shadow.committed[:keep]
	for o := range w.shadow.acked {
		if o >= keep {
			delete(w.shadow.acked, o)
		}
	}
}
