package controller

import (
	"cordwood/fsm/metadata"
)

// reassigned says that a change of the partition's replicas is under way.
func reassigned(p *metadata.Partition) bool { return p.Change() == metadata.ChangeReplicas }

// cancellation takes back the change of a partition's replicas, as this record has it.
func cancellation(p *metadata.Partition) metadata.Reassignment {
	return metadata.Reassignment{Partition: p.ID, PartitionEpoch: p.PartitionEpoch}
}

// mayEnterJoint says that a reassignment under the quorum rule may go from filling observers to two sets in force: every
// member of the target is trusted, enough of them live to commit, and somebody leads.
func mayEnterJoint(p *metadata.Partition, broker metadata.Brokers) bool {
	if ready, _ := metadata.JointReady(p, broker); !ready || p.Leader == metadata.NoNode {
		return false
	}
	alive := 0
	for _, id := range p.Adding {
		if broker(id).Alive() {
			alive++
		}
	}
	return alive >= metadata.WriteQuorum(len(p.Adding), p.MinISR)
}
