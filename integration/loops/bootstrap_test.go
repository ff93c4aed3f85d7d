//go:build integration

package loops

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/integration/harness"
	"cordwood/integration/workload"
)

// TestOneClusterWhateverOrderAndWhoeverIsWiped starts five nodes in any order, wipes one under way, and then, with all
// stopped, wipes two that start before the rest: there is one cluster with one id, founded once, and no topic is lost.
func TestOneClusterWhateverOrderAndWhoeverIsWiped(t *testing.T) {
	rng := random(t)
	table := NewTable("round", "voters", "order", "founded by", "ready in", "wiped", "non-voter first", "votes again in", "wiped first", "all in sync in", "cluster ids", "verdict")
	defer table.Print(os.Stdout)
	for round := range *rounds {
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		votes := 3 + round%2*2
		c := prepare(t, 5, harness.Options{RaftSettings: []string{fmt.Sprintf("voters: %d", votes)}})
		b := bootstrap{c: c, ctx: ctx, votes: votes}

		order := rng.Perm(5)
		began := time.Now()
		for _, i := range order {
			require.NoError(t, c.Nodes[i].Start())
		}
		require.NoError(t, c.WaitReady(ctx, 60*time.Second))
		ready := time.Since(began)
		b.id = info(t, c).ClusterID
		b.voters(t, "all votes given", func([]voter) bool { return true })
		topic(t, c, "loop", 5)
		file := filepath.Join(t.TempDir(), "acked")
		w, err := workload.StartWriter(workload.WriterOptions{Seeds: c.Bootstrap(), Topic: "loop", Tag: fmt.Sprintf("r%d", round), File: file, Rate: 300, Size: 200})
		require.NoError(t, err)
		require.NoError(t, w.WaitAcked(ctx, 300))
		inSync(t, c, "loop")

		// One voter is wiped while the others go on.
		all := b.voters(t, "all votes given", func([]voter) bool { return true })
		wiped := c.Node(all[rng.IntN(votes)].id)
		mark := markLogs(t, c)
		require.NoError(t, wiped.Kill())
		old := b.directoryOf(t, wiped, all)
		require.NoError(t, wiped.Wipe())
		began = time.Now()
		require.NoError(t, wiped.Start())
		require.NoError(t, wiped.WaitReady(ctx))
		b.voters(t, "the wiped voter from its new directory, and not from the old one", func(voters []voter) bool {
			return slices.ContainsFunc(voters, func(v voter) bool { return v.id == wiped.ID && v.directory != old }) &&
				!slices.ContainsFunc(voters, func(v voter) bool { return v.directory == old })
		})
		again := time.Since(began)
		b.nonVoterFirst(t, logsSince(t, c, mark), wiped)
		inSync(t, c, "loop")
		require.NoError(t, w.WaitAcked(ctx, 100))
		require.NoError(t, w.Stop(60*time.Second))
		require.Empty(t, w.Errors())

		// All are stopped; two are wiped and start before the rest. One replica of each partition is left.
		first := b.twoToWipe(t, rng.Perm(5))
		for _, n := range c.Nodes {
			require.NoError(t, n.Stop(30*time.Second))
		}
		mark = markLogs(t, c)
		for _, n := range first {
			require.NoError(t, n.Wipe())
			require.NoError(t, n.Start())
		}
		b.aloneTheyWait(t, first, mark)
		began = time.Now()
		require.NoError(t, c.Start())
		require.NoError(t, c.WaitReady(ctx, 60*time.Second))
		inSync(t, c, "loop")
		whole := time.Since(began)
		founded, by := b.foundings(t)
		require.Equal(t, 1, founded, "no second bootstrap")
		v := verify(t, c, "loop", file)
		require.Equal(t, "ok", v.Verdict, "%+v", v)
		clusters := b.clusterIDs(t)
		require.Equal(t, []string{b.id}, clusters)
		for i := range order {
			order[i]++
		}
		table.Add(round, votes, fmt.Sprint(order), by, ready, wiped.ID, "yes", again, ids(first), whole, len(clusters), v.Verdict)
		require.NoError(t, c.Close())
		cancel()
	}
}

