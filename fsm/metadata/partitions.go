package metadata

import (
	"slices"

	"cordwood/fsm/mutant"
	"cordwood/logstore/record"
)

// lookup gives the record of a partition.
func (s *State) lookup(id record.PartitionID) (*Partition, error) {
	t := s.head.TopicByID(id.Topic)
	if t == nil {
		return nil, refuse(ErrUnknownTopicID, "topic id %s", id.Topic)
	}
	if id.Partition < 0 || int(id.Partition) >= len(t.Partitions) {
		return nil, refuse(ErrUnknownPartition, "%s-%d; the topic has %d", t.Name, id.Partition, len(t.Partitions))
	}
	return t.Partitions[id.Partition], nil
}

func checkLeaderEpoch(p *Partition, epoch int32) error {
	if epoch > p.LeaderEpoch {
		return refuse(ErrInvalidRequest, "leader epoch %d was given, but %d is the newest", epoch, p.LeaderEpoch)
	}
	if epoch < p.LeaderEpoch {
		return refuse(ErrFencedLeaderEpoch, "leader epoch %d was given, %d is current", epoch, p.LeaderEpoch)
	}
	return nil
}

func checkPartitionEpoch(p *Partition, epoch int32) error {
	if epoch != p.PartitionEpoch {
		return refuse(ErrInvalidUpdate, "partition epoch %d was given, %d is current", epoch, p.PartitionEpoch)
	}
	return nil
}

// alterPartition takes a leader's proposal of an ISR, by compare-and-set on leader, its broker epoch, leader epoch and
// partition epoch. Accepted, it raises the partition epoch even if it changes nothing, so that exactly one of several
// proposals made at one partition epoch can win.
func (s *State) alterPartition(c PartitionChange) error {
	old, err := s.lookup(c.Partition)
	if err != nil {
		return err
	}
	if err := s.checkLeads(old, c.Leader, c.LeaderBrokerEpoch, c.LeaderEpoch); err != nil {
		return err
	}
	if err := checkPartitionEpoch(old, c.PartitionEpoch); err != nil {
		return err
	}
	if err := s.checkISR(old, c.Leader, c.ISR); err != nil {
		return err
	}
	next := old.clone()
	next.ISR = nil
	for _, m := range c.ISR {
		next.ISR = append(next.ISR, m.ID)
	}
	s.commit(old, next, nobodyLost, true)
	return nil
}

// checkLeads: the sender is the leader of this epoch, and the process that was elected. That is the registered process too,
// since a registration ends the leadership of the one before.
func (s *State) checkLeads(p *Partition, leader int32, brokerEpoch int64, leaderEpoch int32) error {
	if err := checkLeaderEpoch(p, leaderEpoch); err != nil {
		return err
	}
	if p.Leader == NoNode || p.Leader != leader {
		return refuse(ErrInvalidRequest, "node %d does not lead, node %d does", leader, p.Leader)
	}
	if p.LeaderBrokerEpoch != brokerEpoch {
		return refuse(ErrStaleBrokerEpoch, "broker epoch %d of node %d was given, %d was elected", brokerEpoch, leader, p.LeaderBrokerEpoch)
	}
	return nil
}

// checkISR: the leader is in it, all are replicas, once, and every member is the process that the leader has seen,
// unfenced; one that joins is not shutting down.
func (s *State) checkISR(p *Partition, leader int32, isr []BrokerEpoch) error {
	hasLeader := false
	for i, m := range isr {
		twice := slices.ContainsFunc(isr[:i], func(o BrokerEpoch) bool { return o.ID == m.ID })
		assigned := p.votes(m.ID) || p.Rule.ElectBy() == RuleISR && slices.Contains(p.Adding, m.ID)
		if twice || !assigned {
			return refuse(ErrInvalidRequest, "node %d stands twice in the ISR or is not among replicas %v", m.ID, p.Replicas)
		}
		hasLeader = hasLeader || m.ID == leader
	}
	if !hasLeader {
		return refuse(ErrInvalidRequest, "the ISR lacks its leader %d", leader)
	}
	for _, m := range isr {
		b := s.head.Broker(m.ID)
		fenced := !b.Alive()
		otherProcess := b == nil || b.Epoch != m.Epoch && !mutant.NoAlterBE
		joins := !slices.Contains(p.ISR, m.ID)
		leaving := joins && b != nil && b.Draining
		if fenced || otherProcess || leaving {
			return refuse(ErrIneligibleReplica, "node %d (broker epoch %d given, %d current) is fenced, shutting down or another process", m.ID, m.Epoch, s.head.BrokerEpoch(m.ID))
		}
	}
	return nil
}

