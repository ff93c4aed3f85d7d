package metadata

import (
	"slices"

	"cordwood/fsm/mutant"
)

// finishChange ends the change under way on one partition, once its leader has proven by positions of its own epoch that
// the new regime holds. A compare-and-set on leader, its process, leader epoch and partition epoch; the proof is counted
// again.
func (s *State) finishChange(f Finish) error {
	old, err := s.lookup(f.Partition)
	if err != nil {
		return err
	}
	if err := s.checkLeads(old, f.Leader, f.LeaderBrokerEpoch, f.LeaderEpoch); err != nil {
		return err
	}
	if err := checkPartitionEpoch(old, f.PartitionEpoch); err != nil {
		return err
	}
	if err := s.checkEvidence(old, &f); err != nil {
		return err
	}
	switch old.Change() {
	case ChangeRule:
		return s.finishRule(old, &f)
	case ChangeDurability:
		return s.finishDurability(old, &f)
	case ChangeReplicas:
		return s.finishReassign(old, &f)
	}
	return refuse(ErrInvalidRequest, "no change is under way")
}

// checkEvidence: positions of present processes of replicas, once each, none below the point.
func (s *State) checkEvidence(p *Partition, f *Finish) error {
	for i, e := range f.Evidence {
		if err := s.checkEpoch(e.Broker); err != nil {
			return err
		}
		twice := slices.ContainsFunc(f.Evidence[:i], func(o Evidence) bool { return o.Broker.ID == e.Broker.ID })
		if twice || !p.IsReplica(e.Broker.ID) || e.Offset < f.Point {
			return refuse(ErrInvalidRequest, "node %d at offset %d proves nothing about point %d", e.Broker.ID, e.Offset, f.Point)
		}
	}
	return nil
}

// proves says that a replica's position is part of the evidence.
func (f *Finish) proves(id int32) bool {
	return slices.ContainsFunc(f.Evidence, func(e Evidence) bool { return e.Broker.ID == id })
}

// checkQuorum: W of the set are in the evidence.
func (f *Finish) checkQuorum(set []int32, minISR int32) error {
	have, need := countIn(set, f.proves), WriteQuorum(len(set), minISR)
	if have < need {
		return refuse(ErrNotEligible, "%d of replicas %v are proven to hold offset %d, %d are needed", have, set, f.Point, need)
	}
	return nil
}

// checkInSync: the ISR is large enough to commit, and all of it is in the evidence.
func (f *Finish) checkInSync(p *Partition) error {
	if len(p.ISR) < int(p.MinISR) || countIn(p.ISR, f.proves) < len(p.ISR) {
		return refuse(ErrNotEligible, "not all of ISR %v (at least %d) are proven to hold offset %d", p.ISR, p.MinISR, f.Point)
	}
	return nil
}

// certifyProven certifies those of the evidence under the processes that they run.
func (p *Partition) certifyProven(f *Finish) {
	for _, e := range f.Evidence {
		p.Member(e.Broker.ID).Cert = e.Broker.Epoch
	}
}

// finishRule makes the rule that was changed to the only one. Both were in force, so both are counted again. Towards quorum
// the proven replicas are certified and the others keep what they have: a replica that only lags is not to lose its vote.
func (s *State) finishRule(old *Partition, f *Finish) error {
	if err := f.checkQuorum(old.Replicas, old.MinISR); err != nil {
		return err
	}
	if err := f.checkInSync(old); err != nil {
		return err
	}
	next := old.clone()
	next.Rule = old.Rule.Target()
	next.settleChange()
	if next.Rule == RuleQuorum {
		for i := range next.Members {
			if mutant.FinReset {
				next.Members[i].Cert = -1
			}
		}
		next.certifyProven(f)
	}
	s.commit(old, next, nobodyLost, true)
	s.partitionEvent(EventRuleFinished, next, f.Leader, "commit.rule is %s", next.Rule)
	return nil
}

// finishDurability lets trust count from disk. Only what the evidence shows is known to be there: every other replica, and
// what it may have promised, starts anew.
func (s *State) finishDurability(old *Partition, f *Finish) error {
	if !f.proves(f.Leader) {
		return refuse(ErrNotEligible, "the leader %d is not proven to hold offset %d on disk", f.Leader, f.Point)
	}
	check := f.checkInSync(old)
	if old.Rule == RuleQuorum {
		check = f.checkQuorum(old.Replicas, old.MinISR)
	}
	if check != nil {
		return check
	}
	next := old.clone()
	next.Durability = DurabilityDisk
	next.settleChange()
	for i := range next.Members {
		next.Members[i].Cert = -1
	}
	next.certifyProven(f)
	s.commit(old, next, nobodyLost, true)
	s.partitionEvent(EventDurabilityFinished, next, f.Leader, "commit.durability is disk")
	return nil
}
