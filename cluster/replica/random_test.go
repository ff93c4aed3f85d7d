package replica

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

var (
	walkSeed = flag.Uint64("walk.seed", 0, "run this one schedule and print its trace")
	walks    = flag.Int("walks", 25, "random schedules to run")
)

// walker runs three nodes through one random schedule and keeps the true committed log.
type walker struct {
	*world
	rng     *rand.Rand
	id      record.PartitionID
	flying  []*exchange // asked; served where resp is set
	ghost   []line
	acked   map[int64]int // offset: name
	trace   []string
	names   int
	produce []*sent
	idem    idempotent
	flagged int
	stats   map[string]int
	acks    []*ackFlight
	changes bool // rule and durability change on the way
}

// ackFlight is an acknowledgement on its way behind the fetches of its session.
type ackFlight struct {
	from, to *member
	s        *session
	ack      *partition.Ack
}

// sent is a produce whose answer is still open.
type sent struct {
	pp    *pendingProduce
	names []int
	idem  bool
}

// idempotent is a producer that sends one batch until it is acknowledged, as clients do.
type idempotent struct {
	epoch   int16
	seq     int32
	names   []int // of the batch that is not acknowledged yet
	waiting bool
	flagged int   // losses told when it last knew its place
	leader  int32 // epoch of the newest leader it knows: a client never goes back to an older one
}

func (w *walker) note(format string, a ...any) { w.trace = append(w.trace, fmt.Sprintf(format, a...)) }

func (w *walker) node() *member { return w.nodes[1+w.rng.Int32N(3)] }

// send produces a batch through n; the idempotent producer's is the same one until it is acknowledged.
func (w *walker) send(n *member, idem bool) {
	p := n.part()
	if p == nil || p.leader == nil || p.log.EndOffset()-p.log.StartOffset() > 40 {
		return
	}
	var batch []byte
	s := &sent{idem: idem}
	if idem {
		if w.idem.waiting || p.leader.Epoch() < w.idem.leader {
			return
		}
		w.idem.leader = p.leader.Epoch()
		if w.idem.names == nil {
			w.idem.names = w.fresh()
		}
		s.names = w.idem.names
		batch = newIdempotentBatch(w.idem.epoch, w.idem.seq, s.names...)
		w.idem.waiting = true
	} else {
		s.names = w.fresh()
		batch = newBatch(s.names...)
	}
	s.pp = n.produce(partition.AcksAll, batch)
	if idem {
		w.note("node %d, epoch %d: batch %v of sequence %d, end %d, producers %+v", n.id, p.leader.Epoch(), s.names, w.idem.seq, p.log.EndOffset(), p.log.Producers())
	}
	w.produce = append(w.produce, s)
	n.proposals()
	w.stats["produce"]++
}

func (w *walker) fresh() (names []int) {
	for range 1 + w.rng.IntN(3) {
		w.names++
		names = append(names, w.names)
	}
	return names
}

func newIdempotentBatch(epoch int16, seq int32, names ...int) []byte {
	plain := newBatch(names...)
	h, _ := record.ParseHeader(plain)
	h.ProducerID, h.ProducerEpoch, h.BaseSequence = 7, epoch, seq
	return record.AppendBatch(nil, h, plain[record.HeaderSize:])
}

// settle looks at the answers that have come.
func (w *walker) settle() {
	w.produce = slices.DeleteFunc(w.produce, func(s *sent) bool {
		a, done := s.pp.answered()
		if done {
			w.answer(s, a)
		}
		return done
	})
}

func (w *walker) answer(s *sent, a partition.ProduceAnswer) {
	if s.idem {
		w.idem.waiting = false
	}
	switch {
	case a.Err == nil:
		for i, name := range s.names {
			off := a.BaseOffset + int64(i)
			require.Less(w.t, off, int64(len(w.ghost)), "I11: record %d acknowledged at %d, which is not committed", name, off)
			require.Equal(w.t, name, w.ghost[off].name, "I15: acknowledged at %d", off)
			w.acked[off] = name
		}
		w.stats["acked"]++
		if s.idem {
			w.idem.seq += int32(len(s.names))
			w.idem.names, w.idem.flagged = nil, w.flagged
			w.stats["idempotent"]++
		}
	case s.idem && errors.Is(a.Err, record.ErrOutOfOrder):
		require.Greater(w.t, w.flagged, w.idem.flagged, "out of order without a flagged loss: %v; batch %v, sequence %d", a.Err, s.names, w.idem.seq)
		w.idem.epoch++
		w.idem.seq, w.idem.names, w.idem.flagged = 0, nil, w.flagged
	case errors.Is(a.Err, partition.ErrNotLeader), errors.Is(a.Err, partition.ErrNotEnoughReplicas), errors.Is(a.Err, partition.ErrUnknownPartition):
	default:
		w.t.Fatalf("produce: %v", a.Err)
	}
}

