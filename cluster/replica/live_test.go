package replica

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore"
	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

// live is a cluster of managers with all their goroutines, in one process: real clocks, fetchers and waiters, a
// controller behind a mutex and connections without sockets.
type live struct {
	t     testing.TB
	topic record.TopicID

	mu    sync.Mutex
	st    *metadata.State
	index uint64
	nodes map[int32]*liveNode
	// reports are the newest of each node, for the elections that need them.
	reports map[record.PartitionID]map[int32]metadata.ReplicaReport
}

type liveNode struct {
	c       *live
	id      int32
	be      int64
	m       *Manager
	deltas  chan metadata.Delta
	stop    chan struct{}
	applied sync.WaitGroup
	down    chan struct{} // closed: connections fail
}

func newLive(t testing.TB, opt func(*Options), nodes ...int32) *live {
	return newLiveOn(t, func() vfs.FS { return vfs.NewMem(time.Now) }, opt, nodes...)
}

// newLiveOn makes it on disks of its own.
func newLiveOn(t testing.TB, disk func() vfs.FS, opt func(*Options), nodes ...int32) *live {
	c := &live{t: t, reports: map[record.PartitionID]map[int32]metadata.ReplicaReport{}, st: metadata.NewState(), index: 10, nodes: map[int32]*liveNode{}, topic: record.TopicID{1, 6: 0x40, 8: 0x80}}
	c.do(&metadata.SetCluster{ClusterID: "c", Level: metadata.QuorumLevel})
	for _, id := range nodes {
		dir, err := logstore.OpenDir(disk(), "/data", logstore.DirOptions{NodeID: id, BootID: "b"})
		require.NoError(t, err)
		found, err := dir.Inspect(context.Background(), 1, nil)
		require.NoError(t, err)
		s := dir.Session()
		r := c.do(&metadata.RegisterBroker{Broker: metadata.Broker{ID: id, DirectoryID: s.DirectoryID, Incarnation: s.Incarnation,
			Listeners: map[string]metadata.Endpoint{"l": {Host: "h", Port: 1}}, MinLevel: 1, MaxLevel: metadata.QuorumLevel, Version: "v"}, BootOK: true})
		n := &liveNode{c: c, id: id, be: r.Epoch, deltas: make(chan metadata.Delta, 1000), stop: make(chan struct{}), down: make(chan struct{})}
		o := Options{NodeID: id, Dir: dir, Controller: n, Dial: n.dial, Registerer: prometheus.NewRegistry(),
			Config: func(*metadata.Topic) logstore.LogConfig {
				cfg := logstore.DefaultLogConfig()
				cfg.RetentionMS = -1 // the records bear an old time
				return cfg
			}}
		if opt != nil {
			opt(&o)
		}
		n.m, err = NewManager(o)
		require.NoError(t, err)
		require.NoError(t, n.m.Start(context.Background(), c.st.Image(), Registration{BrokerEpoch: r.Epoch, Class: r.Class}, found))
		c.mu.Lock()
		c.nodes[id] = n
		c.mu.Unlock()
		n.applied.Add(1)
		go n.loop()
		c.do(&metadata.UnfenceBroker{Broker: metadata.BrokerEpoch{ID: id, Epoch: r.Epoch}})
		t.Cleanup(func() {
			close(n.stop)
			n.applied.Wait()
			require.NoError(t, n.m.Close())
			require.NoError(t, dir.CloseClean(context.Background()))
		})
	}
	return c
}

// do applies a command and publishes its difference to every node.
func (c *live) do(cmd metadata.Command) metadata.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index++
	r, d := c.st.Apply(c.index, cmd)
	for _, n := range c.nodes {
		n.deltas <- d
	}
	return r
}

