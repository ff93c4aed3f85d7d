package api

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
)

// kafkaErrors is the one table from sentinel errors to what clients are told. The first match counts, so a more special
// sentinel stands before one that it may be wrapped with.
var kafkaErrors = []struct {
	err   error
	kafka *kerr.Error
}{
	// The log.
	{record.ErrCorruptBatch, kerr.CorruptMessage},
	{record.ErrShortBatch, kerr.CorruptMessage},
	{record.ErrInvalidRecord, kerr.InvalidRecord},
	{record.ErrInvalidTimestamp, kerr.InvalidTimestamp},
	{record.ErrBatchTooLarge, kerr.MessageTooLarge},
	{record.ErrSegmentTooSmall, kerr.RecordListTooLarge},
	{record.ErrUnsupportedCodec, kerr.UnsupportedCompressionType},
	{record.ErrOutOfOrder, kerr.OutOfOrderSequenceNumber},
	{record.ErrProducerEpoch, kerr.InvalidProducerEpoch},
	{record.ErrInvalidTxnState, kerr.InvalidTxnState},
	{record.ErrOffsetOutOfRange, kerr.OffsetOutOfRange},
	{record.ErrDirFull, kerr.KafkaStorageError},
	{record.ErrDirOffline, kerr.KafkaStorageError},
	{record.ErrDamaged, kerr.KafkaStorageError},
	{record.ErrClosed, kerr.NotLeaderForPartition},

	// Decisions of partitions.
	{partition.ErrUnknownPartition, kerr.UnknownTopicOrPartition},
	{partition.ErrNotLeader, kerr.NotLeaderForPartition},
	{partition.ErrFencedLeaderEpoch, kerr.FencedLeaderEpoch},
	{partition.ErrUnknownLeaderEpoch, kerr.UnknownLeaderEpoch},
	{partition.ErrStaleBrokerEpoch, kerr.StaleBrokerEpoch},
	{partition.ErrNotReplica, kerr.UnknownLeaderEpoch},
	{partition.ErrNotEnoughReplicas, kerr.NotEnoughReplicas},
	{partition.ErrNotEnoughReplicasAppend, kerr.NotEnoughReplicasAfterAppend},
	{partition.ErrTimedOut, kerr.RequestTimedOut},
	{partition.ErrInvalidAcks, kerr.InvalidRequiredAcks},
	{partition.ErrOffsetNotAvailable, kerr.OffsetNotAvailable},
	{partition.ErrQuarantined, kerr.KafkaStorageError},
	{partition.ErrPolicy, kerr.PolicyViolation},
	{partition.ErrUnsupportedTimestamp, kerr.UnsupportedVersion},
	{partition.ErrSessionNotFound, kerr.FetchSessionIDNotFound},
	{partition.ErrSessionEpoch, kerr.InvalidFetchSessionEpoch},

	// Refusals of metadata commands.
	{metadata.ErrTopicExists, kerr.TopicAlreadyExists},
	{metadata.ErrUnknownTopic, kerr.UnknownTopicOrPartition},
	{metadata.ErrUnknownTopicID, kerr.UnknownTopicID},
	{metadata.ErrInvalidTopic, kerr.InvalidTopicException},
	{metadata.ErrInvalidPartitions, kerr.InvalidPartitions},
	{metadata.ErrInvalidReplication, kerr.InvalidReplicationFactor},
	{metadata.ErrInvalidAssignment, kerr.InvalidReplicaAssignment},
	{metadata.ErrInvalidConfig, kerr.InvalidConfig},
	{metadata.ErrInvalidRequest, kerr.InvalidRequest},
	{metadata.ErrUnknownPartition, kerr.UnknownTopicOrPartition},
	{metadata.ErrFencedLeaderEpoch, kerr.FencedLeaderEpoch},
	{metadata.ErrInvalidUpdate, kerr.InvalidUpdateVersion},
	{metadata.ErrIneligibleReplica, kerr.IneligibleReplica},
	{metadata.ErrStaleBrokerEpoch, kerr.StaleBrokerEpoch},
	{metadata.ErrBrokerNotRegistered, kerr.BrokerIDNotRegistered},
	{metadata.ErrDuplicateBroker, kerr.DuplicateBrokerRegistration},
	{metadata.ErrLateIncarnation, kerr.StaleBrokerEpoch},
	{metadata.ErrHoldsReplicas, kerr.InvalidRequest},
	{metadata.ErrNotEligible, kerr.EligibleLeadersNotAvailable},
	{metadata.ErrElectionNotNeeded, kerr.ElectionNotNeeded},
	{metadata.ErrLevel, kerr.InvalidUpdateVersion},
	{metadata.ErrNoReassignment, kerr.NoReassignmentInProgress},
	{metadata.ErrChangeUnderWay, kerr.ReassignmentInProgress},
	{metadata.ErrNotController, kerr.NotController},
	{metadata.ErrNoController, kerr.NotController},
	{metadata.ErrOutcomeUnknown, kerr.RequestTimedOut},

	// A request whose connection or time ended: what was asked may or may not be done.
	{context.DeadlineExceeded, kerr.RequestTimedOut},
	{context.Canceled, kerr.RequestTimedOut},
}

// code gives Kafka's error code, 0 for nil. An error that is in no table is UNKNOWN_SERVER_ERROR: a fault of ours.
func code(err error) int16 {
	if err == nil {
		return 0
	}
	var ke *kerr.Error
	if errors.As(err, &ke) {
		return ke.Code
	}
	for i := range kafkaErrors {
		if errors.Is(err, kafkaErrors[i].err) {
			return kafkaErrors[i].kafka.Code
		}
	}
	return kerr.UnknownServerError.Code
}

// message gives the sentence for an error, nil for nil.
func message(err error) *string {
	if err == nil {
		return nil
	}
	s := err.Error()
	return &s
}
