//go:build integration && linux

package nemesis

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"cordwood/integration/harness"
	"cordwood/integration/history"
	"cordwood/integration/workload"
)

var (
	binary = flag.String("binary", "../../bin/cordwood", "the binary under test")
	seed   = flag.Uint64("seed", 0, "seed of random choices; 0 draws one")
	size   = flag.Int("nodes", 5, "nodes of schedules")
	long   = flag.Duration("for", time.Minute, "how long schedules run")
)

const (
	shortSession = 2 * time.Second
	wholeWithin  = 60 * time.Second
)

// realTopics are the tested topics by name, with their settings.
var realTopics = map[string][]string{
	"isr":    {"commit.rule=isr"},
	"quorum": {"commit.rule=quorum"},
	"synced": {"commit.rule=isr", "commit.durability=disk"},
}

// real is a cluster of child processes with writers to each topic.
type real struct {
	c       *harness.Cluster
	p       *Processes
	site    *Site
	writers map[string]*workload.Writer
	seed    uint64
}

func newReal(t *testing.T, nodes int) *real {
	t.Helper()
	r := &real{writers: map[string]*workload.Writer{}, seed: *seed}
	if r.seed == 0 {
		r.seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", r.seed)
	c, err := harness.New(harness.Options{Binary: *binary, Nodes: nodes, Dir: t.TempDir(), Edges: &harness.EdgeOptions{Seed: r.seed},
		ClusterSettings: []string{"session_timeout: " + shortSession.String()},
		RaftSettings:    []string{"snapshot_threshold: 16", "snapshot_interval: 2s"}})
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			dir, err := os.MkdirTemp("", "cordwood-nemesis-")
			require.NoError(t, err)
			for _, n := range c.Nodes {
				b, err := os.ReadFile(n.LogFile())
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("n%d.log", n.ID)), b, 0o644))
			}
			t.Logf("logs are in %s", dir)
		}
		require.NoError(t, c.Close())
	})
	require.NoError(t, c.Start())
	require.NoError(t, c.WaitReady(t.Context(), wholeWithin))
	r.c, r.p = c, NewProcesses(c)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...))
	require.NoError(t, err)
	defer client.Close()
	admin := kadm.NewClient(client)
	var names []string
	for name, settings := range realTopics {
		configs := map[string]*string{}
		for _, s := range settings {
			k, v, _ := strings.Cut(s, "=")
			configs[k] = &v
		}
		_, err := admin.CreateTopic(t.Context(), 3, 3, configs, name)
		require.NoError(t, err)
		names = append(names, name)
	}
	r.site = NewSite(r.p, Options{Topics: names, Session: shortSession, Lag: 2 * time.Second})
	r.whole(t)
	for _, name := range names {
		w, err := workload.StartWriter(workload.WriterOptions{Seeds: c.Bootstrap(), Topic: name, Tag: name, File: filepath.Join(t.TempDir(), name), Rate: 100, Size: 200})
		require.NoError(t, err)
		r.writers[name] = w
	}
	r.acked(t, 50)
	return r
}

// whole waits until everything is.
func (r *real) whole(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wholeWithin)
	defer cancel()
	soon, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	err := r.site.Settle(soon)
	if err != nil {
		t.Logf("not whole after 4 s: %v", err)
		err = r.site.Settle(ctx)
	}
	require.NoError(t, err)
}

// acked waits until every writer got so many acknowledgements more.
func (r *real) acked(t *testing.T, more int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wholeWithin)
	defer cancel()
	for name, w := range r.writers {
		require.NoError(t, w.WaitAcked(ctx, more), name)
	}
}

// verified ends the writers and requires that all they were told is there.
func (r *real) verified(t *testing.T) {
	t.Helper()
	for name, w := range r.writers {
		require.NoError(t, w.Stop(wholeWithin), name)
		out, err := exec.CommandContext(t.Context(), *binary, "-b", strings.Join(r.c.Bootstrap(), ","), "verify", name, "-o", "json", w.File).Output()
		var v struct{ Verdict string }
		require.NoError(t, json.Unmarshal(out, &v), "%s: %v", out, err)
		require.Equal(t, "ok", v.Verdict, "%s: %s", name, out)
	}
}

