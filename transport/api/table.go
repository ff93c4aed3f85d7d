package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/transport"
)

// row is one API that this node serves. The table is the only place that says so: the versions in ApiVersions, the
// router and docs/protocol.md come from it, and a test pins it to what kmsg can encode.
type row struct {
	key      kmsg.Key
	min, max int16
	// fromZero advertises 0 as the lowest version though min is higher: librdkafka looks for Produce 0 in the range
	// before it compresses (KAFKA-18659).
	fromZero bool
	// internal rows are served on the listener between nodes only and never advertised.
	internal bool
	handle   handler
}

// handler answers one request; see transport.Handler for what it may do and what it leaves to Response.Wait.
type handler func(h *Handlers, ctx context.Context, r *transport.Request) transport.Response

// advertised is the lowest version told to clients.
func (r *row) advertised() int16 {
	if r.fromZero {
		return 0
	}
	return r.min
}

// table has all rows, rising keys. init fills it, since handlers read the table themselves.
var table []row

func init() {
	table = []row{
		// Produce 12 and 13 come with transactions version 2.
		{key: kmsg.Produce, min: 3, max: 11, fromZero: true, handle: handleProduce},
		{key: kmsg.Fetch, min: 4, max: 18, handle: handleFetch},
		{key: kmsg.ListOffsets, min: 1, max: 11, handle: handleListOffsets},
		{key: kmsg.Metadata, max: 13, handle: handleMetadata},
		{key: kmsg.FindCoordinator, max: 6, handle: handleFindCoordinator},
		{key: kmsg.ApiVersions, max: 5, handle: handleAPIVersions},
		{key: kmsg.CreateTopics, min: 2, max: 7, handle: handleCreateTopics},
		{key: kmsg.DeleteTopics, min: 1, max: 6, handle: handleDeleteTopics},
		{key: kmsg.DeleteRecords, max: 2, handle: handleDeleteRecords},
		{key: kmsg.InitProducerID, max: 5, handle: handleInitProducerID},
		{key: kmsg.OffsetForLeaderEpoch, min: 2, max: 4, handle: handleOffsetForLeaderEpoch},
		{key: kmsg.DescribeConfigs, min: 1, max: 4, handle: handleDescribeConfigs},
		{key: kmsg.AlterConfigs, max: 2, handle: handleAlterConfigs},
		{key: kmsg.DescribeLogDirs, min: 1, max: 5, handle: handleDescribeLogDirs},
		{key: kmsg.CreatePartitions, max: 3, handle: handleCreatePartitions},
		{key: kmsg.ElectLeaders, max: 2, handle: handleElectLeaders},
		{key: kmsg.IncrementalAlterConfigs, max: 1, handle: handleIncrementalAlterConfigs},
		{key: kmsg.AlterPartitionAssignments, max: 1, handle: handleAlterPartitionReassignments},
		{key: kmsg.ListPartitionReassignments, handle: handleListPartitionReassignments},
		{key: kmsg.DescribeQuorum, max: 2, handle: handleDescribeQuorum},
		{key: kmsg.AlterPartition, max: 3, internal: true, handle: handleAlterPartition},
		{key: kmsg.UpdateFeatures, max: 2, handle: handleUpdateFeatures},
		{key: kmsg.Envelope, internal: true, handle: handleEnvelope},
		{key: kmsg.DescribeCluster, max: 2, handle: handleDescribeCluster},
		{key: kmsg.BrokerRegistration, max: 4, internal: true, handle: handleBrokerRegistration},
		{key: kmsg.BrokerHeartbeat, max: 2, internal: true, handle: handleBrokerHeartbeat},
		{key: kmsg.UnregisterBroker, handle: handleUnregisterBroker},
		{key: kmsg.AllocateProducerIDs, internal: true, handle: handleAllocateProducerIDs},
		{key: kmsg.DescribeTopicPartitions, handle: handleDescribeTopicPartitions},
	}
	for i := range table {
		byKey[table[i].key] = &table[i]
	}
}

// byKey finds rows; keys are small numbers.
var byKey [kmsg.MaxKey + 1]*row

// rowOf gives the row of a key, nil if it is not served.
func rowOf(key int16) *row {
	if key < 0 || int(key) >= len(byKey) {
		return nil
	}
	return byKey[key]
}
