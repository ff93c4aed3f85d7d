package sim

import (
	"slices"

	"cordwood/fsm/metadata"
	"cordwood/fsm/mutant"
)

// control is the controller's look at the partition: what is due becomes a command on its way.
func (w *World) control() {
	p, img := w.head(), w.image()
	switch {
	case p.Leader != metadata.NoNode:
		w.controlLed(p, img)
	case p.Rule.ElectBy() == metadata.RuleISR:
		if x := metadata.ChooseLeader(p, img.Broker); x != metadata.NoNode {
			w.send(&message{what: "elect", cmd: &metadata.Elect{Elections: []metadata.Election{{Partition: w.id, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Leader: x}}}})
			return
		}
		w.recover(p)
	default:
		if e, ok, _ := metadata.ChooseReported(p, w.heard(p), img.Broker); ok {
			w.send(&message{what: "elect reported", cmd: &metadata.ElectReported{Elections: []metadata.ReportedElection{e}}})
			return
		}
		w.wantReports(p)
		w.recover(p)
	}
}

// controlLed sees to moves that may go on.
func (w *World) controlLed(p *metadata.Partition, img *metadata.Image) {
	if len(p.Adding) == 0 || len(p.NewReplicas) > 0 || p.Rule.ElectBy() != metadata.RuleQuorum {
		return
	}
	for _, id := range p.Adding {
		if !metadata.Trusted(p, id, img.Broker) {
			return
		}
	}
	w.send(&message{what: "joint", cmd: &metadata.EnterJoint{Items: []metadata.JointEntry{{Partition: w.id, PartitionEpoch: p.PartitionEpoch}}}})
}

// heard gives the reports of the present epoch by present processes.
func (w *World) heard(p *metadata.Partition) (out []metadata.ReplicaReport) {
	for _, id := range w.ids() {
		if r, ok := w.reports[id]; ok && (r.epoch == p.LeaderEpoch || mutant.NoFence) && (r.of.Broker.Epoch == w.image().BrokerEpoch(id) || mutant.NoVoterBE) && p.IsReplica(id) {
			out = append(out, r.of)
		}
	}
	return out
}

// wantReports asks replicas whose report is missing.
func (w *World) wantReports(p *metadata.Partition) {
	for _, m := range p.Members {
		n := w.node(m.ID)
		if r, ok := w.reports[m.ID]; ok && r.epoch == p.LeaderEpoch && r.of.Broker.Epoch == n.be || !n.current() {
			continue
		}
		for _, r := range n.m.Reports([]idOf{w.id}) {
			w.send(&message{from: n.id, what: "report", report: &report{r.Epoch, metadata.ReplicaReport{Broker: n.epoch(), LastEpoch: r.LastEpoch, End: r.End, HW: r.HW}}})
		}
	}
}

// recover is the way out of OFFLINE_UNSAFE: a change of replicas is cancelled, then the most complete log of all replicas
// is elected, and the loss is told.
func (w *World) recover(p *metadata.Partition) {
	img := w.image()
	if len(p.NewReplicas) > 0 && p.Rule.ElectBy() == metadata.RuleQuorum && !trustedMajority(p, p.NewReplicas, img) || w.offlineUnsafe() && len(p.NewReplicas)+len(p.Adding) > 0 {
		w.send(&message{what: "cancel", cmd: &metadata.Reassign{Items: []metadata.Reassignment{{Partition: w.id, PartitionEpoch: p.PartitionEpoch}}}})
		return
	}
	if !w.offlineUnsafe() {
		return
	}
	w.wantReports(p)
	heard := slices.DeleteFunc(w.heard(p), func(r metadata.ReplicaReport) bool { return !slices.Contains(p.Replicas, r.Broker.ID) })
	if len(metadata.MissingReports(p, heard, img.Broker)) > 0 {
		return
	}
	// At once, and only of a process that runs: what the shadow keeps is read from the chosen log as it is now.
	if best, ok := metadata.ChooseUnsafe(p, heard, img.Broker); ok && w.node(best.Broker.ID).current() {
		w.apply(&metadata.UnsafeElect{Elections: []metadata.UnsafeElection{{Partition: w.id, Epoch: p.LeaderEpoch, Leader: best.Broker, Reports: heard}}})
	}
}

func trustedMajority(p *metadata.Partition, set []int32, img *metadata.Image) bool {
	n := 0
	for _, id := range set {
		if metadata.Trusted(p, id, img.Broker) {
			n++
		}
	}
	return n >= len(set)/2+1
}

// fence takes a node out, rightly or not.
func (w *World) fence(n *node) {
	if b := w.image().Broker(n.id); b.Alive() {
		w.note("fence %d", n.id)
		w.count("fence")
		w.apply(&metadata.FenceBrokers{Brokers: []metadata.BrokerEpoch{{ID: n.id, Epoch: b.Epoch}}, Reason: "sim"})
	}
}

func (w *World) unfence(n *node) {
	if b := w.image().Broker(n.id); n.current() && b.Fenced {
		w.apply(&metadata.UnfenceBroker{Broker: n.epoch()})
	}
}

// begin starts a change of what the topic is, by the profile's weights.
func (w *World) begin(kind string) {
	p := w.head()
	alter := func(c metadata.TopicConfigChange) {
		c.Topic = w.id.Topic
		w.send(&message{what: kind, cmd: &metadata.AlterTopicConfigs{Topics: []metadata.TopicConfigChange{c}}})
	}
	switch kind {
	case "rule":
		alter(metadata.TopicConfigChange{Rule: pick(w.rng, metadata.RuleISR, metadata.RuleQuorum)})
	case "durability":
		alter(metadata.TopicConfigChange{Durability: pick(w.rng, metadata.DurabilityMemory, metadata.DurabilityDisk)})
	case "min":
		alter(metadata.TopicConfigChange{MinISR: int32(1 + w.rng.IntN(len(p.Replicas)))})
	case "move":
		target := w.ids()
		w.rng.Shuffle(len(target), func(i, j int) { target[i], target[j] = target[j], target[i] })
		target = target[:min(len(target), max(1, w.Profile.Replicas-1+w.rng.IntN(3)))]
		w.send(&message{what: kind, cmd: &metadata.Reassign{Items: []metadata.Reassignment{{Partition: w.id, PartitionEpoch: metadata.AnyPartitionEpoch, Target: target}}}})
	case "cancel":
		if len(p.Adding)+len(p.NewReplicas) > 0 {
			w.send(&message{what: kind, cmd: &metadata.Reassign{Items: []metadata.Reassignment{{Partition: w.id, PartitionEpoch: p.PartitionEpoch}}}})
		}
	case "election":
		if p.Rule.ElectBy() == metadata.RuleQuorum && p.Leader != metadata.NoNode {
			w.send(&message{what: kind, cmd: &metadata.BeginElection{Elections: []metadata.ElectionStart{{Partition: w.id, LeaderEpoch: p.LeaderEpoch, Leader: p.Leader}}}})
			return
		}
		if x := metadata.PreferredMove(p, w.image().Broker); x != metadata.NoNode {
			w.send(&message{what: kind, cmd: &metadata.Elect{Elections: []metadata.Election{{Partition: w.id, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Leader: x}}}})
		}
	}
}
