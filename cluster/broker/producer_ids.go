package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// producerIDs implements api.ProducerIDs: ids come from a block that the metadata log gave to this process, so that
// they are never given twice. A block that is not used up is lost with the process.
type producerIDs struct {
	up    *upstream
	epoch func() int64 // this process's broker epoch

	turn chan struct{} // holds one token: whoever has it owns the fields below
	next int64
	end  int64
}

func newProducerIDs(up *upstream, epoch func() int64) *producerIDs {
	p := &producerIDs{up: up, epoch: epoch, turn: make(chan struct{}, 1)}
	p.turn <- struct{}{}
	return p
}

// Next implements api.ProducerIDs.
func (p *producerIDs) Next(ctx context.Context) (int64, error) {
	select {
	case <-p.turn:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { p.turn <- struct{}{} }()
	if p.next == p.end {
		if err := p.fetch(ctx); err != nil {
			return 0, err
		}
	}
	id := p.next
	p.next++
	return id, nil
}

// fetch gets the next block. A block whose answer is lost is lost.
func (p *producerIDs) fetch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	req := kmsg.NewPtrAllocateProducerIDsRequest()
	req.BrokerID, req.BrokerEpoch = p.up.node, p.epoch()
	resp, err := p.up.allocate(ctx, req)
	if err != nil {
		return fmt.Errorf("producer ids: %w", err)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return fmt.Errorf("producer ids: %w", err)
	}
	if resp.ProducerIDLen <= 0 {
		return fmt.Errorf("producer ids: a block of %d", resp.ProducerIDLen)
	}
	p.next, p.end = resp.ProducerIDStart, resp.ProducerIDStart+int64(resp.ProducerIDLen)
	return nil
}
