// Package torture drives a workload of Kafka clients against a cluster while nemeses break it, and judges what the clients
// did and saw.
package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"cordwood/integration/history"
	"cordwood/integration/nemesis"
	"cordwood/integration/workload"
)

// Options says what a run does.
type Options struct {
	Place     Place         // where the cluster is; the caller closes it
	Duration  time.Duration // of the faults
	Faults    []string      // names or classes of nemeses; empty: none
	Period    time.Duration // how long faults are left alone, and then the cluster; 0: 5 s
	Recovery  time.Duration // how long the cluster may take to be whole after the last fault; 0: 2 min
	Session   time.Duration // after how long the cluster fences a silent node
	Seed      uint64
	Processes int     // clients at a time
	Rate      float64 // operations a second of all together; 0: as many as they can
	Client    string  // library of the clients: workload.Franz, Librdkafka or Both; empty: Franz
	Flags     []string
	History   io.Writer      // where the history is written line by line; nil: nowhere
	Progress  func(Progress) // is told every second; nil: nobody
}

// Progress is how far a run is.
type Progress struct {
	Phase        string // starting, running, healing, reading, checking
	Elapsed      time.Duration
	Of           time.Duration // of the phase; 0: not known
	Operations   int64
	Acknowledged int64
	Anomalies    int      // that one look shows; the judgement comes in the end
	Faults       []string // under way
}

// Result is a run and its judgement.
type Result struct {
	History   *history.History
	Report    history.Report
	Timeline  Timeline
	Faults    map[string]int // how often each was done, by name
	Clients   map[string]int // operations, by the library that did them
	Skipped   []string       // nemeses that cannot work here, and why
	Unsettled error          // what the cluster lacked long after the last fault was healed; nil: nothing
	Unread    error          // what clients could not read to its end in time; nil: nothing
}

// Place is where a cluster is.
type Place interface {
	// Start brings the cluster up and returns when it serves.
	Start(ctx context.Context) error
	// Bootstrap gives addresses for clients.
	Bootstrap() []string
	// Size is the number of nodes, 0 as long as it is not known: at the latest after Start it is.
	Size() int
	// Foreign says that the cluster has none of our topic settings.
	Foreign() bool
	// Nemesis is what faults are done to; nil: nothing can be done to it.
	Nemesis() nemesis.Cluster
	// Able says whether this place gives a fault what it needs, beside what the fault itself checks; nil, or an error that
	// wraps nemesis.ErrCannot.
	Able(fault string) error
	// Made is told which topics were made.
	Made(topics []string)
	// Settled waits until all replicas are in sync and nothing is under way.
	Settled(ctx context.Context) error
	// Collect ends the nodes in order, and gives what they have on their disks and told of losses, as far as anybody can
	// know.
	Collect(h *history.Header) ([]history.Copy, []history.Loss, error)
	// Close ends everything that Start began, whatever state it is in.
	Close() error
}

// Bounds of the phases of a run.
const (
	startWithin  = time.Minute
	finishWithin = 3 * time.Minute

	defaultPeriod   = 5 * time.Second
	defaultRecovery = 2 * time.Minute
)

// Run does one run. An error says that it could not be done; what it found stands in the result. A cluster that does not
// recover is read and judged like any other: what it holds is what its users would have.
func Run(ctx context.Context, opt Options) (*Result, error) {
	if opt.Period == 0 {
		opt.Period = defaultPeriod
	}
	if opt.Recovery == 0 {
		opt.Recovery = defaultRecovery
	}
	r := &runner{opt: opt, under: map[string]int{}}
	defer r.watch(ctx)()
	if err := workload.CheckClient(opt.Client); err != nil { // before anything is started
		return nil, err
	}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	if err := r.drive(ctx); err != nil {
		return nil, err
	}
	return r.judge()
}

// runner is one run under way.
type runner struct {
	opt       Options
	rec       *recorder
	site      *nemesis.Site       // nil: no faults
	schedule  *nemesis.Schedule   // likewise
	unable    map[string][]string // faults that the place gives no means for, by why
	unsettled error               // what is missing until the cluster is whole again
	unread    error               // what clients could not read in the end; whether that is a loss the checker says

	phase
	work  *workload.Run  // of phase's mutex, as below
	under map[string]int // faults under way
}

