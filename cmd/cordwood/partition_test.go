package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
)

func TestAMoveIsAskedForAndShownWithHowFarItIs(t *testing.T) {
	f := threeNodes(t)
	var asked *kmsg.AlterPartitionAssignmentsRequest
	f.handle(kmsg.AlterPartitionAssignments, func(r kmsg.Request) kmsg.Response {
		asked = r.(*kmsg.AlterPartitionAssignmentsRequest)
		resp := r.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
		for _, t := range asked.Topics {
			x := kmsg.NewAlterPartitionAssignmentsResponseTopic()
			x.Topic = t.Topic
			for _, p := range t.Partitions {
				y := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
				if y.Partition = p.Partition; p.Partition == 0 && p.Replicas == nil {
					y.ErrorCode = kerr.NoReassignmentInProgress.Code
				}
				x.Partitions = append(x.Partitions, y)
			}
			resp.Topics = append(resp.Topics, x)
		}
		return resp
	})
	r := cordwood(t, f.addr, "", "partition", "move", "orders/1", "--to", "1,2,n4", "--force", "-o", "json")
	golden(t, "partition-move.json", r.out)
	p := asked.Topics[0].Partitions[0]
	forced := false
	asked.UnknownTags.Each(func(key uint32, body []byte) { forced = key == metadata.TagForced })
	if r.code != 0 || p.Partition != 1 || !slices.Equal(p.Replicas, []int32{1, 2, 4}) || !forced {
		t.Errorf("%+v, asked %+v", r, p)
	}
	if r := cordwood(t, f.addr, "", "partition", "move", "orders/0", "--cancel"); r.code != exitNotFound || !strings.Contains(r.err, "[NO_REASSIGNMENT_IN_PROGRESS]") {
		t.Error(r)
	}
	if p := asked.Topics[0].Partitions[0]; p.Replicas != nil {
		t.Errorf("a cancel names replicas %v", p.Replicas)
	}
	for _, args := range []string{"orders", "orders/x --to 1", "orders/0 --to 1,1", "orders/0 --to 1 --cancel"} {
		if r := cordwood(t, f.addr, "", append([]string{"partition", "move"}, strings.Fields(args)...)...); r.code != exitUsage {
			t.Errorf("%s: %+v", args, r)
		}
	}
}

func TestAnUncleanElectionWantsTheNumberOfRecordsThatGo(t *testing.T) {
	f := threeNodes(t)
	f.handle(kmsg.DescribeQuorum, func(r kmsg.Request) kmsg.Response {
		resp := r.ResponseKind().(*kmsg.DescribeQuorumResponse)
		at := kmsg.NewDescribeQuorumResponseTopic()
		at.Topic = "orders"
		ap := kmsg.NewDescribeQuorumResponseTopicPartition()
		ap.Partition, ap.ErrorCode, ap.HighWatermark = 1, kerr.NotLeaderForPartition.Code, 12
		s := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
		s.ReplicaID, s.LogEndOffset = 1, 9
		ap.CurrentVoters = append(ap.CurrentVoters, s)
		at.Partitions = append(at.Partitions, ap)
		resp.Topics = append(resp.Topics, at)
		return resp
	})
	described, elections := f.handlers[kmsg.DescribeTopicPartitions.Int16()], 0
	f.handle(kmsg.DescribeTopicPartitions, func(r kmsg.Request) kmsg.Response {
		resp := described(r).(*kmsg.DescribeTopicPartitionsResponse)
		resp.Topics[0].Partitions[0].LeaderEpoch += int32(elections)
		return resp
	})
	f.handle(kmsg.ElectLeaders, func(r kmsg.Request) kmsg.Response {
		req := r.(*kmsg.ElectLeadersRequest)
		to := metadata.NoNode
		req.UnknownTags.Each(func(_ uint32, body []byte) { to, _ = metadata.DecodeNode(body) })
		if elections++; req.ElectionType != 1 || to != 1 || req.Topics[0].Topic != "orders" || req.Topics[0].Partitions[0] != 1 {
			t.Errorf("asked %+v, to lead: %d", req, to)
		}
		return r.ResponseKind()
	})
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"orders/1 --unclean", exitUsage, "node 1 would lead with a log that ends at 9; at least 3 records that were acknowledged are lost for good, and whatever else only the replicas on nodes 3,2,4 hold"},
		{"orders/1 --unclean --accept-loss 2", exitRefused, "--accept-loss says 2"},
		{"orders/1 --unclean --to 3 --accept-loss 3", exitRefused, "no replica that could lead answers"},
		{"orders/1 --accept-loss 3", exitUsage, "belongs to --unclean"},
		{"orders/1 --to x", exitUsage, "not a node id"},
	} {
		r := cordwood(t, f.addr, "", append([]string{"partition", "elect"}, strings.Fields(c.args)...)...)
		if r.code != c.code || !strings.Contains(r.err, c.says) {
			t.Errorf("%s: %+v", c.args, r)
		}
	}
	if elections != 0 {
		t.Errorf("%d elections without a word", elections)
	}
	if r := cordwood(t, f.addr, "", "partition", "elect", "orders/1", "--unclean", "--to", "1", "--accept-loss", "3"); r.code != 0 || elections != 1 {
		t.Errorf("%+v, %d elections", r, elections)
	}
}

