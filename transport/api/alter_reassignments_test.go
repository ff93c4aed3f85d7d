package api_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/transport/api/apitest"
)

// moved asks for one partition to be moved; no replicas cancel.
func moved(w *apitest.Cluster, topic string, n int32, replicas ...int32) kmsg.AlterPartitionAssignmentsResponseTopicPartition {
	return movedBy(w, func(*kmsg.AlterPartitionAssignmentsRequest) {}, topic, n, replicas...)
}

func movedBy(w *apitest.Cluster, change func(*kmsg.AlterPartitionAssignmentsRequest), topic string, n int32, replicas ...int32) kmsg.AlterPartitionAssignmentsResponseTopicPartition {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	x := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	x.Topic = topic
	p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	p.Partition, p.Replicas = n, replicas
	x.Partitions = append(x.Partitions, p)
	req.Topics = append(req.Topics, x)
	change(req)
	return w.Call(1, req).(*kmsg.AlterPartitionAssignmentsResponse).Topics[0].Partitions[0]
}

// moving lists what is on its way, as "topic/partition: replicas +adding -removing".
func moving(w *apitest.Cluster) (l []string) {
	resp := w.Call(0, kmsg.NewPtrListPartitionReassignmentsRequest()).(*kmsg.ListPartitionReassignmentsResponse)
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			l = append(l, fmt.Sprintf("%s/%d: %v +%v -%v", t.Topic, p.Partition, p.Replicas, p.AddingReplicas, p.RemovingReplicas))
		}
	}
	return l
}

// placed makes a topic of one partition on given nodes.
func placed(t *testing.T, w *apitest.Cluster, name string, replicas []int32, configs ...string) {
	t.Helper()
	req := topicWish(name, -1, -1, configs...)
	a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	a.Replicas = replicas
	req.Topics[0].ReplicaAssignment = append(req.Topics[0].ReplicaAssignment, a)
	x := w.Call(7, req).(*kmsg.CreateTopicsResponse).Topics[0]
	require.Zero(t, x.ErrorCode, x.ErrorMessage)
}

func TestAPartitionOnItsWayIsShownWithWhatIsAddedUntilTheMoveIsCancelled(t *testing.T) {
	for _, r := range []string{"isr", "quorum"} {
		w := apitest.New(t, 1, 2, 3, 4)
		placed(t, w, "orders", []int32{1, 2, 3}, rule, r)
		require.Empty(t, moving(w))
		require.Zero(t, moved(w, "orders", 0, 4, 2, 3).ErrorCode)
		require.Equal(t, []string{"orders/0: [1 2 3 4] +[4] -[1]"}, moving(w))
		p := w.Image().Topic("orders").Partitions[0]
		require.Equal(t, []int32{1, 2, 3}, p.Replicas)
		require.Equal(t, []int32{4, 2, 3}, p.Adding)

		meta := kmsg.NewPtrMetadataRequest()
		require.Equal(t, []int32{1, 2, 3, 4}, w.Call(12, meta).(*kmsg.MetadataResponse).Topics[0].Partitions[0].Replicas)
		described := w.Call(0, kmsg.NewPtrDescribeTopicPartitionsRequest()).(*kmsg.DescribeTopicPartitionsResponse).Topics[0].Partitions[0]
		require.Equal(t, []int32{1, 2, 3, 4}, described.Replicas)
		require.Equal(t, []int32{1, 2, 3}, described.ISR)
		described.UnknownTags.Each(func(tag uint32, raw []byte) {
			info, err := metadata.DecodePartitionInfo(raw)
			require.NoError(t, err)
			require.Equal(t, []int32{1, 2, 3}, info.Present)
			require.Equal(t, []int32{4, 2, 3}, info.Adding)
			require.Equal(t, []int32{1, 2, 3}, info.Trusted, "an observer that nobody certified does not vote")
			require.EqualValues(t, 1, info.LastLeader)
		})

		again := moved(w, "orders", 0, 1, 2, 4)
		require.EqualValues(t, 60, again.ErrorCode)
		require.Contains(t, *again.ErrorMessage, "[1 2 3] to [4 2 3]")
		x := altered(w, "orders", false, to(durability, "disk"))
		require.EqualValues(t, 60, x.ErrorCode)
		require.Contains(t, *x.ErrorMessage, "reassignment")

		require.Zero(t, moved(w, "orders", 0).ErrorCode)
		require.Empty(t, moving(w))
		cancelled := moved(w, "orders", 0)
		require.EqualValues(t, 85, cancelled.ErrorCode)
		require.Nil(t, cancelled.ErrorMessage)
		require.Equal(t, []int32{1, 2, 3}, w.Image().Topic("orders").Partitions[0].Replicas)
	}
}

