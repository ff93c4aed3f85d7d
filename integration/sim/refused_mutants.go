//go:build mutants

package sim

import (
	"errors"

	"cordwood/fsm/metadata"
)

// refused tells a leader that its proposal was refused, for the mutants that act on it.
func (w *World) refused(cmd metadata.Command, r metadata.Result) {
	c, ok := cmd.(*metadata.AlterPartitions)
	if !ok || len(r.Items) != 1 || r.Items[0] == nil {
		return
	}
	n := w.node(c.Changes[0].Leader)
	if l := n.office(); l != nil && l.Epoch() == c.Changes[0].LeaderEpoch {
		l.Refused(errors.Is(r.Items[0], metadata.ErrIneligibleReplica))
	}
}
