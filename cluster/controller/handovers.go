package controller

import (
	"context"
	"maps"
	"time"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

// handoverWait is how long a leader may take to make its successor ready: it hears of it with its next heartbeat.
const handoverWait = 1500 * time.Millisecond

// handover is what comes before a move from a leader that lives: the leader pauses its appends until the target has all
// of its log, so that the target ties for the most complete one though producers go on.
type handover struct {
	target int32
	epoch  int32 // of the leader that pauses
	leader metadata.BrokerEpoch
	until  time.Time // no longer waited for then
	given  bool      // the duties want it, no operator
	sent   bool      // the leader was asked
	ready  chan struct{}
}

// isReady says that the leader has answered.
func (h *handover) isReady() bool {
	select {
	case <-h.ready:
		return true
	default:
		return false
	}
}

// handOvers begins moves whose leaders are ready.
func (f *dutyFacts) handOvers(plan *dutyPlan) {
	for id, h := range f.handovers {
		p := f.image.Partition(id)
		if !h.given || p == nil || p.LeaderEpoch != h.epoch || p.Leader == metadata.NoNode {
			continue // followHandovers forgets it
		}
		if h.isReady() {
			plan.begin = append(plan.begin, startMove(p, h.target))
		} else {
			plan.lookAgain(h.until)
		}
	}
}

// handOver asks leaders to make targets ready. What is under way for a partition is replaced.
func (k *dutyKeeper) handOver(starts []moveStart, given bool) []*handover {
	now, image := time.Now(), k.r.c.Image()
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]*handover, len(starts))
	for i, s := range starts {
		out[i] = &handover{
			target: s.target, epoch: s.LeaderEpoch, leader: metadata.BrokerEpoch{ID: s.Leader, Epoch: image.BrokerEpoch(s.Leader)},
			until: now.Add(handoverWait), given: given, ready: make(chan struct{}),
		}
		k.handovers[s.Partition] = out[i]
	}
	return out
}

// awaitReady asks leaders to make targets ready, and waits until they are, in vain not longer than a handover may take.
func (k *dutyKeeper) awaitReady(ctx context.Context, starts []moveStart) {
	asked := k.handOver(starts, false)
	t := time.NewTimer(handoverWait)
	defer t.Stop()
wait:
	for _, h := range asked {
		select {
		case <-h.ready:
		case <-t.C:
			break wait
		case <-ctx.Done():
			break wait
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, s := range starts {
		if k.handovers[s.Partition] == asked[i] {
			delete(k.handovers, s.Partition)
		}
	}
}

// asks gives the handovers that the leader of a heartbeat is to begin, once each: its pause ends by itself.
func (k *dutyKeeper) asks(broker metadata.BrokerEpoch) (items []metadata.Handover) {
	pause := int32(k.r.c.opt.SessionTimeout.Milliseconds() / 4)
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, h := range k.handovers {
		if h.leader == broker && !h.sent && len(items) < maxWanted {
			h.sent = true
			items = append(items, metadata.Handover{Partition: id, LeaderEpoch: h.epoch, To: h.target, PauseMS: pause})
		}
	}
	return items
}

// ready takes a leader's word that successors have everything.
func (k *dutyKeeper) ready(broker metadata.BrokerEpoch, items []metadata.Handover) {
	if len(items) == 0 {
		return
	}
	k.mu.Lock()
	for _, i := range items {
		h := k.handovers[i.Partition]
		if h != nil && h.leader == broker && h.epoch == i.LeaderEpoch && h.target == i.To && !h.isReady() {
			close(h.ready)
		}
	}
	k.mu.Unlock()
	signal(k.heard)
}

// followHandovers drops what is over: the epoch went on, or the leader took too long. Under mu.
func (k *dutyKeeper) followHandovers(image *metadata.Image, now time.Time) {
	maps.DeleteFunc(k.handovers, func(id record.PartitionID, h *handover) bool {
		p := image.Partition(id)
		if p == nil || p.LeaderEpoch != h.epoch {
			return true
		}
		if now.Before(h.until) {
			return false
		}
		if h.given {
			k.decline(id, now)
		}
		return true
	})
}

// decline notes that the leadership of a partition was not given back. Under mu.
func (k *dutyKeeper) decline(id record.PartitionID, now time.Time) {
	tries := k.declined[id].tries + 1
	k.declined[id] = declined{tries: tries, until: now.Add(min(k.r.c.opt.PreferredInterval<<min(tries, 10), declinedLast))}
}
