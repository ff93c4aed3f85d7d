package metadata

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATopicsPromiseIsOneSentence(t *testing.T) {
	healthy := []PromisePartition{{Led: true, Live: 3, InSync: 3}}
	for _, c := range []struct {
		f    PromiseFacts
		want string
	}{
		{PromiseFacts{Rule: RuleISR, Durability: DurabilityMemory, MinISR: 2, MinAcks: "0", Replicas: 3, Partitions: healthy},
			"acknowledged when every in-sync replica, at least 2 of 3, has it in memory (acks=all), or as little as the producer asks for (acks=0, 1, 2…); " +
				"survives kill -9 of every process and the loss of any 1 of 3 nodes or of their power, not loss of power everywhere; what a lower acks acknowledged may go with its nodes; " +
				"blocked by fewer than 2 of 3 replicas alive (now 3), and by a slow replica until it leaves the in-sync replicas"},
		{PromiseFacts{Rule: RuleQuorum, Durability: DurabilityMemory, MinISR: 2, MinAcks: "all", Replicas: 3, Partitions: healthy},
			"acknowledged when 2 of 3 replicas, the fastest, have it in memory, whatever acks the producer asks for; " +
				"survives kill -9 of every process and the loss of any 1 of 3 nodes or of their power, not loss of power everywhere; " +
				"blocked by fewer than 2 of 3 replicas alive (now 3)"},
		{PromiseFacts{Rule: RuleQuorum, Durability: DurabilityDisk, MinISR: 3, MinAcks: "1", Replicas: 5},
			"acknowledged when 3 of 5 replicas, the fastest, have it on disk (acks=all), or at least the leader has it (any lower acks); " +
				"survives kill -9 of every process, the loss of any 2 of 5 nodes and loss of power everywhere; what a lower acks acknowledged may go with its nodes; " +
				"blocked by fewer than 3 of 5 replicas alive"},
		{PromiseFacts{Rule: RuleISR, Durability: DurabilityDisk, MinISR: 1, MinAcks: "all", Replicas: 1},
			"acknowledged when the only replica has it on disk, whatever acks the producer asks for; " +
				"survives kill -9 of every process and loss of power everywhere, not the loss of a node; " +
				"blocked by the loss of its only node"},
		{PromiseFacts{Rule: RuleISRToQuorum, Durability: DurabilityMemoryToDisk, MinISR: 1, MinAcks: "2", Replicas: 3, Partitions: healthy},
			"acknowledged when every in-sync replica, at least 1 of 3, has it on disk and 2 of 3 replicas, the fastest, have it on disk (acks=all), or at least 2 of 3 replicas have it (any lower acks); " +
				"survives kill -9 of every process, not loss of power everywhere; what a lower acks acknowledged may go with its nodes; " +
				"blocked by fewer than 2 of 3 replicas alive (now 3), and by a slow replica until it leaves the in-sync replicas"},
		{PromiseFacts{Rule: RuleQuorum, Durability: DurabilityMemory, MinISR: 2, MinAcks: "all", Replicas: 4},
			"acknowledged when 3 of 4 replicas, the fastest, have it in memory, whatever acks the producer asks for; " +
				"survives kill -9 of every process and the loss of any 1 of 4 nodes or of their power, not loss of power everywhere; " +
				"blocked by fewer than 3 of 4 replicas alive"},
	} {
		require.Equal(t, c.want, PromiseOf(c.f).Sentence())
	}
}

func TestWhatBlocksATopicNowIsSaidWithNumbersAndPartitions(t *testing.T) {
	blocked := func(rule CommitRule, l ...PromisePartition) string {
		return PromiseOf(PromiseFacts{Rule: rule, Durability: DurabilityMemory, MinISR: 2, MinAcks: "all", Replicas: 3, Partitions: l}).BlockedBy
	}
	ok, alone, unled := PromisePartition{Led: true, Live: 3, InSync: 3}, PromisePartition{Led: true, Live: 1, InSync: 1}, PromisePartition{Live: 2, InSync: 2}
	require.Equal(t, "too few replicas now: 1 of 3 alive, 2 are needed", blocked(RuleQuorum, alone))
	require.Equal(t, "too few in-sync replicas now: 1 of 3, min.insync.replicas is 2 (partition 1)", blocked(RuleISR, ok, alone))
	require.Equal(t, "the lack of a leader now (partitions 0, 1, 2, 3, 4, and 2 more)", blocked(RuleQuorum, unled, unled, unled, unled, unled, unled, unled))
	require.Equal(t, "fewer than 2 of 3 replicas alive (now 2)", blocked(RuleQuorum, ok, PromisePartition{Led: true, Live: 2, InSync: 1}))
}