func TestAMoveThatCannotHoldIsRefusedWithItsNumbers(t *testing.T) {
	w := apitest.New(t, 1, 2, 3, 4)
	placed(t, w, "isr", []int32{1, 2, 3}, minAcks, "2")
	placed(t, w, "quorum", []int32{1, 2, 3}, rule, "quorum", metadata.SettingMinISR, "1")
	sameFactor := func(r *kmsg.AlterPartitionAssignmentsRequest) { r.AllowReplicationFactorChange = false }
	forced := func(r *kmsg.AlterPartitionAssignmentsRequest) { r.UnknownTags.Set(metadata.TagForced, []byte{1}) }
	none := func(*kmsg.AlterPartitionAssignmentsRequest) {}
	for _, c := range []struct {
		topic    string
		n        int32
		replicas []int32
		change   func(*kmsg.AlterPartitionAssignmentsRequest)
		code     int16
		says     string
	}{
		{"missing", 0, []int32{1}, none, 3, "missing"},
		{"isr", 7, []int32{1}, none, 3, "7"},
		{"isr", 0, []int32{}, none, 39, "no replica"},
		{"isr", 0, []int32{1, 1}, none, 39, "twice"},
		{"isr", 0, []int32{1, 9}, none, 39, "node 9"},
		{"isr", 0, []int32{-1}, none, 39, "node -1"},
		{"isr", 0, []int32{1}, none, 39, "min.insync.replicas is 2"},
		{"isr", 0, []int32{1, 2}, sameFactor, 39, "2 replicas are named where there are 3"},
		{"isr", 0, []int32{1, 2, 3}, sameFactor, 0, ""},
		{"quorum", 0, []int32{1, 2}, none, 39, "a majority of 2 is both"},
		{"quorum", 0, []int32{1, 2}, forced, 0, ""},
	} {
		x := movedBy(w, c.change, c.topic, c.n, c.replicas...)
		require.Equal(t, c.code, x.ErrorCode, "%s/%d to %v: %v", c.topic, c.n, c.replicas, x.ErrorMessage)
		if c.says != "" {
			require.Contains(t, *x.ErrorMessage, c.says)
		}
	}
	require.Equal(t, []string{"quorum/0: [1 2 3] +[] -[3]"}, moving(w))
}

func TestListedMovesAreThoseOfThePartitionsAsked(t *testing.T) {
	w := apitest.New(t, 1, 2, 3)
	placed(t, w, "a", []int32{1, 2})
	placed(t, w, "b", []int32{1, 2})
	require.Zero(t, moved(w, "a", 0, 1, 3).ErrorCode)
	require.Zero(t, moved(w, "b", 0, 1, 3).ErrorCode)
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	for _, name := range []string{"b", "missing"} {
		x := kmsg.NewListPartitionReassignmentsRequestTopic()
		x.Topic, x.Partitions = name, []int32{0, 5}
		req.Topics = append(req.Topics, x)
	}
	resp := w.Call(0, req).(*kmsg.ListPartitionReassignmentsResponse)
	require.Len(t, resp.Topics, 1)
	require.Equal(t, "b", resp.Topics[0].Topic)
	req.Topics = []kmsg.ListPartitionReassignmentsRequestTopic{}
	require.Empty(t, w.Call(0, req).(*kmsg.ListPartitionReassignmentsResponse).Topics)
}
