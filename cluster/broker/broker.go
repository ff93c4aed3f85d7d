// Package broker assembles a node: it opens the data directory, starts gossip, raft and the listeners, registers with
// the controller, and hands every new image to the replicas. It alone adapts one layer's interfaces to another's, and
// decides nothing by itself.
package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"cordwood/cluster/controller"
	"cordwood/cluster/membership"
	"cordwood/cluster/replica"
	"cordwood/configs"
	"cordwood/fsm/metadata"
	"cordwood/logstore"
	"cordwood/logstore/vfs"
	"cordwood/transport"
	"cordwood/transport/admin"
	"cordwood/transport/api"
	"cordwood/transport/rpc"
)

// Limits of a stop, for each of its steps.
const (
	drainLimit = 15 * time.Second
	closeLimit = 10 * time.Second
)

// Options is what a broker needs.
type Options struct {
	Config  *configs.Config
	Version string
	Logger  *slog.Logger
}

// Broker is one running node. Run owns it; the other methods are for handlers and checks.
type Broker struct {
	opt Options
	cfg *configs.Config
	log *slog.Logger

	registry   *prometheus.Registry
	fsync      prometheus.Observer
	recovery   prometheus.Gauge
	fs         vfs.FS
	fault      *vfs.Fault       // with dev_mode
	wall       func() time.Time // for records and what people read; nothing that is waited for hangs on it
	slower     atomic.Int64     // nanoseconds by which replication is delayed, with dev_mode
	dir        *logstore.Dir
	inspection logstore.Inspection
	defaults   *metadata.Defaults
	deltas     *deltas
	history    *history
	members    *membership.Membership
	controller *controller.Controller
	pool       *rpc.Pool
	up         *upstream
	session    *session
	replicas   *replica.Manager
	server     *transport.Server
	http       *admin.Server

	registered atomic.Bool // registered, and metadata replayed to the registration
	opened     atomic.Bool // the clients' listeners accept
	fatal      chan error  // holds the first thing that this process cannot live on with
	loops      sync.WaitGroup
}

// New checks the options; nothing is opened before Run.
func New(opt Options) (*Broker, error) {
	defaults, err := metadata.NewDefaults(topicOverrides(opt.Config))
	if err != nil {
		return nil, err
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Broker{opt: opt, cfg: opt.Config, log: opt.Logger.With("node", opt.Config.Node.ID), defaults: defaults,
		registry: prometheus.NewRegistry(), deltas: newDeltas(), history: newHistory(), fatal: make(chan error, 1)}
	b.fsync, b.recovery = storageMetrics(b.registry, opt.Config.Node.DataDir)
	b.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo(opt.Version))
	return b, nil
}

// Run runs the node until ctx ends, then stops it in order: leaders are given away, clients answered, logs flushed and
// the directory marked clean. It returns the reason for an end that nobody asked for.
func (b *Broker) Run(ctx context.Context) error {
	if err := b.open(ctx); err != nil {
		if ctx.Err() != nil {
			b.log.Info("stopped before the start was done", "at", err)
			err = nil // whoever stops a node that still starts asked for just this end
		}
		return errors.Join(err, b.close(false))
	}
	running, stop := context.WithCancel(context.Background())
	defer stop()
	starting, cancel := context.WithCancel(ctx)
	defer cancel()
	b.loops.Go(func() { b.watchGossip(running) })
	b.loops.Go(func() {
		if err := joinNames(starting, b.cfg.Cluster.Join, b.clusterFound, namesLimit, lookupHost, b.log); err != nil {
			b.end(err)
		}
	})
	joined := make(chan error, 1)
	b.loops.Go(func() { joined <- b.join(starting, running) })

	var err error
	clean := true
	select {
	case <-ctx.Done():
	case err = <-b.fatal:
		clean = false
	case err = <-joined:
		if err == nil {
			select {
			case <-ctx.Done():
			case err = <-b.fatal:
				clean = false
			}
		}
	}
	cancel()
	if err == nil {
		b.drain()
	}
	stop()
	return errors.Join(err, b.close(clean && err == nil))
}

// die reports what this process cannot live on with; Run ends with it. It never blocks.
func (b *Broker) die(err error) {
	b.log.Error("this process cannot go on", "err", err)
	b.end(err)
}

// end makes Run return err, if it is the first. It never blocks.
func (b *Broker) end(err error) {
	select {
	case b.fatal <- err:
	default:
	}
}

