package partition

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

var (
	simSeed  = flag.Uint64("sim.seed", 0, "run this one schedule and print its trace")
	simWalks = flag.Int("sim.walks", 300, "random schedules to run")
)

const simReplicas = 3

// sim runs the real decisions of three replicas and of the controller through one random schedule: messages are lost,
// doubled, late and out of order; metadata is applied late and in skips; processes crash with and without their memory.
// It keeps the true committed log and checks the invariants after every step.
type sim struct {
	rng    *rand.Rand
	st     *metadata.State
	index  uint64
	images []*metadata.Image
	id     record.PartitionID
	nodes  [simReplicas + 1]*simNode
	net    []simMsg
	ghost  []rec // the committed log, by offset
	acks   []simAck
	now    time.Time
	seq    int64
	names  int
	trace  []string
	lossy  bool // power is lost in this schedule
	stats  map[string]int
}

type simNode struct {
	id          int32
	up          bool
	be          int64
	incarnation string
	applied     int // index in images; -1 nothing
	log         *memLog
	rec         *metadata.Partition
	role        Role
	leader      *Leader
	asked       Asked
	askedSeq    int64
	outstanding bool
	waits       Waits[int]
}

type simAck struct {
	off  int64
	name int
}

type simMsg struct {
	kind   string // fetch, answer, alter, certify
	from   int32
	to     int32
	seq    int64
	be     int64
	fetch  Fetch
	answer Answer
	recs   []rec
	alter  *metadata.PartitionChange
	cert   *metadata.Certification
}

func (s *sim) note(format string, a ...any) {
	s.trace = append(s.trace, fmt.Sprintf(format, a...))
	if len(s.trace) > 400 {
		s.trace = s.trace[100:]
	}
}

func (s *sim) fail(format string, a ...any) {
	panic(simFault(fmt.Sprintf(format, a...)))
}

type simFault string

func newSim(seed uint64) *sim {
	s := &sim{rng: rand.New(rand.NewPCG(seed, 7)), st: metadata.NewState(), index: 10, now: time.Unix(1e9, 0), stats: map[string]int{}}
	s.lossy = s.rng.IntN(2) == 0
	s.id = record.PartitionID{Topic: record.TopicID{1}}
	s.do(&metadata.SetCluster{ClusterID: "c", Level: 1})
	for id := int32(1); id <= simReplicas; id++ {
		s.nodes[id] = &simNode{id: id, log: newMemLog(), applied: -1}
		s.start(s.nodes[id], metadata.RestartLossyMedia)
		s.do(&metadata.UnfenceBroker{Broker: metadata.BrokerEpoch{ID: id, Epoch: s.nodes[id].be}})
	}
	r := s.do(&metadata.CreateTopics{Topics: []metadata.NewTopic{{ID: s.id.Topic, Name: "t", Assignment: [][]int32{{1, 2, 3}}, MinISR: int32(1 + s.rng.IntN(3)),
		Rule: metadata.RuleISR, Durability: metadata.DurabilityMemory, Recovery: metadata.RecoverWaitAll}}})
	if r.Items[0] != nil {
		s.fail("create: %v", r.Items[0])
	}
	return s
}

// do appends a command to the metadata log and applies it.
func (s *sim) do(cmd metadata.Command) metadata.Result {
	s.index++
	r, d := s.st.Apply(s.index, cmd)
	s.images = append(s.images, d.New)
	for _, e := range d.Events {
		if e.Unsafe != nil {
			s.flagged(e.Unsafe)
		}
	}
	return r
}

// head is the newest record.
func (s *sim) head() *metadata.Partition { return s.st.Image().Partition(s.id) }

// flagged shortens what must survive to what the chosen log has: the loss was told.
func (s *sim) flagged(e *metadata.UnsafeElection) {
	log := s.nodes[e.Leader.ID].log
	n := 0
	for n < len(s.ghost) && int64(n) < log.EndOffset() && (int64(n) < log.start || log.recs[int64(n)-log.start] == s.ghost[n]) {
		n++
	}
	s.note("flagged election of %d: %d of %d committed stay", e.Leader.ID, n, len(s.ghost))
	s.ghost = s.ghost[:n]
	s.acks = slices.DeleteFunc(s.acks, func(a simAck) bool { return a.off >= int64(n) })
	s.stats["flagged"]++
}

