package api_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/transport/api/apitest"
)

// altered changes settings of a topic; a value of nil gives one back to its default.
func altered(w *apitest.Cluster, topic string, forced bool, changes map[string]*string) *kmsg.IncrementalAlterConfigsResponseResource {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	x := kmsg.NewIncrementalAlterConfigsRequestResource()
	x.ResourceType, x.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	for name, value := range changes {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = name, value
		if value == nil {
			c.Op = kmsg.IncrementalAlterConfigOpDelete
		}
		x.Configs = append(x.Configs, c)
	}
	if forced {
		x.UnknownTags.Set(metadata.TagForced, []byte{1})
	}
	req.Resources = append(req.Resources, x)
	return &w.Call(1, req).(*kmsg.IncrementalAlterConfigsResponse).Resources[0]
}

func to(name, value string) map[string]*string { return map[string]*string{name: &value} }

// described gives a setting of a topic: its value, source and type.
func described(w *apitest.Cluster, topic, name string) string {
	req := kmsg.NewPtrDescribeConfigsRequest()
	x := kmsg.NewDescribeConfigsRequestResource()
	x.ResourceType, x.ResourceName, x.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, []string{name}
	req.Resources = append(req.Resources, x)
	c := w.Call(4, req).(*kmsg.DescribeConfigsResponse).Resources[0].Configs[0]
	return fmt.Sprintf("%s %d %d", *c.Value, c.Source, c.ConfigType)
}

func records(w *apitest.Cluster, topic string) (l []string) {
	for _, p := range w.Image().Topic(topic).Partitions {
		l = append(l, fmt.Sprintf("%s %s %s %d", p.Rule, p.Durability, p.Recovery, p.MinISR))
	}
	return l
}

const (
	rule       = metadata.SettingCommitRule
	durability = metadata.SettingCommitDurability
	minAcks    = metadata.SettingMinAcks
)

func TestATopicCommitsAsItsSettingsSayFromItsFirstRecordOn(t *testing.T) {
	w := apitest.New(t, 1, 2, 3)
	x := created(t, w, "orders", 2, 3, rule, "quorum", durability, "disk", minAcks, "-1", metadata.SettingRecovery, "manual")
	require.Zero(t, x.ErrorCode)
	require.Equal(t, []string{"quorum disk manual 2", "quorum disk manual 2"}, records(w, "orders"))
	require.Equal(t, "quorum 1 2", described(w, "orders", rule))
	require.Equal(t, "disk 1 2", described(w, "orders", durability))
	require.Equal(t, "all 1 2", described(w, "orders", minAcks))

	require.Zero(t, created(t, w, "plain", 1, 3).ErrorCode)
	require.Equal(t, []string{"isr memory wait-all 2"}, records(w, "plain"))
	require.Equal(t, "isr 5 2", described(w, "plain", rule))
	require.Equal(t, "memory 5 2", described(w, "plain", durability))
	require.Equal(t, "0 5 2", described(w, "plain", minAcks))
}

func TestRuleAndDurabilityChangeOnALiveTopicAndBack(t *testing.T) {
	w := apitest.New(t, 1, 2, 3)
	created(t, w, "orders", 2, 3)
	both := func(l ...string) []string { return append(l, l...) }

	require.Zero(t, altered(w, "orders", false, to(rule, "quorum")).ErrorCode)
	require.Equal(t, both("isr-to-quorum memory wait-all 2"), records(w, "orders"))
	require.Equal(t, "quorum 1 2", described(w, "orders", rule), "the value that the change leads to")

	second := altered(w, "orders", false, to(durability, "disk"))
	require.EqualValues(t, 60, second.ErrorCode, "one change at a time")
	require.Contains(t, *second.ErrorMessage, "commit.rule")
	require.Equal(t, both("isr-to-quorum memory wait-all 2"), records(w, "orders"))
	require.Equal(t, "memory 5 2", described(w, "orders", durability), "nothing is half done")

	require.Zero(t, altered(w, "orders", false, map[string]*string{rule: nil}).ErrorCode)
	require.Equal(t, both("isr memory wait-all 2"), records(w, "orders"), "the old value takes the change back")
	require.Equal(t, "isr 5 2", described(w, "orders", rule))

	require.Zero(t, altered(w, "orders", false, to(durability, "disk")).ErrorCode)
	require.Equal(t, both("isr memory-to-disk wait-all 2"), records(w, "orders"))
	require.Equal(t, "disk 1 2", described(w, "orders", durability))

	replace := kmsg.NewPtrAlterConfigsRequest() // names no setting: all go back to their defaults
	r := kmsg.NewAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, "orders"
	replace.Resources = append(replace.Resources, r)
	require.Zero(t, w.Call(2, replace).(*kmsg.AlterConfigsResponse).Resources[0].ErrorCode)
	require.Equal(t, both("isr memory wait-all 2"), records(w, "orders"))

	require.EqualValues(t, 42, altered(w, "orders", false, map[string]*string{rule: ptr("quorum"), durability: ptr("disk")}).ErrorCode)
	require.Equal(t, both("isr memory wait-all 2"), records(w, "orders"))
}

