package torture

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/integration/history"
)

func TestALossIsOfTheMediaOnlyWhereTheyWereHitSinceAllWasWhole(t *testing.T) {
	const s = time.Second
	copies := []history.Copy{{Key: 0, Node: 1}, {Key: 0, Node: 2}, {Key: 1, Node: 3}}
	fault := func(name string, start, end time.Duration, nodes ...int) []history.Fault {
		return []history.Fault{{Name: "kill", Nodes: []int{1, 2, 3}, Start: s, End: 50 * s}, {Name: name, Nodes: nodes, Start: start, End: end}}
	}
	for name, tt := range map[string]struct {
		faults []history.Fault
		want   bool
	}{
		"nothing but kills":                         {fault("kill", 11*s, 12*s, 1), false},
		"power takes what was not synced":           {fault("power", 11*s, 12*s, 1), false},
		"a disk was wiped":                          {fault("wipe", 11*s, 12*s, 1), true},
		"bits were flipped, and it is under way":    {fault("bitflip", 11*s, 0, 2), true},
		"a log was cut before all was whole":        {fault("truncate", 5*s, 9*s, 1), false},
		"a log was cut, and healed after the ask":   {fault("truncate", 5*s, 11*s, 1), true},
		"the disk of a node without a copy was hit": {fault("wipe", 11*s, 12*s, 3), false},
		"a disk was wiped after the loss":           {fault("wipe", 21*s, 22*s, 1), false},
	} {
		losses := []history.Loss{{Key: 0, From: 3, To: noEnd, At: 20 * s}}
		explain(losses, copies, tt.faults, []time.Duration{0, 10 * s, 30 * s})
		require.Equal(t, tt.want, losses[0].Media, name)
	}
}
