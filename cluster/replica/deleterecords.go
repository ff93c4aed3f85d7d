package replica

import (
	"context"
	"fmt"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
)

// DeleteRecords raises the log start to offset (-1: the high watermark) and returns when all live replicas have it, or
// with ErrTimedOut when ctx ends: the leader's log start stays raised.
func (m *Manager) DeleteRecords(ctx context.Context, id record.PartitionID, offset int64) (logStart int64, err error) {
	p := m.find(id)
	if p == nil {
		_, _, err = m.absent(id)
		return -1, err
	}
	target, err := p.raiseStart(offset)
	if err != nil {
		return -1, err
	}
	w := newReader()
	p.awaitStart(w)
	defer p.forgetStart(w)
	for {
		low, err := p.lowestStart(m.image())
		if err != nil {
			return -1, err
		}
		if low >= target {
			return low, nil
		}
		select {
		case <-w.ready:
		case <-ctx.Done():
			return -1, fmt.Errorf("%w: %w", partition.ErrTimedOut, ctx.Err())
		}
	}
}

// raiseStart raises the leader's own log start and gives what it was asked for as an offset.
func (p *Partition) raiseStart(offset int64) (target int64, err error) {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.mu.Lock()
	leader, err := p.leads(-1)
	var hw int64
	if err == nil {
		hw = leader.HighWatermark()
	}
	p.mu.Unlock()
	switch {
	case err != nil:
		return 0, err
	case !p.log.Config().CleanupDelete:
		return 0, partition.ErrPolicy
	case offset == -1:
		offset = hw
	case offset < 0 || offset > hw:
		return 0, fmt.Errorf("%w: %d, the high watermark is %d", record.ErrOffsetOutOfRange, offset, hw)
	}
	if offset > p.log.StartOffset() {
		if err := p.log.RaiseStart(offset); err != nil {
			p.readFailed(err)
			return 0, err
		}
	}
	p.mu.Lock()
	p.notify()
	p.mu.Unlock()
	return offset, nil
}

// lowestStart is the lowest log start of the live replicas.
func (p *Partition) lowestStart(image *metadata.Image) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	leader, err := p.leads(-1)
	if err != nil {
		return -1, err
	}
	return leader.LogStart(p.log, func(id int32) bool { return image.Broker(id).Alive() }), nil
}

func (p *Partition) awaitStart(w *reader) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lows = append(p.lows, w)
}

func (p *Partition) forgetStart(w *reader) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lows = without(p.lows, w)
}

// lowered tells those who wait for log starts that one may have moved. The caller holds mu.
func (p *Partition) lowered() {
	for _, w := range p.lows {
		w.signal()
	}
}
