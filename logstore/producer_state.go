package logstore

import (
	"fmt"
	"slices"
	"sort"

	"cordwood/logstore/record"
)

// batchesKept is how many of a producer's last batches are remembered: as many as a client may have in flight.
const batchesKept = 5

// producedBatch is one remembered batch. Its first sequence and offset follow from the deltas.
type producedBatch struct {
	lastSeq    int32
	delta      int32
	lastOffset int64
	timestamp  int64
}

func (b producedBatch) firstSeq() int32    { return record.IncrementSequence(b.lastSeq, -b.delta) }
func (b producedBatch) firstOffset() int64 { return b.lastOffset - int64(b.delta) }

// producer is what the log knows of one producer id.
type producer struct {
	epoch            int16
	batches          []producedBatch // oldest first, at most batchesKept
	coordinatorEpoch int32           // of the newest marker, -1 before one
	txnFirst         int64           // first offset of the open transaction, -1 without one
	timestamp        int64           // of the newest batch or marker, milliseconds
}

func (p *producer) lastSeq() int32 {
	if n := len(p.batches); n > 0 {
		return p.batches[n-1].lastSeq
	}
	return record.NoSequence
}

// openTxn is a transaction without a marker, doneTxn one whose marker is in the log but perhaps not committed yet.
type openTxn struct {
	first int64
	pid   int64
}

type doneTxn struct {
	first  int64
	marker int64
}

// producers is the fold of a log's batches that idempotent and transactional producers need. Not safe for concurrent
// use: the log's mutex guards it.
type producers struct {
	byID map[int64]*producer
	open []openTxn // by first offset
	done []doneTxn // by marker; pruned as the high watermark passes
}

// check says what a client's batch is to the log: a duplicate of a remembered batch, in order (nil, nil), or refused.
// fromZero demands a first sequence of 0 of an unknown producer.
func (s *producers) check(h *record.Header, fromZero bool) (dup *producedBatch, err error) {
	p := s.byID[h.ProducerID]
	if p == nil {
		if fromZero && h.BaseSequence != 0 {
			return nil, fmt.Errorf("%w: unknown producer %d begins at %d", record.ErrOutOfOrder, h.ProducerID, h.BaseSequence)
		}
		return nil, nil
	}
	if p.epoch == h.ProducerEpoch {
		for i := range p.batches {
			if b := &p.batches[i]; b.firstSeq() == h.BaseSequence && b.lastSeq == h.LastSequence() {
				return b, nil
			}
		}
	}
	switch {
	case h.ProducerEpoch < p.epoch:
		return nil, fmt.Errorf("%w: producer %d epoch %d, known %d", record.ErrProducerEpoch, h.ProducerID, h.ProducerEpoch, p.epoch)
	case h.ProducerEpoch > p.epoch:
		if h.BaseSequence != 0 && p.epoch != record.NoProducerEpoch {
			return nil, fmt.Errorf("%w: producer %d begins epoch %d at %d", record.ErrOutOfOrder, h.ProducerID, h.ProducerEpoch, h.BaseSequence)
		}
	case h.BaseSequence != record.IncrementSequence(p.lastSeq(), 1) && p.epoch != record.NoProducerEpoch:
		return nil, fmt.Errorf("%w: producer %d epoch %d sends %d after %d", record.ErrOutOfOrder, h.ProducerID, h.ProducerEpoch, h.BaseSequence, p.lastSeq())
	}
	if !h.IsTransactional() && p.txnFirst >= 0 {
		return nil, fmt.Errorf("%w: producer %d writes outside its open transaction", record.ErrInvalidTxnState, h.ProducerID)
	}
	return nil, nil
}

// apply takes a batch that is in the log. m is the content of a control batch, nil where the batch is none or was
// emptied by compaction. It returns the aborted transaction that the batch ends, if it does.
func (s *producers) apply(h *record.Header, m *marker) (aborted AbortedTxn, isAborted bool) {
	if !h.HasProducer() {
		return AbortedTxn{}, false
	}
	p := s.byID[h.ProducerID]
	if p == nil {
		if s.byID == nil {
			s.byID = map[int64]*producer{}
		}
		p = &producer{epoch: h.ProducerEpoch, coordinatorEpoch: -1, txnFirst: -1}
		s.byID[h.ProducerID] = p
	}
	if p.epoch != h.ProducerEpoch {
		p.epoch, p.batches = h.ProducerEpoch, nil
	}
	p.timestamp = h.MaxTimestamp
	if h.IsControl() {
		return s.end(p, h, m)
	}
	if len(p.batches) == batchesKept {
		p.batches = append(p.batches[:0], p.batches[1:]...)
	}
	p.batches = append(p.batches, producedBatch{lastSeq: h.LastSequence(), delta: h.LastOffsetDelta, lastOffset: h.LastOffset(), timestamp: h.MaxTimestamp})
	// Compaction empties only batches of transactions that are over: an empty one begins none.
	if h.IsTransactional() && p.txnFirst < 0 && h.Count > 0 {
		p.txnFirst = h.BaseOffset
		s.open = append(s.open, openTxn{h.BaseOffset, h.ProducerID})
	}
	return AbortedTxn{}, false
}

// end closes the producer's transaction. An emptied marker closes what is open without saying how: all data of such a
// transaction is gone.
func (s *producers) end(p *producer, h *record.Header, m *marker) (aborted AbortedTxn, isAborted bool) {
	if m != nil {
		p.coordinatorEpoch = m.coordinatorEpoch
	}
	if p.txnFirst < 0 {
		return AbortedTxn{}, false
	}
	first := p.txnFirst
	p.txnFirst = -1
	s.open = slices.DeleteFunc(s.open, func(o openTxn) bool { return o.pid == h.ProducerID })
	s.done = append(s.done, doneTxn{first, h.LastOffset()})
	if m == nil || m.commit {
		return AbortedTxn{}, false
	}
	stable := h.EndOffset()
	if len(s.open) > 0 {
		stable = s.open[0].first
	}
	return AbortedTxn{ProducerID: h.ProducerID, FirstOffset: first, LastOffset: h.LastOffset(), LastStableOffset: stable}, true
}

// firstUnstable is the first offset of a transaction that is open or whose marker is not below hw; -1 without one.
func (s *producers) firstUnstable(hw int64) int64 {
	n := 0
	for n < len(s.done) && s.done[n].marker < hw {
		n++
	}
	s.done = s.done[n:]
	first := int64(-1)
	if len(s.open) > 0 {
		first = s.open[0].first
	}
	for _, d := range s.done {
		if first < 0 || d.first < first {
			first = d.first
		}
	}
	return first
}

// expire forgets producers whose newest batch is older than oldest and who have no open transaction.
func (s *producers) expire(oldest int64) {
	for id, p := range s.byID {
		if p.txnFirst < 0 && p.timestamp < oldest {
			delete(s.byID, id)
		}
	}
	if len(s.byID) == 0 {
		s.byID = nil
	}
}

// unstable says whether any transaction may hold the last stable offset back.
func (s *producers) unstable() bool { return len(s.open)+len(s.done) > 0 }

// list describes all producers, by id.
func (s *producers) list() []ProducerInfo {
	out := make([]ProducerInfo, 0, len(s.byID))
	for id, p := range s.byID {
		out = append(out, ProducerInfo{ProducerID: id, Epoch: p.epoch, LastSequence: p.lastSeq(), LastTimestamp: p.timestamp,
			CoordinatorEpoch: p.coordinatorEpoch, TxnStartOffset: p.txnFirst})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ProducerID < out[j].ProducerID })
	return out
}
