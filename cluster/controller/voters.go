package controller

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// voterFacts is everything that the care of raft's membership rests on. Only the leader decides.
type voterFacts struct {
	Now       time.Time
	Self      raft.ServerID
	ClusterID string
	Servers   []raft.Server
	Commit    uint64 // the leader's commit index
	// Answers are the newest answers of servers and candidates to the direct question, by server id.
	Answers map[raft.ServerID]heard
	// Since is when a server was last heard or, never heard in this reign, when the reign began.
	Since map[raft.ServerID]time.Time

	Limit        int
	ReplaceAfter time.Duration
	Fresh        time.Duration // an answer older than this says nothing about now
}

// heard is an answer with its time.
type heard struct {
	answer
	at time.Time
}

const (
	voterFresh  = 3 * time.Second // Fresh for the regular care
	caughtUpLag = 64              // entries that a caught-up server may be behind the leader's commit index
)

// voterAction is what a change of raft's membership does.
type voterAction int

const (
	addNonvoter voterAction = iota + 1 // or change a non-voter's address
	addVoter                           // promote, or change a voter's address
	removeServer
	demoteVoter
)

// voterChange is the one next change of raft's membership.
type voterChange struct {
	Action  voterAction
	ID      raft.ServerID
	Address raft.ServerAddress
	Why     string
}

// live says that a server answered lately; the leader itself is.
func (f *voterFacts) live(id raft.ServerID) bool {
	h, ok := f.Answers[id]
	return id == f.Self || ok && f.Now.Sub(h.at) <= f.Fresh
}

// caughtUp says that a server answered lately and has what the leader has committed, but for a little.
func (f *voterFacts) caughtUp(id raft.ServerID) bool {
	return id == f.Self || f.live(id) && f.Answers[id].LastIndex+caughtUpLag >= f.Commit
}

// nodeLives says that another server of the same node id lives: two processes with one id, which an operator must sort out.
func (f *voterFacts) nodeLives(servers []raft.Server, id raft.ServerID) bool {
	node, _ := splitServerID(id)
	return slices.ContainsFunc(servers, func(s raft.Server) bool {
		n, _ := splitServerID(s.ID)
		return n == node && s.ID != id && f.live(s.ID)
	})
}

// gone says that a server was not heard for ReplaceAfter.
func (f *voterFacts) gone(id raft.ServerID) bool {
	return id != f.Self && !f.live(id) && f.Now.Sub(f.Since[id]) >= f.ReplaceAfter
}

// quorumWith says that a majority of the voters after a change would be live and caught up.
func (f *voterFacts) quorumWith(add, remove raft.ServerID) bool {
	voters, good := 0, 0
	for _, s := range f.Servers {
		if s.ID == remove || s.ID == add || s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if f.caughtUp(s.ID) {
			good++
		}
	}
	if add != "" {
		voters++
		if f.caughtUp(add) {
			good++
		}
	}
	return voters > 0 && good >= voters/2+1
}

