package controller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
)

// sessionWorld is a session table with a clock and a real state to sync with.
type sessionWorld struct {
	t     *testing.T
	table *sessionTable
	state *metadata.State
	index uint64
	now   time.Time
}

func newSessionWorld(t *testing.T) *sessionWorld {
	w := &sessionWorld{t: t, table: newSessionTable(4 * time.Second), state: metadata.NewState(), now: time.Unix(1000, 0)}
	w.apply(&metadata.SetCluster{ClusterID: "c", Level: metadata.LatestLevel})
	return w
}

func (w *sessionWorld) apply(cmd metadata.Command) metadata.Result {
	w.index++
	r, _ := w.state.Apply(w.index, cmd)
	require.NoError(w.t, r.Err)
	for _, e := range r.Items {
		require.NoError(w.t, e)
	}
	w.table.sync(w.state.Image(), w.now)
	return r
}

func (w *sessionWorld) alive(id int32) int64 {
	r := w.apply(&metadata.RegisterBroker{Broker: metadata.Broker{
		ID: id, Incarnation: time.Duration(w.index).String(), DirectoryID: "d", MinLevel: 1, MaxLevel: metadata.LatestLevel}})
	w.apply(&metadata.UnfenceBroker{Broker: metadata.BrokerEpoch{ID: id, Epoch: r.Epoch}})
	return r.Epoch
}

func (w *sessionWorld) after(d time.Duration) { w.now = w.now.Add(d) }

func (w *sessionWorld) lost() (ids []int32) {
	for _, l := range w.table.due(w.now) {
		require.NotEmpty(w.t, l.Reason)
		ids = append(ids, l.ID)
	}
	return ids
}

func TestABrokerIsLostWhenItsTimeoutHasPassedAndNotBefore(t *testing.T) {
	w := newSessionWorld(t)
	e := w.alive(1)
	w.after(3 * time.Second)
	require.True(t, w.table.heartbeat(1, e, 1, w.now))
	require.Equal(t, w.now.Add(4*time.Second), w.table.next(), "the loop sleeps until the deadline itself")
	w.after(4*time.Second - 1)
	require.Empty(t, w.lost())
	w.after(1)
	require.Equal(t, []int32{1}, w.lost())
	require.Empty(t, w.lost(), "it is asked for once")
	w.after(sessionRetry)
	require.Equal(t, []int32{1}, w.lost(), "and again while the metadata has it alive")
	w.apply(&metadata.FenceBrokers{Brokers: []metadata.BrokerEpoch{{ID: 1, Epoch: e}}})
	w.after(time.Hour)
	require.Empty(t, w.lost())
	require.Zero(t, w.table.next())
}

func TestTwoRefusedDialsLoseABrokerOnlyWithoutItsConnection(t *testing.T) {
	w := newSessionWorld(t)
	e := w.alive(1)
	w.table.heartbeat(1, e, 7, w.now)
	require.False(t, w.table.doubtful(1, e))
	require.False(t, w.table.refused(1, e, w.now.Add(1)), "its session connection is open: a dial tells nothing")

	require.False(t, w.table.closed(1, e, 6), "an older connection says nothing")
	require.True(t, w.table.closed(1, e, 7))
	require.True(t, w.table.doubtful(1, e))
	require.Empty(t, w.lost(), "a closed connection alone does not fence")
	begin := w.now.Add(time.Millisecond)
	require.True(t, w.table.refused(1, e, begin))
	require.Equal(t, []int32{1}, w.lost())
}

func TestABrokerThatWasHeardAfterTheDialsBeganIsNotLost(t *testing.T) {
	w := newSessionWorld(t)
	e := w.alive(1)
	w.table.heartbeat(1, e, 7, w.now)
	w.table.closed(1, e, 7)
	begin := w.now
	w.after(time.Millisecond)
	w.table.heartbeat(1, e, 8, w.now)
	w.table.closed(1, e, 8)
	require.False(t, w.table.refused(1, e, begin))
	require.Empty(t, w.lost())
}

func TestANewRegistrationIsANewSession(t *testing.T) {
	w := newSessionWorld(t)
	old := w.alive(1)
	w.table.heartbeat(1, old, 7, w.now)
	w.after(3 * time.Second)
	e := w.alive(1)
	require.False(t, w.table.heartbeat(1, old, 7, w.now), "the old process is not heard")
	require.False(t, w.table.closed(1, old, 7))
	w.after(2 * time.Second) // past the old deadline
	require.Empty(t, w.lost())
	require.True(t, w.table.heartbeat(1, e, 8, w.now))
}

func TestANewControllerGivesAFullTimeoutAndCountsTheFormerLeaderFromItsLastContact(t *testing.T) {
	w := newSessionWorld(t)
	w.alive(1)
	w.alive(2)
	w.table = newSessionTable(4 * time.Second)
	w.after(time.Hour)
	w.table.sync(w.state.Image(), w.now)
	w.table.countFrom(2, w.now.Add(-time.Second))
	w.after(3*time.Second - 1)
	require.Empty(t, w.lost())
	w.after(1)
	require.Equal(t, []int32{2}, w.lost())
	w.after(time.Second)
	require.Equal(t, []int32{1, 2}, w.lost(), "one command for all that are due")

	// A contact later than the takeover would only lengthen the session: it does not.
	w.table = newSessionTable(4 * time.Second)
	w.table.sync(w.state.Image(), w.now)
	w.table.countFrom(2, w.now.Add(time.Second))
	require.Equal(t, w.now.Add(4*time.Second), w.table.next())
}

func TestTimeInWhichTheControllerItselfStoodStillCountsForNobody(t *testing.T) {
	w := newSessionWorld(t)
	e := w.alive(1)
	w.table.heartbeat(1, e, 1, w.now)
	w.after(5 * time.Second)
	w.table.stalled(5 * time.Second)
	require.Empty(t, w.lost())
	w.after(4 * time.Second)
	require.Equal(t, []int32{1}, w.lost())
}

func TestAnUnregisteredBrokerHasNoSession(t *testing.T) {
	w := newSessionWorld(t)
	e := w.alive(1)
	w.apply(&metadata.FenceBrokers{Brokers: []metadata.BrokerEpoch{{ID: 1, Epoch: e}}})
	w.apply(&metadata.UnregisterBroker{ID: 1})
	require.Empty(t, w.table.sessions)
}
