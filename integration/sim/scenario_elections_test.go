package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
)

var quorum = Setup{Rule: metadata.RuleQuorum}

// TestS01_AMajorityHasToReportBeforeSomebodyLeads: and what was committed is read without another write.
func TestS01_AMajorityHasToReportBeforeSomebodyLeads(t *testing.T) {
	t.Run("the rest", func(t *testing.T) {
		play(t, quorum, func(t *testing.T, w *World) {
			x := w.put(A, all)
			w.round(B)
			w.tells(B) // and does not hear that this is enough
			require.True(t, x.acked())
			w.kill(A)
			w.cut(C, controller)
			w.out(A)
			w.govern()
			notLed(t, w)
			w.join(C)
			w.govern()
			require.Equal(t, B, w.head().Leader, "C has not got x")
			require.Empty(t, reads(t, w, B), "nobody else has told yet")
			w.sync(C)
			require.Equal(t, namesOf(x), reads(t, w, B))
		})
	})
	t.Run("the last leader", func(t *testing.T) {
		play(t, quorum, func(t *testing.T, w *World) {
			x := w.put(A, all)
			w.sync(B)
			w.kill(A)
			w.cut(B, controller)
			w.cut(C, controller)
			w.out(A)
			w.govern()
			notLed(t, w)
			w.boot(A)
			w.govern()
			require.Equal(t, A, w.head().Leader, "its own report is enough")
			w.join(B)
			w.join(C)
			w.calm()
			require.Equal(t, namesOf(x), reads(t, w, A))
		})
	})
	t.Run("a report of an earlier epoch promises nothing", func(t *testing.T) {
		play(t, quorum, func(t *testing.T, w *World) {
			committed(t, w, 1)
			require.NoError(t, w.depose())
			w.learn()
			w.news() // the controller hears all three
			w.held("report")
			require.NoError(t, w.commit(w.ballot(A, A, B, C)))
			w.learn()
			w.sync(B, C)
			w.cut(A, controller)
			w.cut(C, controller) // C does not hear that A leads no more
			w.cut(A, B)
			w.out(A)
			w.govern()
			notLed(t, w)
			y := w.put(A, all)
			w.sync(C)
			require.True(t, y.acked())
			w.join(C)
			w.govern()
			require.Equal(t, C, w.head().Leader)
			w.sync(B)
			require.Subset(t, reads(t, w, C), namesOf(y))
			w.join(A)
		})
	})
}

// TestS02_ARecordOfAnOlderEpochIsCommittedByTheMarkerAlone is figure 8 of the Raft paper.
func TestS02_ARecordOfAnOlderEpochIsCommittedByTheMarkerAlone(t *testing.T) {
	figure := func(t *testing.T, w *World) (x, y *sent) {
		x = w.put(A, all)
		failover(t, w, B, B, C)
		y = w.put(B, all)
		w.in(A)
		w.out(B)
		w.learn()
		require.NoError(t, w.vote(A, A, C))
		w.piece(C) // x, and not the marker
		require.EqualValues(t, 1, w.end(C))
		require.EqualValues(t, 2, w.end(A))
		w.tells(C)
		require.EqualValues(t, 0, w.hw(A), "two of three have x, of an older epoch")
		require.Empty(t, reads(t, w, A))
		_, err := w.latest(A)
		require.ErrorIs(t, err, partition.ErrOffsetNotAvailable)
		return x, y
	}
	t.Run("the marker is on no majority", func(t *testing.T) {
		play(t, quorum, func(t *testing.T, w *World) {
			x, y := figure(t, w)
			w.kill(A)
			w.in(B)
			failover(t, w, B, B, C)
			w.sync(C)
			require.False(t, x.acked())
			require.Equal(t, namesOf(y), reads(t, w, B), "y has won")
			require.Equal(t, w.names(B), w.names(C))
			w.boot(A)
			w.sync(A)
			require.Equal(t, w.names(B), w.names(A))
		})
	})
	t.Run("the marker is on a majority", func(t *testing.T) {
		play(t, quorum, func(t *testing.T, w *World) {
			x, _ := figure(t, w)
			w.sync(C)
			require.Equal(t, namesOf(x), reads(t, w, A))
			w.kill(A)
			w.in(B)
			w.out(A)
			require.ErrorIs(t, w.commit(w.ballot(B, B, C)), metadata.ErrNotEligible)
			w.govern()
			require.Equal(t, C, w.head().Leader)
			w.sync(B)
			require.Equal(t, namesOf(x), reads(t, w, C))
		})
	})
}

