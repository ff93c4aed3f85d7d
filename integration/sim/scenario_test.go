package sim

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
)

// The directed scenarios of the protocol, one test each, by their numbers. Nodes are A to E.
const (
	A int32 = 1 + iota
	B
	C
	D
	E
)

// play runs a scenario in its own world; at the end the faults are healed and everything must come out right.
func play(t *testing.T, s Setup, scenario func(t *testing.T, w *World)) {
	t.Helper()
	var w *World
	defer func() {
		e := recover()
		f, fault := e.(Fault)
		if e != nil && !fault {
			panic(e)
		}
		if fault {
			t.Errorf("%s", f)
		}
		if t.Failed() && w != nil {
			t.Logf("%s\n%s", strings.Join(w.Trace(), "\n"), w)
		}
	}()
	w = NewScripted(s)
	scenario(t, w)
	w.check()
	w.heal()
}

// byRule runs a scenario under both rules, byDurability under both durabilities.
func byRule(t *testing.T, s Setup, scenario func(t *testing.T, w *World)) {
	for _, r := range []metadata.CommitRule{metadata.RuleISR, metadata.RuleQuorum} {
		t.Run(string(r), func(t *testing.T) {
			s.Rule = r
			play(t, s, scenario)
		})
	}
}

func byDurability(t *testing.T, s Setup, scenario func(t *testing.T, w *World)) {
	for _, d := range []metadata.Durability{metadata.DurabilityMemory, metadata.DurabilityDisk} {
		t.Run(string(d), func(t *testing.T) {
			s.Durability = d
			play(t, s, scenario)
		})
	}
}

// byBoth runs a scenario under each rule with each durability: what it expects is the same.
func byBoth(t *testing.T, s Setup, scenario func(t *testing.T, w *World)) {
	for _, r := range []metadata.CommitRule{metadata.RuleISR, metadata.RuleQuorum} {
		t.Run(string(r), func(t *testing.T) {
			s.Rule = r
			byDurability(t, s, scenario)
		})
	}
}

// committed writes batches to the leader and brings them to all replicas.
func committed(t *testing.T, w *World, batches int) (all []*sent) {
	t.Helper()
	all = w.write(w.head().Leader, batches)
	followers := w.running()
	w.sync(followers...)
	for _, s := range all {
		require.True(t, s.acked())
	}
	return all
}

func namesOf(all ...*sent) (names []int) {
	for _, s := range all {
		names = append(names, s.names...)
	}
	return names
}

// reads says what a consumer sees at a node.
func reads(t *testing.T, w *World, id int32) []int {
	t.Helper()
	names, err := w.consume(id)
	require.NoError(t, err)
	return names
}

// noLoss says that no election was flagged.
func noLoss(t *testing.T, w *World) {
	t.Helper()
	require.Zero(t, w.shadow.losses, "an election was flagged as unsafe")
}

const all = partition.AcksAll

// moveTo makes a node lead that nobody needs to: by the ISR rule it must be in sync, by the quorum rule the voters elect it.
func moveTo(t *testing.T, w *World, id int32, voters ...int32) {
	t.Helper()
	if w.head().Rule.ElectBy() == metadata.RuleISR {
		require.NoError(t, w.elect(id))
	} else {
		require.NoError(t, w.depose())
		require.NoError(t, w.vote(id, voters...))
	}
	w.learn()
}

// failover fences the leader and makes another node lead, elected by voters where the rule asks for them.
func failover(t *testing.T, w *World, to int32, voters ...int32) {
	t.Helper()
	w.out(w.head().Leader)
	switch p := w.head(); {
	case p.Rule.ElectBy() == metadata.RuleQuorum:
		require.NoError(t, w.vote(to, voters...))
	case p.Leader != to:
		require.NoError(t, w.elect(to))
	}
	w.learn()
}

// notLed says that nobody leads now, and that this is not for good.
func notLed(t *testing.T, w *World) {
	t.Helper()
	require.Equal(t, metadata.NoNode, w.head().Leader)
	require.Equal(t, metadata.Offline, w.image().Safety(w.head()))
	noLoss(t, w)
}