// report takes what a replica has, and elects where that is enough.
func (c *live) report(n *liveNode, r metadata.ReplicaReportItem) {
	c.mu.Lock()
	if c.reports[r.Partition] == nil {
		c.reports[r.Partition] = map[int32]metadata.ReplicaReport{}
	}
	c.reports[r.Partition][n.id] = metadata.ReplicaReport{Broker: metadata.BrokerEpoch{ID: n.id, Epoch: n.be}, LastEpoch: r.LastEpoch, End: r.End, HW: r.HW}
	p := c.st.Image().Partition(r.Partition)
	var e metadata.ReportedElection
	ok := false
	if p != nil && p.LeaderEpoch == r.Epoch {
		e, ok, _ = metadata.ChooseReported(p, slices.Collect(maps.Values(c.reports[r.Partition])), c.st.Image().Broker)
	} else {
		delete(c.reports[r.Partition], n.id)
	}
	c.mu.Unlock()
	if ok {
		c.do(&metadata.ElectReported{Elections: []metadata.ReportedElection{e}})
	}
}

func (c *live) head(part int32) *metadata.Partition {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.st.Image().Partition(record.PartitionID{Topic: c.topic, Partition: part})
}

func (c *live) epoch(id int32) metadata.BrokerEpoch {
	c.mu.Lock()
	defer c.mu.Unlock()
	return metadata.BrokerEpoch{ID: id, Epoch: c.st.Image().BrokerEpoch(id)}
}

func (c *live) create(minISR int32, assignment ...[]int32) {
	c.createAs(metadata.RuleISR, metadata.DurabilityMemory, minISR, assignment...)
}

func (c *live) createAs(rule metadata.CommitRule, durability metadata.Durability, minISR int32, assignment ...[]int32) {
	r := c.do(&metadata.CreateTopics{Topics: []metadata.NewTopic{{ID: c.topic, Name: "t", Assignment: assignment, MinISR: minISR,
		Rule: rule, Durability: durability, Recovery: metadata.RecoverWaitAll}}})
	require.NoError(c.t, errors.Join(append(r.Items, r.Err)...))
}

// loop is the broker's: metadata in order, and what the session would carry.
func (n *liveNode) loop() {
	defer n.applied.Done()
	for {
		select {
		case d := <-n.deltas:
			if d.New.Index() > n.m.image().Index() {
				if err := n.m.Apply(d.New, d); err != nil {
					n.c.t.Errorf("node %d: %v", n.id, err)
				}
			}
		case <-n.m.SessionChanged():
			news := n.m.DrainSession()
			if len(news.Damaged) > 0 {
				n.c.t.Errorf("node %d is damaged", n.id)
			}
			for _, r := range news.Reports {
				go n.c.report(n, r)
			}
			if len(news.Finish) > 0 {
				go n.c.do(&metadata.FinishChange{Items: news.Finish})
			}
			if len(news.Certify) > 0 {
				go n.c.do(&metadata.Certify{Items: news.Certify})
			}
		case <-n.stop:
			return
		}
	}
}

// AlterPartition implements Controller.
func (n *liveNode) AlterPartition(_ context.Context, req *kmsg.AlterPartitionRequest) (*kmsg.AlterPartitionResponse, error) {
	cmd := &metadata.AlterPartitions{}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			ch := metadata.PartitionChange{Partition: record.PartitionID{Topic: t.TopicID, Partition: p.Partition}, Leader: req.BrokerID,
				LeaderBrokerEpoch: req.BrokerEpoch, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch}
			for _, b := range p.NewEpochISR {
				ch.ISR = append(ch.ISR, metadata.BrokerEpoch{ID: b.BrokerID, Epoch: b.BrokerEpoch})
			}
			cmd.Changes = append(cmd.Changes, ch)
		}
	}
	n.c.do(cmd)
	return &kmsg.AlterPartitionResponse{}, nil
}

func (n *liveNode) dial(_ context.Context, to int32) (Conn, error) {
	n.c.mu.Lock()
	peer := n.c.nodes[to]
	n.c.mu.Unlock()
	if peer == nil || peer.isDown() || n.isDown() {
		return nil, errors.New("refused")
	}
	c := &liveConn{from: n, to: peer, queue: make(chan *liveCall, maxInFlight), closed: make(chan struct{})}
	c.done.Add(1)
	go c.run()
	return c, nil
}

func (n *liveNode) isDown() bool {
	select {
	case <-n.down:
		return true
	default:
		return false
	}
}

// liveConn handles requests as they come and answers them in order, as a server's connection does.
type liveConn struct {
	from, to *liveNode
	queue    chan *liveCall
	closed   chan struct{}
	once     sync.Once
	done     sync.WaitGroup
}

