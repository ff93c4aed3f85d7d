package controller

import (
	"context"

	"cordwood/fsm/metadata"
)

// What a finished change was about, as the metric counts it.
const (
	changeRule       = "rule"
	changeDurability = "durability"
	changeReplicas   = "replicas"
)

// changeOf names the change that is under way on a partition.
func changeOf(p *metadata.Partition) string {
	switch {
	case p.Rule == metadata.RuleISRToQuorum || p.Rule == metadata.RuleQuorumToISR:
		return changeRule
	case p.Durability == metadata.DurabilityMemoryToDisk:
		return changeDurability
	}
	return changeReplicas
}

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
			r.c.metrics.finishes.WithLabelValues(changeOf(p)).Inc()
		}
	}
	return nil
}
