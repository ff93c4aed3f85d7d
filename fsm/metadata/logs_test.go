package metadata

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/logstore/record"
)

// logs is one partition of five nodes with what their logs hold, so that random histories show whether the metadata ever
// lets somebody lead who lacks a committed record (I3). Replicas see records at once and copy in one step; what they send
// to the controller may come late and twice. The leader's side is as simple as it can be and still right, since it is the
// metadata that is on trial.
type logs struct {
	*world
	rng  *rand.Rand
	p    record.PartitionID
	node map[int32]*logNode

	committed []logEntry
	serial    int
	leading   leading
	reports   map[int32]ReplicaReport
	reportsOf int32 // leader epoch of the reports
	late      []Command
	reached   map[string]int
	trace     []string // the newest steps, for people
}

type logEntry struct {
	epoch  int32
	serial int
}

type logNode struct {
	up      bool
	log     []logEntry
	flushed int
	last    int32 // newest epoch that the log knows
}

// leading is what the present leader knows; a new epoch starts it anew.
type leading struct {
	epoch     int32
	pe        int32
	beginPE   int32
	point     int
	start     int // log end at its election
	match     map[int32]logMatch
	proposals [][]int32
}

type logMatch struct {
	be        int64
	joinPE    int32
	off       int
	certPoint int
}

func newLogs(t *testing.T, seed uint64, rule CommitRule, durability Durability) *logs {
	w := newWorldOf(t, QuorumLevel, a, b, c, d, e)
	l := &logs{world: w, rng: rand.New(rand.NewPCG(seed, 9)), node: map[int32]*logNode{}, reports: map[int32]ReplicaReport{}, reached: map[string]int{}}
	l.p = w.topicOf("orders", rule, durability, int32(1+l.rng.IntN(2)), []int32{a, b, c})
	for id := a; id <= e; id++ {
		l.node[id] = &logNode{up: true, last: -1}
	}
	l.leading.epoch = -1
	l.see()
	return l
}

func (l *logs) draw(n int) int { return l.rng.IntN(n) }

func (l *logs) rec() *Partition { return l.at(l.p) }

// tell applies a command, mostly; some are kept to come late, with those that came in time.
func (l *logs) tell(what string, cmd Command) bool {
	if l.draw(6) == 0 {
		l.late = append(l.late, cmd)
	}
	if l.draw(8) == 0 {
		return false // lost on the road
	}
	return l.arrive(what, cmd)
}

func (l *logs) arrive(what string, cmd Command) bool {
	r := l.apply(cmd)
	ok := r.Err == nil && !slices.ContainsFunc(r.Items, func(err error) bool { return err != nil })
	l.reached[fmt.Sprintf("%s %v", what, ok)]++
	l.note("%s %v %+v", what, ok, cmd)
	l.see()
	return ok
}

func (l *logs) note(format string, args ...any) {
	const most = 40
	l.trace = append(l.trace, fmt.Sprintf(format, args...)+fmt.Sprintf("\n\t-> %+v", l.rec()))
	l.trace = l.trace[max(0, len(l.trace)-most):]
}

// must fails with the steps that led there.
func (l *logs) must(ok bool, format string, args ...any) {
	if !ok {
		must(l.t, false, "%s\n%s", strings.Join(l.trace, "\n"), fmt.Sprintf(format, args...))
	}
}

// see lets every process that is up act on the present record.
func (l *logs) see() {
	r := l.rec()
	for id, n := range l.node {
		if !r.IsReplica(id) && n.up {
			n.log, n.flushed, n.last = nil, 0, -1
		}
	}
	if r.LeaderEpoch != l.reportsOf {
		l.reports, l.reportsOf = map[int32]ReplicaReport{}, r.LeaderEpoch
	}
	if r.Leader == NoNode {
		return
	}
	if l.leading.epoch != r.LeaderEpoch {
		l.takeOffice(r)
	}
	if l.leading.pe != r.PartitionEpoch {
		l.leading.pe, l.leading.proposals = r.PartitionEpoch, nil
		for id, m := range l.leading.match {
			if now := r.Member(id); now == nil || now.JoinPE != m.joinPE {
				delete(l.leading.match, id)
			}
		}
	}
	if r.BeginPE != l.leading.beginPE && r.BeginPE != 0 {
		if r.Rule.Changing() {
			l.append(r)
		}
		l.leading.beginPE, l.leading.point = r.BeginPE, len(l.node[r.Leader].log)
	}
	l.advance()
}

