package fsm

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

var write = flag.Bool("write", false, "write the golden files of the present formats instead of comparing with them")

// sink keeps a snapshot in memory.
type sink struct {
	bytes.Buffer
	closed, cancelled bool
	fail              error
}

func (s *sink) Write(p []byte) (int, error) {
	if s.fail != nil {
		return 0, s.fail
	}
	return s.Buffer.Write(p)
}
func (s *sink) ID() string    { return "test" }
func (s *sink) Close() error  { s.closed = true; return nil }
func (s *sink) Cancel() error { s.cancelled = true; return nil }

func entry(t testing.TB, index uint64, cmd metadata.Command) *raft.Log {
	t.Helper()
	data, err := metadata.EncodeCommand(cmd)
	require.NoError(t, err)
	return &raft.Log{Type: raft.LogCommand, Index: index, Data: data}
}

func topic(n int) record.TopicID { return record.TopicID{byte(n), byte(n >> 8), 1} }

// script is the log of a small cluster: topics come and go, nodes are fenced and come back, ISRs shrink.
func script(t testing.TB, seed uint64, length int) []*raft.Log {
	rng := rand.New(rand.NewPCG(seed, 1))
	shadow := metadata.NewState()
	var log []*raft.Log
	add := func(cmd metadata.Command) {
		index := uint64(10 + 2*len(log))
		log = append(log, entry(t, index, cmd))
		shadow.Apply(index, cmd)
	}
	be := func(id int32) metadata.BrokerEpoch {
		return metadata.BrokerEpoch{ID: id, Epoch: shadow.Image().BrokerEpoch(id)}
	}
	add(&metadata.SetCluster{ClusterID: "cluster", Level: 1})
	for id := int32(1); id <= 3; id++ {
		add(&metadata.RegisterBroker{Broker: metadata.Broker{ID: id, Incarnation: fmt.Sprint("i", id), DirectoryID: fmt.Sprint("d", id), MinLevel: 1, MaxLevel: 1}})
		add(&metadata.UnfenceBroker{Broker: be(id)})
	}
	for len(log) < length {
		id := 1 + rng.Int32N(3)
		n := len(log)
		switch rng.IntN(6) {
		case 0:
			add(&metadata.CreateTopics{Request: metadata.RequestID{byte(n)}, Topics: []metadata.NewTopic{
				{ID: topic(n), Name: fmt.Sprint("t", n), Assignment: [][]int32{{1, 2, 3}, {2, 3, 1}}, Configs: map[string]string{"b": "1", "a": "2"}},
				{ID: topic(n), Name: "/"},
			}})
		case 1:
			add(&metadata.FenceBrokers{Brokers: []metadata.BrokerEpoch{be(id)}, Reason: "script"})
		case 2, 3:
			add(&metadata.UnfenceBroker{Broker: be(id)})
		case 4:
			cmd := &metadata.AlterPartitions{}
			for top := range shadow.Image().Topics() {
				for _, p := range top.Partitions {
					cmd.Changes = append(cmd.Changes, metadata.PartitionChange{Partition: p.ID, Leader: p.Leader, LeaderBrokerEpoch: p.LeaderBrokerEpoch,
						LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, ISR: []metadata.BrokerEpoch{be(p.Leader), be(p.Replicas[rng.IntN(3)])}})
				}
			}
			add(cmd)
		case 5:
			add(&metadata.DeleteTopics{Topics: []record.TopicID{topic(rng.IntN(n))}})
		}
	}
	return log
}

func saved(t testing.TB, f *FSM) []byte {
	t.Helper()
	snap, err := f.Snapshot()
	require.NoError(t, err)
	var s sink
	require.NoError(t, snap.Persist(&s))
	require.True(t, s.closed)
	snap.Release()
	return s.Bytes()
}

func restored(t testing.TB, b []byte) *FSM {
	t.Helper()
	f := New(Options{})
	require.NoError(t, f.Restore(io.NopCloser(bytes.NewReader(b))))
	return f
}