func (s *sim) start(n *simNode, class metadata.RestartClass) {
	c := &metadata.RegisterBroker{Broker: metadata.Broker{ID: n.id, DirectoryID: fmt.Sprint("d", n.id), Incarnation: fmt.Sprintf("i%d-%d", n.id, s.index),
		Listeners: map[string]metadata.Endpoint{"l": {Host: "h", Port: 1}}, MinLevel: 1, MaxLevel: 1, Version: "v"}, BootOK: true}
	if n.incarnation != "" {
		c.Earlier = []metadata.EarlierIncarnation{{ID: n.incarnation, SameBoot: class != metadata.RestartLossyPower}}
		c.Clean = class == metadata.RestartClean
	}
	r := s.do(c)
	if r.Err != nil {
		s.fail("register: %v", r.Err)
	}
	if n.incarnation != "" && r.Class != class {
		s.fail("restart of %d is %s, not %s", n.id, r.Class, class)
	}
	*n = simNode{id: n.id, up: true, be: r.Epoch, incarnation: c.Broker.Incarnation, applied: -1, log: n.log, role: RoleIdle}
	s.note("node %d starts with broker epoch %d, %s", n.id, n.be, r.Class)
}

// crash stops a process. With power lost, what was not flushed goes too.
func (s *sim) crash(n *simNode) {
	n.up = false
	s.stats["crash"]++
	l := n.log
	if s.lossy && s.rng.IntN(2) == 0 {
		l.cut(l.flushed + s.rng.Int64N(l.EndOffset()-l.flushed+1))
		l.hw = min(l.hw, l.EndOffset())
		s.note("node %d loses power: end %d", n.id, l.EndOffset())
		s.stats["power"]++
		n.waits = Waits[int]{}
		n.leader = nil
		n.role = RoleGone
		return
	}
	l.hw = max(l.start, l.hw-s.rng.Int64N(4)) // the checkpoint is older
	s.note("node %d is killed", n.id)
	n.leader, n.role = nil, RoleIdle
}

// view acts on the newest image that the node has replayed, once that has reached its registration.
func (s *sim) view(n *simNode) {
	img := s.images[n.applied]
	if int64(img.Index()) < n.be {
		return
	}
	rec := img.Partition(s.id)
	if rec == nil {
		return
	}
	t := Decide(n.rec, rec, n.id, n.be, n.log)
	old := n.rec
	n.rec = rec
	if t.NewEpoch {
		n.leader, n.outstanding = nil, false
		n.waits.Fail(ErrNotLeader, func(int, error) {})
	}
	n.role = t.Role
	if t.Loss {
		n.log.loss, n.log.hw = t.LossEpoch, t.LossHW
	}
	switch {
	case t.TakeOffice:
		n.log.office(rec.LeaderEpoch)
		leso := n.log.EndOffset()
		if NeedsMarker(rec, n.log) {
			n.log.append(marker(rec.LeaderEpoch))
		}
		l, e := NewLeader(n.id, n.be, rec, leso, img, n.log, opts, s.now)
		n.leader, n.log.hw = l, min(max(n.log.hw, n.log.start), n.log.EndOffset())
		s.note("node %d leads epoch %d from %d, hw %d, isr %v", n.id, rec.LeaderEpoch, n.log.EndOffset(), n.log.hw, rec.ISR)
		s.stats["office"]++
		if rec == s.head() {
			s.complete(n)
		}
		s.carry(n, e)
	case n.leader != nil && rec != old:
		s.carry(n, n.leader.OnView(rec, img, n.log, s.now))
	}
}

