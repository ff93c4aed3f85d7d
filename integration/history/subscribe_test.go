package history

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// movedBefore says that a rebalance moved keys before an operation, or within it.
func movedBefore(o Op, keys ...int) Op { o.Moved = keys; return o }

// TestASubscribersOrderCountsFromOneRebalanceToTheNext and everything else counts always.
func TestASubscribersOrderCountsFromOneRebalanceToTheNext(t *testing.T) {
	sent := func(more ...Op) *History {
		return handMade(append([]Op{
			op(1, 0, 1, send(0, 1, 0), send(0, 2, 1), send(0, 3, 2), send(1, 1, 0)), op(2, 2, 3, poll(at{0, 1, 0}, at{0, 2, 1}, at{0, 3, 2}, at{1, 1, 0})),
			keysOp(Subscribe, 3, 4, 5, 0, 1),
		}, more...)...)
	}
	p := func(from int, list ...[3]int64) Op { return op(3, from, from+1, poll(list...)) }
	judge(t, []limitCase{
		{"the first poll may begin anywhere", sent(p(6, at{0, 2, 1}, at{0, 3, 2})), "nothing"},
		{"one goes on where the one before was", sent(p(6, at{0, 1, 0}), p(8, at{0, 2, 1}, at{0, 3, 2})), "nothing"},
		{"a rebalance moves back", sent(p(6, at{0, 1, 0}, at{0, 2, 1}), movedBefore(p(8, at{0, 1, 0}, at{0, 2, 1}), 0), p(10, at{0, 3, 2})), "nothing"},
		{"a rebalance moves on", sent(p(6, at{0, 1, 0}), movedBefore(p(8, at{0, 3, 2}), 0)), "nothing"},
		{"one that polls nothing moves too", sent(p(6, at{0, 1, 0}), movedBefore(p(8), 0), p(10, at{0, 3, 2})), "nothing"},
		{"and one of which nobody knows what became", sent(p(6, at{0, 1, 0}), movedBefore(unsure(p(8)), 0), p(10, at{0, 3, 2})), "nothing"},
		{"within the operation in which it comes too", sent(movedBefore(op(3, 6, 7, poll(at{0, 1, 0}, at{0, 2, 1}), poll(at{0, 1, 0}, at{0, 2, 1})), 0)), "nothing"},
		{"without one, back", sent(p(6, at{0, 1, 0}, at{0, 2, 1}), p(8, at{0, 1, 0})), "nonmonotonic-poll 1/0"},
		{"without one, the same", sent(p(6, at{0, 1, 0}), p(8, at{0, 1, 0})), "nonmonotonic-poll 1/0"},
		{"without one, on", sent(p(6, at{0, 1, 0}), p(8, at{0, 3, 2})), "poll-skip 1/0"},
		{"one that moved another key, back", sent(p(6, at{0, 1, 0}), movedBefore(p(8, at{0, 1, 0}), 1)), "nonmonotonic-poll 1/0"},
		{"one that moved another key, on", sent(p(6, at{0, 1, 0}), movedBefore(p(8, at{0, 3, 2}), 1)), "poll-skip 1/0"},
		{"behind one, back", sent(p(6, at{0, 2, 1}), movedBefore(p(8, at{0, 1, 0}), 0), p(10, at{0, 1, 0})), "nonmonotonic-poll 1/0"},
		{"behind one, on", sent(p(6, at{0, 2, 1}), movedBefore(p(8, at{0, 1, 0}), 0), p(10, at{0, 3, 2})), "poll-skip 1/0"},
		{"another's rebalance", sent(p(6, at{0, 1, 0}), movedBefore(op(4, 6, 7, poll()), 0), p(8, at{0, 1, 0})), "nonmonotonic-poll 1/0"},
		{"within one operation, back", sent(p(6, at{0, 1, 0}, at{0, 2, 1}, at{0, 1, 0})), "int-nonmonotonic-poll 1/0"},
		{"within one operation, on", sent(p(6, at{0, 1, 0}, at{0, 3, 2})), "int-poll-skip 1/0"},
		{"a new subscription to the same keys keeps them", sent(p(6, at{0, 1, 0}), keysOp(Subscribe, 3, 8, 9, 0), p(10, at{0, 1, 0})), "nonmonotonic-poll 1/0"},
		{"of a new member it does not", sent(p(6, at{0, 1, 0}), movedBefore(keysOp(Subscribe, 3, 8, 9, 0), 0), p(10, at{0, 1, 0})), "nothing"},
		{"an assignment after it goes on", sent(p(6, at{0, 1, 0}), keysOp(Assign, 3, 8, 9, 0), p(10, at{0, 3, 2})), "poll-skip 1/0"},

		{"a rebalance is no excuse for a value that nobody sent", sent(movedBefore(p(6, at{0, 9, 7}), 0)), "phantom 1/0"},
		{"nor for one at another offset", sent(movedBefore(p(6, at{0, 1, 0}, at{0, 1, 7}), 0)), "duplicate 1/0"},
		{"nor for two at one offset", sent(unsure(op(4, 0, 6, send(0, 4, -1))), movedBefore(p(6, at{0, 4, 0}), 0)), "inconsistent-offsets 1/0"},
		{"nor for one that was aborted", sent(failed(op(1, 6, 7, send(0, 4, -1))), movedBefore(p(8, at{0, 4, 3}), 0)), "G1a 1/0"},
		{"nor for one of a transaction that is not over", sent(movedBefore(op(3, 6, 7, send(0, 4, 3), poll(at{0, 4, 3})), 0)), "precommitted-read 1/0"},
		{"nor for one that is lost", sent(op(1, 6, 7, send(0, 4, 3)), op(1, 8, 9, send(0, 5, 4)), movedBefore(p(10, at{0, 5, 4}), 0)), "lost-write 1/0, unseen 1/0"},
	})
}