// TestS03_ThePowerLossOfAnAckerDoesNotLetTheRestElect
func TestS03_ThePowerLossOfAnAckerDoesNotLetTheRestElect(t *testing.T) {
	play(t, quorum, func(t *testing.T, w *World) {
		x := lostAcker(t, w)
		w.isolate(A)
		w.out(A)
		require.ErrorIs(t, w.commit(w.ballot(B, B, C)), metadata.ErrNotEligible)
		require.ErrorIs(t, w.commit(w.ballot(C, B, C)), metadata.ErrNotEligible)
		w.calm()
		notLed(t, w)
		w.join(A)
		w.in(A)
		w.govern()
		require.Equal(t, A, w.head().Leader)
		w.calm()
		require.Equal(t, namesOf(x), reads(t, w, A))
		noLoss(t, w)
	})
}

// lostAcker has A and B hold an acknowledged record, C lag, and B lose it with its power.
func lostAcker(t *testing.T, w *World) *sent {
	t.Helper()
	w.cut(A, C)
	x := w.put(A, all)
	w.sync(B)
	require.True(t, x.acked())
	w.power(B)
	w.boot(B)
	require.False(t, w.trusted(B))
	require.EqualValues(t, 0, w.end(B))
	w.join(A, C)
	return x
}

// TestS04_AReplicaThatLostItsMemoryVotesOnceTheLeaderCertifiedIt
func TestS04_AReplicaThatLostItsMemoryVotesOnceTheLeaderCertifiedIt(t *testing.T) {
	play(t, quorum, func(t *testing.T, w *World) {
		x := lostAcker(t, w)
		w.cut(A, C)
		w.cut(C, controller)
		w.out(A)
		w.learn()
		w.in(A)
		w.govern()
		require.Equal(t, A, w.head().Leader, "on its own report")
		w.write(A, 2)
		w.tells(B) // it has nothing
		w.news()
		require.False(t, w.trusted(B), "it has not reached what A had then")
		w.piece(B)
		w.tells(B)
		w.news()
		require.EqualValues(t, w.hw(A), w.end(B))
		require.False(t, w.trusted(B), "it has what is known to be committed, and more may be")
		w.sync(B)
		w.news()
		require.True(t, w.trusted(B))
		w.kill(A)
		w.join(C)
		w.out(A)
		w.govern()
		require.Equal(t, B, w.head().Leader)
		w.sync(C)
		require.Subset(t, reads(t, w, B), namesOf(x))
		noLoss(t, w)
	})
}

// TestS06_AnElectionIsOfAProcessAndNotOfANode
func TestS06_AnElectionIsOfAProcessAndNotOfANode(t *testing.T) {
	play(t, quorum, func(t *testing.T, w *World) {
		x := w.put(A, all)
		w.sync(B)
		w.out(A)
		w.learn()
		ballot := w.ballot(B, B, C)
		w.cut(B, controller)
		require.NoError(t, w.commit(ballot))
		require.Equal(t, B, w.head().Leader)
		grant := w.head()
		epoch := w.head().LeaderEpoch
		w.power(B)
		w.join(B)
		w.boot(B)
		require.Nil(t, w.node(B).office())
		by := func(brokerEpoch int64) partition.Role {
			return partition.Decide(nil, grant, B, brokerEpoch, w.log(B)).Role
		}
		require.Equal(t, partition.RoleLead, by(grant.LeaderBrokerEpoch))
		require.Equal(t, partition.RoleIdle, by(w.node(B).be), "the grant is the dead process's")
		require.Equal(t, epoch+1, w.head().LeaderEpoch)
		w.in(A)
		w.govern()
		require.Equal(t, A, w.head().Leader)
		w.calm()
		require.Equal(t, namesOf(x), reads(t, w, A))
		noLoss(t, w)
	})
}

