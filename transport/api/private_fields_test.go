package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
	"cordwood/transport/api/apitest"
)

// field gives a private field, nil where it is absent.
func field(tags *kmsg.Tags, tag uint32) (body []byte) {
	tags.Each(func(key uint32, b []byte) {
		if key == tag {
			body = b
		}
	})
	return body
}

func TestWhatHappenedToAPartitionIsToldToWhomAsks(t *testing.T) {
	w := apitest.New(t, 1)
	created(t, w, "orders", 1, 1)
	past := []metadata.HistoryEntry{{Index: 9, Time: 5, Leader: 1, Changes: []string{"created"}}}
	w.Handlers.History = func(id record.PartitionID) []metadata.HistoryEntry {
		require.Equal(t, w.Image().Topic("orders").ID, id.Topic)
		return past
	}
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	p := w.Call(0, req).(*kmsg.DescribeTopicPartitionsResponse).Topics[0].Partitions[0]
	require.Nil(t, field(&p.UnknownTags, metadata.TagHistory))
	req.UnknownTags.Set(metadata.TagHistory, nil)
	p = w.Call(0, req).(*kmsg.DescribeTopicPartitionsResponse).Topics[0].Partitions[0]
	got, err := metadata.DecodeHistory(field(&p.UnknownTags, metadata.TagHistory))
	require.NoError(t, err)
	require.Equal(t, past, got)
}

func TestMeasuredAcknowledgementsAreToldToWhomAsks(t *testing.T) {
	w := apitest.New(t, 1)
	created(t, w, "orders", 1, 1)
	req := kmsg.NewPtrDescribeQuorumRequest()
	for _, name := range []string{"orders", "missing"} {
		x := kmsg.NewDescribeQuorumRequestTopic()
		x.Topic = name
		req.Topics = append(req.Topics, x)
	}
	topics := w.Call(2, req).(*kmsg.DescribeQuorumResponse).Topics
	require.Nil(t, field(&topics[0].UnknownTags, metadata.TagAckLatency))
	req.UnknownTags.Set(metadata.TagAckLatency, nil)
	topics = w.Call(2, req).(*kmsg.DescribeQuorumResponse).Topics
	got, err := partition.DecodeAckLatency(field(&topics[0].UnknownTags, metadata.TagAckLatency))
	require.NoError(t, err)
	require.EqualValues(t, 3, got.Raised)
	require.EqualValues(t, 1, got.CompletedBy[2])
	require.Nil(t, field(&topics[1].UnknownTags, metadata.TagAckLatency))
}
