//go:build integration && linux

package torture

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"cordwood/integration/nemesis"
)

// TestALeaderThatIsCutOffMakesNobodyForgetItsPosition: a leader that does not know yet that another one has taken over lacks
// what that one committed. A client that goes on there from behind must not be told that its offset is out of range: it would
// begin anew at the start of the log.
func TestALeaderThatIsCutOffMakesNobodyForgetItsPosition(t *testing.T) {
	const topic, most = "t", time.Minute
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	p, err := NewProcesses(ProcessOptions{Binary: *binaryFlag, Dir: t.TempDir(), Nodes: 3, Seed: seed})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 3*most)
	defer cancel()
	require.NoError(t, p.Start(ctx))
	client := func(seeds []string, more ...kgo.Opt) *kgo.Client {
		t.Helper()
		c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(seeds...), kgo.MetadataMinAge(50 * time.Millisecond)}, more...)...)
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	}
	send := func(c *kgo.Client, n int) (last int64) {
		t.Helper()
		for i := range n {
			r := c.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: fmt.Append(nil, i)})
			require.NoError(t, r.FirstErr())
			last = r[0].Record.Offset
		}
		return last
	}
	writer := client(p.Bootstrap())
	minISR := "2"
	_, err = kadm.NewClient(writer).CreateTopic(ctx, 1, 3, map[string]*string{"min.insync.replicas": &minISR}, topic)
	require.NoError(t, err)
	require.NoError(t, p.Settled(ctx))
	send(writer, 10)

	view, err := p.Nemesis().View(ctx)
	require.NoError(t, err)
	at := led(view, topic)
	require.Positive(t, at)
	var rest []string
	cut := time.Now()
	for _, n := range p.Nodes {
		if n.ID != at {
			rest = append(rest, n.External)
			require.NoError(t, p.Edges.Cut(at, n.ID))
			require.NoError(t, p.Edges.Cut(n.ID, at))
		}
	}
	require.Eventually(t, func() bool {
		v, err := nemesis.Look(ctx, rest[0])
		now := led(v, topic)
		return err == nil && now > 0 && now != at
	}, most, 20*time.Millisecond, "another one leads")
	t.Logf("node %d led, node %d was the controller, another one leads after %v", at, view.Controller, time.Since(cut).Round(10*time.Millisecond))
	last := send(client(rest), 20)

	// Whoever asks the one that is cut off alone gets nothing there, and certainly nothing from the start.
	reader := client([]string{p.Node(at).External}, kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(last + 1)}}))
	lonely, end := context.WithTimeout(ctx, 3*time.Second)
	defer end()
	got := reader.PollFetches(lonely)
	got.EachRecord(func(r *kgo.Record) { t.Errorf("read offset %d, the position was %d", r.Offset, last+1) })
	require.ErrorIs(t, lonely.Err(), context.DeadlineExceeded)

	p.Edges.Heal()
	require.NoError(t, p.Settled(ctx))
	next := send(writer, 1)
	require.Equal(t, last+1, next)
	first := reader.PollFetches(ctx).Records()
	require.NotEmpty(t, first)
	require.Equal(t, next, first[0].Offset, "it goes on where it was")
}

// led is the node that leads partition 0 of a topic, -1: nobody is known to.
func led(v nemesis.View, topic string) int {
	for _, p := range v.Partitions {
		if p.Topic == topic && p.ID == 0 {
			return p.Leader
		}
	}
	return -1
}
