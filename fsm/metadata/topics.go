package metadata

import (
	"maps"
	"slices"

	"cordwood/logstore/record"
)

// MaxPartitions is the most partitions of one topic.
const MaxPartitions = 100_000

// createTopic makes one topic and elects its first leaders.
func (s *State) createTopic(n NewTopic) error {
	if err := CheckLevel(s.head.level, n.NeedsLevel()); err != nil {
		return err
	}
	if err := s.checkNewName(n.Name); err != nil {
		return err
	}
	if n.ID.IsZero() || s.head.TopicByID(n.ID) != nil {
		return refuse(ErrInvalidRequest, "topic id %s is zero or taken", n.ID)
	}
	if len(n.Assignment) < 1 || len(n.Assignment) > MaxPartitions {
		return refuse(ErrInvalidPartitions, "%d partitions asked, 1 to %d are allowed", len(n.Assignment), MaxPartitions)
	}
	factor := len(n.Assignment[0])
	if err := s.checkAssignment(n.Assignment, factor); err != nil {
		return err
	}
	model := Partition{Rule: n.Rule, Durability: n.Durability, Recovery: n.Recovery, MinISR: n.MinISR}
	model.fillDefaults(factor)
	if err := checkModel(&model, factor, n.Forced); err != nil {
		return err
	}
	if err := checkMinAcks(n.Configs, factor); err != nil {
		return err
	}
	t := &Topic{ID: n.ID, Name: n.Name, Configs: maps.Clone(n.Configs)}
	for i, replicas := range n.Assignment {
		t.Partitions = append(t.Partitions, s.newPartition(record.PartitionID{Topic: n.ID, Partition: int32(i)}, replicas, &model))
	}
	s.addTopic(t)
	return nil
}

func (s *State) addTopic(t *Topic) {
	s.indexTopic(t)
	s.pending.owned[t.ID] = t
	s.pending.topics[t.ID] = struct{}{}
	for _, p := range t.Partitions {
		s.pending.partitions[p.ID] = struct{}{}
	}
}

// fillDefaults gives what the proposer left open.
func (p *Partition) fillDefaults(replicas int) {
	if p.Rule == "" {
		p.Rule = RuleISR
	}
	if p.Durability == "" {
		p.Durability = DurabilityMemory
	}
	if p.Recovery == "" {
		p.Recovery = RecoverWaitAll
	}
	if p.MinISR == 0 {
		p.MinISR = DefaultMinISR(replicas)
	}
}

// checkModel judges what all partitions of a topic share.
func checkModel(p *Partition, replicas int, forced bool) error {
	if err := checkRule(p.Rule); err != nil {
		return err
	}
	if err := checkDurability(p.Durability); err != nil {
		return err
	}
	if err := checkPair(p.Rule, replicas, forced); err != nil {
		return err
	}
	if err := checkRecovery(p.Recovery); err != nil {
		return err
	}
	return checkMinISR(p.MinISR, replicas)
}

// checkMinAcks refuses settings that ask for more copies than there are replicas.
func checkMinAcks(configs map[string]string, replicas int) error {
	if n := minAcks(configs); int(n) > replicas {
		return refuse(ErrInvalidConfig, "min.acks is %d, the partition has %d replicas", n, replicas)
	}
	return nil
}

func checkRule(r CommitRule) error {
	if r != RuleISR && r != RuleQuorum {
		return refuse(ErrInvalidConfig, "commit.rule %q is neither %s nor %s", r, RuleISR, RuleQuorum)
	}
	return nil
}

func checkDurability(d Durability) error {
	if d != DurabilityMemory && d != DurabilityDisk {
		return refuse(ErrInvalidConfig, "commit.durability %q is neither %s nor %s", d, DurabilityMemory, DurabilityDisk)
	}
	return nil
}

func checkRecovery(r RecoveryPolicy) error {
	switch r {
	case RecoverWaitAll, RecoverManual, RecoverProactive:
		return nil
	}
	return refuse(ErrInvalidConfig, "recovery.policy %q is none of %s, %s, %s", r, RecoverWaitAll, RecoverManual, RecoverProactive)
}

