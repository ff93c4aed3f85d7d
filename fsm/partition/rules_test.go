package partition

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
)

// brokers is a snapshot of registered brokers.
type brokers map[int32]*metadata.Broker

func (b brokers) Broker(id int32) *metadata.Broker { return b[id] }

func threeBrokers() brokers {
	return brokers{1: {ID: 1, Epoch: 11}, 2: {ID: 2, Epoch: 12}, 3: {ID: 3, Epoch: 13}}
}

func record3(isr ...int32) *metadata.Partition {
	return &metadata.Partition{
		Replicas: []int32{1, 2, 3}, Members: []metadata.Replica{{ID: 1, Cert: 11}, {ID: 2, Cert: 12}, {ID: 3, Cert: 13}},
		Rule: metadata.RuleISR, Durability: metadata.DurabilityMemory, MinISR: 2,
		Leader: 1, LeaderBrokerEpoch: 11, LeaderEpoch: 5, PartitionEpoch: 20, ISR: isr, LastLeader: 1,
	}
}

var (
	t0   = time.Unix(1_700_000_000, 0)
	opts = Options{LagMax: 10 * time.Second, Retry: 500 * time.Millisecond}
)

type office struct {
	*Leader
	log *memLog
	b   brokers
	now time.Time
}

func lead(t *testing.T, log *memLog, rec *metadata.Partition) *office {
	t.Helper()
	log.office(rec.LeaderEpoch)
	leso := log.EndOffset()
	if NeedsMarker(rec, log) {
		log.append(marker(rec.LeaderEpoch))
	}
	l, e := NewLeader(1, 11, rec, leso, threeBrokers(), log, opts, t0)
	o := &office{l, log, threeBrokers(), t0}
	o.carry(e)
	return o
}

func (o *office) carry(e Effects) Effects {
	if e.Advanced {
		o.log.hw = e.HighWatermark
	}
	return e
}

func (o *office) write(n int) Effects {
	for range n {
		o.log.append(rec{o.Epoch(), int(o.log.EndOffset())})
	}
	return o.carry(o.OnAppend(o.log, o.now))
}

// fetch is a follower's fetch that continues the log at off.
func (o *office) fetch(id int32, be, off int64) (Verdict, Effects) {
	joined := int32(0)
	if m := o.Record().Member(id); m != nil {
		joined = m.JoinPE
	}
	v, e := o.OnFetch(Fetch{Replica: id, BrokerEpoch: be, JoinPE: joined, LeaderEpoch: o.Epoch(), Offset: off, LastFetchedEpoch: EpochBefore(off, o.log), AckOffset: -1}, o.b, o.log, o.now)
	return v, o.carry(e)
}

func TestHighWatermarkIsTheLowestPositionOfTheISR(t *testing.T) {
	o := lead(t, newMemLog(), record3(1, 2, 3))
	require.False(t, o.write(4).Advanced)
	o.fetch(2, 12, 4)
	require.EqualValues(t, 0, o.HighWatermark(), "node 3 has nothing")
	o.fetch(3, 13, 3)
	require.EqualValues(t, 3, o.HighWatermark())
}

func TestNothingCommitsBelowMinISR(t *testing.T) {
	o := lead(t, newMemLog(), record3(1))
	require.False(t, o.write(2).Advanced)
	o.fetch(2, 12, 2)
	require.EqualValues(t, 0, o.HighWatermark())
	require.ErrorIs(t, o.MayAppend(AcksAll, o.b, o.now), ErrNotEnoughReplicas)
	require.NoError(t, o.MayAppend(1, o.b, o.now))
}

func TestAProposedMemberCountsBeforeItsRecord(t *testing.T) {
	o := lead(t, newMemLog(), record3(1, 2))
	o.write(2)
	o.fetch(2, 12, 2)
	_, e := o.fetch(3, 13, 2)
	require.NotNil(t, e.Propose)
	require.Len(t, e.Propose.ISR, 3)
	o.write(2)
	o.fetch(2, 12, 4)
	require.EqualValues(t, 2, o.HighWatermark(), "node 3 may be elected already")
	o.fetch(3, 13, 4)
	require.EqualValues(t, 4, o.HighWatermark())
}

