package nemesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/integration/history"
)

// schedule makes a schedule of all faults on a fake.
func schedule(t *testing.T, f *fake, choices string, opt ScheduleOptions) *Schedule {
	t.Helper()
	all, err := Parse(choices)
	require.NoError(t, err)
	s, err := NewSchedule(NewSite(f, Options{Topics: []string{fakeTopic}}), all, opt)
	require.NoError(t, err)
	return s
}

// TestASchedulesDestroysNoMoreCopiesThanMayBeLost runs many schedules over clusters that settle now and then only.
func TestAScheduleDestroysNoMoreCopiesThanMayBeLost(t *testing.T) {
	destroyed := 0
	for seed := range uint64(150) {
		synctest.Test(t, func(t *testing.T) {
			nodes := 3 + int(seed%3)
			f := newFake(t, nodes, nodes, 3)
			rng := seeded(seed)
			f.slow = func() bool { return rng.IntN(3) > 0 }
			s := schedule(t, f, "all", ScheduleOptions{Seed: seed, Periods: 12, Settle: 300 * time.Millisecond})
			require.NoError(t, s.Run(t.Context()), "seed %d", seed)
			require.Empty(t, f.lost, "seed %d", seed)
			require.NoError(t, f.broken(), "seed %d", seed)
			destroyed += f.most
		})
	}
	require.Greater(t, destroyed, 100, "copies were destroyed at all")
}

func TestOnFiveNodesTwoMayBeHurtWhereEveryReplicaSetBearsIt(t *testing.T) {
	most := 0
	for seed := range uint64(12) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t, 5, 5, 5)
			s := schedule(t, f, "bitflip,wipe", ScheduleOptions{Seed: seed, Periods: 10})
			require.NoError(t, s.Run(t.Context()))
			require.Empty(t, f.lost)
			most = max(most, f.most)
		})
	}
	require.Equal(t, 2, most)
}

func TestNothingIsDestroyedBeforeTheClusterWasWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, 3, 3, 3)
		f.slow = func() bool { return true }
		s := schedule(t, f, "power,amnesia,wipe", ScheduleOptions{Periods: 10, Settle: time.Second})
		require.NoError(t, s.Run(t.Context()))
		require.Zero(t, f.most)
	})
}

func TestEveryClassComesUpWithinSevenPeriods(t *testing.T) {
	for seed := range uint64(250) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t, 3+2*int(seed%2), 3, 3)
			classes := map[string]int{}
			s := schedule(t, f, "all", ScheduleOptions{Seed: seed, Periods: 7, Began: time.Now(), Ended: func(f history.Fault) {
				if f.Failed == "" {
					classes[ClassOf(f.Name)]++
				}
			}})
			require.NoError(t, s.Run(t.Context()))
			require.Len(t, classes, len(Classes()), "seed %d: %v", seed, classes)
		})
	}
}

func TestAPeriodHasAtMostTwoFaultsOfDifferentClassesAndSomeHaveNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, 5, 3, 3)
		under := map[string]history.Fault{}
		most, faults := 0, 0
		const periods = 200
		starts := map[time.Duration]bool{}
		s := schedule(t, f, "all", ScheduleOptions{Seed: 7, Periods: periods, Began: time.Now(),
			Started: func(f history.Fault) {
				require.Empty(t, f.Failed)
				require.Zero(t, f.End)
				for name := range under {
					require.NotEqual(t, ClassOf(name), ClassOf(f.Name))
					require.False(t, kindOf(name).Alone || kindOf(f.Name).Alone)
				}
				if len(under) == 0 {
					starts[f.Start] = true
				}
				under[f.Name] = f
				most = max(most, len(under))
				faults++
			},
			Ended: func(f history.Fault) {
				require.Empty(t, f.Failed)
				require.Equal(t, under[f.Name].Start, f.Start)
				require.GreaterOrEqual(t, f.End, f.Start+10*time.Second)
				delete(under, f.Name)
			}})
		require.NoError(t, s.Run(t.Context()))
		require.Empty(t, under)
		require.Equal(t, 2, most)
		require.Len(t, starts, periods*3/4, "a quarter of the periods has none")
		require.Greater(t, faults, len(starts))
	})
}

func TestAScheduleIsRepeatedByItsSeed(t *testing.T) {
	run := func(seed uint64) (out []string) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t, 5, 3, 3)
			s := schedule(t, f, "all", ScheduleOptions{Seed: seed, Periods: 20, Ended: func(f history.Fault) { out = append(out, fmt.Sprint(f.Name, f.Nodes, f.What)) }})
			require.NoError(t, s.Run(t.Context()))
		})
		return out
	}
	require.Equal(t, run(5), run(5))
	require.NotEqual(t, run(5), run(6))
}

// TestACancelledScheduleLeavesNothingBehind ends schedules at any call that they make to the cluster.
func TestACancelledScheduleLeavesNothingBehind(t *testing.T) {
	for at := range 120 {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t, 5, 3, 3)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f.failAt = func(call int, _ string) bool {
				if call == at {
					cancel()
				}
				return false
			}
			s := schedule(t, f, "all", ScheduleOptions{Seed: uint64(at), Ended: func(f history.Fault) {
				require.Empty(t, f.Failed, "the end of a run is no failure of a fault")
			}})
			time.AfterFunc(time.Hour, cancel)
			require.NoError(t, s.Run(ctx))
			require.NoError(t, f.broken(), "cancelled at call %d", at)
			require.True(t, s.site.idle())
		})
	}
}