// complete is I3: whoever is elected has everything committed.
func (s *sim) complete(n *simNode) {
	for o := n.log.start; o < int64(len(s.ghost)); o++ {
		if o >= n.log.EndOffset() || n.log.recs[o-n.log.start] != s.ghost[o] {
			s.fail("I3: node %d leads epoch %d without the committed record at %d (end %d, committed %d)", n.id, n.rec.LeaderEpoch, o, n.log.EndOffset(), len(s.ghost))
		}
	}
}

func (s *sim) carry(n *simNode, e Effects) {
	if e.Advanced {
		s.setHW(n, e.HighWatermark, true)
	}
	n.waits.Complete(n.leader, n.log, func(name int, err error) {
		if err != nil {
			return
		}
		i := slices.IndexFunc(s.ghost, func(r rec) bool { return r.name == name })
		if i < 0 {
			s.fail("I11: node %d acknowledged record %d, which is not committed", n.id, name)
		}
		s.acks = append(s.acks, simAck{int64(i), name})
		s.stats["acks"]++
	})
	if e.Propose != nil {
		s.net = append(s.net, simMsg{kind: "alter", from: n.id, alter: e.Propose})
		s.stats["proposals"]++
	}
	if e.Certify != nil {
		s.net = append(s.net, simMsg{kind: "certify", from: n.id, cert: e.Certify})
	}
}

// setHW checks I2, I6 and I7 for whoever moves its high watermark.
func (s *sim) setHW(n *simNode, hw int64, leader bool) {
	if hw < n.log.hw || hw > n.log.EndOffset() || hw < n.log.start {
		s.fail("I6: node %d moves its high watermark from %d to %d, log %d to %d", n.id, n.log.hw, hw, n.log.start, n.log.EndOffset())
	}
	for o := max(n.log.hw, n.log.start); o < hw; o++ {
		r := n.log.recs[o-n.log.start]
		switch {
		case o < int64(len(s.ghost)) && s.ghost[o] != r:
			s.fail("I2: node %d takes %v at %d for committed, %v is", n.id, r, o, s.ghost[o])
		case o == int64(len(s.ghost)) && leader:
			s.ghost = append(s.ghost, r)
		case o >= int64(len(s.ghost)):
			s.fail("I2: node %d, leader %v, takes %d for committed, the committed log ends at %d", n.id, leader, o, len(s.ghost))
		}
	}
	n.log.hw = hw
}

func (s *sim) image(n *simNode) *metadata.Image { return s.images[n.applied] }

func (n *simNode) active() bool { return n.up && n.rec != nil }

func (s *sim) produce(n *simNode) {
	if !n.active() || n.leader == nil || len(n.log.recs) > 24 || n.leader.MayAppend(AcksAll, s.image(n), s.now) != nil && s.rng.IntN(4) > 0 {
		return
	}
	s.names++
	n.log.append(rec{n.leader.Epoch(), s.names})
	n.waits.Add(n.log.EndOffset()-1, AcksAll, s.names)
	s.stats["appends"]++
	s.carry(n, n.leader.OnAppend(n.log, s.now))
}

func (s *sim) fetch(n *simNode) {
	if !n.active() || n.role != RoleFollow {
		return
	}
	s.seq++
	end := n.log.EndOffset()
	n.asked, n.askedSeq, n.outstanding = Asked{n.rec.LeaderEpoch, end}, s.seq, true
	s.net = append(s.net, simMsg{kind: "fetch", from: n.id, to: n.rec.Leader, seq: s.seq, be: n.be, fetch: Fetch{
		Replica: n.id, BrokerEpoch: n.be, LeaderEpoch: n.rec.LeaderEpoch, Offset: end, LastFetchedEpoch: EpochBefore(end, n.log), AckOffset: end, LogStart: n.log.start}})
}