// done does one fault, waits for what it must bring about, heals it and waits until all is whole and written to.
func (r *real) done(t *testing.T, name string, effect func(nodes []int, v View) error) {
	t.Helper()
	n, err := r.site.Nemesis(name)
	require.NoError(t, err)
	require.NoError(t, n.Check())
	r.seed++
	rng := seeded(r.seed)
	ctx, cancel := context.WithTimeout(t.Context(), 2*wholeWithin)
	defer cancel()
	began := time.Now()
	nodes, what, err := n.Start(ctx, rng)
	require.NoError(t, err, "%s: %s", name, what)
	started := time.Since(began)
	bounded, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if effect != nil {
		require.NoError(t, eventually(bounded, func() error { return effect(nodes, r.view(bounded, nodes)) }), "%s: %s", name, what)
	}
	seen := time.Since(began)
	require.NoError(t, eventually(ctx, func() error { return n.Heal(ctx) }), "%s: %s", name, what)
	healed := time.Since(began)
	require.NoError(t, n.Heal(ctx), "%s: %s", name, what)
	r.whole(t)
	whole := time.Since(began)
	r.acked(t, 20)
	t.Logf("%s: %s; started in %v, seen after %v, healed after %v, whole after %v, written to after %v", name, what, started.Round(time.Millisecond), seen.Round(time.Millisecond),
		healed.Round(time.Millisecond), whole.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
}

// heldBack says that something was held or lost on each edge that is cut.
func (r *real) heldBack([]int, View) error {
	cuts := 0
	for _, s := range r.c.Edges.State() {
		if !s.Cut {
			continue
		}
		cuts++
		if s.Held == 0 && s.Dropped == 0 {
			return fmt.Errorf("nothing is missed from %d to %d", s.From, s.To)
		}
	}
	if cuts == 0 {
		return errors.New("nothing is cut")
	}
	return nil
}

// view is how the first node that answers and was not hit sees things; empty when none does.
func (r *real) view(ctx context.Context, hit []int) View {
	for _, n := range r.c.Answering() {
		if !slices.Contains(hit, n.ID) {
			if v, err := Look(ctx, n.External); err == nil {
				return v
			}
		}
	}
	return View{}
}

// fenced says that all these nodes are in no session.
func fenced(nodes []int, v View) error {
	for _, id := range nodes {
		i := slices.IndexFunc(v.Nodes, func(m Member) bool { return m.ID == id })
		if i < 0 || !v.Nodes[i].Fenced {
			return fmt.Errorf("node %d is in session", id)
		}
		if slices.Contains(v.leaders(nil), id) {
			return fmt.Errorf("node %d leads", id)
		}
	}
	return nil
}

// notLeading says that all tested partitions are led, and not by these nodes.
func notLeading(nodes []int, v View) error {
	if len(v.Partitions) == 0 {
		return errors.New("nobody answers")
	}
	for _, p := range v.Partitions {
		if p.Leader < 0 || slices.Contains(nodes, p.Leader) {
			return fmt.Errorf("%s/%d is led by %d", p.Topic, p.ID, p.Leader)
		}
	}
	return nil
}

// down says that nodes do not run.
func down(r *real) func([]int, View) error {
	return func(nodes []int, _ View) error {
		for _, id := range nodes {
			if r.p.Running(id) {
				return fmt.Errorf("node %d runs", id)
			}
		}
		return nil
	}
}

func TestProcessFaultsOnRealNodes(t *testing.T) {
	r := newReal(t, 3)
	r.done(t, "kill", down(r))
	r.done(t, "killall", down(r))
	r.done(t, "pause", nil) // a short one is over
	r.done(t, "restart", nil)
	r.verified(t)
}

func TestNetworkFaultsOnRealNodes(t *testing.T) {
	r := newReal(t, 5)
	r.done(t, "isolate", fenced)
	r.done(t, "halves", fenced)
	r.done(t, "ring", r.heldBack)
	r.done(t, "bridge", r.heldBack)
	r.done(t, "oneway", r.heldBack)
	r.done(t, "primaries", r.heldBack)
	r.done(t, "uncontrolled", fenced)
	r.done(t, "slowlink", func([]int, View) error {
		for _, s := range r.c.Edges.State() {
			if s.Delay > 0 && s.Changed > 0 {
				return nil
			}
		}
		return errors.New("nothing was late")
	})
	r.done(t, "loss", func([]int, View) error {
		for _, s := range r.c.Edges.State() {
			if s.Loss > 0 && s.Dropped > 0 {
				return nil
			}
		}
		return errors.New("nothing was lost")
	})
	r.verified(t)
}

// TestOneWayIsNoticed cuts what one node sends, and then what it hears: it is fenced either way.
func TestANodeThatIsCutOneWayIsFenced(t *testing.T) {
	r := newReal(t, 3)
	for _, way := range []string{"says", "hears"} {
		for _, o := range []int{2, 3} {
			x := [2]int{1, o}
			if way == "hears" {
				x = [2]int{o, 1}
			}
			require.NoError(t, r.c.Edges.Cut(x[0], x[1]))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		require.NoError(t, eventually(ctx, func() error { return fenced([]int{1}, r.view(ctx, []int{1})) }), "what node 1 %s is cut", way)
		cancel()
		r.acked(t, 20)
		r.c.Edges.Heal()
		r.whole(t)
	}
	r.verified(t)
}

func TestDiskFaultsOnRealNodes(t *testing.T) {
	r := newReal(t, 3)
	r.done(t, "full", notLeading)
	r.done(t, "slowdisk", nil)
	r.done(t, "power", down(r))
	r.done(t, "eio", notLeading)
	r.done(t, "bitflip", nil)
	r.done(t, "truncate", nil)
	r.done(t, "indexrot", nil)
	r.done(t, "amnesia", nil)
	r.verified(t)
}

// TestClockFaultsOnRealNodes sees that nodes go by the clocks that they are given, and that nothing is lost by it.
func TestClockFaultsOnRealNodes(t *testing.T) {
	r := newReal(t, 3)
	client, err := kgo.NewClient(kgo.SeedBrokers(r.c.Bootstrap()...), kgo.ConsumeTopics("told"))
	require.NoError(t, err)
	defer client.Close()
	appendTime := "LogAppendTime"
	_, err = kadm.NewClient(client).CreateTopic(t.Context(), 1, 3, map[string]*string{"message.timestamp.type": &appendTime}, "told")
	require.NoError(t, err)
	const ahead = 5 * time.Hour
	for _, n := range r.c.Nodes {
		require.NoError(t, n.SetClock(ahead))
	}
	require.Eventually(t, func() bool {
		if client.ProduceSync(t.Context(), &kgo.Record{Topic: "told", Value: []byte("x")}).FirstErr() != nil {
			return false
		}
		got := client.PollFetches(t.Context()).Records()
		return len(got) > 0 && (time.Until(got[len(got)-1].Timestamp)-ahead).Abs() < time.Minute
	}, wholeWithin, 50*time.Millisecond, "a record's time is its leader's")
	for _, n := range r.c.Nodes {
		require.NoError(t, n.SetClock(0))
	}
	r.done(t, "jump", nil)
	r.done(t, "strobe", nil)
	r.done(t, "jump", nil)
	r.verified(t)
}

func TestMetadataFaultsOnRealNodes(t *testing.T) {
	r := newReal(t, 3)
	require.Eventually(t, func() bool {
		for _, n := range r.c.Nodes {
			if s, err := snapshotsIn(n.DataDir()); err != nil || len(s) == 0 {
				return false
			}
		}
		return true
	}, wholeWithin, 50*time.Millisecond, "each node has a snapshot")
	r.done(t, "snapshot", nil)
	for range 3 {
		r.done(t, "checkpoints", nil)
		r.done(t, "raftstore", nil)
	}
	r.verified(t)
}

func TestMembershipFaultsOnRealNodes(t *testing.T) {
	r := newReal(t, 4)
	r.done(t, "elect", nil)
	r.done(t, "rule", func(_ []int, v View) error {
		for _, p := range v.Partitions {
			if r, _, _ := strings.Cut(strings.TrimPrefix(realTopics[p.Topic][0], "commit.rule="), ","); p.Rule != r || p.Changing {
				return nil
			}
		}
		return errors.New("no rule was changed")
	})
	r.done(t, "reassign", func(nodes []int, v View) error {
		for _, p := range v.Partitions {
			if !slices.Contains(p.Replicas, nodes[0]) && slices.Contains(p.Replicas, nodes[1]) && !p.Changing {
				return nil
			}
		}
		return errors.New("nothing was moved")
	})
	r.done(t, "wipe", nil)
	r.done(t, "replace", func(nodes []int, v View) error {
		for _, p := range v.Partitions {
			if slices.Contains(p.Replicas, nodes[0]) {
				return fmt.Errorf("node %d holds %s/%d", nodes[0], p.Topic, p.ID)
			}
		}
		return nil
	})
	r.verified(t)
}

// TestAScheduleOfAllFaultsOnRealNodes runs all faults for a while; afterwards everything is whole and nothing is lost.
func TestAScheduleOfAllFaultsOnRealNodes(t *testing.T) {
	r := newReal(t, *size)
	all, err := Parse("all")
	require.NoError(t, err)
	classes := map[string]int{}
	s, err := NewSchedule(r.site, all, ScheduleOptions{Seed: r.seed, Faults: 5 * time.Second, Quiet: 5 * time.Second, Began: time.Now(), Ended: func(f history.Fault) {
		t.Logf("%v to %v: %s: %s %s", f.Start.Round(time.Second), f.End.Round(time.Second), f.Name, f.What, f.Failed)
		require.Empty(t, f.Failed)
		classes[ClassOf(f.Name)]++
	}})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), *long)
	defer cancel()
	require.NoError(t, s.Run(ctx))
	r.whole(t)
	r.acked(t, 50)
	r.verified(t)
	t.Logf("faults by class: %v", classes)
}
