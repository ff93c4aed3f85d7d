package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/transport"
	"cordwood/transport/api"
	"cordwood/transport/api/apitest"
)

func topicWish(name string, partitions int32, replication int16, configs ...string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, replication
	for i := 0; i < len(configs); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = configs[i], &configs[i+1]
		t.Configs = append(t.Configs, c)
	}
	req.Topics = append(req.Topics, t)
	return req
}

// created makes a topic and gives its answer.
func created(t *testing.T, w *apitest.Cluster, name string, partitions int32, replication int16, configs ...string) kmsg.CreateTopicsResponseTopic {
	t.Helper()
	resp := w.Call(7, topicWish(name, partitions, replication, configs...)).(*kmsg.CreateTopicsResponse)
	require.Len(t, resp.Topics, 1)
	return resp.Topics[0]
}

func TestACreatedTopicIsAnsweredWhenItsLeadersAreInOffice(t *testing.T) {
	w := apitest.New(t, 1, 2, 3)
	w.NotInOffice(5)
	w.Soon(func() {
		x := created(t, w, "orders", 6, 3)
		require.Zero(t, x.ErrorCode)
		require.EqualValues(t, 6, x.NumPartitions)
	})
	require.Zero(t, w.NotInOffice(0), "the answer left before the leaders were in office")
	topic := w.Image().Topic("orders")
	require.Len(t, topic.Partitions, 6)
	for _, p := range topic.Partitions {
		require.NotEqual(t, metadata.NoNode, p.Leader)
		require.EqualValues(t, 2, p.MinISR, "three replicas spare one")
	}
}

func TestACreatedTopicIsAnsweredInTimeThoughNoLeaderTakesOffice(t *testing.T) {
	w := apitest.New(t, 1)
	w.NotInOffice(1 << 30)
	req := topicWish("orders", 1, 1)
	req.TimeoutMillis = 20
	w.Soon(func() {
		resp := w.Call(7, req).(*kmsg.CreateTopicsResponse)
		require.Zero(t, resp.Topics[0].ErrorCode, "the topic is there")
	})
}

func TestAReplicationFactorThatCannotHoldIsRefusedWithBothNumbers(t *testing.T) {
	w := apitest.New(t, 1, 2)
	x := created(t, w, "orders", 1, 3)
	require.EqualValues(t, 38, x.ErrorCode)
	require.Contains(t, *x.ErrorMessage, "3")
	require.Contains(t, *x.ErrorMessage, "2")

	x = created(t, w, "orders", 1, 2, metadata.SettingMinISR, "3")
	require.EqualValues(t, 40, x.ErrorCode)
	require.Contains(t, *x.ErrorMessage, "3")
	require.Contains(t, *x.ErrorMessage, "2")
	require.Nil(t, w.Image().Topic("orders"))

	x = created(t, w, "orders", 1, -1)
	require.Zero(t, x.ErrorCode)
	require.EqualValues(t, 2, x.ReplicationFactor, "the default is lowered to the nodes there are")
}

func TestAnOutcomeThatIsNotKnownIsNotCalledASuccess(t *testing.T) {
	w := apitest.New(t, 1)
	w.LoseNext(metadata.ErrOutcomeUnknown)
	x := created(t, w, "orders", 1, 1)
	require.EqualValues(t, 7, x.ErrorCode)

	w.Elsewhere = true
	w.Forwarded = func(*transport.Request) (kmsg.Response, error) { return nil, metadata.ErrOutcomeUnknown }
	require.EqualValues(t, 7, created(t, w, "others", 1, 1).ErrorCode)
	w.Forwarded = nil
	require.EqualValues(t, 41, created(t, w, "others", 1, 1).ErrorCode, "no controller is known")
	require.Nil(t, w.Image().Topic("others"))
}

// newest is the highest version of a request that is served.
func newest(w *apitest.Cluster, req kmsg.Request) int16 {
	for v := req.MaxVersion(); v > 0; v-- {
		if _, action := w.Handlers.Lookup(req.Key(), v, false); action == transport.Serve {
			return v
		}
	}
	return 0
}

