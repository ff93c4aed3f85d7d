package torture

import (
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/integration/history"
)

func TestEveryCommitRuleIsTriedWithEveryDurabilityAndAcknowledgement(t *testing.T) {
	seen := map[[4]string]bool{}
	namesOnce := map[string]bool{}
	for _, topic := range topicSet(3) {
		seen[[4]string{topic.Rule, topic.Durability, topic.MinAcks, topic.Acks}] = true
		require.False(t, namesOnce[topic.Name], topic.Name)
		namesOnce[topic.Name] = true
		require.Equal(t, 2, topic.MinISR)
	}
	for _, rule := range []string{"isr", "quorum"} {
		for _, rest := range [][3]string{{"memory", "0", "all"}, {"disk", "0", "all"}, {"memory", "0", "1"}, {"memory", "all", "1"}} {
			require.True(t, seen[[4]string{rule, rest[0], rest[1], rest[2]}], "%s %v", rule, rest)
		}
	}
	require.Len(t, keysOf(topicSet(3)), partitions*len(topicSet(3)))
	require.Equal(t, history.Key{Topic: 1, Partition: 1}, keysOf(topicSet(3))[3])
	require.Equal(t, 1, topicSet(1)[0].MinISR)
	require.Equal(t, 2, topicSet(5)[0].MinISR)
	quorum := topicSet(5)[len(topicSet(5))-1]
	require.Equal(t, []any{"quorum", 5, 3}, []any{quorum.Rule, quorum.Replicas, quorum.MinISR})
}

func TestAForeignClusterIsAskedForKafkasSettingsAlone(t *testing.T) {
	topic := topicSet(3)[0]
	require.Len(t, settingsOf(topic, true), 1)
	require.Equal(t, "2", *settingsOf(topic, true)["min.insync.replicas"])
	require.Equal(t, "isr", *settingsOf(topic, false)["commit.rule"])
}