func (s *sim) deliver() {
	if len(s.net) == 0 {
		return
	}
	i := s.rng.IntN(len(s.net))
	if s.rng.IntN(2) == 0 {
		i = 0
	}
	m := s.net[i]
	if s.rng.IntN(12) > 0 { // else it stays and comes again
		s.net = slices.Delete(s.net, i, i+1)
	}
	if s.rng.IntN(15) == 0 {
		return // lost
	}
	switch m.kind {
	case "fetch":
		s.onFetch(s.nodes[m.to], m)
	case "answer":
		s.onAnswer(s.nodes[m.to], m)
	case "alter":
		if r := s.do(&metadata.AlterPartitions{Changes: []metadata.PartitionChange{*m.alter}}); r.Items[0] == nil {
			s.note("ISR %v by %d in PE %d", m.alter.ISR, m.alter.Leader, m.alter.PartitionEpoch)
			s.stats["isr"]++
		}
	case "certify":
		s.do(&metadata.Certify{Items: []metadata.Certification{*m.cert}})
	}
	if len(s.net) > 12 {
		s.net = slices.Delete(s.net, 0, 1)
	}
}

func (s *sim) onFetch(n *simNode, m simMsg) {
	if !n.active() || n.leader == nil {
		return
	}
	v, e := n.leader.OnFetch(m.fetch, s.image(n), n.log, s.now)
	s.carry(n, e)
	if v.Err != nil {
		return
	}
	start, epoch := n.log.Start()
	a := Answer{LeaderEpoch: n.leader.Epoch(), Reset: v.Reset, Diverging: v.Diverging, At: v.At, HighWatermark: n.leader.HighWatermark(), LogStart: start, LogStartEpoch: epoch}
	var recs []rec
	if !v.Reset && !v.Diverging {
		recs = slices.Clone(n.log.recs[m.fetch.Offset-start:])
		if len(recs) > 1 && s.rng.IntN(2) == 0 {
			recs = recs[:1+s.rng.IntN(len(recs)-1)]
		}
	}
	s.net = append(s.net, simMsg{kind: "answer", from: n.id, to: m.from, seq: m.seq, be: m.be, answer: a, recs: recs})
}

func (s *sim) onAnswer(n *simNode, m simMsg) {
	if !n.active() || m.be != n.be || n.role != RoleFollow || !n.outstanding || m.seq != n.askedSeq {
		return
	}
	j := Judge(n.rec, n.asked, m.answer, n.log)
	n.outstanding = false
	switch j.Action {
	case ActDrop:
	case ActQuarantine:
		s.fail("node %d is quarantined: %s", n.id, j.Reason)
	case ActReset:
		if n.log.hw > j.To && !j.Flagged {
			s.fail("I7: node %d resets to %d below its high watermark %d", n.id, j.To, n.log.hw)
		}
		n.log.reset(j.To, j.ToEpoch)
		s.stats["reset"]++
	case ActTruncate:
		if j.To < n.log.hw {
			s.fail("I7: node %d cuts to %d below its high watermark %d", n.id, j.To, n.log.hw)
		}
		n.log.cut(j.To)
		s.note("node %d cuts to %d", n.id, j.To)
		s.stats["truncate"]++
	case ActAppend:
		for _, r := range m.recs {
			n.log.append(r)
		}
		hw, start := m.answer.Advance(n.log)
		s.setHW(n, hw, false)
		n.log.raise(start)
	}
}

// control is the controller's duty: elect where nobody leads.
func (s *sim) control() {
	p, img := s.head(), s.st.Image()
	if p.Leader != metadata.NoNode {
		if x := metadata.PreferredMove(p, img.Broker); x != metadata.NoNode && s.rng.IntN(2) == 0 {
			s.do(&metadata.Elect{Elections: []metadata.Election{{Partition: s.id, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Leader: x}}})
		}
		return
	}
	if x := metadata.ChooseLeader(p, img.Broker); x != metadata.NoNode {
		s.do(&metadata.Elect{Elections: []metadata.Election{{Partition: s.id, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Leader: x}}})
		return
	}
	if img.Safety(p) != metadata.OfflineUnsafe {
		return
	}
	var reports []metadata.ReplicaReport
	for _, n := range s.nodes[1:] {
		if n.active() && n.role == RoleIdle && n.rec.LeaderEpoch == p.LeaderEpoch && n.be == img.BrokerEpoch(n.id) {
			reports = append(reports, metadata.ReplicaReport{Broker: metadata.BrokerEpoch{ID: n.id, Epoch: n.be}, LastEpoch: n.log.LastEpoch(), End: n.log.EndOffset(), HW: n.log.hw})
		}
	}
	if best, ok := metadata.ChooseUnsafe(p, reports, img.Broker); ok {
		s.do(&metadata.UnsafeElect{Elections: []metadata.UnsafeElection{{Partition: s.id, Epoch: p.LeaderEpoch, Leader: best.Broker, Reports: reports}}})
	}
}

