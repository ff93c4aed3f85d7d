package sim

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"cordwood/fsm/partition"
	"cordwood/logstore/record"
)

// clients are the producers: plain ones, whose batch is sent once, and an idempotent one that sends a batch until it is
// acknowledged, as clients do. A record is a name that no other has.
type clients struct {
	names int
	open  []*sent
	idem  idempotent
}

// sent is a produce whose answer is open.
type sent struct {
	to    *node
	be    int64
	acks  int16
	pp    partition.PendingProduce
	names []int
	idem  bool

	done   bool // answer has come
	answer partition.ProduceAnswer
}

// idempotent is the state of the idempotent producer.
type idempotent struct {
	epoch   int16
	seq     int32
	names   []int // of the batch that is not acknowledged yet
	waiting bool
	flagged int   // losses told when it last knew its place
	leader  int32 // epoch of the newest leader it knows: a client never goes back to an older one
}

// epochMilli is when the worlds begin: the timestamp of all records.
const epochMilli = 1_700_000_000_000

// logLimit bounds the records of a log, so that comparing stays cheap.
const logLimit = 48

func (w *World) fresh() (names []int) {
	for range 1 + w.rng.IntN(3) {
		w.clients.names++
		names = append(names, w.clients.names)
	}
	return names
}

func newBatch(names ...int) []byte {
	var recs []record.NewRecord
	for _, n := range names {
		recs = append(recs, record.NewRecord{Timestamp: epochMilli, Value: []byte(strconv.Itoa(n) + ";" + strings.Repeat(".", 40))})
	}
	return record.NewBatch(0, recs...)
}

func nameOf(value []byte) int {
	s, _, _ := strings.Cut(string(value), ";")
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

// produce sends a batch to a node that believes to lead.
func (w *World) produce(n *node) {
	l, p := n.office(), n.replica()
	if l == nil || p.Log().EndOffset()-p.Log().StartOffset() > logLimit {
		return
	}
	s := &sent{to: n, be: n.be, acks: partition.AcksAll, idem: w.rng.IntN(2) == 0}
	var batch []byte
	c := &w.clients.idem
	switch {
	case s.idem && (c.waiting || l.Epoch() < c.leader):
		return
	case s.idem:
		c.leader = l.Epoch()
		if c.names == nil {
			c.names = w.fresh()
		}
		batch = w.idemBatch(s)
	default:
		s.names = w.fresh()
		batch = newBatch(s.names...)
		if w.rng.IntN(4) == 0 {
			s.acks = int16(1 + w.rng.IntN(len(l.Record().Replicas)))
		}
	}
	w.offer(n, s, batch)
}

// idemBatch is the idempotent producer's batch: the one that is not acknowledged yet, or its next.
func (w *World) idemBatch(s *sent) []byte {
	c := &w.clients.idem
	s.names, c.waiting = c.names, true
	plain := newBatch(s.names...)
	h, _ := record.ParseHeader(plain)
	h.ProducerID, h.ProducerEpoch, h.BaseSequence = 7, c.epoch, c.seq
	return record.AppendBatch(nil, h, plain[record.HeaderSize:])
}

// offer sends a batch to a node that leads.
func (w *World) offer(n *node, s *sent, batch []byte) {
	l, p := n.office(), n.replica()
	h, err := record.ParseHeader(batch)
	if err != nil {
		w.fail("batch: %v", err)
	}
	epoch, end := l.Epoch(), p.Log().EndOffset()
	s.pp = n.m.Produce(context.Background(), &partition.ProduceRequest{Acks: s.acks, Timeout: 100 * 365 * 24 * time.Hour,
		Partitions: []partition.ProducePartition{{ID: w.id, Records: batch, Header: h}}})
	if p.Log().EndOffset() > end { // no duplicate
		for i, name := range s.names {
			w.shadow.written[place{epoch, end + int64(i)}] = name
		}
	}
	w.clients.open = append(w.clients.open, s)
	w.count("produce")
	n.tell()
}

// forget drops what a process that ends will never answer: the outcome is unknown.
func (c *clients) forget(n *node) {
	c.open = slices.DeleteFunc(c.open, func(s *sent) bool {
		if s.to != n || s.be != n.be {
			return false
		}
		if s.idem {
			c.idem.waiting = false
		}
		return true
	})
}

// settle looks at the answers that have come.
func (w *World) settle() {
	w.clients.open = slices.DeleteFunc(w.clients.open, func(s *sent) bool {
		if r, ok := s.pp.(interface{ Ready() bool }); !ok || !r.Ready() {
			return false
		}
		w.answered(s, s.pp.Wait(context.Background())[0])
		return true
	})
}

func (w *World) answered(s *sent, a partition.ProduceAnswer) {
	c := &w.clients.idem
	s.done, s.answer = true, a
	if s.idem {
		c.waiting = false
	}
	switch {
	case a.Err == nil && s.acks != partition.AcksAll:
		w.count("acked by count")
	case a.Err == nil:
		for i, name := range s.names {
			off := a.BaseOffset + int64(i)
			if off >= int64(len(w.shadow.committed)) {
				w.fail("I11: record %d acknowledged at %d by node %d, the committed log ends at %d", name, off, s.to.id, len(w.shadow.committed))
			}
			if got := w.shadow.committed[off].name; got != name {
				w.fail("I15: record %d acknowledged at %d, where %d stands", name, off, got)
			}
			w.shadow.acked[off] = name
		}
		w.count("acked")
		if s.idem {
			c.seq += int32(len(s.names))
			c.names, c.flagged = nil, w.shadow.losses
			w.count("acked idempotent")
		}
	case s.idem && errors.Is(a.Err, record.ErrOutOfOrder):
		if w.shadow.losses == c.flagged {
			w.fail("out of order without a flagged loss: %v; batch %v, sequence %d", a.Err, s.names, c.seq)
		}
		c.epoch++
		c.seq, c.names, c.flagged = 0, nil, w.shadow.losses
	}
}
