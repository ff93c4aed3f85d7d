package nemesis

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cordwood/logstore/vfs"
)

// Cluster is what faults are done to. Every call ends with its context, at the latest. Calls for different nodes may be made
// side by side.
type Cluster interface {
	// Nodes gives the ids, rising. They stay the same.
	Nodes() []int
	// Running says that the node's process was started and has not ended; paused ones run.
	Running(node int) bool
	// Kill ends the process as SIGKILL does, and waits for its end. One that does not run is no error.
	Kill(ctx context.Context, node int) error
	// Start starts the process and does not wait until it is ready.
	Start(ctx context.Context, node int) error
	// Stop ends the process in an orderly way and waits for its end. An error says that the end was not orderly; then, too,
	// the process does not run.
	Stop(ctx context.Context, node int) error
	// Pause lets the process stand still with all that it holds.
	Pause(ctx context.Context, node int) error
	// Resume lets it go on; one that does not stand still is no error.
	Resume(ctx context.Context, node int) error
	// WaitReady waits until the node serves.
	WaitReady(ctx context.Context, node int) error
	// View tells how things are as one of the nodes sees them: it may be of a moment ago.
	View(ctx context.Context) (View, error)
	// Settled waits until every partition is led, all its replicas are in sync and certified, no change is under way, and all
	// nodes are members with what they had in the beginning. When ctx ends first the error says what is missing.
	Settled(ctx context.Context) error
	// Edges decides what nodes hear of each other, nil: nothing can be done there.
	Edges() Edges
	// Disks reaches what nodes keep, nil: nothing can be done there.
	Disks() Disks
	// Changes asks the cluster to change, nil: nothing can be done there.
	Changes() Changes
}

// Edges changes what one node sends to another, on connections and in datagrams.
type Edges interface {
	Cut(from, to int) error
	Delay(from, to int, d, jitter time.Duration) error
	Loss(from, to int, share float64) error // of the datagrams
	Rate(from, to int, bytes int64) error   // a second
	Mend(from, to int) error                // undoes all of these
}

// Disks reaches what nodes keep on their disks.
type Disks interface {
	// LosePower ends the process and takes what was not synced, by mode and seed; what tells people how much.
	LosePower(ctx context.Context, node int, mode vfs.CrashMode, seed uint64) (what string, err error)
	// SetRules makes calls of a node's disk fail or wait; none ends it.
	SetRules(ctx context.Context, node int, rules ...vfs.Rule) error
	// DataDir is a directory of this machine.
	DataDir(node int) string
	// Wipe gives a node that does not run an empty disk.
	Wipe(ctx context.Context, node int) error
}

// Changes asks a cluster to change. A call returns when the change was accepted, not when it is done.
type Changes interface {
	Elect(ctx context.Context, topic string, partition int32, node int) error
	// Move gives a partition other replicas; none cancels a move that is under way.
	Move(ctx context.Context, topic string, partition int32, replicas []int) error
	SetConfig(ctx context.Context, topic, key, value string) error
	// Remove takes a node out for good that does not run and holds nothing; one that is out already is no error.
	Remove(ctx context.Context, node int) error
}

// View is a cluster as one of its nodes sees it.
type View struct {
	Controller int // -1: nobody is known to be
	Nodes      []Member
	Partitions []Partition // by topic and number
}

// Member is a node that is known to the cluster.
type Member struct {
	ID     int
	Fenced bool
	Voter  bool // of the metadata
}

// Partition is one partition of a View.
type Partition struct {
	Topic    string
	ID       int32
	Internal bool
	Leader   int // -1: nobody
	Replicas []int
	ISR      []int
	Trusted  []int  // replicas that may vote; all of the ISR where the cluster knows nothing of this
	Rule     string // commit rule; empty where the cluster knows nothing of this
	Changing bool   // its rule, its durability or its replicas
}

// Unsettled says what is missing until the view is as Cluster.Settled wants it, of so many nodes; nil: nothing.
func (v View) Unsettled(nodes []int) error {
	for _, id := range nodes {
		i := slices.IndexFunc(v.Nodes, func(m Member) bool { return m.ID == id })
		if i < 0 || v.Nodes[i].Fenced {
			return fmt.Errorf("node %d is in no session", id)
		}
	}
	for _, p := range v.Partitions {
		switch {
		case p.Leader < 0:
			return fmt.Errorf("nobody leads %s/%d", p.Topic, p.ID)
		case p.Changing:
			return fmt.Errorf("%s/%d is being changed", p.Topic, p.ID)
		}
		for _, id := range p.Replicas {
			if !slices.Contains(p.ISR, id) {
				return fmt.Errorf("node %d is not in sync in %s/%d", id, p.Topic, p.ID)
			}
			if !slices.Contains(p.Trusted, id) {
				return fmt.Errorf("node %d is not certified in %s/%d", id, p.Topic, p.ID)
			}
		}
	}
	return nil
}

// voters gives who votes on the metadata.
func (v View) voters() (ids []int) {
	for _, m := range v.Nodes {
		if m.Voter {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// leaders gives the nodes that lead a partition of these topics, of all that are not internal when none is named.
func (v View) leaders(topics []string) (ids []int) {
	for _, p := range v.Partitions {
		tested := slices.Contains(topics, p.Topic) || len(topics) == 0 && !p.Internal
		if tested && p.Leader >= 0 && !slices.Contains(ids, p.Leader) {
			ids = append(ids, p.Leader)
		}
	}
	slices.Sort(ids)
	return ids
}

// replicaSets gives the nodes of every partition.
func (v View) replicaSets() (sets [][]int) {
	for _, p := range v.Partitions {
		sets = append(sets, p.Replicas)
	}
	return sets
}
