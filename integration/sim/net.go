package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/cluster/replica"
	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
)

// message is something on its way: a command for the metadata log, a report for the controller's memory, a fetch, or an
// acknowledgement without one.
type message struct {
	what   string
	from   int32 // controller or a node
	cmd    metadata.Command
	report *report
	fetch  *fetch
	ack    *ackFrame
}

// fetch is a follower's request and, once served, its answer.
type fetch struct {
	from, to *node
	be       int64 // of the follower's process
	x        *replica.StepFetch
	resp     *kmsg.FetchResponse
	broken   bool // its connection ended: it may still be served, its answer reaches nobody
}

// ackFrame is a follower's positions that come between two fetches.
type ackFrame struct {
	from, to *node
	be       int64 // of the follower's process
	ack      *partition.Ack
}

// netLimit bounds what is on its way; what is more is lost.
const netLimit = 24

func (w *World) send(m *message) {
	w.net = append(w.net, m)
	if len(w.net) > netLimit {
		w.lose(w.rng.IntN(len(w.net)))
	}
}

// lose takes a message out of the world.
func (w *World) lose(i int) {
	m := w.net[i]
	w.net = slices.Delete(w.net, i, i+1)
	if m.fetch != nil {
		w.broken(m.fetch)
	}
	if a := m.ack; a != nil && a.from.up() && a.from.be == a.be { // only with its connection
		a.from.m.Break(a.to.id)
	}
}

// broken ends the connection that a fetch came over.
func (w *World) broken(f *fetch) {
	if !f.broken && f.from.up() && f.from.be == f.be {
		f.from.m.Break(f.to.id)
	}
	f.broken = true
}

// deliver brings one message a step further: it may be lost, or stay and come again.
func (w *World) deliver(i int) {
	m := w.net[i]
	if m.ack != nil && w.behind(i) {
		return // a connection keeps the order
	}
	switch {
	case !w.healing && w.rng.IntN(20) == 0:
		w.count("lost message")
		w.lose(i)
		return
	case m.fetch != nil:
		w.moveFetch(i)
		return
	case !w.healing && w.rng.IntN(10) == 0:
		w.count("doubled message") // it stays
	default:
		w.net = slices.Delete(w.net, i, i+1)
	}
	w.arrive(m)
}

// arrive is what a message that is no fetch does where it goes.
func (w *World) arrive(m *message) {
	switch {
	case m.cmd != nil:
		w.refused(m.cmd, w.apply(m.cmd))
		w.count("command " + m.what)
	case m.report != nil:
		if have, ok := w.reports[m.report.of.Broker.ID]; !ok || have.epoch <= m.report.epoch {
			w.reports[m.report.of.Broker.ID] = *m.report
		}
	case m.ack != nil:
		if m.ack.to.up() {
			m.ack.to.m.Ack(m.ack.ack)
			w.count("ack frame")
			m.ack.to.tell()
		}
	}
}

// acknowledge sends what a node has to tell its leaders between two fetches.
func (w *World) acknowledge(n *node) {
	if !n.up() {
		return
	}
	for _, leader := range n.m.Leaders() {
		if a := n.m.NextAck(leader); a != nil {
			w.send(&message{from: n.id, what: "ack", ack: &ackFrame{from: n, to: w.node(leader), be: n.be, ack: a}})
		}
	}
}

// behind says that a fetch is on the road before an acknowledgement.
func (w *World) behind(i int) bool {
	a := w.net[i].ack
	return slices.ContainsFunc(w.net[:i], func(m *message) bool {
		return m.fetch != nil && !m.fetch.broken && m.fetch.resp == nil && m.fetch.from == a.from && m.fetch.be == a.be && m.fetch.to == a.to
	})
}

// ask sends a node's next fetch to each of its leaders, one at a time.
func (w *World) ask(n *node) {
	if !n.up() {
		return
	}
	for _, leader := range n.m.Leaders() {
		flying := slices.ContainsFunc(w.net, func(m *message) bool {
			return m.fetch != nil && !m.fetch.broken && m.fetch.from == n && m.fetch.be == n.be && m.fetch.to.id == leader
		})
		if flying {
			continue
		}
		if x := n.m.Ask(leader); x != nil {
			w.send(&message{from: n.id, what: "fetch", fetch: &fetch{from: n, to: w.node(leader), be: n.be, x: x}})
		}
	}
}

func (w *World) moveFetch(i int) {
	f := w.net[i].fetch
	gone := func() { w.net = slices.Delete(w.net, i, i+1) }
	switch {
	case f.from.be != f.be || !f.from.up():
		f.broken = true
		if f.resp != nil || w.rng.IntN(2) == 0 {
			gone()
			return
		}
		w.serve(f) // late: the process that asked is gone
		gone()
	case f.broken:
		if f.resp == nil {
			w.serve(f) // late; the answer may come later still
			if f.resp == nil || w.rng.IntN(2) == 0 {
				gone()
			}
			return
		}
		gone()
		w.count("late answer")
		if err := f.from.m.TakeLate(f.x, f.resp); err != nil {
			w.note("node %d: late answer: %v", f.from.id, err)
		}
		f.from.tell()
	case f.resp == nil:
		if !w.serve(f) {
			w.broken(f)
			gone()
		}
	default:
		gone()
		w.take(f)
	}
}

// serve lets the leader answer; false when it is down or refuses the session.
func (w *World) serve(f *fetch) bool {
	return f.to.up() && w.answer(f, w.rng.IntN(4) == 0)
}

// answer is serve at a node that runs; a piece is one batch, however many there are.
func (w *World) answer(f *fetch, piece bool) bool {
	req := requestOf(f.x.Request)
	req.MaxWait = 0
	if piece {
		req.MaxBytes = 1
	}
	res := f.to.m.Fetch(context.Background(), req).Wait(context.Background())
	if res.Err != nil {
		return false
	}
	f.resp = w.responseOf(f.x.Request, &res)
	f.to.tell()
	return true
}

// take lets the follower act on the answer, and sends the acknowledgements that came of it.
func (w *World) take(f *fetch) {
	n := f.from
	p := n.replica()
	if err := n.m.Take(f.x, f.resp); err != nil {
		w.broken(f)
	}
	w.count("answer")
	if p != nil {
		if _, failed := p.Stuck(); failed != nil {
			n.ioError("fetch", failed)
		}
	}
	if n.up() {
		n.tell()
	}
}

type noController struct{}

func (noController) AlterPartition(context.Context, *kmsg.AlterPartitionRequest) (*kmsg.AlterPartitionResponse, error) {
	return nil, errByHand
}

var errByHand = errors.New("steps are driven by hand")

func noDial(context.Context, int32) (replica.Conn, error) { return nil, errByHand }

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
func (w *World) responseOf(req *kmsg.FetchRequest, res *partition.FetchResult) *kmsg.FetchResponse {
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
			if _, err := s.Src.ReadAt(b, s.Off); err != nil {
				w.note("an answer's records cannot be read: %v", err)
				b = nil
			}
			p.RecordBatches = append(p.RecordBatches, b...)
			s.Release()
		}
		resp.Topics = append(resp.Topics, kmsg.FetchResponseTopic{TopicID: a.ID.Topic, Partitions: []kmsg.FetchResponseTopicPartition{p}})
	}
	return resp
}
