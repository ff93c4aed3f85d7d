package controller

import (
	"maps"
	"slices"
	"sync"
	"time"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

const (
	dutyTick   = time.Second           // the longest between two looks
	dutyRest   = 20 * time.Millisecond // the shortest: what happens meanwhile is looked at together
	reportRest = 2 * time.Millisecond  // the same after reports: one may complete a majority
	slowAfter  = 2 * time.Second       // a safe election that is still waited for then is told of
)

// dutyKeeper runs the regular duties of the controller. One mutex guards its facts; one loop acts.
type dutyKeeper struct {
	r     *reign
	poked chan struct{}
	heard chan struct{} // reports came

	mu        sync.Mutex
	moved     map[record.PartitionID]struct{} // partitions whose leader may not be the preferred one
	changing  map[record.PartitionID]struct{} // partitions whose replicas may be changing
	all       bool                            // every partition must be looked at
	reports   reports
	wanted    map[int32]map[record.PartitionID]struct{}
	forced    map[record.PartitionID]int32
	flaps     map[record.PartitionID]flap
	moves     map[record.PartitionID]*move
	handovers map[record.PartitionID]*handover
	declined  map[record.PartitionID]declined
	held      map[record.PartitionID]int32
	full      map[int32]int64               // broker epochs of the nodes whose disk takes no records
	waiting   map[record.PartitionID]string // as last told to operators
	slow      map[record.PartitionID]slowness
	gaveBack  time.Time
}

// slowness is since when the election of an epoch is waited for.
type slowness struct {
	epoch int32
	since time.Time
}

func newDutyKeeper(r *reign) *dutyKeeper {
	return &dutyKeeper{
		r: r, poked: make(chan struct{}, 1), heard: make(chan struct{}, 1), all: true,
		moved: map[record.PartitionID]struct{}{}, changing: map[record.PartitionID]struct{}{},
		reports: reports{}, wanted: map[int32]map[record.PartitionID]struct{}{},
		forced: map[record.PartitionID]int32{}, flaps: map[record.PartitionID]flap{},
		moves: map[record.PartitionID]*move{}, handovers: map[record.PartitionID]*handover{}, declined: map[record.PartitionID]declined{}, held: map[record.PartitionID]int32{}, full: map[int32]int64{},
		waiting: map[record.PartitionID]string{}, slow: map[record.PartitionID]slowness{},
		gaveBack: r.begun,
	}
}

func (k *dutyKeeper) poke() { signal(k.poked) }

// signal leaves one token for the loop.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// takeOver makes ready what the first heartbeats are asked: a new controller has no reports. The loop's first look covers
// every partition and acts.
func (k *dutyKeeper) takeOver() {
	k.think(k.r.c.Image(), time.Now())
	k.mu.Lock()
	k.all, k.waiting = true, map[record.PartitionID]string{} // nobody was told yet
	k.mu.Unlock()
	k.poke()
}

// note takes a change of the metadata; it only marks what to look at.
func (k *dutyKeeper) note(delta metadata.Delta) {
	soon := delta.Full || len(delta.Brokers) > 0
	k.mu.Lock()
	k.all = k.all || delta.Full
	for _, id := range delta.Partitions {
		k.moved[id] = struct{}{}
		p := delta.New.Partition(id)
		if p == nil {
			continue
		}
		if reassigned(p) {
			k.changing[id] = struct{}{}
		}
		soon = soon || p.Leader == metadata.NoNode || len(p.Adding) > 0
	}
	k.mu.Unlock()
	if soon {
		k.poke()
	}
}

// report takes what the replicas of one broker say of their logs.
func (k *dutyKeeper) report(broker metadata.BrokerEpoch, items []metadata.ReplicaReportItem) {
	if len(items) == 0 {
		return
	}
	k.mu.Lock()
	w := k.wanted[broker.ID]
	for _, i := range items {
		k.reports.add(i.Partition, i.Epoch, metadata.ReplicaReport{Broker: broker, LastEpoch: i.LastEpoch, End: i.End, HW: i.HW})
		delete(w, i.Partition)
	}
	k.mu.Unlock()
	signal(k.heard)
}

// wants gives the partitions that a broker is asked to report.
func (k *dutyKeeper) wants(broker int32) []record.PartitionID {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Keys(k.wanted[broker]))
}

// force asks for an unclean election of partitions that have no leader, of one replica or of any (metadata.NoNode).
func (k *dutyKeeper) force(ids []record.PartitionID, replica int32) {
	k.mu.Lock()
	for _, id := range ids {
		k.forced[id] = replica
	}
	k.mu.Unlock()
	k.poke()
}

// unforce takes the wish back.
func (k *dutyKeeper) unforce(ids []record.PartitionID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range ids {
		delete(k.forced, id)
	}
}

// underWay counts the partitions whose replicas are being changed.
func (k *dutyKeeper) underWay() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.changing)
}

func (k *dutyKeeper) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-k.r.ctx.Done():
			return
		case <-k.poked:
			if !k.gather() {
				return
			}
		case <-k.heard:
			if !k.r.pause(reportRest) {
				return
			}
		case <-timer.C:
		}
		again := k.look(time.Now())
		sleep := dutyTick
		if !again.IsZero() {
			sleep = max(reportRest, min(sleep, time.Until(again)))
		}
		timer.Reset(sleep)
	}
}

