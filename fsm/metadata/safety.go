package metadata

import (
	"cmp"
	"slices"

	"cordwood/fsm/mutant"
)

// Safety says whether a partition is led and, if not, whether a safe election can come.
type Safety string

// The states of a partition.
const (
	Online        Safety = "online"
	Offline       Safety = "offline"        // a safe election only needs brokers to come back
	OfflineUnsafe Safety = "offline-unsafe" // nobody is known to have every committed record; never left silently
)

// SafetyOf gives the state of a partition. Who is up does not matter: only what is known of the logs.
func SafetyOf(p *Partition, broker Brokers) Safety {
	if p.Leader != NoNode {
		return Online
	}
	if p.Rule.ElectBy() == RuleQuorum {
		if quorumCanElect(p, broker) {
			return Offline
		}
		return OfflineUnsafe
	}
	if len(p.ISR) > 0 || len(p.ELR) > 0 {
		return Offline
	}
	return OfflineUnsafe
}

// Safety gives the state of a partition of this image.
func (i *Image) Safety(p *Partition) Safety { return SafetyOf(p, i.Broker) }

// MissingReports names the replicas that wait-all still waits for: not registered, or no report of the present broker
// epoch among reports.
func MissingReports(p *Partition, reports []ReplicaReport, broker Brokers) []int32 {
	var missing []int32
	for _, id := range p.Replicas {
		b := broker(id)
		reported := slices.ContainsFunc(reports, func(r ReplicaReport) bool {
			return b != nil && r.Broker == BrokerEpoch{ID: id, Epoch: b.Epoch}
		})
		if !reported {
			missing = append(missing, id)
		}
	}
	return missing
}

// ChooseUnsafe gives the most complete log of the reporters: the highest last epoch, then end; among equals a trusted
// one, then the lowest id. Only reports of present broker epochs count. False without any.
func ChooseUnsafe(p *Partition, reports []ReplicaReport, broker Brokers) (ReplicaReport, bool) {
	var best ReplicaReport
	found := false
	for _, r := range reports {
		b := broker(r.Broker.ID)
		counts := b != nil && b.Epoch == r.Broker.Epoch && slices.Contains(p.Replicas, r.Broker.ID)
		if counts && (!found || compareReports(p, r, best, broker) > 0) {
			best, found = r, true
		}
	}
	return best, found
}

// compareReports is positive when a is the better leader.
func compareReports(p *Partition, a, b ReplicaReport, broker Brokers) int {
	trust := func(id int32) int {
		if Trusted(p, id, broker) {
			return 1
		}
		return 0
	}
	return cmp.Or(
		compareLogs(a, b),
		cmp.Compare(trust(a.Broker.ID), trust(b.Broker.ID)),
		cmp.Compare(b.Broker.ID, a.Broker.ID),
	)
}

// unsafeElect makes a leader of a partition that has no safe candidate, and says so.
func (s *State) unsafeElect(e UnsafeElection) error {
	old, err := s.lookup(e.Partition)
	if err != nil {
		return err
	}
	if err := s.checkUnsafe(old, &e); err != nil {
		return err
	}
	if err := s.checkPolicy(old, &e); err != nil {
		return err
	}
	next := old.clone()
	next.ISR = nil
	next.setLeader(s.head.Broker(e.Leader.ID))
	for i := range next.Members {
		next.Members[i].Cert = -1
		if mutant.UnsafeCertAll {
			next.Members[i].Cert = s.head.BrokerEpoch(next.Members[i].ID)
		}
	}
	next.Member(e.Leader.ID).Cert = e.Leader.Epoch
	next.LossEpoch = next.LeaderEpoch
	s.commit(old, next, everybodyLost, true)
	s.partitionEvent(EventDataLoss, next, e.Leader.ID, "%s", lossDetail(&e))
	s.pending.events[len(s.pending.events)-1].Unsafe = &e
	return nil
}

// checkUnsafe holds what every unsafe election needs.
func (s *State) checkUnsafe(p *Partition, e *UnsafeElection) error {
	led := p.Leader != NoNode
	changing := len(p.NewReplicas) > 0 || len(p.Adding) > 0
	byQuorum := p.Rule.ElectBy() == RuleQuorum
	_, reported, _ := ChooseReported(p, e.Reports, s.head.Broker)
	safeNow := reported || ChooseLeader(p, s.head.Broker) != NoNode
	canWait := SafetyOf(p, s.head.Broker) != OfflineUnsafe
	switch {
	case led:
		return refuse(ErrElectionNotNeeded, "node %d leads", p.Leader)
	case p.LeaderEpoch != e.Epoch:
		return checkLeaderEpoch(p, e.Epoch)
	case changing:
		return refuse(ErrInvalidRequest, "the replica set is being changed")
	case safeNow:
		return refuse(ErrElectionNotNeeded, "a safe leader can be elected")
	case canWait && !e.Forced && byQuorum:
		return refuse(ErrNotEligible, "a majority of replicas %v, or the last leader, may come back", p.Replicas)
	case canWait && !e.Forced:
		return refuse(ErrNotEligible, "ISR %v and ELR %v may come back", p.ISR, p.ELR)
	}
	if err := s.checkEpoch(e.Leader); err != nil {
		return err
	}
	if !s.head.Broker(e.Leader.ID).MayLead() {
		return refuse(ErrNotEligible, "node %d is fenced or is shutting down", e.Leader.ID)
	}
	return s.checkReports(p, e)
}

// checkReports: every report comes from a present process of a replica, one each, and the leader is among them.
func (s *State) checkReports(p *Partition, e *UnsafeElection) error {
	for i, r := range e.Reports {
		if err := s.checkEpoch(r.Broker); err != nil {
			return err
		}
		if !slices.Contains(p.Replicas, r.Broker.ID) {
			return refuse(ErrInvalidRequest, "node %d reported and is no replica", r.Broker.ID)
		}
		if slices.ContainsFunc(e.Reports[:i], func(o ReplicaReport) bool { return o.Broker.ID == r.Broker.ID }) {
			return refuse(ErrInvalidRequest, "node %d reported twice", r.Broker.ID)
		}
	}
	if !slices.ContainsFunc(e.Reports, func(r ReplicaReport) bool { return r.Broker == e.Leader }) {
		return refuse(ErrNotEligible, "node %d has not reported in this epoch", e.Leader.ID)
	}
	return nil
}

// checkPolicy: who has to be heard, and who then leads.
func (s *State) checkPolicy(p *Partition, e *UnsafeElection) error {
	if e.Forced {
		return nil // somebody who may lose data named the leader
	}
	reports := e.Reports
	switch p.Recovery {
	case RecoverManual:
		return refuse(ErrNotEligible, "recovery.policy is manual: an operator names the leader")
	case RecoverProactive:
		reports = slices.DeleteFunc(slices.Clone(reports), func(r ReplicaReport) bool { return !s.head.Broker(r.Broker.ID).MayLead() })
	default:
		if missing := MissingReports(p, reports, s.head.Broker); len(missing) > 0 {
			return refuse(ErrNotEligible, "recovery.policy is wait-all, and replicas %v have not reported", missing)
		}
	}
	if best, _ := ChooseUnsafe(p, reports, s.head.Broker); best.Broker != e.Leader {
		return refuse(ErrNotEligible, "node %d has the most complete log, not node %d", best.Broker.ID, e.Leader.ID)
	}
	return nil
}
