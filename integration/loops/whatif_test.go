//go:build integration

package loops

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"cordwood/integration/harness"
)

const (
	commitsWithin = 20 * time.Second // where records are foretold to be safe
	stuckFor      = 5 * time.Second  // where they are not
	whatifNodes   = 5
	tailRecords   = 8
)

// TestWhatIfAgreesWithWhatHappens brings topics of every kind into random states (replicas paused at random, records that
// they lack, records that only the leader has), asks what would become of their records if some nodes were killed, kills
// these, and compares range by range. Each kind of topic in each round is one state.
func TestWhatIfAgreesWithWhatHappens(t *testing.T) {
	rng := random(t)
	table := NewTable("round", "topic", "min in sync", "replicas", "leader", "paused", "killed", "foretold", "happened", "committed again")
	defer table.Print(os.Stdout)
	c := start(t, whatifNodes, harness.Options{RaftSettings: []string{fmt.Sprintf("voters: %d", whatifNodes)}, ClusterSettings: []string{shortSession}})
	states := 0
	for round := range *rounds {
		s := newState(t, c, rng, round)
		s.foretell(t)
		s.kill(t)
		s.heal(t)
		for _, w := range s.topics {
			foretold, happened := w.fates(t, s)
			table.Add(round, w.name, w.min, list(s.replicas), s.leader.ID, list(ids(s.paused)), list(ids(s.killed)), strings.Join(foretold, " "), strings.Join(happened, " "), w.commits)
			require.Equal(t, foretold, happened, "%s (min.insync.replicas %d) with replicas %v, led by node %d, nodes %v paused and %v killed", w.name, w.min, s.replicas, s.leader.ID, ids(s.paused), ids(s.killed))
			states++
		}
	}
	fmt.Printf("%d states, foretold and seen alike\n", states)
}

// state is one random state of a cluster, with a topic of each kind on the same replicas.
type state struct {
	c        *harness.Cluster
	replicas []int
	leader   *harness.Node // of all topics
	paused   []*harness.Node
	killed   []*harness.Node
	topics   []*whatif
}

// whatif is one topic of a state.
type whatif struct {
	commitKind
	name     string
	min      int              // min.insync.replicas
	ids      map[int64]string // by offset, as written
	ends     map[int]int64    // log ends by replica, before the kill
	foretold []safetyRange
	commits  bool // it took a record with acks=all after the kill
	left     map[int64]string
}

func newState(t *testing.T, c *harness.Cluster, rng *rand.Rand, round int) *state {
	t.Helper()
	s := &state{c: c}
	for _, i := range rng.Perm(whatifNodes)[:3] {
		s.replicas = append(s.replicas, i+1)
	}
	s.leader = c.Node(s.replicas[0])
	for _, k := range commitKinds {
		s.topics = append(s.topics, &whatif{commitKind: k, name: fmt.Sprintf("w%d-%s", round, k.name()), min: 1 + rng.IntN(3), ids: map[int64]string{}, ends: map[int]int64{}})
	}
	for _, w := range s.topics {
		assigned(t, c, w.name, [][]int{s.replicas}, append(w.settings(), fmt.Sprintf("min.insync.replicas=%d", w.min))...)
	}
	for _, w := range s.topics {
		seen(t, s.leader, w.name, 30*time.Second, "led by its first replica, all in sync and trusted", func(v viewed) bool {
			return v.leader == s.leader.ID && len(v.isr) == 3 && len(v.untrusted()) == 0
		})
		s.produce(t, w, kgo.AllISRAcks(), 20+rng.IntN(30))
		s.level(t, w)
	}

	// How many followers stand still: none, one that misses what is committed without it, or both, so that what the leader
	// takes is nowhere else.
	followers := []*harness.Node{c.Node(s.replicas[1]), c.Node(s.replicas[2])}
	switch rng.IntN(4) {
	case 0:
	case 1, 2:
		s.paused = followers[rng.IntN(2):][:1]
	case 3:
		s.paused = followers
	}
	for _, n := range s.paused {
		require.NoError(t, n.Pause()) // level with its leader, and nothing is under way
	}
	if len(s.paused) == 2 {
		for _, w := range s.topics {
			s.produce(t, w, kgo.LeaderAck(), tailRecords)
		}
	}
	for _, n := range s.paused {
		fenced(t, s.leader, n, 30*time.Second)
	}
	if len(s.paused) == 1 {
		for _, w := range s.topics {
			acks := kgo.LeaderAck()
			if s.committing(w) {
				acks = kgo.AllISRAcks()
			}
			s.produce(t, w, acks, tailRecords+rng.IntN(20))
		}
	}

	for _, w := range s.topics {
		s.level(t, w)
	}

	// Who dies: some of the replicas that go on, and by chance a node that holds nothing.
	alive := slices.DeleteFunc(slices.Clone(s.replicas), func(id int) bool { return !c.Node(id).Answers() })
	rng.Shuffle(len(alive), func(i, j int) { alive[i], alive[j] = alive[j], alive[i] })
	for _, id := range alive[:1+rng.IntN(len(alive))] {
		s.killed = append(s.killed, c.Node(id))
	}
	if rng.IntN(4) == 0 {
		for _, n := range c.Nodes {
			if !slices.Contains(s.replicas, n.ID) {
				s.killed = append(s.killed, n)
				break
			}
		}
	}
	return s
}