// bootstrap is one round.
type bootstrap struct {
	c   *harness.Cluster
	ctx context.Context
	id  string // of the cluster

	votes int // raft.voters
}

type voter struct {
	id        int
	directory [16]byte
}

// voters waits until the raft voters, as any node tells them, are as wanted.
func (b *bootstrap) voters(t *testing.T, what string, want func([]voter) bool) (got []voter) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.c.Bootstrap()...))
	require.NoError(t, err)
	defer client.Close()
	eventually(t, 30*time.Second, what, func() bool {
		got, err = askVoters(b.ctx, client)
		return err == nil && len(got) == b.votes && want(got)
	})
	return got
}

func askVoters(ctx context.Context, client *kgo.Client) (voters []voter, err error) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	rt := kmsg.NewDescribeQuorumRequestTopic()
	rt.Topic = "__cluster_metadata"
	rt.Partitions = append(rt.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, rt)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		return nil, fmt.Errorf("quorum not described: %+v", resp)
	}
	for _, v := range resp.Topics[0].Partitions[0].CurrentVoters {
		voters = append(voters, voter{int(v.ReplicaID), v.ReplicaDirectoryID})
	}
	return voters, nil
}

func (b *bootstrap) directoryOf(t *testing.T, n *harness.Node, voters []voter) [16]byte {
	t.Helper()
	i := slices.IndexFunc(voters, func(v voter) bool { return v.id == n.ID })
	require.GreaterOrEqual(t, i, 0)
	return voters[i].directory
}

// nonVoterFirst reads the changes of raft's membership: the wiped node comes in without a vote, gets one, and only then
// its old self leaves.
func (b *bootstrap) nonVoterFirst(t *testing.T, lines []logLine, wiped *harness.Node) {
	t.Helper()
	var changes []string
	for _, l := range lines {
		if l.Msg == "raft's membership changed" && strings.HasPrefix(l.Server, fmt.Sprintf("%d.", wiped.ID)) {
			changes = append(changes, l.Why)
		}
	}
	require.Equal(t, []string{"it came in", "the node's old voter is of another directory", "the node votes from another directory now"}, changes)
}

// twoToWipe gives two nodes that leave a majority of the voters.
func (b *bootstrap) twoToWipe(t *testing.T, order []int) []*harness.Node {
	t.Helper()
	votes := map[int]bool{}
	for _, v := range b.voters(t, "all votes given", func([]voter) bool { return true }) {
		votes[v.id] = true
	}
	var out []*harness.Node
	voters := 0
	for _, i := range order {
		n := b.c.Nodes[i]
		if votes[n.ID] {
			if voters == b.votes/2 {
				continue
			}
			voters++
		}
		if out = append(out, n); len(out) == 2 {
			return out
		}
	}
	t.Fatal("no two of five nodes leave a majority of the voters")
	return nil
}

// aloneTheyWait: wiped nodes without the others found nothing. They say that they wait.
func (b *bootstrap) aloneTheyWait(t *testing.T, nodes []*harness.Node, mark logMark) {
	t.Helper()
	for _, n := range nodes {
		eventually(t, 10*time.Second, fmt.Sprintf("node %d waits", n.ID), func() bool {
			return slices.ContainsFunc(logsSince(t, b.c, mark), func(l logLine) bool { return l.from == n && l.Msg == "waiting for a cluster" })
		})
		require.False(t, n.Ready(b.ctx))
	}
}

// foundings counts how often any node founded a cluster.
func (b *bootstrap) foundings(t *testing.T) (n, by int) {
	t.Helper()
	for _, l := range logsSince(t, b.c, nil) {
		if l.Msg == "founding the cluster" {
			n++
			by = l.from.ID
		}
	}
	return n, by
}

// clusterIDs gives the cluster ids that the nodes tell, each asked by itself.
func (b *bootstrap) clusterIDs(t *testing.T) []string {
	t.Helper()
	var ids []string
	for _, n := range b.c.Nodes {
		one := &harness.Cluster{Nodes: []*harness.Node{n}}
		ids = append(ids, info(t, one).ClusterID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
