package controller

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

const (
	maxMoves     = 100                    // moves that the duties have under way at once: nobody leads meanwhile
	moveWait     = 200 * time.Millisecond // how long a move waits for its target's report and a majority
	moveForgot   = 10 * time.Second       // a move whose beginning was not seen by then never began
	declinedLast = 5 * time.Minute        // the longest between two attempts to give a partition's leadership back
)

// move is a move of leadership under the quorum rule: the leader's epoch was ended for it, and the election of the next
// one prefers its target among the most complete logs.
type move struct {
	target int32
	epoch  int32     // that the beginning makes
	born   time.Time // when its beginning was proposed
	until  time.Time // until then the target and a majority are waited for; zero: not seen to have begun
	given  bool      // the duties began it, no operator
	missed string    // why another one was elected
}

// moveStart is the beginning of a move.
type moveStart struct {
	metadata.ElectionStart
	target int32
}

// startMove gives the beginning of a move from this record.
func startMove(p *metadata.Partition, target int32) moveStart {
	return moveStart{metadata.ElectionStart{Partition: p.ID, LeaderEpoch: p.LeaderEpoch, Leader: p.Leader}, target}
}

// declined remembers moves that ended with another leader than the preferred one.
type declined struct {
	tries int
	until time.Time // the next attempt comes no earlier
}

// checkMove judges a move of leadership under the quorum rule: to a trusted replica that may lead and, while the
// partition is led, is in sync, so that it most likely ties for the most complete log.
func checkMove(p *metadata.Partition, target int32, broker metadata.Brokers) error {
	refused := func(reason error, format string, args ...any) error {
		return &metadata.Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case p.Leader == target && target != metadata.NoNode:
		return refused(metadata.ErrElectionNotNeeded, "node %d leads", target)
	case !slices.Contains(voters(p), target):
		return refused(metadata.ErrNotEligible, "node %d is not among replicas %v", target, voters(p))
	case !broker(target).MayLead():
		return refused(metadata.ErrNotEligible, "node %d is not registered, is fenced or is shutting down", target)
	case !metadata.Trusted(p, target, broker):
		return refused(metadata.ErrNotEligible, "node %d may have lost records and is not certified complete since", target)
	case p.Leader != metadata.NoNode && !slices.Contains(p.ISR, target):
		return refused(metadata.ErrNotEligible, "node %d is not in sync (ISR %v), so its log is not among the most complete", target, p.ISR)
	}
	return nil
}

// giveByQuorum asks for a move to the preferred replica where its leader has lived long enough.
func (f *dutyFacts) giveByQuorum(p *metadata.Partition, plan *dutyPlan) {
	if fl, flapped := f.flaps[p.ID]; flapped && f.now.Sub(fl.at) < flapLived {
		return
	}
	f.moveByQuorum(p, p.Replicas[0], plan)
}

// moveByQuorum asks for a move where it may be and no move was declined a short time ago.
func (f *dutyFacts) moveByQuorum(p *metadata.Partition, target int32, plan *dutyPlan) {
	if f.moves[p.ID] != nil || f.handovers[p.ID] != nil || f.now.Before(f.declined[p.ID].until) || checkMove(p, target, f.image.Broker) != nil {
		return
	}
	if len(f.moves)+len(f.handovers)+len(plan.handOver) >= maxMoves {
		plan.more = true
		return
	}
	plan.handOver = append(plan.handOver, startMove(p, target))
}

// over says that the election which the move began has ended.
func (m *move) over(p *metadata.Partition) bool {
	return p.LeaderEpoch > m.epoch || p.LeaderEpoch == m.epoch && p.Leader != metadata.NoNode
}

// follow brings a move in line with the metadata. over: it has ended, or never began.
func (m *move) follow(p *metadata.Partition, now time.Time) (over bool) {
	if p == nil || m.over(p) {
		return true
	}
	if p.LeaderEpoch < m.epoch {
		return now.Sub(m.born) >= moveForgot
	}
	if m.until.IsZero() {
		m.until = now.Add(moveWait)
	}
	return false
}

