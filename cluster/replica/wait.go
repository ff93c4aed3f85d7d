package replica

import (
	"context"
	"errors"
	"sync"
	"time"

	"cordwood/fsm/partition"
	"cordwood/logstore/record"
)

// pendingProduce is a produce whose appends were done. mu guards answers and open from the moment that the first
// acknowledgement is open; it is a leaf lock.
type pendingProduce struct {
	deadline time.Time
	answers  []partition.ProduceAnswer
	acks     []ack

	mu   sync.Mutex
	open int
	wake chan struct{} // made by Wait
}

// ack is the place of one partition in a pendingProduce.
type ack struct {
	pp    *pendingProduce
	p     *Partition // who holds it, while it is open
	index int
	ended bool
}

func newPendingProduce(req *partition.ProduceRequest, now time.Time) *pendingProduce {
	n := len(req.Partitions)
	pp := &pendingProduce{deadline: now.Add(req.Timeout), answers: make([]partition.ProduceAnswer, n), acks: make([]ack, n), open: n}
	for i := range pp.acks {
		pp.acks[i] = ack{pp: pp, index: i}
		pp.answers[i] = partition.ProduceAnswer{BaseOffset: -1, AppendTime: -1, LogStart: -1, Leader: -1, LeaderEpoch: -1}
	}
	return pp
}

// refuse answers place i with an error: nothing of it is acknowledged.
func (pp *pendingProduce) refuse(i int, err error, leader, epoch int32) {
	pp.acks[i].end(err, leader, epoch)
}

// finish is done as a function of the waiter, for partition.Waits.
func finish(a *ack, err error) { a.done(err) }

// done acknowledges, or refuses with err.
func (a *ack) done(err error) { a.end(err, -1, -1) }

func (a *ack) end(err error, leader, epoch int32) {
	pp := a.pp
	pp.mu.Lock()
	defer pp.mu.Unlock()
	if a.ended {
		return
	}
	a.ended = true
	if err != nil {
		pp.answers[a.index] = partition.ProduceAnswer{Err: err, BaseOffset: -1, AppendTime: -1, LogStart: -1, Leader: leader, LeaderEpoch: epoch}
	}
	pp.open--
	if pp.open == 0 && pp.wake != nil {
		close(pp.wake)
	}
}

// Ready says that Wait returns at once.
func (pp *pendingProduce) Ready() bool {
	pp.mu.Lock()
	defer pp.mu.Unlock()
	return pp.open == 0
}

// Wait returns when all is acknowledged or refused, the request's timeout has passed or ctx ends.
func (pp *pendingProduce) Wait(ctx context.Context) []partition.ProduceAnswer {
	pp.mu.Lock()
	if pp.open == 0 {
		pp.mu.Unlock()
		return pp.answers
	}
	pp.wake = make(chan struct{})
	pp.mu.Unlock()

	timer := time.NewTimer(time.Until(pp.deadline))
	defer timer.Stop()
	select {
	case <-pp.wake:
		return pp.answers
	case <-timer.C:
	case <-ctx.Done():
	}
	for i := range pp.acks {
		if a := &pp.acks[i]; a.p != nil && a.p.giveUp(a) {
			a.done(partition.ErrTimedOut)
		}
	}
	<-pp.wake // whoever took the rest out of its partition answers it at once
	return pp.answers
}

// reader is a parked fetch of a consumer; ready is signalled by any change of a partition it waits for.
type reader struct{ ready chan struct{} }

func newReader() *reader { return &reader{ready: make(chan struct{}, 1)} }

func (r *reader) signal() {
	select {
	case r.ready <- struct{}{}:
	default:
	}
}

// park registers r. The caller looks again afterwards, so that no change between its look and this is missed.
func (p *Partition) park(r *reader) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readers = append(p.readers, r)
}

func (p *Partition) unpark(r *reader) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readers = without(p.readers, r)
}

func without(list []*reader, r *reader) []*reader {
	for i, x := range list {
		if x == r {
			n := len(list) - 1
			list[i], list[n] = list[n], nil
			return list[:n]
		}
	}
	return list
}

// storageFault tells a failure of the log from a refusal of the batch.
func storageFault(err error) bool {
	var refused *record.BatchError
	if errors.As(err, &refused) {
		return false
	}
	for _, e := range []error{record.ErrCorruptBatch, record.ErrShortBatch, record.ErrInvalidRecord, record.ErrInvalidTimestamp, record.ErrBatchTooLarge,
		record.ErrSegmentTooSmall, record.ErrUnsupportedCodec, record.ErrOutOfOrder, record.ErrProducerEpoch, record.ErrInvalidTxnState, record.ErrDirFull, record.ErrClosed} {
		if errors.Is(err, e) {
			return false
		}
	}
	return true
}