// check holds what is true between any two steps.
func (s *sim) check() {
	p := s.head()
	for _, id := range slices.Concat(p.ISR, p.ELR) { // I8
		n := s.nodes[id]
		if n.up && n.be == s.st.Image().BrokerEpoch(id) && n.log.EndOffset() < int64(len(s.ghost)) {
			s.fail("I8: node %d is in ISR %v or ELR %v with end %d, committed are %d", id, p.ISR, p.ELR, n.log.EndOffset(), len(s.ghost))
		}
	}
	if p.Leader == metadata.NoNode {
		return
	}
	n := s.nodes[p.Leader]
	if !n.active() || n.leader == nil || n.leader.Epoch() != p.LeaderEpoch || n.be != p.LeaderBrokerEpoch || len(n.rec.ISR) < int(n.rec.MinISR) || len(p.ISR) < int(p.MinISR) {
		return
	}
	maximal := slices.Concat(append([][]int32{n.rec.ISR}, n.leader.proposals...)...)
	for _, id := range slices.Concat(p.ISR, p.ELR) { // I9
		if !slices.Contains(maximal, id) {
			s.fail("I9: node %d may be elected, but leader %d counts only %v", id, n.id, maximal)
		}
	}
}

func (s *sim) step() {
	n := s.nodes[1+s.rng.IntN(simReplicas)]
	switch k := s.rng.IntN(100); {
	case k < 14:
		s.produce(n)
	case k < 34:
		s.fetch(n)
	case k < 66:
		s.deliver()
	case k < 80:
		if n.up && n.applied < len(s.images)-1 {
			n.applied = min(len(s.images)-1, n.applied+1+s.rng.IntN(3))
			s.view(n)
		}
	case k < 83:
		s.now = s.now.Add(time.Duration(s.rng.IntN(8000)) * time.Millisecond)
		if n.active() && n.leader != nil {
			s.carry(n, n.leader.Tick(s.image(n), n.log, s.now))
		}
	case k < 88:
		s.control()
	case k < 90:
		if b := s.st.Image().Broker(n.id); b.Alive() {
			s.do(&metadata.FenceBrokers{Brokers: []metadata.BrokerEpoch{{ID: n.id, Epoch: b.Epoch}}, Reason: "sim"})
			s.note("fence %d", n.id)
		}
	case k < 94:
		if b := s.st.Image().Broker(n.id); n.active() && b.Fenced && b.Epoch == n.be {
			s.do(&metadata.UnfenceBroker{Broker: metadata.BrokerEpoch{ID: n.id, Epoch: b.Epoch}})
		}
	case k < 95:
		if n.up {
			s.crash(n)
		}
	case k < 97:
		if !n.up {
			class := metadata.RestartProcessCrash
			if n.role == RoleGone {
				class = metadata.RestartLossyPower
			}
			s.start(n, class)
		}
	case k < 98:
		n.log.flushed = n.log.EndOffset()
	case k < 99:
		if n.leader != nil && n.active() && n.log.hw > n.log.start {
			n.log.raise(n.log.start + 1 + s.rng.Int64N(n.log.hw-n.log.start))
			s.stats["raise"]++
		}
	default:
		p := s.head()
		s.do(&metadata.SetMinISR{Partition: s.id, PartitionEpoch: p.PartitionEpoch, MinISR: int32(1 + s.rng.IntN(simReplicas))})
	}
	s.check()
}