// observe takes over what leaders committed, and checks what every replica takes for committed.
func (w *walker) observe() {
	for id := int32(1); id <= 3; id++ {
		p := w.nodes[id].part()
		if p == nil || p.leader == nil || p.log.HighWatermark() <= int64(len(w.ghost)) {
			continue
		}
		start, ls := lines(w.t, p.log)
		require.LessOrEqual(w.t, start, int64(len(w.ghost)))
		w.ghost = append(w.ghost, ls[int64(len(w.ghost))-start:p.log.HighWatermark()-start]...)
	}
	for id := int32(1); id <= 3; id++ {
		p := w.nodes[id].part()
		if p == nil {
			continue
		}
		hw := p.log.HighWatermark()
		require.LessOrEqual(w.t, hw, p.log.EndOffset(), "I6 at node %d", id)
		require.GreaterOrEqual(w.t, hw, p.log.StartOffset(), "I6 at node %d", id)
		require.LessOrEqual(w.t, hw, int64(len(w.ghost)), "I2: node %d takes more for committed than any leader did", id)
	}
}

// compare is I2 in full: below its high watermark every replica has the committed records.
func (w *walker) compare() {
	for _, n := range w.nodes {
		if p := n.part(); p != nil {
			start, ls := lines(w.t, p.log)
			for o := start; o < p.log.HighWatermark(); o++ {
				require.Equal(w.t, w.ghost[o], ls[o-start], "I2: node %d at %d", n.id, o)
			}
			require.Empty(w.t, p.quarantined)
		}
	}
}

func (w *walker) control() {
	p, img := w.head(), w.st.Image()
	switch ready, _ := metadata.JointReady(p, img.Broker); {
	case metadata.MustCancel(p, img.Broker):
		w.do(&metadata.Reassign{Items: []metadata.Reassignment{{Partition: w.id, PartitionEpoch: metadata.AnyPartitionEpoch}}})
		return
	case ready && p.Leader != metadata.NoNode:
		w.do(&metadata.EnterJoint{Items: []metadata.JointEntry{{Partition: w.id, PartitionEpoch: p.PartitionEpoch}}})
		w.stats["joint"]++
		return
	case p.Leader != metadata.NoNode:
		return
	}
	if p.Rule.ElectBy() == metadata.RuleISR {
		if x := metadata.ChooseLeader(p, img.Broker); x != metadata.NoNode {
			w.elect(x)
			w.stats["election by ISR"]++
			return
		}
	} else {
		for _, n := range w.nodes {
			if n.m == nil || n.be != img.BrokerEpoch(n.id) {
				continue
			}
			for _, r := range n.m.Reports([]record.PartitionID{w.id}) { // asked again
				w.reports[n.id] = r
			}
		}
		if ok, _ := w.electReported(); ok {
			w.stats["election by reports"]++
			return
		}
	}
	if img.Safety(p) != metadata.OfflineUnsafe {
		return
	}
	var reports []metadata.ReplicaReport
	for _, n := range w.nodes {
		if n.m == nil || n.be != img.BrokerEpoch(n.id) {
			continue
		}
		for _, r := range n.m.Reports([]record.PartitionID{w.id}) {
			if r.Epoch == p.LeaderEpoch {
				reports = append(reports, metadata.ReplicaReport{Broker: w.epoch(n.id), LastEpoch: r.LastEpoch, End: r.End, HW: r.HW})
			}
		}
	}
	best, ok := metadata.ChooseUnsafe(p, reports, img.Broker)
	if !ok {
		return
	}
	r := w.do(&metadata.UnsafeElect{Elections: []metadata.UnsafeElection{{Partition: w.id, Epoch: p.LeaderEpoch, Leader: best.Broker, Reports: reports}}})
	if r.Items[0] != nil {
		return
	}
	log := w.nodes[best.Broker.ID].part().log
	start, ls := lines(w.t, log)
	n := int64(0)
	for n < int64(len(w.ghost)) && n < log.EndOffset() && (n < start || ls[n-start] == w.ghost[n]) {
		n++
	}
	w.note("flagged election of %d: %d of %d committed stay", best.Broker.ID, n, len(w.ghost))
	w.ghost = w.ghost[:n]
	for o := range w.acked {
		if o >= n {
			delete(w.acked, o)
		}
	}
	w.flagged++
	w.stats["flagged"]++
}

