package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// tagged is a private field: version 1 and JSON.
func tagged(key uint32, body string) (t kmsg.Tags) {
	t.Set(key, append([]byte{1}, body...))
	return t
}

// threeNodes makes a fake that describes a cluster of three, one of them dead, with a topic in trouble.
func threeNodes(t *testing.T) *fake {
	f := startFake(t, "127.0.0.1:0")
	f.topic("orders", 2)
	f.handle(kmsg.DescribeCluster, func(r kmsg.Request) kmsg.Response {
		resp := r.ResponseKind().(*kmsg.DescribeClusterResponse)
		resp.ClusterID, resp.ControllerID = "5L6g3nShT-eMCtK--X86sw", 2
		node := func(id int32, fenced bool, tag string) {
			b := kmsg.NewDescribeClusterResponseBroker()
			b.NodeID, b.Host, b.Port, b.Rack, b.IsFenced = id, fmt.Sprintf("n%d", id), 9092, kmsg.StringPtr("r1"), fenced
			b.UnknownTags = tagged(nodeTag, tag)
			resp.Brokers = append(resp.Brokers, b)
		}
		node(3, true, `{"state":"dead","voter":true,"replicas":2,"leaders":0,"rack":"r1","maxLevel":1,"level":1}`)
		node(1, false, `{"state":"alive","voter":true,"replicas":2,"leaders":1,"rack":"r1","maxLevel":2,"level":1}`)
		node(2, false, `{"state":"draining","voter":false,"replicas":2,"leaders":0,"rack":"","maxLevel":2,"level":1}`)
		return resp
	})
	f.handle(kmsg.DescribeTopicPartitions, func(r kmsg.Request) kmsg.Response {
		req, resp := r.(*kmsg.DescribeTopicPartitionsRequest), r.ResponseKind().(*kmsg.DescribeTopicPartitionsResponse)
		for _, rt := range req.Topics {
			if rt.Topic != "orders" {
				at := kmsg.NewDescribeTopicPartitionsResponseTopic()
				at.Topic, at.ErrorCode = kmsg.StringPtr(rt.Topic), unknownTopic
				resp.Topics = append(resp.Topics, at)
				return resp
			}
		}
		at := kmsg.NewDescribeTopicPartitionsResponseTopic()
		at.Topic, at.TopicID = kmsg.StringPtr("orders"), [16]byte{1, 2, 3}
		first := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		first.LeaderID, first.LeaderEpoch, first.Replicas, first.ISR = 1, 4, []int32{1, 2, 3}, []int32{1, 2}
		first.OfflineReplicas = []int32{3}
		first.UnknownTags = tagged(partitionTag, `{"partitionEpoch":7,"minISR":2,"rule":"quorum","durability":"memory","recovery":"wait-all","trusted":[1,2],"lastLeader":1}`)
		second := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		second.Partition, second.LeaderID, second.LeaderEpoch, second.Replicas, second.ISR = 1, -1, 2, []int32{3, 1, 2, 4}, []int32{3}
		second.EligibleLeaderReplicas = []int32{1}
		second.OfflineReplicas = []int32{3}
		second.UnknownTags = tagged(partitionTag, `{"partitionEpoch":5,"minISR":2,"rule":"quorum","durability":"memory","recovery":"wait-all","trusted":[1,2],"lastLeader":-1,"present":[3,1,2],"adding":[1,2,4]}`)
		// One partition at a time, to show that cursors are followed.
		if req.Cursor == nil {
			at.Partitions = append(at.Partitions, first)
			resp.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: "orders", Partition: 1}
		} else {
			at.Partitions = append(at.Partitions, second)
		}
		resp.Topics = append(resp.Topics, at)
		return resp
	})
	f.handle(kmsg.DescribeConfigs, func(r kmsg.Request) kmsg.Response {
		resp := r.ResponseKind().(*kmsg.DescribeConfigsResponse)
		res := kmsg.NewDescribeConfigsResponseResource()
		res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, "orders"
		for _, kv := range [][2]string{{"cleanup.policy", "delete"}, {"commit.durability", "memory"}, {"commit.rule", "quorum"}, {"min.acks", "all"}, {"min.insync.replicas", "2"}, {"recovery.policy", "wait-all"}, {"retention.ms", "604800000"}} {
			c := kmsg.NewDescribeConfigsResponseResourceConfig()
			c.Name, c.Value = kv[0], kmsg.StringPtr(kv[1])
			res.Configs = append(res.Configs, c)
		}
		resp.Resources = append(resp.Resources, res)
		return resp
	})
	f.handle(kmsg.DescribeQuorum, func(r kmsg.Request) kmsg.Response {
		resp := r.ResponseKind().(*kmsg.DescribeQuorumResponse)
		at := kmsg.NewDescribeQuorumResponseTopic()
		at.Topic = "orders"
		ap := kmsg.NewDescribeQuorumResponseTopicPartition()
		for id, end := range map[int32]int64{1: 12, 2: 12, 3: -1} {
			s := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
			s.ReplicaID, s.LogEndOffset = id, end
			ap.CurrentVoters = append(ap.CurrentVoters, s)
		}
		at.Partitions = append(at.Partitions, ap)
		resp.Topics = append(resp.Topics, at)
		return resp
	})
	f.topics["orders"].partitions[0].start, f.topics["orders"].partitions[0].end = 2, 12
	return f
}

