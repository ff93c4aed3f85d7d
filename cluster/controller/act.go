package controller

import (
	"errors"
	"slices"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

// Kinds of elections, as the metric counts them.
const (
	kindSafe       = "safe"        // from ISR or ELR
	kindPreferred  = "preferred"   // a move to a replica that somebody prefers
	kindRelieved   = "relieved"    // a move away from a node whose disk is full, under the ISR rule
	kindReported   = "reported"    // the most complete log of a majority
	kindLastLeader = "last_leader" // on the last leader's own report
	kindUnsafe     = "unsafe"      // records may be lost
)

// act proposes what is planned: elections first.
func (k *dutyKeeper) act(plan dutyPlan) {
	k.noteElections(k.elect(kindSafe, plan.elect))
	k.electReported(plan.reported)
	k.unsafeElect(plan.unsafe)
	propose(k.r, "cancel reassignments that stand in the way of an election", plan.cancel, func(items []metadata.Reassignment) metadata.Command {
		return &metadata.Reassign{Items: items}
	})
	propose(k.r, "enter joint majorities", plan.joint, func(items []metadata.JointEntry) metadata.Command {
		return &metadata.EnterJoint{Items: items}
	})
	k.elect(kindRelieved, plan.relieve)
	k.elect(kindPreferred, plan.give)
	k.handOver(plan.handOver, true)
	k.begin(plan.begin, true)
}

// propose carries items in commands of bounded size, and gives one error for each of them.
func propose[T any](r *reign, what string, items []T, command func([]T) metadata.Command) []error {
	errs := make([]error, 0, len(items))
	refused := 0
	var why error
	for batch := range slices.Chunk(items, maxElections) {
		res, err := r.c.apply(r.ctx, command(batch))
		if err == nil {
			err = res.Err
		}
		if err != nil {
			r.log.Info("not proposed", "what", what, "items", len(batch), "err", err)
			for range batch {
				errs = append(errs, err)
			}
			continue
		}
		for _, e := range res.Items {
			if e != nil {
				refused, why = refused+1, e
			}
		}
		errs = append(errs, res.Items...)
	}
	if len(items) > 0 {
		r.log.Info(what, "items", len(items), "refused", refused, "why", why)
	}
	return errs
}

// certain says that a proposal with this error has not been carried out and will not be.
func certain(err error) bool { return !errors.Is(err, metadata.ErrOutcomeUnknown) }

// elect proposes elections under the ISR rule and gives those that succeeded.
func (k *dutyKeeper) elect(kind string, elections []metadata.Election) (won []record.PartitionID) {
	errs := k.electEach(kind, elections)
	for i, err := range errs {
		if err == nil {
			won = append(won, elections[i].Partition)
		}
	}
	return won
}

// electEach proposes elections under the ISR rule, and gives what became of each.
func (k *dutyKeeper) electEach(kind string, elections []metadata.Election) []error {
	errs := propose(k.r, "elect leaders: "+kind, elections, func(items []metadata.Election) metadata.Command {
		return &metadata.Elect{Elections: items}
	})
	k.r.c.metrics.elections.WithLabelValues(kind).Add(float64(succeeded(errs)))
	return errs
}

// electReported proposes elections under the quorum rule.
func (k *dutyKeeper) electReported(elections []reportedElection) {
	errs := propose(k.r, "elect leaders by reports", elections, func(items []reportedElection) metadata.Command {
		cmd := &metadata.ElectReported{Elections: make([]metadata.ReportedElection, len(items))}
		for i, e := range items {
			cmd.Elections[i] = e.ReportedElection
		}
		return cmd
	})
	var won []record.PartitionID
	for i, err := range errs {
		if err != nil {
			continue
		}
		k.r.c.metrics.elections.WithLabelValues(elections[i].kind).Inc()
		if !elections[i].wanted { // a move that was wanted says nothing of leaders that do not live
			won = append(won, elections[i].Partition)
		}
	}
	k.noteElections(won)
	if len(won) < len(elections) {
		k.poke() // the next moves may begin
	}
}

func (k *dutyKeeper) unsafeElect(elections []metadata.UnsafeElection) {
	errs := propose(k.r, "elect leaders that may lack records", elections, func(items []metadata.UnsafeElection) metadata.Command {
		return &metadata.UnsafeElect{Elections: items}
	})
	var won []record.PartitionID
	for i, err := range errs {
		if err == nil {
			won = append(won, elections[i].Partition)
		}
	}
	k.r.c.metrics.elections.WithLabelValues(kindUnsafe).Add(float64(len(won)))
	k.noteElections(won)
}

// begin ends leaders' epochs for moves, and gives the moves and what became of each beginning.
func (k *dutyKeeper) begin(starts []moveStart, given bool) ([]*move, []error) {
	moves := k.beginMoves(starts, given)
	errs := propose(k.r, "begin moves of leadership", starts, func(items []moveStart) metadata.Command {
		cmd := &metadata.BeginElection{Elections: make([]metadata.ElectionStart, len(items))}
		for i, s := range items {
			cmd.Elections[i] = s.ElectionStart
		}
		return cmd
	})
	k.dropMoves(starts, moves, errs)
	return moves, errs
}

func succeeded(errs []error) (n int) {
	for _, e := range errs {
		if e == nil {
			n++
		}
	}
	return n
}
