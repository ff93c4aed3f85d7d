package metadata

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cordwood/fsm/mutant"
)

// This file elects leaders under the quorum rule: an epoch begins without a leader, replicas promise it and report their
// logs, and the most complete log of a majority leads.

// beginElection ends a leadership, so that what the old leader's followers still acknowledge counts no more once they
// report. A compare-and-set on leader epoch and leader.
func (s *State) beginElection(e ElectionStart) error {
	old, err := s.lookup(e.Partition)
	if err != nil {
		return err
	}
	if old.Rule.ElectBy() != RuleQuorum {
		return refuse(ErrInvalidRequest, "leaders of this partition are elected from the ISR, not by reports")
	}
	if err := checkLeaderEpoch(old, e.LeaderEpoch); err != nil {
		return err
	}
	if old.Leader != e.Leader {
		return refuse(ErrInvalidUpdate, "node %d was named as the leader, node %d is", e.Leader, old.Leader)
	}
	next := old.clone()
	next.dropLeader()
	next.raiseEpoch(old)
	s.commit(old, next, nobodyLost, true)
	return nil
}

// electReported makes the leader that the reports of this epoch prove. The epoch stays: the voters have promised it.
func (s *State) electReported(e ReportedElection) error {
	old, err := s.lookup(e.Partition)
	if err != nil {
		return err
	}
	if err := CheckReported(old, &e, s.head.Broker); err != nil {
		return err
	}
	next := old.clone()
	next.ISR = nil
	next.setLeader(s.head.Broker(e.Leader.ID))
	next.Member(e.Leader.ID).Cert = e.Leader.Epoch
	s.commit(old, next, nobodyLost, true)
	return nil
}

// CheckReported judges an election by reports: every voter is a trusted replica and the process that reported, and
// either they are majorities of which the leader's log is the most complete, or the leader is the last one and has lost
// nothing since. Its errors are those of the apply.
func CheckReported(p *Partition, e *ReportedElection, broker Brokers) error {
	if p.Rule.ElectBy() != RuleQuorum {
		return refuse(ErrInvalidRequest, "leaders of this partition are elected from the ISR, not by reports")
	}
	if err := checkLeaderEpoch(p, e.LeaderEpoch); err != nil {
		return err
	}
	if p.Leader != NoNode {
		return refuse(ErrElectionNotNeeded, "node %d leads", p.Leader)
	}
	for i := range e.Voters {
		if err := checkVoter(p, e.Voters[:i], e.Voters[i], broker); err != nil {
			return err
		}
	}
	own := slices.IndexFunc(e.Voters, func(r ReplicaReport) bool { return r.Broker == e.Leader })
	if own < 0 {
		return refuse(ErrNotEligible, "node %d has not reported in this epoch", e.Leader.ID)
	}
	if !broker(e.Leader.ID).MayLead() && !mutant.ElectFenced {
		return refuse(ErrNotEligible, "node %d is fenced or is shutting down", e.Leader.ID)
	}
	if e.Leader.ID == p.LastLeader && lastLeaderHolds(p, broker) {
		return nil
	}
	if !e.ByMajority(p) {
		return refuse(ErrNotEligible, "%d reports are no majority of replicas %v %v, and node %d is not the last leader", len(e.Voters), p.Replicas, p.NewReplicas, e.Leader.ID)
	}
	for _, v := range e.Voters {
		if compareLogs(v, e.Voters[own]) > 0 {
			return refuse(ErrNotEligible, "node %d has a more complete log than node %d", v.Broker.ID, e.Leader.ID)
		}
	}
	return nil
}

// ByMajority says that the voters are majorities of every replica set in force; else only the last leader's own report
// can prove the election.
func (e *ReportedElection) ByMajority(p *Partition) bool {
	return p.majorities(func(id int32) bool { return reporting(e.Voters, id) })
}

func reporting(reports []ReplicaReport, id int32) bool {
	return slices.ContainsFunc(reports, func(r ReplicaReport) bool { return r.Broker.ID == id })
}

