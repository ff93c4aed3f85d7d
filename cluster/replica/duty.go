package replica

import (
	"context"
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
	suspects map[record.PartitionID]*suspect
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
