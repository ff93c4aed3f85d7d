package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
)

func TestAcksIsShortForRuleAndWeakestAcknowledgement(t *testing.T) {
	rule, durability, minAcks := metadata.SettingCommitRule, metadata.SettingCommitDurability, metadata.SettingMinAcks
	for _, c := range []struct {
		flags commitFlags
		want  []keyValue // nil: refused
	}{
		{commitFlags{}, []keyValue{}},
		{commitFlags{acks: "isr"}, []keyValue{{rule, "isr"}, {minAcks, "all"}}},
		{commitFlags{acks: "quorum"}, []keyValue{{rule, "quorum"}, {minAcks, "all"}}},
		{commitFlags{acks: "leader"}, []keyValue{{rule, "isr"}, {minAcks, "1"}}},
		{commitFlags{acks: "2"}, []keyValue{{rule, "isr"}, {minAcks, "2"}}},
		{commitFlags{acks: "quorum", durability: "disk"}, []keyValue{{rule, "quorum"}, {durability, "disk"}, {minAcks, "all"}}},
		{commitFlags{acks: "quorum", rule: "quorum", minAcks: "all"}, []keyValue{{rule, "quorum"}, {minAcks, "all"}}},
		{commitFlags{rule: "quorum", minAcks: "1"}, []keyValue{{rule, "quorum"}, {minAcks, "1"}}},
		{commitFlags{rule: "nonsense"}, []keyValue{{rule, "nonsense"}}}, // the cluster knows what it takes
		{commitFlags{acks: "quorum", rule: "isr"}, nil},
		{commitFlags{acks: "leader", minAcks: "0"}, nil},
		{commitFlags{acks: "0"}, nil},
		{commitFlags{acks: "-1"}, nil},
		{commitFlags{acks: "some"}, nil},
		{commitFlags{acks: "40000"}, nil},
	} {
		got, err := c.flags.with(nil)
		if (err == nil) != (c.want != nil) {
			t.Errorf("%+v: %v", c.flags, err)
		}
		if err == nil && !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v", c.flags, got)
		}
	}
	if _, err := (&commitFlags{rule: "isr"}).with([]string{"commit.rule=quorum"}); err == nil {
		t.Error("a setting given twice was taken")
	}
}

func TestACreatedTopicIsToldWhatItsSettingsMean(t *testing.T) {
	f := startFake(t, "127.0.0.1:0")
	forced, settings := false, map[string]string{}
	f.handle(kmsg.CreateTopics, func(r kmsg.Request) kmsg.Response {
		req, resp := r.(*kmsg.CreateTopicsRequest), r.ResponseKind().(*kmsg.CreateTopicsResponse)
		asked := req.Topics[0]
		asked.UnknownTags.Each(func(key uint32, body []byte) { forced = key == metadata.TagForced && body[0] == 1 })
		at := kmsg.NewCreateTopicsResponseTopic()
		at.Topic, at.NumPartitions, at.ReplicationFactor = asked.Topic, 3, 3
		for _, c := range asked.Configs {
			settings[c.Name] = *c.Value
		}
		for name, value := range map[string]string{"commit.rule": "isr", "commit.durability": "memory", "min.acks": "0", "min.insync.replicas": "2"} {
			c := kmsg.NewCreateTopicsResponseTopicConfig()
			if given, ok := settings[name]; ok {
				value = given
			}
			c.Name, c.Value = name, &value
			at.Configs = append(at.Configs, c)
		}
		resp.Topics = append(resp.Topics, at)
		return resp
	})
	r := cordwood(t, f.addr, "", "topic", "create", "orders", "--acks", "quorum", "--durability", "disk", "--force", "-c", "retention.ms=1")
	golden(t, "topic-create.txt", r.out)
	want := map[string]string{"commit.rule": "quorum", "commit.durability": "disk", "min.acks": "all", "retention.ms": "1"}
	if r.code != 0 || !forced || !cmp.Equal(settings, want) {
		t.Errorf("%+v: forced %t, %v", r, forced, settings)
	}
	r = cordwood(t, f.addr, "", "topic", "create", "orders", "--acks", "quorum", "-c", "min.acks=1")
	if r.code != exitUsage || !strings.Contains(r.err, "min.acks") {
		t.Error(r)
	}
}
