package metadata

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/logstore/record"
)

func TestANewTopicIsJudgedBeforeItExists(t *testing.T) {
	w := newWorld(t, 1, 2, 3, 4)
	w.fence(4)
	w.topic("a.b", 1, []int32{1, 2})
	good := NewTopic{ID: topicID("new"), Name: "new", Assignment: [][]int32{{1, 2, 3}, {2, 3, 1}}}
	for name, c := range map[string]struct {
		change func(*NewTopic)
		want   error
	}{
		"empty name":                {func(n *NewTopic) { n.Name = "" }, ErrInvalidTopic},
		"a path":                    {func(n *NewTopic) { n.Name = "a/b" }, ErrInvalidTopic},
		"the same name":             {func(n *NewTopic) { n.Name = "a.b" }, ErrTopicExists},
		"differs in a dot only":     {func(n *NewTopic) { n.Name = "a_b" }, ErrInvalidTopic},
		"the metadata log":          {func(n *NewTopic) { n.Name = MetadataTopic }, ErrInvalidRequest},
		"no id":                     {func(n *NewTopic) { n.ID = record.TopicID{} }, ErrInvalidRequest},
		"the id of another":         {func(n *NewTopic) { n.ID = topicID("a.b") }, ErrInvalidRequest},
		"no partitions":             {func(n *NewTopic) { n.Assignment = nil }, ErrInvalidPartitions},
		"no replicas":               {func(n *NewTopic) { n.Assignment = [][]int32{{}} }, ErrInvalidAssignment},
		"uneven replicas":           {func(n *NewTopic) { n.Assignment = [][]int32{{1, 2}, {1}} }, ErrInvalidAssignment},
		"a node twice":              {func(n *NewTopic) { n.Assignment = [][]int32{{1, 1}} }, ErrInvalidAssignment},
		"an unknown node":           {func(n *NewTopic) { n.Assignment = [][]int32{{1, 9}} }, ErrInvalidAssignment},
		"only fenced nodes":         {func(n *NewTopic) { n.Assignment = [][]int32{{4}} }, ErrInvalidAssignment},
		"minimum above replicas":    {func(n *NewTopic) { n.MinISR = 4 }, ErrInvalidConfig},
		"minimum below one":         {func(n *NewTopic) { n.MinISR = -1 }, ErrInvalidConfig},
		"a rule of a later level":   {func(n *NewTopic) { n.Rule = RuleQuorum }, ErrLevel},
		"durability of a later one": {func(n *NewTopic) { n.Durability = DurabilityDisk }, ErrLevel},
		"acks of a later one":       {func(n *NewTopic) { n.Configs = map[string]string{SettingMinAcks: "all"} }, ErrLevel},
		"unknown rule":              {func(n *NewTopic) { n.Rule = RuleISRToQuorum }, ErrInvalidConfig},
		"unknown durability":        {func(n *NewTopic) { n.Durability = DurabilityMemoryToDisk }, ErrInvalidConfig},
		"unknown recovery policy":   {func(n *NewTopic) { n.Recovery = "hope" }, ErrInvalidConfig},
	} {
		n := good
		c.change(&n)
		require.ErrorIs(t, w.one(&CreateTopics{Topics: []NewTopic{n}}), c.want, name)
		require.Equal(t, 1, w.s.Image().TopicCount(), name)
	}
	n := good
	n.MinISR = 4
	require.ErrorContains(t, w.one(&CreateTopics{Topics: []NewTopic{n}}), "min.insync.replicas is 4, the partition has 3 replicas")
	require.NoError(t, w.one(&CreateTopics{Topics: []NewTopic{good}}))
	require.Equal(t, int32(2), w.at(record.PartitionID{Topic: good.ID}).MinISR)
}

func TestANewPartitionStartsAtEpochZeroWithWhoeverIsAlive(t *testing.T) {
	w := newWorld(t, 1, 2, 3)
	w.fence(1)
	p := w.at(w.topic("a", 0, []int32{1, 2, 3}))
	require.Equal(t, &Partition{
		ID: p.ID, Replicas: []int32{1, 2, 3}, Rule: RuleISR, Durability: DurabilityMemory, Recovery: RecoverWaitAll, MinISR: 2,
		Members: []Replica{{ID: 1, Cert: -1}, {ID: 2, Cert: w.epoch(2).Epoch}, {ID: 3, Cert: w.epoch(3).Epoch}},
		Leader:  2, LeaderBrokerEpoch: w.epoch(2).Epoch, ISR: []int32{2, 3}, LastLeader: 2,
	}, p)
}

