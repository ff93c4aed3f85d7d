package controller

import (
	"cordwood/fsm/metadata"
)

// reportedElection is an election under the quorum rule with what kind it counts as.
type reportedElection struct {
	metadata.ReportedElection
	kind   string
	wanted bool // by a move
}

// leaderlessByQuorum elects by reports, asks for those that are missing, or sees to an unsafe election.
func (f *dutyFacts) leaderlessByQuorum(p *metadata.Partition, plan *dutyPlan) {
	have := f.reports.of(p, f.image)
	e, ok, why := metadata.ChooseReported(p, have, f.image.Broker)
	switch {
	case ok:
		f.electReported(p, e, have, plan)
	case metadata.MustCancel(p, f.image.Broker) && !f.lastLeaderIsThere(p):
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
	if !e.ByMajority(p) {
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
		plan.reported = append(plan.reported, reportedElection{chosen, kind, true})
		return
	}
	if f.mayElect(p.ID, plan) {
		plan.reported = append(plan.reported, reportedElection{e, kind, false})
	}
}

// majorityMayReport says that the trusted replicas which have reported or can still do so are a majority of every set.
func (f *dutyFacts) majorityMayReport(p *metadata.Partition, have []metadata.ReplicaReport) bool {
	return majorities(p, func(id int32) bool {
		_, heard := reportOf(have, id)
		return metadata.Trusted(p, id, f.image.Broker) && (heard || f.image.Broker(id).Alive())
	})
}

// majorityMayVote is the same of those whose logs are not above one.
func (f *dutyFacts) majorityMayVote(p *metadata.Partition, have []metadata.ReplicaReport, leader metadata.ReplicaReport) bool {
	return majorities(p, func(id int32) bool {
		r, heard := reportOf(have, id)
		return metadata.Trusted(p, id, f.image.Broker) && (heard && !above(r, leader) || !heard && f.image.Broker(id).Alive())
	})
}

// majorities says that something holds of a majority of every set in force.
func majorities(p *metadata.Partition, holds func(id int32) bool) bool {
	enough := func(set []int32) bool {
		n := 0
		for _, id := range set {
			if holds(id) {
				n++
			}
		}
		return n >= metadata.Majority(len(set))
	}
	return enough(p.Replicas) && (len(p.NewReplicas) == 0 || enough(p.NewReplicas))
}

// lastLeaderIsThere says that the last leader is alive and may lead again on its own report, once it has come.
func (f *dutyFacts) lastLeaderIsThere(p *metadata.Partition) bool {
	last, b := p.Member(p.LastLeader), f.image.Broker(p.LastLeader)
	return last != nil && b.Alive() && last.Cert >= b.LossPower
}