func TestANodeThatIsNotTheControllerForwards(t *testing.T) {
	w := apitest.New(t, 1, 2)
	w.Elsewhere = true
	var asked []string
	w.Forwarded = func(r *transport.Request) (kmsg.Response, error) {
		asked = append(asked, kmsg.NameForKey(r.Key))
		return r.Body.ResponseKind(), nil
	}
	for _, req := range []kmsg.Request{
		topicWish("orders", 1, 1), kmsg.NewPtrCreatePartitionsRequest(), kmsg.NewPtrAlterConfigsRequest(),
		kmsg.NewPtrIncrementalAlterConfigsRequest(), kmsg.NewPtrElectLeadersRequest(), kmsg.NewPtrUnregisterBrokerRequest(), kmsg.NewPtrUpdateFeaturesRequest(),
		kmsg.NewPtrAlterPartitionAssignmentsRequest(), kmsg.NewPtrListPartitionReassignmentsRequest(),
	} {
		w.Call(newest(w, req), req)
	}
	del := kmsg.NewPtrDeleteTopicsRequest()
	del.TimeoutMillis = 1000
	w.Call(6, del)
	require.Equal(t, []string{"CreateTopics", "CreatePartitions", "AlterConfigs", "IncrementalAlterConfigs", "ElectLeaders", "UnregisterBroker", "UpdateFeatures", "AlterPartitionAssignments", "ListPartitionReassignments", "DeleteTopics"}, asked)
}

