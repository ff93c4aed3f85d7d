package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"cordwood/fsm/metadata"
)

const (
	voterTick  = time.Second            // between two looks when nothing changed
	voterHurry = 100 * time.Millisecond // after a change, and while a server is catching up
)

// errVoters refuses a change of raft's membership.
var errVoters = errors.New("raft's membership stays as it is")

// voterKeeper looks after raft's membership while this node leads. One loop decides and changes, one change at a time.
type voterKeeper struct {
	r *reign

	changing chan struct{} // one token: a round of questions and its change, the loop's or RemoveVoter's

	mu      sync.Mutex // guards what follows
	answers map[raft.ServerID]heard
	since   map[raft.ServerID]time.Time
}

func newVoterKeeper(r *reign) *voterKeeper {
	return &voterKeeper{r: r, changing: make(chan struct{}, 1), answers: map[raft.ServerID]heard{}, since: map[raft.ServerID]time.Time{}}
}

func (k *voterKeeper) loop() {
	for wait := time.Duration(0); k.r.pause(wait); {
		wait = k.look()
	}
}

// look gathers the facts, makes one change if one is due, and says how long to rest.
func (k *voterKeeper) look() time.Duration {
	if err := k.take(k.r.ctx); err != nil {
		return voterTick
	}
	defer k.give()
	facts, index, err := k.facts(k.r.ctx)
	if err != nil {
		k.r.log.Warn("raft's membership not known", "err", err)
		return voterTick
	}
	change := planVoters(facts)
	if change == nil {
		if slices.ContainsFunc(facts.Servers, func(s raft.Server) bool { return facts.live(s.ID) && !facts.caughtUp(s.ID) }) {
			return voterHurry
		}
		return voterTick
	}
	if err := k.change(k.r.ctx, *change, index); err != nil {
		k.r.log.Warn("raft's membership not changed", "server", change.ID, "why", change.Why, "err", err)
		return voterTick
	}
	k.r.log.Info("raft's membership changed", "change", change.Action.String(), "server", change.ID, "address", change.Address, "why", change.Why)
	return voterHurry
}

// take waits for the right to change the membership; give lets the next one have it.
func (k *voterKeeper) take(ctx context.Context) error {
	select {
	case k.changing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (k *voterKeeper) give() { <-k.changing }

// facts asks every server and every peer, and gives what is known of them.
func (k *voterKeeper) facts(ctx context.Context) (voterFacts, uint64, error) {
	c := k.r.c
	servers, index, err := c.node.servers()
	if err != nil {
		return voterFacts{}, 0, err
	}
	addresses := map[string]struct{}{}
	for _, p := range c.opt.Peers() {
		if p.Alive && p.RaftAddress != "" {
			addresses[p.RaftAddress] = struct{}{}
		}
	}
	for _, s := range servers {
		if hostPort, _ := splitRaftAddress(s.Address); s.ID != c.node.id {
			addresses[hostPort] = struct{}{}
		}
	}
	answers := c.askAll(ctx, slices.Sorted(maps.Keys(addresses)))
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, a := range append(answers, c.self()) {
		id := serverID(a.NodeID, a.DirectoryID)
		k.answers[id] = heard{a, now}
		k.since[id] = now
	}
	known := map[raft.ServerID]bool{}
	for _, s := range servers {
		known[s.ID] = true
		if _, ok := k.since[s.ID]; !ok {
			k.since[s.ID] = k.r.begun
		}
	}
	maps.DeleteFunc(k.answers, func(id raft.ServerID, h heard) bool { return !known[id] && now.Sub(h.at) >= voterFresh })
	maps.DeleteFunc(k.since, func(id raft.ServerID, at time.Time) bool { return !known[id] && now.Sub(at) >= voterFresh })
	return voterFacts{
		Now: now, Self: c.node.id, ClusterID: c.clusterID(), Servers: servers, Commit: c.node.raft.CommitIndex(),
		Answers: maps.Clone(k.answers), Since: maps.Clone(k.since), Limit: c.opt.Voters, ReplaceAfter: c.opt.VoterReplaceAfter, Fresh: voterFresh,
	}, index, nil
}

// change makes one change of the configuration that stands at index prev, and waits until it is committed.
func (k *voterKeeper) change(ctx context.Context, ch voterChange, prev uint64) error {
	r, timeout := k.r.c.node.raft, k.r.c.opt.ProposeTimeout
	var f raft.IndexFuture
	switch ch.Action {
	case addNonvoter:
		f = r.AddNonvoter(ch.ID, ch.Address, prev, timeout)
	case addVoter:
		f = r.AddVoter(ch.ID, ch.Address, prev, timeout)
	case removeServer:
		f = r.RemoveServer(ch.ID, prev, timeout)
	case demoteVoter:
		f = r.DemoteVoter(ch.ID, prev, timeout)
	}
	done := make(chan error, 1)
	go func() { done <- f.Error() }() // ends when the change is committed, or with the leadership
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return fmt.Errorf("%w: not committed within %s", errVoters, timeout)
	}
}

func (a voterAction) String() string {
	switch a {
	case addNonvoter:
		return "add non-voter"
	case addVoter:
		return "add voter"
	case removeServer:
		return "remove"
	case demoteVoter:
		return "demote to non-voter"
	}
	return "none"
}

// RemoveVoter takes every server of a dead node out of raft. It is refused while the node answers, and when less than a
// live, caught-up majority of the voters would remain.
func (c *Controller) RemoveVoter(ctx context.Context, node int32) error {
	r := c.active()
	if r == nil {
		return metadata.ErrNotController
	}
	ctx, cancel := context.WithTimeout(ctx, c.opt.ProposeTimeout)
	defer cancel()
	if err := r.voters.take(ctx); err != nil {
		return err
	}
	defer r.voters.give()
	for {
		facts, index, err := r.voters.facts(ctx)
		if err != nil {
			return err
		}
		facts.Fresh = 0 // who has just been stopped is silent in this very round
		change, err := planRemoval(facts, node)
		if change == nil || err != nil {
			return err
		}
		if err := r.voters.change(ctx, *change, index); err != nil {
			return fmt.Errorf("remove %s from raft: %w", change.ID, err)
		}
		r.log.Info("raft's membership changed", "change", change.Action.String(), "server", change.ID, "why", change.Why)
	}
}

// planRemoval gives the next step of taking a node out of raft, nil when nothing of it is left.
func planRemoval(f voterFacts, node int32) (*voterChange, error) {
	for _, s := range f.Servers {
		if n, _ := splitServerID(s.ID); n != node {
			continue
		}
		if f.live(s.ID) {
			return nil, fmt.Errorf("%w: node %d still answers; stop it first", errVoters, node)
		}
		if s.Suffrage == raft.Voter && !f.quorumWith("", s.ID) {
			return nil, fmt.Errorf("%w: without node %d less than a live, caught-up majority of the voters would remain", errVoters, node)
		}
		return &voterChange{removeServer, s.ID, s.Address, "node remove"}, nil
	}
	return nil, nil
}
