package sim

import (
	"math/rand/v2"
	"time"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

type idOf = record.PartitionID

// Profile says what a schedule is made of. Weights are relative; a step draws one action.
type Profile struct {
	Name       string
	Nodes      int                 // nodes of the cluster; those beyond Replicas are spare
	Replicas   int                 // replication factor of the topic at first
	Rule       metadata.CommitRule // empty: by chance
	Durability metadata.Durability // empty: by chance
	MinISR     int32               // 0: by chance
	Steps      int                 // before the heal
	Scripted   bool                // a test decides everything: nothing is drawn (script.go)
	Weights    map[Action]int
	// KillAtStart is the chance, in percent, that a process dies between its registration and the note of it.
	KillAtStart int
	// Expect are event classes that a run of many schedules must have met.
	Expect []string
}

// Action is something that a step does.
type Action string

// The actions.
const (
	Produce    Action = "produce"
	Ask        Action = "ask"        // a follower sends its next fetch
	Deliver    Action = "deliver"    // a message goes a step further
	Replay     Action = "replay"     // a node applies the next metadata
	Time       Action = "time"       // time passes at a node
	Control    Action = "control"    // the controller looks
	Fence      Action = "fence"      // also wrongly
	Unfence    Action = "unfence"    //
	Kill       Action = "kill"       // SIGKILL
	Power      Action = "power"      // unsynced bytes are lost or torn
	Stop       Action = "stop"       // SIGTERM
	Start      Action = "start"      //
	Flush      Action = "flush"      //
	Checkpoint Action = "checkpoint" //
	RaiseStart Action = "log start"  //
	Rule       Action = "rule"       //
	Durability Action = "durability" //
	Min        Action = "min"        //
	Move       Action = "move"       //
	Cancel     Action = "cancel"     //
	Election   Action = "election"   // a leader is moved without need
	Controller Action = "controller" // another controller: reports are forgotten
	Rot        Action = "rot"        // a bit flips in a segment on disk
	Fail       Action = "fail"       // the next calls to a disk fail
	Full       Action = "full"       // a disk is full, or no more
)

// base is what every schedule needs to move at all.
func base() map[Action]int {
	return map[Action]int{Produce: 120, Ask: 200, Deliver: 340, Replay: 160, Time: 30, Control: 50, Unfence: 70, Start: 30, Flush: 30, Checkpoint: 8}
}

func with(more map[Action]int) map[Action]int {
	w := base()
	for a, n := range more {
		w[a] = n
	}
	return w
}

// Profiles lists the focus profiles: in each, one class of event is frequent and crashes are rare.
func Profiles() []Profile {
	crashes := map[Action]int{Kill: 5, Power: 3, Fence: 8}
	mix := func(more map[Action]int) map[Action]int {
		all := map[Action]int{}
		for a, n := range crashes {
			all[a] = n
		}
		for a, n := range more {
			all[a] = n
		}
		return with(all)
	}
	both := []string{"produce", "acked", "committed", "answer", "kill", "power loss"}
	return []Profile{
		{Name: "isr", Nodes: 3, Replicas: 3, Rule: metadata.RuleISR, Durability: metadata.DurabilityMemory, Steps: 700,
			Weights: mix(map[Action]int{Fence: 14, Kill: 8, Power: 8, Min: 6, Election: 6, Time: 60}),
			Expect:  append([]string{"elected isr", "isr changed", "elr", "min changed", "flagged election"}, both...)},
		{Name: "quorum", Nodes: 3, Replicas: 3, Rule: metadata.RuleQuorum, Durability: metadata.DurabilityMemory, Steps: 700,
			Weights: mix(map[Action]int{Fence: 14, Kill: 8, Power: 6, Election: 10, Controller: 6}),
			Expect:  append([]string{"elected quorum", "last leader again", "untrusted", "flagged election"}, both...)},
		{Name: "quorum5", Nodes: 5, Replicas: 5, Rule: metadata.RuleQuorum, Durability: metadata.DurabilityMemory, Steps: 900,
			Weights: mix(map[Action]int{Fence: 14, Kill: 6, Power: 8, Election: 10}), Expect: append([]string{"elected quorum", "untrusted"}, both...)},
		{Name: "elections", Nodes: 3, Replicas: 3, Rule: metadata.RuleQuorum, Durability: metadata.DurabilityMemory, Steps: 700, // fig. 8
			Weights: mix(map[Action]int{Election: 60, Produce: 60, Kill: 2, Power: 1, Deliver: 260}), Expect: []string{"elected quorum", "acked", "committed"}},
		{Name: "disk", Nodes: 3, Replicas: 3, Durability: metadata.DurabilityDisk, Steps: 700,
			Weights: mix(map[Action]int{Flush: 120, Power: 14, Fence: 10, Election: 8}), Expect: append([]string{"flush"}, both...)},
		{Name: "rules", Nodes: 3, Replicas: 3, Durability: metadata.DurabilityMemory, Steps: 800,
			Weights: mix(map[Action]int{Rule: 25, Fence: 12}), Expect: append([]string{"rule begun", "rule finished", "rule aborted"}, both...)},
		{Name: "durability", Nodes: 3, Replicas: 3, Steps: 800,
			Weights: mix(map[Action]int{Durability: 25, Flush: 100, Power: 8, Time: 60}),
			Expect:  append([]string{"durability begun", "durability finished", "durability to memory"}, both...)},
		{Name: "moves", Nodes: 5, Replicas: 3, Durability: metadata.DurabilityMemory, Steps: 1000,
			Weights: mix(map[Action]int{Move: 25, Cancel: 8, Ask: 260}), Expect: append([]string{"move begun", "joint", "move finished", "move cancelled"}, both...)},
		{Name: "readd", Nodes: 4, Replicas: 3, Rule: metadata.RuleQuorum, Durability: metadata.DurabilityMemory, Steps: 1000,
			Weights: with(map[Action]int{Move: 40, Cancel: 12, Ask: 280, Kill: 2, Fence: 4}), Expect: []string{"move begun", "joint", "move finished", "acked"}},
		{Name: "log start", Nodes: 3, Replicas: 3, Durability: metadata.DurabilityMemory, Steps: 700,
			Weights: mix(map[Action]int{RaiseStart: 40}), Expect: append([]string{"log start"}, both...)},
		{Name: "storms", Nodes: 3, Replicas: 3, Steps: 800, KillAtStart: 25,
			Weights: mix(map[Action]int{Kill: 25, Stop: 6, Start: 90}), Expect: []string{"kill", "killed at start", "clean stop", "restart process-crash", "acked"}},
		{Name: "disks", Nodes: 3, Replicas: 3, Steps: 700,
			// A rotten tail and a power cut together look like a torn write: no one could tell.
			Weights: mix(map[Action]int{Power: 0, Rot: 8, Fail: 8, Full: 6, Checkpoint: 20, Flush: 60}), Expect: []string{"rot", "directory offline", "disk full", "damage told", "acked"}},
	}
}

// Swarm draws a profile: everything may happen, some of it not in this schedule.
func Swarm(rng *rand.Rand) Profile {
	p := Profile{Name: "swarm", Nodes: 5, Replicas: 3, Steps: 800, KillAtStart: pick(rng, 0, 0, 10)}
	if rng.IntN(4) == 0 {
		p.Replicas = 5
	}
	p.Weights = base()
	for _, a := range []Action{Fence, Kill, Power, Stop, RaiseStart, Rule, Durability, Min, Move, Cancel, Election, Controller} {
		if rng.IntN(3) > 0 {
			p.Weights[a] = 1 + rng.IntN(14)
		}
	}
	return p
}

// rots says that bytes on disk may change by themselves.
func (p Profile) rots() bool { return p.Weights[Rot]+p.Weights[Fail] > 0 }

func (w *World) clock() time.Time { return w.now }

// chance is true in so many of a hundred.
func (w *World) chance(percent int) bool { return percent > 0 && w.rng.IntN(100) < percent }
