package metadata

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// three is a healthy partition of three, led by node 1; node 3 is ten records behind and node 2 has not flushed the last.
func three(rule CommitRule) *WhatIf {
	return &WhatIf{
		Rule: rule, Durability: DurabilityMemory, MinISR: 2, Leader: 1, LastLeader: 1,
		Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2},
		HighWatermark: 2000,
		Copies: []Copy{
			{ID: 1, End: 2000, Flushed: 2000, Trusted: true, Alive: true},
			{ID: 2, End: 2000, Flushed: 1995, Trusted: true, Alive: true},
			{ID: 3, End: 1990, Flushed: 1988, Trusted: true, Alive: true},
		},
	}
}

func TestALogIsCutWhereItsHoldersChange(t *testing.T) {
	w := three(RuleQuorum)
	w.LogStart, w.HighWatermark, w.Copies[0].End = 5, 2000, 2003
	var got []string
	for _, r := range w.Ranges() {
		got = append(got, fmt.Sprintf("%d..%d on %v disk %v committed %t", r.From, r.End-1, r.Holders, r.OnDisk, r.Committed))
	}
	require.Equal(t, []string{
		"5..1987 on [1 2 3] disk [1 2 3] committed true",
		"1988..1989 on [1 2 3] disk [1 2] committed true",
		"1990..1994 on [1 2] disk [1 2] committed true",
		"1995..1999 on [1 2] disk [1] committed true",
		"2000..2002 on [1] disk [] committed false",
	}, got)
}

// fates judges the oldest and the newest committed range and, if there is one, the uncommitted rest.
func fates(w *WhatIf, down ...int32) string {
	ranges := w.Ranges()
	s := ""
	for i, r := range ranges {
		if i == 0 || r.End == w.HighWatermark || !r.Committed {
			s += string(w.IfDown(r, down)) + " "
		}
	}
	return s[:len(s)-1]
}

