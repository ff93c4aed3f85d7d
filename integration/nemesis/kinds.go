package nemesis

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kind is a kind of fault.
type Kind struct {
	Name     string
	Class    string
	About    string // one line for people
	Destroys bool   // copies of records may be gone afterwards
	Media    bool   // what was synced, too
	ByName   bool   // done only when it is asked for by its name
	Alone    bool   // nothing else is done meanwhile
	make     func(b base) Nemesis
}

func cutting(nodes int, plan planner) func(base) Nemesis {
	return func(b base) Nemesis { return &network{base: b, nodes: nodes, plan: plan} }
}

// kinds are all faults, class by class.
var kinds = []Kind{
	{Name: "kill", Class: "process", About: "kill some nodes: one, a minority, a majority, all, those that lead, the controller",
		make: func(b base) Nemesis { return &kill{base: b} }},
	{Name: "killall", Class: "process", About: "kill all nodes at once",
		make: func(b base) Nemesis { return &kill{base: b, all: true} }},
	{Name: "pause", Class: "process", About: "let some nodes stand still, for less than a session or for longer",
		make: func(b base) Nemesis { return &pause{b} }},
	{Name: "restart", Class: "process", About: "restart some nodes in an orderly way, one after another",
		make: func(b base) Nemesis { return &restart{b} }},

	{Name: "isolate", Class: "network", About: "cut one node off from all others",
		make: cutting(2, planIsolate)},
	{Name: "halves", Class: "network", About: "cut a minority off from the majority",
		make: cutting(3, planHalves)},
	{Name: "ring", Class: "network", About: "let each node see a majority, no two the same (5 nodes)",
		make: cutting(5, planRing)},
	{Name: "bridge", Class: "network", About: "cut the nodes in two halves that only one node sees both of",
		make: cutting(3, planBridge)},
	{Name: "oneway", Class: "network", About: "let nothing through from one node to others, or from them to it",
		make: cutting(2, planOneWay)},
	{Name: "primaries", Class: "network", About: "cut each node that leads off from all others",
		make: cutting(2, planPrimaries)},
	{Name: "uncontrolled", Class: "network", About: "cut one node off from the controller only",
		make: cutting(2, planUncontrolled)},
	{Name: "slowlink", Class: "network", About: "delay all from and to some nodes, and at times let little of it through",
		make: cutting(2, planSlow)},
	{Name: "loss", Class: "network", About: "lose a share of all datagrams",
		make: cutting(2, planLoss)},
	{Name: "disconnect", Class: "network", About: "take a minority off the network, for clients as well (containers)",
		make: func(b base) Nemesis { return &disconnect{b} }},

	{Name: "power", Class: "disk", About: "take the power of one node: what was not synced is gone or torn", Destroys: true,
		make: func(b base) Nemesis { return &power{base: b} }},
	{Name: "powerall", Class: "disk", About: "take the power of all nodes; records that were never synced may be lost", Destroys: true, ByName: true, Alone: true,
		make: func(b base) Nemesis { return &power{base: b, all: true} }},
	{Name: "amnesia", Class: "disk", About: "take the power of a node that then makes a majority with nodes that were away (3, 5 nodes)", Destroys: true, Alone: true,
		make: func(b base) Nemesis { return &amnesia{b} }},
	{Name: "full", Class: "disk", About: "let a minority find no room for records",
		make: func(b base) Nemesis { return &full{b} }},
	{Name: "eio", Class: "disk", About: "let syncs of one node fail, until its process is replaced", Destroys: true,
		make: func(b base) Nemesis { return &eio{b} }},
	{Name: "slowdisk", Class: "disk", About: "make writes and syncs of some nodes slow",
		make: func(b base) Nemesis { return &slowDisk{b} }},
	{Name: "bitflip", Class: "disk", About: "flip bits in the logs of a minority that was killed", Destroys: true, Media: true,
		make: func(b base) Nemesis { return &bitFlip{b} }},
	{Name: "truncate", Class: "disk", About: "cut the logs of a minority that was stopped", Destroys: true, Media: true,
		make: func(b base) Nemesis { return &truncation{b} }},
	{Name: "indexrot", Class: "disk", About: "remove index files of a minority that was stopped, or spoil them", Destroys: true,
		make: func(b base) Nemesis { return &indexRot{b} }},

	{Name: "checkpoints", Class: "disk", About: "remove, cut or spoil the files that say what the logs of a minority hold", Destroys: true, Media: true,
		make: func(b base) Nemesis {
			return &metadataRot{base: b, what: "spoiled %d checkpoint files of %s", files: checkpointsIn}
		}},
	{Name: "raftstore", Class: "disk", About: "remove, cut or spoil the metadata's log of a minority, which joins anew", Destroys: true, Media: true,
		make: func(b base) Nemesis {
			return &metadataRot{base: b, what: "spoiled %d raft stores of %s", files: raftStoreIn}
		}},
	{Name: "snapshot", Class: "disk", About: "remove, cut or spoil files of the metadata's snapshots, on a minority", Destroys: true, Media: true,
		make: func(b base) Nemesis {
			return &metadataRot{base: b, what: "spoiled %d files of metadata snapshots of %s", files: snapshotsIn}
		}},

	{Name: "jump", Class: "clock", About: "set the clocks of some nodes ahead or back, by 100 ms to 12 hours",
		make: func(b base) Nemesis { return &jump{b} }},
	{Name: "strobe", Class: "clock", About: "move the clocks of some nodes there and back, several times a second",
		make: func(b base) Nemesis { return &strobe{b} }},

	{Name: "elect", Class: "membership", About: "let other replicas lead",
		make: func(b base) Nemesis { return &elect{b} }},
	{Name: "reassign", Class: "membership", About: "move a replica to another node, and back (4 nodes)",
		make: func(b base) Nemesis { return &reassign{b} }},
	{Name: "rule", Class: "membership", About: "change the commit rule of a topic, and back",
		make: func(b base) Nemesis { return &rule{b} }},
	{Name: "replace", Class: "membership", About: "move all off one node, remove it for good, and let a new one take its place (4 nodes)", Destroys: true,
		make: func(b base) Nemesis { return &replace{b} }},
	{Name: "wipe", Class: "membership", About: "give one node an empty disk, with which it joins again", Destroys: true, Media: true,
		make: func(b base) Nemesis { return &wipe{b} }},
}

