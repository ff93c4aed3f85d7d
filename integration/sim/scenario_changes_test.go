package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
	"cordwood/logstore/vfs"
)

// joint brings the move of {A, B, C} to {C, D, E} to where the newcomers are certified, and gives the command that brings
// both sets into force.
func joint(t *testing.T, w *World) *metadata.EnterJoint {
	t.Helper()
	require.NoError(t, w.move(C, D, E))
	w.learn()
	early := &metadata.EnterJoint{Items: []metadata.JointEntry{{Partition: w.id, PartitionEpoch: w.head().PartitionEpoch}}}
	require.ErrorIs(t, w.commit(early), metadata.ErrNotEligible, "the newcomers are empty")
	w.sync(B, C, D, E)
	w.news() // certificates
	w.learn()
	return &metadata.EnterJoint{Items: []metadata.JointEntry{{Partition: w.id, PartitionEpoch: w.head().PartitionEpoch}}}
}

var moving = Setup{Rule: metadata.RuleQuorum, Nodes: 5}

// TestS24_AMoveNeedsBothSetsFromItsRecordOn, also while the leader does not know.
func TestS24_AMoveNeedsBothSetsFromItsRecordOn(t *testing.T) {
	t.Run("the leader does not know", func(t *testing.T) {
		play(t, moving, func(t *testing.T, w *World) {
			first := committed(t, w, 2)
			enter := joint(t, w)
			w.cut(A, controller)
			require.NoError(t, w.commit(enter))
			w.learn()
			w.held("finish")
			x := w.put(A, all)
			w.sync(B)
			require.True(t, x.acked(), "a majority of the old set")
			w.kill(A)
			w.out(A)
			w.learn()
			require.ErrorIs(t, w.commit(w.ballot(C, C, D, E)), metadata.ErrNotEligible, "no majority of the old set")
			require.ErrorIs(t, w.commit(w.ballot(B, B, C)), metadata.ErrNotEligible, "no majority of the new set")
			require.ErrorIs(t, w.commit(w.ballot(C, B, C, D)), metadata.ErrNotEligible, "B has more")
			require.NoError(t, w.vote(B, B, C, D))
			w.sync(C, D, E)
			require.Equal(t, namesOf(append(first, x)...), reads(t, w, B))
			w.join(A)
		})
	})
	t.Run("the leader knows", func(t *testing.T) {
		play(t, moving, func(t *testing.T, w *World) {
			committed(t, w, 2)
			require.NoError(t, w.commit(joint(t, w)))
			w.learn()
			w.held("finish")
			x := w.put(A, all)
			for range 4 {
				w.round(B)
			}
			require.False(t, x.done, "no majority of the new set")
			for range 4 {
				w.round(D)
			}
			require.False(t, x.done)
			for range 4 {
				w.round(E)
			}
			require.True(t, x.acked())
			w.calm()
			require.Equal(t, []int32{C, D, E}, w.head().Replicas)
		})
	})
}

// TestS24b_ObserversNeitherElectNorStandInTheWay
func TestS24b_ObserversNeitherElectNorStandInTheWay(t *testing.T) {
	play(t, Setup{Rule: metadata.RuleQuorum, Nodes: 6}, func(t *testing.T, w *World) {
		x := committed(t, w, 3)
		require.NoError(t, w.move(4, 5, 6))
		w.learn()
		w.kill(A)
		w.out(A)
		w.govern()
		require.Contains(t, []int32{B, C}, w.head().Leader)
		require.Equal(t, []int32{4, 5, 6}, w.head().Adding)
		w.calm()
		require.Equal(t, []int32{4, 5, 6}, w.head().Replicas)
		require.Contains(t, []int32{4, 5, 6}, w.head().Leader)
		require.Equal(t, namesOf(x...), reads(t, w, w.head().Leader))
		noLoss(t, w)
	})
}

// TestS25_AFinishIsOfOneEpochAndOnePoint
func TestS25_AFinishIsOfOneEpochAndOnePoint(t *testing.T) {
	play(t, moving, func(t *testing.T, w *World) {
		x := committed(t, w, 2)
		require.NoError(t, w.commit(joint(t, w)))
		w.learn()
		require.EqualValues(t, w.end(A), w.hw(A))
		w.pass(time.Second)
		old := w.held("finish")
		require.NotEmpty(t, old, "the newcomers' positions of this epoch are there")
		moveTo(t, w, B, B, C, D)
		require.ErrorIs(t, w.commit(old[0].cmd), metadata.ErrFencedLeaderEpoch)
		w.put(B, 1)
		w.pass(time.Second)
		require.Empty(t, w.held("finish"), "nobody has fetched in this epoch")
		w.sync(C)
		w.sync(A)
		w.pass(time.Second)
		require.Empty(t, w.held("finish"), "one of the new set")
		require.Len(t, w.head().NewReplicas, 3)
		w.sync(D)
		w.pass(time.Second)
		finish := w.held("finish")
		require.NotEmpty(t, finish)
		require.NoError(t, w.commit(finish[0].cmd))
		require.Equal(t, []int32{C, D, E}, w.head().Replicas)
		require.Equal(t, metadata.NoNode, w.head().Leader, "B has gone")
		w.learn()
		w.calm()
		require.Subset(t, reads(t, w, w.head().Leader), namesOf(x...))
		noLoss(t, w)
	})
}

