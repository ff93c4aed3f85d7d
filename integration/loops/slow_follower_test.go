//go:build integration

package loops

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/integration/harness"
	"cordwood/integration/workload"
)

const (
	healthyFor    = 5 * time.Second
	pausedFor     = 6 * time.Second // longer than a session, so that the fence is in it
	slowRate      = 200             // records a second
	noSlowerThan  = 2.0             // times the healthy p99, under the quorum rule
	shrinksWithin = 20 * time.Second
)

// TestAPausedFollowerDelaysOnlyTheInSyncRule measures acks=all with all replicas well and with one follower paused. A
// majority does not wait for it; the in-sync replicas do, until the leader has made them fewer. The bound is on the median
// of the rounds.
func TestAPausedFollowerDelaysOnlyTheInSyncRule(t *testing.T) {
	random(t)
	table := NewTable("round", "topic", "leader", "paused", "healthy p50", "healthy p99", "paused p50", "paused p99", "paused max", "p99 ratio", "shrunk in", "acknowledged", "verdict")
	defer table.Print(os.Stdout)
	c := start(t, 3, harness.Options{})
	ratios := map[string][]float64{}
	worst := map[string][]time.Duration{}
	var shrinks []time.Duration
	for _, rule := range bothRules {
		topic(t, c, rule, 1, "commit.rule="+rule)
		inSync(t, c, rule)
	}
	files := map[string][]string{}
	for round := range *rounds {
		for _, rule := range bothRules {
			s := slowRound{c: c, rule: rule}
			s.run(t, fmt.Sprintf("%s-r%d", rule, round))
			v := stopped(t, c, rule, s.w, files[rule]...)
			files[rule] = append(files[rule], s.w.File)
			ratio := float64(percentile(s.paused, 0.99)) / float64(percentile(s.healthy, 0.99))
			ratios[rule] = append(ratios[rule], ratio)
			worst[rule] = append(worst[rule], percentile(s.paused, 1))
			shrinks = append(shrinks, s.shrunk)
			table.Add(round, rule, s.leader.ID, s.victim.ID, fine(percentile(s.healthy, 0.5)), fine(percentile(s.healthy, 0.99)), fine(percentile(s.paused, 0.5)),
				fine(percentile(s.paused, 0.99)), fine(percentile(s.paused, 1)), fmt.Sprintf("%.2f", ratio), s.shrunk, v.Acknowledged, v.Verdict)
			require.Equal(t, "ok", v.Verdict, "%+v", v)
		}
	}
	fmt.Printf("p99 of acks=all with a follower paused, times the healthy p99, median of %d rounds: quorum %.2f, isr %.2f\n", *rounds, middle(ratios["quorum"]), middle(ratios["isr"]))
	fmt.Printf("longest acknowledgement: quorum %s; isr %s; the in-sync set shrank after %s\n", Spread(worst["quorum"]), Spread(worst["isr"]), Spread(shrinks))
	require.LessOrEqual(t, middle(ratios["quorum"]), noSlowerThan, "a majority does not wait for a paused follower")
	require.Greater(t, slices.Min(worst["isr"]), time.Second, "the in-sync replicas wait for it until they are fewer")
}

// fine writes a duration with its microseconds.
func fine(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) }

type slowRound struct {
	c    *harness.Cluster
	rule string

	w               *workload.Writer
	leader, victim  *harness.Node
	healthy, paused []time.Duration
	shrunk          time.Duration
}

func (s *slowRound) run(t *testing.T, tag string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	inSync(t, s.c, s.rule)
	controller := info(t, s.c).Controller
	d := describe(t, s.c, s.rule)[0]
	s.leader = s.c.Node(d.Leader)
	for _, n := range s.c.Nodes {
		if n != s.leader && (s.victim == nil || s.victim.ID == controller) {
			s.victim = n // the controller only where there is no other
		}
	}
	s.w = write(t, s.c, s.rule, tag, slowRate)
	require.NoError(t, s.w.WaitAcked(ctx, 2*slowRate), "connections and caches are warm")
	s.healthy = s.window(t, healthyFor, nil)

	from := time.Now()
	require.NoError(t, s.victim.Pause())
	s.paused = s.window(t, pausedFor, func() bool {
		all, err := look(ctx, s.leader, s.rule)
		out := err == nil && len(all) == 1 && !slices.Contains(all[0].isr, s.victim.ID)
		if out && s.shrunk == 0 {
			s.shrunk = time.Since(from)
		}
		return out
	})
	require.NoError(t, s.victim.Resume())
	inSync(t, s.c, s.rule)
}

// window measures what is sent from now on: for a time, and until a condition holds if there is one.
func (s *slowRound) window(t *testing.T, length time.Duration, until func() bool) []time.Duration {
	t.Helper()
	from := time.Now()
	eventually(t, length+shrinksWithin, "the time of the measure", func() bool {
		return (until == nil || until()) && time.Since(from) > length
	})
	to := time.Now()
	want := s.w.Acked() + 1
	eventually(t, 30*time.Second, "what was sent in the measure is acknowledged", func() bool { return s.w.Acked() > want && s.w.Under(to) == 0 })
	return s.w.Times(from, to)
}
