package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
)

// Fault is what a schedule broke: the message names the invariant.
type Fault string

// World is one cluster with one partition, and all that happens to it.
type World struct {
	Profile Profile
	Counts  map[string]int // events by class

	rng     *rand.Rand
	now     time.Time
	st      *metadata.State
	index   uint64
	images  []*metadata.Image
	deltas  []metadata.Delta
	nodes   []*node // by id - 1
	id      record.PartitionID
	net     []*message
	reports map[int32]report // what the controller remembers; another controller knows none
	shadow  shadow
	clients clients
	trace   []string
	healing bool
	blocked map[[2]int32]bool // from, to: no message passes
}

// report is a replica's report in the controller's memory.
type report struct {
	epoch int32
	of    metadata.ReplicaReport
}

const traceLines = 600

// New makes a cluster and its topic by the profile.
func New(seed uint64, p Profile) *World {
	w := &World{
		Profile: p, Counts: map[string]int{}, rng: rand.New(rand.NewPCG(seed, 0x5eed)), now: time.UnixMilli(epochMilli),
		st: metadata.NewState(), index: 10, reports: map[int32]report{},
		id: record.PartitionID{Topic: record.TopicID{1, 6: 0x40, 8: 0x80}},
	}
	w.shadow = shadow{acked: map[int64]int{}, leaders: map[int32]int32{}, written: map[place]int{}}
	w.apply(&metadata.SetCluster{ClusterID: "c", Level: metadata.LatestLevel})
	for id := int32(1); id <= int32(p.Nodes); id++ {
		n := newNode(w, id)
		w.nodes = append(w.nodes, n)
		n.start()
		w.apply(&metadata.UnfenceBroker{Broker: n.epoch()})
	}
	t := metadata.NewTopic{ID: w.id.Topic, Name: "t", Assignment: [][]int32{w.ids()[:p.Replicas]}, MinISR: int32(1 + w.rng.IntN(p.Replicas)),
		Rule: p.Rule, Durability: p.Durability, Recovery: metadata.RecoverWaitAll}
	if p.MinISR > 0 {
		t.MinISR = p.MinISR
	}
	if p.Rule == "" {
		t.Rule = pick(w.rng, metadata.RuleISR, metadata.RuleQuorum)
	}
	if p.Durability == "" {
		t.Durability = pick(w.rng, metadata.DurabilityMemory, metadata.DurabilityDisk)
	}
	if r := w.apply(&metadata.CreateTopics{Topics: []metadata.NewTopic{t}}); r.Items[0] != nil {
		w.fail("create: %v", r.Items[0])
	}
	w.replayAll()
	return w
}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

func (w *World) ids() []int32 {
	var ids []int32
	for _, n := range w.nodes {
		ids = append(ids, n.id)
	}
	return ids
}

func (w *World) note(format string, a ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, a...))
	if len(w.trace) > traceLines {
		w.trace = slices.Delete(w.trace, 0, traceLines/4)
	}
}

// Trace is what happened last, oldest first.
func (w *World) Trace() []string { return w.trace }

func (w *World) fail(format string, a ...any) { panic(Fault(fmt.Sprintf(format, a...))) }

func (w *World) count(class string) { w.Counts[class]++ }

func (w *World) node(id int32) *node { return w.nodes[id-1] }

func (w *World) any() *node { return w.nodes[w.rng.IntN(len(w.nodes))] }

// image is the newest one; head its record of the partition.
func (w *World) image() *metadata.Image    { return w.st.Image() }
func (w *World) head() *metadata.Partition { return w.image().Partition(w.id) }

// apply appends a command to the metadata log and applies it.
func (w *World) apply(cmd metadata.Command) metadata.Result {
	old := w.head()
	w.index++
	r, d := w.st.Apply(w.index, cmd)
	w.images, w.deltas = append(w.images, d.New), append(w.deltas, d)
	for _, e := range d.Events {
		if e.Unsafe != nil {
			w.flagged(e.Unsafe)
		}
	}
	if p := w.head(); old != nil && p != nil && p != old {
		w.note("%T: %s", cmd, w.brief())
		w.checkRecord(old, p)
		w.countRecord(old, p)
	}
	return r
}

