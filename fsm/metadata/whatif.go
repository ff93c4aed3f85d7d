package metadata

import (
	"fmt"
	"slices"
)

// WhatIf is everything that decides what becomes of a partition's records when nodes die: its record, how far each
// replica's copy reaches, and who votes in the metadata log. Offsets are exclusive ends.
type WhatIf struct {
	Rule       CommitRule
	Durability Durability
	MinISR     int32

	Leader      int32 // NoNode: none now
	LastLeader  int32 // of the last election, when it is trusted to have lost nothing since; else NoNode
	Replicas    []int32
	NewReplicas []int32 // empty unless two sets are in force
	ISR, ELR    []int32

	LogStart      int64 // first offset that may be read
	HighWatermark int64 // what is below is committed
	Copies        []Copy
	Voters        []Voter // of the metadata log; empty: they are left out of the judgement
}

// Copy is one replica's log, as far as anybody can tell.
type Copy struct {
	ID      int32
	End     int64 // next offset to append; -1 unknown
	Flushed int64 // end of the prefix that is on disk; -1 unknown
	Trusted bool  // known to hold what it counted for: it may vote
	Alive   bool  // registered, unfenced and not shutting down: it may be elected
}

// Voter is one voter of the metadata log.
type Voter struct {
	ID    int32
	Alive bool
}

// Fate is what becomes of records.
type Fate string

// The fates of records when nodes are gone and stay away.
const (
	// FateSafe: the records are kept, and the partition is led and commits records again without anybody's help.
	FateSafe Fate = "safe"
	// FateOffline: no record is lost, but none is committed until some of the nodes are back.
	FateOffline Fate = "offline"
	// FateLost: no node that is left has the records, or a leader without them is elected.
	FateLost Fate = "lost"
)

// RecordRange is a run of records that are on the same replicas. End is exclusive.
type RecordRange struct {
	From, End int64
	Holders   []int32 // replicas that have all of it, rising ids
	OnDisk    []int32 // those that have all of it on disk
	Committed bool
}

// Ranges cuts the log where holders, disks or the commit point change, from the log start to the furthest end known.
func (w *WhatIf) Ranges() []RecordRange {
	cuts := []int64{w.LogStart, w.HighWatermark}
	for _, c := range w.Copies {
		cuts = append(cuts, c.End, min(c.Flushed, c.End))
	}
	cuts = slices.DeleteFunc(cuts, func(at int64) bool { return at < w.LogStart })
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	var out []RecordRange
	for i := 1; i < len(cuts); i++ {
		r := RecordRange{From: cuts[i-1], End: cuts[i], Holders: []int32{}, OnDisk: []int32{}, Committed: cuts[i] <= w.HighWatermark}
		for _, c := range w.Copies {
			if c.End < r.End {
				continue
			}
			r.Holders = append(r.Holders, c.ID)
			if c.Flushed >= r.End {
				r.OnDisk = append(r.OnDisk, c.ID)
			}
		}
		slices.Sort(r.Holders)
		slices.Sort(r.OnDisk)
		out = append(out, r)
	}
	return out
}

// IfDown says what becomes of a range when these nodes are killed and stay away. Where several replicas may come to lead
// it judges by the one that has least.
func (w *WhatIf) IfDown(r RecordRange, down []int32) Fate {
	left := w.left(down)
	leads := w.stays(left) || len(w.candidates(left)) > 0
	switch {
	case !leads && w.heldBy(r, down):
		return FateOffline
	case !leads || !w.keptByLeader(r, left):
		return FateLost
	case w.commits(left):
		return FateSafe
	}
	return FateOffline
}

// WhyOffline says in words what keeps the partition from serving once these nodes are gone; empty where nothing does.
func (w *WhatIf) WhyOffline(down []int32) string {
	left := w.left(down)
	stays := w.stays(left)
	if !stays && !left.controlled {
		return "too few voters of the metadata log are left to elect anybody"
	}
	if !stays && len(w.candidates(left)) == 0 {
		if w.Rule.ElectBy() == RuleQuorum {
			return fmt.Sprintf("%d of %d replicas may vote, and a leader needs %d", len(w.trusted(w.Replicas, left)), len(w.Replicas), Majority(len(w.Replicas)))
		}
		return "no in-sync or eligible replica is left"
	}
	if set, need := w.short(left); need > 0 {
		return fmt.Sprintf("%d of %d replicas are left, and a commit needs %d", len(left.among(set)), len(set), need)
	}
	if !w.commits(left) {
		return "too few voters of the metadata log are left to take the dead out of the in-sync replicas"
	}
	return ""
}

