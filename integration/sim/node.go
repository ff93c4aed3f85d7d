package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"cordwood/cluster/replica"
	"cordwood/fsm/metadata"
	"cordwood/fsm/mutant"
	"cordwood/fsm/partition"
	"cordwood/logstore"
	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

// node is one node: a disk that outlives its processes, and the process that runs, if one does.
type node struct {
	w    *World
	id   int32
	disk *vfs.Mem
	boot int

	// Of the process.
	fault   *vfs.Fault
	dir     *logstore.Dir
	m       *replica.Steps // nil: down
	be      int64
	applied int // index in World.images
	seen    seen
	claim   claim
	lost    bool // the last crash took unsynced bytes, and no registration has told yet
}

// seen is what was checked of a process's log already.
type seen struct {
	log   *logstore.Log // a replica that was deleted and came back has another
	hw    int64
	loss  int32
	epoch int32 // office that was checked
	led   bool  // it led when it was looked at last: what it committed since is committed, though it left
	empty bool  // the log was told damaged: it may be emptied and filled anew
}

// claim is what a process that crashed had in its log.
type claim struct{ end int64 }

func newNode(w *World, id int32) *node {
	return &node{w: w, id: id, disk: vfs.NewMem(w.clock)}
}

func (n *node) up() bool { return n.m != nil }

func (n *node) epoch() metadata.BrokerEpoch { return metadata.BrokerEpoch{ID: n.id, Epoch: n.be} }

// current says that the process is the registered one.
func (n *node) current() bool { return n.up() && n.w.image().BrokerEpoch(n.id) == n.be }

func (n *node) replica() *replica.Partition {
	if !n.up() {
		return nil
	}
	return n.m.Replica(n.w.id)
}

func (n *node) office() *partition.Leader {
	if p := n.replica(); p != nil {
		return p.Office()
	}
	return nil
}

func logConfig(*metadata.Topic) logstore.LogConfig {
	c := logstore.DefaultLogConfig()
	c.SegmentBytes, c.IndexIntervalBytes = 700, 200
	return c
}

// start runs a node's start as the broker does: directory, inspection, registration, replay to it, and only then data.
// It may be killed between the registration and its note in the session file.
func (n *node) start() {
	if s := n.enrol(); s != nil {
		n.begin(s)
	}
}

// starting is a process that is registered and has not touched data.
type starting struct {
	dir   *logstore.Dir
	found logstore.Inspection
	reg   replica.Registration
}

// enrol is a start up to the registration's commit; nil when the process died there.
func (n *node) enrol() *starting {
	w := n.w
	n.disk.SetCapacity(0) // an operator has made room
	n.fault = vfs.NewFault(n.disk, vfs.FaultOptions{})
	dir, err := logstore.OpenDir(n.fault, "/data", logstore.DirOptions{NodeID: n.id, BootID: fmt.Sprint("boot", n.boot), Now: w.clock,
		Uptime: func() time.Duration { return time.Duration(w.now.UnixNano()) },
		OnDamage: func(l *logstore.Log, why string) {
			if n.up() {
				n.m.OnDamage(l, why)
			}
		}})
	if err != nil {
		w.fail("node %d: open directory: %v", n.id, err)
	}
	found, err := dir.Inspect(context.Background(), 1, nil)
	if err != nil {
		w.fail("node %d: inspect: %v", n.id, err)
	}
	s := dir.Session()
	c := &metadata.RegisterBroker{Broker: metadata.Broker{ID: n.id, DirectoryID: s.DirectoryID, Incarnation: s.Incarnation, RaftAddress: "h",
		Listeners: map[string]metadata.Endpoint{"l": {Host: "h", Port: 1}}, MinLevel: 1, MaxLevel: metadata.LatestLevel, Version: "v"}, BootOK: true, Clean: found.Clean}
	for _, e := range s.Earlier {
		c.Earlier = append(c.Earlier, metadata.EarlierIncarnation{ID: e.ID, SameBoot: e.SameBoot})
	}
	r := w.apply(c)
	if r.Err != nil {
		w.fail("node %d: register: %v", n.id, r.Err)
	}
	n.be = r.Epoch
	if !w.Profile.Scripted && w.rng.IntN(3) == 0 {
		w.send(&message{what: "registration", cmd: c, from: n.id}) // a copy that comes late
	}
	w.note("node %d starts: broker epoch %d, %s", n.id, n.be, r.Class)
	w.count("restart " + string(r.Class))
	if len(w.nodes) >= int(n.id) && !w.healing && w.chance(w.Profile.KillAtStart) { // S55
		w.note("node %d is killed before it notes its registration", n.id)
		w.count("killed at start")
		n.disk, n.lost = n.disk.Crash(vfs.CrashKeep, 1), n.lost && r.Class == metadata.RestartProcessCrash
		return nil
	}
	return &starting{dir, found, replica.Registration{BrokerEpoch: n.be, Class: r.Class}}
}

// begin is the rest of a start, with the newest image.
func (n *node) begin(s *starting) {
	w, dir := n.w, s.dir
	m, err := replica.NewSteps(replica.Options{NodeID: n.id, Dir: dir, Controller: noController{}, Dial: noDial, Config: logConfig, Now: w.clock})
	if err != nil {
		w.fail("node %d: %v", n.id, err)
	}
	from := len(w.images) - 1
	if mutant.NoRegBarrier && n.applied > 0 {
		from = n.applied // where the process before it was
	}
	n.dir, n.m, n.applied, n.seen, n.lost = dir, m, from, seen{}, false
	if err := m.Begin(w.images[n.applied], s.reg, s.found); err != nil {
		w.fail("node %d: start: %v", n.id, err)
	}
	if err := dir.Registered(); err != nil {
		w.fail("node %d: note registration: %v", n.id, err)
	}
	n.tell()
}

