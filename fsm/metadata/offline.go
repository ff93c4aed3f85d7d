package metadata

import "cordwood/logstore/record"

// This file tells operators of partitions that nobody leads.

// outlook is the state of a partition as operators are told: one whose next leader those who are up can elect by their
// reports is as good as led.
func (s *State) outlook(p *Partition) Safety {
	if p.Leader == NoNode && p.Rule.ElectBy() == RuleQuorum && quorumIsUp(p, s.head.Broker) {
		return Online
	}
	return SafetyOf(p, s.head.Broker)
}

// tellOffline notes that a record took from a partition its leader, or its last safe candidate.
func (s *State) tellOffline(old, next *Partition) { s.tellOutlook(next, s.outlook(old)) }

// tellOutlook notes a state that is new, and not one to be glad of.
func (s *State) tellOutlook(p *Partition, before Safety) {
	now := s.outlook(p)
	if now == Online || now == before {
		return
	}
	byQuorum := p.Rule.ElectBy() == RuleQuorum
	switch {
	case now == OfflineUnsafe:
		s.partitionEvent(EventPartitionUnsafe, p, NoNode, "no leader in epoch %d, and no replica is known to have every committed record; recovery policy %s", p.LeaderEpoch, p.Recovery)
	case byQuorum:
		s.partitionEvent(EventPartitionOffline, p, NoNode, "no leader in epoch %d; waiting for a majority of replicas %v %v, of which %v are trusted, or for the last leader %d", p.LeaderEpoch, p.Replicas, p.NewReplicas, TrustedReplicas(p, s.head.Broker), p.LastLeader)
	default:
		s.partitionEvent(EventPartitionOffline, p, NoNode, "no leader in epoch %d; waiting for one of ISR %v, ELR %v", p.LeaderEpoch, p.ISR, p.ELR)
	}
}

// outlooks are the states of partitions before something that may change them without changing their records.
type outlooks []struct {
	id     record.PartitionID
	before Safety
}

// awaited notes the states of those partitions of brokers that wait for reports. Such a partition gets no new record when
// one of its replicas is lost.
func (s *State) awaited(brokers []int32) (o outlooks) {
	for _, id := range s.hostedByAny(brokers) {
		if p := s.head.Partition(id); p.Leader == NoNode && p.Rule.ElectBy() == RuleQuorum {
			o = append(o, struct {
				id     record.PartitionID
				before Safety
			}{id, s.outlook(p)})
		}
	}
	return o
}

// tellAwaited notes what became of them.
func (s *State) tellAwaited(o outlooks) {
	for _, w := range o {
		if p := s.head.Partition(w.id); p.Leader == NoNode {
			s.tellOutlook(p, w.before)
		}
	}
}