func TestADeletedTopicFreesItsNameAndNotItsId(t *testing.T) {
	w := newWorld(t, 1)
	p := w.topic("a.b", 1, []int32{1})
	require.NoError(t, w.one(&DeleteTopics{Topics: []record.TopicID{p.Topic}}))
	require.ErrorIs(t, w.one(&DeleteTopics{Topics: []record.TopicID{p.Topic}}), ErrUnknownTopicID)
	require.Nil(t, w.at(p))
	require.NoError(t, w.one(&CreateTopics{Topics: []NewTopic{{ID: topicID("second"), Name: "a_b", Assignment: [][]int32{{1}}}}}))
	require.Nil(t, w.s.Image().TopicByID(p.Topic))
	require.Equal(t, "a_b", w.s.Image().Colliding("a.b"))
}

func TestPartitionsAreAddedToTheCountTheyWereAskedFor(t *testing.T) {
	w := newWorld(t, 1, 2)
	p := w.topic("a", 1, []int32{1, 2})
	add := func(first int32, assignment ...[]int32) error {
		return w.one(&CreatePartitions{Topics: []MorePartitions{{Topic: p.Topic, First: first, Assignment: assignment}}})
	}
	require.NoError(t, add(1, []int32{2, 1}, []int32{1, 2}))
	require.ErrorIs(t, add(1, []int32{2, 1}), ErrInvalidPartitions, "a copy of the request")
	require.ErrorIs(t, add(3), ErrInvalidPartitions)
	require.ErrorIs(t, add(3, []int32{1}), ErrInvalidAssignment, "another replication factor")
	require.Len(t, w.s.Image().Topic("a").Partitions, 3)
	require.Equal(t, int32(2), w.s.Image().Topic("a").Partitions[1].Leader)
	require.ErrorIs(t, w.one(&CreatePartitions{Topics: []MorePartitions{{Topic: topicID("no")}}}), ErrUnknownTopicID)
}

func TestSettingsChangeAsAWholeOrNotAtAll(t *testing.T) {
	w := newWorld(t, 1, 2, 3)
	p := w.topic("a", 2, []int32{1, 2, 3}, []int32{1, 2, 3})
	alter := func(c TopicConfigChange) error {
		c.Topic = p.Topic
		return w.one(&AlterTopicConfigs{Topics: []TopicConfigChange{c}})
	}
	require.NoError(t, alter(TopicConfigChange{Set: map[string]string{"retention.ms": "1", "flush.ms": "2"}}))
	old := w.s.Image()
	require.NoError(t, alter(TopicConfigChange{Remove: []string{"flush.ms", "unknown"}, Set: map[string]string{"retention.ms": "3"}, Recovery: RecoverManual}))
	require.Equal(t, map[string]string{"retention.ms": "3"}, w.s.Image().Topic("a").Configs)
	require.Equal(t, map[string]string{"retention.ms": "1", "flush.ms": "2"}, old.Topic("a").Configs, "an image never changes")
	require.Equal(t, RecoverManual, w.at(p).Recovery)
	require.Zero(t, w.at(p).PartitionEpoch)
	require.ErrorIs(t, alter(TopicConfigChange{Set: map[string]string{"x": "y"}, MinISR: 4}), ErrInvalidConfig)
	require.ErrorIs(t, alter(TopicConfigChange{Set: map[string]string{"x": "y"}, Recovery: "hope"}), ErrInvalidConfig)
	require.Equal(t, map[string]string{"retention.ms": "3"}, w.s.Image().Topic("a").Configs)
	require.NoError(t, alter(TopicConfigChange{Remove: []string{"retention.ms"}, MinISR: 3}))
	require.Empty(t, w.s.Image().Topic("a").Configs)
	for _, q := range w.s.Image().Topic("a").Partitions {
		require.Equal(t, []int32{3, 1}, []int32{q.MinISR, q.PartitionEpoch})
	}
}

