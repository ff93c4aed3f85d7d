package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
)

// TestS15_TheLeaderCountsAMemberUntilARecordTakesItOut
func TestS15_TheLeaderCountsAMemberUntilARecordTakesItOut(t *testing.T) {
	play(t, Setup{}, func(t *testing.T, w *World) {
		committed(t, w, 2)
		w.cut(C, A)
		x := w.put(A, all)
		for range 4 {
			w.sync(B)
			w.pass(3 * time.Second)
		}
		shrink := w.held("alter")
		require.NotEmpty(t, shrink)
		w.cut(A, controller)
		require.NoError(t, w.commit(shrink[0].cmd))
		require.ElementsMatch(t, []int32{A, B}, w.head().ISR)
		w.sync(B)
		require.False(t, x.done, "the record has not come")
		require.EqualValues(t, 2, w.hw(A))
		require.ElementsMatch(t, []int32{A, B, C}, w.node(A).office().MaximalISR())
		w.join(A, controller)
		w.learn(A)
		w.settle()
		require.True(t, x.acked())
	})
}

// leavesISR takes C out of the ISR and lets it catch up again, up to the proposal that adds it, which is held.
func leavesISR(t *testing.T, w *World) *message {
	t.Helper()
	w.out(C)
	w.learn()
	w.in(C)
	w.learn()
	w.sync(B, C)
	expand := w.held("alter")
	require.NotEmpty(t, expand)
	require.ElementsMatch(t, []int32{A, B}, w.head().ISR)
	return expand[0]
}

// TestS16_AProposalThatComesAfterItsLeaderIsRefused
func TestS16_AProposalThatComesAfterItsLeaderIsRefused(t *testing.T) {
	play(t, Setup{}, func(t *testing.T, w *World) {
		x := committed(t, w, 2)
		expand := leavesISR(t, w)
		w.out(A)
		require.Equal(t, B, w.head().Leader)
		require.ErrorIs(t, w.commit(expand.cmd), metadata.ErrFencedLeaderEpoch)
		require.ErrorIs(t, w.elect(C), metadata.ErrNotEligible)
		w.out(B)
		require.ErrorIs(t, w.elect(C), metadata.ErrNotEligible)
		require.Equal(t, metadata.NoNode, w.head().Leader)
		w.learn()
		w.in(B)
		w.calm()
		require.Equal(t, namesOf(x...), reads(t, w, w.head().Leader))
		noLoss(t, w)
	})
}

// TestS17_AProposalIsOfProcessesAndNotOfNodes
func TestS17_AProposalIsOfProcessesAndNotOfNodes(t *testing.T) {
	play(t, Setup{}, func(t *testing.T, w *World) {
		committed(t, w, 2)
		expand := leavesISR(t, w)
		w.power(C)
		w.node(C).start()
		w.in(C) // unfenced, and empty
		require.ErrorIs(t, w.commit(expand.cmd), metadata.ErrIneligibleReplica)
		require.ElementsMatch(t, []int32{A, B}, w.head().ISR)
	})
}

// TestS18_APositionSpeaksForTheProcessThatToldIt: a fetch of C's old process meets C's new one.
func TestS18_APositionSpeaksForTheProcessThatToldIt(t *testing.T) {
	for _, aware := range []bool{false, true} {
		t.Run(map[bool]string{false: "the leader does not know", true: "the leader knows"}[aware], func(t *testing.T) {
			play(t, Setup{}, func(t *testing.T, w *World) {
				committed(t, w, 2)
				w.out(C)
				w.learn()
				w.in(C)
				w.learn()
				w.round(C)
				w.held("alter")
				old := w.asks(C)
				w.power(C)
				w.node(C).start()
				w.in(C)
				if aware {
					w.learn(A)
				}
				w.pass(time.Second)
				w.held("alter")
				served := w.serves(old)
				require.Equal(t, !aware, served)
				w.pass(time.Second)
				for _, m := range w.held("alter") {
					for _, member := range m.cmd.(*metadata.AlterPartitions).Changes[0].ISR {
						if member.ID == C {
							require.False(t, aware)
							require.ErrorIs(t, w.commit(m.cmd), metadata.ErrIneligibleReplica)
						}
					}
				}
				require.ElementsMatch(t, []int32{A, B}, w.head().ISR)
			})
		})
	}
}