type liveCall struct {
	req     *kmsg.FetchRequest
	pending partition.PendingFetch
	ready   chan struct{}
	resp    kmsg.Response
	err     error
}

func (c *liveConn) Start(req kmsg.Request) (Call, error) {
	r := req.(*kmsg.FetchRequest)
	call := &liveCall{req: r, ready: make(chan struct{}), pending: c.to.m.Fetch(context.Background(), requestOf(r))}
	select {
	case c.queue <- call:
		return call, nil
	case <-c.closed:
		return nil, errors.New("closed")
	}
}

func (c *liveConn) Ack(a *partition.Ack) error {
	ack, err := partition.DecodeAck(partition.AppendAck(nil, a))
	if err != nil {
		return err
	}
	c.to.m.Ack(&ack)
	return nil
}

func (c *liveConn) run() {
	defer c.done.Done()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-c.closed:
		case <-c.to.down:
		case <-c.from.down:
		case <-stop:
		}
		cancel()
	}()
	for {
		select {
		case call := <-c.queue:
			res := call.pending.Wait(ctx)
			if call.err = ctx.Err(); call.err == nil && res.Err != nil {
				call.err = res.Err
			}
			if call.err == nil {
				call.resp = responseOf(c.to.c.t, call.req, &res)
			} else {
				res.Release()
			}
			close(call.ready)
		case <-c.closed:
			return
		}
	}
}

func (c *liveConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.done.Wait()
	return nil
}

func (c *liveCall) Done() <-chan struct{}                       { return c.ready }
func (c *liveCall) Wait(context.Context) (kmsg.Response, error) { <-c.ready; return c.resp, c.err }
func (c *liveCall) Release()                                    {}

// send produces one record and waits for the answer.
func (n *liveNode) send(ctx context.Context, part int32, name int, acks int16) partition.ProduceAnswer {
	batch := newBatch(name)
	h, _ := record.ParseHeader(batch)
	pending := n.m.Produce(ctx, &partition.ProduceRequest{Acks: acks, Timeout: 5 * time.Second, Partitions: []partition.ProducePartition{
		{ID: record.PartitionID{Topic: n.c.topic, Partition: part}, Records: batch, Header: h}}})
	return pending.Wait(ctx)[0]
}

// write sends to whoever leads until it is acknowledged, and gives the offset.
func (c *live) write(part int32, name int, acks int16) int64 {
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		p := c.head(part)
		if n := c.nodes[max(p.Leader, 0)]; n != nil && !n.isDown() {
			if a := n.send(context.Background(), part, name, acks); a.Err == nil {
				return a.BaseOffset
			}
		}
		<-time.After(2 * time.Millisecond)
	}
	c.t.Fatalf("record %d was not acknowledged; record of the partition %+v", name, c.head(part))
	return -1
}

// eventually1 writes with acks=1 as soon as node 1 has taken office.
func eventually1(t testing.TB, c *live) (err error) {
	t.Helper()
	eventually(t, "node 1 leads", func() bool { return c.nodes[1].m.Leading() == 1 })
	return c.nodes[1].send(context.Background(), 0, 1, 1).Err
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 20*time.Second, 2*time.Millisecond, what)
}

func TestManagersReplicateAndFailOver(t *testing.T) {
	for name, x := range map[string]struct {
		rule       metadata.CommitRule
		durability metadata.Durability
	}{
		"isr, memory":    {metadata.RuleISR, metadata.DurabilityMemory},
		"isr, disk":      {metadata.RuleISR, metadata.DurabilityDisk},
		"quorum, memory": {metadata.RuleQuorum, metadata.DurabilityMemory},
		"quorum, disk":   {metadata.RuleQuorum, metadata.DurabilityDisk},
	} {
		failOver(t, name, x.rule, x.durability)
	}
}

