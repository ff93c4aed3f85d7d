package controller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/fsm"
	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

// keeper gives a duty keeper that never proposes.
func (w *dutyWorld) keeper() *dutyKeeper {
	return newDutyKeeper(&reign{c: &Controller{opt: Options{PreferredInterval: 5 * time.Second, Unclean: func(*metadata.Topic) bool { return false }}}, begun: w.now})
}

func TestAPartitionThatDeclinesItsPreferredLeaderIsAskedLessAndLessOften(t *testing.T) {
	w := newQuorumWorld(t, 1, 2, 3)
	k := w.keeper()
	for try, wait := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, declinedLast, declinedLast} {
		p := w.partition()
		starts := []moveStart{startMove(p, 3)}
		k.beginMoves(starts, true)
		w.apply(&metadata.BeginElection{Elections: []metadata.ElectionStart{starts[0].ElectionStart}})
		w.report(1, 0, 5)
		w.report(2, 0, 5)
		w.reported(w.plan(), kindReported)
		k.followMoves(w.state.Image(), w.now)
		require.Empty(t, k.moves)
		require.Equal(t, declined{tries: try + 1, until: w.now.Add(wait)}, k.declined[w.id])
	}
	w.after(2 * declinedLast)
	k.followMoves(w.state.Image(), w.now)
	require.Empty(t, k.declined, "in time it is forgotten")
}

func TestALeaderIsAskedOnceToMakeItsSuccessorReadyAndBelievedForItsEpochAlone(t *testing.T) {
	w := newQuorumWorld(t, 1, 2, 3)
	k := w.keeper()
	k.r.c.opt.SessionTimeout = 4 * time.Second
	k.r.c.machine = &machine{FSM: fsm.New(fsm.Options{})}
	p := w.partition()
	leader := metadata.BrokerEpoch{ID: 1, Epoch: w.epoch[1]}
	ask := func() *handover {
		h := k.handOver([]moveStart{startMove(p, 3)}, true)[0]
		h.leader = leader // the keeper's own image is empty
		return h
	}
	h := ask()
	require.Empty(t, k.asks(metadata.BrokerEpoch{ID: 2, Epoch: w.epoch[2]}))
	require.Empty(t, k.asks(metadata.BrokerEpoch{ID: 1, Epoch: w.epoch[1] + 1}))
	want := metadata.Handover{Partition: w.id, LeaderEpoch: p.LeaderEpoch, To: 3, PauseMS: 1000}
	require.Equal(t, []metadata.Handover{want}, k.asks(leader))
	require.Empty(t, k.asks(leader), "its pause is not to be longer than it may be")

	for _, wrong := range []metadata.Handover{{Partition: w.id, LeaderEpoch: p.LeaderEpoch + 1, To: 3}, {Partition: w.id, LeaderEpoch: p.LeaderEpoch, To: 2}} {
		k.ready(leader, []metadata.Handover{wrong})
		require.False(t, h.isReady())
	}
	k.ready(metadata.BrokerEpoch{ID: 2, Epoch: w.epoch[2]}, []metadata.Handover{want})
	require.False(t, h.isReady())
	k.ready(leader, []metadata.Handover{want, want})
	require.True(t, h.isReady())

	k.followHandovers(w.state.Image(), h.until.Add(-1))
	require.Len(t, k.handovers, 1)
	k.followHandovers(w.state.Image(), h.until)
	require.Empty(t, k.handovers, "the leader goes on by now")
	require.Equal(t, 1, k.declined[w.id].tries)
	ask()
	w.fence(1)
	k.followHandovers(w.state.Image(), w.now)
	require.Empty(t, k.handovers, "the epoch went on")
}

func TestAMoveWhoseBeginningIsRefusedIsDroppedAndOneOfUnknownOutcomeIsKept(t *testing.T) {
	w := newQuorumWorld(t, 1, 2, 3)
	k := w.keeper()
	starts := []moveStart{startMove(w.partition(), 3)}
	moves := k.beginMoves(starts, false)
	k.dropMoves(starts, moves, []error{metadata.ErrOutcomeUnknown})
	require.Equal(t, moves[0], k.moves[w.id])
	later := k.beginMoves(starts, false)
	k.dropMoves(starts, moves, []error{metadata.ErrFencedLeaderEpoch})
	require.Equal(t, later[0], k.moves[w.id], "another move's refusal says nothing of this one")
	k.dropMoves(starts, later, []error{metadata.ErrFencedLeaderEpoch})
	require.Empty(t, k.moves)
}

func TestAReportFromABrokerThatIsAheadOfTheImageIsKept(t *testing.T) {
	w := newQuorumWorld(t, 1, 2, 3)
	k := w.keeper()
	epoch := w.partition().LeaderEpoch
	say := func(id, epoch int32) {
		k.report(metadata.BrokerEpoch{ID: id, Epoch: w.epoch[id]}, []metadata.ReplicaReportItem{{Partition: w.id, Epoch: epoch, End: 5}})
	}
	say(2, epoch)
	k.think(w.state.Image(), w.now)
	require.Empty(t, k.reports, "the partition is led in that epoch")
	say(2, epoch+1)
	say(3, epoch+1)
	plan, _ := k.think(w.state.Image(), w.now)
	require.Empty(t, plan.reported)
	w.fence(1)
	plan, _ = k.think(w.state.Image(), w.now)
	require.Len(t, plan.reported, 1, "nobody has to be asked again")
}

func TestASafeElectionThatTakesLongIsToldOnceWithWhoIsMissing(t *testing.T) {
	w := newQuorumWorld(t, 1, 2, 3)
	k := w.keeper()
	w.fence(1)
	_, news := k.think(w.state.Image(), w.now)
	require.Empty(t, news)
	w.after(slowAfter)
	_, news = k.think(w.state.Image(), w.now)
	require.Contains(t, news[w.id], "no report from [2 3]")
	_, news = k.think(w.state.Image(), w.now)
	require.Empty(t, news)
	k.report(metadata.BrokerEpoch{ID: 2, Epoch: w.epoch[2]}, []metadata.ReplicaReportItem{{Partition: w.id, Epoch: w.partition().LeaderEpoch}})
	_, news = k.think(w.state.Image(), w.now)
	require.Contains(t, news[w.id], "no report from [3]")
}

func TestANewControllerKnowsWhatToAskBeforeItsFirstHeartbeat(t *testing.T) {
	w := newQuorumWorld(t, 1, 2, 3)
	w.fence(1)
	k := w.keeper()
	k.think(w.state.Image(), w.now)
	for id := int32(1); id <= 3; id++ {
		require.Equal(t, []record.PartitionID{w.id}, k.wants(id))
	}
}