// heal ends all faults: the partition must be led, everything committed and all logs equal.
func (s *sim) heal() {
	s.net = nil
	for round := 0; round < 400; round++ {
		s.now = s.now.Add(300 * time.Millisecond)
		for _, n := range s.nodes[1:] {
			if !n.up {
				class := metadata.RestartProcessCrash
				if n.role == RoleGone {
					class = metadata.RestartLossyPower
				}
				s.start(n, class)
			}
			n.applied = len(s.images) - 1
			s.view(n)
			if b := s.st.Image().Broker(n.id); b.Fenced {
				s.do(&metadata.UnfenceBroker{Broker: metadata.BrokerEpoch{ID: n.id, Epoch: n.be}})
			}
			s.fetch(n)
			if n.leader != nil {
				s.carry(n, n.leader.Tick(s.image(n), n.log, s.now))
			}
		}
		for n := len(s.net) * 3; n > 0 && len(s.net) > 0; n-- {
			m := s.net[0]
			s.net = s.net[1:]
			switch m.kind {
			case "fetch":
				s.onFetch(s.nodes[m.to], m)
			case "answer":
				s.onAnswer(s.nodes[m.to], m)
			case "alter":
				s.do(&metadata.AlterPartitions{Changes: []metadata.PartitionChange{*m.alter}})
			case "certify":
				s.do(&metadata.Certify{Items: []metadata.Certification{*m.cert}})
			}
		}
		s.control()
		s.check()
		if s.healed() {
			return
		}
	}
	p := s.head()
	s.fail("no progress: record %+v; logs %s", *p, s.logs())
}

func (s *sim) healed() bool {
	p := s.head()
	if p.Leader == metadata.NoNode || len(p.ISR) != simReplicas {
		return false
	}
	l := s.nodes[p.Leader].log
	for _, n := range s.nodes[1:] {
		if n.log.EndOffset() != l.EndOffset() || n.log.hw != l.EndOffset() || n.rec != p {
			return false
		}
		for o := max(n.log.start, l.start); o < l.EndOffset(); o++ {
			if n.log.recs[o-n.log.start] != l.recs[o-l.start] {
				s.fail("I4: node %d has %v at %d, the leader %v", n.id, n.log.recs[o-n.log.start], o, l.recs[o-l.start])
			}
		}
	}
	for _, a := range s.acks {
		if a.off >= l.start && (a.off >= l.EndOffset() || l.recs[a.off-l.start].name != a.name) {
			s.fail("acknowledged record %d at %d is lost", a.name, a.off)
		}
	}
	return true
}

func (s *sim) logs() string {
	var b strings.Builder
	for _, n := range s.nodes[1:] {
		fmt.Fprintf(&b, "[%d: %d..%d hw %d role %d] ", n.id, n.log.start, n.log.EndOffset(), n.log.hw, n.role)
	}
	return b.String()
}

// walk runs one schedule and gives what it broke; empty: nothing.
func walk(seed uint64, stats map[string]int) (fault string, trace []string) {
	s := newSim(seed)
	defer func() {
		trace = s.trace
		for k, v := range s.stats {
			stats[k] += v
		}
		if r := recover(); r != nil {
			f, ok := r.(simFault)
			if !ok {
				panic(r)
			}
			fault = string(f)
		}
	}()
	for range 600 {
		s.step()
	}
	s.heal()
	return "", nil
}

func TestRandomSchedulesKeepTheInvariants(t *testing.T) {
	stats := map[string]int{}
	first, n := rand.Uint64()>>1, *simWalks
	if *simSeed != 0 {
		first, n = *simSeed, 1
	}
	t.Logf("seeds from %d", first)
	for i := range n {
		seed := first + uint64(i)
		if fault, trace := walk(seed, stats); fault != "" {
			t.Fatalf("-sim.seed=%d (walk %d): %s\n%s", seed, i, fault, strings.Join(trace, "\n"))
		}
	}
	t.Logf("%v", stats)
	if *simSeed != 0 || n < 100 {
		return
	}
	for _, k := range []string{"acks", "appends", "office", "isr", "truncate", "crash", "power", "flagged", "raise", "reset", "proposals"} {
		if stats[k] == 0 {
			t.Errorf("no schedule came to %q: %v", k, stats)
		}
	}
}
