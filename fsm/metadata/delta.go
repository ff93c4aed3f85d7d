package metadata

import (
	"bytes"
	"cmp"
	"slices"

	"cordwood/logstore/record"
)

// Merge makes d cover next too, which follows it: what changed in either, from d.Old to next.New. Lists come out sorted
// and without doubles, so that their length is bounded by what exists and not by how often it changed.
func (d *Delta) Merge(next Delta) {
	d.New = next.New
	d.Full = d.Full || next.Full
	d.Events = append(d.Events, next.Events...)
	if d.Full {
		d.Brokers, d.Topics, d.Partitions = nil, nil, nil
		return
	}
	d.Brokers = union(d.Brokers, next.Brokers, cmp.Compare[int32])
	d.Topics = union(d.Topics, next.Topics, compareTopics)
	d.Partitions = union(d.Partitions, next.Partitions, ComparePartitions)
}

func union[T comparable](a, b []T, order func(T, T) int) []T {
	if len(b) == 0 {
		return a
	}
	a = append(slices.Clip(a), b...)
	slices.SortFunc(a, order)
	return slices.Compact(a)
}

func compareTopics(a, b record.TopicID) int { return bytes.Compare(a[:], b[:]) }

// ComparePartitions orders by topic id, then number.
func ComparePartitions(a, b record.PartitionID) int {
	return cmp.Or(compareTopics(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}