// prepare starts the cluster and makes the topics.
func (r *runner) prepare(ctx context.Context) error {
	if r.opt.Place.Size() > 0 { // what cannot be is said before anything is started
		if _, _, err := r.plan(nil, time.Now()); err != nil {
			return err
		}
	}
	r.enter("starting", 0)
	limited, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	if err := r.opt.Place.Start(limited); err != nil {
		return err
	}
	nodes := r.opt.Place.Size()
	topics := topicSet(nodes)
	if r.opt.Place.Foreign() {
		topics = foreignTopics(min(3, nodes))
	}
	h := history.Header{Version: history.Version, Began: time.Now(), Seed: r.opt.Seed, Nodes: nodes, Flags: r.opt.Flags, Topics: topics, Keys: keysOf(topics)}
	client, err := kgo.NewClient(kgo.SeedBrokers(r.opt.Place.Bootstrap()...))
	if err != nil {
		return err
	}
	defer client.Close()
	r.opt.Place.Made(names(topics))
	if err := createTopics(limited, kadm.NewClient(client), topics, r.opt.Place.Foreign()); err != nil {
		return err
	}
	if err := r.opt.Place.Settled(limited); err != nil {
		return fmt.Errorf("the new topics: %w", err)
	}
	if h.Transactions, err = workload.TryTransaction(limited, r.opt.Place.Bootstrap(), &h); err != nil {
		return err
	}
	if h.Subscriptions, err = workload.TrySubscription(limited, r.opt.Place.Bootstrap(), r.opt.Client, &h); err != nil {
		return err
	}
	h.Began = time.Now()
	if r.rec, err = newRecorder(h, r.opt.History); err != nil {
		return err
	}
	work, err := workload.NewRun(workload.RunOptions{
		Seeds: r.opt.Place.Bootstrap(), Header: &r.rec.h.Header, Processes: r.opt.Processes, Rate: r.opt.Rate,
		Crash: time.Duration(r.opt.Processes) * crashEvery, Sink: r.rec, Client: r.opt.Client,
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.work = work
	r.mu.Unlock()
	site, schedule, err := r.plan(topics, h.Began)
	if err != nil {
		return err
	}
	r.site, r.schedule = site, schedule
	if site != nil {
		return site.Settle(limited)
	}
	return nil
}

// crashEvery is how often any client is given up.
const crashEvery = 5 * time.Second

func names(topics []history.Topic) (out []string) {
	for _, t := range topics {
		out = append(out, t.Name)
	}
	return out
}

// drive runs the clients under faults, heals, and lets everybody read everything.
func (r *runner) drive(ctx context.Context) (err error) {
	r.enter("running", r.opt.Duration)
	clients, stop := context.WithCancel(ctx)
	driven := make(chan struct{})
	go func() {
		defer close(driven)
		r.work.Drive(clients)
	}()
	faulted := r.faults(ctx)
	r.enter("healing", r.opt.Recovery)
	r.unsettled = errors.Join(faulted, r.settle(ctx))
	stop()
	<-driven
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.enter("reading", finishWithin)
	r.unread = r.work.Finish(ctx, finishWithin, r.unsettled == nil)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	copies, losses, err := r.opt.Place.Collect(&r.rec.h.Header)
	if err != nil {
		return err
	}
	explain(losses, copies, r.rec.faults(), r.whole())
	return r.rec.collected(copies, losses)
}

// whole gives the moments at which all copies were whole.
func (r *runner) whole() (at []time.Duration) {
	if r.site == nil {
		return nil
	}
	for _, t := range r.site.Whole() {
		at = append(at, t.Sub(r.rec.h.Header.Began))
	}
	return at
}

func (r *runner) settle(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, r.opt.Recovery)
	defer cancel()
	if err := r.opt.Place.Settled(limited); err != nil {
		return fmt.Errorf("the cluster did not recover within %v of the last fault: %w", r.opt.Recovery, err)
	}
	return nil
}

// judge closes the history and checks it.
func (r *runner) judge() (*Result, error) {
	r.enter("checking", 0)
	h, err := r.rec.close()
	if err != nil {
		return nil, err
	}
	res := Judge(h)
	res.Skipped, res.Unsettled, res.Unread = r.leftOut(r.schedule), r.unsettled, r.unread
	return res, nil
}

// Judge checks a history that was recorded before.
func Judge(h *history.History) *Result {
	r := &Result{History: h, Report: history.Check(h), Timeline: timelineOf(h), Faults: map[string]int{}, Clients: map[string]int{}, Skipped: []string{}}
	for _, f := range h.Faults {
		r.Faults[f.Name]++
	}
	for i := range h.Ops {
		r.Clients[cmp.Or(h.Ops[i].Client, workload.Franz)]++
	}
	return r
}
