package nemesis

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClocksAreSetAheadAndBackByLittleAndMuch(t *testing.T) {
	ahead, back, little, much := 0, 0, 0, 0
	for seed := range uint64(100) {
		f := newFake(t, 5, 3, 3)
		nodes, _, err := started(t, f, "jump").Start(t.Context(), seeded(seed))
		require.NoError(t, err)
		require.Len(t, f.done, 1)
		for id, d := range f.clocks {
			require.Contains(t, nodes, id)
			require.GreaterOrEqual(t, d.Abs(), clockLeast)
			require.LessOrEqual(t, d.Abs(), clockMost)
			if d > 0 {
				ahead++
			} else {
				back++
			}
			if d.Abs() < time.Second {
				little++
			} else if d.Abs() > time.Hour {
				much++
			}
		}
		require.Len(t, f.clocks, len(nodes))
	}
	for _, n := range []int{ahead, back, little, much} {
		require.Greater(t, n, 20)
	}
}

func TestAStrobeGoesThereAndBackUntilItIsHealed(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t, 3, 3, 3)
			n := started(t, f, "strobe")
			nodes, _, err := n.Start(t.Context(), seeded(seed))
			require.NoError(t, err)
			away, right := 0, 0
			for range 100 {
				time.Sleep(50 * time.Millisecond)
				f.mu.Lock()
				if f.clocks[nodes[0]] == 0 {
					right++
				} else {
					away++
				}
				f.mu.Unlock()
			}
			require.Greater(t, away, 30, "seed %d", seed)
			require.Greater(t, right, 30, "seed %d", seed)
			require.NoError(t, n.Heal(t.Context()))
			calls := f.calls
			time.Sleep(time.Second)
			require.Equal(t, calls, f.calls, "it has ended")
			require.NoError(t, f.broken())
		})
	}
}
