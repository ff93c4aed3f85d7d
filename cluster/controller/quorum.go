package controller

import (
	"time"

	"github.com/hashicorp/raft"

	"cordwood/fsm/metadata"
)

// Quorum is the state of the metadata log, as this node knows it.
type Quorum struct {
	Leader        int32 // metadata.NoNode if unknown
	Term          int64
	HighWatermark int64
	Voters        []QuorumReplica
	Observers     []QuorumReplica
}

// QuorumReplica is one server of raft.
type QuorumReplica struct {
	ID          int32
	DirectoryID string
	Address     string // name and port
	LogEnd      int64  // last index + 1; -1 unknown
	LastFetch   int64  // wall clock, milliseconds, of the last answer; -1 unknown
	LastCaught  int64  // wall clock, milliseconds, when it was last seen caught up; -1 unknown
}

// Quorum is the state of raft. Positions of other servers are known on the leader only.
func (c *Controller) Quorum() Quorum {
	q := Quorum{Leader: metadata.NoNode}
	if !c.ready.Load() {
		return q
	}
	n := c.node
	q.Leader, q.Term, q.HighWatermark = c.ControllerID(), int64(n.raft.CurrentTerm()), int64(n.raft.CommitIndex())
	servers, _, err := n.servers()
	if err != nil {
		return q
	}
	r := c.active()
	now := time.Now()
	for _, s := range servers {
		node, dir := splitServerID(s.ID)
		address, _ := splitRaftAddress(s.Address)
		rep := QuorumReplica{ID: node, DirectoryID: dir, Address: address, LogEnd: -1, LastFetch: -1, LastCaught: -1}
		switch {
		case s.ID == n.id:
			rep.LogEnd, rep.LastFetch, rep.LastCaught = int64(n.raft.LastIndex())+1, now.UnixMilli(), now.UnixMilli()
		case r != nil:
			r.voters.position(s.ID, &rep, n.raft.CommitIndex())
		}
		if s.Suffrage == raft.Voter {
			q.Voters = append(q.Voters, rep)
		} else {
			q.Observers = append(q.Observers, rep)
		}
	}
	return q
}

// position fills in what the leader last heard of a server.
func (k *voterKeeper) position(id raft.ServerID, rep *QuorumReplica, commit uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h, ok := k.answers[id]
	if !ok {
		return
	}
	rep.LogEnd, rep.LastFetch = int64(h.LastIndex)+1, h.at.UnixMilli()
	if h.LastIndex+caughtUpLag >= commit {
		rep.LastCaught = rep.LastFetch
	}
}
