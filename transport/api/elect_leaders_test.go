package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/transport/api/apitest"
)

func TestAReplicaThatAnElectionNamesReachesTheController(t *testing.T) {
	w := apitest.New(t, 1, 2, 3)
	created(t, w, "orders", 1, 3)
	elect := func(tag []byte, topics ...kmsg.ElectLeadersRequestTopic) *kmsg.ElectLeadersResponse {
		req := kmsg.NewPtrElectLeadersRequest()
		req.TimeoutMillis, req.Topics = 1000, topics
		if tag != nil {
			req.UnknownTags.Set(metadata.TagElectReplica, tag)
		}
		return w.Call(2, req).(*kmsg.ElectLeadersResponse)
	}
	orders := kmsg.NewElectLeadersRequestTopic()
	orders.Topic, orders.Partitions = "orders", []int32{0}
	unnamed := elect(nil, orders).Topics[0].Partitions[0]
	require.Equal(t, kerr.ElectionNotNeeded.Code, unnamed.ErrorCode)
	named := elect(metadata.EncodeNode(3), orders).Topics[0].Partitions[0]
	require.Equal(t, kerr.EligibleLeadersNotAvailable.Code, named.ErrorCode)
	require.Contains(t, *named.ErrorMessage, "node 3")

	require.Equal(t, kerr.InvalidRequest.Code, elect(metadata.EncodeNode(3)).ErrorCode, "one replica cannot lead everything")
	require.Equal(t, kerr.InvalidRequest.Code, elect([]byte{1}, orders).Topics[0].Partitions[0].ErrorCode, "no node id")
	require.Equal(t, kerr.InvalidRequest.Code, elect(metadata.EncodeNode(-2), orders).ErrorCode)
}
