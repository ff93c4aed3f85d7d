package replica

import (
	"time"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
)

// State gives what this node knows of a partition it hosts.
func (m *Manager) State(id record.PartitionID) (partition.PartitionState, bool) {
	p := m.find(id)
	if p == nil {
		return partition.PartitionState{}, false
	}
	return p.State(m.now()), true
}

// States gives all hosted partitions.
func (m *Manager) States() []partition.PartitionState {
	now := m.now()
	parts := m.all()
	out := make([]partition.PartitionState, 0, len(parts))
	for _, p := range parts {
		out = append(out, p.State(now))
	}
	return out
}

// State describes the replica at now.
func (p *Partition) State(now time.Time) partition.PartitionState {
	stable := p.log.LastStableOffset() // may wait for an append
	p.mu.Lock()
	defer p.mu.Unlock()
	s := partition.PartitionState{
		ID: p.id, Leader: p.leader != nil, LeaderEpoch: -1,
		LogStartOffset: p.log.StartOffset(), HighWatermark: p.log.HighWatermark(), LogEndOffset: p.log.EndOffset(),
		Size: p.log.Size(), Quarantined: p.quarantined != "",
	}
	s.LastStableOffset = min(stable, s.HighWatermark)
	_, s.Damaged = p.log.Damaged()
	if p.rec != nil {
		s.LeaderEpoch = p.rec.LeaderEpoch
	}
	flushed := p.log.FlushedOffset()
	if p.leader == nil {
		s.Replicas = []partition.ReplicaState{{ID: p.me, LogEnd: s.LogEndOffset, Flushed: flushed, LastCaughtUp: -1, LastFetch: -1, InSync: p.rec != nil && contains(p.rec.ISR, p.me)}}
		return s
	}
	p.hear(p.leader)
	for _, r := range p.leader.Replicas(p.log, now) {
		caught := r.LastCaughtUp
		if r.Position >= s.LogEndOffset {
			caught = now // it lags behind nothing
		}
		told := partition.ReplicaState{ID: r.ID, LogEnd: r.LogEnd, Flushed: -1, LastCaughtUp: millis(caught), LastFetch: millis(r.LastFetch), InSync: r.InSync}
		switch {
		case r.ID == p.me:
			told.LogEnd, told.Flushed = s.LogEndOffset, flushed
		case p.rec.Durability != metadata.DurabilityMemory:
			told.Flushed = r.Position // what is not on disk does not count
		}
		s.Replicas = append(s.Replicas, told)
	}
	return s
}

func contains(ids []int32, id int32) bool {
	for _, x := range ids {
		if x == id {
			return true
		}
	}
	return false
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return -1
	}
	return t.UnixMilli()
}

// Dirs describes the log directory.
func (m *Manager) Dirs() []partition.DirState {
	free, total, offline, full := m.opt.Dir.State()
	return []partition.DirState{{Path: m.opt.Dir.Path(), Free: free, Total: total, Offline: offline, Full: full}}
}

// DiskFull says that the log directory takes no records of clients for want of room.
func (m *Manager) DiskFull() bool {
	_, _, _, full := m.opt.Dir.State()
	return full
}

// Producers lists the producers that a partition's log remembers, where this node leads.
func (m *Manager) Producers(id record.PartitionID) ([]partition.ActiveProducer, error) {
	p := m.find(id)
	if p == nil {
		_, _, err := m.absent(id)
		return nil, err
	}
	if _, v := p.offsetView(record.NoEpoch); v.err != nil {
		return nil, v.err
	}
	var out []partition.ActiveProducer
	for _, a := range p.log.Producers() {
		out = append(out, partition.ActiveProducer{ProducerID: a.ProducerID, Epoch: a.Epoch, LastSequence: a.LastSequence,
			LastTimestamp: a.LastTimestamp, CoordinatorEpoch: a.CoordinatorEpoch, TxnStartOffset: a.TxnStartOffset})
	}
	return out, nil
}