// TestS19_ANewLeaderAddsNobodyBelowItsOwnStart: its high watermark may be behind the true one.
func TestS19_ANewLeaderAddsNobodyBelowItsOwnStart(t *testing.T) {
	play(t, Setup{}, func(t *testing.T, w *World) {
		committed(t, w, 2)
		w.out(C)
		w.learn()
		x := w.write(A, 2)
		w.round(B)
		w.tells(B) // A commits, B does not hear of it
		require.True(t, x[1].acked())
		require.EqualValues(t, 4, w.hw(A))
		require.EqualValues(t, 2, w.hw(B))
		w.kill(A)
		w.out(A)
		w.in(C)
		w.learn()
		require.Equal(t, B, w.head().Leader)
		w.tells(C) // at 2
		require.EqualValues(t, 2, w.hw(B))
		require.Empty(t, w.held("alter"), "2 is B's high watermark, and not the true one")
		w.piece(C) // 3
		require.Empty(t, w.held("alter"))
		w.sync(C)
		require.NotEmpty(t, w.held("alter"))
		w.pass(time.Second)
		w.news()
		require.ElementsMatch(t, []int32{B, C}, w.head().ISR)
	})
}

// TestS19b_AMemberThatComesBackWithoutItsMemoryStartsAnew: it was in sync when the office was taken.
func TestS19b_AMemberThatComesBackWithoutItsMemoryStartsAnew(t *testing.T) {
	play(t, Setup{}, func(t *testing.T, w *World) {
		committed(t, w, 2)
		w.put(A, all)
		w.round(B)
		w.round(C)
		w.node(C).replica().Flush() // three records
		x := w.put(A, all)
		w.round(B)
		w.round(C)
		w.tells(B)
		w.tells(C)
		require.True(t, x.acked())
		require.EqualValues(t, 4, w.hw(A))
		w.kill(A)
		w.out(A)
		w.learn()
		require.Equal(t, B, w.head().Leader)
		require.ElementsMatch(t, []int32{B, C}, w.head().ISR)
		require.Less(t, w.hw(B), int64(4))
		w.power(C)
		w.boot(C)
		w.learn()
		require.EqualValues(t, 3, w.end(C))
		require.GreaterOrEqual(t, w.end(C), w.hw(B))
		w.tells(C)
		require.Empty(t, w.held("alter"), "3 of the 4 committed records")
		w.calm()
		require.ElementsMatch(t, []int32{B, C}, w.head().ISR)
	})
}

// TestS20_WhoLeftTheISRLastLeadsWhenTheLastMemberLostItsMemory
func TestS20_WhoLeftTheISRLastLeadsWhenTheLastMemberLostItsMemory(t *testing.T) {
	t.Run("fenced one by one", func(t *testing.T) {
		play(t, Setup{}, func(t *testing.T, w *World) {
			x := committed(t, w, 2)
			w.out(C)
			w.learn()
			y := w.put(A, all)
			w.sync(B)
			require.True(t, y.acked())
			w.out(B)
			w.learn()
			require.Equal(t, []int32{A}, w.head().ISR)
			require.Equal(t, []int32{B}, w.head().ELR)
			z := w.put(A, all)
			w.settle()
			require.ErrorIs(t, z.answer.Err, partition.ErrNotEnoughReplicas)
			w.power(A)
			w.boot(A)
			require.Equal(t, metadata.NoNode, w.head().Leader)
			w.in(C)
			require.ErrorIs(t, w.elect(C), metadata.ErrNotEligible)
			w.in(B)
			w.govern()
			require.Equal(t, B, w.head().Leader)
			w.calm()
			require.Equal(t, namesOf(append(x, y)...), reads(t, w, B))
			noLoss(t, w)
		})
	})
	t.Run("by one proposal", func(t *testing.T) {
		play(t, Setup{}, func(t *testing.T, w *World) {
			x := committed(t, w, 2)
			w.cut(A, B)
			w.cut(A, C)
			w.put(A, 1)
			w.pass(11 * time.Second)
			w.news()
			require.Equal(t, []int32{A}, w.head().ISR)
			require.ElementsMatch(t, []int32{B, C}, w.head().ELR)
			w.power(A)
			w.join(A)
			w.boot(A)
			w.calm()
			require.Contains(t, []int32{B, C}, w.head().Leader)
			require.Equal(t, namesOf(x...), reads(t, w, w.head().Leader))
			require.Equal(t, w.names(B), w.names(A))
			noLoss(t, w)
		})
	})
}

