package replica

import (
	"context"
	"fmt"

	"cordwood/fsm/partition"
)

// Shutdown returns when this node leads no partition, or with ctx's error. The broker asked the controller before to
// move the leaders away, and goes on to feed Apply meanwhile.
func (m *Manager) Shutdown(ctx context.Context) error {
	for {
		n := m.Leading()
		if n == 0 {
			return nil
		}
		select {
		case <-m.duty.left:
		case <-ctx.Done():
			return fmt.Errorf("still leading %d partitions: %w", n, ctx.Err())
		}
	}
}

// Leading is the number of partitions that this node leads.
func (m *Manager) Leading() int {
	n := 0
	for _, p := range m.all() {
		p.mu.Lock()
		if p.leader != nil {
			n++
		}
		p.mu.Unlock()
	}
	return n
}

// Close stops every fetcher and loop, waits for them and answers whatever still waits. Logs stay open: the broker closes
// their directory afterwards.
func (m *Manager) Close() error {
	m.mu.Lock()
	m.closed = true
	links := m.links
	m.links = make(map[int32]*link)
	m.mu.Unlock()
	m.cancel()
	m.tasks.Wait()
	m.flushes.close()
	for _, l := range links {
		l.close()
	}
	for _, p := range m.all() {
		p.writing.Lock()
		p.mu.Lock()
		p.failed = errClosed
		p.step(partition.RoleIdle)
		p.mu.Unlock()
		p.writing.Unlock()
	}
	return nil
}
