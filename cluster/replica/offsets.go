package replica

import (
	"context"

	"cordwood/fsm/partition"
	"cordwood/logstore"
	"cordwood/logstore/record"
)

// ListOffsets finds one offset where this node leads.
func (m *Manager) ListOffsets(_ context.Context, q partition.ListOffsetsQuery) partition.ListOffsetsAnswer {
	p := m.find(q.ID)
	if p == nil {
		leader, _, err := m.absent(q.ID)
		return noOffset(err, leader)
	}
	return p.ListOffset(q)
}

func noOffset(err error, leader int32) partition.ListOffsetsAnswer {
	return partition.ListOffsetsAnswer{Err: err, Offset: record.NoOffset, Timestamp: record.NoTimestamp, LeaderEpoch: record.NoEpoch, Leader: leader}
}

// ListOffset answers for this partition.
func (p *Partition) ListOffset(q partition.ListOffsetsQuery) partition.ListOffsetsAnswer {
	leader, v := p.offsetView(q.CurrentLeaderEpoch)
	if v.err != nil {
		return noOffset(v.err, leader)
	}
	bound, known := v.hw, v.hw >= v.leso
	if q.Committed {
		bound = v.stable
	}
	if q.Follower {
		bound, known = v.end, true
	}
	at := func(offset, ts int64, epoch int32) partition.ListOffsetsAnswer {
		return partition.ListOffsetsAnswer{Offset: offset, Timestamp: ts, LeaderEpoch: epoch, Leader: leader}
	}
	switch q.Timestamp {
	case partition.EarliestTimestamp, partition.EarliestLocalTimestamp:
		start := p.log.StartOffset()
		return at(start, record.NoTimestamp, p.log.EpochAt(start))
	case partition.LatestTimestamp:
		if !known {
			return noOffset(partition.ErrOffsetNotAvailable, leader)
		}
		return at(bound, record.NoTimestamp, v.epoch)
	case partition.LatestTieredTimestamp, partition.PendingUploadTimestamp:
		return at(record.NoOffset, record.NoTimestamp, record.NoEpoch) // there is no second tier
	}
	if q.Timestamp < partition.PendingUploadTimestamp {
		return noOffset(partition.ErrUnsupportedTimestamp, leader)
	}
	var (
		a     = noOffset(nil, leader)
		found bool
		err   error
	)
	// Searched to the end: what lies between what may be seen and the end is found too, but not told.
	if q.Timestamp == partition.MaxTimestamp {
		a.Offset, a.Timestamp, a.LeaderEpoch, found, err = p.log.MaxTime(bound)
	} else {
		a.Offset, a.Timestamp, a.LeaderEpoch, found, err = p.log.OffsetForTime(q.Timestamp, v.end)
	}
	switch {
	case err != nil:
		p.readFailed(err)
		return noOffset(err, leader)
	case found && a.Offset < bound:
		return a
	case found && !known:
		return noOffset(partition.ErrOffsetNotAvailable, leader)
	}
	return noOffset(nil, leader)
}

// offsetView is what questions for offsets need of the leader state.
type offsetView struct {
	err    error
	epoch  int32
	hw     int64
	stable int64 // the last stable offset, not above hw
	leso   int64
	end    int64
}

// offsetView checks the asked leader epoch, of which -1 is none and anything below is refused.
func (p *Partition) offsetView(epoch int32) (leader int32, v offsetView) {
	p.mu.Lock()
	defer p.mu.Unlock()
	leader, _ = p.hint()
	l, err := p.leads(epoch)
	if err == nil && epoch < record.NoEpoch {
		err = partition.ErrFencedLeaderEpoch
	}
	if err != nil {
		return leader, offsetView{err: err}
	}
	hw := l.HighWatermark()
	return leader, offsetView{epoch: l.Epoch(), hw: hw, stable: min(p.log.LastStableOffset(), hw), leso: l.StartOffset(), end: p.log.EndOffset()}
}

// EpochEnd answers OffsetForLeaderEpoch.
func (m *Manager) EpochEnd(id record.PartitionID, currentLeaderEpoch, asked int32) (partition.EpochEnd, error) {
	p := m.find(id)
	if p == nil {
		_, _, err := m.absent(id)
		return partition.EpochEnd{Epoch: -1, End: -1}, err
	}
	if _, v := p.offsetView(currentLeaderEpoch); v.err != nil {
		return partition.EpochEnd{Epoch: -1, End: -1}, v.err
	}
	return epochEnd(p.log, asked), nil
}

// epochEnd is what clients are told of an epoch's end: nothing of one that is later than all known, and the log start of
// one that is older.
func epochEnd(log *logstore.Log, asked int32) partition.EpochEnd {
	if asked == record.NoEpoch || asked > log.LastEpoch() {
		return partition.EpochEnd{Epoch: -1, End: -1}
	}
	if epoch, end := log.EpochEnd(asked); epoch >= 0 {
		return partition.EpochEnd{Epoch: epoch, End: end}
	}
	return partition.EpochEnd{Epoch: asked, End: log.StartOffset()}
}
