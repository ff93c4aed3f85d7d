package metadata

import (
	"slices"

	"cordwood/fsm/mutant"
	"cordwood/logstore/record"
)

// This file holds what every change of a partition record shares: the ELR, and when epochs rise.

// lostIn says whether the record that is being made registers the loss of a broker's copy of this partition.
type lostIn func(id int32) bool

func nobodyLost(int32) bool              { return false }
func everybodyLost(int32) bool           { return true }
func nothingLost(*Partition, int32) bool { return false }

// clone gives a copy that may be written to.
func (p *Partition) clone() *Partition {
	c := *p
	c.Replicas = slices.Clone(p.Replicas)
	c.NewReplicas = slices.Clone(p.NewReplicas)
	c.Adding = slices.Clone(p.Adding)
	c.Members = slices.Clone(p.Members)
	c.ISR = slices.Clone(p.ISR)
	c.ELR = slices.Clone(p.ELR)
	return &c
}

// elr computes the eligible leader replicas of next, the successor of old: those that left the ISR while it was below
// min.insync.replicas have every committed record still, unless their loss is known.
func elr(old, next *Partition, lost lostIn) []int32 {
	enough := int32(len(next.ISR)) >= next.MinISR || mutant.NoELR
	byQuorum := next.Rule.ElectBy() == RuleQuorum && !mutant.ElectKeepsELR
	if enough || byQuorum {
		return nil
	}
	var out []int32
	for _, id := range slices.Concat(next.Replicas, next.Adding) {
		stays := slices.Contains(old.ELR, id)
		leaves := slices.Contains(old.ISR, id)
		inSync := slices.Contains(next.ISR, id)
		if (stays || leaves) && !inSync && !lost(id) && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// commit makes next the record after old: it computes the ELR, raises the epochs by their rules and stores it. Nothing is
// stored when nothing changed, unless force raises the partition epoch all the same. The caller does not touch next again.
func (s *State) commit(old, next *Partition, lost lostIn, force bool) {
	next.ISR = inReplicaOrder(next, next.ISR)
	if !(mutant.MinKeepELR && old.MinISR != next.MinISR) {
		next.ELR = elr(old, next, lost)
	}
	leaderGone := old.Leader != NoNode && next.Leader != old.Leader
	if leaderGone {
		next.raiseEpoch(old)
	}
	if !force && !changes(old, next) {
		return
	}
	next.PartitionEpoch = old.PartitionEpoch + 1
	s.putPartition(next)
	s.tellOffline(old, next)
}

// changes says that a record differs from the one before it in what raises the partition epoch. Certificates do not, and
// neither does the recovery policy.
func changes(old, next *Partition) bool {
	leads := next.Leader != old.Leader || next.LeaderBrokerEpoch != old.LeaderBrokerEpoch || next.LeaderEpoch != old.LeaderEpoch
	inSync := !slices.Equal(next.ISR, old.ISR) || !slices.Equal(next.ELR, old.ELR) || next.MinISR != old.MinISR
	sets := !slices.Equal(next.Replicas, old.Replicas) || !slices.Equal(next.NewReplicas, old.NewReplicas) || !slices.Equal(next.Adding, old.Adding)
	return leads || inSync || sets || next.Rule != old.Rule || next.Durability != old.Durability
}

// raiseEpoch starts a new leader epoch: of one record, however often it is asked for.
func (p *Partition) raiseEpoch(old *Partition) { p.LeaderEpoch = old.LeaderEpoch + 1 }

// withdraw takes brokers out of the ISR and the leadership of every partition they are replicas of, and elects the
// successors that are safe in the same record.
func (s *State) withdraw(gone []int32, lost func(p *Partition, id int32) bool) {
	for _, id := range s.hostedByAny(gone) {
		old := s.head.Partition(id)
		next := old.clone()
		lostHere := func(b int32) bool { return lost(old, b) }
		next.ISR = slices.DeleteFunc(next.ISR, func(b int32) bool { return slices.Contains(gone, b) })
		if mutant.NoELR && len(next.ISR) == 0 {
			next.ISR = old.ISR[:min(1, len(old.ISR))] // what was done before there was one: the last stays
		}
		next.ELR = elr(old, next, lostHere)
		if next.Leader != NoNode && slices.Contains(gone, next.Leader) {
			next.dropLeader()
			s.electSafe(next)
		}
		s.commit(old, next, lostHere, false)
	}
}

// hostedByAny lists the partitions that any of the brokers is a replica of, each once.
func (s *State) hostedByAny(brokers []int32) []record.PartitionID {
	var ids []record.PartitionID
	for _, b := range brokers {
		ids = append(ids, s.head.hosted(b)...)
	}
	slices.SortFunc(ids, ComparePartitions)
	return slices.Compact(ids)
}

func (p *Partition) dropLeader() { p.Leader, p.LeaderBrokerEpoch = NoNode, -1 }

// setLeader makes b lead; it joins the ISR.
func (p *Partition) setLeader(b *Broker) {
	p.Leader, p.LeaderBrokerEpoch, p.LastLeader = b.ID, b.Epoch, b.ID
	if !slices.Contains(p.ISR, b.ID) {
		p.ISR = append(p.ISR, b.ID)
	}
}

// electSafe makes the best safe candidate lead, if there is one. Only for records without a leader.
func (s *State) electSafe(next *Partition) {
	if x := ChooseLeader(next, s.head.Broker); x != NoNode {
		next.setLeader(s.head.Broker(x))
	}
}

// inReplicaOrder sorts members by their place in the replica list, so that equal sets are equal lists.
func inReplicaOrder(p *Partition, ids []int32) []int32 {
	var out []int32
	for _, id := range slices.Concat(p.Replicas, p.NewReplicas, p.Adding) {
		if slices.Contains(ids, id) && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}
