package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

const (
	dutyTick = time.Second           // the longest between two looks
	dutyRest = 20 * time.Millisecond // the shortest: what happens meanwhile is looked at together
)

// dutyKeeper runs the regular duties of the controller. One mutex guards its facts; one loop acts.
type dutyKeeper struct {
	r     *reign
	poked chan struct{}

	mu       sync.Mutex
	moved    map[record.PartitionID]struct{} // partitions whose leader may not be the preferred one
	all      bool                            // every partition must be looked at
	reports  reports
	wanted   map[int32]map[record.PartitionID]struct{}
	forced   map[record.PartitionID]bool
	flaps    map[record.PartitionID]flap
	waiting  map[record.PartitionID]string // as last told to operators
	gaveBack time.Time
}

func newDutyKeeper(r *reign) *dutyKeeper {
	return &dutyKeeper{
		r: r, poked: make(chan struct{}, 1), all: true,
		moved: map[record.PartitionID]struct{}{}, reports: reports{}, wanted: map[int32]map[record.PartitionID]struct{}{},
		forced: map[record.PartitionID]bool{}, flaps: map[record.PartitionID]flap{}, waiting: map[record.PartitionID]string{},
		gaveBack: r.begun,
	}
}

func (k *dutyKeeper) poke() {
	select {
	case k.poked <- struct{}{}:
	default:
	}
}

// rescan makes the next look cover every partition.
func (k *dutyKeeper) rescan() {
	k.mu.Lock()
	k.all = true
	k.mu.Unlock()
	k.poke()
}

// note takes a change of the metadata; it only marks what to look at.
func (k *dutyKeeper) note(delta metadata.Delta) {
	k.mu.Lock()
	k.all = k.all || delta.Full
	for _, id := range delta.Partitions {
		k.moved[id] = struct{}{}
	}
	k.mu.Unlock()
	if delta.Full || len(delta.Brokers) > 0 || anyLeaderless(delta) {
		k.poke()
	}
}

// anyLeaderless says that a partition that changed has no leader now.
func anyLeaderless(delta metadata.Delta) bool {
	if delta.New.LeaderlessCount() == 0 {
		return false
	}
	return slices.ContainsFunc(delta.Partitions, func(id record.PartitionID) bool {
		p := delta.New.Partition(id)
		return p != nil && p.Leader == metadata.NoNode
	})
}

// report takes what a replica says of its log.
func (k *dutyKeeper) report(id record.PartitionID, epoch int32, rep metadata.ReplicaReport) {
	k.mu.Lock()
	k.reports.add(id, epoch, rep)
	if w := k.wanted[rep.Broker.ID]; w != nil {
		delete(w, id)
	}
	k.mu.Unlock()
	k.poke()
}

// wants gives the partitions that a broker is asked to report.
func (k *dutyKeeper) wants(broker int32) []record.PartitionID {
	k.mu.Lock()
	defer k.mu.Unlock()
	var ids []record.PartitionID
	for id := range k.wanted[broker] {
		ids = append(ids, id)
	}
	return ids
}

// force asks for an unclean election of partitions that have no leader, or takes the wish back.
func (k *dutyKeeper) force(ids []record.PartitionID, on bool) {
	k.mu.Lock()
	for _, id := range ids {
		if on {
			k.forced[id] = true
		} else {
			delete(k.forced, id)
		}
	}
	k.mu.Unlock()
	k.poke()
}

func (k *dutyKeeper) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-k.r.ctx.Done():
			return
		case <-k.poked:
			if !k.r.pause(dutyRest) {
				return
			}
		case <-timer.C:
		}
		again := k.look(time.Now())
		sleep := dutyTick
		if !again.IsZero() {
			sleep = max(dutyRest, min(sleep, time.Until(again)))
		}
		timer.Reset(sleep)
	}
}