func TestAShrinkCountsOnlyByItsRecord(t *testing.T) { // S15
	o := lead(t, newMemLog(), record3(1, 2, 3))
	o.write(2)
	o.fetch(2, 12, 2)
	o.now = o.now.Add(11 * time.Second)
	o.fetch(2, 12, 2)
	e := o.carry(o.Tick(o.b, o.log, o.now))
	require.NotNil(t, e.Propose)
	require.EqualValues(t, 0, o.HighWatermark(), "node 3 may still be elected")
	shrunk := record3(1, 2)
	shrunk.PartitionEpoch++
	o.carry(o.OnView(shrunk, o.b, o.log, o.now))
	require.EqualValues(t, 2, o.HighWatermark())
}

func TestOnlyARecordSettlesProposals(t *testing.T) { // S47
	o := lead(t, newMemLog(), record3(1, 2))
	o.write(1)
	o.fetch(2, 12, 1)
	_, e := o.fetch(3, 13, 1)
	require.NotNil(t, e.Propose)
	o.b[3].Fenced = true // refused as ineligible; a copy of the proposal may still commit
	o.now = o.now.Add(time.Second)
	e = o.carry(o.Tick(o.b, o.log, o.now))
	require.NotNil(t, e.Propose, "to abandon, the present ISR is proposed")
	require.Len(t, e.Propose.ISR, 2)
	o.write(1)
	o.fetch(2, 12, 2)
	require.EqualValues(t, 1, o.HighWatermark(), "node 3 counts until a record says otherwise")
	same := record3(1, 2) // the same partition epoch: an unrelated image
	o.carry(o.OnView(same, o.b, o.log, o.now))
	require.EqualValues(t, 1, o.HighWatermark())
	next := record3(1, 2)
	next.PartitionEpoch++
	o.carry(o.OnView(next, o.b, o.log, o.now))
	require.EqualValues(t, 2, o.HighWatermark())
}

func TestAFetchOfAnotherEpochCountsForNothing(t *testing.T) { // S8
	o := lead(t, newMemLog(1, 1, 4), record3(1, 2, 3))
	for _, epoch := range []int32{4, 6} {
		v, _ := o.OnFetch(Fetch{Replica: 2, BrokerEpoch: 12, LeaderEpoch: epoch, Offset: 3, LastFetchedEpoch: 4, AckOffset: 3}, o.b, o.log, o.now)
		require.Error(t, v.Err)
		require.EqualValues(t, -1, o.Replicas(o.log, o.now)[1].Position)
	}
}

func TestADivergingFetchCountsForNothing(t *testing.T) { // KAFKA-13141
	o := lead(t, newMemLog(1, 1, 4), record3(1, 2, 3))
	v, e := o.OnFetch(Fetch{Replica: 2, BrokerEpoch: 12, LeaderEpoch: 5, Offset: 3, LastFetchedEpoch: 3, AckOffset: 3}, o.b, o.log, o.now)
	require.True(t, v.Diverging)
	require.Equal(t, EpochEnd{1, 2}, v.At)
	require.Equal(t, Effects{}, e)
	require.EqualValues(t, -1, o.Replicas(o.log, o.now)[1].Position)
}

func TestPositionComesFromTheAckOffsetAlone(t *testing.T) {
	o := lead(t, newMemLog(), record3(1, 2, 3))
	o.write(4)
	o.fetch(3, 13, 4)
	o.OnFetch(Fetch{Replica: 2, BrokerEpoch: 12, LeaderEpoch: 5, Offset: 4, LastFetchedEpoch: 5, AckOffset: 1}, o.b, o.log, o.now)
	require.EqualValues(t, 1, o.HighWatermark(), "received, but not where it counts")
	e := o.carry(o.OnAck(2, 12, 5, 3, o.b, o.log, o.now))
	require.True(t, e.Advanced)
	require.EqualValues(t, 3, o.HighWatermark())
	for _, bad := range []struct {
		be    int64
		epoch int32
		off   int64
	}{{11, 5, 4}, {12, 4, 4}, {12, 5, 5}} {
		require.Equal(t, Effects{}, o.OnAck(2, bad.be, bad.epoch, bad.off, o.b, o.log, o.now))
	}
}

