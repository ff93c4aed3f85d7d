package metadata

import "cordwood/fsm/mutant"

// Change is what is being changed on a partition in several records; one at a time.
type Change string

// The changes.
const (
	NoChange         Change = ""
	ChangeReplicas   Change = "reassignment"
	ChangeRule       Change = "commit.rule"
	ChangeDurability Change = "commit.durability"
)

// Change is what is under way on the partition.
func (p *Partition) Change() Change {
	switch {
	case len(p.Adding) > 0 || len(p.NewReplicas) > 0:
		return ChangeReplicas
	case p.Rule.Changing():
		return ChangeRule
	case p.Durability == DurabilityMemoryToDisk:
		return ChangeDurability
	}
	return NoChange
}

// begin notes in next, the successor of old, that a change begins with it.
func (p *Partition) begin(old *Partition) { p.BeginPE = old.PartitionEpoch + 1 }

// settleChange notes in next that no change is under way any more.
func (p *Partition) settleChange() { p.BeginPE = 0 }

// turn is what becomes of one partition by a change of settings.
type turn struct {
	old, next *Partition
	events    []turned
}

func (r *turn) note(kind, detail string) { r.events = append(r.events, turned{kind, detail}) }

// planChange makes in r.next what is asked of rule and durability: it takes a change back, begins one, or does both.
func (s *State) planChange(r *turn, c *TopicConfigChange) error {
	next := r.next
	if c.Rule != "" && next.Rule.Changing() && c.Rule != next.Rule.Target() {
		next.Rule = c.Rule
		next.settleChange()
		r.note(EventRuleAborted, "commit.rule stays "+string(c.Rule))
	}
	if c.Durability == DurabilityMemory && next.Durability == DurabilityMemoryToDisk {
		next.Durability = DurabilityMemory
		next.settleChange()
		r.note(EventDurabilityAborted, "commit.durability stays memory")
	}
	if c.Rule != "" && c.Rule != next.Rule.Target() {
		if err := next.free(ChangeRule); err != nil {
			return err
		}
		if err := r.beginRule(c); err != nil {
			return err
		}
	}
	if c.Durability != "" && c.Durability != next.Durability.Target() {
		if err := next.free(ChangeDurability); err != nil {
			return err
		}
		if c.Durability == DurabilityDisk {
			return r.beginDisk()
		}
		s.toMemory(r)
	}
	return nil
}

// beginRule puts the rule that is asked in force beside the present one.
func (r *turn) beginRule(c *TopicConfigChange) error {
	if err := checkPair(c.Rule, r.old.fewestReplicas(), c.Forced); err != nil {
		return err
	}
	if mutant.RuleDirect {
		r.next.Rule = c.Rule
		return nil
	}
	r.next.Rule = RuleISRToQuorum
	if c.Rule == RuleISR {
		r.next.Rule = RuleQuorumToISR
	}
	r.next.begin(r.old)
	r.note(EventRuleBegun, "commit.rule is being changed to "+string(c.Rule)+"; until that is proven both rules hold")
	return nil
}

// turned is what became of a rule or a durability, for the event.
type turned struct{ kind, detail string }

// free refuses a change while another one is under way.
func (p *Partition) free(asked Change) error {
	if c := p.Change(); c != NoChange {
		return refuse(ErrChangeUnderWay, "%s cannot be changed while %s is: finish that first, or take it back", asked, c)
	}
	return nil
}

// beginDisk lets copies count from disk only, and trust still as in memory. The new epoch forgets every position that was
// counted before an fsync, and keeps out followers that have not seen this record and would go on to count without one.
func (r *turn) beginDisk() error {
	if r.old.Leader == NoNode {
		return refuse(ErrNotEligible, "partition %d has no leader that could prove what is on disk: try again when it has one", r.old.ID.Partition)
	}
	if !mutant.DurNoBump {
		r.next.raiseEpoch(r.old)
	}
	if mutant.DurDirect {
		r.next.Durability = DurabilityDisk
		return nil
	}
	r.next.Durability = DurabilityMemoryToDisk
	r.next.begin(r.old)
	r.note(EventDurabilityBegun, "commit.durability is being changed to disk; copies count from there, and trust counts as in memory until that is proven")
	return nil
}

// toMemory lets copies count in memory. What counted on disk counts there too, so nothing is to be proven; but there every
// power loss counts, also those before, so whoever is trusted is certified under the process that it runs. That says
// that it has what it flushed. A last leader that lost power may have committed what W others flushed and it had not, so
// its own word goes on to elect nobody.
func (s *State) toMemory(r *turn) {
	if r.old.Leader == NoNode && !lastLeaderHolds(r.old, s.head.Broker) {
		r.next.LastLeader = NoNode
	}
	for i := range r.next.Members {
		m := &r.next.Members[i]
		if Trusted(r.old, m.ID, s.head.Broker) {
			m.Cert = s.head.BrokerEpoch(m.ID)
		}
	}
	r.next.Durability = DurabilityMemory
	r.note(EventDurabilityFinished, "commit.durability is memory")
}

// checkPair refuses the quorum rule for two replicas unless it is forced.
func checkPair(rule CommitRule, replicas int, forced bool) error {
	if rule.Target() == RuleQuorum && replicas == 2 && !forced {
		return refuse(ErrInvalidConfig, "commit.rule quorum with two replicas only costs, since a majority of two is both: take three replicas or the rule isr, or force it")
	}
	return nil
}
