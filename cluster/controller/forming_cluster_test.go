package controller

import (
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
)

func TestAClusterOfOneFormsAtOnce(t *testing.T) {
	tc := newTestCluster(t, 1, nil)
	tc.nodes[1].start()
	n := tc.awaitController()
	require.NotEmpty(t, n.ctl.Image().ClusterID())
	require.Equal(t, metadata.LatestLevel, n.ctl.Image().Level())
	require.Equal(t, []int32{1}, voterIDs(n.ctl.Quorum()))

	// It comes back as the same cluster.
	id := n.ctl.Image().ClusterID()
	n.stop()
	n.start()
	n = tc.awaitController()
	require.Equal(t, id, n.ctl.Image().ClusterID())
}

func TestThreeNodesFormOneClusterInAnyOrder(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	order := random.Perm(3)
	t.Logf("order %v", order)
	tc := newTestCluster(t, 3, nil)
	for i, at := range order {
		tc.nodes[int32(at)+1].start()
		if i < 2 {
			requireNoFounding(t, tc)
		}
	}
	tc.awaitVoters(1, 2, 3)
	id := tc.awaitController().ctl.Image().ClusterID()
	require.Equal(t, metadata.LatestLevel, tc.awaitController().ctl.Image().Level())
	for _, n := range tc.nodes {
		eventually(t, "all are of one cluster", func() bool { return n.ctl.Image().ClusterID() == id })
	}
}

// A founder of a version that knows level 1 only does not say so. The cluster is founded at its level, and what it could
// not read never reaches the log.
func TestAClusterWithAnOlderFounderKeepsToItsLevel(t *testing.T) {
	tc := newTestCluster(t, 1, nil)
	tc.join = append(tc.join, "n2:7946")
	at := olderNode(t, map[string]any{
		"version": questionVersion, "clusterName": "test", "nodeId": 2, "directoryId": "old", "gossipAddress": "n2:7946", "join": tc.join,
	})
	tc.options = func(o *Options) {
		others := o.Peers
		o.Peers = func() []Peer {
			return append(others(), Peer{NodeID: 2, DirectoryID: "old", RaftAddress: at, Alive: true})
		}
	}
	tc.nodes[1].start()
	n := tc.awaitController()
	require.Equal(t, metadata.MinLevel, n.ctl.Image().Level())
	for _, cmd := range []metadata.Command{
		&metadata.BeginElection{},
		&metadata.AlterTopicConfigs{Topics: []metadata.TopicConfigChange{{Rule: metadata.RuleQuorum}}},
	} {
		res, err := n.ctl.Propose(t.Context(), cmd)
		require.NoError(t, err)
		require.ErrorIs(t, res.Err, metadata.ErrLevel)
		require.Zero(t, res.Index, "it was not appended")
	}
	res, err := n.ctl.Propose(t.Context(), &metadata.AlterTopicConfigs{Topics: []metadata.TopicConfigChange{{MinISR: 1}}})
	require.NoError(t, err)
	require.NoError(t, res.Err)
	require.NotZero(t, res.Index)
}