func TestARestartedProcessStartsFromNothing(t *testing.T) {
	o := lead(t, newMemLog(), record3(1, 2, 3))
	o.write(4)
	o.fetch(2, 12, 4)
	o.b[2].Epoch = 30
	v, _ := o.fetch(2, 12, 4)
	require.ErrorIs(t, v.Err, ErrStaleBrokerEpoch)
	o.fetch(2, 30, 1)
	o.fetch(3, 13, 4)
	require.EqualValues(t, 1, o.HighWatermark())
	v, _ = o.fetch(2, 12, 4)
	require.ErrorIs(t, v.Err, ErrStaleBrokerEpoch)
	o.fetch(2, 40, 1) // known here before its registration is
	v, _ = o.fetch(2, 30, 4)
	require.ErrorIs(t, v.Err, ErrStaleBrokerEpoch)
}

func TestWhoMayJoinTheISR(t *testing.T) {
	cases := map[string]struct {
		prepare func(o *office)
		off     int64
		joins   bool
	}{
		"caught up":                            {func(*office) {}, 4, true},
		"below the high watermark":             {func(*office) {}, 1, false},
		"fenced":                               {func(o *office) { o.b[3].Fenced = true }, 4, false},
		"shutting down":                        {func(o *office) { o.b[3].Draining = true }, 4, false},
		"another process registered (KIP-903)": {func(o *office) { o.b[3].Epoch = 99 }, 4, false},
		"not registered":                       {func(o *office) { delete(o.b, 3) }, 4, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := lead(t, newMemLog(), record3(1, 2))
			o.write(4)
			o.fetch(2, 12, 3)
			c.prepare(o)
			_, e := o.fetch(3, 13, c.off)
			require.Equal(t, c.joins, e.Propose != nil)
		})
	}
}

// left takes node 3 out of the ISR a moment after it was in it, so that only its position keeps it out.
func (o *office) left() {
	out := record3(1, 2)
	out.PartitionEpoch++
	o.carry(o.OnView(out, o.b, o.log, o.now))
}

func TestANewLeaderAddsNobodyBelowItsStart(t *testing.T) { // S19, KAFKA-7128: its high watermark is stale
	log := newMemLog(4, 4, 4, 4)
	log.hw = 1
	o := lead(t, log, record3(1, 2, 3))
	o.left()
	_, e := o.fetch(3, 13, 2)
	require.Nil(t, e.Propose, "offsets 2 and 3 may be committed")
	_, e = o.fetch(3, 13, 4)
	require.NotNil(t, e.Propose)
}

func TestNobodyJoinsBelowTheHighWatermark(t *testing.T) {
	o := lead(t, newMemLog(), record3(1, 2, 3))
	o.left()
	o.write(4)
	o.fetch(2, 12, 4)
	_, e := o.fetch(3, 13, 3)
	require.Nil(t, e.Propose)
	_, e = o.fetch(3, 13, 4)
	require.NotNil(t, e.Propose)
}

func TestAProcessThatTheImageDoesNotKnowYetDoesNotJoin(t *testing.T) { // S17, S18
	o := lead(t, newMemLog(), record3(1, 2))
	_, e := o.fetch(3, 14, 0)
	require.Nil(t, e.Propose, "the registered process is another one")
	o.b[3].Epoch = 14
	_, e = o.fetch(3, 14, 0)
	require.NotNil(t, e.Propose)
	require.Equal(t, metadata.BrokerEpoch{ID: 3, Epoch: 14}, e.Propose.ISR[2])
}

func TestAFollowerFarBehindDoesNotJoinAtAFrozenHighWatermark(t *testing.T) { // KAFKA-19996
	o := lead(t, newMemLog(), record3(1))
	o.write(100)
	_, e := o.fetch(3, 13, 1)
	require.Nil(t, e.Propose, "at the high watermark, but far behind the end")
	o.now = o.now.Add(time.Second)
	_, e = o.fetch(3, 13, 99)
	require.Nil(t, e.Propose)
	_, e = o.fetch(3, 13, 100)
	require.NotNil(t, e.Propose)
}

