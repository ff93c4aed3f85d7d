package torture

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cordwood/integration/containers"
	"cordwood/integration/history"
	"cordwood/integration/nemesis"
)

// ComposeOptions says which containers Compose has.
type ComposeOptions struct {
	File     string        // the compose file
	Dir      string        // an empty directory for what the run writes
	Duration time.Duration // of the faults: how much the nodes' volumes have to hold
	Reap     []string      // a command line that calls containers.Reap with its two last arguments
}

// Compose is a cluster in containers, as a compose file has it.
type Compose struct {
	*containers.Cluster
	dir string
}

var _ Place = (*Compose)(nil)

// Room of a node's volume, in memory: it is small, so that it fills up.
const (
	leastRoom     = 256 << 20
	roomPerMinute = 32 << 20
)

// NewCompose reads the file and makes nothing. An error may wrap containers.ErrSetup or containers.ErrEngine.
func NewCompose(ctx context.Context, opt ComposeOptions) (*Compose, error) {
	c, err := containers.New(ctx, containers.Options{
		File: opt.File, Dir: opt.Dir, Session: Session, Room: leastRoom + roomPerMinute*int64(opt.Duration/time.Minute), Reap: opt.Reap,
	})
	if err != nil {
		return nil, err
	}
	return &Compose{c, opt.Dir}, nil
}

// Start implements Place.
func (c *Compose) Start(ctx context.Context) error { return c.Up(ctx) }

// Made implements Place. The topics go with the nodes' volumes.
func (c *Compose) Made([]string) {}

// Foreign implements Place.
func (c *Compose) Foreign() bool { return false }

// Nemesis implements Place.
func (c *Compose) Nemesis() nemesis.Cluster { return c.Cluster }

// Able implements Place.
func (c *Compose) Able(fault string) error {
	if fault == "slowlink" {
		return fmt.Errorf("%w: %s would need to delay what containers say to each other", nemesis.ErrCannot, fault)
	}
	return nil
}

// Collect implements Place.
func (c *Compose) Collect(h *history.Header) (copies []history.Copy, losses []history.Loss, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), collectWithin)
	defer cancel()
	for _, id := range c.Nodes() {
		if err := c.Stop(ctx, id); err != nil {
			return nil, nil, err
		}
	}
	var errs []error
	for _, id := range c.Nodes() {
		data, err := c.Data(ctx, id, c.dir)
		if err != nil {
			return nil, nil, err
		}
		had, err := readCopies(data, id, h)
		copies, errs = append(copies, had...), append(errs, err)
		log, err := c.Log(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		l, err := lossesIn(strings.NewReader(log), h)
		losses, errs = append(losses, l...), append(errs, err)
	}
	return copies, losses, errors.Join(errs...)
}

// collectWithin bounds Collect, orderly stops and all.
const collectWithin = 3 * time.Minute