// look plans and does what is due now, and says when it should look again before the next tick.
func (k *dutyKeeper) look(now time.Time) time.Time {
	image := k.r.c.Image()
	k.mu.Lock()
	k.forgetOld(image, now)
	facts := dutyFacts{
		now: now, image: image, reports: k.reports, flaps: k.flaps, forced: k.forced, unclean: k.r.c.opt.Unclean,
		giveBack: now.Sub(k.gaveBack) >= k.r.c.opt.PreferredInterval,
	}
	for id := range k.moved {
		facts.moved = append(facts.moved, id)
	}
	plan := planDuties(facts)
	for _, id := range plan.settled {
		delete(k.moved, id)
	}
	k.wanted = map[int32]map[record.PartitionID]struct{}{}
	for b, ids := range plan.wanted {
		k.wanted[b] = make(map[record.PartitionID]struct{}, len(ids))
		for _, id := range ids {
			k.wanted[b][id] = struct{}{}
		}
	}
	news := k.newlyWaiting(plan.waiting)
	for _, e := range plan.elect {
		k.noteElection(e.Partition, now)
	}
	for _, e := range plan.unsafe {
		k.noteElection(e.Partition, now)
	}
	if len(plan.give) > 0 {
		k.gaveBack = now
	}
	k.mu.Unlock()

	k.tellWaiting(image, news)
	k.elect("safe", plan.elect)
	k.elect("preferred", plan.give)
	k.unsafeElect(plan.unsafe)
	return plan.again
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
			}
		}
	}
	led := func(id record.PartitionID) bool {
		p := image.Partition(id)
		return p == nil || p.Leader != metadata.NoNode
	}
	maps.DeleteFunc(k.reports, func(id record.PartitionID, r *partitionReports) bool { return led(id) })
	maps.DeleteFunc(k.forced, func(id record.PartitionID, _ bool) bool { return led(id) })
	maps.DeleteFunc(k.flaps, func(id record.PartitionID, f flap) bool {
		return image.Partition(id) == nil || led(id) && now.Sub(f.at) >= flapLived
	})
}

// noteElection counts elections of partitions whose leaders do not live.
func (k *dutyKeeper) noteElection(id record.PartitionID, now time.Time) {
	f := k.flaps[id]
	if now.Sub(f.at) >= flapLived {
		f.tries = 0
	}
	k.flaps[id] = flap{tries: f.tries + 1, at: now}
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
		k.r.log.Warn("partition without a leader, and nobody is known to have every committed record", "topic", name, "partition", id.Partition, "waiting", why)
	}
}

// elect proposes elections and gives back what became of each.
func (k *dutyKeeper) elect(kind string, elections []metadata.Election) ([]error, error) {
	if len(elections) == 0 {
		return nil, nil
	}
	res, err := k.r.c.apply(k.r.ctx, &metadata.Elect{Elections: elections})
	if err != nil {
		k.r.log.Info("elections not proposed", "kind", kind, "partitions", len(elections), "err", err)
		return nil, err
	}
	won := succeeded(res)
	k.r.c.metrics.elections.WithLabelValues(kind).Add(float64(won))
	k.r.log.Info("leaders elected", "kind", kind, "partitions", won, "refused", len(elections)-won)
	return res.Items, nil
}

func (k *dutyKeeper) unsafeElect(elections []metadata.UnsafeElection) {
	if len(elections) == 0 {
		return
	}
	res, err := k.r.c.apply(k.r.ctx, &metadata.UnsafeElect{Elections: elections})
	if err != nil {
		k.r.log.Info("elections not proposed", "kind", "unsafe", "partitions", len(elections), "err", err)
		return
	}
	for i, e := range res.Items {
		if e != nil {
			k.r.log.Info("unsafe election refused", "partition", elections[i].Partition, "err", e)
		}
	}
	k.r.c.metrics.elections.WithLabelValues("unsafe").Add(float64(succeeded(res)))
}

func succeeded(res metadata.Result) (n int) {
	for _, e := range res.Items {
		if e == nil {
			n++
		}
	}
	return n
}

