package torture

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cordwood/integration/harness"
	"cordwood/integration/history"
	"cordwood/integration/nemesis"
)

// ProcessOptions says which nodes Processes has.
type ProcessOptions struct {
	Binary string // path of the cordwood binary
	Dir    string // holds a directory for each node
	Nodes  int
	Seed   uint64 // of what the network loses
}

// Session is after how long a silent node of a tortured cluster is fenced: half of what users have, so that more happens in
// a run.
const Session = 2 * time.Second

// stopWithin bounds the orderly end of a node.
const stopWithin = 30 * time.Second

// Processes is a cluster of child processes on loopback, whose traffic between nodes is led over proxies.
type Processes struct {
	*harness.Cluster
	nemeses *nemesis.Processes
}

var _ Place = (*Processes)(nil)

// NewProcesses writes the nodes' configurations and starts nothing.
func NewProcesses(opt ProcessOptions) (*Processes, error) {
	c, err := harness.New(harness.Options{
		Binary: opt.Binary, Nodes: opt.Nodes, Dir: opt.Dir, Edges: &harness.EdgeOptions{Seed: opt.Seed},
		ClusterSettings: []string{fmt.Sprintf("session_timeout: %s", Session)},
		RaftSettings:    []string{"snapshot_threshold: 32", "snapshot_interval: 5s"}, // and makes snapshots
		Settings:        "storage: { segment_bytes: 1MiB }",                          // a run rolls segments
	})
	if err != nil {
		return nil, err
	}
	return &Processes{Cluster: c, nemeses: nemesis.NewProcesses(c)}, nil
}

// Start implements Place.
func (p *Processes) Start(ctx context.Context) error {
	if err := p.Cluster.Start(); err != nil {
		return err
	}
	limit := startWithin
	if d, ok := ctx.Deadline(); ok {
		limit = time.Until(d)
	}
	return p.WaitReady(ctx, limit)
}

// Size implements Place.
func (p *Processes) Size() int { return len(p.Nodes) }

// Able implements Place: what processes cannot bear, their faults know.
func (p *Processes) Able(string) error { return nil }

// Made implements Place. The topics go with the nodes' directories.
func (p *Processes) Made([]string) {}

// Foreign implements Place.
func (p *Processes) Foreign() bool { return false }

// Nemesis implements Place.
func (p *Processes) Nemesis() nemesis.Cluster { return p.nemeses }

// Settled implements Place.
func (p *Processes) Settled(ctx context.Context) error { return p.nemeses.Settled(ctx) }

// Collect implements Place.
func (p *Processes) Collect(h *history.Header) (copies []history.Copy, losses []history.Loss, err error) {
	for _, n := range p.Nodes {
		if err := n.Stop(stopWithin); err != nil {
			return nil, nil, err
		}
	}
	var errs []error
	for _, n := range p.Nodes {
		c, err := readCopies(n.DataDir(), n.ID, h)
		copies, errs = append(copies, c...), append(errs, err)
		l, err := readLosses(n.LogFile(), h)
		losses, errs = append(losses, l...), append(errs, err)
	}
	return copies, losses, errors.Join(errs...)
}
