package controller

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAClusterIsFoundedAtALevelThatAllOfItsFoundersKnow(t *testing.T) {
	node := func(gossip string, level int32) answer {
		return answer{GossipAddress: gossip, Join: []string{"n1:1", "n2:1", "n3:1", "n1:1"}, MaxLevel: level}
	}
	self := node("n1:1", 3)
	for _, c := range []struct {
		name    string
		self    answer
		answers []answer
		want    int32
	}{
		{"all know it", self, []answer{node("n2:1", 3), node("n3:1", 4)}, 3},
		{"one knows less", self, []answer{node("n2:1", 3), node("n3:1", 2)}, 2},
		{"one does not say", self, []answer{node("n2:1", 3), node("n3:1", 0)}, 1},
		{"one has not answered", self, []answer{node("n2:1", 3)}, 1},
		{"an outsider knows less", self, []answer{node("n2:1", 3), node("n3:1", 3), node("n9:1", 1)}, 3},
		{"alone in the list", answer{GossipAddress: "n1:1", Join: []string{"n1:1"}, MaxLevel: 3}, nil, 3},
		{"no list", answer{GossipAddress: "n1:1", MaxLevel: 3}, []answer{node("n2:1", 1)}, 3},
	} {
		require.Equal(t, c.want, foundingLevel(c.self, c.answers), c.name)
	}
	var old answer
	require.NoError(t, json.Unmarshal([]byte(`{"version":1,"gossipAddress":"n3:1"}`), &old))
	require.EqualValues(t, 1, foundingLevel(self, []answer{node("n2:1", 3), old}), "a binary before levels were told")
}

func TestOnlyTheSmallestOfACompleteJoinListFoundsTheCluster(t *testing.T) {
	join := []string{"n1:1", "n2:1", "n3:1"}
	node := func(id int32, gossip string) answer {
		return answer{NodeID: id, DirectoryID: gossip, GossipAddress: gossip, Join: join}
	}
	n1, n2, n3 := node(1, "n1:1"), node(2, "n2:1"), node(3, "n3:1")
	with := func(a answer, change func(*answer)) answer { change(&a); return a }
	cases := []struct {
		name  string
		facts formingFacts
		want  formingStep
	}{
		{"all answered, smallest", formingFacts{Self: n1, Answers: []answer{n2, n3}}, formBootstrap},
		{"all answered, not smallest", formingFacts{Self: n2, Answers: []answer{n1, n3}}, formWait},
		{"the list in another order", formingFacts{Self: n1, Answers: []answer{n3, with(n2, func(a *answer) { a.Join = []string{"n3:1", "n1:1", "n2:1", "n1:1"} })}}, formBootstrap},
		{"one has not answered", formingFacts{Self: n1, Answers: []answer{n2}}, formWait},
		{"nobody has answered", formingFacts{Self: n1}, formWait},
		{"another list", formingFacts{Self: n1, Answers: []answer{n2, with(n3, func(a *answer) { a.Join = join[:2] })}}, formConflict},
		{"two with one id", formingFacts{Self: n1, Answers: []answer{n2, node(2, "n3:1")}}, formConflict},
		{"two at one address", formingFacts{Self: n1, Answers: []answer{n2, n3, with(n3, func(a *answer) { a.DirectoryID = "x" })}}, formConflict},
		{"a peer has a cluster", formingFacts{Self: n1, Answers: []answer{n2, with(n3, func(a *answer) { a.ClusterID = "c" })}}, formJoin},
		{"a peer has raft state", formingFacts{Self: n1, Answers: []answer{n2, with(n3, func(a *answer) { a.HasState = true })}}, formJoin},
		{"gossip shows a cluster", formingFacts{Self: n1, Answers: []answer{n2, n3}, Seen: []string{"", "c"}}, formJoin},
		{"gossip shows none", formingFacts{Self: n1, Answers: []answer{n2, n3}, Seen: []string{"", ""}}, formBootstrap},
		{"this node has a cluster id", formingFacts{Self: with(n1, func(a *answer) { a.ClusterID = "c" }), Answers: []answer{n2, n3}}, formJoin},
		{"this node has raft state", formingFacts{Self: with(n1, func(a *answer) { a.HasState = true }), Answers: []answer{n2, n3}}, formJoin},
		{"this node is not in the list", formingFacts{Self: node(0, "n0:1"), Answers: []answer{n1, n2, n3}}, formJoin},
		{"a smaller one outside the list", formingFacts{Self: n1, Answers: []answer{n2, n3, node(0, "n0:1")}}, formBootstrap},
		{"an outsider with a cluster", formingFacts{Self: n1, Answers: []answer{n2, n3, with(node(9, "n9:1"), func(a *answer) { a.ClusterID = "c" })}}, formJoin},
		{"alone in the list", formingFacts{Self: answer{NodeID: 7, GossipAddress: "n7:1", Join: []string{"n7:1"}}}, formBootstrap},
		{"empty list", formingFacts{Self: answer{NodeID: 7, GossipAddress: "n7:1"}}, formBootstrap},
		{"empty list and a cluster id on disk", formingFacts{Self: answer{NodeID: 7, ClusterID: "c"}}, formJoin},
		{"one other in the list", formingFacts{Self: answer{NodeID: 7, GossipAddress: "n7:1", Join: []string{"n1:1"}}}, formJoin},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, why := decideForming(c.facts)
			require.Equal(t, c.want, got, why)
			require.NotEmpty(t, why)
		})
	}
}