func failOver(t *testing.T, name string, rule metadata.CommitRule, durability metadata.Durability) {
	defer goleak.VerifyNone(t)
	t.Run(name, func(t *testing.T) {
		disk := func() vfs.FS {
			f := vfs.NewFault(vfs.NewMem(time.Now), vfs.FaultOptions{})
			require.NoError(t, f.SetRules(vfs.Rule{Op: vfs.OpSync, Path: "*.log", Delay: vfs.Duration(200 * time.Microsecond)}))
			return f
		}
		c := newLiveOn(t, disk, func(o *Options) { o.LagMax = time.Second }, 1, 2, 3)
		c.createAs(rule, durability, 2, []int32{1, 2, 3}, []int32{2, 3, 1}, []int32{3, 1, 2})
		acked := make([]map[int64]int, 3)
		var wait sync.WaitGroup
		half := make(chan struct{}, 3)
		for part := range int32(3) {
			acked[part] = map[int64]int{}
			wait.Add(1)
			go func() {
				defer wait.Done()
				for i := range 120 {
					name := int(part)*1000 + i
					acked[part][c.write(part, name, partition.AcksAll)] = name
					if i == 40 {
						half <- struct{}{}
					}
				}
			}()
		}
		for range 3 {
			<-half
		}
		close(c.nodes[1].down) // cut off; the controller fences it
		c.do(&metadata.FenceBrokers{Brokers: []metadata.BrokerEpoch{c.epoch(1)}, Reason: "test"})
		wait.Wait()
		for part := range int32(3) {
			var p *metadata.Partition
			eventually(t, "a leader in office", func() bool {
				p = c.head(part)
				if p.Leader == metadata.NoNode {
					return false
				}
				s, ok := c.nodes[p.Leader].m.State(p.ID)
				return ok && s.Leader && s.LeaderEpoch == p.LeaderEpoch
			})
			require.NotEqual(t, int32(1), p.Leader)
			_, ls := lines(t, c.nodes[p.Leader].m.find(p.ID).log)
			require.Len(t, acked[part], 120)
			for off, name := range acked[part] {
				require.Equal(t, name, ls[off].name, "partition %d at %d", part, off)
			}
			for id := int32(2); id <= 3; id++ {
				q := c.nodes[id].m.find(p.ID)
				eventually(t, "high watermark of an idle follower", func() bool { return q.log.HighWatermark() == int64(len(ls)) })
			}
		}
	})
}

func TestFollowerSessionsNameWhatChangedOnly(t *testing.T) {
	c := newLive(t, func(o *Options) { o.FetchWaitMax = 50 * time.Millisecond }, 1, 2)
	var assignment [][]int32
	for range 50 {
		assignment = append(assignment, []int32{1, 2})
	}
	c.create(2, assignment...)
	for part := range int32(50) {
		c.write(part, int(part), partition.AcksAll)
	}
	l := c.nodes[1].m.link(2)
	require.NotNil(t, l)
	f := c.nodes[2].m.fetchers[1]
	eventually(t, "all positions told", func() bool { news, due := f.hasNews(time.Now()); return !news && due.IsZero() })
	// Idle: requests go on, and none of the 50 partitions is in them.
	first := l.seen.Load()
	eventually(t, "parked fetches", func() bool { return l.seen.Load() > first })
	f.mu.Lock()
	require.Empty(t, f.dirty)
	f.mu.Unlock()
	c.write(7, 1000, partition.AcksAll)
}

func TestConsumersWaitForCommittedRecords(t *testing.T) {
	c := newLive(t, nil, 1, 2)
	c.create(2, []int32{1, 2})
	c.write(0, 1, partition.AcksAll)
	n := c.nodes[1]
	fetch := func(offset int64, wait time.Duration) partition.FetchResult {
		return n.m.Fetch(context.Background(), &partition.FetchRequest{ReplicaID: -1, MaxWait: wait, MinBytes: 1, MaxBytes: 1 << 20,
			Partitions: []partition.FetchPartition{{ID: record.PartitionID{Topic: c.topic}, FetchOffset: offset, LastFetchedEpoch: -1, CurrentLeaderEpoch: -1, MaxBytes: 1 << 20}}}).Wait(context.Background())
	}
	r := fetch(0, 10*time.Second)
	require.NoError(t, r.Answers[0].Err)
	require.NotEmpty(t, r.Answers[0].Spans)
	r.Release()
	got := make(chan partition.FetchResult)
	go func() { got <- fetch(1, 20*time.Second) }()
	c.write(0, 2, partition.AcksAll)
	r = <-got
	require.NotEmpty(t, r.Answers[0].Spans)
	require.EqualValues(t, 2, r.Answers[0].HighWatermark)
	r.Release()
	r = fetch(9, time.Second)
	require.ErrorIs(t, r.Answers[0].Err, record.ErrOffsetOutOfRange)
	r = fetch(2, time.Millisecond)
	require.NoError(t, r.Answers[0].Err)
	require.Empty(t, r.Answers[0].Spans)
	r = c.nodes[2].m.Fetch(context.Background(), &partition.FetchRequest{ReplicaID: -1, Partitions: []partition.FetchPartition{{ID: record.PartitionID{Topic: c.topic}, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}}}).Wait(context.Background())
	require.ErrorIs(t, r.Answers[0].Err, partition.ErrNotLeader)
	require.EqualValues(t, 1, r.Answers[0].Leader)
}