func TestALaggingReplicaLeavesOnceInALagPeriod(t *testing.T) { // S37
	o := lead(t, newMemLog(), record3(1, 2, 3))
	o.write(1)
	o.fetch(2, 12, 1)
	o.fetch(3, 13, 1)
	require.False(t, o.Ticking(o.log))
	o.now = o.now.Add(time.Hour) // idle for long: nobody lags
	require.Nil(t, o.Tick(o.b, o.log, o.now).Propose)
	o.write(1)
	require.True(t, o.Ticking(o.log))
	o.fetch(2, 12, 2)
	require.Nil(t, o.Tick(o.b, o.log, o.now.Add(9*time.Second)).Propose, "the lag began with the append")
	e := o.Tick(o.b, o.log, o.now.Add(11*time.Second))
	require.NotNil(t, e.Propose)
	require.Len(t, e.Propose.ISR, 2)
	require.Nil(t, o.Tick(o.b, o.log, o.now.Add(11*time.Second+opts.Retry/2)).Propose)
	require.NotNil(t, o.Tick(o.b, o.log, o.now.Add(12*time.Second)).Propose, "no record came: it is proposed again")
}

func TestAReplicaWhoseDiskIsSlowerThanTheNetworkDoesNotLag(t *testing.T) {
	rec := record3(1, 2)
	rec.Durability = metadata.DurabilityDisk
	o := lead(t, newMemLog(), rec)
	// Every 10 ms a record comes and the follower fetches it; what counts is five fetches behind all the time.
	for i := int64(1); i <= 3000; i++ {
		o.write(1)
		o.log.flushed = i
		o.now = o.now.Add(10 * time.Millisecond)
		_, e := o.OnFetch(Fetch{Replica: 2, BrokerEpoch: 12, LeaderEpoch: rec.LeaderEpoch, Offset: i, LastFetchedEpoch: rec.LeaderEpoch, AckOffset: max(0, i-5)}, o.b, o.log, o.now)
		o.carry(e)
		require.Nil(t, o.Tick(o.b, o.log, o.now).Propose, "record %d", i)
	}
	require.EqualValues(t, 2995, o.HighWatermark())
	// One that stands still does, from its last mark on.
	for i := int64(3001); i <= 4200; i++ {
		o.write(1)
		o.now = o.now.Add(10 * time.Millisecond)
		o.OnFetch(Fetch{Replica: 2, BrokerEpoch: 12, LeaderEpoch: rec.LeaderEpoch, Offset: i, LastFetchedEpoch: rec.LeaderEpoch, AckOffset: 2995}, o.b, o.log, o.now)
	}
	require.NotNil(t, o.Tick(o.b, o.log, o.now).Propose)
}

func TestACutOffLeaderRefusesProduce(t *testing.T) {
	o := lead(t, newMemLog(), record3(1, 2, 3))
	require.NoError(t, o.MayAppend(1, o.b, o.now))
	o.now = o.now.Add(11 * time.Second)
	require.ErrorIs(t, o.MayAppend(1, o.b, o.now), ErrNotEnoughReplicas)
	o.fetch(2, 12, 0)
	require.NoError(t, o.MayAppend(1, o.b, o.now))
	o.now = o.now.Add(11 * time.Second)
	o.Heard(2, 99, o.now) // another process
	require.ErrorIs(t, o.MayAppend(1, o.b, o.now), ErrNotEnoughReplicas)
	o.Heard(2, 12, o.now)
	require.NoError(t, o.MayAppend(1, o.b, o.now))
}

func TestAcksCountCopiesAndCommits(t *testing.T) {
	o := lead(t, newMemLog(), record3(1, 2, 3))
	for _, acks := range []int16{-2, 4} {
		require.ErrorIs(t, o.MayAppend(acks, o.b, o.now), ErrInvalidAcks)
	}
	o.write(2)
	acked := func(acks int16) bool {
		ok, err := o.Acked(acks, 1, o.log)
		require.NoError(t, err)
		return ok
	}
	require.True(t, acked(0))
	require.True(t, acked(1))
	require.False(t, acked(2))
	o.fetch(2, 12, 2)
	require.False(t, acked(2), "two copies reach the write quorum, so a commit is needed too")
	require.False(t, acked(AcksAll))
	o.fetch(3, 13, 1)
	require.False(t, acked(3))
	o.fetch(3, 13, 2)
	require.True(t, acked(2))
	require.True(t, acked(3))
	require.True(t, acked(AcksAll))
}

