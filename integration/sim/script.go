package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"cordwood/cluster/replica"
	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore"
	"cordwood/logstore/vfs"
)

// This file drives a world by hand, for schedules that somebody wrote: nothing is drawn, and nothing happens that no verb
// says. Nodes are named by their ids. Every verb that changes something ends with the checks of any two steps.

// controller stands for the controller where the ends of a connection are named.
const controller int32 = 0

// Setup is what a scripted world begins with.
type Setup struct {
	Nodes      int // 0: as many as replicas
	Replicas   int // 0: three
	MinISR     int32
	Rule       metadata.CommitRule
	Durability metadata.Durability
}

// NewScripted makes a world in which the first node leads.
func NewScripted(s Setup) *World {
	p := Profile{Name: "script", Scripted: true, Nodes: s.Nodes, Replicas: s.Replicas, MinISR: s.MinISR, Rule: s.Rule, Durability: s.Durability}
	if p.Replicas == 0 {
		p.Replicas = 3
	}
	if p.Nodes == 0 {
		p.Nodes = p.Replicas
	}
	if p.MinISR == 0 {
		p.MinISR = int32(min(2, p.Replicas))
	}
	if p.Rule == "" {
		p.Rule = metadata.RuleISR
	}
	if p.Durability == "" {
		p.Durability = metadata.DurabilityMemory
	}
	w := New(1, p)
	w.news()
	return w
}

// cut lets no message pass between two nodes, or a node and the controller, until join.
func (w *World) cut(a, b int32) {
	w.note("cut %d and %d", a, b)
	if w.blocked == nil {
		w.blocked = map[[2]int32]bool{}
	}
	w.blocked[[2]int32{a, b}], w.blocked[[2]int32{b, a}] = true, true
}

// isolate cuts a node from everybody, the controller too.
func (w *World) isolate(a int32) {
	w.cut(a, controller)
	for _, b := range w.ids() {
		if a != b {
			w.cut(a, b)
		}
	}
}

// join ends a cut; without a second end all of a node's.
func (w *World) join(a int32, to ...int32) {
	if len(to) == 0 {
		to = append(w.ids(), controller)
	}
	w.note("join %d to %v", a, to)
	for _, b := range to {
		delete(w.blocked, [2]int32{a, b})
		delete(w.blocked, [2]int32{b, a})
	}
}

func (w *World) reaches(from, to int32) bool { return !w.blocked[[2]int32{from, to}] }

// put sends a batch of one fresh record to a node that leads.
func (w *World) put(id int32, acks int16) *sent {
	n := w.node(id)
	if n.office() == nil {
		w.fail("node %d does not lead", id)
	}
	w.clients.names++
	s := &sent{to: n, be: n.be, acks: acks, names: []int{w.clients.names}}
	w.note("put %d to node %d, acks %d", s.names[0], id, acks)
	w.offer(n, s, newBatch(s.names...))
	w.check()
	return s
}

// write puts batches with acks=all.
func (w *World) write(id int32, batches int) (all []*sent) {
	for range batches {
		all = append(all, w.put(id, partition.AcksAll))
	}
	return all
}

// putAgain sends the idempotent producer's batch: its next one, or again the one that has no answer.
func (w *World) putAgain(id int32) *sent {
	n, c := w.node(id), &w.clients.idem
	if c.names == nil {
		w.clients.names++
		c.names = []int{w.clients.names}
	}
	c.waiting = false
	s := &sent{to: n, be: n.be, acks: partition.AcksAll, idem: true}
	batch := w.idemBatch(s)
	w.note("put %v of the idempotent producer to node %d", s.names, id)
	w.offer(n, s, batch)
	w.check()
	return s
}

// acked says that the produce was acknowledged; refused that it has an answer and that is an error.
func (s *sent) acked() bool   { return s.done && s.answer.Err == nil }
func (s *sent) refused() bool { return s.done && s.answer.Err != nil }

// asks makes a node's next fetch to its leader and holds it; nil when it follows nobody.
func (w *World) asks(id int32) *fetch {
	n := w.node(id)
	if !n.up() {
		return nil
	}
	for _, leader := range n.m.Leaders() {
		if x := n.m.Ask(leader); x != nil {
			return &fetch{from: n, to: w.node(leader), be: n.be, x: x}
		}
	}
	return nil
}

// serves brings a fetch to its leader, which answers it; false when that is down or refuses the session.
func (w *World) serves(f *fetch) bool {
	ok := f.to.up() && w.answer(f, false)
	if !ok {
		w.broken(f)
	}
	w.check()
	return ok
}

// takes brings the answer back.
func (w *World) takes(f *fetch) {
	if f.from.up() && f.from.be == f.be && f.resp != nil {
		w.take(f)
	}
	w.check()
}

// tells is a fetch that reaches the leader and whose answer is lost with its connection.
func (w *World) tells(id int32) {
	f := w.asks(id)
	if f == nil || !w.serves(f) {
		w.fail("node %d cannot tell its leader anything", id)
	}
	w.broken(f)
}

