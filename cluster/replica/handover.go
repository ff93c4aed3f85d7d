package replica

import (
	"time"

	"cordwood/fsm/metadata"
)

// handover is a pause of a leader's appends in favour of its successor.
type handover struct {
	metadata.Handover
	over chan struct{} // closed when appends may go on
	told bool          // the successor has everything, and the controller was told
}

// HandOver makes this node's leaders ready to be succeeded: each one appends nothing until its successor has all of its
// log, which is told by the session, and until it is deposed; it goes on by itself after the time that the controller
// allows. What this node does not lead in that epoch is left out.
func (m *Manager) HandOver(items []metadata.Handover) {
	for _, h := range items {
		p := m.find(h.Partition)
		if p == nil {
			continue
		}
		if paused := p.Pause(h); paused != nil {
			time.AfterFunc(time.Duration(h.PauseMS)*time.Millisecond, func() { p.resume(paused) })
		}
	}
}

// Pause begins a handover, nil if this replica does not lead in its epoch or is at one already. The caller ends it with
// resume. It does not wait for an append in flight, whose disk may hang: the successor has that one too before the
// controller has acted.
func (p *Partition) Pause(h metadata.Handover) *handover {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leader == nil || p.leader.Epoch() != h.LeaderEpoch || p.handover != nil {
		return nil
	}
	p.handover = &handover{Handover: h, over: make(chan struct{})}
	p.tellReady()
	return p.handover
}

// resume lets appends go on, if they still wait for this handover.
func (p *Partition) resume(h *handover) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.handover == h {
		p.endHandover()
	}
}

// endHandover lets appends go on, or meet that this replica leads no more. The caller holds mu.
func (p *Partition) endHandover() {
	if p.handover != nil {
		close(p.handover.over)
		p.handover = nil
	}
}

// tellReady tells the controller once that the successor has everything. The caller holds mu.
func (p *Partition) tellReady() {
	h := p.handover
	if h == nil || h.told || p.leader == nil {
		return
	}
	for _, r := range p.leader.Replicas(p.log, p.node.now()) {
		if r.ID == h.To && r.LogEnd >= p.log.EndOffset() {
			h.told = true
			p.node.ready(h.Handover)
		}
	}
}