func TestACountBeyondTheISRWaitsForItsCopies(t *testing.T) {
	o := lead(t, newMemLog(), record3(1, 2))
	o.write(1)
	o.fetch(2, 12, 1)
	require.EqualValues(t, 1, o.HighWatermark())
	ok, err := o.Acked(3, 0, o.log)
	require.NoError(t, err)
	require.False(t, ok, "committed, but on two replicas")
}

func TestWaitsEndInOrderAndOnlyWhenAcknowledged(t *testing.T) {
	o := lead(t, newMemLog(), record3(1, 2))
	var w Waits[int]
	var got []int
	done := func(who int, err error) { require.NoError(t, err); got = append(got, who) }
	o.write(3)
	w.Add(2, AcksAll, 2)
	w.Add(0, AcksAll, 0) // a duplicate of an older batch
	w.Add(1, 3, 1)
	w.Complete(o.Leader, o.log, done)
	require.Empty(t, got)
	o.fetch(2, 12, 1)
	w.Complete(o.Leader, o.log, done)
	require.Equal(t, []int{0}, got)
	require.True(t, w.Remove(1))
	require.False(t, w.Remove(1))
	var failed []error
	w.Fail(ErrNotLeader, func(_ int, err error) { failed = append(failed, err) })
	require.Equal(t, []error{ErrNotLeader}, failed)
	require.Zero(t, w.Len())
}

func TestCertificateNeedsEverythingThatWasThere(t *testing.T) {
	rec := record3(1, 2)
	rec.Members[2].Cert = -1
	o := lead(t, newMemLog(4, 4, 4), rec)
	_, e := o.fetch(3, 13, 1)
	require.Nil(t, e.Certify)
	o.write(2)
	_, e = o.fetch(3, 13, 3)
	require.NotNil(t, e.Certify, "it has what was here at its first fetch")
	require.EqualValues(t, 13, e.Certify.Broker.Epoch)
	_, e = o.fetch(3, 13, 4)
	require.Nil(t, e.Certify, "told once")
	o.now = o.now.Add(time.Second)
	_, e = o.fetch(3, 13, 5)
	require.NotNil(t, e.Certify, "no record came: told again")
	_, e = o.fetch(2, 12, 5)
	require.Nil(t, e.Certify)
}

func TestPositionsOfADiskTopicAreFlushed(t *testing.T) {
	rec := record3(1, 2)
	rec.Durability = metadata.DurabilityMemoryToDisk
	o := lead(t, newMemLog(), rec)
	o.write(3)
	o.fetch(2, 12, 3)
	require.EqualValues(t, 0, o.HighWatermark(), "the leader's copy is not on disk")
	o.log.flushed = 2
	require.True(t, o.carry(o.OnFlush(o.b, o.log, o.now)).Advanced)
	require.EqualValues(t, 2, o.HighWatermark())
}

func TestTheQuorumRuleCommitsOnlyRecordsOfItsOwnEpoch(t *testing.T) { // fig. 8
	rec := record3(1)
	rec.Rule = metadata.RuleQuorum
	o := lead(t, newMemLog(3, 3), rec)
	o.fetch(2, 12, 2)
	require.EqualValues(t, 0, o.HighWatermark())
	o.write(1)
	o.fetch(2, 12, 3)
	require.EqualValues(t, 3, o.HighWatermark())
}

func TestAStaleHighWatermarkIsBroughtIntoTheLog(t *testing.T) { // KAFKA-16452
	log := newMemLog(1, 1, 1)
	log.hw = 9
	o := lead(t, log, record3(1, 2, 3))
	require.EqualValues(t, 3, o.HighWatermark())
	log = newMemLog(1, 1, 1)
	log.raise(2)
	log.hw = 0
	o = lead(t, log, record3(1, 2, 3))
	require.EqualValues(t, 2, o.HighWatermark())
}

