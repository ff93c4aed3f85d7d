// Package api holds the Kafka request handlers, one file per API. It sees the log, the replicas and the controller
// through the interfaces in this file; cluster/broker adapts the real ones to them.
package api

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
	"cordwood/transport"
)

// Metadata is the cluster's replicated metadata as this node sees it.
type Metadata interface {
	// Image is the newest applied image. Never nil once the node serves clients.
	Image() *metadata.Image
	// WaitIndex returns when this node's image has reached index, or with ctx's error.
	WaitIndex(ctx context.Context, index uint64) error
	// ControllerID is the live controller's node id, else metadata.NoNode.
	ControllerID() int32
	// IsController says that this node is the active controller: raft leader, after its barrier.
	IsController() bool
	// Propose appends a command through raft. Only on the active controller, else metadata.ErrNotController;
	// metadata.ErrOutcomeUnknown when it may or may not be applied.
	Propose(ctx context.Context, cmd metadata.Command) (metadata.Result, error)
	// Forward sends an admin request to the controller and gives its answer, after this node's image has reached the
	// index that the answer stands for. principalListener names the listener the client came in on, for answers by
	// listener. A lost connection after sending is metadata.ErrOutcomeUnknown, never a made-up success.
	Forward(ctx context.Context, r *transport.Request) (kmsg.Response, error)
}

// Replicas is this node's replica manager.
type Replicas interface {
	// Produce appends in order and returns at once; waiting for acknowledgements is PendingProduce's.
	Produce(ctx context.Context, req *partition.ProduceRequest) partition.PendingProduce
	// Fetch reads, or registers a waiter.
	Fetch(ctx context.Context, req *partition.FetchRequest) partition.PendingFetch
	// Ack takes how far a follower's copies count, between two fetches. It keeps nothing of ack.
	Ack(ack *partition.Ack)
	ListOffsets(ctx context.Context, q partition.ListOffsetsQuery) partition.ListOffsetsAnswer
	// EpochEnd answers OffsetForLeaderEpoch: the largest epoch at or below asked with its exclusive end; -1, -1 undefined.
	EpochEnd(id record.PartitionID, currentLeaderEpoch, asked int32) (partition.EpochEnd, error)
	// DeleteRecords raises the log start to offset (-1: the high watermark) and returns when all live replicas have it
	// or ctx ends (partition.ErrTimedOut).
	DeleteRecords(ctx context.Context, id record.PartitionID, offset int64) (logStart int64, err error)
	// State gives what this node knows of a partition it hosts; ok is false where it hosts none.
	State(id record.PartitionID) (s partition.PartitionState, ok bool)
	// States gives all hosted partitions.
	States() []partition.PartitionState
	Dirs() []partition.DirState
	// AckLatency is what this node measured of a topic's batches while it led them.
	AckLatency(topic record.TopicID) partition.AckLatency
	Producers(id record.PartitionID) ([]partition.ActiveProducer, error)
}

// Controller serves requests between nodes on the active controller. Each answers NOT_CONTROLLER where it is not.
type Controller interface {
	BrokerRegistration(ctx context.Context, req *kmsg.BrokerRegistrationRequest) *kmsg.BrokerRegistrationResponse
	// BrokerHeartbeat takes the connection's closed channel: a closed session connection makes the controller dial.
	BrokerHeartbeat(ctx context.Context, req *kmsg.BrokerHeartbeatRequest, closed <-chan struct{}) *kmsg.BrokerHeartbeatResponse
	AlterPartition(ctx context.Context, req *kmsg.AlterPartitionRequest) *kmsg.AlterPartitionResponse
	AllocateProducerIDs(ctx context.Context, req *kmsg.AllocateProducerIDsRequest) *kmsg.AllocateProducerIDsResponse
	// ElectLeaders moves leadership to a replica, or (unclean) elects without a safe candidate. replica NoNode: the
	// preferred one; unclean, the most complete one. nil partitions means all. One error per partition asked.
	ElectLeaders(ctx context.Context, unclean bool, replica int32, partitions []record.PartitionID) map[record.PartitionID]error
	// Quorum is the state of raft for DescribeQuorum, on any node.
	Quorum() Quorum
	// RemoveVoter takes a dead node's voter out of raft, after UnregisterBroker.
	RemoveVoter(ctx context.Context, node int32) error
}

// Quorum is the state of the metadata log.
type Quorum struct {
	Leader        int32
	Term          int64
	HighWatermark int64
	Voters        []QuorumReplica
	Observers     []QuorumReplica
}

// QuorumReplica is one member of raft.
type QuorumReplica struct {
	ID          int32
	DirectoryID string
	Address     string
	LogEnd      int64 // -1 unknown
	LastFetch   int64 // wall clock, milliseconds; -1 unknown
	LastCaught  int64 // wall clock, milliseconds; -1 unknown
}

// Peers reaches other nodes over the listener between nodes.
type Peers interface {
	// Ask sends a request, whose version is set, to a node and gives its answer, bounded by ctx.
	Ask(ctx context.Context, node int32, req kmsg.Request) (kmsg.Response, error)
}

// ProducerIDs hands out producer ids from a block that this node holds, fetching the next in time.
type ProducerIDs interface {
	Next(ctx context.Context) (int64, error)
}

// Node is what the handlers know of the node they run on.
type Node struct {
	ID                  int32
	Rack                string
	Version             string
	InterBrokerListener string
	// BrokerConfigs is the effective configuration under Kafka's names, for DescribeConfigs of a broker.
	BrokerConfigs func() []BrokerConfig
	// Defaults of topics.
	TopicDefaults TopicDefaults
	// Dead says that gossip has declared a node dead or left. It is only shown; nil: nobody.
	Dead func(node int32) bool
	// DelayFetches delays this node's replication, for tests of slow replicas; nil without dev_mode: it is refused then.
	DelayFetches func(time.Duration)
	// MaxFetchBytes caps a response, as Kafka's fetch.max.bytes (55 MiB).
	MaxFetchBytes int32
}

// TopicDefaults are the cluster's defaults for topics, under Kafka's topic setting names and in Kafka's units.
type TopicDefaults struct {
	Partitions  int32
	Replication int16
	AutoCreate  bool
	// Settings are the defaults of topic settings; nil: the built-in ones.
	Settings *metadata.Defaults
}

// BrokerConfig is one entry of a broker's configuration.
type BrokerConfig struct {
	Name, Value, Doc string
	Type             kmsg.ConfigType
	Default          bool
	Source           int8 // Kafka's ConfigSource
	ReadOnly         bool
	Sensitive        bool
}

// Deps is everything the handlers need.
type Deps struct {
	Node        Node
	Metadata    Metadata
	Replicas    Replicas
	Controller  Controller
	ProducerIDs ProducerIDs
	Peers       Peers // nil: this node answers without asking others whether they lead yet
	// History gives the newest changes of a partition's record that this node applied, oldest first; nil: none are kept.
	History func(id record.PartitionID) []metadata.HistoryEntry
}
