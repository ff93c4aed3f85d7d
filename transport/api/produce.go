package api

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
	"cordwood/transport"
)

// place is one partition of a produce request on its way to an answer.
type place struct {
	topic     int // index of the request's topic, the first of that name
	partition int32
	id        record.PartitionID
	err       error
	asked     int // index among the partitions that reach the log; -1 for none
}

// topicKey names a topic as the request's version does: by name or by id.
type topicKey struct {
	name string
	id   record.TopicID
}

// production is a produce request on its way.
type production struct {
	h        *Handlers
	req      *kmsg.ProduceRequest
	img      *metadata.Image
	listener string
	places   []place
	first    map[topicKey]int
	ask      partition.ProduceRequest
}

// handleProduce appends. All checks that need no log come first, batch by batch, and nothing of a batch that fails one
// is appended. The append is done when the handler returns; only the acknowledgement is waited for, so that the batches
// of a connection follow each other into the log while their acknowledgements overlap.
func handleProduce(h *Handlers, ctx context.Context, r *transport.Request) transport.Response {
	p := &production{h: h, req: r.Body.(*kmsg.ProduceRequest), img: h.Metadata.Image(), listener: r.Conn.Listener}
	p.locate()
	if err := p.refusedWhole(); err != nil {
		for i := range p.places {
			p.places[i].err, p.places[i].asked = err, -1
		}
		p.ask.Partitions = nil // nothing of the request may reach a log
	} else {
		p.check()
	}
	if len(p.ask.Partitions) == 0 {
		if p.req.Acks == partition.AcksNone {
			return p.unanswered(nil)
		}
		return body(p.answer(nil))
	}
	pending := h.Replicas.Produce(ctx, &p.ask)
	if p.req.Acks == partition.AcksNone {
		return p.unanswered(pending.Wait(ctx))
	}
	if ready(pending) { // acks=1 too may wait: the topic may ask for more
		return body(p.answer(pending.Wait(ctx)))
	}
	return transport.Response{FrameDone: true, Wait: func(ctx context.Context) transport.Response {
		return body(p.answer(pending.Wait(ctx)))
	}}
}

// ready says that Wait of a pending request will not block, where its maker can tell.
func ready(pending any) bool {
	r, ok := pending.(interface{ Ready() bool })
	return ok && r.Ready()
}

// locate finds the partitions. One that is named twice is answered once; the last batch for it counts, as in Kafka.
func (p *production) locate() {
	total := 0
	for i := range p.req.Topics {
		total += len(p.req.Topics[i].Partitions)
	}
	p.places = make([]place, 0, total)
	p.ask.Partitions = make([]partition.ProducePartition, 0, total)
	var seen map[record.PartitionID]int
	if total > 1 {
		seen = make(map[record.PartitionID]int, total)
	}
	for i := range p.req.Topics {
		t := &p.req.Topics[i]
		topic, unknown := findTopic(p.img, t.Topic, t.TopicID, p.req.Version >= 13)
		first := p.firstOf(i)
		for j := range t.Partitions {
			at := place{topic: first, partition: t.Partitions[j].Partition, asked: -1, err: unknown}
			if topic != nil {
				at.id = record.PartitionID{Topic: topic.ID, Partition: at.partition}
				if at.partition < 0 || int(at.partition) >= len(topic.Partitions) {
					at.err = partition.ErrUnknownPartition
				}
			}
			if at.err == nil && seen != nil {
				if before, twice := seen[at.id]; twice {
					p.ask.Partitions[before].Records = t.Partitions[j].Records
					continue
				}
				seen[at.id] = len(p.ask.Partitions)
			}
			if at.err == nil {
				at.asked = len(p.ask.Partitions)
				p.ask.Partitions = append(p.ask.Partitions, partition.ProducePartition{
					ID: at.id, Records: t.Partitions[j].Records,
					FromZero: p.req.TransactionID != nil && p.req.Version >= 12,
				})
			}
			p.places = append(p.places, at)
		}
	}
}

// firstOf is the index of the first topic in the request that is the same as the i-th.
func (p *production) firstOf(i int) int {
	if len(p.req.Topics) == 1 {
		return 0
	}
	if p.first == nil {
		p.first = make(map[topicKey]int, len(p.req.Topics))
	}
	k := topicKey{p.req.Topics[i].Topic, p.req.Topics[i].TopicID}
	if first, ok := p.first[k]; ok {
		return first
	}
	p.first[k] = i
	return i
}

// findTopic finds a topic by id or by name, else says with which error it is unknown.
func findTopic(img *metadata.Image, name string, id [16]byte, byID bool) (*metadata.Topic, error) {
	if byID {
		if t := img.TopicByID(id); t != nil {
			return t, nil
		}
		return nil, metadata.ErrUnknownTopicID
	}
	if t := img.Topic(name); t != nil {
		return t, nil
	}
	return nil, metadata.ErrUnknownTopic
}

// refusedWhole checks what stands for the whole request. A transactional batch needs a transactional id; to who has
// none it is a matter of rights (Kafka answers 53).
func (p *production) refusedWhole() error {
	if p.req.Acks < partition.AcksAll {
		return partition.ErrInvalidAcks
	}
	if p.req.TransactionID == nil {
		for i := range p.req.Topics {
			for j := range p.req.Topics[i].Partitions {
				if transactional(p.req.Topics[i].Partitions[j].Records) {
					return kerr.TransactionalIDAuthorizationFailed
				}
			}
		}
	}
	return nil
}

// transactional says that a batch bears the transactional bit; whether it is a sound batch comes later.
func transactional(records []byte) bool {
	return len(records) >= record.HeaderSize && records[16] == record.CurrentMagic &&
		binary.BigEndian.Uint16(records[21:])&record.AttrTransactional != 0
}

