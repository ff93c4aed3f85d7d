package metadata

import (
	"slices"

	"cordwood/fsm/mutant"
)

// reassign begins the move of one partition to other replicas, or cancels the one under way. The new members come in
// uncertified and are filled before they count for anything.
func (s *State) reassign(r Reassignment) error {
	old, err := s.lookup(r.Partition)
	if err != nil {
		return err
	}
	if r.PartitionEpoch != AnyPartitionEpoch {
		if err := checkPartitionEpoch(old, r.PartitionEpoch); err != nil {
			return err
		}
	}
	if len(r.Target) == 0 {
		return s.cancelReassign(old)
	}
	if c := old.Change(); c != NoChange {
		return refuse(ErrChangeUnderWay, "replicas cannot be changed while %s is: finish that first, or take it back", c)
	}
	if err := s.checkTarget(old, &r); err != nil {
		return err
	}
	next := old.clone()
	if sameSet(r.Target, old.Replicas) {
		next.Replicas = slices.Clone(r.Target)
		s.commit(old, next, nobodyLost, false)
		s.partitionEvent(EventReassigned, next, NoNode, "the replicas %v are preferred in the order %v", old.Replicas, next.Replicas)
		return nil
	}
	next.Adding = slices.Clone(r.Target)
	if mutant.NoObservers && next.Rule == RuleQuorum {
		next.NewReplicas, next.Adding = next.Adding, nil
	}
	next.begin(old)
	next.regroup(old)
	s.commit(old, next, nobodyLost, false)
	s.partitionEvent(EventReassignBegun, next, NoNode, "the replicas %v are being replaced by %v", old.Replicas, r.Target)
	return nil
}

// checkTarget judges the replicas that a partition is to have.
func (s *State) checkTarget(p *Partition, r *Reassignment) error {
	target := r.Target
	for i, id := range target {
		if s.head.Broker(id) == nil {
			return refuse(ErrInvalidAssignment, "node %d is not registered", id)
		}
		if slices.Contains(target[:i], id) {
			return refuse(ErrInvalidAssignment, "node %d stands twice in %v", id, target)
		}
	}
	asked := minAcks(s.head.TopicByID(p.ID.Topic).Configs)
	switch {
	case slices.Equal(target, p.Replicas):
		return refuse(ErrInvalidAssignment, "the replicas are %v already", target)
	case len(target) < int(p.MinISR):
		return refuse(ErrInvalidAssignment, "%d replicas %v are fewer than min.insync.replicas, which is %d", len(target), target, p.MinISR)
	case len(target) < int(asked):
		return refuse(ErrInvalidAssignment, "%d replicas %v are fewer than the copies that min.acks asks for, %d", len(target), target, asked)
	}
	return checkPair(p.Rule, len(target), r.Forced || len(p.Replicas) == 2) // a topic that was forced to have two may be moved
}

func sameSet(a, b []int32) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(id int32) bool { return !slices.Contains(b, id) })
}

// regroup makes the members of next, the successor of old, those of V ∪ Vnew ∪ adding: who stays keeps what is recorded of
// it, who comes in does so uncertified and with this record, and who leaves is forgotten, so that nothing said of this
// stay speaks for a later one.
func (p *Partition) regroup(old *Partition) {
	p.Members = nil
	for _, id := range slices.Concat(p.Replicas, p.NewReplicas, p.Adding) {
		if p.IsReplica(id) {
			continue
		}
		m := Replica{ID: id, JoinPE: old.PartitionEpoch + 1, Cert: -1}
		if was := old.Member(id); was != nil {
			m = *was
		}
		p.Members = append(p.Members, m)
	}
	slices.SortFunc(p.Members, func(a, b Replica) int { return int(a.ID) - int(b.ID) })
}

// JointReady says that a reassignment under the quorum rule may bring its target into force beside the present replicas:
// every member of it is trusted. Untrusted names those that are not yet.
func JointReady(p *Partition, broker Brokers) (ready bool, untrusted []int32) {
	if len(p.Adding) == 0 || p.Rule != RuleQuorum {
		return false, nil
	}
	for _, id := range p.Adding {
		if !Trusted(p, id, broker) {
			untrusted = append(untrusted, id)
		}
	}
	return len(untrusted) == 0, untrusted
}

