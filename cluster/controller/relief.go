package controller

import (
	"slices"

	"cordwood/fsm/metadata"
)

// noteFull takes from a heartbeat whether the broker's disk takes clients' records. What a process said ends with it.
func (k *dutyKeeper) noteFull(broker metadata.BrokerEpoch, full bool) {
	k.mu.Lock()
	was := k.full[broker.ID] == broker.Epoch
	if full {
		k.full[broker.ID] = broker.Epoch
	} else if was {
		delete(k.full, broker.ID)
	}
	k.mu.Unlock()
	if full == was {
		return
	}
	if full {
		k.r.log.Warn("a node's disk takes no records: its leaderships go to nodes that have room", "node", broker.ID)
	} else {
		k.r.log.Info("a node's disk takes records again", "node", broker.ID)
	}
	k.poke()
}

// fullNodes gives the live processes that said their disk is full, and forgets earlier ones. Under mu.
func (k *dutyKeeper) fullNodes(image *metadata.Image) map[int32]bool {
	full := make(map[int32]bool, len(k.full))
	for id, epoch := range k.full {
		if image.BrokerEpoch(id) != epoch {
			delete(k.full, id)
			continue
		}
		full[id] = true
	}
	return full
}

// relieve moves leadership from nodes whose disk takes no records to replicas in sync that have room. Where none has,
// everything stays as it is.
func (f *dutyFacts) relieve(plan *dutyPlan) {
	for id := range f.full {
		for p := range f.image.ReplicasOf(id) {
			if p.Leader != id {
				continue
			}
			target := f.withRoom(p)
			switch {
			case target == metadata.NoNode:
			case p.Rule.ElectBy() == metadata.RuleQuorum:
				f.moveByQuorum(p, target, plan)
			default:
				plan.relieve = append(plan.relieve, metadata.Election{Partition: p.ID, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Leader: target})
			}
		}
	}
}

// withRoom gives the first replica that may take over from a partition's leader and has room, NoNode where none has.
func (f *dutyFacts) withRoom(p *metadata.Partition) int32 {
	for _, id := range voters(p) {
		if f.full[id] || !slices.Contains(p.ISR, id) {
			continue
		}
		if p.Rule.ElectBy() == metadata.RuleQuorum && checkMove(p, id, f.image.Broker) == nil || metadata.CheckCandidate(p, id, f.image.Broker) == nil {
			return id
		}
	}
	return metadata.NoNode
}