func TestABatchIsPublishedOnce(t *testing.T) {
	log := script(t, 1, 40)
	var published []metadata.Delta
	f := New(Options{Publish: func(i *metadata.Image, d metadata.Delta) {
		require.Same(t, d.New, i)
		published = append(published, d)
	}})
	require.NotNil(t, f.Image())
	batch := append([]*raft.Log{{Type: raft.LogConfiguration, Index: 9}}, log[:39]...)
	answers := f.ApplyBatch(batch)
	require.Len(t, answers, 40)
	require.Nil(t, answers[0])
	require.Equal(t, log[38].Index, answers[39].(metadata.Result).Index)
	require.Len(t, published, 1)
	require.Same(t, published[0].New, f.Image())
	require.Equal(t, []int32{1, 2, 3}, published[0].Brokers)

	r := f.Apply(log[39]).(metadata.Result)
	require.NoError(t, r.Err)
	require.Len(t, published, 2)
	require.Same(t, published[0].New, published[1].Old)
	require.Equal(t, log[39].Index, f.Image().Index())

	require.Equal(t, []any{nil}, f.ApplyBatch([]*raft.Log{{Type: raft.LogConfiguration, Index: 900}}))
	require.Len(t, published, 2, "nothing was applied")
}

func TestAnEntryOfANewerVersionStopsTheNode(t *testing.T) {
	for name, bad := range map[string]*raft.Log{
		"newer":   {Type: raft.LogCommand, Index: 500, Data: []byte{1, 0x7f, 0xff, 0, 1, '{', '}'}},
		"corrupt": {Type: raft.LogCommand, Index: 500, Data: []byte("x")},
		"again":   script(t, 1, 20)[19],
	} {
		var fatal []error
		f := New(Options{Fatal: func(err error) { fatal = append(fatal, err) }})
		log := script(t, 1, 20)
		f.ApplyBatch(log)
		image := f.Image()
		answers := f.ApplyBatch([]*raft.Log{bad, entry(t, 600, &metadata.SetLevel{Level: 1})})
		require.ErrorIs(t, answers[0].(metadata.Result).Err, ErrStopped, name)
		require.ErrorIs(t, answers[1].(metadata.Result).Err, ErrStopped, name)
		require.Len(t, fatal, 1, name)
		require.ErrorIs(t, fatal[0], ErrStopped)
		require.Same(t, image, f.Image(), name)
		_, err := f.Snapshot()
		require.ErrorIs(t, err, ErrStopped, "a snapshot would let raft drop what a newer binary can apply")
		require.ErrorIs(t, f.Restore(io.NopCloser(bytes.NewReader(nil))), ErrStopped)
	}
	f := New(Options{})
	r := f.Apply(&raft.Log{Type: raft.LogCommand, Index: 5, Data: []byte{1, 0x7f, 0xff, 0, 1}}).(metadata.Result)
	require.ErrorIs(t, r.Err, metadata.ErrNewerVersion)
	require.ErrorContains(t, r.Err, "newer version of Cordwood")
}

// Field report 88: whatever the moment, a snapshot and the rest of the log give what the whole log gives.
func TestASnapshotOfEveryMomentAndTheRestOfTheLogGiveTheSame(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	log := script(t, seed, 60)
	whole := New(Options{})
	var answers []any
	var moments [][]byte
	for _, l := range log {
		moments = append(moments, saved(t, whole))
		answers = append(answers, whole.Apply(l))
	}
	want := saved(t, whole)
	for i, b := range moments {
		f := restored(t, b)
		require.Equal(t, b, saved(t, f), "moment %d", i)
		require.Equal(t, fmt.Sprint(answers[i:]), fmt.Sprint(f.ApplyBatch(log[i:])), "moment %d", i)
		require.Equal(t, want, saved(t, f), "moment %d", i)
	}
}

// J15: a snapshot that is not what was written is refused as a whole, and what the node knows stays.
func TestADamagedSnapshotIsNeverLoaded(t *testing.T) {
	f := New(Options{})
	f.ApplyBatch(script(t, 3, 30))
	good := saved(t, f)
	published := 0
	victim := New(Options{Publish: func(*metadata.Image, metadata.Delta) { published++ }})
	victim.ApplyBatch(script(t, 4, 20))
	image := victim.Image()
	refuse := func(b []byte, what string, args ...any) {
		t.Helper()
		require.Error(t, victim.Restore(io.NopCloser(bytes.NewReader(b))), what, args)
		require.Same(t, image, victim.Image())
		require.Equal(t, 1, published)
	}
	for i := range good {
		b := bytes.Clone(good)
		b[i] ^= 1 << (i % 8)
		refuse(b, "bit %d of byte %d", i%8, i)
		refuse(good[:i], "cut to %d bytes", i)
	}
	refuse(append(bytes.Clone(good), 0), "a byte too many")
	refuse(append(bytes.Clone(good), good...), "twice")
	newer := bytes.Clone(good)
	newer[len(snapshotMagic)+1]++
	require.ErrorIs(t, victim.Restore(io.NopCloser(bytes.NewReader(newer))), metadata.ErrNewerVersion)
	require.NoError(t, victim.Restore(io.NopCloser(bytes.NewReader(good))), "an undamaged one is loaded afterwards")
}