// takeOffice is where a leader that lacks a committed record shows.
func (l *logs) takeOffice(r *Partition) {
	n := l.node[r.Leader]
	held := len(n.log) >= len(l.committed) && slices.Equal(n.log[:len(l.committed)], l.committed)
	l.must(held || r.LossEpoch == r.LeaderEpoch, "node %d leads epoch %d with %v and lacks committed records: %v", r.Leader, r.LeaderEpoch, n.log, l.committed)
	l.leading = leading{epoch: r.LeaderEpoch, start: len(n.log), match: map[int32]logMatch{}}
	n.last = r.LeaderEpoch
	if r.Rule != RuleISR {
		l.append(r)
	}
}

func (l *logs) append(r *Partition) {
	l.serial++
	n := l.node[r.Leader]
	n.log = append(slices.Clip(n.log), logEntry{r.LeaderEpoch, l.serial})
}

// led gives the record if its leader runs.
func (l *logs) led() *Partition {
	r := l.rec()
	if r.Leader == NoNode || !l.node[r.Leader].up {
		return nil
	}
	return r
}

func (l *logs) pos(r *Partition, id int32) int {
	if id != r.Leader {
		return l.leading.match[id].off
	}
	if r.Durability == DurabilityMemory {
		return len(l.node[id].log)
	}
	return l.node[id].flushed
}

func (l *logs) quorumPoint(r *Partition) int {
	point := len(l.node[r.Leader].log)
	for _, set := range r.quorumSets() {
		var at []int
		for _, id := range set {
			at = append(at, l.pos(r, id))
		}
		slices.Sort(at)
		point = min(point, at[len(at)-WriteQuorum(len(set), r.MinISR)])
	}
	return point
}

// inSyncPoint counts every ISR that may be recorded by now.
func (l *logs) inSyncPoint(r *Partition) int {
	point := len(l.node[r.Leader].log)
	for _, id := range slices.Concat(append(l.leading.proposals, r.ISR)...) {
		point = min(point, l.pos(r, id))
	}
	return point
}

// advance commits what the rules in force let be committed.
func (l *logs) advance() {
	r := l.led()
	if r == nil {
		return
	}
	log := l.node[r.Leader].log
	h := len(log)
	if r.Rule != RuleISR {
		q := l.quorumPoint(r)
		if q == 0 || log[q-1].epoch != r.LeaderEpoch {
			return
		}
		h = min(h, q)
	}
	if r.Rule != RuleQuorum {
		if len(r.ISR) < int(r.MinISR) {
			return
		}
		h = min(h, l.inSyncPoint(r))
	}
	if h > len(l.committed) {
		l.must(slices.Equal(log[:len(l.committed)], l.committed), "another record is committed where %v was: %v", l.committed, log)
		l.committed = slices.Clone(log[:h])
		l.reached["commit"]++
	}
}

// copy is one fetch of a follower, and its next one, which says where it stands.
func (l *logs) copy(id int32) {
	r, n := l.led(), l.node[id]
	if r == nil || !n.up || id == r.Leader || !r.IsReplica(id) {
		return
	}
	log := l.node[r.Leader].log
	same := 0
	for same < min(len(log), len(n.log)) && log[same] == n.log[same] {
		same++
	}
	end := same + l.draw(len(log)-same+1)
	if l.draw(2) == 0 {
		end = len(log)
	}
	n.log, n.flushed = slices.Clone(log[:end]), min(n.flushed, same)
	if end > 0 {
		n.last = log[end-1].epoch
	}
	l.note("node %d copies to %d", id, end)
	if r.Durability != DurabilityMemory {
		n.flushed = end
	}
	be := l.epoch(id).Epoch
	m, known := l.leading.match[id]
	if !known || m.be < be {
		m = logMatch{be: be, joinPE: r.Member(id).JoinPE, certPoint: len(log)}
	}
	m.off = end
	l.leading.match[id] = m
	l.advance()
	if m.off >= m.certPoint && (!Trusted(r, id, l.s.Image().Broker) || l.draw(10) == 0) {
		l.tell("certify", &Certify{Items: []Certification{l.certification(l.p, id)}})
	}
}