// check validates every batch and leaves in the request to the log those that passed.
func (p *production) check() {
	p.ask.Acks = p.req.Acks
	p.ask.Timeout = time.Duration(p.req.TimeoutMillis) * time.Millisecond
	rules := record.ProduceRules{
		Now: p.h.wall().UnixMilli(), RequestVersion: p.req.Version, Transactional: p.req.TransactionID != nil,
	}
	kept := p.ask.Partitions[:0]
	for i := range p.places {
		at := &p.places[i]
		if at.err != nil {
			continue
		}
		one := p.ask.Partitions[at.asked]
		at.asked = -1
		if at.err = p.checkOne(&one, rules); at.err == nil {
			at.asked = len(kept)
			kept = append(kept, one)
		}
	}
	p.ask.Partitions = kept
}

func (p *production) checkOne(one *partition.ProducePartition, rules record.ProduceRules) error {
	t := p.img.TopicByID(one.ID.Topic)
	config := p.h.config(p.img, t)
	rules.MaxBytes, rules.SegmentBytes = config.MaxMessageBytes, config.SegmentBytes
	rules.LogAppendTime = config.LogAppendTime
	rules.BeforeMaxMS, rules.AfterMaxMS = config.TimestampBeforeMaxMS, config.TimestampAfterMaxMS
	h, err := record.ValidateProduce(one.Records, rules)
	if err != nil {
		return err
	}
	if h.IsTransactional() {
		// No transaction can be open before there is a coordinator: the batch would block readers for ever.
		if rules.RequestVersion >= 11 {
			return kerr.TransactionAbortable
		}
		return record.ErrInvalidTxnState
	}
	one.Header, one.Records = h, one.Records[:h.Size()]
	return nil
}

// unanswered ends a request without acknowledgement: a client that cannot be told of an error is told by closing.
func (p *production) unanswered(answers []partition.ProduceAnswer) transport.Response {
	for i := range p.places {
		at := &p.places[i]
		if at.err != nil || at.asked >= 0 && answers[at.asked].Err != nil {
			return transport.Response{Close: true, Reason: "acks-0"}
		}
	}
	return transport.Response{None: true}
}

// answer makes the response: every partition asked is in it once.
func (p *production) answer(answers []partition.ProduceAnswer) *kmsg.ProduceResponse {
	resp := p.req.ResponseKind().(*kmsg.ProduceResponse)
	hints := hintedLeaders{img: p.img, listener: p.listener}
	resp.Topics = make([]kmsg.ProduceResponseTopic, 0, len(p.req.Topics))
	entry := make([]int, len(p.req.Topics)) // index in the answer plus one
	for i := range p.places {
		at := &p.places[i]
		if entry[at.topic] == 0 {
			t := kmsg.NewProduceResponseTopic()
			t.Topic, t.TopicID = p.req.Topics[at.topic].Topic, p.req.Topics[at.topic].TopicID
			t.Partitions = make([]kmsg.ProduceResponseTopicPartition, 0, len(p.req.Topics[at.topic].Partitions))
			resp.Topics = append(resp.Topics, t)
			entry[at.topic] = len(resp.Topics)
		}
		rp := kmsg.NewProduceResponseTopicPartition()
		rp.Partition = at.partition
		p.fill(&rp, at, answers, &hints)
		t := &resp.Topics[entry[at.topic]-1]
		t.Partitions = append(t.Partitions, rp)
	}
	if p.req.Version >= 10 {
		hints.each(func(node int32, to metadata.Endpoint, rack *string) {
			b := kmsg.NewProduceResponseBroker()
			b.NodeID, b.Host, b.Port, b.Rack = node, to.Host, to.Port, rack
			resp.Brokers = append(resp.Brokers, b)
		})
	}
	return resp
}

func (p *production) fill(rp *kmsg.ProduceResponseTopicPartition, at *place, answers []partition.ProduceAnswer, hints *hintedLeaders) {
	rp.BaseOffset, rp.LogAppendTime, rp.LogStartOffset = -1, -1, -1
	err := at.err
	if at.asked >= 0 {
		a := &answers[at.asked]
		err = a.Err
		if err == nil {
			rp.BaseOffset, rp.LogAppendTime, rp.LogStartOffset = a.BaseOffset, a.AppendTime, a.LogStart
			return
		}
		if errors.Is(err, partition.ErrNotLeader) && p.req.Version >= 10 && a.Leader >= 0 {
			rp.CurrentLeader.LeaderID, rp.CurrentLeader.LeaderEpoch = a.Leader, a.LeaderEpoch
			hints.add(a.Leader)
		}
		if refusedByLog(err) {
			rp.LogStartOffset = p.logStart(at.id)
		}
	}
	rp.ErrorCode = code(err)
	var batch *record.BatchError
	if !errors.As(err, &batch) {
		return
	}
	if batch.LogStart {
		rp.LogStartOffset = p.logStart(at.id)
	}
	if !batch.Silent {
		rp.ErrorMessage = &batch.Message
	}
	for _, f := range batch.Records {
		e := kmsg.NewProduceResponseTopicPartitionErrorRecord()
		e.RelativeOffset, e.ErrorMessage = f.Index, &f.Message
		rp.ErrorRecords = append(rp.ErrorRecords, e)
	}
}

// refusedByLog says that a batch reached the log and was refused there; Kafka then tells where the log starts.
func refusedByLog(err error) bool {
	return errors.Is(err, record.ErrOutOfOrder) || errors.Is(err, record.ErrProducerEpoch) || errors.Is(err, record.ErrInvalidTxnState)
}

func (p *production) logStart(id record.PartitionID) int64 {
	if s, ok := p.h.Replicas.State(id); ok {
		return s.LogStartOffset
	}
	return -1
}
