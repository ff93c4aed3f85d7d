package metadata

// QuorumLevel is the metadata level from which the quorum rule, copies that count on disk, weaker and stronger
// acknowledgements, reassignments and live changes are known. Below it the log holds only what a binary of level 1 reads.
const QuorumLevel int32 = 2

// NeedsLevel is the lowest finalised level at which a command may be proposed: a node of a lower one could not apply it.
func NeedsLevel(cmd Command) int32 {
	need := MinLevel
	switch c := cmd.(type) {
	case *CreateTopics:
		for i := range c.Topics {
			need = max(need, c.Topics[i].NeedsLevel())
		}
	case *AlterTopicConfigs:
		for i := range c.Topics {
			need = max(need, c.Topics[i].NeedsLevel())
		}
	default:
		need = max(need, commandKinds[cmd.Kind()].level)
	}
	return need
}

// NeedsLevel is the lowest level at which such a topic may be created.
func (n *NewTopic) NeedsLevel() int32 {
	if n.Rule == RuleQuorum || n.Durability == DurabilityDisk || n.Forced || asksAcks(n.Configs) {
		return QuorumLevel
	}
	return MinLevel
}

// NeedsLevel is the lowest level at which such a change may be made. A proposer leaves out a rule and a durability that
// are in force already.
func (c *TopicConfigChange) NeedsLevel() int32 {
	if c.Rule != "" || c.Durability != "" || c.Forced || asksAcks(c.Set) {
		return QuorumLevel
	}
	return MinLevel
}

// asksAcks says that settings ask for more acknowledgements than producers do: nodes of level 1 would not wait for them.
func asksAcks(configs map[string]string) bool { return minAcks(configs) != 0 }

// CheckLevel refuses a command that the finalised level does not allow yet, and says what raises it. A proposer asks
// before anything reaches the log, and so does the apply.
func (i *Image) CheckLevel(cmd Command) error { return CheckLevel(i.level, NeedsLevel(cmd)) }

// CheckLevel refuses what needs a higher level than the finalised one.
func CheckLevel(finalised, need int32) error {
	if need <= MinLevel || need <= finalised {
		return nil
	}
	return refuse(ErrLevel, "it needs metadata level %d and the cluster is at %d: once every node runs this version, raise it with cordwood cluster upgrade", need, finalised)
}
