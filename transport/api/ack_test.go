package api_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/partition"
	"cordwood/logstore/record"
	"cordwood/transport"
	"cordwood/transport/api/apitest"
)

func TestAcknowledgementsAreTakenBetweenNodesOnlyAndNeverAnswered(t *testing.T) {
	w := apitest.New(t, 1, 2)
	_, action := w.Handlers.Lookup(transport.AckKey, 0, false)
	require.Equal(t, transport.Refuse, action, "a client's listener")
	_, action = w.Handlers.Lookup(transport.AckKey, 1, true)
	require.Equal(t, transport.Refuse, action, "a version that is none")
	body, action := w.Handlers.Lookup(transport.AckKey, 0, true)
	require.Equal(t, transport.Serve, action)
	require.Nil(t, kmsg.RequestForKey(transport.AckKey), "a key of Kafka's")

	ack := partition.Ack{Replica: 2, BrokerEpoch: 9, Session: 4, Positions: []partition.AckPosition{
		{ID: record.PartitionID{Topic: record.TopicID{7}, Partition: 1}, LeaderEpoch: 3, AckOffset: 12}}}
	handle := func(b []byte) transport.Response {
		require.NoError(t, body.ReadFrom(b))
		return w.Handlers.Handle(context.Background(), &transport.Request{Key: transport.AckKey, Body: body, Conn: &transport.ConnInfo{Internal: true}})
	}
	resp := handle(partition.AppendAck(nil, &ack))
	require.True(t, resp.None)
	require.Equal(t, []partition.Ack{ack}, w.Acks)
	for _, bad := range [][]byte{nil, {1}, partition.AppendAck(nil, &ack)[:40]} {
		require.True(t, handle(bad).Close, "%x", bad)
	}
	require.Len(t, w.Acks, 1)
}