// TestALeaderThatMayBeDeposedTellsNobodyThatAnOffsetIsBeyondItsEnd: another leader may have committed up to there.
func TestALeaderThatMayBeDeposedTellsNobodyThatAnOffsetIsBeyondItsEnd(t *testing.T) {
	var sure atomic.Bool
	var asked record.PartitionID
	var in int32
	c := newLive(t, func(o *Options) {
		o.Sure = func(id record.PartitionID, epoch int32) bool { asked, in = id, epoch; return sure.Load() }
	}, 1)
	c.create(1, []int32{1})
	for i := range 3 {
		c.write(0, i, partition.AcksAll)
	}
	n := c.nodes[1]
	fetch := func(offset int64) error {
		r := n.m.Fetch(context.Background(), &partition.FetchRequest{ReplicaID: -1, MinBytes: 1, MaxBytes: 1 << 20,
			Partitions: []partition.FetchPartition{{ID: record.PartitionID{Topic: c.topic}, FetchOffset: offset, LastFetchedEpoch: -1, CurrentLeaderEpoch: -1, MaxBytes: 1 << 20}}}).Wait(context.Background())
		defer r.Release()
		return r.Answers[0].Err
	}
	require.ErrorIs(t, fetch(4), partition.ErrNotLeader)
	require.Equal(t, record.PartitionID{Topic: c.topic}, asked)
	require.Equal(t, n.m.record(asked).LeaderEpoch, in)
	require.NoError(t, fetch(3), "its end is where the next record will be")
	require.NoError(t, fetch(0))
	_, err := n.m.DeleteRecords(context.Background(), asked, 2)
	require.NoError(t, err)
	require.ErrorIs(t, fetch(1), record.ErrOffsetOutOfRange, "what was deleted is gone everywhere")
	sure.Store(true)
	require.ErrorIs(t, fetch(4), record.ErrOffsetOutOfRange)
}

func TestDeleteRecordsReachesEveryReplica(t *testing.T) {
	c := newLive(t, nil, 1, 2, 3)
	c.create(2, []int32{1, 2, 3})
	for i := range 5 {
		c.write(0, i, partition.AcksAll)
	}
	id := record.PartitionID{Topic: c.topic}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	low, err := c.nodes[1].m.DeleteRecords(ctx, id, 3)
	require.NoError(t, err)
	require.EqualValues(t, 3, low)
	for _, n := range c.nodes {
		require.EqualValues(t, 3, n.m.find(id).log.StartOffset(), "node %d", n.id)
	}
	_, err = c.nodes[1].m.DeleteRecords(ctx, id, 9)
	require.ErrorIs(t, err, record.ErrOffsetOutOfRange)
	low, err = c.nodes[1].m.DeleteRecords(ctx, id, -1)
	require.NoError(t, err)
	require.EqualValues(t, 5, low)
	a := c.nodes[1].m.ListOffsets(ctx, partition.ListOffsetsQuery{ID: id, Timestamp: partition.EarliestTimestamp, CurrentLeaderEpoch: -1})
	require.NoError(t, a.Err)
	require.EqualValues(t, 5, a.Offset)
}