// gather lets what happens together be looked at together; reports do not wait for it. False: the reign is over.
func (k *dutyKeeper) gather() bool {
	t := time.NewTimer(dutyRest)
	defer t.Stop()
	select {
	case <-t.C:
	case <-k.heard:
	case <-k.r.ctx.Done():
		return false
	}
	return true
}

// look plans and does what is due now, and says when it should look again before the next tick.
func (k *dutyKeeper) look(now time.Time) time.Time {
	image := k.r.c.Image()
	plan, news := k.think(image, now)
	k.tellWaiting(image, news)
	k.act(plan)
	return plan.again
}

// think brings the facts in line with an image and plans. What brokers are asked changes with it.
func (k *dutyKeeper) think(image *metadata.Image, now time.Time) (plan dutyPlan, news map[record.PartitionID]string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forgetOld(image, now)
	k.followHandovers(image, now)
	k.followMoves(image, now)
	plan = planDuties(dutyFacts{
		now: now, image: image, moved: slices.Collect(maps.Keys(k.moved)), changing: slices.Collect(maps.Keys(k.changing)),
		reports: k.reports, flaps: k.flaps, forced: k.forced, moves: k.moves, handovers: k.handovers, declined: k.declined, held: k.held,
		full: k.fullNodes(image), unclean: k.r.c.opt.Unclean, giveBack: now.Sub(k.gaveBack) >= k.r.c.opt.PreferredInterval,
	})
	for _, id := range plan.settled {
		delete(k.moved, id)
	}
	for _, id := range plan.still {
		delete(k.changing, id)
	}
	for id, why := range plan.missed {
		k.moves[id].missed = why
	}
	k.wanted = map[int32]map[record.PartitionID]struct{}{}
	for b, ids := range plan.wanted {
		k.wanted[b] = make(map[record.PartitionID]struct{}, len(ids))
		for _, id := range ids {
			k.wanted[b][id] = struct{}{}
		}
	}
	if len(plan.give)+len(plan.handOver) > 0 && !plan.more {
		k.gaveBack = now
	}
	k.slowOnes(image, &plan, now)
	return plan, k.newlyWaiting(plan.waiting)
}

// forgetOld drops what says nothing any more, and takes every partition to look at when asked to.
func (k *dutyKeeper) forgetOld(image *metadata.Image, now time.Time) {
	if k.all {
		k.all = false
		for t := range image.Topics() {
			for _, p := range t.Partitions {
				if len(p.Replicas) > 0 && p.Leader != p.Replicas[0] {
					k.moved[p.ID] = struct{}{}
				}
				if reassigned(p) {
					k.changing[p.ID] = struct{}{}
				}
			}
		}
	}
	led := func(id record.PartitionID) bool {
		p := image.Partition(id)
		return p == nil || p.Leader != metadata.NoNode
	}
	maps.DeleteFunc(k.reports, func(id record.PartitionID, r *partitionReports) bool {
		p := image.Partition(id)
		// A report of an epoch that this image has not reached is kept: a broker may be ahead of it.
		return p == nil || r.epoch <= p.LeaderEpoch && p.Leader != metadata.NoNode
	})
	maps.DeleteFunc(k.forced, func(id record.PartitionID, _ int32) bool { return led(id) })
	maps.DeleteFunc(k.flaps, func(id record.PartitionID, f flap) bool {
		return image.Partition(id) == nil || led(id) && now.Sub(f.at) >= flapLived
	})
}

// noteElections counts elections of partitions whose leaders do not live.
func (k *dutyKeeper) noteElections(ids []record.PartitionID) {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range ids {
		f := k.flaps[id]
		if now.Sub(f.at) >= flapLived {
			f.tries = 0
		}
		k.flaps[id] = flap{tries: f.tries + 1, at: now}
	}
}

// slowOnes adds to what operators are told the safe elections that take long.
func (k *dutyKeeper) slowOnes(image *metadata.Image, plan *dutyPlan, now time.Time) {
	slow := make(map[record.PartitionID]slowness, len(plan.slow))
	for id, why := range plan.slow {
		s := slowness{epoch: image.Partition(id).LeaderEpoch, since: now}
		if was, ok := k.slow[id]; ok && was.epoch == s.epoch {
			s.since = was.since
		}
		slow[id] = s
		if now.Sub(s.since) >= slowAfter {
			plan.waiting[id] = why
		}
	}
	k.slow = slow
}

// newlyWaiting gives what changed about the partitions that stay without a leader.
func (k *dutyKeeper) newlyWaiting(waiting map[record.PartitionID]string) map[record.PartitionID]string {
	news := map[record.PartitionID]string{}
	for id, why := range waiting {
		if k.waiting[id] != why {
			news[id] = why
		}
	}
	k.waiting = waiting
	return news
}

// tellWaiting logs why partitions stay without a leader.
func (k *dutyKeeper) tellWaiting(image *metadata.Image, news map[record.PartitionID]string) {
	for id, why := range news {
		name := id.Topic.String()
		if t := image.TopicByID(id.Topic); t != nil {
			name = t.Name
		}
		safety := metadata.Offline
		if p := image.Partition(id); p != nil {
			safety = image.Safety(p)
		}
		k.r.log.Warn("partition without a leader", "topic", name, "partition", id.Partition, "state", safety, "waiting", why)
	}
}