func TestAnIncrementalChangeOfMinISRReachesEveryPartition(t *testing.T) {
	w := apitest.New(t, 1, 2, 3)
	created(t, w, "orders", 3, 3)
	alter := func(op kmsg.IncrementalAlterConfigOp, value string) int16 {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		x := kmsg.NewIncrementalAlterConfigsRequestResource()
		x.ResourceType, x.ResourceName = kmsg.ConfigResourceTypeTopic, "orders"
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op, c.Value = metadata.SettingMinISR, op, &value
		x.Configs = append(x.Configs, c)
		req.Resources = append(req.Resources, x)
		return w.Call(1, req).(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode
	}
	minISR := func() (l []int32) {
		for _, p := range w.Image().Topic("orders").Partitions {
			l = append(l, p.MinISR)
		}
		return l
	}
	require.Zero(t, alter(kmsg.IncrementalAlterConfigOpSet, "3"))
	require.Equal(t, []int32{3, 3, 3}, minISR())
	require.EqualValues(t, 40, alter(kmsg.IncrementalAlterConfigOpSet, "4"))
	require.Zero(t, alter(kmsg.IncrementalAlterConfigOpDelete, ""))
	require.Equal(t, []int32{2, 2, 2}, minISR(), "back to the default for three replicas")
}

func TestDefaultsOfTheConfigurationFileAreDescribedAsSuch(t *testing.T) {
	w := apitest.New(t, 1)
	var err error
	w.Handlers.Node.TopicDefaults.Settings, err = metadata.NewDefaults(map[string]string{metadata.SettingRetentionMS: "1000"})
	require.NoError(t, err)
	created(t, w, "orders", 1, 1, metadata.SettingSegmentBytes, " 2097152")
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	x := kmsg.NewDescribeConfigsRequestResource()
	x.ResourceType, x.ResourceName = kmsg.ConfigResourceTypeTopic, "orders"
	req.Resources = append(req.Resources, x)
	got := map[string]string{}
	for _, c := range w.Call(4, req).(*kmsg.DescribeConfigsResponse).Resources[0].Configs {
		require.NotNil(t, c.Documentation, c.Name)
		line := fmt.Sprintf("%s %d:", *c.Value, c.Source)
		for _, s := range c.ConfigSynonyms {
			line += fmt.Sprintf(" %s=%s %d", s.Name, *s.Value, s.Source)
		}
		got[c.Name] = line
	}
	require.Len(t, got, len(metadata.Settings()))
	require.Equal(t, "1000 4: log.retention.ms=1000 4", got[metadata.SettingRetentionMS])
	require.Equal(t, "2097152 1: segment.bytes=2097152 1 log.segment.bytes=1073741824 5", got[metadata.SettingSegmentBytes])
	require.Equal(t, "1 3: min.insync.replicas=1 3 min.insync.replicas=1 5", got[metadata.SettingMinISR])
	require.Equal(t, "wait-all 5:", got[metadata.SettingRecovery])
}

func TestANodeIsNotUnregisteredWhileItLivesOrHoldsReplicas(t *testing.T) {
	w := apitest.New(t, 1, 2)
	created(t, w, "orders", 12, 2)
	remove := func(id int32) *kmsg.UnregisterBrokerResponse {
		req := kmsg.NewPtrUnregisterBrokerRequest()
		req.BrokerID = id
		return w.Call(0, req).(*kmsg.UnregisterBrokerResponse)
	}
	require.EqualValues(t, 102, remove(9).ErrorCode)
	require.EqualValues(t, 42, remove(2).ErrorCode)
	w.Fence(2)
	resp := remove(2)
	require.EqualValues(t, 42, resp.ErrorCode)
	require.Contains(t, *resp.ErrorMessage, "orders-0")
	require.Contains(t, *resp.ErrorMessage, "and 2 more")
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis, req.TopicNames = 1000, []string{"orders"}
	require.Zero(t, w.Call(5, req).(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode)
	require.Zero(t, remove(2).ErrorCode)
	require.Equal(t, []int32{2}, w.Removed)
	require.Nil(t, w.Image().Broker(2))
}

func TestTheMetadataLevelIsRaisedOnlyToWhatEveryNodeUnderstands(t *testing.T) {
	w := apitest.New(t, 1, 2)
	raise := func(feature string, level int16, kind int8) *kmsg.UpdateFeaturesResponse {
		req := kmsg.NewPtrUpdateFeaturesRequest()
		req.TimeoutMillis = 1000
		f := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		f.Feature, f.MaxVersionLevel, f.UpgradeType = feature, level, kind
		req.FeatureUpdates = append(req.FeatureUpdates, f)
		return w.Call(1, req).(*kmsg.UpdateFeaturesResponse)
	}
	require.Zero(t, raise(api.FeatureLevel, int16(metadata.LatestLevel), 1).ErrorCode)
	require.EqualValues(t, 95, raise(api.FeatureLevel, int16(metadata.LatestLevel)+1, 1).ErrorCode)
	require.EqualValues(t, 95, raise(api.FeatureLevel, 0, 1).ErrorCode)
	require.EqualValues(t, 95, raise(api.FeatureLevel, 1, 2).ErrorCode)
	require.EqualValues(t, 95, raise("metadata.version", 1, 1).ErrorCode)
}

func TestAClusterIsDescribedByTheListenerAndWithEveryNodesState(t *testing.T) {
	w := apitest.New(t, 1, 2, 3)
	created(t, w, "orders", 3, 3)
	w.Fence(3)
	w.Handlers.Node.Dead = func(node int32) bool { return node == 3 }
	req := kmsg.NewPtrDescribeClusterRequest()
	require.Len(t, w.Call(2, req).(*kmsg.DescribeClusterResponse).Brokers, 2)
	req.IncludeFencedBrokers = true
	resp := w.Call(2, req).(*kmsg.DescribeClusterResponse)
	states, leaders := map[int32]string{}, int32(0)
	for _, b := range resp.Brokers {
		require.Equal(t, "localhost", b.Host)
		b.UnknownTags.Each(func(tag uint32, raw []byte) {
			require.Equal(t, metadata.TagNodeInfo, tag)
			n, err := metadata.DecodeNodeInfo(raw)
			require.NoError(t, err)
			states[b.NodeID] = n.State
			require.EqualValues(t, 3, n.Replicas)
			require.Equal(t, b.NodeID == 1, n.Voter)
			leaders += n.Leaders
		})
	}
	require.Equal(t, map[int32]string{1: "alive", 2: "alive", 3: "dead"}, states)
	require.EqualValues(t, 3, leaders)
}

func TestThePositionsOfATopicPartitionAreAskedOfItsLeader(t *testing.T) {
	w := apitest.New(t, 1, 2)
	created(t, w, "orders", 2, 2)
	req := kmsg.NewPtrDescribeQuorumRequest()
	for _, name := range []string{"orders", metadata.MetadataTopic} {
		x := kmsg.NewDescribeQuorumRequestTopic()
		x.Topic = name
		for n := range int32(2) {
			p := kmsg.NewDescribeQuorumRequestTopicPartition()
			p.Partition = n
			x.Partitions = append(x.Partitions, p)
		}
		req.Topics = append(req.Topics, x)
	}
	resp := w.Call(2, req).(*kmsg.DescribeQuorumResponse)
	for n, p := range resp.Topics[0].Partitions {
		leader := w.Image().Topic("orders").Partitions[n].Leader
		require.Equal(t, leader, p.LeaderID)
		if leader == 1 {
			require.Len(t, p.CurrentVoters, 2)
			require.EqualValues(t, 7, p.CurrentVoters[0].LogEndOffset)
			for _, v := range p.CurrentVoters {
				v.UnknownTags.Each(func(tag uint32, raw []byte) {
					place, err := metadata.DecodeCopyPlace(raw)
					require.NoError(t, err)
					require.EqualValues(t, 6, place.Flushed)
					require.Equal(t, v.ReplicaID == 1, place.LogStart == 0, "a node knows its own log start")
				})
			}
		} else {
			require.EqualValues(t, 6, p.ErrorCode)
		}
	}
	log := resp.Topics[1].Partitions
	require.EqualValues(t, 41, log[0].CurrentVoters[0].LogEndOffset)
	require.NotZero(t, log[0].CurrentVoters[0].ReplicaDirectoryID)
	require.EqualValues(t, 3, log[1].ErrorCode)
	require.Equal(t, "n1", resp.Nodes[0].Listeners[0].Host)
	require.EqualValues(t, 9093, resp.Nodes[0].Listeners[0].Port)
}

func TestRecordsAreDeletedAtTheLeaderWithinTheRequestsTime(t *testing.T) {
	w := apitest.New(t, 1)
	created(t, w, "orders", 4, 1)
	created(t, w, "kept", 1, 1, metadata.SettingCleanupPolicy, "")
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 20
	for _, topic := range []string{"orders", "kept", "missing"} {
		x := kmsg.NewDeleteRecordsRequestTopic()
		x.Topic = topic
		for n, offset := range []int64{-1, 3, 6, -2, 0} {
			p := kmsg.NewDeleteRecordsRequestTopicPartition()
			p.Partition, p.Offset = int32(n), offset
			x.Partitions = append(x.Partitions, p)
		}
		req.Topics = append(req.Topics, x)
	}
	w.Soon(func() {
		resp := w.Call(2, req).(*kmsg.DeleteRecordsResponse)
		var codes [][]int16
		for _, x := range resp.Topics {
			var l []int16
			for _, p := range x.Partitions {
				l = append(l, p.ErrorCode)
			}
			codes = append(codes, l)
		}
		require.Equal(t, [][]int16{{0, 7, 1, 1, 3}, {44, 3, 3, 3, 3}, {3, 3, 3, 3, 3}}, codes)
		require.EqualValues(t, 5, resp.Topics[0].Partitions[0].LowWatermark)
	})
}

func TestTopicPartitionsAreDescribedPageByPage(t *testing.T) {
	w := apitest.New(t, 1)
	for _, n := range []string{"a", "b", "c"} {
		created(t, w, n, 3, 1)
	}
	var seen []string
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 2
	for range 20 {
		resp := w.Call(0, req).(*kmsg.DescribeTopicPartitionsResponse)
		for _, x := range resp.Topics {
			for _, p := range x.Partitions {
				seen = append(seen, fmt.Sprintf("%s%d", *x.Topic, p.Partition))
			}
		}
		if resp.NextCursor == nil {
			break
		}
		c := kmsg.NewDescribeTopicPartitionsRequestCursor()
		c.Topic, c.Partition = resp.NextCursor.Topic, resp.NextCursor.Partition
		req.Cursor = &c
	}
	require.Equal(t, "a0 a1 a2 b0 b1 b2 c0 c1 c2", strings.Join(seen, " "))
}
