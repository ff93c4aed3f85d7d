package metadata

import "maps"

// alterTopicConfigs sets and removes settings of one topic: all of it, or nothing.
func (s *State) alterTopicConfigs(c TopicConfigChange) error {
	if err := CheckLevel(s.head.level, c.NeedsLevel()); err != nil {
		return err
	}
	t := s.head.TopicByID(c.Topic)
	if t == nil {
		return refuse(ErrUnknownTopicID, "topic id %s", c.Topic)
	}
	turns, err := s.planTurns(t, &c)
	if err != nil {
		return err
	}
	t = s.ownTopic(c.Topic)
	configs := maps.Clone(t.Configs)
	if configs == nil {
		configs = map[string]string{}
	}
	for _, k := range c.Remove {
		delete(configs, k)
	}
	maps.Copy(configs, c.Set)
	if len(configs) == 0 {
		configs = nil
	}
	t.Configs = configs
	s.pending.topics[c.Topic] = struct{}{}
	for _, r := range turns {
		s.commitTurn(r)
	}
	return nil
}

// planTurns judges a change of settings on every partition, before anything is changed, and makes the next records.
func (s *State) planTurns(t *Topic, c *TopicConfigChange) ([]turn, error) {
	if err := checkAsked(c); err != nil {
		return nil, err
	}
	turns := make([]turn, len(t.Partitions))
	for i, p := range t.Partitions {
		if err := checkMinAcks(c.Set, p.fewestReplicas()); err != nil {
			return nil, err
		}
		r := turn{old: p, next: p.clone()}
		if c.Recovery != "" {
			r.next.Recovery = c.Recovery
		}
		if c.MinISR != 0 {
			if err := checkMinISR(c.MinISR, p.fewestReplicas()); err != nil {
				return nil, err
			}
			r.next.MinISR = c.MinISR
		}
		if err := s.planChange(&r, c); err != nil {
			return nil, err
		}
		turns[i] = r
	}
	return turns, nil
}

// checkAsked judges the values of a change that stand in partition records.
func checkAsked(c *TopicConfigChange) error {
	if c.Recovery != "" {
		if err := checkRecovery(c.Recovery); err != nil {
			return err
		}
	}
	if c.Rule != "" {
		if err := checkRule(c.Rule); err != nil {
			return err
		}
	}
	if c.Durability != "" {
		return checkDurability(c.Durability)
	}
	return nil
}

// commitTurn stores what became of one partition. A new recovery policy alone does not raise the partition epoch.
func (s *State) commitTurn(r turn) {
	if r.next.Recovery != r.old.Recovery {
		kept := r.old.clone()
		kept.Recovery = r.next.Recovery
		s.putPartition(kept)
	}
	s.commit(r.old, r.next, nobodyLost, false)
	for _, e := range r.events {
		s.partitionEvent(e.kind, r.next, NoNode, "%s", e.detail)
	}
}