// checkAssignment judges replica lists: as many as the replication factor, registered, once each, one at least alive.
func (s *State) checkAssignment(assignment [][]int32, factor int) error {
	for i, replicas := range assignment {
		if len(replicas) == 0 || len(replicas) != factor {
			return refuse(ErrInvalidAssignment, "place %d of the assignment has %d replicas, the others have %d", i, len(replicas), factor)
		}
		someAlive := false
		for j, id := range replicas {
			b := s.head.Broker(id)
			if b == nil {
				return refuse(ErrInvalidAssignment, "node %d is not registered", id)
			}
			if slices.Contains(replicas[:j], id) {
				return refuse(ErrInvalidAssignment, "node %d stands twice in %v", id, replicas)
			}
			someAlive = someAlive || b.MayLead()
		}
		if !someAlive {
			return refuse(ErrInvalidAssignment, "all of the nodes %v are fenced or shutting down", replicas)
		}
	}
	return nil
}

// newPartition makes the first record of a partition: its replicas that are alive hold everything there is, and the first
// of them leads. Under either rule: nothing was committed yet, and the log of epoch 0 is empty everywhere.
func (s *State) newPartition(id record.PartitionID, replicas []int32, model *Partition) *Partition {
	p := model.clone()
	p.ID = id
	p.Replicas = slices.Clone(replicas)
	p.dropLeader()
	p.LastLeader = NoNode
	for _, r := range replicas {
		b := s.head.Broker(r)
		cert := int64(-1)
		if b.MayLead() || s.head.level >= QuorumLevel {
			cert = b.Epoch // an empty log is complete; binaries of level 1 leave out those that are away
		}
		if b.MayLead() {
			p.ISR = append(p.ISR, r)
		}
		p.Members = append(p.Members, Replica{ID: r, Cert: cert})
	}
	slices.SortFunc(p.Members, func(a, b Replica) int { return int(a.ID) - int(b.ID) })
	if len(p.ISR) > 0 {
		p.setLeader(s.head.Broker(p.ISR[0]))
	}
	return p
}

// deleteTopic forgets a topic. Its name may be used again at once, under another id.
func (s *State) deleteTopic(id record.TopicID) error {
	t := s.head.TopicByID(id)
	if t == nil {
		return refuse(ErrUnknownTopicID, "topic id %s", id)
	}
	for _, p := range t.Partitions {
		s.unindexPartition(p)
		s.pending.partitions[p.ID] = struct{}{}
	}
	s.head.topics.Delete(t.Name)
	s.head.names.Delete(string(id[:]))
	s.head.metrics.Delete(MetricName(t.Name))
	delete(s.pending.owned, id)
	s.pending.topics[id] = struct{}{}
	return nil
}

// createPartitions adds partitions to one topic, with the settings that its first one has.
func (s *State) createPartitions(m MorePartitions) error {
	t := s.head.TopicByID(m.Topic)
	if t == nil {
		return refuse(ErrUnknownTopicID, "topic id %s", m.Topic)
	}
	have := len(t.Partitions)
	if int(m.First) != have {
		return refuse(ErrInvalidPartitions, "%s has %d partitions, not %d as the request was made for", t.Name, have, m.First)
	}
	if len(m.Assignment) < 1 || have+len(m.Assignment) > MaxPartitions {
		return refuse(ErrInvalidPartitions, "%s has %d partitions and %d more were asked, %d are allowed", t.Name, have, len(m.Assignment), MaxPartitions)
	}
	if err := s.checkAssignment(m.Assignment, len(t.Partitions[0].Replicas)); err != nil {
		return err
	}
	first := t.Partitions[0]
	// What is being changed on the present partitions holds for the new ones from the start.
	model := Partition{Rule: first.Rule.Target(), Durability: first.Durability.Target(), Recovery: first.Recovery, MinISR: first.MinISR}
	t = s.ownTopic(m.Topic)
	for i, replicas := range m.Assignment {
		p := s.newPartition(record.PartitionID{Topic: m.Topic, Partition: int32(have + i)}, replicas, &model)
		t.Partitions = append(t.Partitions, p)
		s.indexPartition(p)
		s.pending.partitions[p.ID] = struct{}{}
	}
	s.pending.topics[m.Topic] = struct{}{}
	return nil
}
