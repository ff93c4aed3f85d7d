package replica

import (
	"cordwood/fsm/partition"
)

// flushed notes that p's copy may count further than the leader was told.
func (f *fetcher) flushed(p *Partition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fo := f.parts[p.id]
	if fo == nil || fo.p != p || fo.acks {
		return
	}
	fo.acks = true
	f.flushes = append(f.flushes, fo)
	f.rouse()
}

// dropAcks forgets what was to be acknowledged: the fetches of a new session tell it. The caller holds mu.
func (f *fetcher) dropAcks() {
	for _, fo := range f.flushes {
		fo.acks = false
	}
	f.flushes = nil
}

// nextAck makes an Ack of all positions that the leader was not told yet; nil where there is none. One is sent when the
// session is open and in the turn of its fetches: a leader counts only what lies below the last of them.
func (f *fetcher) nextAck(s *session) *partition.Ack {
	if s.id == 0 {
		return nil
	}
	a := &partition.Ack{Replica: f.m.opt.NodeID, BrokerEpoch: f.m.brokerEpoch(), Session: s.id}
	for len(a.Positions) < partition.MaxAckPositions {
		fo := f.nextFlushed()
		if fo == nil {
			break
		}
		if pos, ok := fo.p.NextAck(f.leader); ok {
			a.Positions = append(a.Positions, pos)
		}
	}
	if len(a.Positions) == 0 {
		return nil
	}
	return a
}

// nextFlushed takes one partition out of those that may have something to acknowledge in the present session.
func (f *fetcher) nextFlushed() *following {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.flushes) > 0 {
		fo := f.flushes[0]
		f.flushes[0] = nil
		f.flushes = f.flushes[1:]
		fo.acks = false
		if fo.named && f.parts[fo.p.id] == fo {
			return fo
		}
	}
	f.flushes = nil
	return nil
}
