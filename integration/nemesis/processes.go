package nemesis

import (
	"context"
	"fmt"
	"strings"
	"time"

	"cordwood/integration/harness"
	"cordwood/logstore/vfs"
)

// stopWithin bounds an orderly stop.
const stopWithin = 30 * time.Second

// Processes are the nodes of a harness.Cluster: child processes of this one.
type Processes struct {
	c     *harness.Cluster
	whole Whole
}

var (
	_ Cluster  = (*Processes)(nil)
	_ Edges    = (*harness.Edges)(nil)
	_ Disks    = disks{}
	_ Clocks   = clockSetter{}
	_ clocked  = (*Processes)(nil)
	_ refusals = (*Processes)(nil)
)

// NewProcesses makes a Cluster of one that runs.
func NewProcesses(c *harness.Cluster) *Processes { return &Processes{c: c} }

// Nodes implements Cluster.
func (p *Processes) Nodes() (ids []int) {
	for _, n := range p.c.Nodes {
		ids = append(ids, n.ID)
	}
	return ids
}

func (p *Processes) node(id int) (*harness.Node, error) {
	if n := p.c.Node(id); n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("there is no node %d", id)
}

// Running implements Cluster.
func (p *Processes) Running(id int) bool {
	n := p.c.Node(id)
	return n != nil && n.Running()
}

// Kill implements Cluster.
func (p *Processes) Kill(_ context.Context, id int) error {
	n, err := p.node(id)
	if err != nil {
		return err
	}
	return n.Kill()
}

// Start implements Cluster.
func (p *Processes) Start(_ context.Context, id int) error {
	n, err := p.node(id)
	if err != nil {
		return err
	}
	return n.Start()
}

// Stop implements Cluster.
func (p *Processes) Stop(ctx context.Context, id int) error {
	n, err := p.node(id)
	if err != nil {
		return err
	}
	limit := stopWithin
	if d, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(d))
	}
	return n.Stop(limit)
}

// Pause implements Cluster.
func (p *Processes) Pause(_ context.Context, id int) error {
	n, err := p.node(id)
	if err != nil {
		return err
	}
	return n.Pause()
}

// Resume implements Cluster.
func (p *Processes) Resume(_ context.Context, id int) error {
	n, err := p.node(id)
	if err != nil {
		return err
	}
	return n.Resume()
}

// WaitReady implements Cluster.
func (p *Processes) WaitReady(ctx context.Context, id int) error {
	n, err := p.node(id)
	if err != nil {
		return err
	}
	return n.WaitReady(ctx)
}

// View implements Cluster.
func (p *Processes) View(ctx context.Context) (View, error) {
	return ViewOf(ctx, addresses(p.c.Answering()))
}

// Settled implements Cluster.
func (p *Processes) Settled(ctx context.Context) error {
	return p.whole.Settled(ctx, addresses(p.c.Nodes))
}

func addresses(nodes []*harness.Node) (out []Address) {
	for _, n := range nodes {
		out = append(out, Address{n.ID, n.External})
	}
	return out
}

// Edges implements Cluster.
func (p *Processes) Edges() Edges {
	if p.c.Edges == nil {
		return nil
	}
	return p.c.Edges
}

// Disks implements Cluster.
func (p *Processes) Disks() Disks {
	if !p.c.Dev {
		return nil
	}
	return disks{p}
}

// Refusal gives the last lines of a node's log, and whether they are those of a crash.
func (p *Processes) Refusal(id int) (said string, crashed bool) {
	n := p.c.Node(id)
	if n == nil {
		return "", false
	}
	said = n.LogTail(60)
	return said, Crashed(said)
}

// Crashed says whether the last lines of a node's log are those of a crash.
func Crashed(said string) bool {
	for _, mark := range []string{"panic: ", "fatal error: ", "unexpected fault address", "SIGBUS", "SIGSEGV"} {
		if strings.Contains(said, mark) {
			return true
		}
	}
	return false
}

// Clocks gives what sets the nodes' clocks, nil without dev_mode.
func (p *Processes) Clocks() Clocks {
	if !p.c.Dev {
		return nil
	}
	return clockSetter{p}
}

// Changes implements Cluster.
func (p *Processes) Changes() Changes {
	return Ask{Seeds: func() (seeds []string) {
		for _, n := range p.c.Answering() {
			seeds = append(seeds, n.External)
		}
		if len(seeds) == 0 {
			return p.c.Bootstrap()
		}
		return seeds
	}}
}

type disks struct{ p *Processes }

// LosePower implements Disks.
func (d disks) LosePower(_ context.Context, id int, mode vfs.CrashMode, seed uint64) (string, error) {
	n, err := d.p.node(id)
	if err != nil {
		return "", err
	}
	lost, err := n.LosePower(mode, seed)
	if err != nil {
		return "", err
	}
	bytes, holes := int64(0), 0
	for _, c := range lost.Cut {
		bytes, holes = bytes+c.From-c.To, holes+c.Holes
	}
	return fmt.Sprintf("node %d lost %d bytes of %d files and %d sectors, and %d changes of its directories were undone", id, bytes, len(lost.Cut), holes, len(lost.Undone)), nil
}

// SetRules implements Disks.
func (d disks) SetRules(_ context.Context, id int, rules ...vfs.Rule) error {
	n, err := d.p.node(id)
	if err != nil {
		return err
	}
	return n.SetRules(rules...)
}

// DataDir implements Disks.
func (d disks) DataDir(id int) string {
	if n := d.p.c.Node(id); n != nil {
		return n.DataDir()
	}
	return ""
}

// Wipe implements Disks.
func (d disks) Wipe(_ context.Context, id int) error {
	n, err := d.p.node(id)
	if err != nil {
		return err
	}
	return n.Wipe()
}

type clockSetter struct{ p *Processes }

// SetOffset implements Clocks.
func (c clockSetter) SetOffset(_ context.Context, id int, d time.Duration) error {
	n, err := c.p.node(id)
	if err != nil {
		return err
	}
	return n.SetClock(d)
}
