package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type nodesView struct {
	APIVersion string     `json:"apiVersion"`
	Nodes      []nodeView `json:"nodes"`
}

func (v *nodesView) table(w io.Writer, _ bool) { nodeRows(w, v.Nodes) }

func (v *nodesView) names() []string {
	var out []string
	for _, n := range v.Nodes {
		out = append(out, strconv.Itoa(int(n.ID)))
	}
	return out
}

type nodeDoneView struct {
	APIVersion string `json:"apiVersion"`
	Node       int32  `json:"node"`
	Status     string `json:"status"`
}

func (v *nodeDoneView) table(w io.Writer, _ bool) {
	fmt.Fprintf(w, "NODE\tSTATUS\n%d\t%s\n", v.Node, v.Status)
}

func (v *nodeDoneView) names() []string { return []string{strconv.Itoa(int(v.Node))} }

func newNodeCommand(a *app) *cobra.Command {
	list := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List the nodes", Args: takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.show(cmd.Context(), &nodesView{}, func(ctx context.Context) (v view, err error) {
				err = a.ask(ctx, func(ctx context.Context, c *client) error {
					cv, err := c.cluster(ctx)
					if err == nil {
						v = &nodesView{apiVersion, cv.Nodes}
					}
					return err
				})
				return v, err
			})
		}}
	var yes bool
	remove := a.shaped(&cobra.Command{Use: "remove NODE", Aliases: []string{"rm"}, Short: "Take a dead node out of the cluster for good",
		Long: "Take a dead node's registration and vote out of the cluster. Refused while the node still holds replicas.",
		Args: takes(1, 1, "a node id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := nodeID(args[0])
			if err != nil {
				return err
			}
			if err := a.confirm(cmd.Context(), yes, fmt.Sprintf("removing node %d", id)); err != nil {
				return err
			}
			return a.show(cmd.Context(), &nodeDoneView{}, func(ctx context.Context) (v view, err error) {
				err = a.ask(ctx, func(ctx context.Context, c *client) error {
					if err := c.removeNode(ctx, id); err != nil {
						return err
					}
					v = &nodeDoneView{apiVersion, id, "removed"}
					return nil
				})
				return v, err
			})
		}}, &nodeDoneView{})
	remove.Flags().BoolVar(&yes, "yes", false, "Do not ask")
	return group("node", "Look at nodes, remove one, wipe one", []string{"nodes", "broker", "brokers"}, list, remove, newResetCommand(a))
}

// nodeID reads a node id, also in the form n2.
func nodeID(s string) (int32, error) {
	id, err := strconv.ParseInt(strings.TrimPrefix(s, "n"), 10, 32)
	if err != nil || id < 0 {
		return 0, usage(fmt.Sprintf("%q is not a node id; see cordwood node list", s))
	}
	return int32(id), nil
}

func (c *client) removeNode(ctx context.Context, id int32) error {
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = id
	resp, err := req.RequestWith(ctx, c.Client)
	if err != nil {
		return err
	}
	if err := refused(fmt.Sprintf("node %d", id), resp.ErrorCode, resp.ErrorMessage); err != nil {
		f := &failure{code: exitCodeUndecided, err: err}
		if resp.ErrorCode != brokerIDNotRegistered {
			f.code = exitRefused
		}
		return f
	}
	return nil
}

const brokerIDNotRegistered = 102
