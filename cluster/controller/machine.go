package controller

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"cordwood/fsm"
)

// machine is the state machine with a note of when it began to apply what it is applying now, for the watchdog. Restore
// is not watched: a large snapshot over a slow link takes its time.
type machine struct {
	*fsm.FSM
	since atomic.Pointer[time.Time] // nil: idle
}

func (m *machine) begin() (end func()) {
	now := time.Now()
	m.since.Store(&now)
	return func() { m.since.Store(nil) }
}

// busy is how long the state machine has been at one thing, 0 when idle.
func (m *machine) busy(now time.Time) time.Duration {
	if t := m.since.Load(); t != nil {
		return now.Sub(*t)
	}
	return 0
}

// Apply implements raft.FSM.
func (m *machine) Apply(l *raft.Log) any {
	defer m.begin()()
	return m.FSM.Apply(l)
}

// ApplyBatch implements raft.BatchingFSM.
func (m *machine) ApplyBatch(l []*raft.Log) []any {
	defer m.begin()()
	return m.FSM.ApplyBatch(l)
}