// enterJoint brings the target of a reassignment into force beside the present replicas, by compare-and-set on the
// partition epoch. Learners that nobody could certify once the leader is gone never count in an election.
func (s *State) enterJoint(j JointEntry) error {
	old, err := s.lookup(j.Partition)
	if err != nil {
		return err
	}
	if err := checkPartitionEpoch(old, j.PartitionEpoch); err != nil {
		return err
	}
	if len(old.Adding) == 0 || old.Rule != RuleQuorum {
		return refuse(ErrNoReassignment, "no replicas are being filled under the quorum rule")
	}
	if ready, untrusted := JointReady(old, s.head.Broker); !ready {
		return refuse(ErrNotEligible, "replicas %v are not certified yet", untrusted)
	}
	next := old.clone()
	next.NewReplicas, next.Adding = old.Adding, nil
	if mutant.NoJoint {
		next.Replicas = next.NewReplicas
		s.endReassign(old, next)
		return nil
	}
	next.begin(old)
	s.commit(old, next, nobodyLost, false)
	s.partitionEvent(EventReassignJoint, next, NoNode, "the replicas %v and %v are both in force until the new ones are proven", next.Replicas, next.NewReplicas)
	return nil
}

// finishReassign leaves the target alone in force: under the quorum rule once both sets are proven at a point of this
// epoch, under the ISR rule once all of it is in sync.
func (s *State) finishReassign(old *Partition, f *Finish) error {
	target := old.NewReplicas
	if len(target) == 0 {
		target = old.Adding
		if old.Rule != RuleISR {
			return refuse(ErrNotEligible, "the new replicas are not in force yet")
		}
		if countIn(target, func(id int32) bool { return slices.Contains(old.ISR, id) }) < len(target) {
			return refuse(ErrNotEligible, "not all of the new replicas %v are in ISR %v", target, old.ISR)
		}
	} else {
		for _, set := range old.quorumSets() {
			if err := f.checkQuorum(set, old.MinISR); err != nil {
				return err
			}
		}
		trusted := countIn(target, func(id int32) bool { return Trusted(old, id, s.head.Broker) })
		if trusted < Majority(len(target)) {
			return refuse(ErrNotEligible, "%d of the new replicas %v are trusted, a majority is needed", trusted, target)
		}
	}
	if len(target) < int(old.MinISR) {
		return refuse(ErrNotEligible, "%d replicas %v are fewer than min.insync.replicas, which is %d", len(target), target, old.MinISR)
	}
	next := old.clone()
	next.Replicas = target
	s.endReassign(old, next)
	s.partitionEvent(EventReassigned, next, f.Leader, "the replicas are %v, and were %v", next.Replicas, old.Replicas)
	return nil
}

// cancelReassign goes back to the replicas that are in force. It needs no proof: their rule has held all along.
func (s *State) cancelReassign(old *Partition) error {
	if old.Change() != ChangeReplicas {
		return refuse(ErrNoReassignment, "the replicas are %v", old.Replicas)
	}
	stays := func(id int32) bool { return slices.Contains(old.Replicas, id) }
	claims := slices.Concat(old.ISR, old.ELR)
	leaves := countIn(claims, stays) < len(claims)
	if left := countIn(old.ISR, stays); old.Rule == RuleISR && leaves && left < int(old.MinISR) {
		return refuse(ErrNotEligible, "of ISR %v and ELR %v only %d would be left in sync, fewer than min.insync.replicas, which is %d", old.ISR, old.ELR, left, old.MinISR)
	}
	target := slices.Concat(old.NewReplicas, old.Adding)
	next := old.clone()
	s.endReassign(old, next)
	s.partitionEvent(EventReassignCancelled, next, NoNode, "the replicas stay %v and are not replaced by %v", next.Replicas, target)
	return nil
}

// endReassign commits next, whose Replicas alone are in force from now on. The new epoch is what stops a fetch or a
// certificate of an earlier stay from speaking for a log that is deleted since.
func (s *State) endReassign(old, next *Partition) {
	next.NewReplicas, next.Adding = nil, nil
	next.settleChange()
	next.regroup(old)
	leaves := func(id int32) bool { return !slices.Contains(next.Replicas, id) }
	next.ISR = slices.DeleteFunc(next.ISR, leaves)
	next.ELR = elr(old, next, nobodyLost)
	if !mutant.FinNoBump && !mutant.FinClearOnly {
		next.raiseEpoch(old)
	}
	if next.Leader != NoNode && leaves(next.Leader) {
		next.dropLeader()
	}
	if next.Leader == NoNode {
		s.electSafe(next)
	}
	s.commit(old, next, nobodyLost, true)
}

// MustCancel says that a reassignment stands in the way of the next leader and is to be taken back first: nobody leads,
// and either nobody may be elected at all until it is, or the new replicas have no trusted majority while the present
// ones could elect without them.
func MustCancel(p *Partition, broker Brokers) bool {
	if p.Leader != NoNode || p.Change() != ChangeReplicas {
		return false
	}
	if SafetyOf(p, broker) == OfflineUnsafe {
		return true
	}
	if len(p.NewReplicas) == 0 {
		return false
	}
	trusted := countIn(p.NewReplicas, func(id int32) bool { return Trusted(p, id, broker) })
	without := p.clone()
	without.NewReplicas = nil
	return trusted < Majority(len(p.NewReplicas)) && SafetyOf(without, broker) != OfflineUnsafe
}