func TestWhatHappenedToAPartitionIsShownOldestFirst(t *testing.T) {
	f := threeNodes(t)
	described := f.handlers[kmsg.DescribeTopicPartitions.Int16()]
	f.handle(kmsg.DescribeTopicPartitions, func(r kmsg.Request) kmsg.Response {
		resp := described(r).(*kmsg.DescribeTopicPartitionsResponse)
		r.(*kmsg.DescribeTopicPartitionsRequest).UnknownTags.Each(func(key uint32, _ []byte) {
			if key == metadata.TagHistory {
				resp.Topics[0].Partitions[0].UnknownTags.Set(key, metadata.EncodeHistory([]metadata.HistoryEntry{
					{Leader: 3, ISR: []int32{3, 1}, Changes: []string{"created on 3,1,2, led by 3"}},
					{Leader: -1, LeaderEpoch: 1, PartitionEpoch: 1, ISR: []int32{1}, Changes: []string{"leader 3 → none (epoch 0 → 1)", "in sync 3,1 → 1"}},
				}))
			}
		})
		return resp
	})
	r := cordwood(t, f.addr, "", "partition", "history", "orders/1")
	golden(t, "partition-history.txt", r.out)
	if r.code != 0 {
		t.Error(r)
	}
	if r := cordwood(t, f.addr, "", "partition", "history", "orders/2"); r.code != exitNotFound {
		t.Error(r)
	}
}

func TestLatencyIsInterpolatedWithinItsBuckets(t *testing.T) {
	bounds := []int64{1000, 2000, 4000}
	m := measuredTimes{Counts: []int64{0, 98, 1, 1}, Sum: 200_000}
	got := m.of("isr", bounds)
	if got.Batches != 100 || got.Mean != 2 || got.P50 < 1.4 || got.P50 > 1.6 || got.P99 != 4 {
		t.Errorf("%+v", got)
	}
	if empty := (&measuredTimes{}).of("isr", bounds); empty.P99 != 0 || empty.Batches != 0 {
		t.Errorf("%+v", empty)
	}
	if open := (&measuredTimes{Counts: []int64{0, 0, 0, 5}, Sum: 1}).of("isr", bounds); open.P50 != 4 {
		t.Errorf("the open bucket reads as %v", open.P50)
	}
}

func TestTheMeasurementsOfAllNodesAreAddedUp(t *testing.T) {
	f := threeNodes(t)
	f.handle(kmsg.DescribeQuorum, func(r kmsg.Request) kmsg.Response {
		resp := r.ResponseKind().(*kmsg.DescribeQuorumResponse)
		at := kmsg.NewDescribeQuorumResponseTopic()
		at.Topic = "orders"
		at.UnknownTags = tagged(metadata.TagAckLatency, `{"bounds":[1000,2000],"leader":{"counts":[4,0,0],"sum":2000},"quorum":{"counts":[0,4,0],"sum":6000},"isr":{"counts":[0,2,2],"sum":9000},"completedBy":{"2":3,"-1":1},"skipped":1,"raised":2}`)
		resp.Topics = append(resp.Topics, at)
		return resp
	})
	r := cordwood(t, f.addr, "", "topic", "latency", "orders", "-q")
	golden(t, "topic-latency.txt", r.out)
	if r.code != 0 {
		t.Error(r)
	}
	r = cordwood(t, f.addr, "", "topic", "describe", "orders", "-q")
	if !strings.Contains(r.out, "less than min.acks=all, told by the present leaders: 2") {
		t.Error(r)
	}
}

func TestAnotherReplicationFactorIsAMoveOfEveryPartition(t *testing.T) {
	f := threeNodes(t)
	moves := map[int32][]int32{}
	f.handle(kmsg.AlterPartitionAssignments, func(r kmsg.Request) kmsg.Response {
		for _, p := range r.(*kmsg.AlterPartitionAssignmentsRequest).Topics[0].Partitions {
			moves[p.Partition] = p.Replicas
		}
		return r.ResponseKind()
	})
	r := cordwood(t, f.addr, "", "topic", "alter", "orders", "--replication", "1")
	if r.code != 0 || !slices.Equal(moves[0], []int32{1}) || !slices.Equal(moves[1], []int32{1}) {
		t.Errorf("%+v, moved %v", r, moves)
	}
	r = cordwood(t, f.addr, "", "topic", "alter", "orders", "--replication", "5")
	if r.code != exitRefused || !strings.Contains(r.err, "5 asked, and 1 of 3 nodes are alive") || !strings.Contains(r.err, "[INVALID_REPLICATION_FACTOR]") {
		t.Error(r)
	}
	if r := cordwood(t, f.addr, "", "topic", "alter", "orders", "--replication", "2", "--acks", "isr"); r.code != exitUsage {
		t.Error(r)
	}
}
