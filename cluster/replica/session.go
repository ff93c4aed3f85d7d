package replica

import (
	"bytes"
	"cmp"
	"slices"
	"sync"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

// sessionQueue holds what the broker's session loop tells the controller with its next heartbeat. It is bounded by the
// hosted partitions: one entry each.
type sessionQueue struct {
	changed chan struct{}

	// mu is a leaf lock.
	mu      sync.Mutex
	damaged map[record.PartitionID]int32 // until it is repaired: partition epoch of the newest record when it was found
	certify map[certKey]metadata.Certification
	finish  map[record.PartitionID]metadata.Finish
	reports map[record.PartitionID]metadata.ReplicaReportItem
	ready   map[record.PartitionID]metadata.Handover
}

// SessionNews is what a heartbeat carries beside its own fields, sorted by partition.
type SessionNews struct {
	// Damaged are replicas whose logs cannot be trusted, told again until a record shows it.
	Damaged []record.PartitionID
	// Certify and Finish are told once: the leader that proved them asks again.
	Certify []metadata.Certification
	Finish  []metadata.Finish
	// Reports are told once and unasked, each in the epoch that it was made in; the controller asks for what it misses.
	Reports []metadata.ReplicaReportItem
	// Ready are handovers that may go on, told once.
	Ready []metadata.Handover
}

type certKey struct {
	id     record.PartitionID
	broker int32
}

// SessionChanged is signalled when DrainSession has something new to tell, so that the session loop need not wait.
func (m *Manager) SessionChanged() <-chan struct{} { return m.session.changed }

// DrainSession gives what the next heartbeat carries.
func (m *Manager) DrainSession() SessionNews {
	q := &m.session
	q.mu.Lock()
	defer q.mu.Unlock()
	var n SessionNews
	for id, since := range q.damaged {
		if m.shows(id, since) {
			continue // it waits to be repaired
		}
		n.Damaged = append(n.Damaged, id)
		delete(q.reports, id) // made before the damage was found
	}
	slices.SortFunc(n.Damaged, comparePartitions)
	n.Certify = drain(q.certify, func(a, b metadata.Certification) int {
		return cmp.Or(comparePartitions(a.Partition, b.Partition), cmp.Compare(a.Broker.ID, b.Broker.ID))
	})
	n.Finish = drain(q.finish, func(a, b metadata.Finish) int { return comparePartitions(a.Partition, b.Partition) })
	n.Reports = drain(q.reports, func(a, b metadata.ReplicaReportItem) int { return comparePartitions(a.Partition, b.Partition) })
	n.Ready = drain(q.ready, func(a, b metadata.Handover) int { return comparePartitions(a.Partition, b.Partition) })
	return n
}

// drain takes everything out of a queue.
func drain[K comparable, V any](queue map[K]V, order func(a, b V) int) []V {
	var out []V
	for _, v := range queue {
		out = append(out, v)
	}
	clear(queue)
	slices.SortFunc(out, order)
	return out
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

func (m *Manager) finish(f metadata.Finish) {
	q := &m.session
	q.mu.Lock()
	if q.finish == nil {
		q.finish = make(map[record.PartitionID]metadata.Finish)
	}
	q.finish[f.Partition] = f
	q.mu.Unlock()
	q.rouse()
}

func (m *Manager) report(r metadata.ReplicaReportItem) {
	q := &m.session
	q.mu.Lock()
	if q.reports == nil {
		q.reports = make(map[record.PartitionID]metadata.ReplicaReportItem)
	}
	q.reports[r.Partition] = r
	q.mu.Unlock()
	q.rouse()
}

func (m *Manager) ready(h metadata.Handover) {
	q := &m.session
	q.mu.Lock()
	if q.ready == nil {
		q.ready = make(map[record.PartitionID]metadata.Handover)
	}
	q.ready[h.Partition] = h
	q.mu.Unlock()
	q.rouse()
}

// damage notes that the log of a partition is broken. What the leader was told of it before speaks of it no more.
func (m *Manager) damage(id record.PartitionID) {
	since := int32(-1)
	if rec := m.record(id); rec != nil {
		since = rec.PartitionEpoch
	}
	q := &m.session
	q.mu.Lock()
	if q.damaged == nil {
		q.damaged = make(map[record.PartitionID]int32)
	}
	if _, known := q.damaged[id]; !known {
		q.damaged[id] = since
	}
	delete(q.reports, id)
	q.mu.Unlock()
	q.rouse()
}

// damageShown says that a damage was found, is not repaired yet, and that the record shows it.
func (m *Manager) damageShown(id record.PartitionID) bool {
	m.session.mu.Lock()
	since, found := m.session.damaged[id]
	m.session.mu.Unlock()
	return found && m.shows(id, since)
}

// shows says that the record shows a damage that was found at partition epoch since, and not only one before it: from then
// on no position and no certificate of the time before counts. Below level 2 the record does not tell apart which.
func (m *Manager) shows(id record.PartitionID, since int32) bool {
	rec := m.record(id)
	if rec == nil || !damageApplied(rec, m.opt.NodeID) {
		return false
	}
	if m.image().Level() < metadata.QuorumLevel {
		return rec.PartitionEpoch > since
	}
	return rec.Member(m.opt.NodeID).JoinPE > since
}

func (q *sessionQueue) settle(id record.PartitionID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.damaged, id)
}

// forget takes out all that was to be told of a replica that is no more.
func (q *sessionQueue) forget(id record.PartitionID) {
	q.settle(id)
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.finish, id)
	delete(q.reports, id)
	delete(q.ready, id)
}
