package replica

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore"
	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

// world is a cluster in one goroutine: real managers over real logs on disks that crash, the real metadata, and messages
// that travel when the test says so.
type world struct {
	t      testing.TB
	st     *metadata.State
	index  uint64
	images []*metadata.Image
	deltas []metadata.Delta
	nodes  map[int32]*member
	now    time.Time
	topic  record.TopicID
	// reports are what replicas told the controller, the newest of each node; it forgets those of older epochs.
	reports map[int32]metadata.ReplicaReportItem
}

// member is one node of a world.
type member struct {
	w         *world
	id        int32
	disk      *vfs.Mem
	fault     *vfs.Fault // what the directory sees of it
	dir       *logstore.Dir
	m         *Manager // nil: down
	be        int64
	applied   int // index in world.images
	boot      int
	lostPower bool
	sessions  map[int32]*session
}

type noController struct{}

func (noController) AlterPartition(context.Context, *kmsg.AlterPartitionRequest) (*kmsg.AlterPartitionResponse, error) {
	return nil, fmt.Errorf("proposals are taken by hand")
}

func newWorld(t testing.TB, nodes ...int32) *world {
	w := &world{t: t, st: metadata.NewState(), index: 10, nodes: map[int32]*member{}, now: time.UnixMilli(1_700_000_000_000), topic: record.TopicID{1, 6: 0x40, 8: 0x80},
		reports: map[int32]metadata.ReplicaReportItem{}}
	w.do(&metadata.SetCluster{ClusterID: "c", Level: metadata.QuorumLevel})
	for _, id := range nodes {
		n := &member{w: w, id: id, disk: vfs.NewMem(func() time.Time { return w.now })}
		w.nodes[id] = n
		n.start()
		w.unfence(id)
	}
	return w
}

func (w *world) do(cmd metadata.Command) metadata.Result {
	w.t.Helper()
	w.index++
	r, d := w.st.Apply(w.index, cmd)
	require.NoError(w.t, r.Err)
	w.images, w.deltas = append(w.images, d.New), append(w.deltas, d)
	return r
}

func (w *world) epoch(id int32) metadata.BrokerEpoch {
	return metadata.BrokerEpoch{ID: id, Epoch: w.st.Image().BrokerEpoch(id)}
}

func (w *world) unfence(id int32) { w.do(&metadata.UnfenceBroker{Broker: w.epoch(id)}) }
func (w *world) fence(id int32) {
	w.do(&metadata.FenceBrokers{Brokers: []metadata.BrokerEpoch{w.epoch(id)}, Reason: "test"})
}

// create makes the topic with one partition over replicas.
func (w *world) create(minISR int32, replicas ...int32) record.PartitionID {
	w.t.Helper()
	return w.createAs(metadata.RuleISR, metadata.DurabilityMemory, minISR, replicas...)
}

// createAs makes it with a commit rule and a durability.
func (w *world) createAs(rule metadata.CommitRule, durability metadata.Durability, minISR int32, replicas ...int32) record.PartitionID {
	w.t.Helper()
	r := w.do(&metadata.CreateTopics{Topics: []metadata.NewTopic{{ID: w.topic, Name: "t", Assignment: [][]int32{replicas}, MinISR: minISR,
		Rule: rule, Durability: durability, Recovery: metadata.RecoverWaitAll, Forced: true}}})
	require.NoError(w.t, r.Items[0])
	return record.PartitionID{Topic: w.topic}
}

// electReported elects by what the controller was told; false, with why, where that is not enough.
func (w *world) electReported() (ok bool, why string) {
	w.t.Helper()
	p := w.head()
	var reports []metadata.ReplicaReport
	for id, r := range w.reports {
		if r.Epoch == p.LeaderEpoch {
			reports = append(reports, metadata.ReplicaReport{Broker: metadata.BrokerEpoch{ID: id, Epoch: w.nodes[id].be}, LastEpoch: r.LastEpoch, End: r.End, HW: r.HW})
		}
	}
	slices.SortFunc(reports, func(a, b metadata.ReplicaReport) int { return int(a.Broker.ID - b.Broker.ID) })
	e, ok, why := metadata.ChooseReported(p, reports, w.st.Image().Broker)
	if ok {
		r := w.do(&metadata.ElectReported{Elections: []metadata.ReportedElection{e}})
		require.NoError(w.t, r.Items[0])
	}
	return ok, why
}

func (w *world) head() *metadata.Partition {
	return w.st.Image().Partition(record.PartitionID{Topic: w.topic})
}

// elect makes id lead.
func (w *world) elect(id int32) {
	p := w.head()
	r := w.do(&metadata.Elect{Elections: []metadata.Election{{Partition: p.ID, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Leader: id}}})
	require.NoError(w.t, r.Items[0])
}