func TestAFaultThatFailsToStartIsHealedAndTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, 5, 3, 3)
		f.failAt = func(_ int, what string) bool { return what == "cut" }
		var told []history.Fault
		s := schedule(t, f, "halves", ScheduleOptions{Periods: 4, Ended: func(f history.Fault) { told = append(told, f) },
			Started: func(history.Fault) { require.Fail(t, "it was not started") }})
		require.NoError(t, s.Run(t.Context()))
		require.Len(t, told, 3)
		require.Contains(t, told[0].Failed, errPlanned.Error())
		require.NoError(t, f.broken())
	})
}

func TestWhatCannotBeHealedIsAnErrorAndEndsTheSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, 5, 3, 3)
		f.failAt = func(_ int, what string) bool { return what == "mend" }
		var told []history.Fault
		s := schedule(t, f, "isolate", ScheduleOptions{Periods: 10, Ended: func(f history.Fault) { told = append(told, f) }})
		err := s.Run(t.Context())
		require.ErrorIs(t, err, errPlanned)
		require.Len(t, told, 1)
		require.Contains(t, told[0].Failed, "heal isolate")
	})
}

func TestAHealThatFailsAtFirstIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, 3, 3, 3)
		failed := 0
		f.failAt = func(_ int, what string) bool {
			if what == "start" && failed < 3 {
				failed++
				return true
			}
			return false
		}
		s := schedule(t, f, "kill", ScheduleOptions{Periods: 4})
		require.NoError(t, s.Run(t.Context()))
		require.Equal(t, 3, failed)
		require.NoError(t, f.broken())
	})
}

func TestANamedFaultThatCannotWorkIsRefusedAndOthersAreLeftOut(t *testing.T) {
	f := newFake(t, 3, 3, 3)
	all, err := Parse("network")
	require.NoError(t, err)
	site := NewSite(f, Options{})
	s, err := NewSchedule(site, all, ScheduleOptions{})
	require.NoError(t, err)
	require.NotContains(t, s.Names(), "ring")
	require.Contains(t, s.Names(), "halves")
	require.ErrorIs(t, s.Left()["ring"], ErrCannot)

	all, err = Parse("network,ring")
	require.NoError(t, err)
	_, err = NewSchedule(site, all, ScheduleOptions{})
	require.ErrorIs(t, err, ErrCannot)
	require.ErrorContains(t, err, "ring needs 5 nodes, and there are 3")
}

func TestNoFaultsIsAQuietRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, 3, 3, 3)
		s := schedule(t, f, "none", ScheduleOptions{Periods: 5})
		require.NoError(t, s.Run(t.Context()))
		require.Zero(t, f.calls)
	})
}

func TestParse(t *testing.T) {
	all, err := Parse("all")
	require.NoError(t, err)
	require.NotContains(t, all, Choice{"powerall", false})
	require.Len(t, all, len(Kinds())-1)

	some, err := Parse("kill, pause")
	require.NoError(t, err)
	require.Equal(t, []Choice{{"kill", true}, {"pause", true}}, some)

	classes, err := Parse("process,disk,powerall,kill")
	require.NoError(t, err)
	require.Contains(t, classes, Choice{"kill", true})
	require.Contains(t, classes, Choice{"pause", false})
	require.Contains(t, classes, Choice{"powerall", true})
	require.False(t, slices.ContainsFunc(classes, func(c Choice) bool { return ClassOf(c.Name) == "network" }))

	for _, bad := range []string{"", "kil", "kill,,pause", "ALL"} {
		_, err := Parse(bad)
		require.ErrorIs(t, err, ErrUnknown, bad)
		require.ErrorContains(t, err, "uncontrolled", "the known names are told")
	}
}

func TestEveryKindIsDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Kinds() {
		require.NotEmpty(t, k.About, k.Name)
		require.False(t, seen[k.Name], k.Name)
		require.NotContains(t, Classes(), k.Name, "a name is a fault's or a class's")
		seen[k.Name] = true
		n, err := NewSite(newFake(t, 3, 1, 3), Options{}).Nemesis(k.Name)
		require.NoError(t, err)
		require.Equal(t, k.Name, n.Name())
		require.Equal(t, k.Class, n.Class())
	}
	_, err := NewSite(newFake(t, 3, 1, 3), Options{}).Nemesis("nobody")
	require.True(t, errors.Is(err, ErrUnknown))
}

func TestBearable(t *testing.T) {
	three, five := []int{1, 2, 3}, []int{1, 2, 3, 4, 5}
	for _, c := range []struct {
		nodes    []int
		replicas [][]int
		hurt     []int
		want     bool
	}{
		{three, [][]int{{1, 2, 3}}, nil, true},
		{three, [][]int{{1, 2, 3}}, []int{2}, true},
		{three, [][]int{{1, 2, 3}}, []int{2, 3}, false},
		{five, [][]int{{1, 2, 3, 4, 5}}, []int{2, 3}, true},
		{five, [][]int{{1, 2, 3, 4, 5}}, []int{2, 3, 4}, false},
		{five, [][]int{{1, 2, 3}, {3, 4, 5}}, []int{2, 4}, true},
		{five, [][]int{{1, 2, 3}, {2, 4, 5}}, []int{2, 4}, false}, // two of three of the second
		{three, [][]int{{1, 2, 3}, {1}}, []int{1}, false},         // the only copy
		{three, [][]int{{1, 2, 3}, {1}}, []int{2}, true},
		{[]int{1, 2}, nil, []int{1}, false}, // half is no minority
		{[]int{1, 2, 3, 4}, [][]int{{1, 2, 3, 4}}, []int{1, 2}, false},
		{nil, nil, nil, true},
	} {
		require.Equal(t, c.want, Bearable(c.nodes, c.replicas, c.hurt), "%+v", c)
	}
}