// TestS21_KillingAllProcessesLosesNothing
func TestS21_KillingAllProcessesLosesNothing(t *testing.T) {
	byBoth(t, Setup{}, func(t *testing.T, w *World) {
		x := committed(t, w, 3)
		w.kill(A, B, C)
		w.boot(A, B, C)
		for _, id := range []int32{A, B, C} {
			require.Equal(t, metadata.RestartProcessCrash, w.image().Broker(id).Class)
			require.True(t, w.trusted(id))
		}
		w.calm()
		require.NotEqual(t, metadata.NoNode, w.head().Leader)
		require.Equal(t, namesOf(x...), reads(t, w, w.head().Leader))
		noLoss(t, w)
	})
}

// TestS22_WhenAllLosePowerTheMostCompleteLogLeadsAndTheLossIsTold
func TestS22_WhenAllLosePowerTheMostCompleteLogLeadsAndTheLossIsTold(t *testing.T) {
	byRule(t, Setup{}, func(t *testing.T, w *World) {
		kept := allLosePower(t, w)
		w.boot(A, B)
		w.calm()
		require.Equal(t, metadata.NoNode, w.head().Leader)
		noLoss(t, w)
		require.Equal(t, w.head().Rule == metadata.RuleQuorum, w.offlineUnsafe(), "by the ISR rule C may have everything, for all that is known")
		if w.offlineUnsafe() {
			require.Equal(t, []int32{C}, metadata.MissingReports(w.head(), w.heard(w.head()), w.image().Broker))
		}
		w.boot(C)
		w.calm()
		require.Equal(t, B, w.head().Leader)
		require.Equal(t, 1, w.shadow.losses)
		require.Equal(t, w.head().LossEpoch, w.head().LeaderEpoch)
		require.Equal(t, kept, reads(t, w, B))
		for _, id := range []int32{A, C} {
			require.Equal(t, kept, w.names(id))
		}
	})
}

// allLosePower leaves B with the three oldest of five committed records, the third of a newer epoch; A with six records of
// an older epoch, two of them committed; C with nothing and the memory of five. It gives what B has kept.
func allLosePower(t *testing.T, w *World) []int {
	t.Helper()
	committed(t, w, 2)
	w.cut(A, B)
	w.cut(A, C)
	w.write(A, 4)
	w.node(A).replica().Flush()
	w.cut(A, controller)
	failover(t, w, B, B, C)
	w.put(B, all)
	w.node(B).replica().Flush()
	kept := w.names(B)
	for range 2 {
		w.put(B, all)
		w.sync(C)
	}
	require.EqualValues(t, w.end(B), w.hw(C))
	for _, id := range []int32{A, B, C} {
		w.node(id).checkpoint()
	}
	w.power(A, B, C)
	w.join(A)
	w.out(A, B, C)
	return kept
}

