package api

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
)

// threeTopics is an image with topics a, b and c of four partitions each.
func threeTopics(t testing.TB) *metadata.Image {
	t.Helper()
	s := metadata.NewState()
	_, _ = s.Apply(1, &metadata.SetCluster{ClusterID: "c", Level: 1})
	res, _ := s.Apply(2, &metadata.RegisterBroker{BootOK: true, Broker: metadata.Broker{ID: 1, Incarnation: "i", DirectoryID: "d", MinLevel: 1, MaxLevel: 1}})
	_, _ = s.Apply(3, &metadata.UnfenceBroker{Broker: metadata.BrokerEpoch{ID: 1, Epoch: res.Epoch}})
	cmd := &metadata.CreateTopics{}
	for i, name := range []string{"a", "b", "c"} {
		cmd.Topics = append(cmd.Topics, metadata.NewTopic{
			ID: [16]byte{1, byte(i)}, Name: name, Assignment: [][]int32{{1}, {1}, {1}, {1}}, Rule: metadata.RuleISR, Durability: metadata.DurabilityMemory, Recovery: metadata.RecoverWaitAll, MinISR: 1,
		})
	}
	created, _ := s.Apply(4, cmd)
	for _, err := range created.Items {
		require.NoError(t, err)
	}
	return s.Image()
}

func fetchOf(version int16, id, epoch int32, asked ...fetchKey) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.SessionID, req.SessionEpoch = version, id, epoch
	for _, k := range asked {
		t := kmsg.NewFetchRequestTopic()
		t.Topic = k.topic
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.PartitionMaxBytes = k.partition, 1000
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	return req
}

func forgetting(req *kmsg.FetchRequest, keys ...fetchKey) *kmsg.FetchRequest {
	for _, k := range keys {
		f := kmsg.NewFetchRequestForgottenTopic()
		f.Topic, f.Partitions = k.topic, []int32{k.partition}
		req.ForgottenTopics = append(req.ForgottenTopics, f)
	}
	return req
}

// check holds the invariants of a cache.
func (c *fetchSessions) check(t testing.TB) {
	t.Helper()
	sum := 0
	for id, s := range c.byID {
		require.Equal(t, id, s.id)
		require.Equal(t, len(s.list.keys), s.size)
		require.Len(t, s.list.parts, len(s.list.keys))
		require.Len(t, s.told, len(s.list.keys))
		require.Len(t, s.index, len(s.list.keys))
		for i, k := range s.list.keys {
			require.Equal(t, i, s.index[k])
		}
		sum += s.size
	}
	require.Equal(t, sum, c.partitions)
	require.LessOrEqual(t, len(c.byID), c.limit)
}

// player drives one session of a client that keeps what it is told, over partitions whose state changes.
type player struct {
	t     testing.TB
	c     *fetchSessions
	img   *metadata.Image
	truth map[fetchKey]int64 // high watermarks
	view  map[fetchKey]int64 // as told
	in    map[fetchKey]bool  // in the session
	id    int32
	epoch int32
}

func newPlayer(t testing.TB) *player {
	p := &player{t: t, c: newFetchSessions(4), img: threeTopics(t), truth: map[fetchKey]int64{}, view: map[fetchKey]int64{}, in: map[fetchKey]bool{}}
	for _, name := range []string{"a", "b", "c"} {
		for n := range int32(4) {
			p.truth[fetchKey{topic: name, partition: n}] = 0
		}
	}
	return p
}

func (p *player) keys() []fetchKey {
	var l []fetchKey
	for k := range p.truth {
		l = append(l, k)
	}
	slices.SortFunc(l, func(a, b fetchKey) int {
		if a.topic != b.topic {
			return int(a.topic[0]) - int(b.topic[0])
		}
		return int(a.partition - b.partition)
	})
	return l
}

// round asks once and takes the answer. data says which partitions have records in it.
func (p *player) round(ask, forget []fetchKey, data func(fetchKey) bool, limit int32) {
	p.t.Helper()
	o, refused := p.c.open(forgetting(fetchOf(12, p.id, p.epoch, ask...), forget...), p.img, time.Unix(0, 0))
	require.Nil(p.t, refused)
	for _, k := range ask {
		p.in[k] = true
	}
	if p.epoch != initialEpoch {
		for _, k := range forget {
			delete(p.in, k)
			delete(p.view, k)
		}
	}
	require.Len(p.t, o.list.keys, len(p.in))
	before := slices.Clone(o.list.keys)
	told := o.session.tell(&o)
	for i, k := range o.list.keys {
		part := fetchPart{key: k, hw: p.truth[k]}
		if data(k) {
			part.bytes = 10
		}
		if told.owes(i, &part) {
			p.view[k] = part.hw
		}
	}
	told.done(limit)
	require.Equal(p.t, before, o.list.keys, "a list that was handed out changed")
	for k := range p.in {
		require.Equal(p.t, p.truth[k], p.view[k], "the client does not know of %v", k)
	}
	p.id = o.id
	p.epoch++
	if len(p.in) == 0 || p.id == noSession {
		p.id, p.epoch = noSession, initialEpoch
		clear(p.view)
	}
	p.c.check(p.t)
}

func (p *player) play(next func(n int) int) {
	all := p.keys()
	for range 60 {
		var ask, forget []fetchKey
		for range next(4) {
			p.truth[all[next(len(all))]]++
		}
		for range next(3) {
			ask = append(ask, all[next(len(all))])
		}
		if p.epoch != initialEpoch {
			for range next(3) {
				forget = append(forget, all[next(len(all))])
			}
		}
		busy := all[next(len(all))]
		p.round(ask, forget, func(k fetchKey) bool { return k == busy }, int32(next(2)*10))
		if p.epoch == initialEpoch {
			clear(p.in)
		}
	}
}

