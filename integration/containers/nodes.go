package containers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cordwood/integration/nemesis"
)

var _ nemesis.Cluster = (*Cluster)(nil)

const (
	stopWithin = 30 * time.Second       // an orderly stop
	lookEvery  = 250 * time.Millisecond // how often a node is asked whether it serves
	logTail    = 60                     // lines
	killedCode = 137                    // of a process that SIGKILL ended
)

// Nodes implements nemesis.Cluster.
func (c *Cluster) Nodes() (ids []int) {
	for _, n := range c.layout.nodes {
		ids = append(ids, n.id)
	}
	return ids
}

func (c *Cluster) member(id int) (*member, error) {
	if n := c.node(id); n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("there is no node %d", id)
}

// Running implements nemesis.Cluster. Where the engine does not answer, it is what was done to the node last.
func (c *Cluster) Running(id int) bool {
	n := c.node(id)
	if n == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), callWithin)
	defer cancel()
	out, err := c.d.run(ctx, "inspect", "-f", "{{.State.Running}}", n.cid)
	if err != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		return !n.down
	}
	return strings.TrimSpace(out) == "true"
}

func (n *member) set(down, paused bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down, n.paused = down, paused
}

func (n *member) stands() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.paused
}

// Kill implements nemesis.Cluster. Docker kills nothing that stands still: it goes on for a moment.
func (c *Cluster) Kill(ctx context.Context, id int) error {
	n, err := c.member(id)
	if err != nil {
		return err
	}
	if err := c.Resume(ctx, id); err != nil {
		return err
	}
	if _, err := c.d.run(ctx, "kill", "-s", "KILL", n.cid); err != nil && c.Running(id) {
		return err
	}
	n.set(true, false)
	return nil
}

// Start implements nemesis.Cluster.
func (c *Cluster) Start(ctx context.Context, id int) error {
	n, err := c.member(id)
	if err != nil {
		return err
	}
	if _, err := c.d.run(ctx, "start", n.cid); err != nil {
		return err
	}
	n.set(false, false)
	return nil
}

// Stop implements nemesis.Cluster.
func (c *Cluster) Stop(ctx context.Context, id int) error {
	n, err := c.member(id)
	if err != nil {
		return err
	}
	if err := c.Resume(ctx, id); err != nil {
		return err
	}
	limit := stopWithin
	if d, ok := ctx.Deadline(); ok {
		limit = max(time.Second, min(limit, time.Until(d)-afterCancel))
	}
	if _, err := c.d.call(ctx, limit+callWithin, []string{"docker", "stop", "-t", strconv.Itoa(int(limit.Seconds())), n.cid}); err != nil {
		return errors.Join(err, c.Kill(context.WithoutCancel(ctx), id))
	}
	n.set(true, false)
	out, err := c.d.run(ctx, "inspect", "-f", "{{.State.ExitCode}}", n.cid)
	if err != nil {
		return err
	}
	if strings.TrimSpace(out) == strconv.Itoa(killedCode) {
		return fmt.Errorf("node %d did not end within %v", id, limit)
	}
	return nil
}

// Pause implements nemesis.Cluster.
func (c *Cluster) Pause(ctx context.Context, id int) error {
	n, err := c.member(id)
	if err != nil {
		return err
	}
	if n.stands() {
		return nil
	}
	n.set(false, true) // before it does, so that it goes on whatever becomes of the call
	_, err = c.d.run(ctx, "pause", n.cid)
	return err
}

// Resume implements nemesis.Cluster.
func (c *Cluster) Resume(ctx context.Context, id int) error {
	n, err := c.member(id)
	if err != nil || !n.stands() {
		return err
	}
	if _, err := c.d.run(ctx, "unpause", n.cid); err != nil {
		out, asked := c.d.run(ctx, "inspect", "-f", "{{.State.Paused}}", n.cid)
		if asked != nil || strings.TrimSpace(out) == "true" {
			return err
		}
	}
	n.set(false, false)
	return nil
}

// WaitReady implements nemesis.Cluster: the node answers, and counts itself among the members.
func (c *Cluster) WaitReady(ctx context.Context, id int) error {
	n, err := c.member(id)
	if err != nil {
		return err
	}
	for {
		v, err := nemesis.Look(ctx, n.at())
		if err == nil {
			if i := slices.IndexFunc(v.Nodes, func(m nemesis.Member) bool { return m.ID == id }); i >= 0 && !v.Nodes[i].Fenced {
				return nil
			}
			err = fmt.Errorf("node %d is in no session", id)
		} else if !c.Running(id) {
			return fmt.Errorf("node %d ended before it was ready:\n%s", id, c.said(id))
		}
		if !pause(ctx, lookEvery) {
			return fmt.Errorf("node %d is not ready: %w: %w\n%s", id, ctx.Err(), err, c.said(id))
		}
	}
}

// said gives the last lines of a node's log, for an error.
func (c *Cluster) said(id int) string {
	ctx, cancel := context.WithTimeout(context.Background(), callWithin)
	defer cancel()
	text, err := c.Log(ctx, id)
	if err != nil {
		return err.Error()
	}
	return tail(text, logTail)
}

// Refusal gives the last lines of a node's log, and whether they are those of a crash.
func (c *Cluster) Refusal(id int) (said string, crashed bool) {
	said = c.said(id)
	return said, nemesis.Crashed(said)
}

// Log is what a node wrote over all its starts.
func (c *Cluster) Log(ctx context.Context, id int) (string, error) {
	n, err := c.member(id)
	if err != nil {
		return "", err
	}
	return c.d.both(ctx, "logs", n.cid)
}

// View implements nemesis.Cluster.
func (c *Cluster) View(ctx context.Context) (nemesis.View, error) {
	return nemesis.ViewOf(ctx, c.answering())
}

// answering are the nodes that nothing was done to that keeps them from answering.
func (c *Cluster) answering() (out []nemesis.Address) {
	for _, n := range c.nodes {
		n.mu.Lock()
		answers := !n.down && !n.paused
		n.mu.Unlock()
		if answers {
			out = append(out, nemesis.Address{ID: n.id, At: n.at()})
		}
	}
	return out
}

// Settled implements nemesis.Cluster.
func (c *Cluster) Settled(ctx context.Context) error {
	var all []nemesis.Address
	for _, n := range c.nodes {
		all = append(all, nemesis.Address{ID: n.id, At: n.at()})
	}
	return c.whole.Settled(ctx, all)
}

// Edges implements nemesis.Cluster.
func (c *Cluster) Edges() nemesis.Edges { return c.edges }

// Changes implements nemesis.Cluster.
func (c *Cluster) Changes() nemesis.Changes {
	return nemesis.Ask{Seeds: func() (seeds []string) {
		for _, a := range c.answering() {
			seeds = append(seeds, a.At)
		}
		if len(seeds) == 0 {
			return c.Bootstrap()
		}
		return seeds
	}}
}
