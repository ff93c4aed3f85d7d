package metadata

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARegistrationIsTheSameHoweverOftenItIsSent(t *testing.T) {
	w := newWorld(t)
	first := w.register(1)
	require.Equal(t, int64(w.index), first.Epoch)
	require.NoError(t, w.s.Image().CheckRegistration(w.run[1]))
	again := w.apply(w.run[1])
	require.NoError(t, again.Err)
	require.Equal(t, first.Epoch, again.Epoch)
	require.Equal(t, first.Class, again.Class)
}

func TestRestartClasses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*RegisterBroker)
		want   RestartClass
	}{
		"killed in the same boot":         {func(*RegisterBroker) {}, RestartProcessCrash},
		"clean stop":                      {func(c *RegisterBroker) { c.Clean = true }, RestartClean},
		"clean stop in an earlier boot":   {func(c *RegisterBroker) { c.Clean = true; losePower(c) }, RestartClean},
		"killed in an earlier boot":       {losePower, RestartLossyPower},
		"boot id unreadable":              {func(c *RegisterBroker) { c.BootOK = false }, RestartLossyPower},
		"clean, but sizes do not match":   {func(c *RegisterBroker) { c.Mismatch = true }, RestartLossyMedia},
		"no session file":                 {func(c *RegisterBroker) { c.Earlier = nil }, RestartLossyMedia},
		"a snapshot of an older disk":     {func(c *RegisterBroker) { c.Earlier[0].ID = "older" }, RestartLossyMedia},
		"a session file on another disk":  {func(c *RegisterBroker) { c.Broker.DirectoryID = "other"; c.Clean = true }, RestartLossyMedia},
		"an empty disk with a clean flag": {func(c *RegisterBroker) { c.Earlier = nil; c.Clean = true }, RestartLossyMedia},
		"a start between that never arrived": {func(c *RegisterBroker) {
			c.Earlier = append([]EarlierIncarnation{{ID: "lost", SameBoot: true}}, c.Earlier...)
		}, RestartProcessCrash},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			before := w.s.Image().Broker(1)
			require.Equal(t, RestartLossyMedia, before.Class, "the very first registration")
			w.fence(1)
			r := w.restart(1, c.change)
			require.Equal(t, c.want, r.Class)
			b := w.s.Image().Broker(1)
			require.Equal(t, c.want, b.Class)
			require.True(t, b.Fenced)
			media, power := before.LossMedia, before.LossPower
			switch c.want {
			case RestartLossyMedia:
				media, power = r.Epoch, r.Epoch
			case RestartLossyPower:
				power = r.Epoch
			}
			require.Equal(t, []int64{media, power}, []int64{b.LossMedia, b.LossPower})
		})
	}
}

func TestALateRegistrationOfADeadProcessIsRefused(t *testing.T) {
	w := newWorld(t, 1)
	first := w.run[1]
	w.register(1)
	second := w.run[1]
	w.register(1)
	require.ErrorIs(t, w.apply(first).Err, ErrLateIncarnation)
	require.ErrorIs(t, w.apply(second).Err, ErrLateIncarnation)
}

func TestAWipedNodeComesBackOnlyWhenItsOldProcessIsGone(t *testing.T) {
	w := newWorld(t, 1)
	wiped := &RegisterBroker{Broker: Broker{ID: 1, Incarnation: "new", DirectoryID: "other", MinLevel: 1, MaxLevel: 1}}
	require.ErrorIs(t, w.apply(wiped).Err, ErrDuplicateBroker)
	require.ErrorIs(t, w.s.Image().CheckRegistration(wiped), ErrDuplicateBroker)
	w.fence(1)
	r := w.apply(wiped)
	require.NoError(t, r.Err)
	require.Equal(t, RestartLossyMedia, r.Class)
	require.ErrorIs(t, w.apply(w.run[1]).Err, ErrLateIncarnation, "the process of the old directory")
}

func TestANodeThatHoldsReplicasStaysRegistered(t *testing.T) {
	w := newWorld(t, 1, 2)
	w.topic("orders", 1, []int32{1, 2}, []int32{2, 1})
	require.ErrorIs(t, w.apply(&UnregisterBroker{ID: 2}).Err, ErrInvalidRequest)
	w.fence(2)
	err := w.apply(&UnregisterBroker{ID: 2}).Err
	require.ErrorIs(t, err, ErrHoldsReplicas)
	require.ErrorContains(t, err, "orders-0, orders-1")
	require.NoError(t, w.one(&DeleteTopics{Topics: w.topicIDs()}))
	require.NoError(t, w.apply(&UnregisterBroker{ID: 2}).Err)
	require.Nil(t, w.s.Image().Broker(2))
	require.ErrorIs(t, w.apply(&UnregisterBroker{ID: 2}).Err, ErrBrokerNotRegistered)
}

func TestFencingMovesLeadersInTheSameRecord(t *testing.T) {
	w := newWorld(t, 1, 2, 3)
	p := w.topic("a", 2, []int32{1, 2, 3})
	w.fence(1)
	r := w.at(p)
	require.Equal(t, int32(2), r.Leader)
	require.Equal(t, []int32{2, 3}, r.ISR)
	require.Equal(t, int32(1), r.LeaderEpoch)
	require.Equal(t, int32(1), r.PartitionEpoch)
	w.fence(2, 3)
	r = w.at(p)
	require.Equal(t, NoNode, r.Leader)
	require.Empty(t, r.ISR)
	require.Equal(t, []int32{2, 3}, r.ELR)
	w.unfence(3)
	r = w.at(p)
	require.Equal(t, int32(3), r.Leader)
	require.Equal(t, []int32{2}, r.ELR)
	require.Equal(t, int32(2), r.LeaderEpoch)
}

func TestAFenceOfAnotherProcessIsRefused(t *testing.T) {
	w := newWorld(t, 1, 2)
	p := w.topic("a", 1, []int32{1, 2})
	stale := w.epoch(1)
	w.register(1)
	w.unfence(1)
	require.NoError(t, w.alter(p, 1, 2))
	require.ErrorIs(t, w.one(&FenceBrokers{Brokers: []BrokerEpoch{stale}}), ErrStaleBrokerEpoch)
	require.Equal(t, []int32{1, 2}, w.at(p).ISR)
}

func TestADrainingNodeGivesItsLeadersAndTakesNone(t *testing.T) {
	w := newWorld(t, 1, 2, 3)
	p := w.topic("a", 1, []int32{1, 2, 3})
	require.NoError(t, w.one(&FenceBrokers{Brokers: []BrokerEpoch{w.epoch(1)}, Draining: true}))
	require.True(t, w.s.Image().Broker(1).Alive())
	require.Equal(t, int32(2), w.at(p).Leader)
	require.ErrorIs(t, w.alter(p, 1, 2, 3), ErrIneligibleReplica)
	w.fence(2, 3)
	require.Equal(t, NoNode, w.at(p).Leader, "a draining node is never elected")
}