func TestWhatNodesThatDieTakeWithThem(t *testing.T) {
	for _, c := range []struct {
		name string
		rule CommitRule
		down []int32
		set  func(*WhatIf)
		want string // oldest committed range, newest committed range, uncommitted ranges
	}{
		{"nobody", RuleQuorum, nil, nil, "safe safe"},
		{"nobody", RuleISR, nil, nil, "safe safe"},
		{"the leader: the other holder and the laggard are a majority", RuleQuorum, []int32{1}, nil, "safe safe"},
		{"the leader: the in-sync follower takes over", RuleISR, []int32{1}, nil, "safe safe"},
		{"the follower", RuleQuorum, []int32{2}, nil, "safe safe"},
		{"the follower: the laggard joins again", RuleISR, []int32{2}, nil, "safe safe"},
		{"both holders: what the laggard has waits, the rest is gone", RuleQuorum, []int32{1, 2}, nil, "offline lost"},
		{"all in-sync replicas: the laggard may not lead", RuleISR, []int32{1, 2}, nil, "offline lost"},
		{"both followers: the leader commits nothing", RuleQuorum, []int32{2, 3}, nil, "offline offline"},
		{"both followers: below the minimum", RuleISR, []int32{2, 3}, nil, "offline offline"},
		{"both followers with a minimum of one", RuleISR, []int32{2, 3}, func(w *WhatIf) { w.MinISR = 1 }, "safe safe"},
		{"everybody", RuleQuorum, []int32{1, 2, 3}, nil, "lost lost"},
		{"everybody", RuleISR, []int32{1, 2, 3}, nil, "lost lost"},

		{"the leader, where a minimum of three is above the majority", RuleQuorum, []int32{1}, func(w *WhatIf) { w.MinISR = 3 }, "offline offline"},
		{"the leader, where the laggard may not vote", RuleQuorum, []int32{1}, func(w *WhatIf) { w.Copies[2].Trusted = false }, "offline offline"},
		{"the leader, where the holder may not vote", RuleQuorum, []int32{1}, func(w *WhatIf) { w.Copies[1].Trusted = false }, "offline offline"},
		{"trust is not asked of in-sync replicas", RuleISR, []int32{1}, func(w *WhatIf) { w.Copies[1].Trusted = false }, "safe safe"},
		{"the leader, where the other holder is down already", RuleQuorum, []int32{1}, func(w *WhatIf) { w.Copies[1].Alive = false }, "offline offline"},
		{"the leader, where the other in-sync replica is down already", RuleISR, []int32{1}, func(w *WhatIf) { w.Copies[1].Alive = false }, "offline offline"},

		{"one that is alone in sync takes the committed records", RuleISR, []int32{1}, func(w *WhatIf) { w.MinISR, w.ISR = 1, []int32{1} }, "offline offline"},
		{"an eligible replica leads where no in-sync one is left", RuleISR, []int32{1}, func(w *WhatIf) { w.ISR, w.ELR = []int32{1}, []int32{2} }, "safe safe"},
		{"eligible ones have everything though nobody heard of them", RuleISR, []int32{1}, func(w *WhatIf) {
			w.ISR, w.ELR, w.Copies[1].End, w.Copies[1].Alive = []int32{1}, []int32{2}, -1, false
		}, "offline offline"},

		{"uncommitted records stay with their leader", RuleQuorum, nil, func(w *WhatIf) { w.Copies[0].End = 2005 }, "safe safe safe"},
		{"uncommitted records go with their leader", RuleQuorum, []int32{1}, func(w *WhatIf) { w.Copies[0].End = 2005 }, "safe safe lost"},
		{"uncommitted records go with their leader", RuleISR, []int32{1}, func(w *WhatIf) { w.Copies[0].End = 2005 }, "safe safe lost"},
		{"uncommitted records of every candidate stay", RuleISR, []int32{1}, func(w *WhatIf) { w.HighWatermark = 1990 }, "safe safe safe safe"},
		{"one holder of two voters wins the election", RuleQuorum, []int32{1}, func(w *WhatIf) { w.HighWatermark = 1990 }, "safe safe safe safe"},

		{"no leader now: a majority elects one", RuleQuorum, nil, func(w *WhatIf) { w.Leader = NoNode }, "safe safe"},
		{"no leader now, one voter: the last leader comes back on its own report", RuleQuorum, nil, func(w *WhatIf) {
			w.Leader, w.Copies[1].Trusted, w.Copies[2].Trusted = NoNode, false, false
		}, "safe safe"},
		{"no leader now, one voter that was not the last leader", RuleQuorum, nil, func(w *WhatIf) {
			w.Leader, w.LastLeader, w.Copies[1].Trusted, w.Copies[2].Trusted = NoNode, NoNode, false, false
		}, "offline offline"},

		{"to quorum: elected by the ISR rule, committed by both", RuleISRToQuorum, []int32{1}, nil, "safe safe"},
		{"to quorum: a majority is needed too", RuleISRToQuorum, []int32{2, 3}, func(w *WhatIf) { w.MinISR = 1 }, "offline offline"},
		{"to isr: elected by reports", RuleQuorumToISR, []int32{1, 2}, func(w *WhatIf) { w.ISR = []int32{1, 2, 3} }, "offline lost"},

		{"two sets in force: a majority of the new one is missing", RuleQuorum, []int32{1}, func(w *WhatIf) {
			w.NewReplicas = []int32{1, 4, 5}
			w.Copies = append(w.Copies, Copy{ID: 4, End: 2000, Flushed: 2000, Trusted: true, Alive: true}, Copy{ID: 5, End: 2000, Trusted: false, Alive: true})
		}, "offline offline"},
		{"two sets in force: majorities of both are left", RuleQuorum, []int32{1}, func(w *WhatIf) {
			w.NewReplicas = []int32{1, 4, 5}
			w.Copies = append(w.Copies, Copy{ID: 4, End: 2000, Flushed: 2000, Trusted: true, Alive: true}, Copy{ID: 5, End: 2000, Trusted: true, Alive: true})
		}, "safe safe"},

		{"the metadata log loses its majority: nobody is elected", RuleISR, []int32{1}, func(w *WhatIf) {
			w.Voters = []Voter{{1, true}, {2, false}, {3, true}}
		}, "offline offline"},
		{"the metadata log loses its majority: nobody is elected", RuleQuorum, []int32{1}, func(w *WhatIf) {
			w.Voters = []Voter{{1, true}, {2, false}, {3, true}}
		}, "offline offline"},
		{"the metadata log loses its majority: the dead stay in the ISR", RuleISR, []int32{2}, func(w *WhatIf) {
			w.MinISR, w.Voters = 1, []Voter{{2, true}, {8, true}, {9, false}}
		}, "offline offline"},
		{"the metadata log loses its majority: a quorum leader goes on", RuleQuorum, []int32{2}, func(w *WhatIf) {
			w.Voters = []Voter{{2, true}, {8, true}, {9, false}}
		}, "safe safe"},
	} {
		w := three(c.rule)
		if c.set != nil {
			c.set(w)
		}
		require.Equal(t, c.want, fates(w, c.down...), "%s: %v down: %s", c.rule, c.down, c.name)
		for _, r := range w.Ranges() {
			if w.IfDown(r, c.down) == FateSafe {
				require.Empty(t, w.WhyOffline(c.down), "%s: %s", c.rule, c.name)
			}
		}
	}
}