// crash ends the process; with power lost, the disk forgets what was not synced, or keeps any part of it.
func (n *node) crash(mode vfs.CrashMode) {
	w := n.w
	if p := n.replica(); p != nil {
		n.claim.end = p.Log().EndOffset()
	}
	w.note("node %d crashes (%s) with end %d", n.id, []string{"kill", "power, unsynced lost", "power, torn"}[mode], n.claim.end)
	w.count([]string{"kill", "power loss", "torn"}[mode])
	if mode != vfs.CrashKeep {
		n.boot++
		n.lost = true
	}
	w.clients.forget(n)
	n.disk = n.disk.Crash(mode, w.rng.Uint64())
	n.m, n.dir = nil, nil
}

// stop ends the process in order: everything is on disk and the clean mark is set.
func (n *node) stop() {
	w := n.w
	w.clients.forget(n)
	if p := n.replica(); p != nil {
		n.claim.end = p.Log().EndOffset()
	}
	if err := n.dir.CloseClean(context.Background()); err != nil {
		w.note("node %d does not stop cleanly: %v", n.id, err)
	}
	w.note("node %d stops", n.id)
	w.count("clean stop")
	n.disk = n.disk.Crash(vfs.CrashKeep, 1)
	n.m, n.dir = nil, nil
}

// replay applies the next k metadata commands as one difference.
func (n *node) replay(k int) {
	w := n.w
	to := min(len(w.images)-1, n.applied+k)
	if !n.up() || to == n.applied {
		return
	}
	d := metadata.Delta{Old: w.images[n.applied], New: w.images[to]}
	parts, topics := map[record.PartitionID]bool{}, map[record.TopicID]bool{}
	for i := n.applied + 1; i <= to; i++ {
		for _, id := range w.deltas[i].Partitions {
			if !parts[id] {
				parts[id] = true
				d.Partitions = append(d.Partitions, id)
			}
		}
		for _, id := range w.deltas[i].Topics {
			if !topics[id] {
				topics[id] = true
				d.Topics = append(d.Topics, id)
			}
		}
	}
	n.applied = to
	if err := n.m.Apply(d.New, d); err != nil {
		n.ioError("apply", err)
		return
	}
	n.tell()
}

// ioError ends a process whose directory went offline; any other error is the code's.
func (n *node) ioError(doing string, err error) {
	if _, _, offline, _ := n.dir.State(); offline {
		n.w.note("node %d: %s: %v: it stops", n.id, doing, err)
		n.w.count("directory offline")
		n.crash(vfs.CrashKeep)
		return
	}
	if strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
		return
	}
	n.w.note("node %d: %s: %v", n.id, doing, err)
}

// tell carries what the session loop would: damage at once and before anything else, the rest as messages.
func (n *node) tell() {
	w := n.w
	news := n.m.DrainSession()
	if len(news.Damaged) > 0 && n.current() {
		w.count("damage told")
		n.seen.empty = true
		w.note("node %d reports damage", n.id)
		w.apply(&metadata.ReplicaDamaged{Broker: n.epoch(), Partitions: news.Damaged})
	}
	for _, c := range news.Certify {
		w.send(&message{from: n.id, what: "certify", cmd: &metadata.Certify{Items: []metadata.Certification{c}}})
	}
	for _, f := range news.Finish {
		w.send(&message{from: n.id, what: "finish", cmd: &metadata.FinishChange{Items: []metadata.Finish{f}}})
	}
	for _, r := range news.Reports {
		w.send(&message{from: n.id, what: "report", report: &report{r.Epoch, metadata.ReplicaReport{Broker: n.epoch(), LastEpoch: r.LastEpoch, End: r.End, HW: r.HW}}})
	}
	for _, c := range n.m.Proposals() {
		w.send(&message{from: n.id, what: "alter", cmd: &metadata.AlterPartitions{Changes: []metadata.PartitionChange{*c}}})
	}
}

var errOffline = errors.New("the log directory is offline")

// tick does what time decides.
func (n *node) tick() {
	if n.up() {
		n.m.Tick()
		if _, _, offline, _ := n.dir.State(); offline { // what Tick tries again tells nobody
			n.ioError("tick", errOffline)
			return
		}
		n.tell()
	}
}

// flush lets the node's flush workers do what waits for the disk; now and then everything is written through.
func (n *node) flush() {
	p := n.replica()
	if p == nil {
		return
	}
	if !n.w.Profile.Scripted && n.w.rng.IntN(4) == 0 {
		p.Flush()
	}
	for n.m.FlushStep() {
		n.w.count("flush")
	}
	if _, failed := p.Stuck(); failed != nil {
		n.ioError("flush", failed)
		return
	}
	n.tell()
	n.w.acknowledge(n)
}

// checkpoint writes the directory's checkpoints.
func (n *node) checkpoint() {
	if !n.up() {
		return
	}
	if err := n.dir.Checkpoint(); err != nil {
		n.ioError("checkpoint", err)
	}
}

func (n *node) String() string {
	p := n.replica()
	if p == nil {
		return fmt.Sprintf("node %d: up %v", n.id, n.up())
	}
	q, f := p.Stuck()
	l := p.Log()
	return fmt.Sprintf("node %d: be %d, log %d to %d, flushed %d, hw %d, leads %v, quarantined %q, failed %v, image %d of %d", n.id, n.be, l.StartOffset(), l.EndOffset(),
		l.FlushedOffset(), l.HighWatermark(), p.Office() != nil, q, f, n.applied, len(n.w.images)-1)
}
