package replica

import (
	"cordwood/fsm/metadata"
	"cordwood/fsm/mutant"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
)

// Reports answers the controller's wish to know the logs of partitions without a leader. A partition that is led, that
// this node does not host or whose log cannot be trusted to report is left out; so is one whose log is not on disk yet
// and has to be: it reports by itself, with SessionChanged, when it is.
func (m *Manager) Reports(ids []record.PartitionID) []metadata.ReplicaReportItem {
	var out []metadata.ReplicaReportItem
	for _, id := range ids {
		if p := m.find(id); p != nil {
			m.mendForReport(p)
			if r, ok := p.Report(); ok {
				out = append(out, r)
			}
		}
	}
	return out
}

// mendForReport repairs a damaged replica whose report is waited for, unless its record is being acted on right now: then
// the controller asks again.
func (m *Manager) mendForReport(p *Partition) {
	rec := m.record(p.id)
	if rec == nil || !m.damageShown(p.id) || !m.acting.TryLock() {
		return
	}
	defer m.acting.Unlock()
	if err := m.mend(p, rec); err != nil {
		m.duty.outcome(p.id, err, m.now())
	}
}

// Report says what this replica has, once it has left all earlier epochs. Where its copy counts from disk the log is
// flushed first: ok is false and the report follows the flush.
func (p *Partition) Report() (r metadata.ReplicaReportItem, ok bool) {
	p.writing.Lock() // an append in flight ends first
	defer p.writing.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok = p.reportNow()
	if !ok && p.mayReport() {
		p.owesReport = true
		p.node.flush(p)
	}
	return r, ok
}

// volunteer reports unasked, where leaders are elected by what a majority has. The caller holds writing and mu.
func (p *Partition) volunteer() {
	if p.rec.Rule.ElectBy() != metadata.RuleQuorum || !p.mayReport() {
		return
	}
	if r, ok := p.reportNow(); ok {
		p.node.report(r)
		return
	}
	p.owesReport = true
	p.node.flush(p)
}

// mayReport says that nobody leads in the epoch acted on and the log is to be trusted. The caller holds mu.
func (p *Partition) mayReport() bool {
	if p.rec == nil || p.role != partition.RoleIdle || p.rec.Leader != metadata.NoNode || p.failed != nil || p.unsettled || p.quarantined != "" {
		return false
	}
	_, damaged := p.log.Damaged()
	return !damaged
}

// reportNow makes the report, unless the log has to reach the disk before: what is told must outlive the power. Nothing
// is appended while nobody leads, so that a log which is flushed stays so. The caller holds mu.
func (p *Partition) reportNow() (r metadata.ReplicaReportItem, ok bool) {
	if !p.mayReport() || partition.Position(p.rec, p.log) < p.log.EndOffset() {
		return r, false
	}
	last := p.log.LastEpoch()
	if mutant.NoStartEp && p.log.EndOffset() == p.log.StartOffset() {
		last = -1
	}
	return metadata.ReplicaReportItem{Partition: p.id, Epoch: p.rec.LeaderEpoch, LastEpoch: last, End: p.log.EndOffset(), HW: p.log.RecalledHighWatermark()}, true
}