// TestS47_NoAnswerToAProposalChangesWhomTheLeaderCounts: only a record does.
func TestS47_NoAnswerToAProposalChangesWhomTheLeaderCounts(t *testing.T) {
	counted := func(t *testing.T, w *World, first []*sent) {
		t.Helper()
		x := w.put(A, all)
		w.sync(B)
		require.False(t, x.done)
		require.EqualValues(t, 2, w.hw(A), "C counts")
		require.NoError(t, w.elect(C))
		w.learn(B, C)
		w.sync(B)
		require.Equal(t, namesOf(first...), w.names(C))
		w.join(A)
		w.learn()
		w.sync(A, B)
		require.False(t, x.acked())
	}
	t.Run("accepted, and refused the second time", func(t *testing.T) {
		play(t, Setup{}, func(t *testing.T, w *World) {
			first := committed(t, w, 2)
			expand := leavesISR(t, w)
			w.cut(A, C)
			require.NoError(t, w.commit(expand.cmd))
			require.ErrorIs(t, w.commit(expand.cmd), metadata.ErrInvalidUpdate)
			w.cut(A, controller)
			counted(t, w, first)
		})
	})
	t.Run("another record comes first", func(t *testing.T) {
		play(t, Setup{}, func(t *testing.T, w *World) {
			first := committed(t, w, 2)
			expand := leavesISR(t, w)
			w.cut(A, C)
			w.put(A, all)
			for range 5 { // C lags, and A would leave it out again
				w.sync(B)
				w.pass(3 * time.Second)
			}
			w.held("alter")
			epoch := w.head().PartitionEpoch
			require.NoError(t, w.alter(metadata.TopicConfigChange{Recovery: metadata.RecoverManual}))
			require.Equal(t, epoch, w.head().PartitionEpoch, "it says nothing about the proposal")
			w.learn(A)
			w.held("alter")
			w.cut(A, controller)
			require.NoError(t, w.commit(expand.cmd))
			counted(t, w, first)
		})
	})
	t.Run("refused, and accepted when it comes again", func(t *testing.T) {
		play(t, Setup{}, func(t *testing.T, w *World) {
			first := committed(t, w, 2)
			expand := leavesISR(t, w)
			w.cut(A, C)
			w.cut(A, controller)
			w.out(C)
			require.ErrorIs(t, w.commit(expand.cmd), metadata.ErrIneligibleReplica)
			w.in(C)
			require.NoError(t, w.commit(expand.cmd))
			require.Contains(t, w.head().ISR, C)
			counted(t, w, first)
		})
	})
}

// TestS52_ALowerMinimumEndsTheClaimsOfThoseOutsideTheISR: the leader may commit without them from then on.
func TestS52_ALowerMinimumEndsTheClaimsOfThoseOutsideTheISR(t *testing.T) {
	lower := func(t *testing.T, w *World) {
		t.Helper()
		require.NoError(t, w.commit(&metadata.SetMinISR{Partition: w.id, PartitionEpoch: w.head().PartitionEpoch, MinISR: 1}))
	}
	t.Run("a member of the ISR lives", func(t *testing.T) {
		play(t, Setup{}, func(t *testing.T, w *World) {
			first := committed(t, w, 2)
			w.out(C, B)
			w.learn()
			require.Equal(t, []int32{A}, w.head().ISR)
			require.Equal(t, []int32{B}, w.head().ELR)
			lower(t, w)
			require.Empty(t, w.head().ELR)
			w.learn()
			w.cut(A, B)
			w.cut(A, C)
			x := w.put(A, all)
			require.True(t, x.acked())
			w.kill(A)
			w.out(A)
			w.in(B, C)
			require.ErrorIs(t, w.elect(B), metadata.ErrNotEligible)
			w.govern()
			notLed(t, w)
			w.join(A)
			w.boot(A)
			w.calm()
			require.Equal(t, namesOf(append(first, x)...), reads(t, w, A))
			noLoss(t, w)
		})
	})
	t.Run("none of the ISR lives", func(t *testing.T) {
		play(t, Setup{}, func(t *testing.T, w *World) {
			committed(t, w, 2)
			w.kill(A)
			w.out(A, B, C)
			require.Empty(t, w.head().ISR)
			require.ElementsMatch(t, []int32{B, C}, w.head().ELR)
			lower(t, w)
			require.ElementsMatch(t, []int32{B, C}, w.head().ELR)
			w.in(B)
			require.Equal(t, B, w.head().Leader)
			require.Empty(t, w.head().ELR)
			w.learn()
			w.cut(B, C)
			x := w.put(B, all)
			require.True(t, x.acked())
			w.out(B)
			w.in(C)
			require.ErrorIs(t, w.elect(C), metadata.ErrNotEligible)
			require.Equal(t, metadata.NoNode, w.head().Leader)
			noLoss(t, w)
		})
	})
}
