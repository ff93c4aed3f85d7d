package sim

import (
	"fmt"
	"slices"
	"time"

	"cordwood/fsm/metadata"
	"cordwood/logstore/vfs"
)

var sprintf = fmt.Sprintf

// healRounds bounds how long a healed cluster may take until everything is in order.
const healRounds = 400

// heal ends all faults, perhaps with a minority of nodes down for good, and waits until the partition is led, all is
// committed, all logs are equal and all replicas are certified.
func (w *World) heal() {
	w.healing, w.blocked = true, nil
	for len(w.net) > 0 { // what was on its way comes, or not
		if m := w.net[0]; m.cmd != nil && w.rng.IntN(2) == 0 {
			w.deliver(0)
			continue
		}
		w.lose(0)
	}
	w.check()
	dead := w.leaveDown()
	for round := 0; ; round++ {
		w.now = w.now.Add(300 * time.Millisecond)
		for _, n := range w.nodes {
			if slices.Contains(dead, n.id) && !w.offlineUnsafe() {
				w.fence(n)
				continue
			}
			if !n.up() {
				n.start()
			}
			if err := n.fault.SetRules(); err != nil {
				w.fail("rules: %v", err)
			}
			n.disk.SetCapacity(0)
			n.dir.Tick(w.now)
			n.replay(len(w.images))
			w.unfence(n)
			if n.up() {
				w.ask(n)
			}
			w.drain()
			if n.up() {
				n.flush()
			}
			n.tick()
			w.check()
		}
		w.control()
		w.drain()
		if w.healed() && w.scrubbed() {
			w.compare()
			w.count("healed")
			return
		}
		if round > healRounds {
			w.fail("no progress after %d rounds, nodes %v down:\n%s", round, dead, w)
		}
	}
}

// drain delivers what is on its way, and what comes of it, up to a bound.
func (w *World) drain() {
	for k := 0; k < 60 && len(w.net) > 0; k++ {
		w.deliver(0)
		w.check()
	}
}

// leaveDown crashes up to a minority of the replicas for good, in some schedules, if the partition is led safely without
// them.
func (w *World) leaveDown() (dead []int32) {
	p := w.head()
	if w.Profile.Scripted || w.rng.IntN(3) > 0 || len(p.Adding)+len(p.NewReplicas) > 0 || p.Rule != metadata.RuleQuorum || p.Durability == metadata.DurabilityMemoryToDisk || w.Profile.rots() {
		return nil
	}
	if w.untrusted(p) > 0 || slices.ContainsFunc(w.nodes, func(n *node) bool { return n.lost }) || int(p.MinISR) > len(p.Replicas)/2+1 {
		return nil
	}
	dead = slices.Clone(p.Replicas)
	w.rng.Shuffle(len(dead), func(i, j int) { dead[i], dead[j] = dead[j], dead[i] })
	dead = dead[:(len(p.Replicas)-1)/2]
	for _, id := range dead {
		if w.node(id).up() {
			w.node(id).crash(vfs.CrashKeep)
		}
	}
	w.count("healed without a minority")
	w.note("nodes %v stay down", dead)
	return dead
}

// healed says that nothing is left to do for those that are up.
func (w *World) healed() bool {
	p := w.head()
	if p.Leader == metadata.NoNode || len(w.net) > 0 {
		return false
	}
	if p.Rule != metadata.RuleISR && p.Rule != metadata.RuleQuorum || p.Durability == metadata.DurabilityMemoryToDisk || len(p.Adding)+len(p.NewReplicas) > 0 {
		return false
	}
	lead := w.node(p.Leader).replica()
	if lead == nil || lead.Office() == nil {
		return false
	}
	l := lead.Log()
	for _, id := range p.Replicas {
		n := w.node(id)
		if !n.up() {
			continue
		}
		q := n.replica()
		if q == nil || q.Record() != p || q.Log().EndOffset() != l.EndOffset() || q.Log().HighWatermark() != l.EndOffset() || !slices.Contains(p.ISR, id) {
			return false
		}
		// Nobody certifies the leader itself: one that the ISR rule elected may never have been.
		if !metadata.Trusted(p, id, w.image().Broker) && id != p.Leader {
			return false
		}
	}
	return true
}

// scrubbed reads every log through where bytes may have rotted unseen, and reports what it finds, as any reader would;
// false if it found something.
func (w *World) scrubbed() bool {
	whole := true
	for _, n := range w.nodes {
		p := n.replica()
		if p == nil || !w.Profile.rots() {
			continue
		}
		if _, err := read(p.Log(), p.Log().StartOffset(), p.Log().EndOffset()); err != nil {
			w.note("node %d: the scrub finds %v", n.id, err)
			w.count("found by scrub")
			n.m.OnDamage(p.Log(), err.Error())
			n.tell()
			whole = false
		}
	}
	return whole
}

// compare is I4 at the end, and that nothing acknowledged is lost.
func (w *World) compare() {
	p := w.head()
	l := w.node(p.Leader).replica().Log()
	start := l.StartOffset()
	want, err := read(l, start, l.EndOffset())
	if err != nil {
		w.fail("node %d cannot read its log: %v", p.Leader, err)
	}
	for _, id := range p.Replicas {
		n := w.node(id)
		if !n.up() {
			continue
		}
		from := max(start, n.replica().Log().StartOffset())
		have, err := read(n.replica().Log(), from, l.EndOffset())
		if err != nil {
			w.fail("node %d cannot read its log: %v", id, err)
		}
		if !slices.Equal(have, want[from-start:]) {
			w.fail("I4: node %d has %v, leader %d has %v", id, have, p.Leader, want[from-start:])
		}
	}
	seen := map[int]bool{}
	for i, e := range want {
		if i > 0 && e.epoch < want[i-1].epoch {
			w.fail("I5: epoch %d follows %d at %d", e.epoch, want[i-1].epoch, start+int64(i))
		}
		if e.name >= 0 && seen[e.name] {
			w.fail("record %d is there twice", e.name)
		}
		seen[e.name] = true
	}
	for off, name := range w.shadow.acked {
		if off >= start && (off >= start+int64(len(want)) || want[off-start].name != name) {
			w.fail("acknowledged record %d at %d is lost", name, off)
		}
	}
}