// propose adds to the ISR who has everything, or takes somebody out.
func (l *logs) propose() {
	r := l.led()
	if r == nil {
		return
	}
	isr := []int32{r.Leader}
	for _, m := range r.Members {
		x, fetched := l.leading.match[m.ID]
		has := fetched && x.be == l.epoch(m.ID).Epoch && x.off >= max(l.leading.start, len(l.committed))
		member := slices.Contains(r.ISR, m.ID)
		if m.ID != r.Leader && (member && l.draw(4) > 0 || has && l.draw(3) > 0) {
			isr = append(isr, m.ID)
		}
	}
	l.leading.proposals = append(l.leading.proposals, isr)
	l.tell("alter", &AlterPartitions{Changes: []PartitionChange{l.proposal(l.p, isr...)}})
}

// restart ends a process and starts the next one, which has lost more or less.
func (l *logs) restart(id int32) {
	n, r := l.node[id], l.rec()
	n.up = true
	lose := func(keep int) {
		n.log = n.log[:keep]
		n.flushed = min(n.flushed, keep)
		n.last = -1
		if keep > 0 {
			n.last = n.log[keep-1].epoch
		}
	}
	kind := l.draw(10)
	l.world.restart(id, func(reg *RegisterBroker) {
		switch {
		case kind < 3:
			losePower(reg)
			lose(n.flushed + l.draw(len(n.log)-n.flushed+1))
		case kind == 3:
			reg.Earlier = nil
			lose(l.draw(len(n.log) + 1))
		}
	})
	if !r.IsReplica(id) {
		n.log, n.flushed, n.last = nil, 0, -1
	}
	l.see()
}

// report is what a replica says that has left the epochs before.
func (l *logs) reportOf(id int32) {
	r, n := l.rec(), l.node[id]
	if r.Leader != NoNode || !n.up || !r.IsReplica(id) {
		return
	}
	if r.Durability != DurabilityMemory {
		n.flushed = len(n.log)
	}
	l.reports[id] = l.world.report(id, n.last, int64(len(n.log)))
}

func (l *logs) heard() (out []ReplicaReport) {
	for id := a; id <= e; id++ {
		if rep, ok := l.reports[id]; ok {
			out = append(out, rep)
		}
	}
	return out
}

// electNow is the controller's duty for a partition without a leader.
func (l *logs) electNow() {
	r := l.rec()
	if r.Leader != NoNode {
		return
	}
	broker := l.s.Image().Broker
	if MustCancel(r, broker) && l.draw(3) == 0 {
		l.tell("cancel", &Reassign{Items: []Reassignment{{Partition: l.p, PartitionEpoch: r.PartitionEpoch}}})
		return
	}
	if el, ok, _ := ChooseReported(r, l.heard(), broker); ok {
		l.tell("elect", &ElectReported{Elections: []ReportedElection{el}})
		return
	}
	if SafetyOf(r, broker) == OfflineUnsafe && r.Change() != ChangeReplicas && len(MissingReports(r, l.heard(), broker)) == 0 {
		present := slices.DeleteFunc(l.heard(), func(x ReplicaReport) bool {
			return x.Broker != l.epoch(x.Broker.ID) || !slices.Contains(r.Replicas, x.Broker.ID)
		})
		best, _ := ChooseUnsafe(r, present, broker)
		log := l.node[best.Broker.ID].log
		same := 0
		for same < min(len(log), len(l.committed)) && log[same] == l.committed[same] {
			same++
		}
		before := l.committed
		l.committed = slices.Clone(l.committed[:same]) // what is flagged is no silent loss
		if !l.arrive("unsafe", &UnsafeElect{Elections: []UnsafeElection{{Partition: l.p, Epoch: r.LeaderEpoch, Leader: best.Broker, Reports: present}}}) {
			l.committed = before
		}
	}
}

