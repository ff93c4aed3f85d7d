package torture

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cordwood/integration/nemesis"
)

// existingNodes are the nodes of an Existing, as faults see them.
type existingNodes struct{ e *Existing }

var _ nemesis.Cluster = existingNodes{}

// do runs a command for a node. What it leaves running, a node for one, is not waited for.
func (n existingNodes) do(ctx context.Context, name string, id int) error {
	line := n.e.command(name)
	if line == "" {
		return fmt.Errorf("%w: there is no --%s-cmd", nemesis.ErrCannot, name)
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", strings.ReplaceAll(line, "{id}", strconv.Itoa(id)))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us, who then heal
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it has ended, and a node it started holds its output
	}
	if err != nil {
		return fmt.Errorf("--%s-cmd for node %d: %w: %.500s", name, id, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Nodes implements nemesis.Cluster.
func (n existingNodes) Nodes() (ids []int) {
	n.e.mu.Lock()
	defer n.e.mu.Unlock()
	for id := range n.e.address {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Running implements nemesis.Cluster, as far as this run did anything to the node.
func (n existingNodes) Running(id int) bool {
	n.e.mu.Lock()
	defer n.e.mu.Unlock()
	return !n.e.down[id]
}

func (e *Existing) isPaused(id int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.paused[id]
}

func (e *Existing) note(set map[int]bool, id int, is bool) {
	e.mu.Lock()
	set[id] = is
	e.mu.Unlock()
}

// Kill implements nemesis.Cluster.
func (n existingNodes) Kill(ctx context.Context, id int) error {
	if !n.Running(id) {
		return nil
	}
	if err := n.started(id); err != nil {
		return err
	}
	n.e.note(n.e.down, id, true) // before it is, so that it is started again whatever becomes of the command
	return n.do(ctx, "kill", id)
}

// startWait bounds a start command.
const startWait = 2 * time.Minute

// Start implements nemesis.Cluster. A command that returns only when its node serves may have to wait for other nodes that
// are started after it, so it goes on by itself; WaitReady and Close wait for it.
func (n existingNodes) Start(_ context.Context, id int) error {
	n.e.mu.Lock()
	defer n.e.mu.Unlock()
	if n.e.starting[id] != nil {
		return nil
	}
	done := make(chan error, 1)
	n.e.starting[id] = done
	n.e.down[id], n.e.paused[id] = false, false
	n.e.starts.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startWait)
		defer cancel()
		done <- n.do(ctx, "start", id)
	})
	return nil
}

// started gives what became of a node's start command; nil also while it goes on, or where there was none. A node whose
// start failed is down.
func (n existingNodes) started(id int) error {
	n.e.mu.Lock()
	defer n.e.mu.Unlock()
	select {
	case err := <-n.e.starting[id]:
		delete(n.e.starting, id)
		if err != nil {
			n.e.down[id] = true
		}
		return err
	default:
		return nil
	}
}

// Stop implements nemesis.Cluster. Nobody said how to end a node in an orderly way.
func (n existingNodes) Stop(context.Context, int) error {
	return fmt.Errorf("%w: there is no command for an orderly stop", nemesis.ErrCannot)
}

// Pause implements nemesis.Cluster.
func (n existingNodes) Pause(ctx context.Context, id int) error {
	n.e.note(n.e.paused, id, true)
	return n.do(ctx, "pause", id)
}

// Resume implements nemesis.Cluster.
func (n existingNodes) Resume(ctx context.Context, id int) error {
	if !n.e.isPaused(id) {
		return nil
	}
	if err := n.do(ctx, "resume", id); err != nil {
		return err
	}
	n.e.note(n.e.paused, id, false)
	return nil
}

// WaitReady implements nemesis.Cluster: the node answers, and counts itself among the members.
func (n existingNodes) WaitReady(ctx context.Context, id int) error {
	for {
		if err := n.started(id); err != nil {
			return err
		}
		v, err := nemesis.Look(ctx, n.addressOf(id))
		if err == nil {
			if i := slices.IndexFunc(v.Nodes, func(m nemesis.Member) bool { return m.ID == id }); i >= 0 && !v.Nodes[i].Fenced {
				return nil
			}
			err = fmt.Errorf("node %d is in no session", id)
		}
		if !pause(ctx) {
			return fmt.Errorf("node %d is not ready: %w: %w", id, ctx.Err(), err)
		}
	}
}

func (n existingNodes) addressOf(id int) string {
	n.e.mu.Lock()
	defer n.e.mu.Unlock()
	return n.e.address[id]
}

// View implements nemesis.Cluster.
func (n existingNodes) View(ctx context.Context) (v nemesis.View, err error) {
	err = ErrUnreachable
	for _, id := range n.Nodes() {
		if !n.Running(id) || n.e.isPaused(id) {
			continue
		}
		if v, err = nemesis.Look(ctx, n.addressOf(id)); err == nil {
			v.Partitions = slices.DeleteFunc(v.Partitions, func(p nemesis.Partition) bool { return !strings.HasPrefix(p.Topic, TopicPrefix) })
			return v, nil
		}
	}
	return nemesis.View{}, err
}

// Settled implements nemesis.Cluster, for the topics of the run.
func (n existingNodes) Settled(ctx context.Context) error {
	for {
		v, err := n.View(ctx)
		if err == nil {
			if err = v.Unsettled(n.Nodes()); err == nil {
				return nil
			}
		}
		if !pause(ctx) {
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// pause waits a little; false: ctx has ended.
func pause(ctx context.Context) bool {
	t := time.NewTimer(200 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Edges implements nemesis.Cluster.
func (n existingNodes) Edges() nemesis.Edges { return nil }

// Disks implements nemesis.Cluster.
func (n existingNodes) Disks() nemesis.Disks { return nil }

// Changes implements nemesis.Cluster.
func (n existingNodes) Changes() nemesis.Changes { return nil }