func (s *state) client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(answering(s.c)...), kgo.DialTimeout(time.Second), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(50 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond })}, opts...)...)
	require.NoError(t, err)
	return client
}

// produce writes n records and notes where they are.
func (s *state) produce(t *testing.T, w *whatif, acks kgo.Acks, n int) {
	t.Helper()
	client := s.client(t, kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite(), kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range n { // a batch each, so that a range may end anywhere
		id := fmt.Sprintf("%s-%d", w.name, len(w.ids))
		r, err := client.ProduceSync(ctx, &kgo.Record{Topic: w.name, Value: []byte(id)}).First()
		require.NoError(t, err, w.name)
		require.NotContains(t, w.ids, r.Offset)
		w.ids[r.Offset] = id
	}
}

// level waits until the replicas that go on reach as far as the leader's and what can be committed is, and notes how far. Those of paused nodes stay noted.
func (s *state) level(t *testing.T, w *whatif) {
	t.Helper()
	eventually(t, 20*time.Second, "the replicas of "+w.name+" that go on are level", func() bool {
		level := true
		for _, id := range s.replicas {
			if n := s.c.Node(id); n.Answers() {
				w.ends[id] = int64(metricOf(t, n, fmt.Sprintf(`cordwood_partition_log_end_offset{partition="0",topic="%s"}`, w.name)))
				level = level && w.ends[id] == w.ends[s.leader.ID]
			}
		}
		return level && (!s.committing(w) || w.ends[s.leader.ID] == int64(metricOf(t, s.leader, fmt.Sprintf(`cordwood_partition_high_watermark{partition="0",topic="%s"}`, w.name))))
	})
}

// committing says that the replicas that are not paused are enough for a commit.
func (s *state) committing(w *whatif) bool {
	need := w.min
	if w.rule == "quorum" {
		need = max(need, len(s.replicas)/2+1)
	}
	return len(s.replicas)-len(s.paused) >= need
}

// foretell asks what will become of the records, and checks what is told of the present.
func (s *state) foretell(t *testing.T) {
	t.Helper()
	for _, w := range s.topics {
		p := safety(t, s.c, w.name, ids(s.killed)...)
		require.Len(t, p, 1)
		require.Equal(t, s.leader.ID, p[0].Leader)
		require.Equal(t, w.rule, p[0].Rule)
		w.foretold = p[0].Ranges
		at := int64(0)
		for _, r := range w.foretold {
			require.Equal(t, at, r.From, "ranges follow each other: %+v", w.foretold)
			require.Equal(t, r.End <= p[0].HighWatermark, r.Acknowledged, "%+v below %d", r, p[0].HighWatermark)
			for _, id := range r.Holders {
				require.GreaterOrEqual(t, w.ends[id], r.End, "node %d is said to have %s up to %d", id, w.name, r.End)
			}
			at = r.End
		}
		require.Equal(t, w.ends[s.leader.ID], at, "ranges reach the leader's end: %+v", w.foretold)
	}
}

// kill kills, and sees which topics take records again.
func (s *state) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, s.c.Kill(s.killed...))
	alive := s.c.Answering()
	if len(alive) > whatifNodes/2 { // else the metadata stand still
		for _, n := range s.killed {
			fenced(t, alive[0], n, 30*time.Second)
		}
	}
	errs := make([]error, len(s.topics))
	var wg sync.WaitGroup
	for i, w := range s.topics {
		limit := stuckFor
		if slices.ContainsFunc(w.foretold, func(r safetyRange) bool { return r.IfDown == "safe" }) {
			limit = commitsWithin
		}
		client := s.client(t, kgo.RequiredAcks(kgo.AllISRAcks()), kgo.DisableIdempotentWrite(), kgo.ProduceRequestTimeout(limit))
		wg.Go(func() {
			defer client.Close()
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			errs[i] = client.ProduceSync(ctx, &kgo.Record{Topic: w.name, Value: []byte("probe")}).FirstErr()
		})
	}
	wg.Wait()
	for i, w := range s.topics {
		w.commits = errs[i] == nil
	}
}