func TestARestoredSnapshotIsPublishedInFull(t *testing.T) {
	f := New(Options{})
	f.ApplyBatch(script(t, 5, 30))
	var got []metadata.Delta
	g := New(Options{Publish: func(_ *metadata.Image, d metadata.Delta) { got = append(got, d) }})
	before := g.Image()
	closed := &closing{Reader: bytes.NewReader(saved(t, f))}
	require.NoError(t, g.Restore(closed))
	require.True(t, closed.closed)
	require.Len(t, got, 1)
	require.True(t, got[0].Full)
	require.Same(t, before, got[0].Old)
	require.Same(t, g.Image(), got[0].New)
	require.Equal(t, f.Image().Index(), g.Image().Index())
	require.Equal(t, f.Image().ClusterID(), g.Image().ClusterID())
	require.NotNil(t, g.Image().Broker(2))
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

func TestASnapshotThatCannotBeWrittenIsCancelled(t *testing.T) {
	f := New(Options{})
	f.ApplyBatch(script(t, 6, 20))
	snap, err := f.Snapshot()
	require.NoError(t, err)
	full := errors.New("no space")
	s := &sink{fail: full}
	require.ErrorIs(t, snap.Persist(s), full)
	require.True(t, s.cancelled)
	require.False(t, s.closed)
}

// TestSnapshotsAndReadersDoNotDisturbTheApply is for the race detector: images are read and snapshots are written while
// entries are applied, and each snapshot is the moment it was taken at.
func TestSnapshotsAndReadersDoNotDisturbTheApply(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	log := script(t, seed, 300)
	f := New(Options{})
	var work sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		work.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					walk(f.Image())
				}
			}
		})
	}
	written := make([]*sink, 0, len(log))
	var persisting sync.WaitGroup
	for i, l := range log {
		if i%10 == 0 {
			snap, err := f.Snapshot()
			require.NoError(t, err)
			s := new(sink)
			written = append(written, s)
			persisting.Go(func() {
				if err := snap.Persist(s); err != nil {
					t.Error(err)
				}
			})
		}
		f.Apply(l)
	}
	persisting.Wait()
	close(done)
	work.Wait()
	replay := New(Options{})
	for i, l := range log {
		if i%10 == 0 {
			require.Equal(t, saved(t, replay), written[i/10].Bytes(), "snapshot before entry %d", i)
		}
		replay.Apply(l)
	}
}

func walk(i *metadata.Image) (n int) {
	for b := range i.Brokers() {
		for p := range i.ReplicasOf(b.ID) {
			n += len(p.ISR)
		}
	}
	for t := range i.Topics() {
		n += len(t.Configs) + len(i.TopicByID(t.ID).Partitions)
	}
	for p := range i.Leaderless() {
		n += int(p.LeaderEpoch)
	}
	return n
}

// TestSnapshotsOfEveryLandedFormatAreRead opens a file that never changes.
func TestSnapshotsOfEveryLandedFormatAreRead(t *testing.T) {
	const file = "testdata/snapshot-1"
	f := New(Options{})
	f.ApplyBatch(script(t, 7, 80))
	if *write {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, saved(t, f), 0o644))
	}
	golden, err := os.ReadFile(file)
	require.NoError(t, err)
	g := restored(t, golden)
	require.Equal(t, uint64(168), g.Image().Index())
	require.Equal(t, "cluster", g.Image().ClusterID())
	require.Positive(t, g.Image().TopicCount())
	require.Equal(t, golden, saved(t, g))
}