func (w *walker) restart(n *member) {
	n.start()
	w.note("node %d starts, class %s, end %d", n.id, w.st.Image().Broker(n.id).Class, n.end())
}

// String is for messages.
func (n *member) String() string {
	p := n.part()
	if p == nil {
		return fmt.Sprintf("node %d is down\n", n.id)
	}
	return fmt.Sprintf("node %d: log %d to %d, hw %d, role %d, fetch %+v, failed %v, quarantined %q, current %v\n", n.id, p.log.StartOffset(), p.log.EndOffset(),
		p.log.HighWatermark(), p.role, p.fetch, p.failed, p.quarantined, p.rec == n.w.head())
}

func (n *member) end() int64 {
	if p := n.part(); p != nil {
		return p.log.EndOffset()
	}
	return -1
}

func (w *walker) kill(n *member) {
	mode := []vfs.CrashMode{vfs.CrashKeep, vfs.CrashKeep, vfs.CrashLose, vfs.CrashTear}[w.rng.IntN(4)]
	for _, s := range w.produce { // its connections end: the outcome is unknown to the client
		if s.idem && s.pp.acks[0].p == n.part() {
			w.idem.waiting = false
		}
	}
	w.produce = slices.DeleteFunc(w.produce, func(s *sent) bool { return s.pp.acks[0].p != nil && s.pp.acks[0].p == n.part() })
	w.note("node %d crashes (%d) with end %d", n.id, mode, n.end())
	n.crash(mode, w.rng.Uint64())
	w.stats["crash"]++
}

func (w *walker) fetchStep(n *member) {
	for leader := int32(1); leader <= 3; leader++ {
		if leader == n.id {
			continue
		}
		if n.m == nil || n.m.fetchers[leader] == nil || slices.ContainsFunc(w.flying, func(x *exchange) bool { return x.from == n && x.be == n.be && x.to.id == leader }) {
			continue
		}
		if x := n.ask(leader); x != nil {
			w.flying = append(w.flying, x)
		}
	}
}

// move brings one message on its way one step further, or loses it with its connection.
func (w *walker) move() {
	if len(w.flying) == 0 {
		return
	}
	i := w.rng.IntN(len(w.flying))
	x := w.flying[i]
	gone := func() { w.flying = slices.Delete(w.flying, i, i+1) }
	switch {
	case w.rng.IntN(25) == 0 || x.from.be != x.be:
		x.broken()
		gone()
	case x.resp == nil:
		if !x.serve() {
			x.broken()
			gone()
		}
	default:
		if !x.take() {
			x.broken()
		}
		gone()
		w.stats["answers"]++
	}
}

