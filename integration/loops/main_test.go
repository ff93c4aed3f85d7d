//go:build integration

package loops

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/integration/harness"
)

var (
	binary = flag.String("binary", "../../bin/cordwood", "the binary under test")
	rounds = flag.Int("rounds", 2, "rounds of each loop")
	seed   = flag.Uint64("seed", 0, "seed of random choices; 0 draws one")
)

func random(t *testing.T) *rand.Rand {
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", s)
	return rand.New(rand.NewPCG(s, 0))
}

// start makes a cluster of n nodes and waits until it is ready.
func start(t *testing.T, n int, opt harness.Options) *harness.Cluster {
	t.Helper()
	c := prepare(t, n, opt)
	require.NoError(t, c.Start())
	require.NoError(t, c.WaitReady(t.Context(), 30*time.Second))
	return c
}

// prepare makes a cluster of n nodes, none of which is started.
func prepare(t *testing.T, n int, opt harness.Options) *harness.Cluster {
	t.Helper()
	opt.Nodes = n
	opt.Pprof = true // for keepLogs
	if opt.Binary == "" {
		opt.Binary = *binary
	}
	if opt.Dir == "" {
		opt.Dir = t.TempDir()
	}
	c, err := harness.New(opt)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			keepLogs(t, c)
		}
		require.NoError(t, c.Close())
	})
	return c
}

// keepLogs copies the nodes' logs out of the test's directory, which is about to go, and what the nodes that answer count
// and do at the moment.
func keepLogs(t *testing.T, c *harness.Cluster) {
	dir, err := os.MkdirTemp("", "cordwood-failed-")
	if err != nil {
		t.Log(err)
		return
	}
	keep := func(n *harness.Node, what string, b []byte, err error) {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("n%d.%s", n.ID, what)), b, 0o644)
		}
		if err != nil {
			t.Logf("%s of node %d is not kept: %v", what, n.ID, err)
		}
	}
	for _, n := range c.Nodes {
		b, err := os.ReadFile(n.LogFile())
		keep(n, "log", b, err)
		if n.Answers() {
			b, err = get(n, "/metrics")
			keep(n, "metrics", b, err)
			b, err = get(n, "/debug/pprof/goroutine?debug=2")
			keep(n, "goroutines", b, err)
		}
		t.Logf("last lines of node %d:\n%s", n.ID, n.LogTail(15))
	}
	t.Logf("logs, metrics and goroutines are in %s", dir)
}

// get asks a node's HTTP address.
func get(n *harness.Node, path string) ([]byte, error) {
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get("http://" + n.HTTP + path)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// cordwood runs the command line against the cluster and gives its standard output; the exit code must be one of ok.
func cordwood(t *testing.T, c *harness.Cluster, ok []int, args ...string) string {
	t.Helper()
	out, said, code := command(t, c, args...)
	require.Contains(t, ok, code, "cordwood %s: %s%s", strings.Join(args, " "), out, said)
	return out
}

// try runs a command that may fail and gives what it said and its exit code.
func try(t *testing.T, c *harness.Cluster, args ...string) (said string, code int) {
	t.Helper()
	out, said, code := command(t, c, args...)
	return out + said, code
}

func command(t *testing.T, c *harness.Cluster, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, *binary, append([]string{"-b", strings.Join(answering(c), ",")}, args...)...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		require.NoError(t, err) // it could not be started
	}
	return string(out), said.String(), cmd.ProcessState.ExitCode()
}

// answering lists the clients' addresses of the nodes that answer, all of them when none does.
func answering(c *harness.Cluster) []string {
	var a []string
	for _, n := range c.Answering() {
		a = append(a, n.External)
	}
	if len(a) == 0 {
		return c.Bootstrap()
	}
	return a
}

// topic makes a topic with three replicas, or as many as there are nodes.
func topic(t *testing.T, c *harness.Cluster, name string, partitions int, settings ...string) {
	t.Helper()
	args := []string{"topic", "create", name, "-p", fmt.Sprint(partitions), "-r", fmt.Sprint(min(3, len(c.Nodes)))}
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	cordwood(t, c, []int{0}, args...)
	known(t, c, name)
}

type verdict struct {
	Acknowledged, Found, Lost, Duplicated, Reordered, UnacknowledgedPresent, Expired int
	Verdict                                                                          string
}

// verify runs `cordwood verify` on what writers noted.
func verify(t *testing.T, c *harness.Cluster, topic string, files ...string) verdict {
	t.Helper()
	return verifyWithin(t, c, 60*time.Second, topic, files...)
}

// verifyWithin bounds each step of verify. Where records are lost, it waits that long for the high watermark to come back
// to them.
func verifyWithin(t *testing.T, c *harness.Cluster, limit time.Duration, topic string, files ...string) verdict {
	t.Helper()
	out := cordwood(t, c, []int{0, 20, 21}, append([]string{"verify", topic, "-o", "json", "--timeout", limit.String()}, files...)...)
	var v verdict
	require.NoError(t, json.Unmarshal([]byte(out), &v), out)
	return v
}

type partitionInfo struct {
	Partition, Leader, LeaderEpoch, PartitionEpoch int
	Replicas, ISR                                  []int
	HighWatermark                                  int64
	LogEndOffsets                                  map[string]int64
}

// describe gives a topic's partitions as the command line tells them.
func describe(t *testing.T, c *harness.Cluster, topic string) []partitionInfo {
	t.Helper()
	out := cordwood(t, c, []int{0}, "topic", "describe", topic, "-o", "json")
	var d struct {
		Topics []struct{ Partitions []partitionInfo }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &d), out)
	require.Len(t, d.Topics, 1)
	return d.Topics[0].Partitions
}

type clusterInfo struct {
	ClusterID  string
	Controller int
	Nodes      []struct {
		ID    int
		State string
		Voter bool
	}
}

func info(t *testing.T, c *harness.Cluster) clusterInfo {
	t.Helper()
	var i clusterInfo
	out := cordwood(t, c, []int{0}, "cluster", "info", "-o", "json")
	require.NoError(t, json.Unmarshal([]byte(out), &i), out)
	return i
}

// eventually waits for a condition, at most for the limit, and says what it waited for. The condition runs in the test's
// goroutine, so it may require.
func eventually(t *testing.T, limit time.Duration, what string, f func() bool) {
	t.Helper()
	timer, tick := time.NewTimer(limit), time.NewTicker(50*time.Millisecond)
	defer timer.Stop()
	defer tick.Stop()
	for !f() {
		select {
		case <-timer.C:
			require.FailNow(t, "not within "+limit.String(), what)
		case <-tick.C:
		}
	}
}

// inSync waits until every partition of the topic has a leader and all its replicas in sync.
func inSync(t *testing.T, c *harness.Cluster, topic string) {
	t.Helper()
	eventually(t, 30*time.Second, "all replicas of "+topic+" in sync", func() bool {
		return !slices.ContainsFunc(describe(t, c, topic), func(p partitionInfo) bool { return p.Leader < 0 || len(p.ISR) != len(p.Replicas) })
	})
}