// proveChange sends the finish of a change that positions of this epoch prove.
func (l *logs) proveChange() {
	r := l.led()
	if r == nil || r.Change() == NoChange {
		return
	}
	point := l.leading.point
	proven := len(l.committed) >= point && l.leading.beginPE == r.BeginPE
	if r.Rule != RuleISR {
		proven = proven && l.quorumPoint(r) >= point
	}
	if r.Rule != RuleQuorum {
		proven = proven && len(r.ISR) >= int(r.MinISR) && len(l.leading.proposals) == 0 && l.inSyncPoint(r) >= point
	}
	if r.Change() == ChangeDurability {
		proven = proven && l.node[r.Leader].flushed >= point
	}
	if !proven {
		return
	}
	f := l.finish(l.p)
	f.Point = int64(point)
	for _, m := range r.Members {
		be := l.epoch(m.ID).Epoch
		if m.ID != r.Leader {
			be = l.leading.match[m.ID].be
		}
		if off := l.pos(r, m.ID); off >= point && be != 0 {
			f.Evidence = append(f.Evidence, Evidence{Broker: BrokerEpoch{ID: m.ID, Epoch: be}, Offset: int64(off)})
		}
	}
	l.tell("finish "+string(r.Change()), &FinishChange{Items: []Finish{f}})
}

func (l *logs) step(focus int) {
	id := int32(1 + l.draw(5))
	r := l.rec()
	switch x := l.draw(100); {
	case x < 12:
		if r := l.led(); r != nil {
			l.append(r)
			l.advance()
		}
	case x < 42:
		l.copy(id)
	case x < 48:
		if r := l.led(); r != nil {
			l.node[r.Leader].flushed = len(l.node[r.Leader].log)
			l.advance()
		}
	case x < 53:
		l.propose()
	case x < 55:
		l.node[id].up = false
		if l.draw(2) == 0 {
			l.arrive("fence", &FenceBrokers{Brokers: []BrokerEpoch{l.epoch(id)}})
		}
	case x < 60:
		if !l.node[id].up || l.draw(12) == 0 {
			l.restart(id)
		}
	case x < 68:
		if l.node[id].up {
			l.arrive("unfence", &UnfenceBroker{Broker: l.epoch(id)})
		} else {
			l.arrive("fence", &FenceBrokers{Brokers: []BrokerEpoch{l.epoch(id)}})
		}
	case x < 70:
		if r.Rule.ElectBy() == RuleQuorum && r.Leader != NoNode {
			l.tell("begin", &BeginElection{Elections: []ElectionStart{{Partition: l.p, LeaderEpoch: r.LeaderEpoch, Leader: r.Leader}}})
		}
	case x < 79:
		l.reportOf(id)
	case x < 87:
		l.electNow()
	case x < 91:
		l.proveChange()
	case x < 93:
		if len(l.late) > 0 {
			l.arrive("late", l.late[l.draw(len(l.late))])
		}
	case x < 94:
		l.arrive("min", &SetMinISR{Partition: l.p, PartitionEpoch: r.PartitionEpoch, MinISR: int32(1 + l.draw(3))})
	case x < 95 && l.draw(3) == 0 && l.node[id].up && r.IsReplica(id):
		n := l.node[id]
		if n.log = n.log[:l.draw(len(n.log)+1)]; len(n.log) < n.flushed {
			n.flushed = len(n.log)
		}
		l.arrive("damaged", &ReplicaDamaged{Broker: l.epoch(id), Partitions: []record.PartitionID{l.p}})
	default:
		l.change(focus)
	}
}

