package nemesis

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// started makes the fault of a name at work on five nodes that were whole.
func started(t *testing.T, f *fake, name string) Nemesis {
	t.Helper()
	s := NewSite(f, Options{Topics: []string{fakeTopic}})
	require.NoError(t, s.Settle(t.Context()))
	n, err := s.Nemesis(name)
	require.NoError(t, err)
	require.NoError(t, n.Check())
	f.calls = 0
	clear(f.done)
	f.loose = kindOf(name).ByName
	return n
}

func TestEveryFaultDoesSomethingAndIsHealed(t *testing.T) {
	for _, k := range Kinds() {
		t.Run(k.Name, func(t *testing.T) {
			for seed := range uint64(20) {
				synctest.Test(t, func(t *testing.T) {
					f := newFake(t, 5, 3, 3)
					n := started(t, f, k.Name)
					require.Equal(t, k.Class, n.Class())
					nodes, what, err := n.Start(t.Context(), seeded(seed))
					require.NoError(t, err, "seed %d", seed)
					require.NotEmpty(t, what)
					if k.Name != "rule" {
						require.NotEmpty(t, nodes)
					}
					changed := 0
					for call, times := range f.done {
						if call != "view" {
							changed += times
						}
					}
					require.Positive(t, changed, "something is done to the cluster")
					require.Equal(t, k.Destroys, len(f.hurt) > 0, "seed %d: %v", seed, f.hurt)
					require.NoError(t, n.Heal(t.Context()))
					require.NoError(t, f.broken(), "seed %d: %s", seed, what)
					require.Empty(t, f.lost)
					calls := f.calls
					require.NoError(t, n.Heal(t.Context()))
					require.Equal(t, calls, f.calls, "nothing is left to do")
				})
			}
		})
	}
}

// Each call that a fault makes fails once, while it starts or while it is healed, and everything is whole in the end.
func TestEveryFaultIsHealedAfterAnyError(t *testing.T) {
	for _, k := range Kinds() {
		t.Run(k.Name, func(t *testing.T) {
			for at := 1; ; at++ {
				over := false
				synctest.Test(t, func(t *testing.T) {
					f := newFake(t, 5, 3, 3)
					n := started(t, f, k.Name)
					f.failAt = func(call int, _ string) bool { return call == at }
					_, _, _ = n.Start(t.Context(), seeded(uint64(at)))
					first := n.Heal(t.Context())
					over = f.calls < at
					f.failAt = nil
					second := n.Heal(t.Context())
					require.NoError(t, second, "call %d, first healed with %v", at, first)
					require.NoError(t, f.broken(), "call %d, first healed with %v", at, first)
					require.True(t, n.(interface{ free() bool }).free(), "call %d", at)
				})
				if over {
					return
				}
			}
		})
	}
}

func (b *base) free() bool { return b.s.idle() }

func TestHealingWhatWasNotStartedDoesNothing(t *testing.T) {
	for _, k := range Kinds() {
		f := newFake(t, 5, 3, 3)
		n := started(t, f, k.Name)
		require.NoError(t, n.Heal(t.Context()), k.Name)
		require.Zero(t, f.calls, k.Name)
	}
}

func TestNodesThatAFaultHasInHandAreLeftAlone(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t, 5, 3, 3)
			s := NewSite(f, Options{Topics: []string{fakeTopic}})
			require.NoError(t, s.Settle(t.Context()))
			rng := seeded(seed)
			first, err := s.Nemesis("kill")
			require.NoError(t, err)
			killed, _, err := first.Start(t.Context(), rng)
			require.NoError(t, err)
			second, err := s.Nemesis("slowdisk")
			require.NoError(t, err)
			slowed, _, err := second.Start(t.Context(), rng)
			if err != nil {
				require.ErrorIs(t, err, ErrCannot)
			}
			for _, id := range slowed {
				require.NotContains(t, killed, id, fmt.Sprintf("seed %d", seed))
			}
			require.Error(t, s.Settle(t.Context()), "nothing settles meanwhile")
			require.NoError(t, second.Heal(t.Context()))
			require.NoError(t, first.Heal(t.Context()))
			require.NoError(t, s.Settle(t.Context()))
		})
	}
}

func TestNothingSettlesWhileAFaultHasNodesInHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, 3, 3, 3)
		n := started(t, f, "restart") // afterwards all nodes run
		_, _, err := n.Start(t.Context(), seeded(1))
		require.NoError(t, err)
		require.NoError(t, f.broken())
		s := n.(*restart).s
		require.ErrorContains(t, s.Settle(t.Context()), "in hand")
		require.NoError(t, n.Heal(t.Context()))
		require.NoError(t, s.Settle(t.Context()))
	})
}
