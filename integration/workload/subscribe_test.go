package workload

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"cordwood/integration/history"
)

// groupHeader is of two topics with two partitions each.
func groupHeader() *history.Header {
	h := fakeHeader()
	other := h.Topics[0]
	other.Name = "u"
	h.Topics, h.Keys = append(h.Topics, other), []history.Key{{}, {Partition: 1}, {Topic: 1}, {Topic: 1, Partition: 1}}
	return h
}

func fakeCluster(t *testing.T, more ...kfake.Opt) []string {
	t.Helper()
	fake, err := kfake.NewCluster(append(more, kfake.NumBrokers(1), kfake.SeedTopics(2, "t", "u"), kfake.GroupMinSessionTimeout(time.Second))...)
	require.NoError(t, err)
	t.Cleanup(fake.Close)
	return fake.ListenAddrs()
}

func TestAClusterWithoutTheirRequestsHasNoSubscriptions(t *testing.T) {
	for _, request := range grouped {
		versions := kversion.Stable()
		versions.SetMaxKeyVersion(request, -1)
		has, err := TrySubscription(t.Context(), fakeCluster(t, kfake.MaxVersions(versions)), Franz, groupHeader())
		require.NoError(t, err)
		require.False(t, has, "without request %d", request)
	}
}

// TestAGroupThatGivesNothingIsAnError and no cluster without groups, whether it says why or nothing ever comes.
func TestAGroupThatGivesNothingIsAnError(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "t", "u"))
	require.NoError(t, err)
	defer fake.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	h := groupHeader()
	h.Topics[0].Name = "missing"
	has, err := TrySubscription(ctx, fake.ListenAddrs(), Franz, h)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.False(t, has)

	fake.ControlKey(kmsg.JoinGroup.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
		resp.ErrorCode = kerr.GroupAuthorizationFailed.Code
		return resp, nil, true
	})
	has, err = TrySubscription(t.Context(), fake.ListenAddrs(), Franz, groupHeader())
	require.ErrorIs(t, err, kerr.GroupAuthorizationFailed)
	require.False(t, has)
}

func TestEveryThirdClientThatCanSubscribes(t *testing.T) {
	h := groupHeader()
	r := &Run{libraries: []library{franz{}, other{}}, opt: RunOptions{Header: h}}
	slots := func() (all []int) {
		for slot := range 16 {
			if r.newProcess(slot, nil).subscribes {
				all = append(all, slot)
			}
		}
		return all
	}
	require.Empty(t, slots(), "the cluster has no groups")
	h.Subscriptions = true
	require.Equal(t, []int{1, 4, 13}, slots(), "the others' library cannot")
	r.libraries = []library{franz{}}
	require.Equal(t, []int{1, 4, 7, 10, 13}, slots())
}

// scripted is a member of which the test says what happens.
type scripted struct {
	consumer
	moves []place
	polls func(each func(read))
}

func (s *scripted) moved() []place {
	moves := s.moves
	s.moves = nil
	return moves
}

func (s *scripted) poll(_ context.Context, _ int, each func(read)) error {
	s.polls(each)
	return nil
}

