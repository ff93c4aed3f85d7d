package replica

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

const (
	alterVersion = 3
	alterTimeout = 5 * time.Second
	alterBatch   = 1000 // proposals in a request
)

// alterQueue sends ISR proposals to the controller, the newest of each partition, one request at a time. A leader
// proposes again until a record settles it, so a lost request or answer needs nothing here.
type alterQueue struct {
	m    *Manager
	wake chan struct{}

	// mu is a leaf lock.
	mu   sync.Mutex
	next map[record.PartitionID]*metadata.PartitionChange
}

func newAlterQueue(m *Manager) *alterQueue {
	return &alterQueue{m: m, wake: make(chan struct{}, 1), next: make(map[record.PartitionID]*metadata.PartitionChange)}
}

func (m *Manager) propose(c *metadata.PartitionChange) {
	q := m.alter
	q.mu.Lock()
	q.next[c.Partition] = c
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take gives the next request; nil when there is none.
func (q *alterQueue) take() *kmsg.AlterPartitionRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.next) == 0 {
		return nil
	}
	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version = alterVersion
	req.BrokerID, req.BrokerEpoch = q.m.opt.NodeID, q.m.brokerEpoch()
	byTopic := make(map[record.TopicID]int)
	n := 0
	for id, c := range q.next {
		if n++; n > alterBatch {
			break
		}
		delete(q.next, id)
		i, ok := byTopic[id.Topic]
		if !ok {
			t := kmsg.NewAlterPartitionRequestTopic()
			t.TopicID = id.Topic
			i = len(req.Topics)
			byTopic[id.Topic] = i
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewAlterPartitionRequestTopicPartition()
		p.Partition, p.LeaderEpoch, p.PartitionEpoch = id.Partition, c.LeaderEpoch, c.PartitionEpoch
		for _, b := range c.ISR {
			e := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
			e.BrokerID, e.BrokerEpoch = b.ID, b.Epoch
			p.NewEpochISR = append(p.NewEpochISR, e)
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
	}
	return req
}

func (q *alterQueue) run(ctx context.Context) {
	for wait := time.Duration(0); sleep(ctx, wait); {
		req := q.take()
		if req == nil {
			wait = 0
			select {
			case <-q.wake:
			case <-ctx.Done():
				return
			}
			continue
		}
		sending, cancel := context.WithTimeout(ctx, alterTimeout)
		resp, err := q.m.opt.Controller.AlterPartition(sending, req)
		cancel()
		wait = 0
		if err != nil {
			q.m.opt.Logger.Debug("ISR proposals were not answered", "err", err)
			wait = retryMin * 5
		} else if resp.ErrorCode != 0 {
			q.m.opt.Logger.Debug("ISR proposals were refused", "code", resp.ErrorCode)
			wait = retryMin * 5
		}
	}
}