func (w *world) options(n *member) Options {
	return Options{
		NodeID: n.id, Dir: n.dir, Controller: noController{},
		Dial:   func(context.Context, int32) (Conn, error) { return nil, fmt.Errorf("by hand") },
		Config: func(*metadata.Topic) logstore.LogConfig { return testConfig() },
		Now:    func() time.Time { return w.now },
	}
}

func testConfig() logstore.LogConfig {
	c := logstore.DefaultLogConfig()
	c.SegmentBytes, c.IndexIntervalBytes = 700, 100
	return c
}

// start runs the node's start: directory, inspection, registration, replay to it, and only then data.
func (n *member) start() {
	w := n.w
	w.t.Helper()
	n.fault = vfs.NewFault(n.disk, vfs.FaultOptions{})
	dir, err := logstore.OpenDir(n.fault, "/data", logstore.DirOptions{NodeID: n.id, BootID: fmt.Sprint("boot", n.boot), Now: func() time.Time { return w.now },
		OnDamage: func(l *logstore.Log, why string) {
			if n.m != nil {
				n.m.OnDamage(l, why)
			}
		}})
	require.NoError(w.t, err)
	n.dir = dir
	found, err := dir.Inspect(context.Background(), 1, nil)
	require.NoError(w.t, err)
	s := dir.Session()
	c := &metadata.RegisterBroker{Broker: metadata.Broker{ID: n.id, DirectoryID: s.DirectoryID, Incarnation: s.Incarnation,
		Listeners: map[string]metadata.Endpoint{"l": {Host: "h", Port: 1}}, MinLevel: 1, MaxLevel: metadata.QuorumLevel, Version: "v"}, BootOK: true, Clean: found.Clean}
	for _, e := range s.Earlier {
		c.Earlier = append(c.Earlier, metadata.EarlierIncarnation{ID: e.ID, SameBoot: e.SameBoot})
	}
	r := w.do(c)
	n.be = r.Epoch
	require.NoError(w.t, dir.Registered())
	m, err := NewManager(w.options(n))
	require.NoError(w.t, err)
	m.launch = func(f *fetcher) { f.cancel = func() {} }
	m.flushes.launch = func() {}
	n.m, n.sessions, n.applied, n.lostPower = m, map[int32]*session{}, len(w.images)-1, false
	reg := Registration{BrokerEpoch: r.Epoch, Class: r.Class}
	require.NoError(w.t, m.enter(w.images[n.applied], reg))
	require.NoError(w.t, m.openAll(context.Background(), w.images[n.applied], reg, found))
	n.heartbeat()
}

// crash ends the process; with power lost the disk forgets.
func (n *member) crash(mode vfs.CrashMode, seed uint64) {
	if mode != vfs.CrashKeep {
		n.boot++
		n.lostPower = true
	}
	n.disk = n.disk.Crash(mode, seed)
	n.m, n.dir = nil, nil
	delete(n.w.reports, n.id)
}

// replay applies the next k metadata commands, merged into one difference.
func (n *member) replay(k int) {
	if n.m == nil {
		return
	}
	to := min(len(n.w.images)-1, n.applied+k)
	if to == n.applied {
		return
	}
	d := metadata.Delta{Old: n.w.images[n.applied], New: n.w.images[to]}
	for i := n.applied + 1; i <= to; i++ {
		d.Topics = append(d.Topics, n.w.deltas[i].Topics...)
		for _, id := range n.w.deltas[i].Partitions {
			seen := false
			for _, have := range d.Partitions {
				seen = seen || have == id
			}
			if !seen {
				d.Partitions = append(d.Partitions, id)
			}
		}
	}
	n.applied = to
	require.NoError(n.w.t, n.m.Apply(d.New, d))
	n.heartbeat()
}

// heartbeat carries what the session loop would: damage and certificates.
func (n *member) heartbeat() {
	news := n.m.DrainSession()
	damaged, certify := news.Damaged, news.Certify
	if len(damaged) > 0 && n.w.st.Image().BrokerEpoch(n.id) == n.be {
		n.w.do(&metadata.ReplicaDamaged{Broker: metadata.BrokerEpoch{ID: n.id, Epoch: n.be}, Partitions: damaged})
	}
	if len(certify) > 0 {
		n.w.do(&metadata.Certify{Items: certify})
	}
	if len(news.Finish) > 0 {
		n.w.do(&metadata.FinishChange{Items: news.Finish})
	}
	for _, r := range news.Reports {
		n.w.reports[n.id] = r
	}
}

func (w *world) replayAll() {
	for again := true; again; {
		again = false
		for _, n := range w.nodes {
			if n.m != nil && n.applied < len(w.images)-1 {
				n.replay(len(w.images))
				again = true
			}
		}
	}
}

