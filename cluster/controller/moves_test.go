package controller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

// begin applies the beginning of a move and notes it, as the keeper does.
func (w *dutyWorld) begin(target int32) *move {
	s := startMove(w.partition(), target)
	m := &move{target: target, epoch: s.LeaderEpoch + 1, born: w.now}
	w.apply(&metadata.BeginElection{Elections: []metadata.ElectionStart{s.ElectionStart}})
	require.False(w.t, m.follow(w.partition(), w.now))
	require.Equal(w.t, w.now.Add(moveWait), m.until)
	w.facts.moves[w.id] = m
	return m
}

func TestLeadershipIsGivenBackUnderTheQuorumRuleOnlyToAReplicaInSync(t *testing.T) {
	w := newQuorumWorld(t, 1, 2, 3)
	w.fence(1)
	w.report(2, 0, 5)
	w.report(3, 0, 5)
	require.Equal(t, int32(2), w.reported(w.plan(), kindReported).Leader)
	w.facts.flaps[w.id] = flap{tries: 1, at: w.now}
	w.restart(1)
	w.after(flapLived)
	require.Empty(t, w.plan().handOver, "not in sync")
	w.isr(2, 3, 1)
	w.after(-1)
	require.Empty(t, w.plan().handOver, "its leader has not lived long enough")
	w.after(1)
	w.facts.giveBack = false
	require.Empty(t, w.plan().handOver, "not before its time")
	w.facts.giveBack = true
	w.facts.held[w.id] = w.partition().LeaderEpoch
	require.Empty(t, w.plan().handOver, "an operator chose")
	w.facts.held[w.id]--
	w.facts.declined[w.id] = declined{tries: 1, until: w.now.Add(1)}
	require.Empty(t, w.plan().handOver, "it failed a short time ago")
	w.after(1)
	for i := range int32(maxMoves) {
		w.facts.moves[record.PartitionID{Partition: 1000 + i}] = &move{}
	}
	p := w.plan()
	require.Empty(t, p.handOver, "so many have no leader for a moment already")
	require.True(t, p.more)
	clear(w.facts.moves)
	p = w.plan()
	require.Len(t, p.handOver, 1)
	require.Empty(t, p.begin, "its leader makes it ready first")
	require.False(t, p.more)
	require.Equal(t, int32(1), p.handOver[0].target)
	h := &handover{target: 1, epoch: w.partition().LeaderEpoch, until: w.now.Add(time.Second), given: true, ready: make(chan struct{})}
	w.facts.handovers[w.id] = h
	p = w.plan()
	require.Empty(t, p.begin)
	require.Empty(t, p.handOver, "it is asked once")
	require.Equal(t, h.until, p.again)
	close(h.ready)
	h.epoch++
	require.Empty(t, w.plan().begin, "another leader's word")
	h.epoch--
	p = w.plan()
	require.Len(t, p.begin, 1)
	require.Equal(t, int32(1), p.begin[0].target)
	delete(w.facts.handovers, w.id)
	w.begin(1)
	w.report(2, 1, 5)
	w.report(3, 1, 5)
	p = w.plan()
	w.quiet(p)
	require.Equal(t, w.facts.moves[w.id].until, p.again)
	w.report(1, 1, 5)
	p = w.plan()
	require.Empty(t, p.missed[w.id])
	require.Equal(t, int32(1), w.reported(p, kindPreferred).Leader)
	require.True(t, w.facts.moves[w.id].follow(w.partition(), w.now))
}

