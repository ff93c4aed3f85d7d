package controller

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
)

func TestALeaderWhoseDiskIsFullIsRelievedByAReplicaInSyncThatHasRoom(t *testing.T) {
	w := newDutyWorld(t, metadata.RecoverWaitAll, 1, 2, 3)
	require.Empty(t, w.plan().relieve)
	w.facts.full[1], w.facts.full[2] = true, true
	p := w.plan()
	require.Len(t, p.relieve, 1)
	require.Equal(t, int32(3), p.relieve[0].Leader, "2 has no room either")
	w.isr(1, 2)
	require.Empty(t, w.plan().relieve, "nobody else is in sync")
	delete(w.facts.full, 2)
	p = w.plan()
	require.Equal(t, int32(2), p.relieve[0].Leader)
	w.apply(&metadata.Elect{Elections: p.relieve})
	require.Equal(t, int32(2), w.partition().Leader)
	p = w.plan()
	require.Empty(t, p.relieve)
	require.Empty(t, p.give, "the preferred replica has no room")
	delete(w.facts.full, 1)
	require.Len(t, w.plan().give, 1, "it has room again")
	w.facts.full[2] = true
	w.fence(1)
	require.Empty(t, w.plan().relieve)
}

func TestUnderTheQuorumRuleAFullLeaderMakesItsSuccessorReadyFirst(t *testing.T) {
	w := newQuorumWorld(t, 1, 2, 3)
	w.facts.full[1] = true
	w.facts.flaps[w.id] = flap{tries: 1, at: w.now} // it refuses records: there is nothing to wait for
	p := w.plan()
	require.Empty(t, p.relieve)
	require.Len(t, p.handOver, 1)
	require.Equal(t, int32(2), p.handOver[0].target)
	w.facts.declined[w.id] = declined{tries: 1, until: w.now.Add(1)}
	require.Empty(t, w.plan().handOver, "it failed a short time ago")
	w.after(1)
	require.Len(t, w.plan().handOver, 1)
	w.facts.full[2], w.facts.full[3] = true, true
	require.Empty(t, w.plan().handOver, "nobody has room")
}

func TestWhatAProcessSaysOfItsDiskEndsWithIt(t *testing.T) {
	w := newDutyWorld(t, metadata.RecoverWaitAll, 1, 2)
	k := w.keeper()
	k.r.log = slog.New(slog.DiscardHandler)
	say := func(id int32, epoch int64, full bool) { k.noteFull(metadata.BrokerEpoch{ID: id, Epoch: epoch}, full) }
	planned := func() int {
		plan, _ := k.think(w.state.Image(), w.now)
		return len(plan.relieve)
	}
	say(1, w.epoch[1], true)
	require.Len(t, k.poked, 1, "it is looked at soon")
	require.Equal(t, 1, planned())
	say(2, w.epoch[2], false)
	require.Equal(t, 1, planned())
	say(1, w.epoch[1], false)
	require.Zero(t, planned())
	say(1, w.epoch[1], true)
	w.comeBack(1)
	w.fence(2)
	require.Zero(t, planned())
	require.Empty(t, k.full, "another process speaks for the node now")
}
