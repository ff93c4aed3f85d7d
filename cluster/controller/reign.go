package controller

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

const (
	reignRetry = 200 * time.Millisecond // between attempts to begin serving
	maxNews    = 4096                   // events that wait to be logged
	maxRefused = 1024                   // nodes whose last refusal is remembered
)

// reign is one stretch of time in which this node leads raft. It owns all that only the controller knows; none of it
// outlives the leadership. The metadata decides, this is a cache of facts.
type reign struct {
	c      *Controller
	log    *slog.Logger
	term   uint64
	begun  time.Time
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{}

	mu      sync.Mutex // guards what follows, and the growth of wait
	ending  bool
	refused map[int32]string // by node: the last refusal of a registration or heartbeat that was logged
	wait    sync.WaitGroup

	serving atomic.Bool // the barrier has passed and the cluster has an id

	sessions *sessionKeeper
	changes  *changeQueue
	duties   *dutyKeeper
	voters   *voterKeeper
	news     chan metadata.Event // for tell
	missed   atomic.Int64        // events that found news full
}

func newReign(c *Controller, term uint64) *reign {
	r := &reign{c: c, log: c.log.With("term", term), term: term, begun: time.Now(), ended: make(chan struct{}), refused: map[int32]string{}, news: make(chan metadata.Event, maxNews)}
	r.ctx, r.cancel = context.WithCancel(c.ctx)
	r.sessions = newSessionKeeper(r)
	r.changes = newChangeQueue(r)
	r.duties = newDutyKeeper(r)
	r.voters = newVoterKeeper(r)
	return r
}

// run takes office, serves until the leadership ends, and waits for the reign's goroutines.
func (r *reign) run() {
	defer close(r.ended)
	defer r.cancel()
	// From here on every delta is noted, so that nothing between the first look at the image and the first delta is lost.
	r.c.reign.Store(r)
	defer r.c.reign.CompareAndSwap(r, nil)
	if !r.takeOffice() {
		return
	}
	r.log.Info("this node is the controller", "cluster", r.c.Image().ClusterID(), "after", time.Since(r.begun).Round(time.Millisecond))
	r.sessions.takeOver()
	r.duties.takeOver()
	r.serving.Store(true)
	r.start(r.tellNews)
	r.start(r.sessions.loop)
	r.start(r.changes.loop)
	r.start(r.duties.loop)
	r.start(r.voters.loop)
	<-r.ctx.Done()
	r.serving.Store(false)
	r.mu.Lock()
	r.ending = true
	r.mu.Unlock()
	r.wait.Wait()
	r.log.Info("this node is the controller no more")
}

// start starts a goroutine that the reign waits for; nothing once it is ending.
func (r *reign) start(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ending {
		return
	}
	r.wait.Add(1)
	go func() {
		defer r.wait.Done()
		f()
	}()
}

// takeOffice waits until everything committed before is applied here, and creates the cluster if this is its first
// controller. False: the leadership ended.
func (r *reign) takeOffice() bool {
	for !r.barrier() {
		if !r.pause(reignRetry) {
			return false
		}
	}
	for r.c.Image().ClusterID() == "" {
		// The id has the form that Kafka's have.
		cmd := &metadata.SetCluster{ClusterID: record.NewTopicID().String(), Level: r.c.levelToFound()}
		_, err := r.c.apply(r.ctx, cmd)
		if err == nil && r.c.Image().ClusterID() != "" {
			r.log.Info("cluster founded", "cluster", r.c.Image().ClusterID())
			break
		}
		if !r.pause(reignRetry) {
			return false
		}
	}
	return r.ctx.Err() == nil
}

// refusal logs why a node is not served, once for each reason: it tries again and again.
func (r *reign) refusal(node int32, what string, err error) {
	why := ""
	if err != nil {
		why = what + " refused: " + err.Error()
	}
	r.mu.Lock()
	known := r.refused[node] == why
	switch {
	case why == "":
		delete(r.refused, node)
	case len(r.refused) < maxRefused:
		r.refused[node] = why
	}
	r.mu.Unlock()
	if !known && why != "" {
		r.log.Info(why, "node", node)
	}
}

// barrier says that every entry committed before this reign has been applied here.
func (r *reign) barrier() bool {
	f := r.c.node.raft.Barrier(r.c.opt.ProposeTimeout)
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	select {
	case err := <-done:
		if err != nil {
			r.log.Info("barrier of a new controller not passed", "err", err)
		}
		return err == nil
	case <-r.ctx.Done():
		return false
	}
}

// pause waits, and says that the reign goes on.
func (r *reign) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return r.ctx.Err() == nil
	case <-r.ctx.Done():
		return false
	}
}

// note takes a change of the metadata, on raft's own goroutine: it only marks what to look at.
func (r *reign) note(delta metadata.Delta) {
	r.duties.note(delta)
	if delta.Full || len(delta.Brokers) > 0 {
		r.sessions.poke()
	}
	if !r.serving.Load() {
		return
	}
	for _, e := range delta.Events {
		if e.Kind == metadata.EventDataLoss {
			r.c.metrics.dataLoss.Inc()
		}
		select {
		case r.news <- e:
		default:
			r.missed.Add(1)
		}
	}
}

// tellNews logs what the metadata decided, until the reign ends.
func (r *reign) tellNews() {
	for {
		select {
		case e := <-r.news:
			r.tell(e)
			if n := r.missed.Swap(0); n > 0 {
				r.log.Warn("metadata events came too fast to be logged", "missed", n)
			}
		case <-r.ctx.Done():
			return
		}
	}
}

func (r *reign) tell(e metadata.Event) {
	level := slog.LevelInfo
	switch e.Kind {
	case metadata.EventDataLoss, metadata.EventPartitionOffline, metadata.EventPartitionUnsafe, metadata.EventReplicaDamaged:
		level = slog.LevelWarn
	}
	args := []any{"kind", e.Kind}
	if e.Topic != "" {
		args = append(args, "topic", e.Topic, "partition", e.Partition.Partition)
	}
	if e.Broker != metadata.NoNode {
		args = append(args, "broker", e.Broker)
	}
	if e.Unsafe != nil {
		first, counted := e.Unsafe.Lost()
		args = append(args, "mayBeGoneFrom", first, "committedBelow", counted)
	}
	r.log.Log(r.ctx, level, "metadata: "+e.Detail, args...)
}