// TestS07_AProcessThatHasNotReachedItsRegistrationTouchesNoData: it would acknowledge what it promised not to.
func TestS07_AProcessThatHasNotReachedItsRegistrationTouchesNoData(t *testing.T) {
	play(t, quorum, func(t *testing.T, w *World) {
		committed(t, w, 1)
		w.cut(A, controller)
		w.cut(A, C)
		stale := w.images[w.node(B).applied]
		w.out(A)
		w.learn(B, C) // B promises
		w.kill(B)
		x := w.put(A, all)
		s := w.node(B).enrol()
		m, err := w.node(B).beginWith(s, stale)
		require.Error(t, err, "the image is older than the registration")
		require.Empty(t, m.Leaders())
		require.Nil(t, m.Ask(A))
		require.Empty(t, m.Reports([]idOf{w.id}))
		w.node(B).begin(s)
		require.False(t, w.round(B), "it follows nobody")
		require.False(t, x.done)
		require.EqualValues(t, 1, w.hw(A))
		w.in(B)
		require.NoError(t, w.vote(B, B, C))
		w.join(A)
		w.learn()
		w.settle()
		require.True(t, x.refused())
	})
}

// TestS08_AFetchOnItsWayMayCommitWhatItsSenderReports
func TestS08_AFetchOnItsWayMayCommitWhatItsSenderReports(t *testing.T) {
	play(t, quorum, func(t *testing.T, w *World) {
		first := committed(t, w, 9)
		w.cut(A, C)
		x := w.put(A, all)
		w.round(B)
		f := w.asks(B)
		w.cut(A, controller)
		w.out(A)
		w.learn(B, C) // they promise
		require.True(t, w.serves(f))
		require.EqualValues(t, 10, w.hw(A))
		require.True(t, x.acked())
		require.ErrorIs(t, w.commit(w.ballot(C, B, C)), metadata.ErrNotEligible)
		require.NoError(t, w.vote(B, B, C))
		w.sync(C)
		require.Equal(t, namesOf(append(first, x)...), reads(t, w, B))
	})
}

// TestS09_ALeaderThatSleptAcknowledgesNothingThatStays
func TestS09_ALeaderThatSleptAcknowledgesNothingThatStays(t *testing.T) {
	byBoth(t, Setup{}, func(t *testing.T, w *World) {
		first := committed(t, w, 2)
		w.cut(A, controller)
		failover(t, w, B, B, C)
		y := w.put(B, all)
		w.sync(C)
		require.True(t, y.acked())
		z, weak := w.put(A, all), w.put(A, 1)
		w.round(B)
		w.round(C)
		require.False(t, z.done)
		require.True(t, weak.acked(), "one copy was all it asked for")
		require.EqualValues(t, 2, w.hw(A))
		require.Equal(t, namesOf(first...), reads(t, w, A))
		w.join(A)
		w.learn(A)
		w.settle()
		require.ErrorIs(t, z.answer.Err, partition.ErrNotLeader)
		require.Nil(t, w.node(A).office())
		w.sync(A)
		require.Equal(t, w.names(B), w.names(A))
		require.Equal(t, namesOf(append(first, y)...), reads(t, w, B))
	})
}

// TestS12_AnEpochHasOneLeaderWhoeverControls: controllers die after each of their commands, and commands come twice.
func TestS12_AnEpochHasOneLeaderWhoeverControls(t *testing.T) {
	play(t, quorum, func(t *testing.T, w *World) {
		committed(t, w, 2)
		p := w.head()
		begin := &metadata.BeginElection{Elections: []metadata.ElectionStart{{Partition: w.id, LeaderEpoch: p.LeaderEpoch, Leader: A}}}
		require.NoError(t, w.commit(begin))
		clear(w.reports) // another controller
		require.ErrorIs(t, w.commit(begin), metadata.ErrFencedLeaderEpoch)
		w.learn()
		ballot := w.ballot(B, A, B, C)
		require.NoError(t, w.commit(ballot))
		clear(w.reports)
		other := w.head().LeaderEpoch
		require.ErrorIs(t, w.commit(ballot), metadata.ErrElectionNotNeeded)
		require.ErrorIs(t, w.commit(begin), metadata.ErrFencedLeaderEpoch)
		w.govern()
		require.Equal(t, B, w.head().Leader)
		require.Equal(t, other, w.head().LeaderEpoch)
	})
}

