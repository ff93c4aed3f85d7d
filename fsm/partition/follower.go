package partition

import (
	"fmt"

	"cordwood/fsm/metadata"
	"cordwood/fsm/mutant"
)

// Role is what a replica is to do by a record.
type Role uint8

// The roles.
const (
	RoleGone   Role = iota // no replica: drop waiting acknowledgements, delete the log by the rule of directories
	RoleIdle               // no leader is known, or the leadership was given to an earlier process of this node
	RoleLead               // lead in the record's leader epoch
	RoleFollow             // fetch from the record's leader
)

// Transition is what the difference between two records of one partition asks of a replica. Records in between may have
// been skipped; several epochs in one difference are one change, to the last.
type Transition struct {
	Role Role
	// NewEpoch says that the leader epoch changed: stop leading and fetching and fail every waiting acknowledgement, also
	// when this replica leads again.
	NewEpoch bool
	// TakeOffice says that this replica begins to lead: once in a leader epoch.
	TakeOffice bool
	// Loss says that a flagged election took place: the high watermark becomes LossHW, and it is persisted together with
	// LossEpoch before anything else is done.
	Loss      bool
	LossEpoch int32
	LossHW    int64
}

// Decide compares the record acted on before (nil at first) with the present one (nil: the partition is no more).
func Decide(old, rec *metadata.Partition, me int32, brokerEpoch int64, f Facts) Transition {
	if rec == nil || !rec.IsReplica(me) {
		return Transition{Role: RoleGone, NewEpoch: true}
	}
	t := Transition{Role: RoleFollow, NewEpoch: old == nil || old.LeaderEpoch != rec.LeaderEpoch}
	switch {
	case rec.Leader == metadata.NoNode, rec.Leader == me && !leads(rec, me, brokerEpoch):
		t.Role = RoleIdle
	case rec.Leader == me:
		t.Role = RoleLead
		t.TakeOffice = t.NewEpoch || !leads(old, me, brokerEpoch)
	}
	if rec.LossEpoch > f.AppliedLoss() {
		t.Loss, t.LossEpoch, t.LossHW = true, rec.LossEpoch, f.StartOffset()
		if t.Role == RoleLead {
			t.LossHW = f.HighWatermark() // the chosen log keeps its claims
		}
	}
	return t
}

// leads says that the record gives the leadership to this process of this node.
func leads(rec *metadata.Partition, me int32, brokerEpoch int64) bool {
	return rec.Leader == me && (rec.LeaderBrokerEpoch == brokerEpoch || mutant.NoLeaderBE)
}

// Asked is what a follower's outstanding fetch asked for one partition.
type Asked struct {
	LeaderEpoch int32
	Base        int64 // fetch offset: the follower's end when it asked
}

// Answer is a leader's answer for one partition, without the batches themselves.
type Answer struct {
	LeaderEpoch   int32
	Reset         bool
	Diverging     bool
	At            EpochEnd
	HighWatermark int64
	LogStart      int64
	LogStartEpoch int32
}

// Action is what a follower does with an answer.
type Action uint8

// The actions.
const (
	ActDrop       Action = iota // it does not answer the present state: nothing happens
	ActAppend                   // append the batches, then take over high watermark and log start
	ActTruncate                 // cut the log to To, then fetch again
	ActReset                    // empty the log and start at To with epoch ToEpoch, then fetch again
	ActQuarantine               // keep every byte, fetch and report no more: an operator decides
)

// Judgement is an action with what it needs.
type Judgement struct {
	Action  Action
	To      int64 // ActTruncate, ActReset
	ToEpoch int32 // ActReset
	// Flagged says that a flagged election ended the old claims: what is cut may have been committed, and is logged.
	Flagged bool
	Reason  string // ActQuarantine
}

// Judge decides about an answer to the outstanding fetch. rec is the follower's present record.
func Judge(rec *metadata.Partition, asked Asked, a Answer, f Facts) Judgement {
	end := f.EndOffset()
	if asked.LeaderEpoch != rec.LeaderEpoch || a.LeaderEpoch != rec.LeaderEpoch || asked.Base != end {
		return Judgement{Action: ActDrop}
	}
	switch {
	case a.Reset:
		return judgeReset(rec, a, f)
	case a.Diverging:
		return judgeDivergence(rec, a, f)
	}
	return Judgement{Action: ActAppend}
}

func judgeReset(rec *metadata.Partition, a Answer, f Facts) Judgement {
	if end := f.EndOffset(); a.LogStart < end {
		return Judgement{Action: ActQuarantine, Reason: fmt.Sprintf(
			"the leader asks to start again at %d, below the log end %d", a.LogStart, end)}
	}
	return Judgement{Action: ActReset, To: a.LogStart, ToEpoch: a.LogStartEpoch, Flagged: lossOpen(rec, f)}
}

func judgeDivergence(rec *metadata.Partition, a Answer, f Facts) Judgement {
	start, end, hw := f.StartOffset(), f.EndOffset(), f.HighWatermark()
	// The largest epoch of ours at or below the leader's may end before the leader's does (KIP-279).
	to := a.At.End
	if epoch, e := f.EpochEnd(a.At.Epoch); epoch >= 0 {
		to = min(to, e)
	} else if _, before := f.Start(); before > a.At.Epoch {
		to = start - 1 // nor is the record before our log start: another history lies there
	} else {
		to = min(to, start) // none of our records is old enough
	}
	switch {
	case to < start && hw <= start && lossOpen(rec, f):
		return Judgement{Action: ActReset, To: 0, ToEpoch: -1, Flagged: true}
	case to < start || to < hw:
		return Judgement{Action: ActQuarantine, Reason: fmt.Sprintf(
			"the leader's log parts from ours at %d, below the high watermark %d (log start %d)", to, hw, start)}
	case to >= end:
		return Judgement{Action: ActQuarantine, Reason: fmt.Sprintf(
			"the leader's log parts from ours at %d, but ours ends at %d", to, end)}
	}
	return Judgement{Action: ActTruncate, To: to, Flagged: lossOpen(rec, f)}
}

// lossOpen says that a flagged election was acted on and no record of its leaders was taken yet: claims of the time
// before it have ended.
func lossOpen(rec *metadata.Partition, f Facts) bool {
	return rec.LossEpoch > 0 && f.AppliedLoss() == rec.LossEpoch && f.LastEpoch() < rec.LossEpoch
}

// Advance is the high watermark and log start that a follower takes from an answer after its batches were appended.
// Neither falls, and the log start never passes the high watermark.
func (a Answer) Advance(f Facts) (hw, logStart int64) {
	hw = max(f.HighWatermark(), min(a.HighWatermark, f.EndOffset()))
	return hw, max(f.StartOffset(), min(a.LogStart, hw))
}