// join registers, waits for metadata, starts the replicas and opens the clients' listeners. starting ends with the wish
// to stop, running with the stop itself.
func (b *Broker) join(starting, running context.Context) error {
	epoch, err := b.session.register(starting)
	if err != nil {
		return ended(starting, b.registerError(err))
	}
	b.loops.Go(func() {
		if err := b.session.run(running, b.replicas); err != nil {
			b.die(err)
		}
	})
	if err := b.controller.WaitIndex(starting, uint64(epoch)); err != nil {
		return ended(starting, err)
	}
	image := b.controller.Image()
	if err := b.belongs(image); err != nil {
		return err
	}
	reg := replica.Registration{BrokerEpoch: epoch, Class: restartClass(image, b.cfg.Node.ID, epoch, b.dir.Session().CleanFlag && b.inspection.Clean)}
	b.log.Info("registered", "epoch", epoch, "class", reg.Class, "cluster", image.ClusterID())
	began := time.Now()
	if err := b.replicas.Start(starting, image, reg, b.inspection); err != nil {
		return ended(starting, err)
	}
	// Only now: a life that ends while logs are opened leaves what was lost before it to be answered for by the next.
	if err := b.dir.Registered(); err != nil {
		return err
	}
	b.recovery.Set(time.Since(began).Seconds())
	b.log.Info("logs opened", "logs", len(b.inspection.Logs), "took", time.Since(began).Round(time.Millisecond).String())
	b.session.index.Store(image.Index())
	b.loops.Go(func() { b.applyLoop(running, image) })
	b.registered.Store(true)
	b.session.ready.Store(true)
	b.session.wake()
	b.loops.Go(func() { b.openWhenUnfenced(running) })
	return nil
}

// ended gives nil for an error that is only the wish to stop.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// belongs checks that the directory and the metadata are of one cluster, and notes the cluster's id.
func (b *Broker) belongs(image *metadata.Image) error {
	if err := b.dir.SetClusterID(image.ClusterID()); err != nil {
		return dirError(b.fs, b.cfg.Node.DataDir, err)
	}
	b.members.SetClusterID(image.ClusterID())
	return nil
}

// applyLoop hands every change since first to the replicas, in order.
func (b *Broker) applyLoop(ctx context.Context, first *metadata.Image) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.deltas.wake:
		}
		d := b.deltas.take()
		if d == nil || d.New.Index() <= first.Index() {
			continue // the start has acted on it
		}
		b.session.index.Store(d.New.Index())
		if err := b.replicas.Apply(d.New, *d); err != nil {
			b.log.Error("a change of metadata could not be acted on in full", "index", d.New.Index(), "err", err)
		}
	}
}

// openWhenUnfenced opens the clients' listeners when the controller has unfenced this node for the first time.
func (b *Broker) openWhenUnfenced(ctx context.Context) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if me := b.controller.Image().Broker(b.cfg.Node.ID); me.Alive() && me.Epoch == b.session.epoch.Load() {
			b.server.Open()
			b.opened.Store(true)
			b.log.Info("ready: clients are served")
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// drain gives leadership away before a stop, as far as there is somebody to take it.
func (b *Broker) drain() {
	if !b.registered.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	began := time.Now()
	err := b.session.drain(ctx)
	if err == nil {
		err = b.replicas.Shutdown(ctx)
	}
	if err != nil {
		b.log.Warn("stopping with partitions still led", "err", err)
		return
	}
	b.log.Info("leaders drained", "took", time.Since(began).Round(time.Millisecond).String())
}

// close ends all parts, the newest first. It is safe after a start that failed half way.
func (b *Broker) close(clean bool) error {
	var errs []error
	limited, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	if b.server != nil {
		if !clean {
			cancel() // connections are closed, not drained
		}
		if err := b.server.Shutdown(limited); err != nil && clean {
			errs = append(errs, fmt.Errorf("connections: %w", err))
		}
	}
	b.loops.Wait()
	if b.replicas != nil {
		errs = append(errs, b.replicas.Close())
	}
	if b.controller != nil {
		errs = append(errs, b.controller.Close())
	}
	if b.members != nil {
		errs = append(errs, b.members.Close())
	}
	if b.pool != nil {
		errs = append(errs, b.pool.Close())
	}
	if b.dir != nil {
		errs = append(errs, b.closeDir(clean))
	}
	if b.http != nil {
		errs = append(errs, b.http.Close())
	}
	if b.fault != nil {
		errs = append(errs, b.fault.Close())
	}
	return errors.Join(errs...)
}

// closeDir marks the directory clean only when the logs were opened and everything before went well: the marks of logs
// that were never opened are not known.
func (b *Broker) closeDir(clean bool) error {
	if !clean || !b.registered.Load() {
		return b.dir.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return b.dir.CloseClean(ctx)
}

var (
	_ api.Metadata    = (*metadataRoad)(nil)
	_ api.Controller  = controllerRoad{}
	_ api.ProducerIDs = (*producerIDs)(nil)
	_ api.Peers       = peers{}
)