// withoutController cuts all nodes from the controller, writes for a minute and loses C.
func withoutController(t *testing.T, w *World) {
	t.Helper()
	for _, id := range w.ids() {
		w.cut(id, controller)
	}
	for range 6 {
		x := w.put(A, all)
		w.sync(B, C)
		w.pass(10 * time.Second)
		require.True(t, x.acked())
	}
	w.kill(C)
}

// TestS13_AcknowledgementsGoOnWithoutAController, with a majority.
func TestS13_AcknowledgementsGoOnWithoutAController(t *testing.T) {
	play(t, quorum, func(t *testing.T, w *World) {
		withoutController(t, w)
		for range 3 {
			x := w.put(A, all)
			w.sync(B)
			w.pass(10 * time.Second)
			require.True(t, x.acked())
		}
		names := reads(t, w, A)
		w.kill(A)
		require.Nil(t, w.node(B).office(), "unavailable")
		require.False(t, w.round(B))
		w.join(A)
		w.join(B)
		w.join(C)
		w.boot(A, C)
		w.calm()
		require.Equal(t, names, reads(t, w, w.head().Leader))
		noLoss(t, w)
	})
}

// TestS14_TheInSyncReplicasAreNotFewerWithoutAController: acknowledgements stop when one of them dies.
func TestS14_TheInSyncReplicasAreNotFewerWithoutAController(t *testing.T) {
	play(t, Setup{}, func(t *testing.T, w *World) {
		withoutController(t, w)
		x, hw := w.put(A, all), w.hw(A)
		for range 5 {
			w.sync(B)
			w.pass(10 * time.Second)
		}
		require.False(t, x.done)
		require.Equal(t, hw, w.hw(A))
		w.held("alter") // goes nowhere
		w.join(A)
		w.join(B)
		w.out(C)
		w.calm()
		require.True(t, x.acked())
		noLoss(t, w)
	})
}

// TestS23_TwoOfFiveLosePowerAtOnce, and a third is away.
func TestS23_TwoOfFiveLosePowerAtOnce(t *testing.T) {
	five := Setup{Rule: metadata.RuleQuorum, Replicas: 5, MinISR: 3}
	begin := func(t *testing.T, w *World) []*sent {
		x := committed(t, w, 3)
		w.power(D, E)
		w.boot(D, E)
		require.False(t, w.trusted(D))
		require.False(t, w.trusted(E))
		return x
	}
	t.Run("a follower is cut off", func(t *testing.T) {
		play(t, five, func(t *testing.T, w *World) {
			begin(t, w)
			w.isolate(B)
			w.out(B)
			w.learn()
			x := w.put(A, all)
			w.sync(C, D, E)
			require.True(t, x.acked(), "the leader counts those that recover")
			w.news()
			require.True(t, w.trusted(D))
			require.True(t, w.trusted(E))
			noLoss(t, w)
		})
	})
	t.Run("the leader is cut off", func(t *testing.T) {
		play(t, five, func(t *testing.T, w *World) {
			x := begin(t, w)
			w.isolate(A)
			w.out(A)
			w.calm()
			notLed(t, w)
			_, ok, why := metadata.ChooseReported(w.head(), w.heard(w.head()), w.image().Broker)
			require.False(t, ok)
			require.Contains(t, why, "away: [1]")
			require.Contains(t, why, "may have lost records: [4 5]")
			w.join(A)
			w.in(A)
			w.calm()
			require.Equal(t, A, w.head().Leader)
			require.Equal(t, namesOf(x...), reads(t, w, A))
			noLoss(t, w)
		})
	})
	t.Run("the leader is fenced by mistake", func(t *testing.T) {
		play(t, five, func(t *testing.T, w *World) {
			x := begin(t, w)
			w.cut(B, controller)
			w.out(A)
			w.learn()
			w.in(A)
			w.govern()
			require.Equal(t, A, w.head().Leader, "the last leader, on its own report")
			w.join(B)
			w.calm()
			require.Equal(t, namesOf(x...), reads(t, w, A))
			noLoss(t, w)
		})
	})
}