func TestDecideComparesRecords(t *testing.T) {
	log := newMemLog(1, 1)
	log.hw = 2
	mine, other, none := record3(1, 2), record3(1, 2), record3(1, 2)
	other.Leader, other.LeaderEpoch = 2, 6
	none.Leader, none.LeaderEpoch = metadata.NoNode, 6
	require.Equal(t, Transition{Role: RoleGone, NewEpoch: true}, Decide(mine, nil, 1, 11, log))
	require.Equal(t, Transition{Role: RoleGone, NewEpoch: true}, Decide(mine, mine, 4, 11, log))
	require.Equal(t, Transition{Role: RoleLead, NewEpoch: true, TakeOffice: true}, Decide(nil, mine, 1, 11, log))
	require.Equal(t, Transition{Role: RoleLead}, Decide(mine, mine, 1, 11, log), "once in an epoch")
	require.Equal(t, Transition{Role: RoleIdle, NewEpoch: true}, Decide(nil, mine, 1, 12, log), "the grant was to an earlier process")
	require.Equal(t, Transition{Role: RoleFollow, NewEpoch: true}, Decide(mine, other, 1, 11, log))
	require.Equal(t, Transition{Role: RoleIdle, NewEpoch: true}, Decide(mine, none, 1, 11, log))
	again := record3(1, 2)
	again.LeaderEpoch = 6
	require.Equal(t, Transition{Role: RoleLead, TakeOffice: true}, Decide(none, again, 1, 11, log), "elected in the epoch that had no leader")
	require.Equal(t, Transition{Role: RoleLead, NewEpoch: true, TakeOffice: true}, Decide(mine, again, 1, 11, log), "A, none, A in one difference")
	flagged := record3(1, 2)
	flagged.LeaderEpoch, flagged.LossEpoch = 6, 6
	require.EqualValues(t, 2, Decide(mine, flagged, 1, 11, log).LossHW, "the chosen log keeps its claims")
	flagged.Leader = 2
	tr := Decide(mine, flagged, 1, 11, log)
	require.True(t, tr.Loss)
	require.EqualValues(t, 0, tr.LossHW)
}

func TestJudgeOfAnAnswer(t *testing.T) {
	r := record3(1, 2)
	r.Leader = 2
	log := newMemLog(1, 1, 3, 3) // epochs end at 2 and 4
	log.hw = 1
	ask := Asked{LeaderEpoch: 5, Base: 4}
	ok := Answer{LeaderEpoch: 5}
	require.Equal(t, ActAppend, Judge(r, ask, ok, log).Action)
	for name, c := range map[string]struct {
		asked Asked
		a     Answer
	}{
		"an older epoch asked":      {Asked{4, 4}, ok},
		"an older epoch's answer":   {ask, Answer{LeaderEpoch: 4}},
		"a newer epoch's answer":    {ask, Answer{LeaderEpoch: 6}},
		"the log has moved on":      {Asked{5, 3}, ok},
		"late divergence (S10)":     {Asked{5, 3}, Answer{LeaderEpoch: 5, Diverging: true, At: EpochEnd{1, 2}}},
		"reset of another position": {Asked{5, 3}, Answer{LeaderEpoch: 5, Reset: true, LogStart: 9}},
	} {
		require.Equal(t, ActDrop, Judge(r, c.asked, c.a, log).Action, name)
	}
	div := func(e int32, end int64) Judgement {
		return Judge(r, ask, Answer{LeaderEpoch: 5, Diverging: true, At: EpochEnd{e, end}}, log)
	}
	require.Equal(t, Judgement{Action: ActTruncate, To: 2}, div(2, 3), "our epoch 1 ends before the leader's epoch 2")
	require.Equal(t, Judgement{Action: ActTruncate, To: 3}, div(3, 3))
	require.Equal(t, ActQuarantine, div(1, 0).Action, "below the high watermark")
	require.Equal(t, ActQuarantine, div(3, 4).Action, "says that we part where we end")
	require.Equal(t, Judgement{Action: ActReset, To: 7, ToEpoch: 3}, Judge(r, ask, Answer{LeaderEpoch: 5, Reset: true, LogStart: 7, LogStartEpoch: 3}, log)) // S41
	require.Equal(t, ActQuarantine, Judge(r, ask, Answer{LeaderEpoch: 5, Reset: true, LogStart: 2}, log).Action)
}