// TestARebalanceIsToldOfByEveryPollThatItMayHaveMoved and by no other.
func TestARebalanceIsToldOfByEveryPollThatItMayHaveMoved(t *testing.T) {
	r, err := NewRun(RunOptions{Seeds: []string{"nowhere"}, Header: groupHeader(), Processes: 1, Sink: &kept{}})
	require.NoError(t, err)
	m := &scripted{}
	p := r.newProcess(0, nil)
	p.reader = m
	poll := func(op *history.Op, records ...read) {
		m.polls = func(each func(read)) {
			for _, x := range records {
				each(x)
			}
		}
		require.True(t, p.polls(t.Context(), op))
	}
	record := func(offset int64) read {
		return read{from: place{"t", 1}, offset: offset, value: []byte("7")}
	}
	var op history.Op
	m.moves = []place{{"t", 1}, {"of another", 0}}
	poll(&op, record(4))
	require.Equal(t, []int{1}, op.Moved, "before it")
	require.Equal(t, map[int]int64{1: 5}, p.next)

	op = history.Op{}
	poll(&op, record(5))
	require.Empty(t, op.Moved, "it is not told of again")

	op = history.Op{}
	m.polls = func(each func(read)) {
		each(record(6))
		m.moves = []place{{"u", 0}, {"t", 1}}
	}
	require.True(t, p.polls(t.Context(), &op))
	require.Equal(t, []int{1, 2}, op.Moved, "while it goes on")
	require.Equal(t, int64(7), p.next[1], "it was polled before or after that")
	poll(&op)
	require.Equal(t, []int{1, 2}, op.Moved, "one operation tells of all its polls, and of each key once")
	require.Empty(t, p.next, "nobody knows where it begins")

	op = history.Op{}
	m.polls = func(each func(read)) { m.moves = []place{{"t", 0}} }
	require.True(t, p.polls(t.Context(), &op))
	op = history.Op{}
	poll(&op, record(2))
	require.Equal(t, []int{0}, op.Moved, "in the next operation what came in the one before may begin")
	op = history.Op{}
	poll(&op, record(3))
	require.Empty(t, op.Moved)

	m.moves = []place{{"u", 1}}
	op = history.Op{}
	poll(&op)
	poll(&op, record(4))
	require.Equal(t, []int{3}, op.Moved, "what its first poll was told stays")
}

// TestSubscribersReadWhatTheirGroupGivesThem and the history tells of every rebalance, so that each poll can be judged.
func TestSubscribersReadWhatTheirGroupGivesThem(t *testing.T) {
	seeds, h, sink := fakeCluster(t), groupHeader(), &kept{}
	t.Logf("seed %d", h.Seed)
	var err error
	h.Subscriptions, err = TrySubscription(t.Context(), seeds, Franz, h)
	require.NoError(t, err)
	require.True(t, h.Subscriptions)
	r, err := NewRun(RunOptions{Seeds: seeds, Header: h, Processes: 5, Rate: 500, Crash: 2 * time.Second, Sink: sink})
	require.NoError(t, err)

	// Enough is when members have come and gone, and one was given again what it or another had read already.
	enough := func() bool {
		sink.mu.Lock()
		defer sink.mu.Unlock()
		members, polled, again := 0, 0, 0
		subscribed, furthest := map[int]bool{}, map[int]int64{}
		for _, op := range sink.ops {
			if op.F == history.Subscribe {
				members++
				subscribed[op.Process] = true
			}
			for _, m := range op.Mops {
				for _, s := range m.Poll {
					if !subscribed[op.Process] {
						continue
					}
					polled++
					if next, read := furthest[s.Key]; read && s.Offset < next && slices.Contains(op.Moved, s.Key) {
						again++
					}
					furthest[s.Key] = s.Offset + 1
				}
			}
		}
		return members >= 6 && polled >= 500 && again >= 1
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Drive(ctx)
	}()
	require.Eventually(t, enough, time.Minute, 20*time.Millisecond)
	cancel()
	<-done
	require.NoError(t, r.Finish(t.Context(), time.Minute, false))

	all := &history.History{Header: *h, Ops: sink.ops}
	slices.SortStableFunc(all.Ops, func(a, b history.Op) int { return int(a.End - b.End) })
	require.NoError(t, all.Validate())
	for _, op := range all.Ops {
		require.False(t, op.Final && op.F == history.Subscribe, "in the end all are assigned everything")
		if op.F == history.Subscribe {
			require.Contains(t, [][]int{{0, 1}, {2, 3}, {0, 1, 2, 3}}, op.Keys, "it is of whole topics")
		}
	}
	report := history.Check(all)
	for _, a := range report.Anomalies {
		require.Equal(t, a.Count, a.Allowed, "%+v", a)
	}
	require.Equal(t, history.VerdictOK, report.Verdict)
}
