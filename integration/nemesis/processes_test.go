package nemesis

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/integration/harness"
)

func TestWhatAClusterHasNoWayForIsNotOffered(t *testing.T) {
	p := NewProcesses(&harness.Cluster{Nodes: []*harness.Node{{ID: 1}, {ID: 2}, {ID: 3}}})
	require.Nil(t, p.Edges())
	require.Nil(t, p.Disks(), "no dev_mode")
	s := NewSite(p, Options{})
	for _, k := range Kinds() {
		n, err := s.Nemesis(k.Name)
		require.NoError(t, err)
		if k.Class == "network" || k.Class == "disk" || k.Class == "clock" || k.Name == "wipe" {
			require.ErrorIs(t, n.Check(), ErrCannot, k.Name)
		}
	}
	p.c.Dev = true
	require.NotNil(t, p.Disks())
	require.Error(t, p.Kill(t.Context(), 4))
	_, err := p.View(t.Context())
	require.ErrorIs(t, err, errNobody)
}

func TestAPartitionIsSettledOnceAllAreInSyncAndCertified(t *testing.T) {
	describe := func(info *metadata.PartitionInfo) *kmsg.DescribeTopicPartitionsResponseTopicPartition {
		p := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		p.Partition, p.LeaderID, p.Replicas, p.ISR = 4, 2, []int32{1, 2, 3}, []int32{1, 2, 3}
		if info != nil {
			p.UnknownTags.Set(metadata.TagPartitionInfo, info.Encode())
		}
		return &p
	}
	nodes := []int{1, 2, 3}
	unsettled := func(t *testing.T, p *kmsg.DescribeTopicPartitionsResponseTopicPartition) error {
		t.Helper()
		seen, err := partitionOf("t", false, p)
		require.NoError(t, err)
		return View{Nodes: []Member{{ID: 1}, {ID: 2}, {ID: 3}}, Partitions: []Partition{seen}}.Unsettled(nodes)
	}
	whole := metadata.PartitionInfo{Rule: "isr", Durability: "memory", Trusted: []int32{3, 1, 2}}
	require.NoError(t, unsettled(t, describe(&whole)))
	require.NoError(t, unsettled(t, describe(nil)), "another broker tells no more")

	forgot := whole
	forgot.Trusted = []int32{1, 2}
	require.ErrorContains(t, unsettled(t, describe(&forgot)), "node 3 is not certified in t/4")
	moving := whole
	moving.Adding = []int32{4}
	require.ErrorContains(t, unsettled(t, describe(&moving)), "being changed")
	behind := describe(&whole)
	behind.ISR = []int32{1, 2}
	require.ErrorContains(t, unsettled(t, behind), "node 3 is not in sync in t/4")
	headless := describe(&whole)
	headless.LeaderID = -1
	require.ErrorContains(t, unsettled(t, headless), "nobody leads t/4")
	broken := describe(nil)
	broken.UnknownTags.Set(metadata.TagPartitionInfo, []byte{99})
	_, err := partitionOf("t", false, broken)
	require.Error(t, err)

	require.ErrorContains(t, View{Nodes: []Member{{ID: 1}, {ID: 2, Fenced: true}, {ID: 3}}}.Unsettled(nodes), "node 2 is in no session")
	require.ErrorContains(t, View{Nodes: []Member{{ID: 1}, {ID: 2}}}.Unsettled(nodes), "node 3 is in no session")
}

func TestAWipedVoterIsWaitedFor(t *testing.T) {
	var w Whole
	v := View{Nodes: []Member{{ID: 1, Voter: true}, {ID: 2, Voter: true}}}
	require.NoError(t, w.unsettled(v, []int{1, 2}))
	v.Nodes[1].Voter = false
	require.ErrorContains(t, w.unsettled(v, []int{1, 2}), "1 of 2 nodes vote")
	v.Nodes[1].Voter = true
	require.NoError(t, w.unsettled(v, []int{1, 2}))
}
