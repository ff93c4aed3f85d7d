package partition

import "cordwood/logstore/record"

// AckPosition is one partition of a follower's Ack frame: how far its copy counts, in its view of the leader epoch.
type AckPosition struct {
	ID          record.PartitionID
	LeaderEpoch int32
	AckOffset   int64
}
