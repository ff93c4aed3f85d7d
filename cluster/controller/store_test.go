package controller

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"cordwood/fsm"
	"cordwood/fsm/metadata"
)

// failingStore fails its writes as told.
type failingStore struct {
	*raft.InmemStore
	fail   []error // of the next writes, in order
	writes int
	block  chan struct{}
}

func (s *failingStore) StoreLogs(l []*raft.Log) error {
	s.writes++
	if s.block != nil {
		<-s.block
	}
	if len(s.fail) > 0 {
		err := s.fail[0]
		s.fail = s.fail[1:]
		if err != nil {
			return err
		}
	}
	return s.InmemStore.StoreLogs(l)
}

func TestTheStoreRefusesEveryWriteAfterTheFirstThatFailed(t *testing.T) {
	eio := fmt.Errorf("sync: %w", syscall.EIO)
	s := &failingStore{InmemStore: raft.NewInmemStore(), fail: []error{nil, eio}}
	var told []error
	l := newLatch(s, func(err error) { told = append(told, err) }, nil)
	entry := []*raft.Log{{Index: 1}}
	require.NoError(t, l.StoreLogs(entry))
	require.ErrorIs(t, l.StoreLogs(entry), syscall.EIO)
	for _, write := range []func() error{
		func() error { return l.StoreLogs(entry) }, func() error { return l.StoreLog(entry[0]) }, func() error { return l.DeleteRange(1, 1) },
		func() error { return l.Set([]byte("k"), nil) }, func() error { return l.SetUint64([]byte("k"), 1) },
	} {
		err := write()
		require.ErrorIs(t, err, errLatched)
		require.ErrorIs(t, err, syscall.EIO)
	}
	require.Equal(t, 2, s.writes, "the store is not touched again")
	require.Len(t, told, 1, "the owner is told once")
	_, err := l.FirstIndex()
	require.NoError(t, err, "reading goes on")
}

func TestAStoreWithoutSpaceIsTriedOnceMoreWithTheReserve(t *testing.T) {
	full := fmt.Errorf("grow: %w", syscall.ENOSPC)
	s := &failingStore{InmemStore: raft.NewInmemStore(), fail: []error{full, nil, full, full}}
	freed, dead := 0, 0
	l := newLatch(s, func(error) { dead++ }, func() bool { freed++; return freed == 1 })
	require.NoError(t, l.StoreLogs([]*raft.Log{{Index: 1}}))
	require.Equal(t, 1, freed)
	require.Zero(t, dead)
	require.ErrorIs(t, l.StoreLogs([]*raft.Log{{Index: 2}}), syscall.ENOSPC, "there is no second reserve")
	require.Equal(t, 1, dead)
}

func TestAWriteThatHangsAndATransferThatDoesNotEndAreFatal(t *testing.T) {
	s := &failingStore{InmemStore: raft.NewInmemStore(), block: make(chan struct{})}
	l := newLatch(s, func(error) {}, nil)
	done := make(chan error, 1)
	begin := time.Now()
	require.Zero(t, l.stalled(begin))
	go func() { done <- l.StoreLogs(nil) }()
	eventually(t, "the write is seen", func() bool { return l.stalled(begin.Add(time.Hour)) > time.Minute })
	close(s.block)
	require.NoError(t, <-done)
	require.Zero(t, l.stalled(begin.Add(time.Hour)))

	var leaders leaderLog
	now := time.Now()
	leaders.transferRefused(now)
	leaders.transferRefused(now.Add(time.Second)) // the first one counts
	require.Equal(t, time.Minute, leaders.transferStuck(now.Add(time.Minute)))
	leaders.transferOver()
	require.Zero(t, leaders.transferStuck(now.Add(time.Hour)))

	require.NoError(t, judgeStuck(time.Second, time.Second, time.Second, time.Second))
	require.ErrorContains(t, judgeStuck(time.Second+1, 0, 0, time.Second), "disk hangs")
	require.ErrorContains(t, judgeStuck(0, time.Second+1, 0, time.Second), "applying")
	require.ErrorContains(t, judgeStuck(0, 0, time.Second+1, time.Second), "transfer stuck")
}

func TestAStateMachineThatHangsIsSeen(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	m := &machine{FSM: fsm.New(fsm.Options{Publish: func(*metadata.Image, metadata.Delta) { close(entered); <-leave }})}
	data, err := metadata.EncodeCommand(&metadata.SetCluster{ClusterID: "c", Level: metadata.LatestLevel})
	require.NoError(t, err)
	require.Zero(t, m.busy(time.Now()))
	done := make(chan any, 1)
	go func() { done <- m.Apply(&raft.Log{Index: 1, Type: raft.LogCommand, Data: data}) }()
	<-entered
	require.Greater(t, m.busy(time.Now().Add(time.Hour)), time.Minute)
	close(leave)
	require.NoError(t, (<-done).(metadata.Result).Err)
	require.Zero(t, m.busy(time.Now().Add(time.Hour)))
}

func TestTheFormerLeaderIsRememberedWithItsLastContact(t *testing.T) {
	var l leaderLog
	node, _ := l.last()
	require.Equal(t, metadata.NoNode, node)
	at := time.Unix(100, 0)
	l.changed("1.a", at)
	l.changed("1.a", at.Add(time.Second))
	l.changed("", at.Add(2*time.Second))
	l.changed("2.b", at.Add(3*time.Second))
	node, contact := l.last()
	require.Equal(t, int32(1), node)
	require.Equal(t, at.Add(2*time.Second), contact)
}

func TestAFailedWriteOfRaftStopsTheProcess(t *testing.T) {
	tc := newTestCluster(t, 1, nil)
	n := tc.nodes[1]
	n.start()
	c := tc.awaitController().ctl
	require.NoError(t, c.node.bolt.Close()) // every write fails from here on
	_, err := c.Propose(t.Context(), &metadata.SetLevel{Level: metadata.LatestLevel})
	require.Error(t, err)
	require.ErrorContains(t, <-n.fatal, "raft store")
}

func TestProposalErrorsSayWhetherTheCommandMayBeApplied(t *testing.T) {
	for raftError, want := range map[error]error{
		raft.ErrNotLeader: metadata.ErrNotController, raft.ErrEnqueueTimeout: metadata.ErrNoController, raft.ErrLeadershipTransferInProgress: metadata.ErrNoController,
		raft.ErrLeadershipLost: metadata.ErrOutcomeUnknown, raft.ErrRaftShutdown: metadata.ErrOutcomeUnknown, raft.ErrAbortedByRestore: metadata.ErrOutcomeUnknown,
		errors.New("anything"): metadata.ErrOutcomeUnknown,
	} {
		require.ErrorIs(t, proposeError(raftError), want)
	}
}
