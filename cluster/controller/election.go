package controller

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

const (
	flapLived   = 10 * time.Second // a leader that lived this long ends the waiting before elections
	flapFirst   = 100 * time.Millisecond
	flapLongest = 5 * time.Second

	maxElections = 1000 // items of one command
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
	if have == nil || have.epoch != p.LeaderEpoch {
		return nil
	}
	var out []metadata.ReplicaReport
	for _, id := range p.Replicas {
		if rep, ok := have.by[id]; ok && rep.Broker.Epoch == image.BrokerEpoch(id) {
			out = append(out, rep)
		}
	}
	slices.SortFunc(out, func(a, b metadata.ReplicaReport) int { return int(a.Broker.ID) - int(b.Broker.ID) })
	return out
}

// dutyFacts is everything that the regular duties rest on.
type dutyFacts struct {
	now      time.Time
	image    *metadata.Image
	moved    []record.PartitionID // partitions whose leader may not be the preferred one
	reports  reports
	flaps    map[record.PartitionID]flap
	forced   map[record.PartitionID]bool // an operator wants an unclean election
	unclean  func(*metadata.Topic) bool
	giveBack bool // leadership may be given back to preferred replicas now
}

// dutyPlan is what should be done now.
type dutyPlan struct {
	elect   []metadata.Election
	unsafe  []metadata.UnsafeElection
	give    []metadata.Election            // moves to the preferred replica
	wanted  map[int32][]record.PartitionID // reports to ask of brokers
	waiting map[record.PartitionID]string  // why a partition without any safe candidate stays without a leader
	settled []record.PartitionID           // of moved: led by the preferred replica, or gone
	again   time.Time                      // an election waits until then; zero: none does
}

// planDuties looks at every partition that needs something, and says what. It is pure and level-triggered: what is
// done twice is refused by the state machine.
func planDuties(f dutyFacts) dutyPlan {
	plan := dutyPlan{wanted: map[int32][]record.PartitionID{}, waiting: map[record.PartitionID]string{}}
	for p := range f.image.Leaderless() {
		f.leaderless(p, &plan)
	}
	for _, id := range f.moved {
		p := f.image.Partition(id)
		if p == nil || len(p.Replicas) == 0 || p.Leader == p.Replicas[0] {
			plan.settled = append(plan.settled, id)
			continue
		}
		x := metadata.PreferredMove(p, f.image.Broker)
		if !f.giveBack || x == metadata.NoNode || len(plan.give) >= maxElections {
			continue
		}
		plan.give = append(plan.give, metadata.Election{Partition: id, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Leader: x})
	}
	return plan
}

// leaderless elects a safe leader, or sees to an unsafe election.
func (f *dutyFacts) leaderless(p *metadata.Partition, plan *dutyPlan) {
	if x := metadata.ChooseLeader(p, f.image.Broker); x != metadata.NoNode {
		if f.mayElect(p.ID, plan) && len(plan.elect) < maxElections {
			plan.elect = append(plan.elect, metadata.Election{Partition: p.ID, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Leader: x})
		}
		return
	}
	if len(p.NewReplicas) > 0 || len(p.Adding) > 0 {
		return // the change is cancelled first
	}
	t := f.image.TopicByID(p.ID.Topic)
	forced := f.forced[p.ID] || f.unclean(t)
	if !forced && f.image.Safety(p) != metadata.OfflineUnsafe {
		return // OFFLINE: brokers that have everything must come back
	}
	have := f.reports.of(p, f.image)
	f.want(p, have, plan)
	chosen, why := f.chooseUnsafe(p, have, forced)
	if chosen == nil {
		plan.waiting[p.ID] = why
		return
	}
	if f.mayElect(p.ID, plan) && len(plan.unsafe) < maxElections {
		plan.unsafe = append(plan.unsafe, metadata.UnsafeElection{
			Partition: p.ID, Epoch: p.LeaderEpoch, Leader: chosen.Broker, Reports: have, Forced: forced,
		})
	}
}

// chooseUnsafe gives the report of the replica that should lead though records may be lost, or why nobody should yet.
func (f *dutyFacts) chooseUnsafe(p *metadata.Partition, have []metadata.ReplicaReport, forced bool) (*metadata.ReplicaReport, string) {
	alive := slices.DeleteFunc(slices.Clone(have), func(r metadata.ReplicaReport) bool { return !f.image.Broker(r.Broker.ID).MayLead() })
	from, policy := have, p.Recovery
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
	best, ok := metadata.ChooseUnsafe(p, from, f.image.Broker)
	if !ok {
		return nil, fmt.Sprintf("%s: no replica is alive", policy)
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
	for _, id := range metadata.MissingReports(p, have, f.image.Broker) {
		if f.image.Broker(id) != nil && len(plan.wanted[id]) < maxWanted {
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
		if plan.again.IsZero() || at.Before(plan.again) {
			plan.again = at
		}
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
