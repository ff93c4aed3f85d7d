package metadata

import (
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/logstore/record"
)

func TestAMergedDeltaCoversBothAndNamesNothingTwice(t *testing.T) {
	old, mid, last := &Image{index: 1}, &Image{index: 2}, &Image{index: 3}
	p := func(n int32) record.PartitionID { return record.PartitionID{Topic: record.TopicID{1}, Partition: n} }
	d := Delta{Old: old, New: mid, Brokers: []int32{2}, Partitions: []record.PartitionID{p(1), p(0)}}
	d.Merge(Delta{Old: mid, New: last, Brokers: []int32{1, 2}, Topics: []record.TopicID{{1}}, Partitions: []record.PartitionID{p(1), p(2)}, Events: []Event{{Kind: "x"}}})
	require.Same(t, old, d.Old)
	require.Same(t, last, d.New)
	require.Equal(t, []int32{1, 2}, d.Brokers)
	require.Equal(t, []record.TopicID{{1}}, d.Topics)
	require.Equal(t, []record.PartitionID{p(0), p(1), p(2)}, d.Partitions)
	require.Len(t, d.Events, 1)

	d.Merge(Delta{Old: last, New: last, Full: true})
	require.True(t, d.Full)
	require.Empty(t, d.Partitions, "a full delta lists nothing")
}
