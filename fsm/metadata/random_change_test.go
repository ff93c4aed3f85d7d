package metadata

import (
	"slices"

	"cordwood/logstore/record"
)

// liveChange draws what level 2 brought, mostly so that it can be taken.
func (c *chaos) liveChange(p *Partition) Command {
	if under := c.changing(); under != nil && !c.chance(4) {
		p = under
	}
	switch c.draw(15) {
	case 0, 1:
		return c.turn(p)
	case 2:
		return &BeginElection{Elections: []ElectionStart{{Partition: p.ID, LeaderEpoch: p.LeaderEpoch - int32(c.draw(8)/8), Leader: p.Leader}}}
	case 3, 4, 5, 6:
		return c.byReports()
	case 7:
		target := shuffled(c.rng)[:1+c.draw(3)]
		return &Reassign{Items: []Reassignment{{Partition: p.ID, PartitionEpoch: AnyPartitionEpoch, Target: target}}, Request: c.request()}
	case 8:
		return &Reassign{Items: []Reassignment{{Partition: p.ID, PartitionEpoch: p.PartitionEpoch - int32(c.draw(8)/8)}}}
	case 9:
		return &EnterJoint{Items: []JointEntry{{Partition: p.ID, PartitionEpoch: p.PartitionEpoch - int32(c.draw(8)/8)}}}
	case 10, 11:
		m := p.Members[c.draw(len(p.Members)-1)]
		return &Certify{Items: []Certification{{Partition: p.ID, LeaderEpoch: p.LeaderEpoch, LeaderBrokerEpoch: p.LeaderBrokerEpoch, Broker: c.epoch(m.ID), JoinPE: m.JoinPE}}}
	case 12:
		return c.everybodyJoins(p)
	}
	return c.end(p)
}

// changing gives a partition that is being changed, if there is one.
func (c *chaos) changing() *Partition {
	var all []*Partition
	for t := range c.s.Image().Topics() {
		for _, p := range t.Partitions {
			if p.Change() != NoChange {
				all = append(all, p)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[c.draw(len(all)-1)]
}

func (c *chaos) turn(p *Partition) Command {
	x := TopicConfigChange{Topic: p.ID.Topic, Forced: c.chance(2)}
	if c.chance(2) {
		x.Rule = []CommitRule{RuleISR, RuleQuorum}[c.draw(1)]
	}
	if c.chance(2) {
		x.Durability = []Durability{DurabilityMemory, DurabilityDisk}[c.draw(1)]
	}
	return &AlterTopicConfigs{Topics: []TopicConfigChange{x}}
}

// byReports lets replicas of a partition without a leader report, and elects as the controller plans it, or anybody.
func (c *chaos) byReports() Command {
	el := ReportedElection{Leader: c.somebody()}
	for p := range c.s.Image().Leaderless() {
		if p.Rule.ElectBy() != RuleQuorum {
			continue
		}
		var reports []ReplicaReport
		for _, id := range p.voters() {
			if !c.chance(5) {
				reports = append(reports, ReplicaReport{Broker: c.epoch(id), LastEpoch: int32(c.draw(2)), End: int64(c.draw(2))})
			}
		}
		planned, ok, _ := ChooseReported(p, reports, c.s.Image().Broker)
		if ok {
			must(c.t, CheckReported(p, &planned, c.s.Image().Broker) == nil, "what is planned is refused: %+v for %+v", planned, p)
			return &ElectReported{Elections: []ReportedElection{planned}}
		}
		el = ReportedElection{Partition: p.ID, LeaderEpoch: p.LeaderEpoch, Leader: c.somebody(), Voters: reports}
	}
	return &ElectReported{Elections: []ReportedElection{el}}
}

// everybodyJoins proposes all members as in sync.
func (c *chaos) everybodyJoins(p *Partition) Command {
	var isr []int32
	for _, m := range p.Members {
		if m.ID == p.Leader || c.s.Image().Broker(m.ID).MayLead() {
			isr = append(isr, m.ID)
		}
	}
	return &AlterPartitions{Changes: []PartitionChange{c.proposal(p.ID, isr...)}}
}

// end sends what a leader sends when a change is proven, or before.
func (c *chaos) end(p *Partition) Command {
	var holders []int32
	for _, m := range p.Members {
		if !c.chance(6) {
			holders = append(holders, m.ID)
		}
	}
	f := c.finish(p.ID, holders...)
	if c.chance(12) && len(f.Evidence) > 0 {
		f.Evidence[0].Broker.Epoch--
	}
	if c.chance(12) {
		f.PartitionEpoch--
	}
	items := []Finish{f}
	if c.chance(8) {
		items = slices.Concat(items, items)
	}
	if c.chance(20) {
		items[0].Partition = record.PartitionID{}
	}
	return &FinishChange{Items: items}
}
