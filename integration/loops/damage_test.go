//go:build integration

package loops

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/integration/harness"
	"cordwood/integration/workload"
)

const (
	// quietFor is longer than the interval of a node's checkpoints, which note what may no more be missing.
	quietFor = 6 * time.Second
	cutMost  = 200 // bytes
)

// damage is one case: what is done to the files of one partition, on which node, after which end of its process.
type damage struct {
	what   string
	leader bool // the damaged node led the partition, and all nodes were down with it
	killed bool // with SIGKILL, after the writer was quiet for a checkpoint interval; else stopped with SIGTERM
	do     func(t *testing.T, rng *rand.Rand, dir string) string
}

var damages = []damage{
	{"cut", false, false, cutSegment},
	{"cut", false, true, cutSegment},
	{"cut", true, false, cutSegment},
	{"cut", true, true, cutSegment},
	{"index removed", false, true, eachIndex(func(t *testing.T, name string) { require.NoError(t, os.Remove(name)) })},
	{"index zeroed", true, true, eachIndex(zero)},
	{"index swapped", true, false, swapIndexes},
}

// TestADamagedReplicaIsMadeWholeFromItsLeader cuts segments and spoils index files of nodes that are down. The node
// starts, serves, and has its leader's bytes again; nothing acknowledged is lost.
func TestADamagedReplicaIsMadeWholeFromItsLeader(t *testing.T) {
	rng := random(t)
	table := NewTable("round", "damage", "role", "ended by", "files", "whole again in", "bytes", "acknowledged", "lost", "verdict")
	defer table.Print(os.Stdout)
	const partitions = 3
	c := start(t, 3, harness.Options{})
	topic(t, c, "loop", partitions, "segment.bytes=1048576")
	var files []string
	for round := range *rounds {
		for _, d := range damages {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			file := filepath.Join(t.TempDir(), "acked")
			w, err := workload.StartWriter(workload.WriterOptions{Seeds: c.Bootstrap(), Topic: "loop", Tag: fmt.Sprintf("r%dc%d", round, len(files)),
				File: file, Rate: 500, Size: 5000})
			require.NoError(t, err)
			require.NoError(t, w.WaitAcked(ctx, 500+rng.IntN(500)))
			require.NoError(t, w.Stop(30*time.Second))
			require.Empty(t, w.Errors())
			files = append(files, file)
			quiet := time.Now()
			inSync(t, c, "loop")

			p := rng.IntN(partitions)
			victim := replicaOf(t, c, p, d.leader, rng)
			down := []*harness.Node{victim}
			role := "follower"
			if d.leader {
				role = "leader, all down"
				down = slices.DeleteFunc(slices.Clone(c.Nodes), func(n *harness.Node) bool { return n == victim })
				down = append(down, victim) // stopped last, it leads to the end
			}
			by := "SIGTERM"
			if d.killed {
				by = "SIGKILL"
				eventually(t, 2*quietFor, "a quiet checkpoint interval", func() bool { return time.Since(quiet) > quietFor })
				require.NoError(t, c.Kill(down...))
			} else {
				for _, n := range down {
					require.NoError(t, n.Stop(30*time.Second))
				}
			}
			spoiled := d.do(t, rng, filepath.Join(victim.DataDir(), fmt.Sprintf("loop-%d", p)))
			began := time.Now()
			require.NoError(t, c.Start())
			require.NoError(t, c.WaitReady(ctx, 30*time.Second))
			inSync(t, c, "loop")
			size := sameBytes(t, c, partitions)
			took := time.Since(began)
			v := verify(t, c, "loop", files...)
			table.Add(round, d.what, role, by, spoiled, took, size, v.Acknowledged, v.Lost, v.Verdict)
			require.Equal(t, "ok", v.Verdict, "%+v", v)
			cancel()
		}
	}
}

