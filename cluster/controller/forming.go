package controller

import (
	"fmt"
	"slices"
	"strings"

	"cordwood/fsm/metadata"
)

// formingStep is what a node without any raft state does next.
type formingStep int

const (
	formWait      formingStep = iota // ask again
	formBootstrap                    // found the cluster, with this node as the only voter
	formJoin                         // wait for a leader to add this node; never found a cluster
	formConflict                     // an operator must look: two nodes claim the same place
)

// formingFacts is everything the decision rests on.
type formingFacts struct {
	Self answer
	// Answers of other nodes to the direct question, of this round.
	Answers []answer
	// Seen are cluster ids that gossip has shown of any peer, answered or not.
	Seen []string
}

// joinSet gives the addresses of a join list as a sorted set.
func joinSet(join []string) []string {
	set := slices.Clone(join)
	slices.Sort(set)
	return slices.Compact(set)
}

// foundingLevel is the metadata level of a cluster that is being founded: the highest that every node of cluster.join
// knows, as they have said themselves. A node that has not answered, or does not say, knows the lowest.
func foundingLevel(self answer, answers []answer) int32 {
	level := self.MaxLevel
	for _, address := range joinSet(self.Join) {
		if address == self.GossipAddress {
			continue
		}
		known := metadata.MinLevel
		for _, a := range answers {
			if a.GossipAddress == address {
				known = max(known, a.MaxLevel)
			}
		}
		level = min(level, known)
	}
	return level
}

// decideForming says what a node that has no raft state does, and why. It is pure. One node founds the cluster: the one
// with the smallest node id of cluster.join, once every address of the list has itself said that it has no cluster and
// the same list. A node that sees any cluster never founds one.
func decideForming(f formingFacts) (formingStep, string) {
	if f.Self.HasState {
		return formJoin, "this node has raft state"
	}
	if f.Self.ClusterID != "" {
		return formJoin, fmt.Sprintf("this node's directory is of cluster %s: it never founds another", f.Self.ClusterID)
	}
	join := joinSet(f.Self.Join)
	if len(join) == 0 || len(join) == 1 && join[0] == f.Self.GossipAddress {
		return formBootstrap, "a cluster of one"
	}
	for _, id := range f.Seen {
		if id != "" {
			return formJoin, fmt.Sprintf("a peer is of cluster %s", id)
		}
	}
	for _, a := range f.Answers {
		if a.ClusterID != "" {
			return formJoin, fmt.Sprintf("node %d is of cluster %s", a.NodeID, a.ClusterID)
		}
		if a.HasState {
			return formJoin, fmt.Sprintf("node %d has raft state: a cluster is being founded or was", a.NodeID)
		}
	}
	if !slices.Contains(join, f.Self.GossipAddress) {
		return formJoin, fmt.Sprintf("%s is not in cluster.join", f.Self.GossipAddress)
	}

	place := map[string]answer{f.Self.GossipAddress: f.Self}
	for _, a := range f.Answers {
		if !slices.Contains(join, a.GossipAddress) {
			continue // of the cluster to be, but none of its founders
		}
		if other, taken := place[a.GossipAddress]; taken && other.DirectoryID != a.DirectoryID {
			return formConflict, fmt.Sprintf("two nodes claim the address %s: %d and %d", a.GossipAddress, other.NodeID, a.NodeID)
		}
		place[a.GossipAddress] = a
	}
	smallest := f.Self
	ids := map[int32]string{}
	var missing []string
	for _, address := range join {
		a, ok := place[address]
		if !ok {
			missing = append(missing, address)
			continue
		}
		if other, taken := ids[a.NodeID]; taken {
			return formConflict, fmt.Sprintf("%s and %s both have node id %d", other, address, a.NodeID)
		}
		ids[a.NodeID] = address
		if !slices.Equal(joinSet(a.Join), join) {
			return formConflict, fmt.Sprintf("node %d has another cluster.join: %s", a.NodeID, strings.Join(joinSet(a.Join), ","))
		}
		if a.NodeID < smallest.NodeID {
			smallest = a
		}
	}
	if len(missing) > 0 {
		return formWait, "no answer yet from " + strings.Join(missing, ", ")
	}
	if smallest.NodeID != f.Self.NodeID {
		return formWait, fmt.Sprintf("node %d founds the cluster", smallest.NodeID)
	}
	return formBootstrap, "every node of cluster.join has no cluster yet, and this one has the smallest id"
}