func TestAClientOfASessionKnowsWhatIsTrue(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	for range 200 {
		newPlayer(t).play(r.IntN)
	}
}

func FuzzFetchSession(f *testing.F) {
	f.Add([]byte("a client asks, forgets, and asks again"))
	f.Fuzz(func(t *testing.T, b []byte) {
		i := 0
		newPlayer(t).play(func(n int) int {
			if i == len(b) {
				return 0
			}
			i++
			return int(b[i-1]) % n
		})
	})
}

// Field report 13 (franz-go#535): odd epochs and ids are refused with the codes that clients know, and leave the session
// as it was.
func TestARefusedFetchLeavesTheSessionAsItWas(t *testing.T) {
	img, now := threeTopics(t), time.Unix(0, 0)
	c := newFetchSessions(0)
	a0 := fetchKey{topic: "a"}
	o, refused := c.open(fetchOf(12, 0, 0, a0), img, now)
	require.Nil(t, refused)
	for _, x := range []struct {
		version   int16
		id, epoch int32
		want      *kerr.Error
	}{
		{12, o.id, 0x7fffffff, kerr.InvalidFetchSessionEpoch}, {12, o.id, 2, kerr.InvalidFetchSessionEpoch}, {12, o.id, -2, kerr.InvalidFetchSessionEpoch},
		{12, o.id ^ 1, 1, kerr.FetchSessionIDNotFound}, {12, 0, 1, kerr.FetchSessionIDNotFound}, {13, o.id, 1, kerr.FetchSessionTopicIDError},
	} {
		_, refused = c.open(forgetting(fetchOf(x.version, x.id, x.epoch), a0), img, now)
		require.Equal(t, x.want, refused, "%+v", x)
		c.check(t)
	}
	o, refused = c.open(forgetting(fetchOf(12, o.id, 1), fetchKey{}, fetchKey{topic: "never", partition: 9}), img, now)
	require.Nil(t, refused)
	require.Len(t, o.list.keys, 1)
}

func TestSessionEpochsFollowTheLargestWithOne(t *testing.T) {
	require.EqualValues(t, 1, nextSessionEpoch(math.MaxInt32))
	require.EqualValues(t, math.MaxInt32, nextSessionEpoch(math.MaxInt32-1))
}

func TestSessionsAreBoundedAndTheIdleOnesGoFirst(t *testing.T) {
	img, now := threeTopics(t), time.Unix(1000, 0)
	c := newFetchSessions(2)
	open := func(at time.Time) int32 {
		o, refused := c.open(fetchOf(12, 0, 0, fetchKey{topic: "a"}), img, at)
		require.Nil(t, refused)
		c.check(t)
		return o.id
	}
	first, second := open(now), open(now.Add(time.Second))
	require.Zero(t, open(now.Add(time.Minute)), "nobody was idle for long enough")
	require.NotZero(t, open(now.Add(sessionIdle)))
	_, refused := c.open(fetchOf(12, first, 1), img, now)
	require.Equal(t, kerr.FetchSessionIDNotFound, refused, "the one that was idle longest goes")
	_, refused = c.open(fetchOf(12, second, 1), img, now)
	require.Nil(t, refused)
}

// Partitions that were cut off by the limit come first the next time: the last ones do not starve.
func TestPartitionsTakeTurnsWhenTheLimitCutsTheAnswer(t *testing.T) {
	p := newPlayer(t)
	all := p.keys()[:4]
	served := map[fetchKey]int{}
	ask := all
	for range 8 {
		o, refused := p.c.open(fetchOf(12, p.id, p.epoch, ask...), p.img, time.Unix(0, 0))
		require.Nil(t, refused)
		told := o.session.tell(&o)
		for i, k := range o.list.keys {
			part := fetchPart{key: k}
			if i == 0 { // the first fills the answer
				part.bytes = 100
				served[k]++
			}
			told.owes(i, &part)
		}
		told.done(100)
		p.id, ask = o.id, nil
		p.epoch++
	}
	for _, k := range all {
		require.Equal(t, 2, served[k], fmt.Sprint(k))
	}
}

// A name may stand for another topic by the next fetch of a session.
func TestASessionByNameFollowsTheTopicOfThatName(t *testing.T) {
	img, now := threeTopics(t), time.Unix(0, 0)
	c := newFetchSessions(0)
	o, _ := c.open(fetchOf(12, 0, 0, fetchKey{topic: "a"}, fetchKey{topic: "late"}), img, now)
	require.NotNil(t, o.list.errs)
	require.NoError(t, o.list.errs[0])
	require.ErrorIs(t, o.list.errs[1], metadata.ErrUnknownTopic)
	o, _ = c.open(fetchOf(12, o.id, 1, fetchKey{topic: "a", partition: 9}), img, now)
	require.ErrorIs(t, o.list.errs[2], partition.ErrUnknownPartition)
	empty := metadata.NewState().Image()
	o, _ = c.open(fetchOf(12, o.id, 2), empty, now)
	require.ErrorIs(t, o.list.errs[0], metadata.ErrUnknownTopic)
	o, _ = c.open(fetchOf(12, o.id, 3), img, now)
	require.NoError(t, o.list.errs[0])
	require.Equal(t, img.Topic("a").ID, o.list.parts[0].ID.Topic)
}