// round is a whole fetch of a node; false when it did not get through.
func (w *World) round(id int32) bool { return w.roundOf(id, false) }

// piece is a round that brings one batch at most.
func (w *World) piece(id int32) bool { return w.roundOf(id, true) }

func (w *World) roundOf(id int32, piece bool) bool {
	f := w.asks(id)
	if f == nil {
		return false
	}
	if !w.reaches(id, f.to.id) || !w.reaches(f.to.id, id) || !f.to.up() || !w.answer(f, piece) {
		w.broken(f)
		w.check()
		return false
	}
	w.check()
	w.takes(f)
	w.acknowledge(w.node(id))
	return true
}

// flushes brings what waits for the disk of nodes there, and tells their leaders.
func (w *World) flushes(ids ...int32) {
	for _, id := range ids {
		w.node(id).flush()
		w.check()
	}
	w.acks()
}

// acks delivers the acknowledgements that are on their way.
func (w *World) acks() {
	for _, m := range w.held("ack") {
		if w.reaches(m.from, m.ack.to.id) {
			w.arrive(m)
		}
		w.check()
	}
}

// sync lets nodes fetch, flush and acknowledge until all that is to be told has been told.
func (w *World) sync(ids ...int32) {
	for range 16 {
		for _, id := range ids {
			w.round(id)
		}
		if w.head().Durability != metadata.DurabilityMemory {
			w.flushes(w.running()...)
		}
	}
	w.acks()
}

// calm lets the controller and all nodes that run go on for a while, as far as they reach each other.
func (w *World) calm() {
	for range 4 {
		w.govern()
		w.sync(w.running()...)
		w.pass(time.Second)
	}
	w.govern()
}

func (w *World) running() (ids []int32) {
	for _, n := range w.nodes {
		if n.up() {
			ids = append(ids, n.id)
		}
	}
	return ids
}

// held takes messages of a kind out of the net: they are the caller's to deliver or lose.
func (w *World) held(what string) (out []*message) {
	w.net = slices.DeleteFunc(w.net, func(m *message) bool {
		if m.what == what {
			out = append(out, m)
		}
		return m.what == what
	})
	return out
}

// news delivers what is on its way; what cannot pass is lost.
func (w *World) news() {
	for k := 0; len(w.net) > 0; k++ {
		if k > 500 {
			w.fail("messages breed messages: %q", w.net[0].what)
		}
		m := w.net[0]
		w.net = w.net[1:]
		to := controller
		if m.ack != nil {
			to = m.ack.to.id
		}
		if w.reaches(m.from, to) {
			w.arrive(m)
			w.check()
		}
	}
}

// learn brings nodes to the newest metadata; without names all that the controller reaches.
func (w *World) learn(ids ...int32) {
	if len(ids) == 0 {
		ids = w.ids()
	}
	for _, id := range ids {
		if n := w.node(id); n.up() && w.reaches(controller, id) {
			n.replay(len(w.images))
			w.check()
		}
	}
}

// govern lets the controller do its duties with the nodes that it reaches, until nothing comes of it.
func (w *World) govern() {
	for range 12 {
		w.news()
		w.learn()
		w.control()
	}
	w.news()
	w.learn()
}

// commit applies a command and gives its first refusal.
func (w *World) commit(cmd metadata.Command) error {
	r := w.apply(cmd)
	w.refused(cmd, r)
	w.check()
	return errors.Join(append([]error{r.Err}, r.Items...)...)
}

// alter asks for a change of the topic's settings.
func (w *World) alter(c metadata.TopicConfigChange) error {
	c.Topic = w.id.Topic
	return w.commit(&metadata.AlterTopicConfigs{Topics: []metadata.TopicConfigChange{c}})
}

// move asks for other replicas; without any it cancels.
func (w *World) move(target ...int32) error {
	return w.commit(&metadata.Reassign{Items: []metadata.Reassignment{{Partition: w.id, PartitionEpoch: metadata.AnyPartitionEpoch, Target: target}}})
}

// depose ends the leadership by the quorum rule's own command.
func (w *World) depose() error {
	p := w.head()
	return w.commit(&metadata.BeginElection{Elections: []metadata.ElectionStart{{Partition: w.id, LeaderEpoch: p.LeaderEpoch, Leader: p.Leader}}})
}

// elect makes a node lead by the ISR rule.
func (w *World) elect(id int32) error {
	p := w.head()
	return w.commit(&metadata.Elect{Elections: []metadata.Election{{Partition: w.id, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Leader: id}}})
}

// reportOf is what a node says of its log now; false when it does not report.
func (w *World) reportOf(id int32) (metadata.ReplicaReport, bool) {
	n := w.node(id)
	if !n.up() {
		return metadata.ReplicaReport{}, false
	}
	for _, r := range n.m.Reports([]idOf{w.id}) {
		if r.Epoch == w.head().LeaderEpoch {
			return metadata.ReplicaReport{Broker: n.epoch(), LastEpoch: r.LastEpoch, End: r.End, HW: r.HW}, true
		}
	}
	return metadata.ReplicaReport{}, false
}