// TestEveryStepThatASubscriberTakesIsJudged by histories that are made at random and changed in one place that no rebalance
// excuses.
func TestEveryStepThatASubscriberTakesIsJudged(t *testing.T) {
	planted := map[Kind]int{}
	for seed := uint64(0); planted[NonmonotonicPoll] < 50 || planted[PollSkip] < 50; seed++ {
		if seed == 400 {
			t.Fatalf("only %v in 400 histories", planted)
		}
		kind := []Kind{NonmonotonicPoll, PollSkip}[seed%2]
		h := Generate(Shape{Seed: seed, Transactions: seed%4 < 2})
		at, before, ok := subscribedStep(h, rand.New(rand.NewPCG(seed, 2)))
		if !ok {
			continue
		}
		planted[kind]++
		if kind == NonmonotonicPoll {
			at.mop.Poll = slices.Insert(slices.Clone(at.mop.Poll), at.at, before)
		} else {
			at.mop.Poll = slices.Delete(slices.Clone(at.mop.Poll), at.at, at.at+1)
		}
		if n := kindsOf(Check(h))[kind]; n != 1 {
			t.Fatalf("seed %d: %s %d times", seed, kind, n)
		}
	}
}

// subscribedStep draws the first record of a key in an ok poll of a client that subscribed, with another one of the key behind
// it, and gives the one that it polled before, between which two no rebalance moved the key.
func subscribedStep(h *History, rng *rand.Rand) (spot, Seen, bool) {
	type place struct{ process, key int }
	last, subscribed := map[place]Seen{}, map[int]bool{}
	var all []spot
	var befores []Seen
	for i := range h.Ops {
		op := &h.Ops[i]
		for k := range h.Header.Keys {
			if op.F == Assign || op.F == Subscribe || op.F == Crash || op.Type != OK || slices.Contains(op.Moved, k) {
				delete(last, place{op.Process, k})
			}
		}
		if op.F == Assign || op.F == Subscribe || op.F == Crash {
			subscribed[op.Process] = op.F == Subscribe
		}
		if op.F != Poll || op.Type != OK || !subscribed[op.Process] {
			if op.F == Txn {
				for k := range h.Header.Keys {
					delete(last, place{op.Process, k})
				}
			}
			continue
		}
		list := op.Mops[0].Poll
		for n, s := range list {
			before, ok := last[place{op.Process, s.Key}]
			if first := n == 0 || list[n-1].Key != s.Key; first && ok && n+1 < len(list) && list[n+1].Key == s.Key {
				all, befores = append(all, spot{op, &op.Mops[0], n, s}), append(befores, before)
			}
		}
		for _, s := range list {
			last[place{op.Process, s.Key}] = s
		}
	}
	if len(all) == 0 {
		return spot{}, Seen{}, false
	}
	n := rng.IntN(len(all))
	return all[n], befores[n], true
}

// TestASubscriptionIsReadAsItWasWritten also by the fast way, and a history without any has no word of it.
func TestASubscriptionIsReadAsItWasWritten(t *testing.T) {
	h := handMade(movedBefore(keysOp(Subscribe, 3, 1, 2, 0, 1), 1), movedBefore(op(3, 3, 4, poll()), 0, 1))
	h.Header.Subscriptions = true
	got := readBack(t, h)
	if !got.Header.Subscriptions || len(got.Ops) != 2 || got.Ops[0].F != Subscribe || !slices.Equal(got.Ops[0].Keys, []int{0, 1}) ||
		!slices.Equal(got.Ops[0].Moved, []int{1}) || !slices.Equal(got.Ops[1].Moved, []int{0, 1}) || got.Ops[1].End != 4*time.Nanosecond {
		t.Errorf("%+v", got)
	}
	h.Header.Subscriptions = false
	if readBack(t, h).Header.Subscriptions {
		t.Error("it is there")
	}
}

func readBack(t *testing.T, h *History) *History {
	t.Helper()
	got, err := Read(strings.NewReader(text(t, h)))
	if err != nil {
		t.Fatal(err)
	}
	return got
}
