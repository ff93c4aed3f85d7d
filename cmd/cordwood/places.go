package main

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
)

// place is how far one replica's copy reaches, by one node's word. -1 stands where it does not know.
type place struct {
	end, flushed, start int64
}

var unknownPlace = place{-1, -1, -1}

// partitionPlaces is what nodes told of the copies of one partition.
type partitionPlaces struct {
	own      map[int32]place // by node: of its own copy
	byLeader map[int32]place // by replica: what the leader knows
	hw       map[int32]int64 // by node: the high watermark that it knows
}

// of gives the place of a replica: by its own node's word, else by the leader's.
func (p *partitionPlaces) of(id, leader int32) place {
	if p == nil {
		return unknownPlace
	}
	if own, ok := p.own[id]; ok {
		return own
	}
	if told, ok := p.byLeader[id]; ok && leader >= 0 {
		return told
	}
	return unknownPlace
}

// highWatermark is the leader's; where it did not answer, the highest that anybody remembers.
func (p *partitionPlaces) highWatermark(leader int32) int64 {
	hw := int64(-1)
	if p == nil {
		return hw
	}
	if told, ok := p.hw[leader]; ok {
		return told
	}
	for _, told := range p.hw {
		hw = max(hw, told)
	}
	return hw
}

// logStart is the leader's; where it did not answer, the lowest of the copies that did, and 0 where none did.
func (p *partitionPlaces) logStart(leader int32) int64 {
	if p == nil {
		return 0
	}
	if own, ok := p.own[leader]; ok {
		return max(0, own.start)
	}
	start := int64(-1)
	for _, own := range p.own {
		if own.start >= 0 && (start < 0 || own.start < start) {
			start = own.start
		}
	}
	return max(0, start)
}

// places asks every live node for the copies of a topic that it holds, all at once and for a second. A node that does not
// answer is left out.
func (c *client) places(ctx context.Context, t *topicView, nodes []nodeView) map[int32]*partitionPlaces {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		out   = map[int32]*partitionPlaces{}
		slots = make(chan struct{}, askAtOnce)
	)
	for _, p := range t.Partitions {
		out[p.Partition] = &partitionPlaces{own: map[int32]place{}, byLeader: map[int32]place{}, hw: map[int32]int64{}}
	}
	if _, err := c.metadata(ctx, []string{}); err != nil { // tells the client the nodes' addresses
		return out
	}
	for _, n := range nodes {
		if n.State != "alive" && n.State != "draining" {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			req := quorumOf(map[string][]*partitionView{t.Name: pointers(t.Partitions)})
			answer, err := c.Broker(int(n.ID)).Request(ctx, req)
			if err != nil {
				c.app.noteVerbose("node %d: %v", n.ID, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, told := range answer.(*kmsg.DescribeQuorumResponse).Topics {
				for i := range told.Partitions {
					if at := out[told.Partitions[i].Partition]; at != nil {
						at.take(n.ID, &told.Partitions[i])
					}
				}
			}
		})
	}
	wg.Wait()
	return out
}

func pointers(l []partitionView) []*partitionView {
	var out []*partitionView
	for i := range l {
		out = append(out, &l[i])
	}
	return out
}

// take takes one node's word.
func (p *partitionPlaces) take(node int32, answer *kmsg.DescribeQuorumResponseTopicPartition) {
	for _, s := range answer.CurrentVoters {
		at := place{s.LogEndOffset, -1, -1}
		s.UnknownTags.Each(func(key uint32, body []byte) {
			if key != metadata.TagCopyPlace {
				return
			}
			if told, err := metadata.DecodeCopyPlace(body); err == nil {
				at.flushed, at.start = told.Flushed, told.LogStart
			}
		})
		if s.ReplicaID == node {
			p.own[node] = at
			p.hw[node] = answer.HighWatermark
		} else if answer.ErrorCode == 0 {
			p.byLeader[s.ReplicaID] = at
		}
	}
}
