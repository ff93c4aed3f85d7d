package controller

import (
	"slices"

	"cordwood/fsm/metadata"
)

// reportedElection is an election under the quorum rule with what kind it counts as.
type reportedElection struct {
	metadata.ReportedElection
	kind string
}

// leaderlessByQuorum elects by reports, asks for those that are missing, or sees to an unsafe election.
func (f *dutyFacts) leaderlessByQuorum(p *metadata.Partition, plan *dutyPlan) {
	have := f.reports.of(p, f.image)
	e, ok, why := chooseReported(p, have, f.image.Broker)
	switch {
	case ok:
		f.electReported(p, e, have, plan)
	case f.jointLost(p):
		plan.cancel = append(plan.cancel, cancellation(p))
	case f.mayLose(p):
		f.unsafe(p, have, plan)
	default:
		f.want(p, have, plan)
		plan.slow[p.ID] = why
	}
}

// electReported makes an election of what reports allow, in its time.
func (f *dutyFacts) electReported(p *metadata.Partition, e metadata.ReportedElection, have []metadata.ReplicaReport, plan *dutyPlan) {
	kind := kindReported
	if !byMajority(p, e) {
		kind = kindLastLeader
	}
	if m := f.moves[p.ID]; m != nil && m.epoch == p.LeaderEpoch {
		chosen, wait, missed := m.prefer(f, p, e, have)
		if wait {
			f.want(p, have, plan)
			plan.lookAgain(m.until)
			return
		}
		plan.missed[p.ID] = missed
		if chosen.Leader.ID == m.target {
			kind = kindPreferred
		}
		plan.reported = append(plan.reported, reportedElection{chosen, kind})
		return
	}
	if f.mayElect(p.ID, plan) {
		plan.reported = append(plan.reported, reportedElection{e, kind})
	}
}

// byMajority says that the voters are a majority of every set in force; the last leader's own report is none.
func byMajority(p *metadata.Partition, e metadata.ReportedElection) bool {
	votes := func(set []int32) bool {
		n := 0
		for _, id := range set {
			if _, ok := reportOf(e.Voters, id); ok {
				n++
			}
		}
		return n >= len(set)/2+1
	}
	return votes(p.Replicas) && (len(p.NewReplicas) == 0 || votes(p.NewReplicas))
}

// majorityMayReport says that the trusted replicas which have reported or can still do so are a majority of every set.
func (f *dutyFacts) majorityMayReport(p *metadata.Partition, have []metadata.ReplicaReport) bool {
	enough := func(set []int32) bool {
		n := 0
		for _, id := range set {
			_, heard := reportOf(have, id)
			if metadata.Trusted(p, id, f.image.Broker) && (heard || f.image.Broker(id).Alive()) {
				n++
			}
		}
		return n >= len(set)/2+1
	}
	return enough(p.Replicas) && (len(p.NewReplicas) == 0 || enough(p.NewReplicas))
}

// jointLost says that a joint majority cannot elect: the new set has no trusted majority, and the last leader, whose own
// report would do, is not there.
func (f *dutyFacts) jointLost(p *metadata.Partition) bool {
	if len(p.NewReplicas) == 0 {
		return false
	}
	trusted := 0
	for _, id := range p.NewReplicas {
		if metadata.Trusted(p, id, f.image.Broker) {
			trusted++
		}
	}
	last, b := p.Member(p.LastLeader), f.image.Broker(p.LastLeader)
	lastComes := last != nil && b.Alive() && last.Cert >= b.LossPower && slices.Contains(voters(p), p.LastLeader)
	return trusted < len(p.NewReplicas)/2+1 && !lastComes
}
