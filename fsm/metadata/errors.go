package metadata

import "errors"

// Refusals of commands. transport/api maps them to Kafka's codes in one table.
var (
	ErrTopicExists         = errors.New("topic already exists")                         // TOPIC_ALREADY_EXISTS 36
	ErrUnknownTopic        = errors.New("no such topic")                                // UNKNOWN_TOPIC_OR_PARTITION 3
	ErrUnknownTopicID      = errors.New("no topic has this id")                         // UNKNOWN_TOPIC_ID 100
	ErrInvalidTopic        = errors.New("illegal topic name")                           // INVALID_TOPIC_EXCEPTION 17
	ErrInvalidPartitions   = errors.New("illegal number of partitions")                 // INVALID_PARTITIONS 37
	ErrInvalidReplication  = errors.New("replication factor cannot hold")               // INVALID_REPLICATION_FACTOR 38
	ErrInvalidAssignment   = errors.New("illegal replica assignment")                   // INVALID_REPLICA_ASSIGNMENT 39
	ErrInvalidConfig       = errors.New("illegal setting")                              // INVALID_CONFIG 40
	ErrInvalidRequest      = errors.New("request contradicts itself")                   // INVALID_REQUEST 42
	ErrUnknownPartition    = errors.New("no such partition")                            // UNKNOWN_TOPIC_OR_PARTITION 3
	ErrFencedLeaderEpoch   = errors.New("leader epoch is not current")                  // FENCED_LEADER_EPOCH 74
	ErrInvalidUpdate       = errors.New("partition epoch is not current")               // INVALID_UPDATE_VERSION 95
	ErrIneligibleReplica   = errors.New("a replica may not be in the ISR now")          // INELIGIBLE_REPLICA 107
	ErrStaleBrokerEpoch    = errors.New("broker epoch is not current")                  // STALE_BROKER_EPOCH 77
	ErrBrokerNotRegistered = errors.New("broker is not registered")                     // BROKER_ID_NOT_REGISTERED 102
	ErrDuplicateBroker     = errors.New("another live process has this node id")        // DUPLICATE_BROKER_REGISTRATION 101
	ErrLateIncarnation     = errors.New("registration of a process that is long dead")  // STALE_BROKER_EPOCH 77
	ErrHoldsReplicas       = errors.New("node still holds replicas")                    // INVALID_REQUEST 42
	ErrNotEligible         = errors.New("no eligible leader")                           // ELIGIBLE_LEADERS_NOT_AVAILABLE 83
	ErrElectionNotNeeded   = errors.New("the leader is the preferred one")              // ELECTION_NOT_NEEDED 84
	ErrLevel               = errors.New("metadata level does not fit")                  // INVALID_UPDATE_VERSION 95
	ErrNoReassignment      = errors.New("no reassignment is under way")                 // NO_REASSIGNMENT_IN_PROGRESS 85
	ErrChangeUnderWay      = errors.New("another change of the partition is under way") // REASSIGNMENT_IN_PROGRESS 60
	ErrNotController       = errors.New("this node is not the controller")              // NOT_CONTROLLER 41
	ErrNoController        = errors.New("no controller is known")                       // COORDINATOR_NOT_AVAILABLE-like; retriable
	ErrOutcomeUnknown      = errors.New("the command may or may not have been applied") // REQUEST_TIMED_OUT 7
)

// ErrNewerVersion says that a command or a snapshot holds something that this binary does not know. The node must stop:
// going on without it would make its metadata differ from the others'.
var ErrNewerVersion = errors.New("it was written by a newer version of Cordwood than this binary")
