package broker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

func TestALateApplyLoopIsToldEveryChangeOnceAndKeepsNoEvents(t *testing.T) {
	q := newDeltas()
	require.Nil(t, q.take())
	a, b := record.PartitionID{Partition: 1}, record.PartitionID{Partition: 2}
	for range 3 {
		q.put(metadata.Delta{Partitions: []record.PartitionID{b, a}, Events: []metadata.Event{{Kind: "PartitionOffline"}}})
	}
	select {
	case <-q.wake:
	default:
		t.Fatal("the loop was not woken")
	}
	d := q.take()
	require.NotNil(t, d)
	require.Equal(t, []record.PartitionID{a, b}, d.Partitions)
	require.Empty(t, d.Events)
	require.Nil(t, q.take(), "what was taken is not told again")
}