// change begins, carries on or takes back the changes that a history is about.
func (l *logs) change(focus int) {
	r := l.rec()
	switch focus {
	case 0:
		rule := []CommitRule{RuleISR, RuleQuorum}[l.draw(2)]
		l.arrive("rule", &AlterTopicConfigs{Topics: []TopicConfigChange{{Topic: l.p.Topic, Rule: rule, Forced: true}}})
	case 1:
		durability := []Durability{DurabilityMemory, DurabilityDisk, DurabilityDisk}[l.draw(3)]
		l.arrive("durability", &AlterTopicConfigs{Topics: []TopicConfigChange{{Topic: l.p.Topic, Durability: durability}}})
	case 2:
		switch {
		case len(r.Adding) > 0 && r.Rule == RuleQuorum && l.draw(5) > 0:
			l.tell("joint", &EnterJoint{Items: []JointEntry{{Partition: l.p, PartitionEpoch: r.PartitionEpoch}}})
		case r.Change() == ChangeReplicas:
			if l.draw(6) == 0 {
				l.tell("cancel", &Reassign{Items: []Reassignment{{Partition: l.p, PartitionEpoch: r.PartitionEpoch}}})
			}
		default:
			ids := []int32{a, b, c, d, e}
			l.rng.Shuffle(5, func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
			l.tell("reassign", &Reassign{Items: []Reassignment{{Partition: l.p, PartitionEpoch: r.PartitionEpoch, Target: ids[:3]}}})
		}
	default:
		l.change(l.draw(3))
	}
}

// heal lets everybody come back with what it has: then somebody leads, everything is copied, and what is under way ends.
func (l *logs) heal() {
	for id, n := range l.node {
		if !n.up {
			n.up = true
			l.register(id)
		}
	}
	for range 60 {
		for id := a; id <= e; id++ {
			l.arrive("unfence", &UnfenceBroker{Broker: l.epoch(id)})
			l.reportOf(id)
		}
		l.electNow()
		for id := a; id <= e; id++ {
			if r := l.led(); r != nil {
				l.node[r.Leader].flushed = len(l.node[r.Leader].log)
			}
			for range 3 {
				l.copy(id)
			}
		}
		if r := l.led(); r != nil && r.Rule != RuleQuorum {
			l.propose()
		}
		if r := l.rec(); len(r.Adding) > 0 && r.Rule == RuleQuorum {
			l.tell("joint", &EnterJoint{Items: []JointEntry{{Partition: l.p, PartitionEpoch: r.PartitionEpoch}}})
		}
		l.proveChange()
		if r := l.led(); r != nil && r.Change() == NoChange {
			return
		}
	}
	l.must(false, "no progress although everybody is back: %+v, reports %+v", l.rec(), l.reports)
}

// TestNoLeaderLacksACommittedRecord runs histories of every rule, durability and kind of change.
func TestNoLeaderLacksACommittedRecord(t *testing.T) {
	reached := map[string]int{}
	for focus, kind := range []string{"rule", "durability", "replicas", "all"} {
		for _, rule := range []CommitRule{RuleISR, RuleQuorum} {
			t.Run(kind+"/"+string(rule), func(t *testing.T) {
				seeds(t, 60, func(t *testing.T, seed uint64) {
					durability := []Durability{DurabilityMemory, DurabilityDisk}[seed%2]
					l := newLogs(t, seed, rule, durability)
					for range 400 {
						l.step(focus)
					}
					l.heal()
					for what, n := range l.reached {
						reached[what] += n
					}
				})
			})
		}
	}
	for _, what := range []string{"commit", "elect", "unsafe", "alter", "certify", "begin", "joint", "cancel", "reassign", "rule", "durability",
		"finish reassignment", "finish commit.rule", "finish commit.durability", "damaged", "late"} {
		if what != "commit" {
			what += " true"
		}
		require.True(t, reached[what] > 0 || *seedFlag != 0, "never happened: %s of %v", what, reached)
	}
	t.Logf("%v", reached)
}