// proposals gives the controller what a leader asks for.
func (n *member) proposals() {
	n.m.alter.mu.Lock()
	next := n.m.alter.next
	n.m.alter.next = map[record.PartitionID]*metadata.PartitionChange{}
	n.m.alter.mu.Unlock()
	for _, c := range next {
		n.w.do(&metadata.AlterPartitions{Changes: []metadata.PartitionChange{*c}})
	}
}

// tick does what time decides, and sends what came of it.
func (n *member) tick() {
	n.m.tick()
	n.proposals()
	n.heartbeat()
}

// exchange is a request of a follower on its way.
type exchange struct {
	from, to *member
	be       int64 // of the follower's process
	f        *fetcher
	s        *session
	seq      int64
	req      *kmsg.FetchRequest
	resp     *kmsg.FetchResponse
}

// ask builds the next request of n to leader; nil when it follows nothing there.
func (n *member) ask(leader int32) *exchange {
	if n.m == nil {
		return nil
	}
	f := n.m.fetchers[leader]
	if f == nil {
		return nil
	}
	s := n.sessions[leader]
	if s == nil {
		s = &session{}
		n.sessions[leader] = s
		f.reopen(s)
	}
	req, _ := f.build(s, n.w.now)
	s.epoch++
	return &exchange{from: n, to: n.w.nodes[leader], be: n.be, f: f, s: s, seq: s.seq, req: req}
}

// serve lets the leader answer; false when it is down or the session is broken.
func (x *exchange) serve() bool {
	if x.to.m == nil {
		return false
	}
	req := requestOf(x.req)
	req.MaxWait = 0
	res := x.to.m.Fetch(context.Background(), req).Wait(context.Background())
	if res.Err != nil {
		return false
	}
	x.resp = responseOf(x.to.w.t, x.req, &res)
	x.to.proposals()
	x.to.heartbeat()
	return true
}

// take lets the follower act on the answer; false when its connection ended over it.
func (x *exchange) take() bool {
	if x.from.m == nil || x.from.be != x.be {
		return false
	}
	return x.f.take(x.s, x.seq, x.resp, x.from.w.now) == nil
}

// broken ends a session: the next request opens a new one.
func (x *exchange) broken() { delete(x.from.sessions, x.to.id) }

// round is one whole exchange.
func (n *member) round(leader int32) {
	x := n.ask(leader)
	if x == nil {
		return
	}
	if !x.serve() || !x.take() {
		x.broken()
	}
}

// flush brings to disk what waits for it, and queues what comes of that.
func (n *member) flush() {
	for n.m.flushes.step() {
	}
	n.proposals()
	n.heartbeat()
}

// ack is what n would tell leader between two fetches; nil where there is nothing.
func (n *member) ack(leader int32) *partition.Ack {
	if n.m == nil || n.m.fetchers[leader] == nil || n.sessions[leader] == nil {
		return nil
	}
	return n.m.fetchers[leader].nextAck(n.sessions[leader])
}

// hear lets a leader count an acknowledgement.
func (n *member) hear(a *partition.Ack) {
	if n.m != nil && a != nil {
		n.m.Ack(a)
		n.proposals()
		n.heartbeat()
	}
}

// requestOf is what the handler makes of a follower's fetch.
func requestOf(r *kmsg.FetchRequest) *partition.FetchRequest {
	q := &partition.FetchRequest{ReplicaID: r.ReplicaState.ID, BrokerEpoch: r.ReplicaState.Epoch, MaxWait: time.Duration(r.MaxWaitMillis) * time.Millisecond,
		MinBytes: r.MinBytes, MaxBytes: r.MaxBytes, SessionID: r.SessionID, SessionEpoch: r.SessionEpoch}
	for i := range r.Topics {
		for _, p := range r.Topics[i].Partitions {
			fp := partition.FetchPartition{ID: record.PartitionID{Topic: r.Topics[i].TopicID, Partition: p.Partition}, FetchOffset: p.FetchOffset,
				LastFetchedEpoch: p.LastFetchedEpoch, CurrentLeaderEpoch: p.CurrentLeaderEpoch, LogStartOffset: p.LogStartOffset, AckOffset: -1, MaxBytes: p.PartitionMaxBytes}
			p.UnknownTags.Each(func(k uint32, v []byte) {
				n, _ := partition.DecodeInt64(v)
				switch k {
				case partition.TagAckOffset:
					fp.AckOffset = n
				case partition.TagJoinPE:
					fp.JoinPE = int32(n)
				}
			})
			q.Partitions = append(q.Partitions, fp)
		}
	}
	for _, t := range r.ForgottenTopics {
		for _, p := range t.Partitions {
			q.Forgotten = append(q.Forgotten, record.PartitionID{Topic: t.TopicID, Partition: p})
		}
	}
	return q
}

