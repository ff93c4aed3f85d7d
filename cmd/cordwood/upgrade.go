package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// levelFeature is the name of the metadata level among Kafka's features.
const levelFeature = "metadata.level"

type upgradeView struct {
	APIVersion string `json:"apiVersion"`
	From       int32  `json:"from"`
	To         int32  `json:"to"`
	Status     string `json:"status"` // raised, possible or current

	highest int32   // the highest level that any node knows
	behind  []int32 // nodes that do not know it
}

func (v *upgradeView) table(w io.Writer, _ bool) {
	fmt.Fprintf(w, "METADATA LEVEL\tTO\tSTATUS\n%d\t%d\t%s\n", v.From, v.To, v.Status)
}

// note says for people what the answer means and what may come next.
func (v *upgradeView) note(write func(string, ...any)) {
	switch v.Status {
	case "raised":
		write("a node whose version knows only level %d cannot join any more", v.From)
	case "possible":
		write("every node knows level %d; cordwood cluster upgrade raises it, and there is no way back to level %d", v.To, v.From)
	case "current":
		if len(v.behind) > 0 {
			write("other nodes know level %d; held back by node %s: start it with the new version", v.highest, ids(v.behind))
		}
	}
}

func (v *upgradeView) names() []string { return []string{strconv.Itoa(int(v.To))} }

func newUpgradeCommand(a *app) *cobra.Command {
	var to int32
	var dryRun bool
	cmd := &cobra.Command{Use: "upgrade", Short: "Let the cluster use what its nodes' version brings", Args: takes(0, 0, "no arguments"),
		Long: "Raise the level of the metadata format to the highest one that every node understands. Until then every node can\n" +
			"go back to the version before; afterwards not. Refused while a registered node does not have the level.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to < 0 || to > math.MaxInt16 {
				return usage("--to is no level")
			}
			return a.show(cmd.Context(), &upgradeView{}, func(ctx context.Context) (v view, err error) {
				err = a.ask(ctx, func(ctx context.Context, c *client) error {
					uv, err := c.upgrade(ctx, to, dryRun)
					if err == nil {
						v = uv
						uv.note(a.note)
					}
					return err
				})
				return v, err
			})
		}}
	cmd.Flags().Int32Var(&to, "to", 0, "The level (default: the highest that all nodes have)")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "Only check")
	return cmd
}

// upgrade raises the level; to 0 means the highest that all registered nodes have.
func (c *client) upgrade(ctx context.Context, to int32, dryRun bool) (*upgradeView, error) {
	cv, err := c.cluster(ctx)
	if err != nil {
		return nil, err
	}
	v := &upgradeView{APIVersion: apiVersion, To: to, Status: "raised"}
	common := int32(math.MaxInt16)
	for _, n := range cv.Nodes {
		v.From = max(v.From, n.level)
		common, v.highest = min(common, n.maxLevel), max(v.highest, n.maxLevel)
	}
	for _, n := range cv.Nodes {
		if n.maxLevel < v.highest {
			v.behind = append(v.behind, n.ID)
		}
	}
	if v.From == 0 {
		return nil, &failure{code: exitRefused, err: errors.New("the nodes do not tell the level of their metadata; they are no Cordwood nodes")}
	}
	if to == 0 {
		v.To = common
	}
	if v.To == v.From {
		v.Status = "current"
		return v, nil
	}
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.TimeoutMillis, req.ValidateOnly = c.app.timeoutMillis(), dryRun
	f := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	f.Feature, f.MaxVersionLevel, f.UpgradeType = levelFeature, int16(v.To), 1
	req.FeatureUpdates = append(req.FeatureUpdates, f)
	resp, err := req.RequestWith(ctx, c.Client)
	if err != nil {
		return nil, err
	}
	if err := refused("", resp.ErrorCode, resp.ErrorMessage); err != nil {
		return nil, err
	}
	if dryRun {
		v.Status = "possible"
	}
	return v, nil
}
