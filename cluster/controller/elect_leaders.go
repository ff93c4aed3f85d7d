package controller

import (
	"context"
	"fmt"
	"slices"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

// ElectLeaders moves leadership or, unclean, elects leaders for partitions that have none and may lack records. replica
// names who should lead; metadata.NoNode stands for the preferred replica or, unclean, for the most complete log. nil
// partitions means all that need it. It returns when the elections are over or ctx ends.
//
// One error for every partition asked (for all of those that needed it): nil, if the replica leads now;
// metadata.ErrElectionNotNeeded, metadata.ErrNotEligible with the numbers, metadata.ErrUnknownPartition, or why it was
// not proposed. A leader that was named is not moved back to the preferred replica by this controller while its epoch
// lasts.
func (c *Controller) ElectLeaders(ctx context.Context, unclean bool, replica int32, partitions []record.PartitionID) map[record.PartitionID]error {
	r := c.active()
	out := make(map[record.PartitionID]error, len(partitions))
	if r == nil {
		for _, id := range partitions {
			out[id] = metadata.ErrNotController
		}
		return out
	}
	if partitions == nil {
		partitions = needElection(c.Image(), unclean)
	}
	ctx, cancel := context.WithTimeout(ctx, c.opt.ProposeTimeout)
	defer cancel()
	stop := context.AfterFunc(r.ctx, cancel)
	defer stop()
	e := electionRequest{reign: r, replica: replica, out: out}
	if unclean {
		e.unclean(ctx, partitions)
	} else {
		e.move(ctx, partitions)
	}
	if replica != metadata.NoNode {
		r.duties.hold(partitions, out)
	}
	return out
}

// needElection lists the partitions that an election for all is about.
func needElection(image *metadata.Image, unclean bool) (ids []record.PartitionID) {
	if unclean {
		for p := range image.Leaderless() {
			ids = append(ids, p.ID)
		}
		return ids
	}
	for t := range image.Topics() {
		for _, p := range t.Partitions {
			if len(p.Replicas) > 0 && p.Leader != p.Replicas[0] {
				ids = append(ids, p.ID)
			}
		}
	}
	return ids
}

// electionRequest is one request for elections. out gets what became of each partition.
type electionRequest struct {
	*reign
	replica int32
	out     map[record.PartitionID]error
}

// target is the replica that should lead.
func (e *electionRequest) target(p *metadata.Partition) int32 {
	if e.replica != metadata.NoNode {
		return e.replica
	}
	return p.Replicas[0]
}

// move elects the target of every partition, by the partition's rule.
func (e *electionRequest) move(ctx context.Context, partitions []record.PartitionID) {
	image := e.c.Image()
	var inSync []metadata.Election
	var byQuorum []moveStart
	for _, id := range partitions {
		p := image.Partition(id)
		if p == nil {
			e.out[id] = metadata.ErrUnknownPartition
			continue
		}
		target := e.target(p)
		switch {
		case p.Leader == target:
			e.out[id] = fmt.Errorf("%w: node %d leads", metadata.ErrElectionNotNeeded, target)
		case p.Rule.ElectBy() == metadata.RuleQuorum:
			if e.out[id] = checkMove(p, target, image.Broker); e.out[id] == nil {
				byQuorum = append(byQuorum, startMove(p, target))
			}
		default:
			if e.out[id] = metadata.CheckCandidate(p, target, image.Broker); e.out[id] == nil {
				inSync = append(inSync, metadata.Election{Partition: id, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Leader: target})
			}
		}
	}
	for i, err := range e.duties.electEach(kindPreferred, inSync) {
		e.out[inSync[i].Partition] = err
	}
	e.moveByQuorum(ctx, byQuorum)
}

// moveByQuorum has the targets made ready, begins elections that prefer them, and waits for what comes of these.
func (e *electionRequest) moveByQuorum(ctx context.Context, starts []moveStart) {
	e.duties.awaitReady(ctx, slices.DeleteFunc(slices.Clone(starts), func(s moveStart) bool { return s.Leader == metadata.NoNode }))
	moves, errs := e.duties.begin(starts, false)
	begun := make(map[record.PartitionID]*move, len(starts))
	var open []record.PartitionID
	for i, s := range starts {
		if e.out[s.Partition] = errs[i]; errs[i] == nil {
			begun[s.Partition] = moves[i]
			open = append(open, s.Partition)
		}
	}
	for _, id := range e.await(ctx, open, func(p *metadata.Partition) bool { return begun[p.ID].over(p) }) {
		e.out[id] = fmt.Errorf("%w: the election of epoch %d goes on", metadata.ErrOutcomeUnknown, begun[id].epoch)
	}
	image := e.c.Image()
	for id, m := range begun {
		if p := image.Partition(id); p != nil && e.out[id] == nil && p.Leader != m.target {
			e.out[id] = fmt.Errorf("%w: node %d leads in epoch %d: %s", metadata.ErrNotEligible, p.Leader, p.LeaderEpoch, e.duties.missedWhy(m))
		}
	}
}

// unclean marks the partitions and waits until the duties, which gather the reports, have elected or ctx ends.
func (e *electionRequest) unclean(ctx context.Context, partitions []record.PartitionID) {
	image := e.c.Image()
	var open []record.PartitionID
	for _, id := range partitions {
		switch p := image.Partition(id); {
		case p == nil:
			e.out[id] = metadata.ErrUnknownPartition
		case p.Leader != metadata.NoNode:
			e.out[id] = fmt.Errorf("%w: node %d leads", metadata.ErrElectionNotNeeded, p.Leader)
		case e.replica != metadata.NoNode && (!p.IsReplica(e.replica) || !image.Broker(e.replica).MayLead()):
			e.out[id] = fmt.Errorf("%w: node %d is not among replicas %v, is fenced or is shutting down", metadata.ErrNotEligible, e.replica, p.Replicas)
		default:
			open = append(open, id)
		}
	}
	forced := open
	e.duties.force(forced, e.replica)
	defer e.duties.unforce(forced)
	open = e.await(ctx, open, func(p *metadata.Partition) bool { return p.Leader != metadata.NoNode })
	for _, id := range open {
		e.out[id] = fmt.Errorf("%w: %s", metadata.ErrNotEligible, e.duties.waitingWhy(id))
	}
	image = e.c.Image()
	for _, id := range forced {
		if p := image.Partition(id); p != nil && e.out[id] == nil && e.replica != metadata.NoNode && p.Leader != e.replica {
			e.out[id] = fmt.Errorf("%w: node %d could be elected without any loss and leads", metadata.ErrNotEligible, p.Leader)
		}
	}
}

// await waits until done is true of each partition, or ctx ends, and gives those of which it is not. What is gone gets
// its error.
func (e *electionRequest) await(ctx context.Context, ids []record.PartitionID, done func(*metadata.Partition) bool) (open []record.PartitionID) {
	for {
		image := e.c.Image()
		open = nil
		for _, id := range ids {
			switch p := image.Partition(id); {
			case p == nil:
				e.out[id] = metadata.ErrUnknownPartition
			case done(p):
				e.out[id] = nil
			default:
				open = append(open, id)
			}
		}
		if len(open) == 0 || e.c.WaitIndex(ctx, image.Index()+1) != nil {
			return open
		}
		ids = open
	}
}

// hold keeps what operators chose from being given back to the preferred replicas.
func (k *dutyKeeper) hold(ids []record.PartitionID, became map[record.PartitionID]error) {
	image := k.r.c.Image()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range ids {
		if p := image.Partition(id); p != nil && became[id] == nil {
			k.held[id] = p.LeaderEpoch
		}
	}
}

// missedWhy says why another one than a move's target was elected.
func (k *dutyKeeper) missedWhy(m *move) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if m.missed != "" {
		return m.missed
	}
	return "its election was overtaken by another one"
}

// waitingWhy says why a partition stays without a leader.
func (k *dutyKeeper) waitingWhy(id record.PartitionID) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if why := k.waiting[id]; why != "" {
		return why
	}
	return "no live replica has reported its log in time"
}
