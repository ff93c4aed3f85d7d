package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"cordwood/fsm"
	"cordwood/fsm/metadata"
)

// Propose appends a command through raft and gives what applying it answered; refusals of the command or of its items
// are in the result. metadata.ErrNotController and ErrNoController: it was not appended. metadata.ErrOutcomeUnknown: it
// may or may not be applied. The wait ends with ctx and after Options.ProposeTimeout.
func (c *Controller) Propose(ctx context.Context, cmd metadata.Command) (metadata.Result, error) {
	if c.active() == nil {
		return metadata.Result{}, metadata.ErrNotController
	}
	return c.apply(ctx, cmd)
}

// apply is Propose for a reign that does not serve yet.
func (c *Controller) apply(ctx context.Context, cmd metadata.Command) (metadata.Result, error) {
	if err := c.Image().CheckLevel(cmd); err != nil {
		return metadata.Result{Err: err}, nil // refused here as by every node of the level, some of which could not read it
	}
	data, err := metadata.EncodeCommand(cmd)
	if err != nil {
		return metadata.Result{}, fmt.Errorf("propose: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.opt.ProposeTimeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return metadata.Result{}, fmt.Errorf("propose: %w: %d commands are in flight", metadata.ErrNoController, maxProposals)
	}
	left := time.Until(deadline)
	if left <= 0 || c.ctx.Err() != nil {
		<-c.slots
		return metadata.Result{}, fmt.Errorf("propose: %w: no time left", metadata.ErrNoController)
	}
	f := c.node.raft.Apply(data, left)
	done := make(chan error, 1)
	go func() { // raft's futures know no context; this ends when the command does, or with the leadership
		done <- f.Error()
		<-c.slots
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		return metadata.Result{}, fmt.Errorf("propose: %w: %w", metadata.ErrOutcomeUnknown, ctx.Err())
	case <-c.ctx.Done():
		return metadata.Result{}, fmt.Errorf("propose: %w: the node stops", metadata.ErrOutcomeUnknown)
	}
	if err != nil {
		if errors.Is(err, raft.ErrLeadershipTransferInProgress) {
			c.leaders.transferRefused(time.Now())
		}
		return metadata.Result{}, fmt.Errorf("propose: %w", proposeError(err))
	}
	c.leaders.transferOver()
	res, ok := f.Response().(metadata.Result)
	if !ok || errors.Is(res.Err, fsm.ErrStopped) {
		return metadata.Result{}, fmt.Errorf("propose: %w: %v", metadata.ErrOutcomeUnknown, f.Response())
	}
	return res, nil
}

// proposeError says what raft's refusal means for the command.
func proposeError(err error) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader):
		return fmt.Errorf("%w: %w", metadata.ErrNotController, err)
	case errors.Is(err, raft.ErrLeadershipTransferInProgress), errors.Is(err, raft.ErrEnqueueTimeout):
		return fmt.Errorf("%w: %w", metadata.ErrNoController, err) // never reached the log
	}
	return fmt.Errorf("%w: %w", metadata.ErrOutcomeUnknown, err) // leadership lost, shut down, aborted by a restore
}
