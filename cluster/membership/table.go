package membership

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// table is what gossip has shown, one entry for each node id. Memberlist's callbacks write to it, under memberlist's own
// locks: nothing here calls back or blocks.
type table struct {
	mu    sync.Mutex
	self  meta
	nodes map[int32]Member
}

// set notes a member's new state and says whether that is news. A dead or left directory of a node that lives with
// another one is none.
func (t *table) set(m Member) (news, flap bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old, known := t.nodes[m.NodeID]
	if known && m.State != Alive && old.State == Alive && old.DirectoryID != m.DirectoryID {
		return false, false
	}
	if known && old.State == m.State {
		m.Since = old.Since
	}
	if known && old == m {
		return false, false
	}
	if t.nodes == nil {
		t.nodes = map[int32]Member{}
	}
	t.nodes[m.NodeID] = m
	return true, known && old.State == Alive && m.State == Dead
}

func (t *table) setClusterID(id string) (changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	changed = t.self.ClusterID != id
	t.self.ClusterID = id
	return changed
}

// leave makes this node say that it is leaving.
func (t *table) leave() {
	t.mu.Lock()
	t.self.Leaving = true
	t.mu.Unlock()
}

func (t *table) own() meta {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.self
}

func (t *table) members() []Member {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]Member, 0, len(t.nodes))
	for _, m := range t.nodes {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Member) int { return cmp.Compare(a.NodeID, b.NodeID) })
	return out
}

// missing gives the addresses of a join list, without this node's own, that no live member has; with all, every one.
func (t *table) missing(join []string, all bool) (out []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range join {
		if a == t.self.GossipAddress {
			continue
		}
		there := false
		if all {
			out = append(out, a)
			continue
		}
		for _, m := range t.nodes {
			there = there || m.State == Alive && m.GossipAddress == a
		}
		if !there {
			out = append(out, a)
		}
	}
	return out
}

// count gives the number of members in each state.
func (t *table) count() map[State]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := map[State]int{Alive: 0, Dead: 0, Left: 0}
	for _, m := range t.nodes {
		n[m.State]++
	}
	return n
}

func (m meta) member(s State) Member {
	return Member{NodeID: m.NodeID, DirectoryID: m.DirectoryID, ClusterID: m.ClusterID, RaftAddress: m.RaftAddress, GossipAddress: m.GossipAddress, State: s, Since: time.Now()}
}