// ballot is the election of a node by the reports of voters.
func (w *World) ballot(leader int32, voters ...int32) *metadata.ElectReported {
	e := metadata.ReportedElection{Partition: w.id, LeaderEpoch: w.head().LeaderEpoch, Leader: w.node(leader).epoch()}
	for _, id := range voters {
		w.learn(id)
		r, ok := w.reportOf(id)
		if !ok {
			w.fail("node %d does not report:\n%s", id, w)
		}
		e.Voters = append(e.Voters, r)
	}
	w.held("report")
	return &metadata.ElectReported{Elections: []metadata.ReportedElection{e}}
}

// vote elects a node by the reports of voters, and tells those whom the controller reaches.
func (w *World) vote(leader int32, voters ...int32) error {
	err := w.commit(w.ballot(leader, voters...))
	w.learn()
	return err
}

// out fences a node, rightly or not.
func (w *World) out(ids ...int32) {
	for _, id := range ids {
		w.fence(w.node(id))
	}
	w.check()
}

// in unfences nodes.
func (w *World) in(ids ...int32) {
	for _, id := range ids {
		w.unfence(w.node(id))
	}
	w.check()
}

// kill ends processes; power cuts the power of their machines at once: what was not synced is lost.
func (w *World) kill(ids ...int32)  { w.crash(vfs.CrashKeep, ids) }
func (w *World) power(ids ...int32) { w.crash(vfs.CrashLose, ids) }

func (w *World) crash(mode vfs.CrashMode, ids []int32) {
	for _, id := range ids {
		w.node(id).crash(mode)
	}
	w.check()
}

// boot starts nodes and lets them in.
func (w *World) boot(ids ...int32) {
	for _, id := range ids {
		w.node(id).start()
		w.check()
	}
	w.in(ids...)
	w.learn(ids...)
}

// pass lets time pass for all nodes.
func (w *World) pass(d time.Duration) {
	w.now = w.now.Add(d)
	for _, n := range w.nodes {
		n.tick()
	}
	w.check()
}

// consume reads everything that a consumer sees at a node.
func (w *World) consume(id int32) (names []int, err error) {
	n := w.node(id)
	for at := int64(0); ; {
		res := n.m.Fetch(context.Background(), &partition.FetchRequest{ReplicaID: -1, BrokerEpoch: -1, Sequence: -1, MinBytes: 0, MaxBytes: 1 << 20,
			Partitions: []partition.FetchPartition{{ID: w.id, FetchOffset: at, LastFetchedEpoch: -1, CurrentLeaderEpoch: -1, LogStartOffset: -1, AckOffset: -1, MaxBytes: 1 << 20}}}).Wait(context.Background())
		a := res.Answers[0]
		if a.Err != nil {
			return names, a.Err
		}
		got, end, err := entriesOf(a.Spans, at)
		res.Release()
		if err != nil || end == at {
			return names, err
		}
		if end > a.HighWatermark {
			w.fail("a consumer reads up to %d at node %d, the high watermark is %d", end, id, a.HighWatermark)
		}
		for _, e := range got {
			if e.name >= 0 {
				names = append(names, e.name)
			}
		}
		at = end
	}
}

// latest is what a consumer is told of the newest offset.
func (w *World) latest(id int32) (int64, error) {
	a := w.node(id).m.ListOffsets(context.Background(), partition.ListOffsetsQuery{ID: w.id, Timestamp: partition.LatestTimestamp, CurrentLeaderEpoch: -1})
	return a.Offset, a.Err
}

// hw and end are of a node's log; names the records that it holds, committed or not.
func (w *World) hw(id int32) int64  { return w.log(id).HighWatermark() }
func (w *World) end(id int32) int64 { return w.log(id).EndOffset() }

// log is a node's log of the partition.
func (w *World) log(id int32) *logstore.Log {
	p := w.node(id).replica()
	if p == nil {
		w.fail("node %d has no replica", id)
	}
	return p.Log()
}

func (w *World) names(id int32) (names []int) {
	l := w.log(id)
	es, err := read(l, l.StartOffset(), l.EndOffset())
	if err != nil {
		w.fail("node %d cannot read its log: %v", id, err)
	}
	for _, e := range es {
		if e.name >= 0 {
			names = append(names, e.name)
		}
	}
	return names
}

// trusted says that a node may vote.
func (w *World) trusted(id int32) bool { return metadata.Trusted(w.head(), id, w.image().Broker) }

// beginWith starts the process of a registration with an older image: what it then may do is for the caller to see.
func (n *node) beginWith(s *starting, image *metadata.Image) (*replica.Steps, error) {
	m, err := replica.NewSteps(replica.Options{NodeID: n.id, Dir: s.dir, Controller: noController{}, Dial: noDial, Config: logConfig, Now: n.w.clock})
	if err != nil {
		return nil, err
	}
	return m, m.Begin(image, s.reg, s.found)
}