func TestJSONIsAContract(t *testing.T) {
	f := threeNodes(t)
	for _, c := range []struct{ file, args string }{
		{"cluster-info.json", "cluster info -o json"},
		{"cluster-info.yaml", "cluster info -o yaml"},
		{"cluster-info.txt", "cluster info"},
		{"node-list.json", "node list -o json"},
		{"node-list.name", "node list -o name"},
		{"topic-describe.json", "topic describe orders -o json"},
		{"topic-describe.txt", "topic describe orders"},
		{"topic-list.json", "topic list -o json"},
		{"topic-list.txt", "topic list --offline"},
		{"health.json", "cluster health -o json"},
		{"health.txt", "health"},
	} {
		r := cordwood(t, f.addr, "", strings.Fields(c.args)...)
		want := exitDone
		if strings.HasPrefix(c.file, "health") {
			want = exitUnhealthy
		}
		if r.code != want {
			t.Errorf("%s: exit code %d: %s", c.args, r.code, r.err)
		}
		golden(t, c.file, r.out)
	}
}

func TestOutputHelpPrintsTheShapeWithoutACluster(t *testing.T) {
	for _, args := range []string{"cluster info", "cluster watch", "cluster upgrade", "health", "node list", "topic describe", "topic list", "topic safety", "topic latency", "bench commit", "partition move", "partition elect", "partition history", "topic create", "topic alter", "topic delete", "topic add-partitions", "node remove",
		"produce", "consume", "verify", "config print", "config check", "errors", "version", "log dump", "log dump --records", "log check", "topic describe x", "verify x y"} {
		r := cordwood(t, "127.0.0.1:1", "", append(strings.Fields(args), "-o", "help")...)
		var shape map[string]any
		if err := json.Unmarshal([]byte(r.out), &shape); err != nil || r.code != exitDone {
			t.Errorf("%s: exit code %d, %v: %s%s", args, r.code, err, r.out, r.err)
			continue
		}
		if _, ok := shape["apiVersion"]; !ok && args != "consume" && !strings.HasPrefix(args, "log dump") {
			t.Errorf("%s: no apiVersion in %s", args, r.out)
		}
		golden(t, "shape-"+strings.NewReplacer(" x", "", " y", "", " --", "-", " ", "-").Replace(args)+".json", r.out)
	}
}

func TestProduceConsumeAndVerifyAgreeForEveryAcksAndCodec(t *testing.T) {
	f := startFake(t, "127.0.0.1:0")
	for _, acks := range []string{"0", "1", "all", "2", "3"} {
		for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
			name := "t-" + acks + "-" + codec
			f.topic(name, 3)
			acked := filepath.Join(t.TempDir(), "acked")
			r := cordwood(t, f.addr, "", "produce", name, "--count", "500", "--size", "100", "--acks", acks, "--compression", codec, "--tag", "run", "--acked", acked,
				"-k", "key{n}", "-H", "a=b", "-o", "json")
			var done produceView
			if err := json.Unmarshal([]byte(r.out), &done); err != nil || r.code != 0 || done.Sent != 500 || done.Acknowledged != 500 || done.Failed != 0 {
				t.Fatalf("%s: %+v %v", name, r, err)
			}
			f.holds(name, 500) // acks=0 is not waited for by anybody else
			want := verifyView{APIVersion: "v1", Acknowledged: 500, Found: 500, Verdict: "ok"}
			if acks == "0" {
				want.Acknowledged, want.Found = 0, 0 // nothing is acknowledged, so no line is written and no tag known
			}
			r = cordwood(t, f.addr, "", "verify", name, acked, "-o", "json")
			var got verifyView
			if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != 0 || got != want {
				t.Fatalf("%s: %+v %+v", name, got, r)
			}
			r = cordwood(t, f.addr, "", "consume", name, "-e", "-f", `%k %K %h %S %v\n`)
			lines := strings.Split(strings.TrimSpace(r.out), "\n")
			if len(lines) != 500 || r.code != 0 {
				t.Fatalf("%s: %d lines, %s", name, len(lines), r.err)
			}
			form := regexp.MustCompile(`^key(\d+) (\d+) id=run-(\d+),a=b 100 run-(\d+) \.+$`)
			for _, l := range lines {
				if m := form.FindStringSubmatch(l); m == nil || m[1] != m[3] || m[3] != m[4] {
					t.Fatalf("%s: %q", name, l)
				}
			}
		}
	}
}

