package controller

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cordwood/fsm/metadata"
	"cordwood/fsm/mutant"
	"cordwood/logstore/record"
)

const (
	flapLived   = 10 * time.Second // a leader that lived this long ends the waiting before elections
	flapFirst   = 100 * time.Millisecond
	flapLongest = 5 * time.Second

	maxElections = 1000 // items of one command of the duties
	maxWanted    = 1000 // partitions that one broker is asked to report in one answer
)

// flap remembers the elections of a partition whose leaders do not live long.
type flap struct {
	tries int
	at    time.Time // of the last election
}

// wait is how long the next election waits after the last one: 0, 100 ms, then doubling to 5 s.
func (f flap) wait() time.Duration {
	if f.tries <= 1 {
		return 0
	}
	d := flapFirst
	for range f.tries - 2 {
		if d *= 2; d >= flapLongest {
			return flapLongest
		}
	}
	return d
}

// reports are what replicas said of their logs, by partition and broker, of the newest leader epoch that was heard of.
type reports map[record.PartitionID]*partitionReports

type partitionReports struct {
	epoch int32
	by    map[int32]metadata.ReplicaReport
}

// add takes a report of one leader epoch. A newer epoch drops those of older ones.
func (r reports) add(id record.PartitionID, epoch int32, report metadata.ReplicaReport) {
	p := r[id]
	if p == nil || p.epoch < epoch {
		p = &partitionReports{epoch: epoch, by: map[int32]metadata.ReplicaReport{}}
		r[id] = p
	}
	if p.epoch == epoch {
		p.by[report.Broker.ID] = report
	}
}

// of gives the reports of a partition's present epoch by present processes, rising node ids.
func (r reports) of(p *metadata.Partition, image *metadata.Image) []metadata.ReplicaReport {
	have := r[p.ID]
	if have == nil || have.epoch != p.LeaderEpoch && !mutant.NoFence {
		return nil
	}
	var out []metadata.ReplicaReport
	for _, id := range voters(p) {
		if rep, ok := have.by[id]; ok && rep.Broker.Epoch == image.BrokerEpoch(id) {
			out = append(out, rep)
		}
	}
	slices.SortFunc(out, func(a, b metadata.ReplicaReport) int { return int(a.Broker.ID) - int(b.Broker.ID) })
	return out
}

