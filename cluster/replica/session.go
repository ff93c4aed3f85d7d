package replica

import (
	"bytes"
	"slices"
	"sync"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
)

// sessionQueue holds what the broker's session loop tells the controller with its next heartbeat. It is bounded by the
// hosted partitions: one entry each.
type sessionQueue struct {
	changed chan struct{}

	// mu is a leaf lock.
	mu      sync.Mutex
	damaged map[record.PartitionID]bool // until a record shows it
	certify map[certKey]metadata.Certification
}

type certKey struct {
	id     record.PartitionID
	broker int32
}

// SessionChanged is signalled when DrainSession has something new to tell, so that the session loop need not wait.
func (m *Manager) SessionChanged() <-chan struct{} { return m.session.changed }

// DrainSession gives what the next heartbeat carries beside reports: damaged replicas, told again until a record shows
// them, and certifications, told once (their leader asks again).
func (m *Manager) DrainSession() (damaged []record.PartitionID, certify []metadata.Certification) {
	q := &m.session
	q.mu.Lock()
	defer q.mu.Unlock()
	for id := range q.damaged {
		damaged = append(damaged, id)
	}
	slices.SortFunc(damaged, comparePartitions)
	for _, c := range q.certify {
		certify = append(certify, c)
	}
	clear(q.certify)
	return damaged, certify
}

func comparePartitions(a, b record.PartitionID) int {
	if c := bytes.Compare(a.Topic[:], b.Topic[:]); c != 0 {
		return c
	}
	return int(a.Partition) - int(b.Partition)
}

func (q *sessionQueue) rouse() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

func (m *Manager) certify(c metadata.Certification) {
	q := &m.session
	q.mu.Lock()
	if q.certify == nil {
		q.certify = make(map[certKey]metadata.Certification)
	}
	q.certify[certKey{c.Partition, c.Broker.ID}] = c
	q.mu.Unlock()
	q.rouse()
}

func (q *sessionQueue) damage(id record.PartitionID) {
	q.mu.Lock()
	if q.damaged == nil {
		q.damaged = make(map[record.PartitionID]bool)
	}
	q.damaged[id] = true
	q.mu.Unlock()
	q.rouse()
}

func (q *sessionQueue) isDamaged(id record.PartitionID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.damaged[id]
}

func (q *sessionQueue) settle(id record.PartitionID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.damaged, id)
}

// Reports answers the controller's wish to know the logs of partitions without a leader. A partition that is led, that
// this node does not host or whose log cannot be trusted to report is left out.
func (m *Manager) Reports(ids []record.PartitionID) []metadata.ReplicaReportItem {
	var out []metadata.ReplicaReportItem
	for _, id := range ids {
		if p := m.find(id); p != nil {
			if r, ok := p.Report(); ok {
				out = append(out, r)
			}
		}
	}
	return out
}

// Report says what this replica has, once it has left all earlier epochs.
func (p *Partition) Report() (r metadata.ReplicaReportItem, ok bool) {
	p.writing.Lock() // an append in flight ends first
	defer p.writing.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rec == nil || p.role != partition.RoleIdle || p.rec.Leader != metadata.NoNode || p.failed != nil || p.quarantined != "" {
		return r, false
	}
	return metadata.ReplicaReportItem{Partition: p.id, Epoch: p.rec.LeaderEpoch, LastEpoch: p.log.LastEpoch(), End: p.log.EndOffset(), HW: p.log.HighWatermark()}, true
}