// prefer says what a move makes of an election that is possible. Its target leads if it has all that the leader before it
// has, or of the others the most, and a majority has no more complete log: those above it need not vote. (An idle leader's
// log ends in its own epoch, which no follower knows before the first record of it.) wait: the target, the leader before
// it or a majority may still report. missed tells why the target is not taken.
func (m *move) prefer(f *dutyFacts, p *metadata.Partition, e metadata.ReportedElection, have []metadata.ReplicaReport) (chosen metadata.ReportedElection, wait bool, missed string) {
	waits := f.now.Before(m.until)
	target, reported := reportOf(have, m.target)
	full, lastReported := reportOf(have, p.LastLeader)
	if !lastReported || !metadata.Trusted(p, p.LastLeader, f.image.Broker) {
		full, _ = reportOf(have, e.Leader.ID)
	}
	switch {
	case !e.ByMajority(p):
		return e, waits && f.majorityMayReport(p, have), fmt.Sprintf("no majority reported within %v", moveWait)
	case waits && !lastReported && f.image.Broker(p.LastLeader).Alive():
		return e, true, "" // a move that nobody needs should not cost records that were acknowledged by the leader alone
	case e.Leader.ID == m.target:
		return e, false, ""
	case !reported:
		return e, waits && f.image.Broker(m.target).MayLead(), fmt.Sprintf("node %d did not report its log within %v", m.target, moveWait)
	case checkMove(p, m.target, f.image.Broker) != nil:
		return e, false, checkMove(p, m.target, f.image.Broker).Error()
	}
	missed = fmt.Sprintf("the log of node %d ends in epoch %d at %d, that of node %d in epoch %d at %d",
		m.target, target.LastEpoch, target.End, full.Broker.ID, full.LastEpoch, full.End)
	if target.End < full.End {
		return e, false, missed
	}
	chosen = e
	chosen.Leader, chosen.Voters = target.Broker, nil
	for _, r := range have {
		if !above(r, target) && metadata.Trusted(p, r.Broker.ID, f.image.Broker) {
			chosen.Voters = append(chosen.Voters, r)
		}
	}
	if !chosen.ByMajority(p) {
		return e, waits && f.majorityMayVote(p, have, target), missed + ", and those that have no more are no majority"
	}
	return chosen, false, ""
}

// above says that a is the more complete log.
func above(a, b metadata.ReplicaReport) bool {
	return a.LastEpoch > b.LastEpoch || a.LastEpoch == b.LastEpoch && a.End > b.End
}

// reportOf finds the report of a node.
func reportOf(reports []metadata.ReplicaReport, node int32) (metadata.ReplicaReport, bool) {
	i := slices.IndexFunc(reports, func(r metadata.ReplicaReport) bool { return r.Broker.ID == node })
	if i < 0 {
		return metadata.ReplicaReport{}, false
	}
	return reports[i], true
}

// beginMoves notes moves before their beginning is proposed: the next look must know of them.
func (k *dutyKeeper) beginMoves(starts []moveStart, given bool) []*move {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	moves := make([]*move, len(starts))
	for i, s := range starts {
		moves[i] = &move{target: s.target, epoch: s.LeaderEpoch + 1, born: now, given: given}
		k.moves[s.Partition] = moves[i]
		delete(k.handovers, s.Partition)
	}
	return moves
}

// dropMoves forgets moves whose beginning was refused.
func (k *dutyKeeper) dropMoves(starts []moveStart, moves []*move, errs []error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, s := range starts {
		if errs[i] != nil && certain(errs[i]) && k.moves[s.Partition] == moves[i] {
			delete(k.moves, s.Partition)
		}
	}
}

// followMoves drops what is over, and notes who was given no leadership back. Under mu.
func (k *dutyKeeper) followMoves(image *metadata.Image, now time.Time) {
	maps.DeleteFunc(k.moves, func(id record.PartitionID, m *move) bool {
		p := image.Partition(id)
		over := m.follow(p, now)
		if over && m.given && p != nil && p.LeaderEpoch == m.epoch && p.Leader != m.target {
			k.decline(id, now)
		}
		return over
	})
	maps.DeleteFunc(k.held, func(id record.PartitionID, epoch int32) bool {
		p := image.Partition(id)
		return p == nil || p.LeaderEpoch != epoch
	})
	maps.DeleteFunc(k.declined, func(id record.PartitionID, d declined) bool {
		return image.Partition(id) == nil || now.Sub(d.until) >= declinedLast
	})
}