// TestS26_AChangeToQuorumIsSafeAtEveryStep: the ISR is A alone, and A dies.
func TestS26_AChangeToQuorumIsSafeAtEveryStep(t *testing.T) {
	steps := []string{"before it begins", "A does not know", "A alone has the marker", "a majority has the marker", "it is finished"}
	for k, name := range steps {
		t.Run(name, func(t *testing.T) {
			play(t, Setup{MinISR: 1}, func(t *testing.T, w *World) {
				w.out(B, C)
				w.learn()
				w.in(B, C)
				w.cut(A, B)
				w.cut(A, C)
				w.learn()
				require.Equal(t, []int32{A}, w.head().ISR)
				x := w.put(A, all)
				require.True(t, x.acked())
				if k >= 1 {
					require.NoError(t, w.alter(metadata.TopicConfigChange{Rule: metadata.RuleQuorum}))
				}
				if k >= 2 {
					w.learn()
					require.EqualValues(t, 2, w.end(A), "the marker")
					y := w.put(A, all)
					require.False(t, y.done, "both rules hold")
				}
				if k >= 3 {
					w.join(A)
					w.sync(B, C)
				}
				if k == 4 {
					w.calm()
					require.Equal(t, metadata.RuleQuorum, w.head().Rule)
				} else {
					w.held("alter") // ISR is A
					w.held("finish")
					require.NotEqual(t, metadata.RuleQuorum, w.head().Rule)
				}
				w.kill(A)
				w.out(A)
				w.learn()
				if k < 4 {
					require.ErrorIs(t, w.elect(B), metadata.ErrNotEligible)
					require.ErrorIs(t, w.elect(C), metadata.ErrNotEligible)
					w.govern()
					notLed(t, w)
					w.join(A)
					w.boot(A)
					w.govern()
					require.Equal(t, A, w.head().Leader)
				} else {
					w.govern()
					require.Contains(t, []int32{B, C}, w.head().Leader)
				}
				w.calm()
				require.Subset(t, reads(t, w, w.head().Leader), namesOf(x))
				noLoss(t, w)
			})
		})
	}
}

// TestS26b_BothRulesHoldUntilTheChangeIsFinished, and a replica that only lags keeps its vote.
func TestS26b_BothRulesHoldUntilTheChangeIsFinished(t *testing.T) {
	t.Run("a majority is not enough", func(t *testing.T) {
		play(t, Setup{}, func(t *testing.T, w *World) {
			first := committed(t, w, 2)
			require.NoError(t, w.alter(metadata.TopicConfigChange{Rule: metadata.RuleQuorum}))
			w.learn()
			w.sync(B, C)
			w.held("finish")
			w.cut(A, C)
			x := w.put(A, all)
			w.sync(B)
			require.False(t, x.done, "C is in the ISR and may be elected")
			require.NoError(t, w.elect(C))
			w.learn()
			w.join(A)
			w.calm()
			require.Equal(t, metadata.RuleQuorum, w.head().Rule)
			require.Equal(t, namesOf(first...), reads(t, w, C))
		})
	})
	t.Run("who lags keeps its vote", func(t *testing.T) {
		play(t, Setup{}, func(t *testing.T, w *World) {
			committed(t, w, 2)
			w.cut(A, C)
			w.out(C)
			w.learn()
			x := w.put(A, all)
			w.sync(B)
			require.True(t, x.acked())
			require.NoError(t, w.alter(metadata.TopicConfigChange{Rule: metadata.RuleQuorum}))
			w.learn()
			w.sync(B)
			w.pass(time.Second)
			w.news()
			w.learn()
			require.Equal(t, metadata.RuleQuorum, w.head().Rule)
			require.True(t, w.trusted(C))
			w.in(C)
			w.kill(A)
			w.out(A)
			w.govern()
			require.Equal(t, B, w.head().Leader)
			w.sync(C)
			require.Subset(t, reads(t, w, B), namesOf(x))
			noLoss(t, w)
		})
	})
}

// TestS27_AChangeToISRWaitsForEveryMemberOfTheISR: what a majority committed need not be there.
func TestS27_AChangeToISRWaitsForEveryMemberOfTheISR(t *testing.T) {
	play(t, quorum, func(t *testing.T, w *World) {
		first := committed(t, w, 2)
		w.out(B, C)
		require.Empty(t, w.head().ELR, "by the quorum rule nobody is eligible for having been in sync")
		w.in(B, C)
		w.learn()
		w.sync(B, C)
		w.pass(time.Second)
		w.news()
		w.learn()
		w.cut(A, C)
		x := w.put(A, all)
		w.sync(B)
		require.True(t, x.acked())
		require.EqualValues(t, w.end(A), w.hw(A))
		require.Contains(t, w.head().ISR, C)
		require.NoError(t, w.alter(metadata.TopicConfigChange{Rule: metadata.RuleISR}))
		w.learn()
		w.sync(B)
		w.pass(time.Second)
		require.Empty(t, w.held("finish"), "C has not got there")
		require.EqualValues(t, 3, w.hw(A), "both rules hold")
		w.join(A, C)
		w.round(C)
		require.Empty(t, w.held("finish"), "C has not told")
		w.sync(C)
		w.pass(time.Second)
		w.news()
		w.learn()
		require.Equal(t, metadata.RuleISR, w.head().Rule)
		require.NoError(t, w.elect(C))
		w.learn()
		w.sync(A, B)
		require.Equal(t, namesOf(append(first, x)...), reads(t, w, C))
	})
}