func TestWaitEndsWithItsTimeout(t *testing.T) {
	c := newLive(t, func(o *Options) {
		if o.LagMax = time.Hour; o.NodeID == 2 {
			o.Dial = func(context.Context, int32) (Conn, error) { return nil, errors.New("cut off") }
		}
	}, 1, 2)
	c.create(2, []int32{1, 2})
	require.NoError(t, eventually1(t, c))
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	a := c.nodes[1].send(ctx, 0, 2, partition.AcksAll)
	require.ErrorIs(t, a.Err, partition.ErrTimedOut)
	p := c.nodes[1].m.find(record.PartitionID{Topic: c.topic})
	require.Zero(t, p.waits.Len(), "whoever gave up is forgotten")
	require.NoError(t, c.nodes[1].send(context.Background(), 0, 3, 1).Err, "acks=1 asks nobody else")
	require.ErrorIs(t, c.nodes[1].send(context.Background(), 0, 3, 3).Err, partition.ErrInvalidAcks)
}

func TestShutdownWaitsForTheLastLeadership(t *testing.T) {
	c := newLive(t, nil, 1, 2)
	c.create(1, []int32{1, 2})
	c.write(0, 1, partition.AcksAll)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	done := make(chan error)
	go func() { done <- c.nodes[1].m.Shutdown(ctx) }()
	c.do(&metadata.FenceBrokers{Brokers: []metadata.BrokerEpoch{c.epoch(1)}, Draining: true, Reason: "test"})
	require.NoError(t, <-done)
	require.EqualValues(t, 2, c.head(0).Leader)
	c.write(0, 2, partition.AcksAll)
}

func TestNothingStartsBeforeItsRegistrationIsReplayed(t *testing.T) {
	dir, err := logstore.OpenDir(vfs.NewMem(time.Now), "/data", logstore.DirOptions{NodeID: 1, BootID: "b"})
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.Close()) }()
	m, err := NewManager(Options{NodeID: 1, Dir: dir, Controller: noController{}, Dial: func(context.Context, int32) (Conn, error) { return nil, fmt.Errorf("nobody") },
		Config: func(*metadata.Topic) logstore.LogConfig { return testConfig() }})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	st := metadata.NewState()
	st.Apply(5, &metadata.SetCluster{ClusterID: "c", Level: 1})
	require.ErrorIs(t, m.Apply(st.Image(), metadata.Delta{}), ErrNotStarted)
	require.ErrorIs(t, m.Start(context.Background(), st.Image(), Registration{BrokerEpoch: 6, Class: metadata.RestartClean}, logstore.Inspection{}), ErrNotStarted)
}

func TestANodeWithoutTheReplicaNamesTheLeader(t *testing.T) {
	c := newLive(t, nil, 1, 2, 3)
	c.create(1, []int32{2, 1})
	c.write(0, 1, partition.AcksAll)
	eventually(t, "node 3 knows the topic", func() bool {
		a := c.nodes[3].send(context.Background(), 0, 2, 1)
		return errors.Is(a.Err, partition.ErrNotLeader) && a.Leader == 2
	})
	unknown := record.PartitionID{Topic: c.topic, Partition: 9}
	require.ErrorIs(t, c.nodes[3].m.ListOffsets(context.Background(), partition.ListOffsetsQuery{ID: unknown, CurrentLeaderEpoch: -1}).Err, partition.ErrUnknownPartition)
	_, err := c.nodes[2].m.EpochEnd(unknown, -1, 0)
	require.ErrorIs(t, err, partition.ErrUnknownPartition)
}

// BenchmarkProduceOneReplica is the road of a batch through manager, decisions and log, without a follower.
func BenchmarkProduceOneReplica(b *testing.B) {
	c := newLive(b, nil, 1)
	c.create(1, []int32{1})
	c.write(0, 0, partition.AcksAll)
	names := make([]int, 64)
	batch := newBatch(names...)
	h, err := record.ParseHeader(batch)
	require.NoError(b, err)
	id := record.PartitionID{Topic: c.topic}
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		req := &partition.ProduceRequest{Acks: partition.AcksAll, Timeout: time.Second, Partitions: []partition.ProducePartition{{ID: id, Records: batch, Header: h}}}
		if a := c.nodes[1].m.Produce(context.Background(), req).Wait(context.Background())[0]; a.Err != nil {
			b.Fatal(a.Err)
		}
		if c.nodes[1].m.find(id).log.Size() > 64<<20 {
			b.StopTimer()
			if _, err := c.nodes[1].m.DeleteRecords(context.Background(), id, -1); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	}
}
