package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

const (
	maxChanges      = 2000 // items of one AlterPartitions command
	maxQueued       = 1024 // requests waiting for it
	changeQueueWait = 2 * time.Second
	producerIDBlock = 1000
)

// changeQueue turns the ISR proposals of many leaders into few commands: while one command is on its way, the next ones
// gather. One goroutine owns it.
type changeQueue struct {
	r  *reign
	in chan *changeRequest
}

// changeRequest is the proposals of one request, answered by one send on done.
type changeRequest struct {
	changes []metadata.PartitionChange
	errs    []error
	done    chan struct{}
}

func newChangeQueue(r *reign) *changeQueue {
	return &changeQueue{r: r, in: make(chan *changeRequest, maxQueued)}
}

// submit gives one error for every change, nil for those that were applied.
func (q *changeQueue) submit(ctx context.Context, changes []metadata.PartitionChange) []error {
	req := &changeRequest{changes: changes, errs: make([]error, len(changes)), done: make(chan struct{})}
	all := func(err error) []error {
		errs := make([]error, len(changes)) // req.errs may still be written to
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	ctx, cancel := context.WithTimeout(ctx, changeQueueWait+q.r.c.opt.ProposeTimeout)
	defer cancel()
	select {
	case q.in <- req:
	case <-ctx.Done():
		return all(metadata.ErrNoController)
	case <-q.r.ctx.Done():
		return all(metadata.ErrNotController)
	}
	select {
	case <-req.done:
		return req.errs
	case <-ctx.Done():
	case <-q.r.ctx.Done():
	}
	return all(metadata.ErrOutcomeUnknown)
}

func (q *changeQueue) loop() {
	for {
		select {
		case <-q.r.ctx.Done():
			return
		case first := <-q.in:
			q.propose(q.gather(first))
		}
	}
}

// gather takes what else is waiting, up to the size of a command. A single request may be larger by itself.
func (q *changeQueue) gather(first *changeRequest) []*changeRequest {
	batch, n := []*changeRequest{first}, len(first.changes)
	for n < maxChanges {
		select {
		case next := <-q.in:
			batch, n = append(batch, next), n+len(next.changes)
		default:
			return batch
		}
	}
	return batch
}

func (q *changeQueue) propose(batch []*changeRequest) {
	cmd := &metadata.AlterPartitions{}
	for _, req := range batch {
		cmd.Changes = append(cmd.Changes, req.changes...)
	}
	res, err := q.r.c.apply(q.r.ctx, cmd)
	at := 0
	for _, req := range batch {
		for i := range req.changes {
			switch {
			case err != nil:
				req.errs[i] = err
			case res.Err != nil:
				req.errs[i] = res.Err
			default:
				req.errs[i] = res.Items[at]
			}
			at++
		}
		close(req.done)
	}
}

// AlterPartition takes a leader's ISR proposals. The answer carries each record as it is now; a leader's state changes by
// applied records alone.
func (c *Controller) AlterPartition(ctx context.Context, req *kmsg.AlterPartitionRequest) *kmsg.AlterPartitionResponse {
	resp := req.ResponseKind().(*kmsg.AlterPartitionResponse)
	r := c.active()
	if r == nil {
		resp.ErrorCode = code(metadata.ErrNotController)
		return resp
	}
	if err := checkBroker(c.Image(), req.BrokerID, req.BrokerEpoch); err != nil {
		resp.ErrorCode = code(err)
		return resp
	}
	var changes []metadata.PartitionChange
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			change := metadata.PartitionChange{
				Partition: record.PartitionID{Topic: t.TopicID, Partition: p.Partition},
				Leader:    req.BrokerID, LeaderBrokerEpoch: req.BrokerEpoch, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch,
			}
			for _, m := range p.NewEpochISR {
				change.ISR = append(change.ISR, metadata.BrokerEpoch{ID: m.BrokerID, Epoch: m.BrokerEpoch})
			}
			changes = append(changes, change)
		}
	}
	errs := r.changes.submit(ctx, changes)
	image := c.Image()
	at := 0
	for _, t := range req.Topics {
		rt := kmsg.NewAlterPartitionResponseTopic()
		rt.TopidID = t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewAlterPartitionResponseTopicPartition()
			rp.Partition, rp.ErrorCode, rp.LeaderID = p.Partition, code(errs[at]), metadata.NoNode
			if now := image.Partition(changes[at].Partition); now != nil {
				rp.LeaderID, rp.LeaderEpoch, rp.ISR, rp.PartitionEpoch = now.Leader, now.LeaderEpoch, now.ISR, now.PartitionEpoch
			}
			rt.Partitions = append(rt.Partitions, rp)
			at++
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// AllocateProducerIDs hands out the next block of producer ids.
func (c *Controller) AllocateProducerIDs(ctx context.Context, req *kmsg.AllocateProducerIDsRequest) *kmsg.AllocateProducerIDsResponse {
	resp := req.ResponseKind().(*kmsg.AllocateProducerIDsResponse)
	res, err := c.Propose(ctx, &metadata.AllocateProducerIDs{
		Broker: metadata.BrokerEpoch{ID: req.BrokerID, Epoch: req.BrokerEpoch}, Count: producerIDBlock,
	})
	if err == nil {
		err = res.Err
	}
	if resp.ErrorCode = code(err); err == nil {
		resp.ProducerIDStart, resp.ProducerIDLen = res.First, producerIDBlock
	}
	return resp
}

// checkBroker refuses a request of a process that is not the registered one.
func checkBroker(image *metadata.Image, id int32, epoch int64) error {
	b := image.Broker(id)
	if b == nil {
		return fmt.Errorf("%w: node %d", metadata.ErrBrokerNotRegistered, id)
	}
	if b.Epoch != epoch {
		return fmt.Errorf("%w: node %d has %d, not %d", metadata.ErrStaleBrokerEpoch, id, b.Epoch, epoch)
	}
	return nil
}
