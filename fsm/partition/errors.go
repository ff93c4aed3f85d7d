package partition

import "errors"

// Decisions that reach a client. transport/api maps them to Kafka's codes in one table.
var (
	ErrUnknownPartition        = errors.New("no such partition here")                                  // UNKNOWN_TOPIC_OR_PARTITION 3
	ErrNotLeader               = errors.New("not the leader of this partition")                        // NOT_LEADER_OR_FOLLOWER 6
	ErrFencedLeaderEpoch       = errors.New("leader epoch of the request is older")                    // FENCED_LEADER_EPOCH 74
	ErrUnknownLeaderEpoch      = errors.New("leader epoch of the request is newer")                    // UNKNOWN_LEADER_EPOCH 75
	ErrStaleBrokerEpoch        = errors.New("broker epoch of the request is older")                    // STALE_BROKER_EPOCH 77
	ErrNotReplica              = errors.New("the fetching node is no replica")                         // UNKNOWN_LEADER_EPOCH 75, NOT_LEADER 6 without an epoch
	ErrNotEnoughReplicas       = errors.New("fewer in-sync replicas than min.insync.replicas")         // NOT_ENOUGH_REPLICAS 19, before the append
	ErrNotEnoughReplicasAppend = errors.New("appended, but in-sync replicas fell below the minimum")   // NOT_ENOUGH_REPLICAS_AFTER_APPEND 20
	ErrTimedOut                = errors.New("not acknowledged in time; the records stay in the log")   // REQUEST_TIMED_OUT 7
	ErrInvalidAcks             = errors.New("acks cannot be met by this partition")                    // INVALID_REQUIRED_ACKS 21
	ErrOffsetNotAvailable      = errors.New("the new leader's high watermark is not known yet")        // OFFSET_NOT_AVAILABLE 78
	ErrQuarantined             = errors.New("replica is quarantined and waits for an operator")        // KAFKA_STORAGE_ERROR 56
	ErrPolicy                  = errors.New("forbidden by the topic's cleanup.policy")                 // POLICY_VIOLATION 44
	ErrUnsupportedTimestamp    = errors.New("special timestamp is unknown or too new for the version") // UNSUPPORTED_VERSION 35
	ErrSessionNotFound         = errors.New("no such fetch session")                                   // FETCH_SESSION_ID_NOT_FOUND 70
	ErrSessionEpoch            = errors.New("fetch session epoch is out of step")                      // INVALID_FETCH_SESSION_EPOCH 71
)