func (w *walker) step() {
	n := w.node()
	switch k := w.rng.IntN(100); {
	case k < 10:
		if n.m != nil {
			w.send(n, k < 5)
		}
	case k < 30:
		w.fetchStep(n)
	case k < 55:
		w.move()
	case k < 59:
		w.toDisk(n)
	case k < 62:
		w.hear()
	case k < 76:
		n.replay(1 + w.rng.IntN(3))
	case k < 79:
		w.now = w.now.Add(time.Duration(w.rng.IntN(7000)) * time.Millisecond)
		if n.m != nil {
			n.tick()
		}
	case k < 84:
		w.control()
	case k < 85:
		if w.st.Image().Broker(n.id).Alive() {
			w.fence(n.id)
			w.note("fence %d", n.id)
		}
	case k < 92:
		if b := w.st.Image().Broker(n.id); n.m != nil && b.Fenced && b.Epoch == n.be {
			w.unfence(n.id)
		}
	case k < 93:
		if n.m != nil && w.rng.IntN(2) == 0 {
			w.kill(n)
		}
	case k < 95:
		if n.m == nil {
			w.restart(n)
		}
	case k < 97 && w.changes && w.rng.IntN(4) > 0:
		w.alter()
	case k < 97:
		if p := w.head(); p.Rule.ElectBy() == metadata.RuleQuorum && p.Leader != metadata.NoNode && w.rng.IntN(2) == 0 {
			w.do(&metadata.BeginElection{Elections: []metadata.ElectionStart{{Partition: w.id, LeaderEpoch: p.LeaderEpoch, Leader: p.Leader}}})
		}
	case k < 98:
		if p := n.part(); p != nil && p.leader != nil {
			if hw := p.log.HighWatermark(); hw > p.log.StartOffset() {
				_, err := p.raiseStart(p.log.StartOffset() + 1 + w.rng.Int64N(hw-p.log.StartOffset()))
				require.NoError(w.t, err)
				w.stats["raise"]++
			}
		}
	default:
		if p := n.part(); p != nil {
			_, err := p.log.Flush()
			require.NoError(w.t, err)
			require.NoError(w.t, n.dir.Checkpoint())
		}
	}
	w.observe()
	w.settle()
}

// toDisk lets a node's fsync end, and its followers' word of it go.
func (w *walker) toDisk(n *member) {
	if n.m == nil {
		return
	}
	if n.m.flushes.step() {
		w.stats["flush"]++
	}
	n.proposals()
	n.heartbeat()
	for leader := int32(1); leader <= 3; leader++ {
		if a := n.ack(leader); a != nil {
			w.acks = append(w.acks, &ackFlight{n, w.nodes[leader], n.sessions[leader], a})
		}
	}
}

// hear brings one acknowledgement to its leader, unless a fetch of its session is before it.
func (w *walker) hear() {
	if len(w.acks) == 0 {
		return
	}
	i := w.rng.IntN(len(w.acks))
	a := w.acks[i]
	if slices.ContainsFunc(w.flying, func(x *exchange) bool { return x.s == a.s && x.resp == nil }) {
		return
	}
	if w.rng.IntN(8) > 0 { // else it comes again, later
		w.acks = slices.Delete(w.acks, i, i+1)
	}
	a.to.hear(a.ack)
	w.stats["ack"]++
}

// alter asks for another rule or durability, or for the old one back.
func (w *walker) alter() {
	if !w.changes {
		return
	}
	if w.rng.IntN(3) == 0 {
		w.reassign()
		return
	}
	c := metadata.TopicConfigChange{Topic: w.topic}
	if w.rng.IntN(2) == 0 {
		c.Rule = []metadata.CommitRule{metadata.RuleISR, metadata.RuleQuorum}[w.rng.IntN(2)]
	} else {
		c.Durability = []metadata.Durability{metadata.DurabilityMemory, metadata.DurabilityDisk}[w.rng.IntN(2)]
	}
	before := w.head()
	if r := w.do(&metadata.AlterTopicConfigs{Topics: []metadata.TopicConfigChange{c}}); r.Items[0] == nil && w.head() != before {
		w.note("asked for %s%s: %s, %s", c.Rule, c.Durability, w.head().Rule, w.head().Durability)
		w.stats["change"]++
	}
}

// reassign asks for two or three of the nodes in some order, or for an end of the move under way.
func (w *walker) reassign() {
	r := metadata.Reassignment{Partition: w.id, PartitionEpoch: metadata.AnyPartitionEpoch, Forced: true}
	if w.rng.IntN(3) > 0 {
		for _, i := range w.rng.Perm(3)[:2+w.rng.IntN(2)] {
			r.Target = append(r.Target, int32(i)+1)
		}
	}
	before := w.head()
	if res := w.do(&metadata.Reassign{Items: []metadata.Reassignment{r}}); res.Items[0] == nil && w.head() != before {
		w.note("asked for replicas %v", r.Target)
		w.stats["reassign"]++
	}
}

