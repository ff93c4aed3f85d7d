package history

import (
	"math/rand/v2"
	"testing"
)

func liveOf(h *History) int {
	l := NewLive(&h.Header)
	for i := range h.Ops {
		l.Op(&h.Ops[i])
	}
	return l.Found()
}

// TestWhatIsCountedLiveIsNothingInHealthyHistories and something in those with an anomaly that one look shows.
func TestWhatIsCountedLiveIsNothingInHealthyHistories(t *testing.T) {
	kinds, planted := []Kind{InconsistentOffsets, Duplicate, IntNonmonotonicPoll}, map[Kind]int{}
	for seed := range uint64(50) {
		shape := Shape{Seed: seed, Transactions: seed%2 == 0}
		if n := liveOf(Generate(shape)); n != 0 {
			t.Fatalf("seed %d: %d in a healthy history", seed, n)
		}
		for _, kind := range kinds {
			h := Generate(shape)
			if err := Plant(kind, h, rand.New(rand.NewPCG(seed, 1))); err != nil {
				continue // it has no place for it
			}
			looked := NewLive(&h.Header).keys
			for _, a := range Check(h).Anomalies {
				if a.Kind == kind && a.Count > a.Allowed && looked[a.Key] != nil {
					planted[kind]++
					if liveOf(h) == 0 {
						t.Errorf("seed %d: %s of key %d was not counted", seed, kind, a.Key)
					}
				}
			}
		}
	}
	for _, kind := range kinds {
		if planted[kind] < 5 {
			t.Errorf("%s was planted %d times only", kind, planted[kind])
		}
	}
}
