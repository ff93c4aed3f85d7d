//go:build integration

package loops

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/integration/harness"
	"cordwood/integration/workload"
	"cordwood/logstore/vfs"
)

// commitKinds are all ways in which a topic may commit.
var commitKinds = []commitKind{{"isr", "memory"}, {"isr", "disk"}, {"quorum", "memory"}, {"quorum", "disk"}}

type commitKind struct{ rule, durability string }

func (k commitKind) name() string { return k.rule + "-" + k.durability }
func (k commitKind) settings() []string {
	return []string{"commit.rule=" + k.rule, "commit.durability=" + k.durability}
}

// sessionDefault is how long a node that does not come back holds its leaderships, at most, in these tests.
const sessionDefault = 4 * time.Second

// TestAPowerCutOfAllNodesLosesNothingThatCountsFromDisk takes the power from all three nodes under load. Topics whose
// copies count from disk lose nothing and are led again at once, in every second round with one node still away. The
// others stop, say so, and are led again once all have come back, with an event that names what may be gone; that is gone
// and nothing else. Nobody waits for an operator afterwards.
func TestAPowerCutOfAllNodesLosesNothingThatCountsFromDisk(t *testing.T) {
	rng := random(t)
	table := NewTable("round", "came back", "topic", "stopped unsafe", "loss from", "led again in", "acknowledged", "lost", "named lost", "verdict")
	defer table.Print(os.Stdout)
	for round := range *rounds {
		p := newPowerCut(t, rng, round%2 == 1)
		p.run(t, rng)
		for _, k := range commitKinds {
			p.judge(t, k, round, table)
		}
		require.NoError(t, p.c.Close())
	}
}

// powerCut is one of them.
type powerCut struct {
	c      *harness.Cluster
	mark   logMark
	before map[string]*workload.Writer // by topic
	after  map[string]*workload.Writer
	late   *harness.Node // comes back when the durable topics are led again; nil: all together
}

const cutPartitions = 2 // of each topic

func newPowerCut(t *testing.T, rng *rand.Rand, staged bool) *powerCut {
	t.Helper()
	p := &powerCut{c: start(t, 3, harness.Options{Settings: "log: { level: debug }"}), // where leaders say that they lead
		before: map[string]*workload.Writer{}, after: map[string]*workload.Writer{}}
	for _, k := range commitKinds {
		topic(t, p.c, k.name(), cutPartitions, k.settings()...)
	}
	for _, k := range commitKinds {
		inSync(t, p.c, k.name())
		p.before[k.name()] = write(t, p.c, k.name(), "before-"+k.name(), 150)
	}
	if staged {
		p.late = p.c.Nodes[rng.IntN(3)]
	}
	return p
}

func (p *powerCut) run(t *testing.T, rng *rand.Rand) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for name, w := range p.before {
		require.NoError(t, w.WaitAcked(ctx, 100+rng.IntN(200)), name)
	}
	p.mark = markLogs(t, p.c)
	require.NoError(t, p.c.Kill())
	mode := vfs.CrashLose
	if rng.IntN(2) == 0 {
		mode = vfs.CrashTear
	}
	seed := rng.Uint64()
	for _, n := range p.c.Nodes {
		_, err := n.LosePower(mode, seed)
		require.NoError(t, err)
	}
	for _, w := range p.before {
		_ = w.Stop(time.Millisecond) // what was under way has no outcome
	}
	for _, n := range p.c.Nodes {
		if n != p.late {
			require.NoError(t, n.Start())
		}
	}
	if p.late != nil {
		p.withoutTheLateOne(t)
		require.NoError(t, p.late.Start())
	}
	require.NoError(t, p.c.WaitReady(ctx, 60*time.Second))
	for _, k := range commitKinds {
		inSync(t, p.c, k.name())
		allTrusted(t, p.c, k.name())
		p.after[k.name()] = write(t, p.c, k.name(), "after-"+k.name(), 150)
	}
	for name, w := range p.after {
		require.NoError(t, w.WaitAcked(ctx, 50), name)
	}
	require.Zero(t, metric(t, p.c, "cordwood_replicas_quarantined"), "no replica waits for an operator")
}