func ptr(s string) *string { return &s }

func TestSettingsOfCommitsThatCannotHoldAreRefusedWithTheirNumbers(t *testing.T) {
	w := apitest.New(t, 1, 2, 3)
	for _, c := range []struct {
		replicas    int16
		name, value string
		code        int16
		says        []string
	}{
		{3, rule, "majority", 40, []string{"commit.rule", "isr, quorum"}},
		{3, durability, "paper", 40, []string{"commit.durability", "memory, disk"}},
		{3, minAcks, "some", 40, []string{"min.acks"}},
		{3, minAcks, "4", 40, []string{"min.acks", "4", "3 replicas"}},
		{3, metadata.SettingMinISR, "4", 40, []string{"4", "3 replicas"}},
		{2, rule, "quorum", 40, []string{"commit.rule=quorum", "2 replicas"}},
	} {
		x := created(t, w, "refused", 1, c.replicas, c.name, c.value)
		require.Equal(t, c.code, x.ErrorCode, "%s=%s", c.name, c.value)
		for _, s := range c.says {
			require.Contains(t, *x.ErrorMessage, s)
		}
		require.Nil(t, w.Image().Topic("refused"))

		topic := fmt.Sprintf("alive%d", c.replicas)
		created(t, w, topic, 1, c.replicas)
		before := records(w, topic)
		y := altered(w, topic, false, to(c.name, c.value))
		require.Equal(t, c.code, y.ErrorCode, "%s=%s", c.name, c.value)
		for _, s := range c.says {
			require.Contains(t, *y.ErrorMessage, s)
		}
		require.Equal(t, before, records(w, topic))
	}
}

func TestTheQuorumRuleWithTwoReplicasIsTakenWhereItIsForced(t *testing.T) {
	w := apitest.New(t, 1, 2)
	req := topicWish("pair", 1, 2, rule, "quorum")
	req.Topics[0].UnknownTags.Set(metadata.TagForced, []byte{1})
	require.Zero(t, w.Call(7, req).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
	require.Equal(t, []string{"quorum memory wait-all 1"}, records(w, "pair"))
	created(t, w, "later", 1, 2)
	require.Zero(t, altered(w, "later", true, to(rule, "quorum")).ErrorCode)
	require.Equal(t, []string{"isr-to-quorum memory wait-all 1"}, records(w, "later"))
}

func TestAClusterOfTheFirstLevelRefusesWhatItsNodesCouldNotReadOneByOne(t *testing.T) {
	w := apitest.NewAt(t, 1, 1, 2, 3)
	req := topicWish("quorum", 1, 3, rule, "quorum")
	req.Topics = append(req.Topics, topicWish("plain", 1, 3, rule, "isr").Topics...)
	resp := w.Call(7, req).(*kmsg.CreateTopicsResponse)
	require.EqualValues(t, 95, resp.Topics[0].ErrorCode)
	require.Contains(t, *resp.Topics[0].ErrorMessage, "cordwood cluster upgrade")
	require.Zero(t, resp.Topics[1].ErrorCode)
	require.EqualValues(t, 95, altered(w, "plain", false, to(minAcks, "all")).ErrorCode)
	require.EqualValues(t, 95, altered(w, "plain", false, to(durability, "disk")).ErrorCode)
	require.Zero(t, altered(w, "plain", false, to(durability, "memory")).ErrorCode)
}
