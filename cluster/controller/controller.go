// Package controller runs raft and, on the node that leads it, the duties of the controller: it registers brokers,
// watches their sessions, fences the lost, elects leaders and looks after raft's voters. It decides nothing that the
// state machine does not judge again: every change is a command, compare-and-set, appended to raft and then applied.
//
// One Controller runs on every node. Start opens raft and returns; a goroutine forms the cluster or waits to be added.
// While this node leads raft and has passed its barrier, a reign is in force: it owns everything that only the
// controller knows (sessions, reports, the queue of ISR changes) and ends with the leadership.
package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"cordwood/fsm"
	"cordwood/fsm/metadata"
)

const (
	maxProposals = 4096             // commands in flight
	closeTimeout = 10 * time.Second // for raft to stop
)

// Controller is this node's part in raft and, when it leads, the cluster's controller. All methods are safe for
// concurrent use after Start.
type Controller struct {
	opt     Options
	log     *slog.Logger
	metrics *metrics

	node    *node
	machine *machine

	ready    atomic.Bool  // node.raft is set
	hasState atomic.Bool  // raft's store held something at start, or was bootstrapped
	founding atomic.Int32 // level at which this process founds the cluster; 0: it has founded none
	reign    atomic.Pointer[reign]
	applied  watch // wakes who waits for an index

	slots  chan struct{} // one token for every command in flight
	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup
	fatal  sync.Once

	leaders leaderLog
}