// checkVoter judges one report, given those before it.
func checkVoter(p *Partition, before []ReplicaReport, r ReplicaReport, broker Brokers) error {
	b := broker(r.Broker.ID)
	switch {
	case b == nil:
		return refuse(ErrBrokerNotRegistered, "node %d", r.Broker.ID)
	case b.Epoch != r.Broker.Epoch && !mutant.NoVoterBE:
		return refuse(ErrStaleBrokerEpoch, "node %d reported with broker epoch %d and has %d now", b.ID, r.Broker.Epoch, b.Epoch)
	case !p.votes(b.ID):
		return refuse(ErrInvalidRequest, "node %d reported and has no vote", b.ID)
	case reporting(before, b.ID):
		return refuse(ErrInvalidRequest, "node %d reported twice", b.ID)
	case !Trusted(p, b.ID, broker) && !mutant.AmnesiacVotes:
		return refuse(ErrNotEligible, "node %d reported and may have lost records", b.ID)
	}
	return nil
}

// compareLogs is positive when a is the more complete log: a newer last epoch, then a later end.
func compareLogs(a, b ReplicaReport) int {
	if mutant.MaxLEO {
		return cmp.Compare(a.End, b.End)
	}
	return cmp.Or(cmp.Compare(a.LastEpoch, b.LastEpoch), cmp.Compare(a.End, b.End))
}

// ChooseReported plans the election of a partition without a leader from the reports of its present leader epoch; those of
// other processes, of replicas without a vote and of untrusted ones count for nothing. It prefers the most complete log
// of a majority, among equals the first of the replica list, and falls back to the last leader on its own report. A
// replica that is fenced or shutting down may vote; if it has the most complete log it is left out where a majority
// remains, and waited for where not. If ok is false, why says who is missing. The apply takes what it plans, as long as
// nothing changes in between.
func ChooseReported(p *Partition, reports []ReplicaReport, broker Brokers) (e ReportedElection, ok bool, why string) {
	if p.Rule.ElectBy() != RuleQuorum || p.Leader != NoNode {
		return e, false, "no election by reports is due"
	}
	e = ReportedElection{Partition: p.ID, LeaderEpoch: p.LeaderEpoch, Leader: BrokerEpoch{ID: NoNode, Epoch: -1}}
	for _, id := range p.voters() {
		for _, r := range reports {
			if r.Broker.ID == id && checkVoter(p, e.Voters, r, broker) == nil {
				e.Voters = append(e.Voters, r)
			}
		}
	}
	heard := e.Voters
	for e.ByMajority(p) {
		best := e.Voters[0]
		ready := false
		for _, r := range e.Voters {
			better := compareLogs(r, best)
			mayLead := broker(r.Broker.ID).MayLead() || mutant.ElectFenced
			if better > 0 || better == 0 && mayLead && !ready {
				best, ready = r, mayLead
			}
		}
		if ready {
			e.Leader = best.Broker
			return e, true, ""
		}
		e.Voters = slices.DeleteFunc(slices.Clone(e.Voters), func(r ReplicaReport) bool { return compareLogs(r, best) == 0 })
		why = fmt.Sprintf("node %d has the most complete log and is fenced or shutting down", best.Broker.ID)
	}
	e.Voters = heard
	if i := slices.IndexFunc(heard, func(r ReplicaReport) bool { return r.Broker.ID == p.LastLeader }); i >= 0 {
		if lastLeaderHolds(p, broker) && broker(p.LastLeader).MayLead() {
			e.Voters, e.Leader = heard[i:i+1:i+1], heard[i].Broker
			return e, true, ""
		}
	}
	if why == "" {
		why = missingVoters(p, heard, broker)
	}
	return e, false, why
}

// missingVoters says who keeps an election waiting.
func missingVoters(p *Partition, heard []ReplicaReport, broker Brokers) string {
	var away, silent, untrusted []int32
	for _, id := range p.voters() {
		switch b := broker(id); {
		case reporting(heard, id):
		case !Trusted(p, id, broker) && b != nil:
			untrusted = append(untrusted, id)
		case !b.Alive():
			away = append(away, id)
		default:
			silent = append(silent, id)
		}
	}
	var parts []string
	add := func(ids []int32, what string) {
		if len(ids) > 0 {
			parts = append(parts, fmt.Sprintf("%s %v", what, ids))
		}
	}
	add(away, "away:")
	add(silent, "no report from")
	add(untrusted, "may have lost records:")
	set := "its replicas"
	if len(p.NewReplicas) > 0 {
		set = "its replicas and of its new ones"
	}
	return fmt.Sprintf("an election needs reports of a majority of %s; nodes %s", set, strings.Join(parts, ", "))
}