// heal brings all nodes back and reads what is left.
func (s *state) heal(t *testing.T) {
	t.Helper()
	for _, n := range s.paused {
		require.NoError(t, n.Resume())
	}
	require.NoError(t, s.c.Start())
	require.NoError(t, s.c.WaitReady(t.Context(), 60*time.Second))
	for _, w := range s.topics {
		seen(t, s.c.Nodes[0], w.name, 60*time.Second, "led, all in sync and trusted", func(v viewed) bool {
			return v.leader >= 0 && len(v.isr) == 3 && len(v.untrusted()) == 0
		})
		w.left = s.read(t, w.name)
	}
}

// read gives the values of a topic's only partition by offset.
func (s *state) read(t *testing.T, topic string) map[int64]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	client := s.client(t, kgo.KeepControlRecords(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	defer client.Close()
	var ends kadm.ListedOffsets
	eventually(t, 30*time.Second, "the end of "+topic+": a new leader does not know it at once", func() bool {
		var err error
		ends, err = kadm.NewClient(client).ListEndOffsets(ctx, topic)
		require.NoError(t, err)
		return !errors.Is(ends.Error(), kerr.OffsetNotAvailable)
	})
	require.NoError(t, ends.Error())
	end, ok := ends.Lookup(topic, 0)
	require.True(t, ok)
	out := map[int64]string{}
	for last := int64(-1); last < end.Offset-1; {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			last = r.Offset
			if !r.Attrs.IsControl() {
				out[r.Offset] = string(r.Value)
			}
		})
	}
	return out
}

// fates gives what was foretold of each range and what became of it.
func (w *whatif) fates(t *testing.T, s *state) (foretold, happened []string) {
	t.Helper()
	for _, r := range w.foretold {
		there, kept := 0, 0
		for offset, id := range w.ids {
			if offset >= r.From && offset < r.End {
				there++
				if w.left[offset] == id {
					kept++
				}
			}
		}
		if r.Acknowledged {
			require.Equal(t, there, kept, "%s lost acknowledged records of %d to %d", w.name, r.From, r.End)
		}
		held := slices.ContainsFunc(s.replicas, func(id int) bool { return !slices.Contains(ids(s.killed), id) && w.ends[id] >= r.End })
		fate := "offline"
		switch {
		case w.commits && kept == there:
			fate = "safe"
		case w.commits, !held:
			fate = "lost"
		}
		foretold = append(foretold, fmt.Sprintf("%d..%d:%s", r.From, r.End-1, r.IfDown))
		happened = append(happened, fmt.Sprintf("%d..%d:%s", r.From, r.End-1, fate))
	}
	return foretold, happened
}