// replicaOf gives the leader of a partition, or one of its followers.
func replicaOf(t *testing.T, c *harness.Cluster, p int, leader bool, rng *rand.Rand) *harness.Node {
	t.Helper()
	d := describe(t, c, "loop")[p]
	if leader {
		return c.Node(d.Leader)
	}
	followers := slices.DeleteFunc(slices.Clone(d.Replicas), func(id int) bool { return id == d.Leader })
	return c.Node(followers[rng.IntN(len(followers))])
}

// sameBytes waits until the segments of every replica, one after the other, are those of its leader, and gives their
// length.
func sameBytes(t *testing.T, c *harness.Cluster, partitions int) (size int) {
	t.Helper()
	for p := range partitions {
		leader := c.Node(describe(t, c, "loop")[p].Leader)
		want := segments(t, leader, p)
		size += len(want)
		for _, n := range c.Nodes {
			eventually(t, 15*time.Second, fmt.Sprintf("partition %d of node %d has the bytes of node %d", p, n.ID, leader.ID), func() bool {
				return bytes.Equal(want, segments(t, n, p))
			})
		}
	}
	return size
}

func segments(t *testing.T, n *harness.Node, p int) (all []byte) {
	t.Helper()
	names := filesOf(t, filepath.Join(n.DataDir(), fmt.Sprintf("loop-%d", p)), ".log")
	for _, name := range names {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		all = append(all, b...)
	}
	return all
}

// filesOf lists the files of a directory with a suffix, by rising base offset.
func filesOf(t *testing.T, dir, suffix string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	require.NoError(t, err)
	require.NotEmpty(t, names, "files %s of %s", suffix, dir)
	slices.Sort(names)
	return names
}

// cutSegment takes up to 200 bytes off the end of any segment.
func cutSegment(t *testing.T, rng *rand.Rand, dir string) string {
	t.Helper()
	var full []string
	for _, name := range filesOf(t, dir, ".log") {
		if info, err := os.Stat(name); err == nil && info.Size() > cutMost {
			full = append(full, name)
		}
	}
	require.NotEmpty(t, full)
	i := rng.IntN(len(full))
	if rng.IntN(2) == 0 {
		i = len(full) - 1
	}
	info, err := os.Stat(full[i])
	require.NoError(t, err)
	n := 1 + rng.Int64N(cutMost)
	require.NoError(t, os.Truncate(full[i], info.Size()-n))
	return fmt.Sprintf("%d bytes of segment %d of %d", n, i+1, len(full))
}

// eachIndex does something to one or more index files.
func eachIndex(do func(t *testing.T, name string)) func(*testing.T, *rand.Rand, string) string {
	return func(t *testing.T, rng *rand.Rand, dir string) string {
		t.Helper()
		all := append(filesOf(t, dir, ".index"), filesOf(t, dir, ".timeindex")...)
		must := rng.IntN(len(all))
		n := 0
		for i, name := range all {
			if i == must || rng.IntN(2) == 0 {
				do(t, name)
				n++
			}
		}
		return fmt.Sprintf("%d of %d", n, len(all))
	}
}

// zero overwrites a file with as many zeros.
func zero(t *testing.T, name string) {
	t.Helper()
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, make([]byte, info.Size()), 0o644))
}

// swapIndexes exchanges the index files of two segments, or of one segment when there are no two.
func swapIndexes(t *testing.T, rng *rand.Rand, dir string) string {
	t.Helper()
	all := filesOf(t, dir, ".index")
	a, b := all[0], strings.TrimSuffix(all[0], ".index")+".timeindex"
	if len(all) > 1 {
		i := rng.IntN(len(all) - 1)
		a, b = all[i], all[i+1]
	}
	tmp := a + ".swap"
	require.NoError(t, os.Rename(a, tmp))
	require.NoError(t, os.Rename(b, a))
	require.NoError(t, os.Rename(tmp, b))
	return "2 of " + fmt.Sprint(len(all))
}