// levelTwo is a log of what level 2 brought: two topics that are being changed, one that is moved, one without a leader.
func levelTwo(t testing.TB) *FSM {
	f := New(Options{})
	index := uint64(10)
	do := func(cmd metadata.Command) {
		t.Helper()
		index++
		r := f.Apply(entry(t, index, cmd)).(metadata.Result)
		require.NoError(t, errors.Join(append(r.Items, r.Err)...))
	}
	be := func(id int32) metadata.BrokerEpoch {
		return metadata.BrokerEpoch{ID: id, Epoch: f.Image().BrokerEpoch(id)}
	}
	at := func(n int) *metadata.Partition { return f.Image().Partition(record.PartitionID{Topic: topic(n)}) }
	do(&metadata.SetCluster{ClusterID: "cluster", Level: metadata.QuorumLevel})
	for id := int32(1); id <= 4; id++ {
		do(&metadata.RegisterBroker{Broker: metadata.Broker{ID: id, Incarnation: fmt.Sprint("i", id), DirectoryID: fmt.Sprint("d", id), MinLevel: 1, MaxLevel: metadata.LatestLevel}})
		do(&metadata.UnfenceBroker{Broker: be(id)})
	}
	three := [][]int32{{1, 2, 3}}
	do(&metadata.CreateTopics{Topics: []metadata.NewTopic{
		{ID: topic(1), Name: "rule", Assignment: three, Rule: metadata.RuleISR},
		{ID: topic(2), Name: "disk", Assignment: three, Rule: metadata.RuleISR, Configs: map[string]string{metadata.SettingMinAcks: "2"}},
		{ID: topic(3), Name: "moved", Assignment: three, Rule: metadata.RuleQuorum, Durability: metadata.DurabilityDisk},
		{ID: topic(4), Name: "filled", Assignment: three, Rule: metadata.RuleQuorum},
		{ID: topic(5), Name: "leaderless", Assignment: [][]int32{{4, 3, 2}}, Rule: metadata.RuleQuorum},
	}})
	do(&metadata.AlterTopicConfigs{Topics: []metadata.TopicConfigChange{{Topic: topic(1), Rule: metadata.RuleQuorum}, {Topic: topic(2), Durability: metadata.DurabilityDisk}}})
	for _, n := range []int{3, 4} {
		do(&metadata.Reassign{Request: metadata.RequestID{byte(n)}, Items: []metadata.Reassignment{{Partition: at(n).ID, PartitionEpoch: metadata.AnyPartitionEpoch, Target: []int32{4, 2, 3}}}})
	}
	p := at(3)
	do(&metadata.Certify{Items: []metadata.Certification{{Partition: p.ID, LeaderEpoch: p.LeaderEpoch, LeaderBrokerEpoch: p.LeaderBrokerEpoch, Broker: be(4), JoinPE: p.Member(4).JoinPE}}})
	do(&metadata.EnterJoint{Items: []metadata.JointEntry{{Partition: p.ID, PartitionEpoch: p.PartitionEpoch}}})
	do(&metadata.BeginElection{Elections: []metadata.ElectionStart{{Partition: at(5).ID, Leader: 4}}})
	return f
}

// TestSnapshotsOfLevelTwoAreRead opens a file of what level 2 brought, which never changes either.
func TestSnapshotsOfLevelTwoAreRead(t *testing.T) {
	const file = "testdata/snapshot-1-level-2"
	f := levelTwo(t)
	if *write {
		require.NoError(t, os.WriteFile(file, saved(t, f), 0o644))
	}
	golden, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, golden, saved(t, f))
	g := restored(t, golden)
	require.Equal(t, golden, saved(t, g))
	at := func(n int) *metadata.Partition { return g.Image().Partition(record.PartitionID{Topic: topic(n)}) }
	require.Equal(t, metadata.ChangeRule, at(1).Change())
	require.Equal(t, metadata.ChangeDurability, at(2).Change())
	require.Equal(t, []int32{4, 2, 3}, at(3).NewReplicas)
	require.Equal(t, []int32{4, 2, 3}, at(4).Adding)
	require.Equal(t, 1, g.Image().LeaderlessCount())
}

func FuzzRestore(f *testing.F) {
	m := New(Options{})
	for _, n := range []int{1, 7, 30} {
		for _, l := range script(f, 8, n) {
			if l.Index > m.Image().Index() {
				m.Apply(l)
			}
		}
		f.Add(saved(f, m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		g := New(Options{})
		if err := g.Restore(io.NopCloser(bytes.NewReader(b))); err != nil {
			require.Zero(t, g.Image().Index())
			return
		}
		require.Equal(t, saved(t, g), saved(t, restored(t, saved(t, g))))
	})
}
