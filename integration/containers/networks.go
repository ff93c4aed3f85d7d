package containers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cordwood/integration/nemesis"
)

// networks are those that the nodes are on.
type networks struct{ c *Cluster }

var _ nemesis.Networks = networks{}

// Networks gives what takes nodes off their networks.
func (c *Cluster) Networks() nemesis.Networks { return networks{c} }

// Disconnect implements nemesis.Networks.
func (w networks) Disconnect(ctx context.Context, id int) error {
	n, err := w.c.member(id)
	if err != nil {
		return err
	}
	is, err := w.c.seen(ctx, n)
	if err != nil {
		return err
	}
	for _, name := range is.networks() {
		if _, err := w.c.d.run(ctx, "network", "disconnect", "-f", name, n.helper); err != nil {
			return err
		}
	}
	return nil
}

// Connect implements nemesis.Networks. The node's address may be another one afterwards.
func (w networks) Connect(ctx context.Context, id int) error {
	n, err := w.c.member(id)
	if err != nil {
		return err
	}
	is, err := w.c.seen(ctx, n)
	if err != nil {
		return err
	}
	for _, was := range n.joined {
		if slices.Contains(is.networks(), was.name) {
			continue
		}
		line := []string{"network", "connect"}
		for _, a := range was.aliases {
			line = append(line, "--alias", a)
		}
		if _, err := w.c.d.run(ctx, append(line, was.name, n.helper)...); err != nil {
			return err
		}
	}
	if is, err = w.c.seen(ctx, n); err != nil {
		return err
	}
	n.learn(is)
	return w.c.edges.reapply()
}

// joined is a network that a node was on from the beginning, and what it is called there.
type joined struct {
	name    string
	aliases []string
}

// seen asks how a node's helper is now.
func (c *Cluster) seen(ctx context.Context, n *member) (*container, error) {
	text, err := c.d.run(ctx, "inspect", n.helper)
	if err != nil {
		return nil, err
	}
	all, err := decodeContainers([]byte(text))
	if err != nil {
		return nil, err
	}
	if len(all) != 1 {
		return nil, errors.New("docker inspect tells of no container")
	}
	if !all[0].State.Running {
		return nil, fmt.Errorf("the helper of node %d has ended", n.id)
	}
	return &all[0], nil
}