func TestAForwardedRequestIsAnsweredAgainAndNotDoneAgain(t *testing.T) {
	w := newWorld(t, 1)
	create := func(n int) *CreateTopics {
		return &CreateTopics{Request: RequestID{byte(n), byte(n >> 8), 1}, Topics: []NewTopic{
			{ID: topicID(fmt.Sprint("t", n)), Name: fmt.Sprint("t", n), Assignment: [][]int32{{1}}}, {Name: "/"},
		}}
	}
	first := w.apply(create(0))
	require.NoError(t, first.Items[0])
	require.NoError(t, w.one(&DeleteTopics{Topics: []record.TopicID{topicID("t0")}}))
	again := w.apply(create(0))
	require.Equal(t, first, again, "with the index that the first one had")
	require.Nil(t, w.s.Image().Topic("t0"))
	for n := range RememberedRequests {
		w.apply(&DeleteTopics{Request: RequestID{byte(n), byte(n >> 8), 2}})
	}
	require.Equal(t, RememberedRequests, w.s.requests.order.Len())
	require.Equal(t, RememberedRequests, w.s.requests.answers.Len())
	require.Greater(t, w.apply(create(0)).Index, first.Index, "the oldest was forgotten")
}

func TestTheClusterIdAndTheLevelNeverGoBack(t *testing.T) {
	w := newWorld(t, 1)
	require.NoError(t, w.apply(&SetCluster{ClusterID: "c", Level: 1}).Err)
	require.ErrorIs(t, w.apply(&SetCluster{ClusterID: "other", Level: 1}).Err, ErrInvalidRequest)
	require.Equal(t, "c", w.s.Image().ClusterID())
	require.ErrorContains(t, w.apply(&SetLevel{Level: 0}).Err, "a level never falls")
	require.ErrorIs(t, w.apply(&SetLevel{Level: LatestLevel + 1}).Err, ErrLevel)
	require.NoError(t, w.apply(&SetLevel{Level: LatestLevel}).Err)
	require.Equal(t, LatestLevel, w.s.Image().Level())

	fresh := &world{t: t, s: NewState(), run: map[int32]*RegisterBroker{}}
	register := &RegisterBroker{Broker: Broker{ID: 1, Incarnation: "i", DirectoryID: "d", MinLevel: 1, MaxLevel: 1}}
	require.ErrorIs(t, fresh.apply(register).Err, ErrInvalidRequest, "there is no cluster yet")
	require.ErrorIs(t, fresh.apply(&SetCluster{ClusterID: "c", Level: LatestLevel + 1}).Err, ErrLevel)
	require.NoError(t, fresh.apply(&SetCluster{ClusterID: "c", Level: 1}).Err)
	register.Broker.MinLevel, register.Broker.MaxLevel = 2, 3
	require.ErrorIs(t, fresh.apply(register).Err, ErrLevel)
}

// A later binary may know more levels than a node that is still registered.
func TestALevelWaitsForTheOldestNode(t *testing.T) {
	w := newWorld(t, 1, 2)
	w.s.head.level = 0
	old := *w.s.head.Broker(2)
	old.MinLevel, old.MaxLevel, old.Version = 0, 0, "v0.1"
	w.s.putBroker(&old)
	err := w.apply(&SetLevel{Level: 1}).Err
	require.ErrorIs(t, err, ErrLevel)
	require.ErrorContains(t, err, "node 2 (version v0.1)")
}

func TestProducerIdsAreHandedOutOnce(t *testing.T) {
	w := newWorld(t, 1)
	take := func(n int32) Result { return w.apply(&AllocateProducerIDs{Broker: w.epoch(1), Count: n}) }
	require.Equal(t, int64(0), take(1000).First)
	require.Equal(t, int64(1000), take(5).First)
	require.Equal(t, int64(1005), take(1).First)
	require.ErrorIs(t, take(0).Err, ErrInvalidRequest)
	require.ErrorIs(t, take(MaxProducerIDBlock+1).Err, ErrInvalidRequest)
	require.ErrorIs(t, w.apply(&AllocateProducerIDs{Broker: BrokerEpoch{ID: 1}, Count: 1}).Err, ErrStaleBrokerEpoch)
}