// planVoters gives the next change of raft's membership, nil when there is none. It is pure; one change at a time is
// made and the facts gathered anew. A server that comes in is a non-voter first, is promoted when it has caught up, and
// only then the old voter of the same node is removed. Nothing is done that leaves less than a live, caught-up majority.
func planVoters(f voterFacts) *voterChange {
	servers := slices.SortedFunc(slices.Values(f.Servers), func(a, b raft.Server) int { return cmp.Compare(a.ID, b.ID) })
	known := map[raft.ServerID]raft.Server{}
	voters := 0
	for _, s := range servers {
		known[s.ID] = s
		if s.Suffrage == raft.Voter {
			voters++
		}
	}

	// 1. A server that says itself that it is dialled elsewhere.
	for _, s := range servers {
		if !f.live(s.ID) {
			continue
		}
		a, ok := f.Answers[s.ID]
		if want := raftAddress(a.RaftAddress, a.DirectoryID); ok && a.RaftAddress != "" && want != s.Address {
			action := addNonvoter
			if s.Suffrage == raft.Voter {
				action = addVoter
			}
			return &voterChange{action, s.ID, want, "its address changed from " + string(s.Address)}
		}
	}

	// 2. A node that is not in yet.
	candidates := make([]raft.ServerID, 0, len(f.Answers))
	for id := range f.Answers {
		candidates = append(candidates, id)
	}
	slices.Sort(candidates)
	for _, id := range candidates {
		a := f.Answers[id]
		_, in := known[id]
		// Of another cluster, or of one that is being founded beside this one.
		foreign := a.ClusterID != f.ClusterID && (a.ClusterID != "" || a.HasState)
		if in || !f.live(id) || foreign || f.nodeLives(servers, id) {
			continue
		}
		return &voterChange{addNonvoter, id, raftAddress(a.RaftAddress, a.DirectoryID), "it came in"}
	}

	// 3. An old voter of a node that has a new, caught-up one; an old non-voter of a node that was wiped again.
	for _, s := range servers {
		if s.ID == f.Self || f.live(s.ID) {
			continue
		}
		node, _ := splitServerID(s.ID)
		for _, other := range servers {
			if n, _ := splitServerID(other.ID); n != node || other.ID == s.ID || !f.live(other.ID) {
				continue
			}
			if s.Suffrage != raft.Voter {
				return &voterChange{removeServer, s.ID, s.Address, "the node has another directory now"}
			}
			if other.Suffrage == raft.Voter && f.caughtUp(other.ID) && f.quorumWith("", s.ID) {
				return &voterChange{removeServer, s.ID, s.Address, "the node votes from another directory now"}
			}
		}
	}

	// 4. A surplus voter that is gone for good.
	if voters > f.Limit {
		for _, s := range servers {
			if s.Suffrage == raft.Voter && f.gone(s.ID) && f.quorumWith("", s.ID) {
				return &voterChange{removeServer, s.ID, s.Address, "it was not heard for " + f.ReplaceAfter.String()}
			}
		}
	}

	// A surplus one when all are well: the gone one came back.
	if voters > f.Limit && allCaughtUp(&f, servers) {
		for _, s := range slices.Backward(servers) {
			if s.Suffrage == raft.Voter && s.ID != f.Self {
				return &voterChange{demoteVoter, s.ID, s.Address, fmt.Sprintf("%d voters, %d wanted", voters, f.Limit)}
			}
		}
	}

	// 5. A promotion: into a free place, in place of the node's own old voter, or of one that is gone for good.
	for _, s := range servers {
		if s.Suffrage == raft.Voter || !f.caughtUp(s.ID) || !f.quorumWith(s.ID, "") {
			continue
		}
		node, _ := splitServerID(s.ID)
		why := ""
		if voters < f.Limit {
			why = fmt.Sprintf("%d of %d voters", voters, f.Limit)
		}
		for _, old := range servers {
			if old.Suffrage != raft.Voter || f.live(old.ID) {
				continue
			}
			if n, _ := splitServerID(old.ID); n == node {
				why = "the node's old voter is of another directory"
			} else if f.gone(old.ID) && voters <= f.Limit {
				why = "it replaces " + string(old.ID)
			}
		}
		if why != "" {
			return &voterChange{addVoter, s.ID, s.Address, why}
		}
	}

	// 6. A non-voter that is gone for good.
	for _, s := range servers {
		if s.Suffrage != raft.Voter && f.gone(s.ID) {
			return &voterChange{removeServer, s.ID, s.Address, "it was not heard for " + f.ReplaceAfter.String()}
		}
	}
	return nil
}

// allCaughtUp says that every voter is live and caught up.
func allCaughtUp(f *voterFacts, servers []raft.Server) bool {
	return !slices.ContainsFunc(servers, func(s raft.Server) bool { return s.Suffrage == raft.Voter && !f.caughtUp(s.ID) })
}
