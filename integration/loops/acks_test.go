//go:build integration

package loops

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"cordwood/integration/harness"
)

// TestTheCommitRuleIsOneWhoeverSetsIt makes one topic with the quorum rule and alters another one to it as Kafka's tools
// do, and expects the same settings, the same records of the partitions and the same sentence.
func TestTheCommitRuleIsOneWhoeverSetsIt(t *testing.T) {
	c := start(t, 3, harness.Options{})
	cordwood(t, c, []int{0}, "topic", "create", "o", "-p", "3", "-r", "3", "--acks", "quorum")
	known(t, c, "o")
	topic(t, c, "k", 3)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...))
	require.NoError(t, err)
	defer client.Close()
	admin := kadm.NewClient(client)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	set := func(name, value string) kadm.AlterConfig {
		return kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: kadm.StringPtr(value)}
	}
	altered, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{set("commit.rule", "quorum"), set("min.acks", "all")}, "k")
	require.NoError(t, err)
	for _, a := range altered {
		require.NoError(t, a.Err, a.ErrMessage)
	}

	var records []string
	for _, name := range []string{"o", "k"} {
		for _, v := range seen(t, c.Nodes[0], name, 30*time.Second, "the quorum rule in force", func(v viewed) bool { return v.settled() && v.Rule == "quorum" }) {
			records = append(records, fmt.Sprintf("%d: %s %s %s %d %d", v.partition, v.Rule, v.Durability, v.Recovery, v.MinISR, len(v.replicas)))
		}
	}
	require.Equal(t, records[:3], records[3:])
	described, err := admin.DescribeTopicConfigs(ctx, "o", "k")
	require.NoError(t, err)
	values := map[string]map[string]string{}
	for _, r := range described {
		require.NoError(t, r.Err)
		values[r.Name] = map[string]string{}
		for _, s := range r.Configs {
			values[r.Name][s.Key] = s.MaybeValue()
		}
	}
	require.Equal(t, "quorum", values["o"]["commit.rule"])
	require.Equal(t, "all", values["o"]["min.acks"])
	require.Equal(t, values["o"], values["k"])

	for _, name := range []string{"o", "k"} {
		inSync(t, c, name)
		lines := strings.Split(strings.TrimSpace(cordwood(t, c, []int{0}, "topic", "describe", name)), "\n")
		require.Equal(t, "acknowledged when 2 of 3 replicas, the fastest, have it in memory, whatever acks the producer asks for; "+
			"survives kill -9 of every process and the loss of any 1 of 3 nodes or of their power, not loss of power everywhere; "+
			"blocked by fewer than 2 of 3 replicas alive (now 3)", lines[len(lines)-1])
	}
}

// TestATopicRaisesAWeakerAcks pauses both followers of a topic with min.acks=all: a producer that asks for acks=1 gets none
// from the leader alone, gets it once one follower goes on, and is counted.
func TestATopicRaisesAWeakerAcks(t *testing.T) {
	c := start(t, 3, harness.Options{})
	cordwood(t, c, []int{0}, "topic", "create", "o", "-p", "1", "-r", "3", "--acks", "quorum")
	known(t, c, "o")
	inSync(t, c, "o")
	d := describe(t, c, "o")[0]
	leader := c.Node(d.Leader)
	followers := slices.DeleteFunc(slices.Clone(c.Nodes), func(n *harness.Node) bool { return n == leader })
	end := func() float64 {
		return metricOf(t, leader, `cordwood_partition_log_end_offset{partition="0",topic="o"}`)
	}
	raised := `cordwood_produce_acks_raised_total{topic="o"}`

	client, err := kgo.NewClient(kgo.SeedBrokers(leader.External), kgo.DefaultProduceTopic("o"), kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite(),
		kgo.ProducerLinger(0), kgo.ProduceRequestTimeout(30*time.Second))
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, client.ProduceSync(ctx, kgo.StringRecord("warm")).FirstErr())
	before, counted := end(), metricOf(t, leader, raised)
	require.Equal(t, 1.0, counted)

	for _, n := range followers {
		require.NoError(t, n.Pause())
	}
	acked := make(chan error, 1)
	client.Produce(ctx, kgo.StringRecord("waits"), func(_ *kgo.Record, err error) { acked <- err })
	eventually(t, 10*time.Second, "the leader has the record", func() bool { return end() == before+1 })
	alone := time.Now()
	eventually(t, 5*time.Second, "a second with the leader alone", func() bool {
		select {
		case err := <-acked:
			require.FailNow(t, "acknowledged by the leader alone", "%v", err)
		default:
		}
		return time.Since(alone) > time.Second
	})
	require.NoError(t, followers[0].Resume())
	select {
	case err := <-acked:
		require.NoError(t, err)
	case <-time.After(20 * time.Second):
		require.FailNow(t, "not acknowledged with two of three replicas")
	}
	fmt.Printf("acks=1 was answered %s after the followers stood still, with one of them back\n", time.Since(alone).Round(time.Millisecond))
	require.Equal(t, 2.0, metricOf(t, leader, raised))
	require.NoError(t, followers[1].Resume())
	inSync(t, c, "o")
	require.Contains(t, cordwood(t, c, []int{0}, "topic", "describe", "o"), "min.acks=all, told by the present leaders: 2\n")
}