// Whatever dies, more deaths never make a record safer.
func TestMoreDeathsNeverMakeARecordSafer(t *testing.T) {
	rank := map[Fate]int{FateSafe: 0, FateOffline: 1, FateLost: 2}
	sets := [][]int32{nil, {1}, {2}, {3}, {1, 2}, {1, 3}, {2, 3}, {1, 2, 3}}
	for _, rule := range []CommitRule{RuleISR, RuleQuorum, RuleISRToQuorum, RuleQuorumToISR} {
		for _, voters := range [][]Voter{nil, {{1, true}, {2, true}, {3, true}}} {
			w := three(rule)
			w.Voters = voters
			for _, r := range w.Ranges() {
				for _, a := range sets {
					for _, b := range sets {
						subset := !slices.ContainsFunc(a, func(id int32) bool { return !slices.Contains(b, id) })
						if subset {
							require.LessOrEqual(t, rank[w.IfDown(r, a)], rank[w.IfDown(r, b)], "%s %d: %v and %v", rule, r.From, a, b)
						}
					}
				}
			}
		}
	}
}

func TestWhyAPartitionWouldNotServeIsSaidWithItsNumbers(t *testing.T) {
	why := func(rule CommitRule, set func(*WhatIf), down ...int32) string {
		w := three(rule)
		if set != nil {
			set(w)
		}
		return w.WhyOffline(down)
	}
	require.Equal(t, "1 of 3 replicas may vote, and a leader needs 2", why(RuleQuorum, nil, 1, 2))
	require.Equal(t, "no in-sync or eligible replica is left", why(RuleISR, nil, 1, 2))
	require.Equal(t, "1 of 3 replicas are left, and a commit needs 2", why(RuleISR, nil, 2, 3))
	require.Equal(t, "1 of 3 replicas are left, and a commit needs 2", why(RuleQuorum, nil, 2, 3))
	voters := func(w *WhatIf) { w.MinISR, w.Voters = 1, []Voter{{1, true}, {2, true}, {3, true}} }
	require.Equal(t, "too few voters of the metadata log are left to elect anybody", why(RuleISR, voters, 1, 2))
	require.Equal(t, "too few voters of the metadata log are left to take the dead out of the in-sync replicas", why(RuleISR, voters, 2, 3))
}

func TestOnlyDisksKeepRecordsWhenAllLosePower(t *testing.T) {
	w := three(RuleQuorum)
	w.Copies[0].Flushed = 1995
	last := w.Ranges()[len(w.Ranges())-1]
	require.Equal(t, FateLost, w.IfPowerLost(last), "in memory alone")
	require.Equal(t, FateOffline, w.IfPowerLost(w.Ranges()[0]), "on disks, and nobody is trusted")
	w.Durability = DurabilityDisk
	require.Equal(t, FateSafe, w.IfPowerLost(w.Ranges()[0]))
}