func (w *walker) heal() {
	w.flying, w.acks = nil, nil
	for _, n := range w.nodes {
		n.sessions = map[int32]*session{}
	}
	for round := 0; ; round++ {
		w.now = w.now.Add(300 * time.Millisecond)
		for id := int32(1); id <= 3; id++ {
			n := w.nodes[id]
			if n.m == nil {
				w.restart(n)
			}
			n.replay(len(w.images))
			if w.st.Image().Broker(id).Fenced {
				w.unfence(id)
			}
			if l := w.head().Leader; l != metadata.NoNode {
				n.round(l)
			}
			n.flush()
			for l := int32(1); l <= 3; l++ {
				w.nodes[l].hear(n.ack(l))
			}
			n.tick()
			w.observe()
			w.settle()
		}
		w.control()
		if w.healed() {
			return
		}
		require.Less(w.t, round, 120, "no progress: %+v\n%s%s%s", w.head(), w.nodes[1], w.nodes[2], w.nodes[3])
	}
}

func (w *walker) healed() bool {
	p := w.head()
	if p.Leader == metadata.NoNode || len(p.ISR) != len(p.Replicas) || p.Change() != metadata.NoChange {
		return false
	}
	l := w.nodes[p.Leader].part().log
	for id, n := range w.nodes {
		if !p.IsReplica(id) {
			if n.part() != nil {
				return false
			}
			continue
		}
		if q := n.part(); q == nil || q.rec != p || q.log.EndOffset() != l.EndOffset() || q.log.HighWatermark() != l.EndOffset() {
			return false
		}
	}
	return true
}

// equal is I4 after all, and that nothing acknowledged is lost.
func (w *walker) equal() {
	start, want := lines(w.t, w.nodes[w.head().Leader].part().log)
	for _, n := range w.nodes {
		if n.part() == nil {
			continue
		}
		s, ls := lines(w.t, n.part().log)
		from := max(s, start)
		require.True(w.t, slices.Equal(want[from-start:], ls[from-s:]), "I4: node %d has %v, the leader %v", n.id, ls[from-s:], want[from-start:])
	}
	seen := map[int]bool{}
	for i, l := range want {
		require.False(w.t, l.name != marker && seen[l.name], "record %d is there twice", l.name)
		seen[l.name] = true
		if name, ok := w.acked[start+int64(i)]; ok {
			require.Equal(w.t, name, l.name, "acknowledged at %d", start+int64(i))
		}
	}
	for o := range w.acked {
		require.Less(w.t, o, start+int64(len(want)), "an acknowledged record is lost")
	}
}

func TestRandomSchedulesOverRealLogs(t *testing.T) {
	first, n := rand.Uint64()>>1, *walks
	if *walkSeed != 0 {
		first, n = *walkSeed, 1
	}
	t.Logf("seeds from %d", first)
	stats := map[string]int{}
	for i := range n {
		seed := first + uint64(i)
		ok := t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			w := &walker{world: newWorld(t, 1, 2, 3), rng: rand.New(rand.NewPCG(seed, 1)), acked: map[int64]int{}, stats: stats}
			rule := []metadata.CommitRule{metadata.RuleISR, metadata.RuleQuorum}[w.rng.IntN(2)]
			durability := []metadata.Durability{metadata.DurabilityMemory, metadata.DurabilityDisk}[w.rng.IntN(2)]
			w.changes = w.rng.IntN(2) == 0
			w.id = w.createAs(rule, durability, 1+w.rng.Int32N(3), 1, 2, 3)
			w.note("%s, %s, changes %v", rule, durability, w.changes)
			w.replayAll()
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("-walk.seed=%d\n%s", seed, strings.Join(w.trace, "\n"))
				}
			})
			for i := range 800 {
				w.step()
				if i%50 == 49 {
					w.compare()
				}
			}
			w.heal()
			w.compare()
			w.equal()
			if !w.changes && durability == metadata.DurabilityDisk {
				require.Zero(t, w.flagged, "power alone never takes what counts from disk")
			}
		})
		if !ok {
			return
		}
	}
	t.Logf("%v", stats)
	for _, k := range []string{"produce", "acked", "idempotent", "answers", "crash", "raise", "flush", "ack", "change", "election by reports", "reassign"} {
		if stats[k] == 0 && n > 10 {
			t.Errorf("no schedule came to %q: %v", k, stats)
		}
	}
	if n > 200 && stats["joint"] == 0 { // too rare for a few
		t.Errorf("no schedule came to two replica sets in force: %v", stats)
	}
}