func TestVerifyExitCodesOverAWire(t *testing.T) {
	f := startFake(t, "127.0.0.1:0")
	f.topic("t", 2)
	acked := filepath.Join(t.TempDir(), "acked")
	if r := cordwood(t, f.addr, "", "produce", "t", "--count", "20", "--acks", "1", "--rate", "1000/s", "-p", "1", "--tag", "run", "--acked", acked); r.code != 0 {
		t.Fatal(r)
	}
	verify := func(code int, want string) {
		t.Helper()
		r := cordwood(t, f.addr, "", "verify", "t", acked, "--timeout", "2s")
		if r.code != code || !strings.Contains(r.out, want) {
			t.Errorf("exit code %d: %s%s", r.code, r.out, r.err)
		}
	}
	verify(0, "verdict: ok")
	log := f.topics["t"].partitions[1]
	change := func(fn func()) {
		f.mu.Lock()
		defer f.mu.Unlock()
		fn()
	}
	if len(log.batches) < 3 {
		t.Fatalf("%d batches: too few to take some away", len(log.batches))
	}
	whole := log.batches
	change(func() { log.start = whole[1].base })
	verify(0, fmt.Sprintf("expired %d", whole[1].base))
	change(func() { log.start = 0 })
	change(func() { log.append(whole[0].raw) })
	verify(21, "verdict: duplicated")
	change(func() { log.batches, log.end = whole[:len(whole)-1], whole[len(whole)-1].base })
	verify(20, fmt.Sprintf("lost %d", 20-log.end))
}

func TestLinesOfStandardInputBecomeRecords(t *testing.T) {
	f := startFake(t, "127.0.0.1:0")
	f.topic("t", 1)
	if r := cordwood(t, f.addr, "one\n\ntwo words\nno end", "produce", "t", "-k", "k"); r.code != 0 || !strings.Contains(r.out, "produced 4/4") {
		t.Fatal(r)
	}
	if r := cordwood(t, f.addr, "", "consume", "t", "-e", "-f", `[%v|%h]`); r.out != "[one|][|][two words|][no end|]" {
		t.Errorf("%+v", r)
	}
	if r := cordwood(t, f.addr, "", "consume", "t", "-n", "1", "-O", "-2", "-o", "json"); !strings.Contains(r.out, `"offset":2`) || !strings.Contains(r.out, `"key":"k","value":"two words","headers":[]`) {
		t.Errorf("%+v", r)
	}
}

func TestStartOffsets(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for in, want := range map[string]startAt{
		"beginning": {'b', 0}, "end": {'e', 0}, "47": {'a', 47}, "+5": {'b', 5}, "-5": {'e', -5}, "@1000": {'@', 1000},
		"@2026-11-29T11:00:00Z": {'@', now.Add(-time.Hour).UnixMilli()}, "@-90m": {'@', now.Add(-90 * time.Minute).UnixMilli()}, "@2026-11-29": {'@', now.Add(-12 * time.Hour).UnixMilli()},
	} {
		if got, err := parseStart(in, now); err != nil || got != want {
			t.Errorf("%s: %+v %v", in, got, err)
		}
	}
	for _, bad := range []string{"", "x", "@", "@yesterday", "@5m", "5x", "--5", "1.5"} {
		if got, err := parseStart(bad, now); err == nil {
			t.Errorf("%q was taken as %+v", bad, got)
		}
	}
	f := startFake(t, "127.0.0.1:0")
	f.topic("t", 1)
	if r := cordwood(t, f.addr, "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n", "produce", "t"); r.code != 0 {
		t.Fatal(r)
	}
	for offset, want := range map[string]string{"beginning": "0 1 2 3 4 5 6 7 8 9", "end": "", "8": "8 9", "-3": "7 8 9", "+7": "7 8 9", "-100": "0 1 2 3 4 5 6 7 8 9", "100": "", "@0": "0 1 2 3 4 5 6 7 8 9"} {
		if r := cordwood(t, f.addr, "", "consume", "t", "-e", "--offset="+offset, "-f", "%v "); strings.TrimSpace(r.out) != want || r.code != 0 {
			t.Errorf("%s: %+v", offset, r)
		}
	}
}

