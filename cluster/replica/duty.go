package replica

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"cordwood/logstore/record"
)

const (
	proposeRetry    = 500 * time.Millisecond
	dutyInterval    = 250 * time.Millisecond
	diskInterval    = 500 * time.Millisecond // the disk is asked how full it is every second
	checkpointEvery = 5 * time.Second
)

// duty is what the manager does by time: one loop for all partitions, and only for those that wait for time.
type duty struct {
	left chan struct{} // signalled when a partition stopped leading

	// mu is a leaf lock.
	mu       sync.Mutex
	watched  []*Partition
	again    map[record.PartitionID]retry // records that could not be acted on for now
	suspects map[record.PartitionID]*suspect
}

// retry says when a record is acted on again.
type retry struct {
	at    time.Time
	pause time.Duration
}

// settleMin and settleMax are the pauses between two tries to act on one record.
const (
	settleMin = 250 * time.Millisecond
	settleMax = 5 * time.Second
)

// outcome notes how acting on a partition's record went. What a full disk refused, and a repair that failed, is due again.
func (d *duty) outcome(id record.PartitionID, err error, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !errors.Is(err, record.ErrDirFull) && !errors.Is(err, errUnmended) {
		delete(d.again, id)
		return
	}
	if d.again == nil {
		d.again = make(map[record.PartitionID]retry)
	}
	pause := min(settleMax, max(settleMin, 2*d.again[id].pause))
	d.again[id] = retry{now.Add(pause), pause}
}

// due lists the partitions whose records are to be acted on again.
func (d *duty) due(now time.Time) (ids []record.PartitionID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, r := range d.again {
		if !r.at.After(now) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, comparePartitions)
	return ids
}

// resettle acts again on records that could not be acted on. It gives way to whoever acts on new ones.
func (m *Manager) resettle() {
	ids := m.duty.due(m.now())
	if len(ids) == 0 || !m.acting.TryLock() {
		return
	}
	defer m.acting.Unlock()
	for _, id := range ids {
		if err := m.reconcile(id, m.image()); err != nil {
			m.opt.Logger.Debug("a record cannot be acted on yet", "partition", id.String(), "err", err)
		}
	}
}

func (d *duty) wait(id record.PartitionID, s *suspect) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.suspects == nil {
		d.suspects = make(map[record.PartitionID]*suspect)
	}
	d.suspects[id] = s
}

func (d *duty) waiting(id record.PartitionID) *suspect {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.suspects[id]
}

func (d *duty) settle(id record.PartitionID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.suspects, id)
}

func (m *Manager) left() {
	select {
	case m.duty.left <- struct{}{}:
	default:
	}
}

// watch asks for Tick of p until it says no.
func (m *Manager) watch(p *Partition) {
	m.duty.mu.Lock()
	defer m.duty.mu.Unlock()
	m.duty.watched = append(m.duty.watched, p)
}

// tick calls the partitions that wait for time.
func (m *Manager) tick() {
	m.duty.mu.Lock()
	todo := m.duty.watched
	m.duty.watched = nil
	m.duty.mu.Unlock()
	var again []*Partition
	for _, p := range todo {
		if p.Tick() {
			again = append(again, p)
		}
	}
	m.duty.mu.Lock()
	m.duty.watched = append(m.duty.watched, again...)
	m.duty.mu.Unlock()
}

func (m *Manager) dutyLoop(ctx context.Context) {
	ticker := time.NewTicker(dutyInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		m.tick()
		m.resettle()
	}
}

// diskLoop does the log directory's duties by time; a slow disk holds up nothing else.
func (m *Manager) diskLoop(ctx context.Context) {
	ticker := time.NewTicker(diskInterval)
	defer ticker.Stop()
	saved := m.now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := m.now()
		m.opt.Dir.Tick(now)
		if now.Sub(saved) < checkpointEvery {
			continue
		}
		saved = now
		if err := m.opt.Dir.Checkpoint(); err != nil {
			m.opt.Logger.Error("checkpoint failed", "err", err)
		}
	}
}