// New checks the options. Nothing is opened before Start.
func New(opt Options) (*Controller, error) {
	opt.setDefaults()
	if err := opt.validate(); err != nil {
		return nil, err
	}
	c := &Controller{opt: opt, log: opt.Logger, slots: make(chan struct{}, maxProposals)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.machine = &machine{FSM: fsm.New(fsm.Options{Publish: c.publish, Fatal: c.die})}
	c.metrics = newMetrics(c)
	if opt.Registerer != nil {
		if err := c.metrics.register(opt.Registerer); err != nil {
			return nil, fmt.Errorf("controller: metrics: %w", err)
		}
	}
	return c, nil
}

// Start opens raft's files and port and runs raft; it returns when the local snapshot is restored. ctx bounds nothing
// after that. Forming or joining the cluster goes on in the background.
func (c *Controller) Start(_ context.Context) error {
	n, hasState, err := openStore(&c.opt, c.die)
	if err != nil {
		return err
	}
	c.node = n
	c.hasState.Store(hasState)
	s, err := openStream(c.opt.RaftBind, c.opt.RaftAdvertise, c.opt.DirectoryID, c.serveQuestion, c.opt.Dial, c.log)
	if err != nil {
		c.node = nil
		return errors.Join(err, n.close())
	}
	if err := n.start(c.machine, s, addressBook{c}); err != nil {
		c.node = nil
		return errors.Join(err, n.close())
	}
	c.ready.Store(true)
	c.leaders.observe(n.raft)
	c.run(c.watchLeadership)
	c.run(c.watchdog)
	if !hasState {
		c.run(c.form)
	}
	return nil
}

// run starts a goroutine that Close waits for.
func (c *Controller) run(f func()) {
	c.wait.Add(1)
	go func() {
		defer c.wait.Done()
		f()
	}()
}

// Close gives leadership away if it can, stops raft and waits for the controller's goroutines, ten seconds at most.
func (c *Controller) Close() error {
	if c.node == nil {
		c.cancel()
		return nil
	}
	c.handOver()
	c.cancel()
	done := make(chan error, 1)
	go func() {
		err := c.node.close()
		c.wait.Wait()
		done <- err
	}()
	t := time.NewTimer(closeTimeout)
	defer t.Stop()
	select {
	case err := <-done:
		c.leaders.close()
		c.metrics.unregister()
		return err
	case <-t.C:
		return fmt.Errorf("raft: not stopped within %s (a disk that hangs?)", closeTimeout)
	}
}

// handOver asks another voter to lead, when this node does and there is one that lives. A failure is no harm.
func (c *Controller) handOver() {
	if c.node.raft == nil || c.node.raft.State() != raft.Leader {
		return
	}
	servers, _, err := c.node.servers()
	if err != nil || len(servers) < 2 {
		return
	}
	done := make(chan error, 1)
	go func() { done <- c.node.raft.LeadershipTransfer().Error() }()
	t := time.NewTimer(2 * c.opt.ElectionTimeout)
	defer t.Stop()
	select {
	case err := <-done:
		if err != nil {
			c.log.Info("controller leadership not handed over", "err", err)
		}
	case <-t.C:
	}
}

// die tells the owner, once, that this process cannot go on.
func (c *Controller) die(err error) {
	c.fatal.Do(func() {
		c.log.Error("the metadata log cannot go on; the process must stop", "err", err)
		c.opt.OnFatal(err)
	})
}

// Image is the newest applied image. Never nil.
func (c *Controller) Image() *metadata.Image { return c.machine.Image() }

// publish gets every new image from the state machine, on raft's own goroutine: nothing here blocks.
func (c *Controller) publish(image *metadata.Image, delta metadata.Delta) {
	c.opt.Publish(image, delta)
	c.applied.wake(image.Index())
	if id := image.ClusterID(); id != "" && c.opt.ClusterID != "" && id != c.opt.ClusterID {
		c.die(fmt.Errorf("this node's directory is of cluster %s, but raft's log is of cluster %s", c.opt.ClusterID, id))
	}
	if r := c.reign.Load(); r != nil {
		r.note(delta)
	}
}

// WaitIndex returns when this node's image has reached index, or with ctx's error.
func (c *Controller) WaitIndex(ctx context.Context, index uint64) error {
	return c.applied.until(ctx, index, func() uint64 { return c.Image().Index() })
}

// ControllerID is the node id of raft's live leader, metadata.NoNode when none is known.
func (c *Controller) ControllerID() int32 {
	if !c.ready.Load() {
		return metadata.NoNode
	}
	_, id := c.node.raft.LeaderWithID()
	node, _ := splitServerID(id)
	return node
}

// IsController says that this node leads raft, has passed its barrier and serves as the controller.
func (c *Controller) IsController() bool { return c.active() != nil }

// active is the reign in force, nil when this node is not the controller.
func (c *Controller) active() *reign {
	r := c.reign.Load()
	if r == nil || !r.serving.Load() || r.ctx.Err() != nil {
		return nil
	}
	return r
}

// Suspect takes gossip's word that a node may be dead: the active controller dials its broker, if that has lost its
// session connection. It decides nothing else, and returns at once.
func (c *Controller) Suspect(node int32) {
	if r := c.active(); r != nil {
		r.sessions.hint(node)
	}
}

// self is what this node answers to a direct question.
func (c *Controller) self() answer {
	a := answer{
		Version: questionVersion, ClusterName: c.opt.ClusterName, NodeID: c.opt.NodeID, DirectoryID: c.opt.DirectoryID,
		ClusterID: c.clusterID(), HasState: c.hasState.Load(), GossipAddress: c.opt.GossipAddress, RaftAddress: c.opt.RaftAdvertise,
		Join: c.opt.Join, MaxLevel: metadata.LatestLevel,
	}
	if c.ready.Load() {
		a.LastIndex, a.AppliedIndex = c.node.raft.LastIndex(), c.node.raft.AppliedIndex()
		a.HasState = a.HasState || a.LastIndex > 0
	}
	return a
}

// clusterID is what this node knows to be its cluster, empty if nothing.
func (c *Controller) clusterID() string {
	if id := c.Image().ClusterID(); id != "" {
		return id
	}
	return c.opt.ClusterID
}

// addressBook gives raft the newest address of a server that gossip knows; raft falls back to its configuration.
type addressBook struct{ c *Controller }

var errNoAddress = errors.New("gossip knows no address")

func (b addressBook) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	if id == b.c.node.id {
		return raftAddress(b.c.opt.RaftAdvertise, b.c.opt.DirectoryID), nil
	}
	for _, p := range b.c.opt.Peers() {
		if p.Alive && p.RaftAddress != "" && serverID(p.NodeID, p.DirectoryID) == id {
			return raftAddress(p.RaftAddress, p.DirectoryID), nil
		}
	}
	return "", errNoAddress
}
