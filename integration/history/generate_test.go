package history

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func kindsOf(r Report) map[Kind]int {
	kinds := map[Kind]int{}
	for _, a := range r.Anomalies {
		kinds[a.Kind] += a.Count
	}
	return kinds
}

func TestHealthyHistoriesAreAcquitted(t *testing.T) {
	for seed := range uint64(200) {
		h := Generate(Shape{Seed: seed, Transactions: seed%2 == 0, Ops: 50 + int(seed)*3, Processes: 2 + int(seed%5)})
		if err := h.Validate(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, options := range []Options{{}, {WW: true}} {
			r := options.Check(h)
			kinds := kindsOf(r)
			delete(kinds, IntSendSkip) // writes of others come between those of one operation
			if options.WW {
				for _, k := range []Kind{G0, G0Process, G0Realtime, G1c, G1cProcess, G1cRealtime} {
					delete(kinds, k) // as a consequence
				}
			}
			if len(kinds) > 0 || r.Verdict != VerdictOK || r.Exit != ExitOK {
				t.Fatalf("seed %d, %+v: %+v", seed, options, r)
			}
		}
	}
}

func TestGeneratedHistoriesHaveSomethingOfEverything(t *testing.T) {
	count := map[string]int{}
	for seed := range uint64(20) {
		h := Generate(Shape{Seed: seed, Transactions: seed%2 == 0})
		for _, o := range h.Ops {
			count[string(o.F)+" "+string(o.Type)]++
			count["moved"] += len(o.Moved)
			for i, p := range o.Mops {
				count["polled"] += len(p.Poll)
				if i > 0 && p.Send != nil && o.Mops[i-1].Poll != nil {
					count["a send after a poll"]++
				}
			}
		}
		count["watermarks"] += len(h.Watermarks)
		for _, c := range h.Copies {
			for i, b := range c.Batches {
				if b.Control {
					count["control batches"]++
				}
				if i > 0 && b.Epoch > c.Batches[i-1].Epoch {
					count["elections"]++
				}
			}
		}
	}
	for _, want := range []string{
		"send ok", "send fail", "send info", "poll ok", "poll fail", "poll info", "txn ok", "txn fail", "txn info", "assign ok",
		"subscribe ok", "crash info", "moved", "polled", "a send after a poll", "watermarks", "control batches", "elections",
	} {
		if count[want] < 10 {
			t.Errorf("%s: %d", want, count[want])
		}
	}
}

func TestEveryPlantedAnomalyIsFound(t *testing.T) {
	type asked struct {
		seed uint64
		ww   bool
	}
	healthy := map[asked]map[Kind]int{} // what is found before
	for _, kind := range Kinds {
		t.Run(string(kind), func(t *testing.T) {
			planted := 0
			for seed := uint64(0); planted < 50; seed++ {
				if seed == 200 {
					t.Fatalf("only %d of 200 histories had a place for it", planted)
				}
				h := Generate(Shape{Seed: seed, Transactions: seed%2 == 0, Ops: 150})
				ww := kind == G0 || kind == G0Process || kind == G0Realtime
				before := healthy[asked{seed, ww}]
				if before == nil {
					before = kindsOf(Options{WW: ww}.Check(h))
					healthy[asked{seed, ww}] = before
				}
				err := Plant(kind, h, rand.New(rand.NewPCG(seed, 1)))
				if errors.Is(err, ErrNoPlace) {
					continue
				} else if err != nil {
					t.Fatal(err)
				}
				planted++
				if err := h.Validate(); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				after := Options{WW: ww}.Check(h)
				if kindsOf(after)[kind] <= before[kind] {
					t.Fatalf("seed %d: found only %v", seed, kindsOf(after))
				}
				for _, a := range after.Anomalies {
					if a.Count < 1 || a.Allowed > a.Count || len(a.Examples) < 1 || len(a.Examples) > maxExamples {
						t.Fatalf("seed %d: %+v", seed, a)
					}
					for _, e := range a.Examples {
						if e.Text == "" || len(e.Ops)+len(e.Nodes)+len(e.Offsets) == 0 {
							t.Fatalf("seed %d: %s proves nothing: %+v", seed, a.Kind, e)
						}
					}
				}
			}
		})
	}
}

func TestACycleOverAWholeHistoryIsFoundInTime(t *testing.T) {
	h := Generate(Shape{Seed: 3, Ops: 20_000, Transactions: true})
	if err := Plant(G1cRealtime, h, rand.New(rand.NewPCG(3, 3))); err != nil {
		t.Fatal(err)
	}
	// One of its operations takes as long as everything, and the first of the others comes before everything.
	for i := range h.Ops {
		switch op := &h.Ops[i]; {
		case op.Process < 4:
		case len(op.Mops) == 2:
			op.Start = 0
		case len(op.Mops[0].Poll) == 1:
			op.Start, op.End = 0, 0
		}
	}
	slices.SortStableFunc(h.Ops, byEnd)
	for _, a := range Check(h).Anomalies {
		if a.Kind == G1cRealtime && len(a.Examples[0].Ops) == 3 {
			return
		}
	}
	t.Error(said(Check(h)))
}

// TestTransactionsAreSpoiledAsAWholeToo and not only single sends.
func TestTransactionsAreSpoiledAsAWholeToo(t *testing.T) {
	several := map[Kind]int{}
	for _, kind := range []Kind{AbortedRead, LostWrite} {
		for seed := range uint64(40) {
			h := Generate(Shape{Seed: 2 * seed, Transactions: true, Ops: 150})
			if err := Plant(kind, h, rand.New(rand.NewPCG(seed, 1))); err != nil {
				t.Fatal(err)
			}
			for _, a := range Check(h).Anomalies {
				if writer := h.Ops[a.Examples[0].Ops[0]]; a.Kind == kind && writer.F == Txn && writer.Type != OK {
					several[kind]++
				}
			}
		}
	}
	if several[AbortedRead] < 5 || several[LostWrite] < 5 {
		t.Errorf("transactions that were spoiled: %v", several)
	}
}

func TestPlantsOfOneRecordBringNoOthers(t *testing.T) {
	alone := []Kind{
		G1c, G1cProcess, G1cRealtime, PrecommittedRead, WatermarkBack, EpochBack, CopiesDiffer, SentTwice, IntNonmonotonicSend,
		IntSendSkip, NonmonotonicSend, Phantom, PollSkip, NonmonotonicPoll, IntPollSkip, Duplicate,
	}
	for _, kind := range alone {
		for seed := range uint64(20) {
			h := Generate(Shape{Seed: 2 * seed, Transactions: true, Ops: 150})
			if Plant(kind, h, rand.New(rand.NewPCG(seed, 1))) != nil {
				continue
			}
			kinds := kindsOf(Check(h))
			if kind != IntSendSkip {
				delete(kinds, IntSendSkip)
			}
			if len(kinds) != 1 || kinds[kind] == 0 {
				t.Errorf("%s, seed %d: %v", kind, 2*seed, kinds)
			}
		}
	}
}

func TestGeneratedHistoriesAreReadAsTheyWereWritten(t *testing.T) {
	for seed := range uint64(20) {
		h := Generate(Shape{Seed: seed, Transactions: seed%2 == 0})
		if again := Generate(Shape{Seed: seed, Transactions: seed%2 == 0}); !reflect.DeepEqual(h, again) {
			t.Fatalf("seed %d gives different histories", seed)
		}
		got, err := Read(strings.NewReader(text(t, h)))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if text(t, got) != text(t, h) || !reflect.DeepEqual(Check(got), Check(h)) {
			t.Fatalf("seed %d: it reads otherwise", seed)
		}
	}
}