// certify notes that a replica's log of its present stay is complete. The partition epoch stays.
func (s *State) certify(c Certification) error {
	old, err := s.lookup(c.Partition)
	if err != nil {
		return err
	}
	if err := s.checkLeads(old, old.Leader, c.LeaderBrokerEpoch, c.LeaderEpoch); err != nil {
		return err
	}
	if err := s.checkEpoch(c.Broker); err != nil {
		return err
	}
	m := old.Member(c.Broker.ID)
	if m == nil {
		return refuse(ErrInvalidRequest, "node %d is no replica", c.Broker.ID)
	}
	if m.JoinPE != c.JoinPE {
		return refuse(ErrInvalidUpdate, "node %d joined in partition epoch %d, not %d", c.Broker.ID, m.JoinPE, c.JoinPE)
	}
	if m.Cert == c.Broker.Epoch {
		return nil
	}
	next := old.clone()
	next.Member(c.Broker.ID).Cert = c.Broker.Epoch
	s.putPartition(next)
	return nil
}

// replicaDamaged takes replicas that lost bytes out of ISR, ELR and leadership; they are certified again in time.
func (s *State) replicaDamaged(c *ReplicaDamaged) Result {
	if err := s.checkEpoch(c.Broker); err != nil {
		return Result{Err: err}
	}
	b := c.Broker.ID
	return Result{Items: each(c.Partitions, func(id record.PartitionID) error {
		old, err := s.lookup(id)
		if err != nil {
			return err
		}
		if !old.IsReplica(b) {
			return refuse(ErrInvalidRequest, "node %d is no replica", b)
		}
		lost := func(id int32) bool { return id == b }
		next := old.clone()
		next.Member(b).Cert = -1
		if s.head.level >= QuorumLevel {
			// What a leader said of the log before the damage, and says late, is of another stay. Binaries of level 1 leave the
			// old one, so that below the level this one does too.
			next.Member(b).JoinPE = old.PartitionEpoch + 1
		}
		next.ISR = slices.DeleteFunc(next.ISR, lost)
		next.ELR = elr(old, next, lost)
		if next.Leader == b {
			next.dropLeader()
			s.electSafe(next)
		}
		s.commit(old, next, lost, true)
		s.partitionEvent(EventReplicaDamaged, next, b, "the log of node %d is damaged and will be repaired from the leader", b)
		return nil
	})}
}

// setMinISR changes min.insync.replicas of one partition by compare-and-set.
func (s *State) setMinISR(c *SetMinISR) error {
	old, err := s.lookup(c.Partition)
	if err != nil {
		return err
	}
	if err := checkPartitionEpoch(old, c.PartitionEpoch); err != nil {
		return err
	}
	if err := checkMinISR(c.MinISR, old.fewestReplicas()); err != nil {
		return err
	}
	next := old.clone()
	next.MinISR = c.MinISR
	s.commit(old, next, nobodyLost, true)
	return nil
}

// fewestReplicas is the size of the smaller of the sets that the partition has and may come to have.
func (p *Partition) fewestReplicas() int {
	n := len(p.Replicas)
	for _, set := range [][]int32{p.NewReplicas, p.Adding} {
		if len(set) > 0 {
			n = min(n, len(set))
		}
	}
	return n
}

func checkMinISR(minISR int32, replicas int) error {
	if minISR < 1 || int(minISR) > replicas {
		return refuse(ErrInvalidConfig, "min.insync.replicas is %d, the partition has %d replicas", minISR, replicas)
	}
	return nil
}
