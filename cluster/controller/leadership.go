package controller

import (
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// leaderLog remembers who led raft before, when that leader was last heard, and how long raft has refused commands for
// a transfer of leadership that does not end.
type leaderLog struct {
	mu       sync.Mutex // guards what follows
	current  raft.ServerID
	previous raft.ServerID
	contact  time.Time // last contact with previous
	refused  time.Time // first refusal for a transfer in progress since the last command that went through; zero: none

	raft     *raft.Raft
	observer *raft.Observer
	done     chan struct{}
	ended    chan struct{}
}

// observe follows raft's leader until close.
func (l *leaderLog) observe(r *raft.Raft) {
	changes := make(chan raft.Observation, 64)
	l.raft, l.done, l.ended = r, make(chan struct{}), make(chan struct{})
	l.observer = raft.NewObserver(changes, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	})
	r.RegisterObserver(l.observer)
	go func() {
		defer close(l.ended)
		for {
			select {
			case o := <-changes:
				l.changed(o.Data.(raft.LeaderObservation).LeaderID, r.LastContact())
			case <-l.done:
				return
			}
		}
	}()
}

// changed notes the leader that raft now has, empty for none.
func (l *leaderLog) changed(leader raft.ServerID, contact time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current != "" && l.current != leader {
		l.previous, l.contact = l.current, contact
	}
	l.current = leader
}

// last gives the leader before this node with the last contact with it.
func (l *leaderLog) last() (node int32, contact time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	node, _ = splitServerID(l.previous)
	return node, l.contact
}

func (l *leaderLog) transferRefused(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused.IsZero() {
		l.refused = now
	}
}

func (l *leaderLog) transferOver() {
	l.mu.Lock()
	l.refused = time.Time{}
	l.mu.Unlock()
}

// transferStuck gives how long raft has refused every command for a transfer, 0 if it does not.
func (l *leaderLog) transferStuck(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused.IsZero() {
		return 0
	}
	return now.Sub(l.refused)
}

func (l *leaderLog) close() {
	if l.raft == nil {
		return
	}
	l.raft.DeregisterObserver(l.observer)
	close(l.done)
	<-l.ended
}

// watchLeadership begins and ends reigns. It drains raft's notices at all times, since raft blocks on them.
func (c *Controller) watchLeadership() {
	var current *reign
	end := func() {
		if current != nil {
			current.cancel()
		}
	}
	defer end()
	for {
		select {
		case leads := <-c.node.leading:
			end()
			c.leaders.transferOver()
			if !leads {
				continue
			}
			before := current
			current = newReign(c, c.node.raft.CurrentTerm())
			next := current
			c.run(func() {
				if before != nil {
					<-before.ended
				}
				next.run()
			})
		case <-c.ctx.Done():
			return
		}
	}
}

// watchdog stops the process when raft's store or the state machine hangs, or raft is stuck in a transfer of leadership: raft itself would
// stay leader for ever (its heartbeats are another goroutine's), and the cluster would have a controller that does nothing.
func (c *Controller) watchdog() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			if err := c.stuck(now); err != nil {
				c.die(err)
				return
			}
		case <-c.ctx.Done():
			return
		}
	}
}

// stuck gives why raft is stuck, nil if it is not.
func (c *Controller) stuck(now time.Time) error {
	transfer := c.leaders.transferStuck(now)
	if c.node.raft.State() != raft.Leader {
		transfer = 0
	}
	return judgeStuck(c.node.store.stalled(now), c.machine.busy(now), transfer, c.opt.StallLimit)
}

// judgeStuck: a store write that has been going on for write, the state machine for apply, a leader that refuses
// commands for transfer.
func judgeStuck(write, apply, transfer, limit time.Duration) error {
	if apply > limit {
		return fmt.Errorf("metadata: applying one batch has been going on for %s", apply.Round(time.Second))
	}
	if write > limit {
		return fmt.Errorf("raft store: a write has been going on for %s: the disk hangs", write.Round(time.Second))
	}
	if transfer > limit {
		return fmt.Errorf("raft: leadership transfer stuck for %s: every command is refused", transfer.Round(time.Second))
	}
	return nil
}