func TestFormatLettersThatAreWrongAreRefused(t *testing.T) {
	for _, bad := range []string{"%", "%q", `\`, `\q`, `\xzz`} {
		if _, err := parseFormat(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if r := cordwood(t, "127.0.0.1:1", "", "consume", "t", "-f", "%q"); r.code != exitUsage {
		t.Errorf("%+v", r)
	}
}

func TestEverySeedIsTriedAndARefusedOneAgain(t *testing.T) {
	f := startFake(t, "127.0.0.1:0")
	f.topic("t", 1)
	if r := cordwood(t, "127.0.0.1:1,"+f.addr, "", "produce", "t", "--count", "3"); r.code != 0 {
		t.Errorf("%+v", r)
	}
	// A port that nobody listens on yet.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	got := make(chan result)
	go func() {
		got <- cordwoodCtx(context.Background(), addr, "", "consume", "late", "-n", "0", "-e", "--timeout", "20s", "-v")
	}()
	late := startFake(t, addr)
	late.topic("late", 1)
	if r := <-got; r.code != 0 {
		t.Errorf("%+v", r)
	}
	start := time.Now()
	if r := cordwood(t, "127.0.0.1:1", "", "topic", "list", "--timeout", "300ms"); r.code != exitUnreachable || !strings.Contains(r.err, "connection refused") || !strings.Contains(r.err, "hint:") {
		t.Errorf("%+v", r)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestExitCodes(t *testing.T) {
	f := threeNodes(t)
	create := func(code int16) {
		f.handle(kmsg.CreateTopics, func(r kmsg.Request) kmsg.Response {
			resp := r.ResponseKind().(*kmsg.CreateTopicsResponse)
			for i, rt := range r.(*kmsg.CreateTopicsRequest).Topics {
				at := kmsg.NewCreateTopicsResponseTopic()
				if at.Topic = rt.Topic; i == 0 {
					at.ErrorCode = code
				}
				resp.Topics = append(resp.Topics, at)
			}
			return resp
		})
	}
	unregister := func(code int16) {
		f.handle(kmsg.UnregisterBroker, func(r kmsg.Request) kmsg.Response {
			resp := r.ResponseKind().(*kmsg.UnregisterBrokerResponse)
			resp.ErrorCode, resp.ErrorMessage = code, kmsg.StringPtr("node 3 holds orders-0")
			return resp
		})
	}
	for _, c := range []struct {
		args  string
		code  int
		err   string
		setup func()
	}{
		{"topic create a", exitDone, "", func() { create(0) }},
		{"topic create a", exitExists, "[TOPIC_ALREADY_EXISTS]", func() { create(kerr.TopicAlreadyExists.Code) }},
		{"topic create a b", exitPartial, "1 of 2 topics failed", func() { create(kerr.TopicAlreadyExists.Code) }},
		{"topic create a -r 5", exitRefused, "[INVALID_REPLICATION_FACTOR]", func() { create(kerr.InvalidReplicationFactor.Code) }},
		{"topic create a", exitUnauthorised, "[CLUSTER_AUTHORIZATION_FAILED]", func() { create(kerr.ClusterAuthorizationFailed.Code) }},
		{"topic create", exitUsage, "takes one or more topic names", nil},
		{"topic create a -c x", exitUsage, "write key=value", nil},
		{"topic describe nope", exitNotFound, "[UNKNOWN_TOPIC_OR_PARTITION]", nil},
		{"topic delete a", exitUsage, "needs --yes", nil},
		{"topic creat a", exitUsage, "did you mean cordwood topic create?", nil},
		{"topik", exitUsage, "did you mean cordwood topic?", nil},
		{"topic list --nope", exitUsage, "unknown flag", nil},
		{"topic list -o xml", exitUsage, "write table, wide, json", nil},
		{"topic list --timeout 0s", exitUsage, "--timeout", nil},
		{"topic alter orders", exitUsage, "say what to change", nil},
		{"topic add-partitions orders", exitUsage, "--to N", nil},
		{"produce orders --count 1 --acks some", exitUsage, "--acks some", nil},
		{"produce orders --count 1 --rate fast", exitUsage, "--rate fast", nil},
		{"produce orders --count 1 --tag a/b", exitUsage, "--tag", nil},
		{"produce orders --count 1 -p 9", exitNotFound, "has no partition 9", nil},
		{"produce nope --count 1", exitNotFound, "there is no topic", nil},
		{"consume nope", exitNotFound, "there is no topic", nil},
		{"consume orders -O someday", exitUsage, "-O someday", nil},
		{"verify orders /nonexistent", exitNotFound, "no such file", nil},
		{"node remove 3 --yes", exitDone, "", func() { unregister(0) }},
		{"node remove n3 --yes", exitRefused, "holds orders-0", func() { unregister(kerr.InvalidRequest.Code) }},
		{"node remove 9 --yes", exitNotFound, "[BROKER_ID_NOT_REGISTERED]", func() { unregister(102) }},
		{"node remove three --yes", exitUsage, "is not a node id", nil},
		{"config check /nonexistent", exitConfig, "no such file", nil},
		{"config print --set node.id=x", exitConfig, "is not a whole number", nil},
		{"errors NOPE", exitNotFound, "no Kafka error", nil},
		{"cluster upgrade --dry-run", exitDone, "", nil},
	} {
		if c.setup != nil {
			c.setup()
		}
		r := cordwood(t, f.addr, "", strings.Fields(c.args)...)
		if r.code != c.code || !strings.Contains(r.err, c.err) {
			t.Errorf("%s: exit code %d, want %d: %s", c.args, r.code, c.code, r.err)
		}
		if c.code != exitDone && c.code != exitConfig && !strings.HasPrefix(r.err, "error: ") {
			t.Errorf("%s: %q does not begin with error:", c.args, r.err)
		}
	}
}

func TestCompletionOffersTopicsAndStaysSilentWithoutACluster(t *testing.T) {
	f := startFake(t, "127.0.0.1:0")
	f.topic("orders", 1)
	f.topic("payments", 1)
	if r := cordwood(t, f.addr, "", "__complete", "topic", "delete", ""); r.code != 0 || !strings.HasPrefix(r.out, "orders\npayments\n") {
		t.Errorf("%+v", r)
	}
	start := time.Now()
	if r := cordwood(t, "127.0.0.1:1", "", "__complete", "topic", "describe", ""); r.code != 0 || strings.Contains(r.out, "orders") || time.Since(start) > 3*time.Second {
		t.Errorf("after %s: %+v", time.Since(start), r)
	}
}

func TestATopicIsDescribedWhileItsNewLeadersDoNotKnowTheirOffsets(t *testing.T) {
	f := threeNodes(t)
	f.handle(kmsg.ListOffsets, func(r kmsg.Request) kmsg.Response {
		req := r.(*kmsg.ListOffsetsRequest)
		resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, topic := range req.Topics {
			rt := kmsg.NewListOffsetsResponseTopic()
			rt.Topic = topic.Topic
			for _, p := range topic.Partitions {
				rp := kmsg.NewListOffsetsResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, kerr.OffsetNotAvailable.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp
	})
	r := cordwood(t, f.addr, "", "topic", "describe", "orders", "-o", "json")
	if r.code != exitDone || !strings.Contains(r.out, `"highWatermark": -1`) && !strings.Contains(r.out, `"highWatermark":-1`) {
		t.Errorf("exit code %d: %s%s", r.code, r.out, r.err)
	}
	if !strings.Contains(r.err, "offsets of orders are unknown") {
		t.Errorf("nobody is told: %q", r.err)
	}
}

func TestUpgradeAsksForTheHighestLevelThatAllNodesHave(t *testing.T) {
	f := threeNodes(t)
	asked := make(chan *kmsg.UpdateFeaturesRequest, 2)
	f.handle(kmsg.UpdateFeatures, func(r kmsg.Request) kmsg.Response {
		asked <- r.(*kmsg.UpdateFeaturesRequest)
		return r.ResponseKind()
	})
	if r := cordwood(t, f.addr, "", "cluster", "upgrade", "-o", "json"); r.code != 0 || !strings.Contains(r.out, `"status": "current"`) || len(asked) != 0 ||
		!strings.Contains(r.err, "other nodes know level 2; held back by node 3: start it with the new version") {
		t.Errorf("node 3 has level 1 alone: %+v", r)
	}
	if r := cordwood(t, f.addr, "", "cluster", "upgrade", "--to", "2", "-o", "json"); r.code != 0 || !strings.Contains(r.out, `"status": "raised"`) || !strings.Contains(r.err, "knows only level 1 cannot join any more") {
		t.Errorf("%+v", r)
	}
	if r := cordwood(t, f.addr, "", "cluster", "upgrade", "--to", "2", "--dry-run"); r.code != 0 || !strings.Contains(r.err, "no way back to level 1") {
		t.Errorf("%+v", r)
	}
	if u := (<-asked).FeatureUpdates; len(u) != 1 || u[0].Feature != "metadata.level" || u[0].MaxVersionLevel != 2 || u[0].UpgradeType != 1 {
		t.Errorf("%+v", u)
	}
}

func TestAnInterruptedCommandExits130(t *testing.T) {
	f := startFake(t, "127.0.0.1:0")
	f.topic("t", 1)
	for _, args := range []string{"consume t", "produce t --count 100000000 --rate 10/s", "cluster watch --interval 10ms"} {
		if strings.HasPrefix(args, "cluster") {
			f = threeNodes(t)
		}
		ctx, cancel := context.WithCancel(context.Background())
		want := map[byte]string{'c': "Fetch", 'p': "Produce"}[args[0]]
		if strings.HasPrefix(args, "cluster") {
			want = "DescribeCluster"
		}
		go func() {
			defer cancel()
			for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
				f.mu.Lock()
				seen := strings.Contains(strings.Join(f.asked, " "), want)
				f.mu.Unlock()
				if seen {
					return
				}
				<-time.After(time.Millisecond)
			}
		}()
		if r := cordwoodCtx(ctx, f.addr, "", strings.Fields(args)...); r.code != exitInterrupted {
			t.Errorf("%s: %+v", args, r)
		}
	}
}

func TestWatcherSeesChanges(t *testing.T) {
	at := time.Date(2026, 11, 29, 14, 6, 2, 0, time.UTC)
	snap := func(ms int, controller int32, nodes map[int32]string, parts map[string]partitionView) *snapshot {
		return &snapshot{at: at.Add(time.Duration(ms) * time.Millisecond), controller: controller, nodes: nodes, partitions: parts}
	}
	var w watcher
	var lines []string
	for _, s := range []*snapshot{
		snap(0, 1, map[int32]string{1: "alive", 2: "alive"}, map[string]partitionView{"t/0": {Leader: 1, LeaderEpoch: 4, ISR: []int32{1, 2}}, "gone/0": {Leader: 1}}),
		snap(100, -1, map[int32]string{1: "alive", 2: "alive"}, map[string]partitionView{"t/0": {Leader: -1, LeaderEpoch: 4, ISR: []int32{1, 2}}, "gone/0": {Leader: 1}}),
		snap(920, 2, map[int32]string{1: "dead", 2: "alive"}, map[string]partitionView{"t/0": {Leader: 2, LeaderEpoch: 5, ISR: []int32{2}}, "new/0": {Leader: 2}}),
		snap(1000, 2, map[int32]string{2: "alive", 3: "alive"}, map[string]partitionView{"t/0": {Leader: 2, LeaderEpoch: 5, ISR: []int32{2}}, "new/0": {Leader: 2}}),
	} {
		for _, e := range w.next(s) {
			lines = append(lines, e.Time[17:23]+" "+strings.Join(strings.Fields(e.line()), " "))
		}
	}
	want := []string{
		"02.100 cluster controller 1 → none",
		"02.100 t/0 leader 1 → none (epoch 4)",
		"02.920 cluster controller none → 2",
		"02.920 node 1 node alive → dead",
		"02.920 gone/0 topic there → deleted",
		"02.920 new/0 topic - → created",
		"02.920 t/0 leader none → 2 (epoch 5) unavailable for 0.82s",
		"02.920 t/0 isr 1,2 → 2",
		"03.000 node 1 node dead → -",
		"03.000 node 3 node - → alive",
	}
	if d := cmp.Diff(want, lines); d != "" {
		t.Error(d)
	}
}

func TestHintsNameOnlyCommandsThatExist(t *testing.T) {
	root := newRoot(&app{})
	for name, n := range errorNotes {
		if e, err := findError(name); err != nil || kafkaName(e) != name {
			t.Errorf("%s is no Kafka error: %v", name, err)
		}
		checkCommands(t, root, n.remedy)
	}
	var missing *failure
	if !errors.As(noTopic("x"), &missing) {
		t.Fatal("a missing topic is no failure")
	}
	for _, text := range []string{hintFor(kerr.InvalidRequest, kerr.InvalidRequest), missing.hint} {
		checkCommands(t, root, text)
	}
	v := judgeHealth(&clusterView{Controller: -1, Nodes: []nodeView{{State: "dead"}}}, []topicView{{Name: "t", Partitions: []partitionView{
		{Leader: -1}, {Replicas: []int32{1, 2, 3}, ISR: []int32{1}}, {Partition: 2, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2}}}}}, map[string]int{"t": 2})
	if len(v.Reasons) != 5 {
		t.Errorf("%+v", v.Reasons)
	}
	for _, r := range v.Reasons {
		checkCommands(t, root, r.Next)
	}
}

var commandLine = regexp.MustCompile(`cordwood((?: [a-z-]+)+)`)

func checkCommands(t *testing.T, root *cobra.Command, text string) {
	t.Helper()
	for _, m := range commandLine.FindAllStringSubmatch(text, -1) {
		words := strings.Fields(m[1])
		cmd, rest, err := root.Find(words)
		if err != nil || cmd == root {
			t.Errorf("%q names a command that does not exist: %v", text, err)
			continue
		}
		for _, w := range rest {
			if strings.HasPrefix(w, "--") && cmd.Flags().Lookup(strings.TrimPrefix(w, "--")) == nil {
				t.Errorf("%q: %s has no flag %s", text, cmd.CommandPath(), w)
			}
		}
	}
}

func TestConfigCommands(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "cordwood.yaml")
	if err := os.WriteFile(bad, []byte("node: { id: 3 }\nhttp: { bnid: x }\nstorage: { segment_bytes: 1gb }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := cordwood(t, "", "", "config", "check", bad)
	want := strings.ReplaceAll("F:2:9: unknown key \"bnid\" (did you mean \"bind\"?)\nF:3:27: storage.segment_bytes: \"1gb\" is not a size; write 1GiB or 1073741824\nerror: 2 faults in the configuration\n", "F", bad)
	if r.code != exitConfig || r.err != want {
		t.Errorf("%d %s", r.code, cmp.Diff(want, r.err))
	}
	r = cordwood(t, "", "", "config", "check", bad, "-o", "json")
	if r.code != exitConfig || !strings.Contains(r.out, `"valid": false`) || !strings.Contains(r.out, `"where": "`+bad+`:2:9"`) {
		t.Errorf("%+v", r)
	}
	good := filepath.Join(t.TempDir(), "cordwood.yaml")
	if err := os.WriteFile(good, []byte("node: { id: 3 }\nlog: { level: debug }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CORDWOOD_HTTP_PPROF", "true")
	if r := cordwood(t, "", "", "config", "check", good); r.code != 0 || r.out != good+": valid\n" {
		t.Errorf("%+v", r)
	}
	r = cordwood(t, "", "", "config", "print", "--config", good, "--set", "log.level=warn", "--changed")
	got := strings.Join(strings.Fields(r.out), " ")
	wantRows := "KEY VALUE SOURCE WHERE node.id 3 file " + good + ":1:13 http.pprof true environment CORDWOOD_HTTP_PPROF log.level warn flag flag log.level"
	if got != wantRows {
		t.Errorf("%s", cmp.Diff(wantRows, got))
	}
	if r := cordwood(t, "", "", "config", "print", "--defaults", "-o", "json"); r.code != 0 || !strings.Contains(r.out, `"key": "storage.disk_stop"`) {
		t.Errorf("%+v", r)
	}
	if r := cordwood(t, "", "", "config", "print", "--defaults", "--changed"); r.code != exitUsage {
		t.Errorf("%+v", r)
	}
}