// ElectLeaders moves leadership to preferred replicas or, unclean, elects leaders for partitions that have no safe
// candidate; nil partitions means all that need it. One error for every partition asked (for all of those that needed
// it): metadata.ErrElectionNotNeeded, metadata.ErrNotEligible, metadata.ErrUnknownPartition, or why it was not proposed.
func (c *Controller) ElectLeaders(ctx context.Context, unclean bool, partitions []record.PartitionID) map[record.PartitionID]error {
	r := c.active()
	out := make(map[record.PartitionID]error, len(partitions))
	if r == nil {
		for _, id := range partitions {
			out[id] = metadata.ErrNotController
		}
		return out
	}
	if partitions == nil {
		partitions = needElection(c.Image(), unclean)
	}
	if unclean {
		r.electUnclean(ctx, partitions, out)
	} else {
		r.electPreferred(partitions, out)
	}
	return out
}

// needElection lists the partitions that an election for all is about.
func needElection(image *metadata.Image, unclean bool) (ids []record.PartitionID) {
	if unclean {
		for p := range image.Leaderless() {
			ids = append(ids, p.ID)
		}
		return ids
	}
	for t := range image.Topics() {
		for _, p := range t.Partitions {
			if len(p.Replicas) > 0 && p.Leader != p.Replicas[0] {
				ids = append(ids, p.ID)
			}
		}
	}
	return ids
}

func (r *reign) electPreferred(partitions []record.PartitionID, out map[record.PartitionID]error) {
	image := r.c.Image()
	var elections []metadata.Election
	for _, id := range partitions {
		p := image.Partition(id)
		if p == nil {
			out[id] = metadata.ErrUnknownPartition
			continue
		}
		if p.Leader == p.Replicas[0] {
			out[id] = metadata.ErrElectionNotNeeded
			continue
		}
		if err := metadata.CheckCandidate(p, p.Replicas[0], image.Broker); err != nil {
			out[id] = err
			continue
		}
		elections = append(elections, metadata.Election{Partition: id, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Leader: p.Replicas[0]})
	}
	for len(elections) > 0 {
		batch := elections[:min(maxElections, len(elections))]
		elections = elections[len(batch):]
		items, err := r.duties.elect("preferred", batch)
		for i, e := range batch {
			if err != nil {
				out[e.Partition] = err
			} else {
				out[e.Partition] = items[i]
			}
		}
	}
}

// electUnclean marks the partitions and waits until the duties, which gather the reports, have elected or ctx ends.
func (r *reign) electUnclean(ctx context.Context, partitions []record.PartitionID, out map[record.PartitionID]error) {
	image := r.c.Image()
	var open []record.PartitionID
	for _, id := range partitions {
		switch p := image.Partition(id); {
		case p == nil:
			out[id] = metadata.ErrUnknownPartition
		case p.Leader != metadata.NoNode:
			out[id] = metadata.ErrElectionNotNeeded
		default:
			open = append(open, id)
		}
	}
	if len(open) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.c.opt.ProposeTimeout)
	defer cancel()
	stop := context.AfterFunc(r.ctx, cancel)
	defer stop()
	r.duties.force(open, true)
	defer r.duties.force(open, false)
	for {
		image = r.c.Image()
		open = deleteLed(image, open, out)
		if len(open) == 0 {
			return
		}
		if r.c.WaitIndex(ctx, image.Index()+1) != nil {
			break
		}
	}
	for _, id := range open {
		out[id] = fmt.Errorf("%w: no live replica has reported its log in time", metadata.ErrNotEligible)
	}
}

// deleteLed takes out the partitions that have a leader now, or are gone, and notes what became of them.
func deleteLed(image *metadata.Image, ids []record.PartitionID, out map[record.PartitionID]error) (open []record.PartitionID) {
	for _, id := range ids {
		switch p := image.Partition(id); {
		case p == nil:
			out[id] = metadata.ErrUnknownPartition
		case p.Leader != metadata.NoNode:
			out[id] = nil
		default:
			open = append(open, id)
		}
	}
	return open
}
