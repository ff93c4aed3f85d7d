package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"cordwood/fsm/metadata"
)

// changeReplicas is the transition of a partition whose replicas are being changed.
const changeReplicas = "reassignment"

// transitionOf says what is being changed on a partition, and the replicas that a reassignment leads to.
func transitionOf(info *metadata.PartitionInfo) (what string, target []int32) {
	switch {
	case len(info.NewReplicas) > 0:
		return changeReplicas, info.NewReplicas
	case len(info.Adding) > 0:
		return changeReplicas, info.Adding
	case info.Rule.Target() != info.Rule:
		return metadata.SettingCommitRule, []int32{}
	case info.Durability.Target() != info.Durability:
		return metadata.SettingCommitDurability, []int32{}
	}
	return "", []int32{}
}

// present gives the replicas that are in force, without those that are only being added.
func (p *partitionView) present() []int32 {
	if len(p.info.Present) > 0 {
		return p.info.Present
	}
	return p.Replicas
}

// underReplicated says that a replica which is in force is not in sync.
func (p *partitionView) underReplicated() bool {
	return slices.ContainsFunc(p.present(), func(id int32) bool { return !slices.Contains(p.ISR, id) })
}

// writeQuorum is how many replicas commit a record under the quorum rule.
func (p *partitionView) writeQuorum() int {
	return metadata.WriteQuorum(len(p.present()), p.info.MinISR)
}

// facts is what of the partition may block writes.
func (p *partitionView) facts() metadata.PromisePartition {
	f := metadata.PromisePartition{Led: p.Leader >= 0, InSync: len(p.ISR)}
	for _, id := range p.present() {
		if !slices.Contains(p.offline, id) {
			f.Live++
		}
	}
	return f
}

// fillPromise puts into words what the topic's settings mean for its partitions as they are.
func (t *topicView) fillPromise() {
	t.commitView = commitOf(t.Configs)
	var facts []metadata.PromisePartition
	var inForce metadata.PartitionInfo
	var changes []string
	replicas := 0
	for i := range t.Partitions {
		p := &t.Partitions[i]
		facts = append(facts, p.facts())
		if n := len(p.present()); replicas == 0 || n < replicas {
			replicas = n
		}
		if p.Transition != "" && !slices.Contains(changes, p.Transition) {
			changes = append(changes, p.Transition)
		}
		if i == 0 || p.Transition != "" { // the rule of a partition that is still changing is the strictest
			inForce = p.info
		}
	}
	slices.Sort(changes)
	t.Transition = strings.Join(changes, ",")
	minISR, _ := strconv.Atoi(t.Configs[metadata.SettingMinISR]) // a node's own number
	t.promise(minISR, replicas, inForce, facts)
}

// raised adds what one leader told of batches whose acks the topic raised.
func (t *topicView) raised(n int64) {
	if t.AckRaised == nil {
		t.AckRaised = new(int64)
	}
	*t.AckRaised += n
}

// closing writes what the topic is waiting for, how often it raised acks, and its promise.
func (t *topicView) closing(w io.Writer) {
	if t.AckRaised != nil && *t.AckRaised > 0 {
		fmt.Fprintf(w, "batches whose producer asked for less than min.acks=%s, told by the present leaders: %d\n", t.MinAcks, *t.AckRaised)
	}
	if t.Promise != nil {
		fmt.Fprintln(w, t.Promise.Sentence())
	}
}