// voters lists V ∪ Vnew: the replicas whose reports count.
func voters(p *metadata.Partition) []int32 {
	ids := slices.Clone(p.Replicas)
	for _, id := range p.NewReplicas {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// dutyFacts is everything that the regular duties rest on.
type dutyFacts struct {
	now       time.Time
	image     *metadata.Image
	moved     []record.PartitionID // partitions whose leader may not be the preferred one
	changing  []record.PartitionID // partitions whose replicas may be changing
	reports   reports
	flaps     map[record.PartitionID]flap
	forced    map[record.PartitionID]int32 // an operator wants an unclean election, of this replica; NoNode: of any
	moves     map[record.PartitionID]*move
	handovers map[record.PartitionID]*handover
	declined  map[record.PartitionID]declined
	held      map[record.PartitionID]int32 // leader epochs in which an operator's choice leads: not given back
	full      map[int32]bool               // nodes whose disk takes no records of clients
	unclean   func(*metadata.Topic) bool
	giveBack  bool // leadership may be given back to preferred replicas now
}

// dutyPlan is what should be done now.
type dutyPlan struct {
	elect    []metadata.Election
	reported []reportedElection
	unsafe   []metadata.UnsafeElection
	give     []metadata.Election            // moves to the preferred replica under the ISR rule
	relieve  []metadata.Election            // moves away from leaders whose disk is full, under the ISR rule
	handOver []moveStart                    // both under the quorum rule: the leader makes its successor ready
	begin    []moveStart                    // it has: the election follows
	more     bool                           // further moves wait for those that are under way
	cancel   []metadata.Reassignment        // changes that stand in the way of an election
	joint    []metadata.JointEntry          // reassignments whose observers are complete
	wanted   map[int32][]record.PartitionID // reports to ask of brokers
	waiting  map[record.PartitionID]string  // why a partition without any safe candidate stays without a leader
	slow     map[record.PartitionID]string  // why one with a safe candidate does: told only if it lasts
	missed   map[record.PartitionID]string  // why a move's target is not elected; empty: it is
	settled  []record.PartitionID           // of moved: led by the preferred replica, or gone
	still    []record.PartitionID           // of changing: not changing any more, or gone
	again    time.Time                      // an election waits until then; zero: none does
}

func newDutyPlan() dutyPlan {
	return dutyPlan{
		wanted: map[int32][]record.PartitionID{}, waiting: map[record.PartitionID]string{}, slow: map[record.PartitionID]string{},
		missed: map[record.PartitionID]string{},
	}
}

// lookAgain makes the next look come in time.
func (p *dutyPlan) lookAgain(at time.Time) {
	if p.again.IsZero() || at.Before(p.again) {
		p.again = at
	}
}

// planDuties looks at every partition that needs something, and says what. It is pure and level-triggered: what is
// done twice is refused by the state machine.
func planDuties(f dutyFacts) dutyPlan {
	plan := newDutyPlan()
	for p := range f.image.Leaderless() {
		if p.Rule.ElectBy() == metadata.RuleQuorum {
			f.leaderlessByQuorum(p, &plan)
		} else {
			f.leaderless(p, &plan)
		}
	}
	for _, id := range f.moved {
		p := f.image.Partition(id)
		if p == nil || len(p.Replicas) == 0 || p.Leader == p.Replicas[0] {
			plan.settled = append(plan.settled, id)
			continue
		}
		if f.giveBack && p.Leader != metadata.NoNode {
			f.give(p, &plan)
		}
	}
	f.relieve(&plan)
	f.handOvers(&plan)
	for _, id := range f.changing {
		p := f.image.Partition(id)
		if p == nil || !reassigned(p) {
			plan.still = append(plan.still, id)
		} else if mayEnterJoint(p, f.image.Broker) {
			plan.joint = append(plan.joint, metadata.JointEntry{Partition: id, PartitionEpoch: p.PartitionEpoch})
		}
	}
	return plan
}

// give moves leadership to the preferred replica, if that is in sync and has room, and nobody chose otherwise.
func (f *dutyFacts) give(p *metadata.Partition, plan *dutyPlan) {
	if epoch, ok := f.held[p.ID]; ok && epoch == p.LeaderEpoch || f.full[p.Replicas[0]] {
		return
	}
	if p.Rule.ElectBy() == metadata.RuleQuorum {
		f.giveByQuorum(p, plan)
		return
	}
	if x := metadata.PreferredMove(p, f.image.Broker); x != metadata.NoNode {
		plan.give = append(plan.give, metadata.Election{Partition: p.ID, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Leader: x})
	}
}

// leaderless elects a safe leader under the ISR rule, or sees to an unsafe election.
func (f *dutyFacts) leaderless(p *metadata.Partition, plan *dutyPlan) {
	if x := metadata.ChooseLeader(p, f.image.Broker); x != metadata.NoNode {
		if f.mayElect(p.ID, plan) {
			plan.elect = append(plan.elect, metadata.Election{Partition: p.ID, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Leader: x})
		}
		return
	}
	if f.mayLose(p) {
		f.unsafe(p, f.reports.of(p, f.image), plan)
	}
	// OFFLINE otherwise: brokers that have everything must come back.
}

// mayLose says that a partition may be led by a replica that lacks committed records: nobody is known to have them all,
// or somebody prefers a leader to them.
func (f *dutyFacts) mayLose(p *metadata.Partition) bool {
	_, forced := f.forced[p.ID]
	return forced || f.unclean(f.image.TopicByID(p.ID.Topic)) || f.image.Safety(p) == metadata.OfflineUnsafe
}

// unsafe sees to an unsafe election. A change of the replicas is cancelled first.
func (f *dutyFacts) unsafe(p *metadata.Partition, have []metadata.ReplicaReport, plan *dutyPlan) {
	if reassigned(p) {
		plan.cancel = append(plan.cancel, cancellation(p))
		return
	}
	f.want(p, have, plan)
	chosen, why := f.chooseUnsafe(p, have)
	if chosen == nil {
		plan.waiting[p.ID] = why
		return
	}
	if f.mayElect(p.ID, plan) {
		_, forced := f.forced[p.ID]
		plan.unsafe = append(plan.unsafe, metadata.UnsafeElection{
			Partition: p.ID, Epoch: p.LeaderEpoch, Leader: chosen.Broker, Reports: have,
			Forced: forced || f.unclean(f.image.TopicByID(p.ID.Topic)),
		})
	}
}

// chooseUnsafe gives the report of the replica that should lead though records may be lost, or why nobody should yet.
func (f *dutyFacts) chooseUnsafe(p *metadata.Partition, have []metadata.ReplicaReport) (*metadata.ReplicaReport, string) {
	named, forced := f.forced[p.ID]
	if !forced {
		named, forced = metadata.NoNode, f.unclean(f.image.TopicByID(p.ID.Topic))
	}
	alive := slices.DeleteFunc(slices.Clone(have), func(r metadata.ReplicaReport) bool { return !f.image.Broker(r.Broker.ID).MayLead() })
	from, policy := have, "recovery.policy "+string(p.Recovery)
	switch {
	case forced:
		from, policy = alive, "unclean election"
		// Among the unfenced: wait for those that can still answer, so that the most complete of them is known.
		if missing := f.unheardAlive(p, have); len(missing) > 0 {
			return nil, fmt.Sprintf("unclean election: no report yet from live nodes %s", idList(missing))
		}
	case p.Recovery == metadata.RecoverManual:
		return nil, "recovery.policy is manual: an operator must elect a leader"
	case p.Recovery == metadata.RecoverProactive:
		from = alive
		if missing := f.unheardAlive(p, have); len(missing) > 0 {
			return nil, fmt.Sprintf("recovery.policy proactive: no report yet from live nodes %s", idList(missing))
		}
	default:
		if missing := metadata.MissingReports(p, have, f.image.Broker); len(missing) > 0 {
			return nil, fmt.Sprintf("recovery.policy wait-all: no report from nodes %s", idList(missing))
		}
	}
	if named != metadata.NoNode {
		from = slices.DeleteFunc(from, func(r metadata.ReplicaReport) bool { return r.Broker.ID != named })
		policy = fmt.Sprintf("unclean election of node %d", named)
	}
	best, ok := metadata.ChooseUnsafe(p, from, f.image.Broker)
	if !ok {
		return nil, policy + ": no replica that may lead has reported"
	}
	if !f.image.Broker(best.Broker.ID).MayLead() {
		return nil, fmt.Sprintf("%s: node %d has the most complete log and is fenced or shutting down", policy, best.Broker.ID)
	}
	return &best, ""
}

// unheardAlive names the unfenced replicas that have not reported.
func (f *dutyFacts) unheardAlive(p *metadata.Partition, have []metadata.ReplicaReport) []int32 {
	return slices.DeleteFunc(metadata.MissingReports(p, have, f.image.Broker), func(id int32) bool { return !f.image.Broker(id).MayLead() })
}

// want asks every registered replica that has not reported.
func (f *dutyFacts) want(p *metadata.Partition, have []metadata.ReplicaReport, plan *dutyPlan) {
	for _, id := range voters(p) {
		heard := slices.ContainsFunc(have, func(r metadata.ReplicaReport) bool { return r.Broker.ID == id })
		if !heard && f.image.Broker(id) != nil && len(plan.wanted[id]) < maxWanted {
			plan.wanted[id] = append(plan.wanted[id], p.ID)
		}
	}
}

// mayElect says that the partition's leaders do not flap, or that it has waited long enough.
func (f *dutyFacts) mayElect(id record.PartitionID, plan *dutyPlan) bool {
	fl, ok := f.flaps[id]
	if !ok || f.now.Sub(fl.at) >= flapLived {
		return true
	}
	at := fl.at.Add(fl.wait())
	if f.now.Before(at) {
		plan.lookAgain(at)
		return false
	}
	return true
}

// idList writes node ids for people.
func idList(ids []int32) string {
	var b strings.Builder
	for i, id := range ids {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d", id)
	}
	return b.String()
}