// TestS46_TheNewSetIsProvenByItsOwnPositions and not by a high watermark that the old one moved.
func TestS46_TheNewSetIsProvenByItsOwnPositions(t *testing.T) {
	play(t, moving, func(t *testing.T, w *World) {
		first := committed(t, w, 2)
		enter := joint(t, w)
		for _, id := range []int32{C, D, E} {
			w.cut(A, id)
		}
		x := w.put(A, all)
		w.sync(B)
		require.True(t, x.acked())
		require.EqualValues(t, w.end(A), w.hw(A), "the new set is one short of it")
		require.NoError(t, w.commit(enter))
		w.learn()
		w.pass(time.Second)
		require.Empty(t, w.held("finish"))
		p := w.head()
		forged := metadata.Finish{Partition: w.id, Leader: A, LeaderBrokerEpoch: w.node(A).be, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Point: w.end(A),
			Evidence: []metadata.Evidence{{Broker: w.node(A).epoch(), Offset: 3}, {Broker: w.node(B).epoch(), Offset: 3}}}
		require.ErrorIs(t, w.commit(&metadata.FinishChange{Items: []metadata.Finish{forged}}), metadata.ErrNotEligible)
		w.join(A, D)
		w.sync(D)
		w.pass(time.Second)
		require.Empty(t, w.held("finish"), "one of the new set")
		w.join(A, E)
		w.sync(E)
		w.pass(time.Second)
		w.news()
		require.Equal(t, []int32{C, D, E}, w.head().Replicas)
		w.join(A)
		w.learn()
		w.kill(A, B)
		w.out(A, B)
		w.calm()
		require.Equal(t, namesOf(append(first, x)...), reads(t, w, w.head().Leader))
		noLoss(t, w)
	})
}

// TestS49_WhatWasSaidOfAnEarlierStaySpeaksForNoLaterOne: C goes and comes back while its old words are on their way.
func TestS49_WhatWasSaidOfAnEarlierStaySpeaksForNoLaterOne(t *testing.T) {
	play(t, Setup{Rule: metadata.RuleQuorum, Nodes: 4}, func(t *testing.T, w *World) {
		x := committed(t, w, 4)
		// C loses its power, so that there is a certificate to be late with.
		w.power(C)
		w.boot(C)
		w.learn()
		w.sync(C)
		late := w.held("certify")
		require.NotEmpty(t, late)
		w.pass(time.Second)
		w.news()
		require.True(t, w.trusted(C))
		fetch := w.asks(C) // at 4
		epoch := w.head().LeaderEpoch
		require.NoError(t, w.move(A, B, D))
		for range 4 {
			w.govern()
			w.sync(A, B, D) // C's one connection is busy with its old fetch
			w.pass(time.Second)
		}
		w.govern()
		require.Equal(t, []int32{A, B, D}, w.head().Replicas)
		require.Greater(t, w.head().LeaderEpoch, epoch, "nothing said in the old epoch counts")
		require.Nil(t, w.node(C).replica(), "its log is deleted")
		require.NoError(t, w.move(A, B, C))
		w.learn()
		require.Equal(t, A, w.head().Leader)
		require.EqualValues(t, 0, w.end(C))
		// The old fetch and the old certificate come now.
		w.answer(fetch, false)
		w.broken(fetch)
		w.news()
		for _, v := range w.node(A).office().Replicas(w.log(A), w.now) {
			if v.ID == C {
				require.EqualValues(t, -1, v.Position)
			}
		}
		require.Error(t, w.commit(late[0].cmd))
		require.False(t, w.trusted(C))
		enter := &metadata.EnterJoint{Items: []metadata.JointEntry{{Partition: w.id, PartitionEpoch: w.head().PartitionEpoch}}}
		require.ErrorIs(t, w.commit(enter), metadata.ErrNotEligible)
		w.piece(C)
		w.piece(C)
		w.news()
		require.False(t, w.trusted(C), "it has not caught up")
		w.sync(C)
		w.news()
		require.True(t, w.trusted(C))
		w.calm()
		require.Equal(t, []int32{A, B, C}, w.head().Replicas)
		end := w.end(C)
		w.kill(C)
		n := w.node(C)
		n.enrol() // and is killed again before it has replayed anything
		n.disk = n.disk.Crash(vfs.CrashKeep, 1)
		w.boot(C) // acts on the newest record, and on none of those that took it away
		require.EqualValues(t, end, w.end(C))
		require.True(t, w.trusted(C))
		require.Equal(t, namesOf(x...), w.names(C))
	})
}
