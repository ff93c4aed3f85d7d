package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
)

// behindByTen is a quorum partition of three, of which node 3 is ten records behind.
func behindByTen() (*partitionView, []nodeView, *partitionPlaces) {
	p := &partitionView{
		Partition: 0, Leader: 1, LeaderEpoch: 4, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2},
		info: metadata.PartitionInfo{MinISR: 2, Rule: metadata.RuleQuorum, Durability: metadata.DurabilityMemory, Trusted: []int32{1, 2, 3}, LastLeader: 1},
	}
	nodes := []nodeView{{ID: 1, State: "alive", Voter: true}, {ID: 2, State: "alive", Voter: true}, {ID: 3, State: "alive", Voter: true}}
	told := &partitionPlaces{
		own:      map[int32]place{1: {2003, 2000, 0}, 2: {2000, 2000, 0}, 3: {1990, 1988, 0}},
		byLeader: map[int32]place{2: {2000, -1, -1}, 3: {1985, -1, -1}},
		hw:       map[int32]int64{1: 2000, 2: 1990, 3: 1990},
	}
	return p, nodes, told
}

func drawn(v safetyView) string {
	var b bytes.Buffer
	tw := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	(&safetiesView{Partitions: []safetyView{v}}).table(tw, false)
	tw.Flush()
	return b.String()
}

func TestTheSafetyPictureShowsWhereEveryRecordIsAndWhatDeathsWouldTake(t *testing.T) {
	p, nodes, told := behindByTen()
	golden(t, "topic-safety.txt", drawn(judgeSafety("orders", p, nodes, told, nil)))

	p, nodes, told = behindByTen()
	p.info.Rule, p.ISR, p.info.Durability = metadata.RuleISR, []int32{1}, metadata.DurabilityDisk
	golden(t, "topic-safety-if-down.txt", drawn(judgeSafety("orders", p, nodes, told, []int32{1, 3})))

	p, nodes, told = behindByTen() // no leader, node 1 does not answer, node 2 may not vote
	p.Leader, nodes[0].State, p.info.Trusted = -1, "dead", []int32{1, 3}
	delete(told.own, 1)
	delete(told.hw, 1)
	golden(t, "topic-safety-offline.txt", drawn(judgeSafety("orders", p, nodes, told, nil)))

	empty := judgeSafety("orders", p, nodes, nil, nil)
	if len(empty.Ranges) != 0 || !strings.Contains(drawn(empty), "no answer") {
		t.Error(drawn(empty))
	}
}

func TestTopicSafetyInJSONIsTheContract(t *testing.T) {
	f := threeNodes(t)
	f.handle(kmsg.DescribeQuorum, func(r kmsg.Request) kmsg.Response {
		resp := r.ResponseKind().(*kmsg.DescribeQuorumResponse)
		at := kmsg.NewDescribeQuorumResponseTopic()
		at.Topic = "orders"
		ap := kmsg.NewDescribeQuorumResponseTopicPartition()
		ap.HighWatermark = 10
		for _, s := range []struct {
			id                  int32
			end, flushed, start int64
		}{{1, 12, 11, 2}, {2, 10, -1, -1}} {
			v := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
			v.ReplicaID, v.LogEndOffset = s.id, s.end
			v.UnknownTags.Set(metadata.TagCopyPlace, metadata.CopyPlace{Flushed: s.flushed, LogStart: s.start}.Encode())
			ap.CurrentVoters = append(ap.CurrentVoters, v)
		}
		at.Partitions = append(at.Partitions, ap)
		resp.Topics = append(resp.Topics, at)
		return resp
	})
	r := cordwood(t, f.addr, "", "topic", "safety", "orders/0", "--if-down", "1", "-o", "json")
	golden(t, "topic-safety.json", r.out)
	var v struct {
		APIVersion string
		Partitions []map[string]any
	}
	if err := json.Unmarshal([]byte(r.out), &v); err != nil || r.code != 0 || len(v.Partitions) != 1 || v.APIVersion != apiVersion {
		t.Fatalf("%+v %v", r, err)
	}
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"orders --if-down 9", exitNotFound, "no node 9"},
		{"orders --if-down x", exitUsage, "--if-down x"},
		{"orders --if-down 1,1", exitUsage, "each once"},
		{"orders/7", exitNotFound, "it has 2"},
		{"orders/x", exitUsage, "TOPIC/NUMBER"},
		{"missing", exitNotFound, "missing"},
	} {
		r := cordwood(t, f.addr, "", append([]string{"topic", "safety"}, strings.Fields(c.args)...)...)
		if r.code != c.code || !strings.Contains(r.err, c.says) {
			t.Errorf("%s: %+v", c.args, r)
		}
	}
}