func TestAFlaggedElectionAllowsTheCut(t *testing.T) { // S22
	r := record3(1, 2)
	r.Leader, r.LossEpoch = 2, 5
	log := newMemLog(1, 1, 3, 3)
	log.raise(2)
	log.hw = 4
	require.True(t, Decide(nil, r, 1, 11, log).Loss)
	log.hw, log.loss = 2, 5 // what Decide asked for
	j := Judge(r, Asked{5, 4}, Answer{LeaderEpoch: 5, Diverging: true, At: EpochEnd{3, 3}}, log)
	require.Equal(t, Judgement{Action: ActTruncate, To: 3, Flagged: true}, j)
	j = Judge(r, Asked{5, 4}, Answer{LeaderEpoch: 5, Diverging: true, At: EpochEnd{1, 1}}, log)
	require.Equal(t, Judgement{Action: ActReset, To: 0, ToEpoch: -1, Flagged: true}, j, "the chosen log ends below our log start")
	log.loss = 0
	require.Equal(t, ActQuarantine, Judge(r, Asked{5, 4}, Answer{LeaderEpoch: 5, Diverging: true, At: EpochEnd{1, 1}}, log).Action)
}

// An empty log knows the epoch of the record before its start. A leader without that epoch has another history there.
func TestALogThatIsLeftWithItsStartPartsBelowIt(t *testing.T) {
	r := record3(1, 2)
	r.Leader, r.LossEpoch = 2, 5
	log := newMemLog()
	log.reset(5, 2)
	log.hw, log.loss = 5, 5
	older := Answer{LeaderEpoch: 5, Diverging: true, At: EpochEnd{0, 6}}
	require.Equal(t, Judgement{Action: ActReset, To: 0, ToEpoch: -1, Flagged: true}, Judge(r, Asked{5, 5}, older, log))
	log.loss = 0
	require.Equal(t, ActQuarantine, Judge(r, Asked{5, 5}, older, log).Action, "nobody has allowed that")
}

func TestAFollowersHighWatermarkNeverFalls(t *testing.T) {
	log := newMemLog(1, 1, 1)
	log.hw = 2
	for _, c := range []struct{ hw, start, wantHW, wantStart int64 }{{1, 0, 2, 0}, {9, 0, 3, 0}, {3, 9, 3, 3}, {0, 2, 2, 2}} {
		hw, start := Answer{HighWatermark: c.hw, LogStart: c.start}.Advance(log)
		require.Equal(t, [2]int64{c.wantHW, c.wantStart}, [2]int64{hw, start})
	}
}

func TestPlaceAtTheLogStart(t *testing.T) { // S41, S50
	log := newMemLog(1, 1, 3, 3)
	log.raise(3)
	for _, c := range []struct {
		off   int64
		last  int32
		whole bool
		want  Verdict
	}{
		{3, 3, true, Verdict{}}, {3, 1, false, Verdict{Reset: true}}, {2, 1, false, Verdict{Reset: true}},
		{4, 3, true, Verdict{}}, {5, 3, false, Verdict{Diverging: true, At: EpochEnd{3, 4}}},
		{4, 1, false, Verdict{Diverging: true, At: EpochEnd{3, 3}}},
	} {
		v, whole := Place(c.off, c.last, log)
		require.Equal(t, c.whole, whole, "%+v", c)
		require.Equal(t, c.want, v, "%+v", c)
	}
}

func TestErrorsOfEpochsAreTold(t *testing.T) {
	require.True(t, errors.Is(CheckEpoch(3, 2), ErrFencedLeaderEpoch))
	require.True(t, errors.Is(CheckEpoch(3, 4), ErrUnknownLeaderEpoch))
	require.NoError(t, CheckEpoch(3, 3))
}
