package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// voterWorld builds the facts of raft's membership. Servers are "<node>.<directory>".
type voterWorld struct{ voterFacts }

func newVoterWorld() *voterWorld {
	now := time.Unix(5000, 0)
	return &voterWorld{voterFacts{
		Now: now, Self: "1.a", ClusterID: "c", Commit: 1000, Limit: 3, ReplaceAfter: 10 * time.Minute, Fresh: voterFresh,
		Answers: map[raft.ServerID]heard{}, Since: map[raft.ServerID]time.Time{},
	}}
}

func (w *voterWorld) server(id raft.ServerID, s raft.ServerSuffrage) *voterWorld {
	node, dir := splitServerID(id)
	w.Servers = append(w.Servers, raft.Server{ID: id, Suffrage: s, Address: raftAddress(fmt.Sprintf("n%d:9093", node), dir)})
	w.Since[id] = w.Now
	return w
}

func (w *voterWorld) voter(id raft.ServerID) *voterWorld    { return w.server(id, raft.Voter) }
func (w *voterWorld) observer(id raft.ServerID) *voterWorld { return w.server(id, raft.Nonvoter) }

// hears makes a node answer, with its raft log up to last.
func (w *voterWorld) hears(id raft.ServerID, last uint64) *voterWorld {
	node, dir := splitServerID(id)
	w.Answers[id] = heard{answer{NodeID: node, DirectoryID: dir, ClusterID: "c", RaftAddress: fmt.Sprintf("n%d:9093", node), LastIndex: last}, w.Now}
	w.Since[id] = w.Now
	return w
}

func (w *voterWorld) silentFor(id raft.ServerID, d time.Duration) *voterWorld {
	delete(w.Answers, id)
	w.Since[id] = w.Now.Add(-d)
	return w
}

func (w *voterWorld) plan() string {
	c := planVoters(w.voterFacts)
	if c == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s %s", c.Action, c.ID)
}

func TestAServerComesInAsANonVoterAndIsPromotedWhenItHasCaughtUp(t *testing.T) {
	w := newVoterWorld().voter("1.a").hears("2.b", 0)
	require.Equal(t, "add non-voter 2.b", w.plan())
	w.observer("2.b")
	require.Equal(t, "nothing", w.plan(), "it has nothing yet")
	w.hears("2.b", w.Commit-caughtUpLag)
	require.Equal(t, "add voter 2.b", w.plan())
}

func TestMoreNodesThanVotersStayNonVoters(t *testing.T) {
	w := newVoterWorld().voter("1.a").voter("2.b").voter("3.c").observer("4.d")
	for _, id := range []raft.ServerID{"2.b", "3.c", "4.d"} {
		w.hears(id, 1000)
	}
	require.Equal(t, "nothing", w.plan())

	w.silentFor("2.b", 10*time.Minute-1)
	require.Equal(t, "nothing", w.plan(), "a voter that is away is not gone for good")
	w.silentFor("2.b", 10*time.Minute)
	require.Equal(t, "add voter 4.d", w.plan())
	w.Servers[3].Suffrage = raft.Voter
	require.Equal(t, "remove 2.b", w.plan())
}

func TestAWipedNodesOldVoterGoesOnlyAfterTheNewOneVotes(t *testing.T) {
	w := newVoterWorld().voter("1.a").voter("2.b").voter("3.c").hears("2.b", 1000).hears("3.x", 0)
	require.Equal(t, "add non-voter 3.x", w.plan())
	w.observer("3.x")
	require.Equal(t, "nothing", w.plan(), "it has not caught up")
	w.hears("3.x", 1000)
	require.Equal(t, "add voter 3.x", w.plan())
	w.Servers[3].Suffrage = raft.Voter
	require.Equal(t, "remove 3.c", w.plan())
}

func TestNothingLeavesLessThanALiveCaughtUpMajority(t *testing.T) {
	// Of three voters one is live beside the leader; the third was silent for ever, and nobody can take its place.
	w := newVoterWorld().voter("1.a").voter("2.b").voter("3.c").silentFor("3.c", time.Hour).silentFor("2.b", time.Second)
	require.Equal(t, "nothing", w.plan())
	// A fourth that has caught up: with it two of four would be well, which is no majority.
	w.observer("4.d").hears("4.d", 1000)
	require.Equal(t, "nothing", w.plan())
	w.hears("2.b", 1000)
	require.Equal(t, "add voter 4.d", w.plan())
	w.Servers[3].Suffrage = raft.Voter
	w.hears("2.b", 10) // far behind again: of the three that remain two must be well
	require.Equal(t, "remove 3.c", w.plan())
	w.silentFor("4.d", time.Second)
	require.Equal(t, "nothing", w.plan())
}

func TestAServerThatMovedIsDialledAtItsNewAddress(t *testing.T) {
	w := newVoterWorld().voter("1.a").voter("2.b").hears("2.b", 1000)
	h := w.Answers["2.b"]
	h.RaftAddress = "elsewhere:9093"
	w.Answers["2.b"] = h
	c := planVoters(w.voterFacts)
	require.Equal(t, voterChange{addVoter, "2.b", "elsewhere:9093/b", c.Why}, *c)
}

func TestStrangersAndDoublesDoNotComeIn(t *testing.T) {
	w := newVoterWorld().voter("1.a").hears("2.b", 0)
	h := w.Answers["2.b"]
	h.ClusterID = "other"
	w.Answers["2.b"] = h
	require.Equal(t, "nothing", w.plan(), "of another cluster")
	h.ClusterID, h.HasState = "", true
	w.Answers["2.b"] = h
	require.Equal(t, "nothing", w.plan(), "of a cluster that is being founded beside this one")

	w = newVoterWorld().voter("1.a").voter("2.b").hears("2.b", 1000).hears("2.x", 0)
	require.Equal(t, "nothing", w.plan(), "another process of a node that lives")
}

func TestASurplusVoterThatCameBackIsDemoted(t *testing.T) {
	w := newVoterWorld()
	for _, id := range []raft.ServerID{"1.a", "2.b", "3.c", "4.d"} {
		w.voter(id).hears(id, 1000)
	}
	require.Equal(t, "demote to non-voter 4.d", w.plan())
	w.silentFor("2.b", time.Minute)
	require.Equal(t, "nothing", w.plan())
}

func TestNodeRemoveTakesADeadNodeAlone(t *testing.T) {
	w := newVoterWorld().voter("1.a").voter("2.b").voter("3.c").hears("2.b", 1000).hears("3.c", 1000)
	_, err := planRemoval(w.voterFacts, 3)
	require.ErrorIs(t, err, errVoters, "it answers")
	w.silentFor("3.c", 0)
	c, err := planRemoval(w.voterFacts, 3)
	require.NoError(t, err)
	require.Equal(t, raft.ServerID("3.c"), c.ID)
	w.silentFor("2.b", 0)
	_, err = planRemoval(w.voterFacts, 3)
	require.ErrorIs(t, err, errVoters, "too few would remain")
	c, err = planRemoval(w.voterFacts, 9)
	require.NoError(t, err)
	require.Nil(t, c)
}