func TestAMovePrefersItsTargetOnlyAmongTheMostCompleteLogs(t *testing.T) {
	for _, c := range []struct {
		name   string
		do     func(w *dutyWorld)
		after  time.Duration
		leader int32 // 0: none yet
		kind   string
		missed string
	}{
		{"nothing is known", func(w *dutyWorld) {}, 0, 0, "", ""},
		{"the last leader alone waits for a majority", func(w *dutyWorld) { w.report(1, 0, 5) }, moveWait - 1, 0, "", ""},
		{"the last leader alone after the wait", func(w *dutyWorld) { w.report(1, 0, 5) }, moveWait, 1, kindLastLeader, "no majority reported"},
		{"the last leader at once where no majority can report", func(w *dutyWorld) { w.comeBack(2); w.comeBack(3); w.report(1, 0, 5) }, 0, 1, kindLastLeader, "no majority"},
		{"a tie", func(w *dutyWorld) { w.report(1, 0, 5); w.report(3, 0, 5) }, 0, 3, kindPreferred, ""},
		{"a shorter log", func(w *dutyWorld) { w.report(1, 0, 5); w.report(3, 0, 4) }, 0, 1, kindReported, "the log of node 3 ends in epoch 0 at 4, that of node 1 in epoch 0 at 5"},
		{"an idle leader's epoch waits for another vote", func(w *dutyWorld) { w.report(1, 4, 5); w.report(3, 0, 5) }, moveWait - 1, 0, "", ""},
		{"and takes the leader where none comes", func(w *dutyWorld) { w.report(1, 4, 5); w.report(3, 0, 5) }, moveWait, 1, kindReported, "no majority"},
		{"an idle leader's epoch", func(w *dutyWorld) { w.report(1, 4, 5); w.report(2, 0, 4); w.report(3, 0, 5) }, 0, 3, kindPreferred, ""},
		{"an idle leader's epoch that another follower knows", func(w *dutyWorld) { w.report(1, 4, 5); w.report(2, 4, 5); w.report(3, 0, 5) }, 0, 1, kindReported, "no majority"},
		{"a shorter log without the leader's vote", func(w *dutyWorld) { w.report(1, 4, 6); w.report(2, 0, 5); w.report(3, 0, 5) }, 0, 1, kindReported, "ends in epoch 0 at 5, that of node 1 in epoch 4 at 6"},
		{"a leader before it that has lost its memory", func(w *dutyWorld) { w.comeBack(1); w.report(1, -1, 0); w.report(2, 0, 5); w.report(3, 0, 5) }, 0, 3, kindPreferred, ""},
		{"a longer log", func(w *dutyWorld) { w.report(1, 0, 5); w.report(3, 0, 6) }, 0, 3, kindPreferred, ""},
		{"a majority without the target waits for it", func(w *dutyWorld) { w.report(1, 0, 5); w.report(2, 0, 5) }, moveWait - 1, 0, "", ""},
		{"and not for ever", func(w *dutyWorld) { w.report(1, 0, 5); w.report(2, 0, 5) }, moveWait, 1, kindReported, "node 3 did not report"},
		{"and not for a dead one", func(w *dutyWorld) { w.fence(3); w.report(1, 0, 5); w.report(2, 0, 5) }, 0, 1, kindReported, "node 3 did not report"},
		{"a tie of one that was fenced since", func(w *dutyWorld) { w.report(1, 0, 5); w.report(3, 0, 5); w.fence(3) }, 0, 1, kindReported, "fenced"},
		{"a majority without the leader before waits for it", func(w *dutyWorld) { w.report(2, 0, 5); w.report(3, 0, 5) }, moveWait - 1, 0, "", ""},
		{"and not longer", func(w *dutyWorld) { w.report(2, 0, 5); w.report(3, 0, 5) }, moveWait, 3, kindPreferred, ""},
		{"and not for one that is gone", func(w *dutyWorld) { w.fence(1); w.report(2, 0, 5); w.report(3, 0, 5) }, 0, 3, kindPreferred, ""},
		{"all three", func(w *dutyWorld) { w.report(1, 0, 5); w.report(2, 0, 5); w.report(3, 0, 5) }, 0, 3, kindPreferred, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newQuorumWorld(t, 1, 2, 3)
			w.facts.flaps[w.id] = flap{tries: 100, at: w.now} // a move does not wait for that
			m := w.begin(3)
			c.do(w)
			w.after(c.after)
			p := w.plan()
			if c.leader == 0 {
				w.quiet(p)
				if m := w.facts.moves[w.id]; len(w.facts.reports) > 0 {
					require.Equal(t, m.until, p.again)
				}
				return
			}
			if c.missed == "" {
				require.Empty(t, p.missed[w.id])
			} else {
				require.Contains(t, p.missed[w.id], c.missed)
			}
			require.Equal(t, c.leader, w.reported(p, c.kind).Leader)
			require.True(t, m.over(w.partition()))
		})
	}
}

func TestAMoveIsForgottenWithItsEpochOrWhenItNeverBegan(t *testing.T) {
	w := newQuorumWorld(t, 1, 2, 3)
	m := &move{target: 3, epoch: w.partition().LeaderEpoch + 1, born: w.now}
	require.False(t, m.follow(w.partition(), w.now.Add(moveForgot-1)))
	require.True(t, m.follow(w.partition(), w.now.Add(moveForgot)), "its beginning was lost")
	require.True(t, m.follow(nil, w.now), "its topic was deleted")
	m = w.begin(3)
	w.apply(&metadata.BeginElection{Elections: []metadata.ElectionStart{{Partition: w.id, LeaderEpoch: m.epoch, Leader: metadata.NoNode}}})
	require.True(t, m.follow(w.partition(), w.now), "another election overtook it")
}

func TestAMoveIsRefusedWithTheNumbers(t *testing.T) {
	w := newQuorumWorld(t, 1, 2, 3)
	w.isr(1, 2)
	w.epoch[4] = w.alive(4)
	check := func(target int32) error { return checkMove(w.partition(), target, w.state.Image().Broker) }
	require.NoError(t, check(2))
	require.ErrorIs(t, check(1), metadata.ErrElectionNotNeeded)
	require.ErrorIs(t, check(4), metadata.ErrNotEligible)
	require.ErrorContains(t, check(4), "node 4 is not among replicas [1 2 3]")
	require.ErrorContains(t, check(3), "node 3 is not in sync (ISR [1 2])")
	w.fence(2)
	require.ErrorContains(t, check(2), "node 2 is not registered, is fenced or is shutting down")
	w.comeBack(3)
	require.ErrorContains(t, check(3), "node 3 may have lost records")
	require.ErrorIs(t, check(3), metadata.ErrNotEligible)
}