// Kinds gives all kinds of faults, class by class.
func Kinds() []Kind { return slices.Clone(kinds) }

// Classes gives the fault classes.
func Classes() (classes []string) {
	for _, k := range kinds {
		if !slices.Contains(classes, k.Class) {
			classes = append(classes, k.Class)
		}
	}
	return classes
}

// ErrUnknown is a name that is no fault's and no class's.
var ErrUnknown = errors.New("unknown fault")

// Choice is a fault that was asked for.
type Choice struct {
	Name  string
	Named bool // by its own name, not by that of its class or all
}

// Parse reads names of faults and classes with commas between, "all" and "none". What may lose records by design is left out
// unless it is named itself.
func Parse(text string) (out []Choice, err error) {
	add := func(name string, named bool) {
		if i := slices.IndexFunc(out, func(c Choice) bool { return c.Name == name }); i >= 0 {
			out[i].Named = out[i].Named || named
			return
		}
		out = append(out, Choice{name, named})
	}
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		known := word == "none"
		for _, k := range kinds {
			switch {
			case k.Name == word:
				add(k.Name, true)
			case (k.Class == word || word == "all") && !k.ByName:
				add(k.Name, false)
			case k.Class != word:
				continue
			}
			known = true
		}
		if !known {
			return nil, fmt.Errorf("%w %q: known are all, none, the classes %s, and %s", ErrUnknown, word, strings.Join(Classes(), ", "), strings.Join(names(), ", "))
		}
	}
	return out, nil
}

func names() (out []string) {
	for _, k := range kinds {
		out = append(out, k.Name)
	}
	return out
}

// kindOf finds a kind by its name, nil: there is none.
func kindOf(name string) *Kind {
	for i := range kinds {
		if kinds[i].Name == name {
			return &kinds[i]
		}
	}
	return nil
}

// ClassOf gives the class of a fault, empty for a name that is none's.
func ClassOf(name string) string {
	if k := kindOf(name); k != nil {
		return k.Class
	}
	return ""
}

// HitsMedia says that a fault of that name takes or spoils what was synced.
func HitsMedia(name string) bool {
	k := kindOf(name)
	return k != nil && k.Media
}

// Nemesis makes the fault of a name.
func (s *Site) Nemesis(name string) (Nemesis, error) {
	k := kindOf(name)
	if k == nil {
		return nil, fmt.Errorf("%w %q", ErrUnknown, name)
	}
	return k.make(base{s: s, kind: k}), nil
}
