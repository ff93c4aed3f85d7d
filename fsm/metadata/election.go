package metadata

import (
	"slices"

	"cordwood/fsm/mutant"
)

// Brokers looks a broker up, nil if there is none: Image.Broker.
type Brokers func(id int32) *Broker

// ChooseLeader gives the best safe candidate of a partition without a leader, NoNode if there is none or elections of
// its rule need reports: the first in the replica list that is in the ISR and may lead, else the first of the ELR.
func ChooseLeader(p *Partition, broker Brokers) int32 {
	for _, id := range slices.Concat(p.Replicas, p.NewReplicas, p.Adding) {
		if CheckCandidate(p, id, broker) == nil && slices.Contains(p.ISR, id) {
			return id
		}
	}
	for _, id := range slices.Concat(p.Replicas, p.NewReplicas, p.Adding) {
		if CheckCandidate(p, id, broker) == nil {
			return id
		}
	}
	return NoNode
}

// CheckCandidate judges one candidate of the ISR rule: unfenced, not shutting down, and in the ISR, or in the ELR while
// nobody of the ISR is unfenced. A record that has a leader may only be moved inside its ISR.
func CheckCandidate(p *Partition, id int32, broker Brokers) error {
	b := broker(id)
	byQuorum := p.Rule.ElectBy() == RuleQuorum
	ready := b.MayLead()
	inISR := slices.Contains(p.ISR, id)
	inELR := slices.Contains(p.ELR, id)
	isrAlive := slices.ContainsFunc(p.ISR, func(m int32) bool { return broker(m).Alive() })
	moves := p.Leader != NoNode
	switch {
	case byQuorum:
		return refuse(ErrInvalidRequest, "leaders of this partition are elected by reports, not from the ISR")
	case moves && p.Leader == id:
		return refuse(ErrElectionNotNeeded, "node %d leads", id)
	case !ready:
		return refuse(ErrNotEligible, "node %d is not registered, is fenced or is shutting down", id)
	case inISR:
		return nil
	case !inELR && !mutant.Unclean || moves:
		return refuse(ErrNotEligible, "node %d is in neither ISR %v nor ELR %v", id, p.ISR, p.ELR)
	case isrAlive:
		return refuse(ErrNotEligible, "node %d is in the ELR, but a member of ISR %v is alive", id, p.ISR)
	}
	return nil
}

// PreferredMove gives the preferred replica of a partition that another one leads, if it is in sync and may lead, else
// NoNode.
func PreferredMove(p *Partition, broker Brokers) int32 {
	if len(p.Replicas) == 0 || p.Leader == NoNode || CheckCandidate(p, p.Replicas[0], broker) != nil {
		return NoNode
	}
	return p.Replicas[0]
}

// elect makes one leader. It checks the candidate and never trusts the proposer.
func (s *State) elect(e Election) error {
	old, err := s.lookup(e.Partition)
	if err != nil {
		return err
	}
	if err := checkLeaderEpoch(old, e.LeaderEpoch); err != nil {
		return err
	}
	if err := checkPartitionEpoch(old, e.PartitionEpoch); err != nil {
		return err
	}
	if err := CheckCandidate(old, e.Leader, s.head.Broker); err != nil {
		return err
	}
	next := old.clone()
	next.setLeader(s.head.Broker(e.Leader))
	s.commit(old, next, nobodyLost, false)
	return nil
}