// olderNode answers direct questions on a raft port, whatever is asked, and nothing else.
func olderNode(t *testing.T, says map[string]any) (address string) {
	l, err := net.Listen("tcp", testAddress())
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(time.Second))
			hello := []byte{0}
			var q question
			if _, err := io.ReadFull(conn, hello); err == nil && hello[0] == helloQuestion && readMessage(conn, &q) == nil {
				_ = writeMessage(conn, says)
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

func TestAWipedNodeComesBackAsAnotherServerAndReplacesItsOldVoter(t *testing.T) {
	tc := newTestCluster(t, 3, nil)
	for _, n := range tc.nodes {
		n.start()
	}
	tc.awaitVoters(1, 2, 3)
	// Wipe one that does not lead.
	leader := tc.awaitController().id
	wiped := tc.nodes[leader%3+1]
	id := tc.awaitController().ctl.Image().ClusterID()
	old := wiped.directoryID
	wiped.kill()
	wiped.wipe()
	require.NotEqual(t, old, wiped.directoryID)
	wiped.start()
	eventually(t, "the wiped node votes from its new directory alone", func() bool {
		n := tc.controller()
		if n == nil {
			return false
		}
		q := n.ctl.Quorum()
		if len(q.Voters) != 3 || len(q.Observers) != 0 {
			return false
		}
		for _, v := range q.Voters {
			if v.ID == wiped.id && v.DirectoryID == wiped.directoryID {
				return true
			}
		}
		return false
	})
	require.Equal(t, id, wiped.ctl.Image().ClusterID())
}

func TestTwoWipedNodesThatStartFirstFoundNoSecondCluster(t *testing.T) {
	tc := newTestCluster(t, 3, nil)
	for _, n := range tc.nodes {
		n.start()
	}
	tc.awaitVoters(1, 2, 3)
	id := tc.awaitController().ctl.Image().ClusterID()
	for _, n := range tc.nodes {
		n.kill()
	}
	for _, wiped := range []int32{1, 2} {
		tc.nodes[wiped].wipe()
		tc.nodes[wiped].start()
	}
	requireNoFounding(t, tc)
	survivor := tc.nodes[3].start()
	eventually(t, "the survivor's metadata is there", func() bool { return survivor.Image().ClusterID() == id || survivor.node.raft.LastIndex() > 0 })
	for _, wiped := range []int32{1, 2} {
		step, why := nextStep(t, tc.nodes[wiped].ctl)
		require.Equal(t, formJoin, step, why)
	}
	for _, wiped := range []int32{1, 2} {
		require.Zero(t, tc.nodes[wiped].ctl.node.raft.LastIndex(), "a wiped node holds no metadata of its own making")
		require.Empty(t, tc.nodes[wiped].ctl.Image().ClusterID())
	}
}

func TestANodeOutsideTheJoinListOnlyJoins(t *testing.T) {
	tc := newTestCluster(t, 2, nil)
	tc.join = tc.join[:1] // node 2 knows the list and is not in it
	tc.nodes[2].start()
	requireNoFounding(t, tc)
	tc.nodes[1].start()
	tc.awaitVoters(1, 2)
}

func TestASecondProcessOnTheStoreIsTurnedAwayWithASentence(t *testing.T) {
	tc := newTestCluster(t, 1, nil)
	first := tc.nodes[1].start()
	opt := first.opt
	opt.RaftBind, opt.Registerer = testAddress(), nil
	second, err := New(opt)
	require.NoError(t, err)
	err = second.Start(t.Context())
	require.ErrorContains(t, err, "in use by another process")
	require.NoError(t, second.Close())
}

func TestADamagedStoreIsRefusedWithASentence(t *testing.T) {
	tc := newTestCluster(t, 1, nil)
	n := tc.nodes[1]
	n.start()
	tc.awaitController()
	n.stop()
	path := raftFiles(n.dir) + "/" + raftFile
	require.NoError(t, os.Truncate(path, 100))
	c, err := New(Options{NodeID: 1, DirectoryID: n.directoryID, DataDir: n.dir, RaftBind: n.raft, RaftAdvertise: n.raft})
	require.NoError(t, err)
	err = c.Start(t.Context())
	require.ErrorContains(t, err, "node reset")
	require.NoError(t, c.Close())
}

// nextStep asks what a node would do now, from real answers of its peers.
func nextStep(t *testing.T, c *Controller) (formingStep, string) {
	answers, seen := c.askPeers(t.Context())
	return decideForming(formingFacts{Self: c.self(), Answers: answers, Seen: seen})
}

// requireNoFounding says that no running node would found a cluster, nor has.
func requireNoFounding(t *testing.T, tc *testCluster) {
	t.Helper()
	for _, n := range tc.nodes {
		if n.ctl == nil {
			continue
		}
		step, why := nextStep(t, n.ctl)
		require.NotEqual(t, formBootstrap, step, why)
		require.Zero(t, n.ctl.node.raft.LastIndex())
	}
	require.Nil(t, tc.controller())
}
