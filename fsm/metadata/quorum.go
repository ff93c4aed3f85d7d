package metadata

import (
	"slices"

	"cordwood/fsm/mutant"
)

// This file counts replicas as the quorum rule does.

// Majority is the least number of n replicas that is more than half of them.
func Majority(n int) int { return n/2 + 1 }

// WriteQuorum is W of a set of n replicas: how many must hold a record before the quorum rule has it committed. It is a
// majority, or the minimum where that is more.
func WriteQuorum(n int, minISR int32) int { return max(Majority(n), min(int(minISR), n)) }

// Trusted says that a replica's log is known to hold what it counted for: it was certified after its last restart that
// may have lost bytes which count under the partition's durability.
func Trusted(p *Partition, id int32, broker Brokers) bool {
	m, b := p.Member(id), broker(id)
	if m == nil || b == nil {
		return false
	}
	if p.Durability == DurabilityDisk {
		return m.Cert >= b.LossMedia
	}
	return m.Cert >= b.LossPower
}

// TrustedReplicas lists the replicas that are trusted, rising ids.
func TrustedReplicas(p *Partition, broker Brokers) []int32 {
	var ids []int32
	for i := range p.Members {
		if Trusted(p, p.Members[i].ID, broker) {
			ids = append(ids, p.Members[i].ID)
		}
	}
	return ids
}

// quorumSets gives the sets of which each has to agree: V, and Vnew while both are in force.
func (p *Partition) quorumSets() [][]int32 {
	if len(p.NewReplicas) == 0 {
		return [][]int32{p.Replicas}
	}
	return [][]int32{p.Replicas, p.NewReplicas}
}

// votes says that a replica is heard in elections: observers are not.
func (p *Partition) votes(id int32) bool {
	return slices.Contains(p.Replicas, id) || slices.Contains(p.NewReplicas, id)
}

// voters lists V and Vnew, each replica once, in the order of preference.
func (p *Partition) voters() []int32 {
	ids := slices.Clone(p.Replicas)
	for _, id := range p.NewReplicas {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// countIn counts the members of a set of which something holds.
func countIn(set []int32, holds func(id int32) bool) int {
	n := 0
	for _, id := range set {
		if holds(id) {
			n++
		}
	}
	return n
}

// majorities says that more than half of every set in force are replicas of which something holds.
func (p *Partition) majorities(holds func(id int32) bool) bool {
	for _, set := range p.quorumSets() {
		if countIn(set, holds) < Majority(len(set)) {
			return false
		}
	}
	return true
}

// lastLeaderHolds says that the last elected leader has every committed record, by its own word alone: since its election
// it has lost nothing, flushed or not, for it may have committed what W others flushed and it had not.
func lastLeaderHolds(p *Partition, broker Brokers) bool {
	m, b := p.Member(p.LastLeader), broker(p.LastLeader)
	if mutant.LastLeaderAnyTrust {
		return m != nil && b != nil && p.votes(p.LastLeader) && Trusted(p, p.LastLeader, broker)
	}
	return m != nil && b != nil && p.votes(p.LastLeader) && m.Cert >= b.LossPower
}

// quorumCanElect says that an election by reports only needs brokers to come back.
func quorumCanElect(p *Partition, broker Brokers) bool {
	return p.majorities(func(id int32) bool { return Trusted(p, id, broker) }) || lastLeaderHolds(p, broker)
}

// quorumIsUp says that those who are up suffice for an election by reports.
func quorumIsUp(p *Partition, broker Brokers) bool {
	ready := func(id int32) bool { return Trusted(p, id, broker) && broker(id).MayLead() }
	return p.majorities(ready) || lastLeaderHolds(p, broker) && broker(p.LastLeader).MayLead()
}
