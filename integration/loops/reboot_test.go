//go:build integration

package loops

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/integration/harness"
	"cordwood/integration/workload"
	"cordwood/logstore/vfs"
)

const leadAgainWithin = 5 * time.Second // of the last node's registration

// TestARebootedHostComesBackAndNamesWhatIsGone takes the power from all nodes at once, under load: unsynced bytes go and
// the boot id changes. The nodes come back by themselves, and say which acknowledged records may be gone; these are gone
// and no other.
func TestARebootedHostComesBackAndNamesWhatIsGone(t *testing.T) {
	rng := random(t)
	table := NewTable("round", "nodes", "flushed every", "unsynced bytes", "files cut", "undone", "leads again", "loss from", "acknowledged", "lost", "verdict")
	defer table.Print(os.Stdout)
	for round := range *rounds {
		for i, nodes := range []int{3, 1} {
			mode, unsynced := vfs.CrashLose, "all gone"
			if (round+i)%2 == 1 {
				mode, unsynced = vfs.CrashTear, "torn"
			}
			r := reboot{c: start(t, nodes, harness.Options{Settings: "log: { level: debug }"}), // where leaders say that they lead
				round: round, partitions: 3, mode: mode, seed: rng.Uint64()}
			flush := "never"
			if rng.IntN(3) > 0 { // so that some of the records are synced
				flush = fmt.Sprintf("%dms", 300+rng.IntN(1500))
			}
			r.run(t, rng, flush)
			table.Add(round, nodes, flush, unsynced, r.cut, r.undone, r.took, fmt.Sprint(r.from), r.v.Acknowledged, r.v.Lost, r.v.Verdict)
			require.NoError(t, r.c.Close())
		}
	}
}

// reboot is one power cut.
type reboot struct {
	c          *harness.Cluster
	round      int
	partitions int
	mode       vfs.CrashMode
	seed       uint64

	cut, undone int
	took        time.Duration // from the last registration to the last partition's leader
	from        map[int]int64 // offsets that the events named, by partition
	v           verdict
}

func (r *reboot) run(t *testing.T, rng *rand.Rand, flush string) {
	c := r.c
	var settings []string
	if d, err := time.ParseDuration(flush); err == nil {
		settings = append(settings, fmt.Sprintf("flush.ms=%d", d.Milliseconds()))
	}
	topic(t, c, "loop", r.partitions, settings...)
	inSync(t, c, "loop")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	before := r.write(t, "before", 0)
	require.NoError(t, before.WaitAcked(ctx, 100+rng.IntN(3000)))
	mark := markLogs(t, c)
	require.NoError(t, c.Kill())
	_ = before.Stop(time.Millisecond) // what was under way has no outcome
	for _, n := range c.Nodes {
		d, err := n.LosePower(r.mode, r.seed)
		require.NoError(t, err)
		r.cut += len(d.Cut)
		r.undone += len(d.Undone)
	}
	require.NoError(t, c.Start())
	require.NoError(t, c.WaitReady(ctx, 60*time.Second))
	inSync(t, c, "loop")
	after := r.write(t, "after", 1)
	require.NoError(t, after.WaitAcked(ctx, 200))
	require.NoError(t, after.Stop(30*time.Second))
	require.Empty(t, after.Errors(), "the cluster serves")

	lines := logsSince(t, c, mark)
	r.read(t, lines)
	require.LessOrEqual(t, r.took, leadAgainWithin)
	require.Zero(t, metric(t, c, "cordwood_replicas_quarantined"), "no replica waits for an operator")

	lost := lostFrom(t, before.File, r.from)
	r.v = verifyWithin(t, c, 3*time.Second, "loop", before.File, after.File)
	require.Equal(t, lost, r.v.Lost, "gone is what the events named: %v of %d records acknowledged before", r.from, before.Acked())
	require.Zero(t, r.v.Duplicated+r.v.Reordered, "%+v", r.v)
	require.Equal(t, before.Acked()+after.Acked(), r.v.Acknowledged)
}

func (r *reboot) write(t *testing.T, tag string, n int) *workload.Writer {
	t.Helper()
	w, err := workload.StartWriter(workload.WriterOptions{Seeds: r.c.Bootstrap(), Topic: "loop", Tag: fmt.Sprintf("r%d%s", r.round, tag),
		File: filepath.Join(t.TempDir(), fmt.Sprintf("acked-%d", n)), Rate: 500, Size: 200})
	require.NoError(t, err)
	return w
}

// read takes from the logs when each partition led again, and what the loss events named.
func (r *reboot) read(t *testing.T, lines []logLine) {
	t.Helper()
	r.from = map[int]int64{}
	registered := map[int]time.Time{}
	led := map[int]time.Time{}
	for _, l := range lines {
		switch {
		case l.Kind == "BrokerRegistered":
			registered[l.Broker] = l.Time
		case l.Kind == "DataLossPossible":
			_, twice := r.from[l.Partition]
			require.False(t, twice, "two loss events of partition %d", l.Partition)
			r.from[l.Partition] = l.MayBeGoneFrom
		case l.Msg == "leading" && l.Topic == "loop":
			if _, ok := led[l.Partition]; !ok {
				led[l.Partition] = l.Time
			}
		}
	}
	require.Len(t, registered, len(r.c.Nodes))
	require.Len(t, led, r.partitions, "every partition leads again")
	var last time.Time
	for _, at := range registered {
		if at.After(last) {
			last = at
		}
	}
	for _, at := range led {
		r.took = max(r.took, at.Sub(last))
	}
}

// lostFrom counts the acknowledged records at or above an offset of their partition.
func lostFrom(t *testing.T, file string, from map[int]int64) (n int) {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		cells := strings.Split(s.Text(), "\t")
		require.Len(t, cells, 3)
		p, err := strconv.Atoi(cells[0])
		require.NoError(t, err)
		offset, err := strconv.ParseInt(cells[1], 10, 64)
		require.NoError(t, err)
		if first, ok := from[p]; ok && offset >= first {
			n++
		}
	}
	return n
}

// metric sums a metric without labels over all nodes; every node must have it.
func metric(t *testing.T, c *harness.Cluster, name string) (sum float64) {
	t.Helper()
	for _, n := range c.Nodes {
		sum += metricOf(t, n, name)
	}
	return sum
}

// metricOf is one series of one node.
func metricOf(t *testing.T, n *harness.Node, series string) float64 {
	t.Helper()
	v, ok := lookMetric(t, n, series)
	require.True(t, ok, "node %d has no %s", n.ID, series)
	return v
}

// lookMetric is the same for a series that may not be there.
func lookMetric(t *testing.T, n *harness.Node, series string) (float64, bool) {
	t.Helper()
	b, err := get(n, "/metrics")
	require.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			require.NoError(t, err)
			return v, true
		}
	}
	return 0, false
}
