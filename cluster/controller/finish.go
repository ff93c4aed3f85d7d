package controller

import (
	"context"

	"cordwood/fsm/metadata"
)

// changes are what may be finished, as the metric names them.
var changes = []metadata.Change{metadata.ChangeReplicas, metadata.ChangeRule, metadata.ChangeDurability}

// finish proposes the finishes that leaders have proven. The state machine counts the evidence again; what it refuses
// item by item is for the leader to see in the image.
func (r *reign) finish(ctx context.Context, items []metadata.Finish) error {
	before := r.c.Image()
	res, err := r.c.Propose(ctx, &metadata.FinishChange{Items: items})
	if err != nil {
		return err
	}
	for i, e := range res.Items {
		p := before.Partition(items[i].Partition)
		switch {
		case e != nil:
			r.log.Debug("finish of a change refused", "partition", items[i].Partition, "err", e)
		case p != nil:
			r.c.metrics.finishes.WithLabelValues(string(p.Change())).Inc()
		}
	}
	return nil
}