// replayAll brings every running node to the newest image, and what comes of that.
func (w *World) replayAll() {
	for again := true; again; {
		again = false
		for _, n := range w.nodes {
			if n.up() && n.applied < len(w.images)-1 {
				n.replay(len(w.images))
				again = true
			}
		}
	}
}

// countRecord counts what a change of the record was.
func (w *World) countRecord(old, p *metadata.Partition) {
	is := func(class string, yes bool) {
		if yes {
			w.count(class)
		}
	}
	elected := p.Leader != metadata.NoNode && (p.Leader != old.Leader || p.LeaderBrokerEpoch != old.LeaderBrokerEpoch)
	is("elected isr", elected && old.Rule.ElectBy() == metadata.RuleISR && p.LossEpoch == old.LossEpoch)
	is("elected quorum", elected && old.Rule.ElectBy() == metadata.RuleQuorum && p.LossEpoch == old.LossEpoch)
	is("last leader again", elected && p.Leader == old.LastLeader && old.Rule.ElectBy() == metadata.RuleQuorum)
	is("isr changed", !slices.Equal(old.ISR, p.ISR) && old.Leader == p.Leader)
	is("elr", len(p.ELR) > 0 && !slices.Equal(old.ELR, p.ELR))
	is("min changed", old.MinISR != p.MinISR)
	is("rule begun", old.Rule != p.Rule && (p.Rule == metadata.RuleISRToQuorum || p.Rule == metadata.RuleQuorumToISR))
	is("rule finished", old.Rule == metadata.RuleISRToQuorum && p.Rule == metadata.RuleQuorum || old.Rule == metadata.RuleQuorumToISR && p.Rule == metadata.RuleISR)
	is("rule aborted", old.Rule == metadata.RuleISRToQuorum && p.Rule == metadata.RuleISR || old.Rule == metadata.RuleQuorumToISR && p.Rule == metadata.RuleQuorum)
	is("durability begun", old.Durability != p.Durability && p.Durability == metadata.DurabilityMemoryToDisk)
	is("durability finished", old.Durability == metadata.DurabilityMemoryToDisk && p.Durability == metadata.DurabilityDisk)
	is("durability to memory", old.Durability == metadata.DurabilityDisk && p.Durability == metadata.DurabilityMemory)
	is("move begun", len(old.Adding) == 0 && len(p.Adding) > 0)
	is("joint", len(old.NewReplicas) == 0 && len(p.NewReplicas) > 0)
	is("move finished", !slices.Equal(old.Replicas, p.Replicas))
	is("move cancelled", slices.Equal(old.Replicas, p.Replicas) && len(old.Adding)+len(old.NewReplicas) > 0 && len(p.Adding)+len(p.NewReplicas) == 0)
	is("certified", certs(p) > certs(old))
	is("untrusted", w.untrusted(p) > 0)
}

func certs(p *metadata.Partition) (n int) {
	for _, m := range p.Members {
		if m.Cert >= 0 {
			n++
		}
	}
	return n
}

func (w *World) untrusted(p *metadata.Partition) (n int) {
	for _, id := range p.Replicas {
		if !metadata.Trusted(p, id, w.image().Broker) {
			n++
		}
	}
	return n
}

// offline says that the partition has no leader and nobody safe to elect.
func (w *World) offlineUnsafe() bool { return w.image().Safety(w.head()) == metadata.OfflineUnsafe }

// String gives the record and every replica in a line each, for messages.
func (w *World) String() string {
	s := fmt.Sprintf("record %+v\n", *w.head())
	for _, n := range w.nodes {
		s += n.String() + "\n"
	}
	return s
}

var _ partition.Brokers = (*metadata.Image)(nil)