// IfPowerLost says what becomes of a range when all nodes lose power at this moment and come back: offline means that the
// records are on a disk, but that nobody is trusted to have everything, so that the election is flagged.
func (w *WhatIf) IfPowerLost(r RecordRange) Fate {
	switch {
	case w.Durability == DurabilityDisk && r.Committed:
		return FateSafe
	case len(r.OnDisk) > 0:
		return FateOffline
	}
	return FateLost
}

// survivors are the copies that may lead and vote once some nodes are gone.
type survivors struct {
	copies     []Copy
	controlled bool // the metadata log still has a majority: leaders are elected, dead replicas leave the ISR
}

func (w *WhatIf) left(down []int32) survivors {
	gone := func(id int32, alive bool) bool { return !alive || slices.Contains(down, id) }
	var s survivors
	for _, c := range w.Copies {
		if !gone(c.ID, c.Alive) {
			s.copies = append(s.copies, c)
		}
	}
	voters := 0
	for _, v := range w.Voters {
		if !gone(v.ID, v.Alive) {
			voters++
		}
	}
	s.controlled = len(w.Voters) == 0 || voters >= Majority(len(w.Voters))
	return s
}

// among gives the survivors that are in set.
func (s survivors) among(set []int32) []Copy {
	var out []Copy
	for _, c := range s.copies {
		if slices.Contains(set, c.ID) {
			out = append(out, c)
		}
	}
	return out
}

// stays says that the present leader is not among those that are gone.
func (w *WhatIf) stays(left survivors) bool { return len(left.among([]int32{w.Leader})) > 0 }

// candidates gives the copies that may be elected by the rule.
func (w *WhatIf) candidates(left survivors) []Copy {
	if !left.controlled {
		return nil
	}
	if w.Rule.ElectBy() == RuleISR {
		if in := left.among(w.ISR); len(in) > 0 {
			return in
		}
		return left.among(w.ELR)
	}
	old, both := w.trusted(w.Replicas, left), slices.Concat(w.Replicas, w.NewReplicas)
	enough := len(old) >= Majority(len(w.Replicas))
	if enough && len(w.NewReplicas) > 0 {
		enough = len(w.trusted(w.NewReplicas, left)) >= Majority(len(w.NewReplicas))
	}
	if enough {
		return w.trusted(both, left)
	}
	return left.among([]int32{w.LastLeader}) // its own report is enough
}

// trusted gives the survivors of a set that may vote.
func (w *WhatIf) trusted(set []int32, left survivors) []Copy {
	return slices.DeleteFunc(left.among(set), func(c Copy) bool { return !c.Trusted })
}

// keptByLeader says that whoever leads has the range. A committed one every candidate has: that is what the rules are
// for, so what the leader last heard of the replicas does not matter.
func (w *WhatIf) keptByLeader(r RecordRange, left survivors) bool {
	if r.Committed {
		return true
	}
	if w.stays(left) {
		return slices.Contains(r.Holders, w.Leader)
	}
	candidates := w.candidates(left)
	lacking := 0
	for _, c := range candidates {
		if c.End < r.End {
			lacking++
		}
	}
	if w.Rule.ElectBy() == RuleISR {
		return lacking == 0
	}
	// The most complete log of a majority leads: records go only where a majority can be made of those that lack them.
	return lacking < Majority(len(w.Replicas)) && lacking < len(candidates)
}

// commits says that records are committed again, once the replicas that are left have caught up.
func (w *WhatIf) commits(left survivors) bool {
	if _, need := w.short(left); need > 0 {
		return false
	}
	if w.Rule == RuleQuorum || left.controlled {
		return true
	}
	return len(left.among(w.ISR)) == len(w.ISR) // nobody takes the dead out of the ISR
}

// short gives a set of replicas of which too few are left for a commit, and how many it needs; 0 where none is short.
func (w *WhatIf) short(left survivors) (set []int32, need int) {
	if w.Rule != RuleISR {
		for _, set := range [][]int32{w.Replicas, w.NewReplicas} {
			if n := WriteQuorum(len(set), w.MinISR); len(set) > 0 && len(left.among(set)) < n {
				return set, n
			}
		}
	}
	if w.Rule != RuleQuorum && len(left.among(w.Replicas)) < int(w.MinISR) {
		return w.Replicas, int(w.MinISR)
	}
	return nil, 0
}

// heldBy says that a replica which is not gone has the range: one that is known to reach so far, or, of a committed
// range, one whose membership of the ISR or ELR says so.
func (w *WhatIf) heldBy(r RecordRange, down []int32) bool {
	stays := func(id int32) bool { return !slices.Contains(down, id) }
	if slices.ContainsFunc(r.Holders, stays) {
		return true
	}
	byMembership := r.Committed && w.Rule.ElectBy() == RuleISR
	return byMembership && slices.ContainsFunc(slices.Concat(w.ISR, w.ELR), stays)
}