// responseOf is what the handler makes of the answer. Records are read where the connection would send them.
func responseOf(t testing.TB, req *kmsg.FetchRequest, res *partition.FetchResult) *kmsg.FetchResponse {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	resp.SessionID = res.SessionID
	req.UnknownTags.Each(func(k uint32, v []byte) {
		if k == partition.TagFetchSequence {
			resp.UnknownTags.Set(k, v)
		}
	})
	for i := range res.Answers {
		a := &res.Answers[i]
		p := kmsg.NewFetchResponseTopicPartition()
		p.Partition, p.HighWatermark, p.LastStableOffset, p.LogStartOffset = a.ID.Partition, a.HighWatermark, a.LastStableOffset, a.LogStartOffset
		if a.Err != nil {
			p.ErrorCode = 1
		}
		if a.Diverging != nil {
			p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = a.Diverging.Epoch, a.Diverging.End
		}
		p.UnknownTags.Set(partition.TagFetchState, partition.EncodeFetchState(partition.FetchState{
			LeaderEpoch: a.LeaderEpoch, LogStart: a.LogStartOffset, LogStartEpoch: a.LogStartEpoch, Reset: a.Reset}))
		for _, s := range a.Spans {
			b := make([]byte, s.Len)
			_, err := s.Src.ReadAt(b, s.Off)
			require.NoError(t, err)
			p.RecordBatches = append(p.RecordBatches, b...)
			s.Release()
		}
		resp.Topics = append(resp.Topics, kmsg.FetchResponseTopic{TopicID: a.ID.Topic, Partitions: []kmsg.FetchResponseTopicPartition{p}})
	}
	return resp
}

// marker is the name of an epoch-start marker.
const marker = -1

// line is one record as a test knows it.
type line struct {
	epoch int32
	name  int
}

// newBatch makes a batch of records with the given names.
func newBatch(names ...int) []byte {
	var recs []record.NewRecord
	for _, n := range names {
		recs = append(recs, record.NewRecord{Timestamp: 1, Value: []byte("r" + strconv.Itoa(n) + ";" + strings.Repeat(".", 40))})
	}
	return record.NewBatch(0, recs...)
}

// produce sends one batch to n and gives the pending answer.
func (n *member) produce(acks int16, batch []byte) *pendingProduce {
	h, err := record.ParseHeader(batch)
	require.NoError(n.w.t, err)
	return n.m.Produce(context.Background(), &partition.ProduceRequest{Acks: acks, Timeout: time.Hour, Partitions: []partition.ProducePartition{
		{ID: record.PartitionID{Topic: n.w.topic}, Records: batch, Header: h}}}).(*pendingProduce)
}

// answered gives the answer of a produce of one batch, if it is there.
func (pp *pendingProduce) answered() (a partition.ProduceAnswer, ok bool) {
	pp.mu.Lock()
	defer pp.mu.Unlock()
	return pp.answers[0], pp.open == 0
}

func (n *member) part() *Partition {
	if n.m == nil {
		return nil
	}
	return n.m.find(record.PartitionID{Topic: n.w.topic})
}

// lines reads a whole log by offset from its start.
func lines(t testing.TB, l *logstore.Log) (start int64, out []line) {
	start = l.StartOffset()
	for at := start; at < l.EndOffset(); {
		info, err := l.Read(at, 1<<20, l.EndOffset(), true)
		require.NoError(t, err)
		var b []byte
		for _, s := range info.Spans {
			piece := make([]byte, s.Len)
			_, err := s.Src.ReadAt(piece, s.Off)
			require.NoError(t, err)
			b = append(b, piece...)
			s.Release()
		}
		require.NotEmpty(t, b, "nothing at %d of %d", at, l.EndOffset())
		for len(b) > 0 {
			h, err := record.ParseHeader(b)
			require.NoError(t, err)
			require.NoError(t, record.Verify(&h, b))
			off := h.BaseOffset
			if h.IsControl() {
				out = append(out, line{h.LeaderEpoch, marker})
				off++
			}
			for _, v := range strings.SplitAfter(string(b[record.HeaderSize:h.Size()]), "..........") {
				i := strings.LastIndexByte(v, 'r')
				j := strings.IndexByte(v, ';')
				if i < 0 || j < i {
					continue
				}
				name, err := strconv.Atoi(v[i+1 : j])
				require.NoError(t, err)
				if off >= start {
					out = append(out, line{h.LeaderEpoch, name})
				}
				off++
			}
			require.Equal(t, h.EndOffset(), off, "records of a batch")
			at = h.EndOffset()
			b = b[h.Size():]
		}
	}
	return start, out
}