// withoutTheLateOne waits for what two of three may do: lead what counts from disk, and nothing else.
func (p *powerCut) withoutTheLateOne(t *testing.T) {
	t.Helper()
	by := p.c.Answering()[0]
	fenced(t, by, p.late, 30*time.Second)
	for _, k := range commitKinds {
		if k.durability == "disk" {
			seen(t, by, k.name(), 20*time.Second, "led by one of the two", func(v viewed) bool { return v.leader >= 0 && v.leader != p.late.ID })
		}
	}
	for _, k := range commitKinds {
		if k.durability == "memory" {
			seen(t, by, k.name(), 20*time.Second, "nobody leads", func(v viewed) bool { return v.leader < 0 })
		}
	}
}

// judge checks one topic and adds its row.
func (p *powerCut) judge(t *testing.T, k commitKind, round int, table *Table) {
	t.Helper()
	var lines []logLine
	for _, l := range logsSince(t, p.c, p.mark) {
		if l.Topic == k.name() || l.Kind == "BrokerRegistered" {
			lines = append(lines, l)
		}
	}
	unsafe := map[int]bool{}
	for _, l := range events(lines, "PartitionOfflineUnsafe") {
		unsafe[l.Partition] = true
	}
	from := map[int]int64{}
	for _, l := range events(lines, "DataLossPossible") {
		_, twice := from[l.Partition]
		require.False(t, twice, "two loss events of %s/%d", k.name(), l.Partition)
		from[l.Partition] = l.MayBeGoneFrom
	}
	before, after := p.before[k.name()], p.after[k.name()]
	require.NoError(t, after.Stop(30*time.Second))
	require.Empty(t, after.Errors(), "the topic serves")
	lost := lostFrom(t, before.File, from)
	limit := 60 * time.Second
	if lost > 0 {
		limit = 3 * time.Second
	}
	v := verifyWithin(t, p.c, limit, k.name(), before.File, after.File)
	came, took := "together", ledAfter(t, lines, p.c, k)
	if p.late != nil {
		came = fmt.Sprintf("node %d late", p.late.ID)
	}
	table.Add(round, came, k.name(), len(unsafe), fmt.Sprint(from), took, v.Acknowledged, v.Lost, lost, v.Verdict)
	require.Zero(t, v.Duplicated+v.Reordered, "%+v", v)
	require.Equal(t, before.Acked()+after.Acked(), v.Acknowledged)
	require.Equal(t, lost, v.Lost, "gone is what the events named: %v", from)
	if k.durability == "disk" {
		require.Empty(t, from, "nothing that counts from disk is said to be lost")
		require.Empty(t, unsafe, "somebody has everything")
		limit := leadAgainWithin
		if p.late != nil {
			limit += sessionDefault // what the late one led is given up when its session ends
		}
		require.LessOrEqual(t, took, limit)
		return
	}
	require.Len(t, from, cutPartitions, "every partition is led again with an event only")
	require.Len(t, unsafe, cutPartitions, "and stopped before")
}

// ledAfter is the time from the last registration of those that had to be there to the last partition's first leader.
func ledAfter(t *testing.T, lines []logLine, c *harness.Cluster, k commitKind) (took time.Duration) {
	t.Helper()
	led := map[int]time.Time{}
	var registered time.Time
	for _, l := range lines {
		if l.Msg != "leading" {
			continue
		}
		if _, ok := led[l.Partition]; !ok {
			led[l.Partition] = l.Time
		}
	}
	require.Len(t, led, cutPartitions, "every partition of %s leads again", k.name())
	// The last registration before the last of these elections: a node that came later was not waited for.
	var last time.Time
	for _, at := range led {
		if at.After(last) {
			last = at
		}
	}
	for _, l := range events(lines, "BrokerRegistered") {
		if l.Time.Before(last) && l.Time.After(registered) {
			registered = l.Time
		}
	}
	require.False(t, registered.IsZero(), "registrations are logged")
	return last.Sub(registered)
}
