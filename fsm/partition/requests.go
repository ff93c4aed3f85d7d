// Package partition decides for one partition: what a leader and a follower do with appends, fetches and changes of the
// partition's record, when records are committed (the commit rules), and what the in-sync set should be. It is pure:
// facts and now go in, effects come out; cluster/replica carries them out.
//
// It also holds the request and answer structs that transport/api and cluster/replica share.
package partition

import (
	"context"
	"time"

	"cordwood/logstore/record"
)

// Acks of a produce request.
const (
	AcksNone int16 = 0
	AcksAll  int16 = -1
	// 1 is the leader alone; N of 2 and more is a count of copies, not a commit.
)

// ProduceRequest is a decoded and validated Produce. Records are opaque batches.
type ProduceRequest struct {
	Acks       int16
	Timeout    time.Duration
	Partitions []ProducePartition
}

// ProducePartition is the batch for one partition. Records holds exactly one batch that passed record validation; the
// callee stamps base offset and leader epoch in place and keeps no reference after the append has returned.
type ProducePartition struct {
	ID      record.PartitionID
	Records []byte
	Header  record.Header // parsed from Records, after any stamp of log append time
	// FromZero asks for a first sequence of 0 where the producer is unknown (transactional batches of Produce v12+).
	FromZero bool
}

// ProduceAnswer is the answer for one partition, in the request's order.
type ProduceAnswer struct {
	Err         error // sentinel of record or partition; nil on success
	BaseOffset  int64 // -1 on error
	AppendTime  int64 // the stored log append time; -1 where the topic keeps create time (a duplicate: the old batch's max timestamp)
	LogStart    int64 // -1 on error
	Leader      int32 // who leads, on ErrNotLeader; -1 unknown
	LeaderEpoch int32
}

// PendingProduce is an append that was done and whose acknowledgement may still be open. Wait returns the answers when
// every partition is acknowledged or refused, the request's timeout has passed or ctx ends (ErrTimedOut for what is
// open; the data stays). It is called exactly once. What can tell that Wait would not block has a method Ready() bool
// too: its answer then leaves without the detour over another goroutine.
type PendingProduce interface {
	Wait(ctx context.Context) []ProduceAnswer
}

// FetchRequest is one decoded Fetch, sessions already resolved.
type FetchRequest struct {
	ReplicaID   int32 // -1 a consumer; else the node that fetches as a follower
	BrokerEpoch int64 // of a follower; -1 from a consumer
	Sequence    int64 // a follower's request number, given back in the answer; -1 absent
	MaxWait     time.Duration
	MinBytes    int32
	MaxBytes    int32
	Committed   bool // isolation level read_committed
	Partitions  []FetchPartition

	// The fetch session of a follower belongs to the callee, who keeps what the follower fetches and parks it, so that an
	// idle partition costs neither side anything: the caller passes both numbers and the forgotten partitions on as they
	// came. Epoch 0 opens a session and -1 goes without one, with all partitions named; above 0 Partitions holds only
	// what is new or changed since the session's request before. A consumer's session is the caller's: all zero.
	SessionID    int32
	SessionEpoch int32
	Forgotten    []record.PartitionID
}

// FetchPartition asks for one partition.
type FetchPartition struct {
	ID                 record.PartitionID
	FetchOffset        int64
	LastFetchedEpoch   int32 // epoch of the record before FetchOffset; -1 absent
	CurrentLeaderEpoch int32 // -1 absent
	LogStartOffset     int64 // a follower's; -1 from a consumer
	AckOffset          int64 // a follower's position that counts; -1 absent: equal to FetchOffset
	JoinPE             int32 // partition epoch with which the follower's present stay began, by its own record; 0 from the first
	MaxBytes           int32
}

// FetchAnswer is the answer for one partition, in the request's order; of an incremental follower fetch only partitions
// with something to tell are answered, in any order, told by ID.
type FetchAnswer struct {
	ID               record.PartitionID
	Err              error
	HighWatermark    int64 // -1 on error
	LastStableOffset int64
	LogStartOffset   int64
	LogStartEpoch    int32 // epoch of the record before LogStartOffset, for followers
	LeaderEpoch      int32 // for followers
	Leader           int32 // who leads, on ErrNotLeader and the epoch errors; -1 unknown
	Reset            bool  // a follower's offset is below the log start: empty the log and start there
	Diverging        *EpochEnd
	Aborted          []AbortedTransaction // nil for read_uncommitted
	Spans            []record.Span        // whole batches, possibly over several files; the receiver releases each once
}

// EpochEnd is a leader epoch with the end of its records, exclusive.
type EpochEnd struct {
	Epoch int32
	End   int64
}

// AbortedTransaction is one entry of the aborted list of a read-committed fetch.
type AbortedTransaction struct {
	ProducerID  int64
	FirstOffset int64
}

// FetchResult is the whole answer.
type FetchResult struct {
	Err       error // a follower's session is unknown or out of step: the whole request is refused
	SessionID int32 // of a follower's session; 0 none
	Answers   []FetchAnswer
}

// Release gives every span of the result back. It may be called after some were released already.
func (r *FetchResult) Release() {
	for i := range r.Answers {
		for _, s := range r.Answers[i].Spans {
			s.Release()
		}
	}
}

// PendingFetch is a fetch that may be parked. Wait returns when there are MinBytes, something must be told at once
// (error, divergence, a follower's new high watermark), MaxWait has passed or ctx ends. It is called exactly once; the
// caller releases the result's spans.
type PendingFetch interface {
	Wait(ctx context.Context) FetchResult
}

// ListOffsetsQuery asks for one offset (KIP-79, 734, 405): Timestamp is a time in milliseconds or one of the special
// values below.
type ListOffsetsQuery struct {
	ID                 record.PartitionID
	Timestamp          int64
	CurrentLeaderEpoch int32 // -1 absent
	Committed          bool
	Follower           bool // asked by a replica: may see up to the log end
}

// Special timestamps of ListOffsets.
const (
	LatestTimestamp        int64 = -1
	EarliestTimestamp      int64 = -2
	MaxTimestamp           int64 = -3
	EarliestLocalTimestamp int64 = -4
	LatestTieredTimestamp  int64 = -5
	PendingUploadTimestamp int64 = -6
)

// ListOffsetsAnswer is what was found; offset, timestamp and epoch are -1 where nothing was.
type ListOffsetsAnswer struct {
	Err         error
	Offset      int64
	Timestamp   int64
	LeaderEpoch int32
	Leader      int32
}

// ReplicaState is what a leader knows of one replica, and a node of its own.
type ReplicaState struct {
	ID           int32
	LogEnd       int64 // -1 unknown
	Flushed      int64 // end of the prefix on disk; -1 unknown
	LastCaughtUp int64 // wall clock, milliseconds; -1 unknown
	LastFetch    int64 // wall clock, milliseconds; -1 unknown
	InSync       bool
}

// PartitionState is what a node that hosts a partition knows of it.
type PartitionState struct {
	ID               record.PartitionID
	Leader           bool // this node leads
	LeaderEpoch      int32
	LogStartOffset   int64
	HighWatermark    int64
	LastStableOffset int64
	LogEndOffset     int64
	Size             int64 // bytes of the log's segments
	Quarantined      bool
	Damaged          bool
	Replicas         []ReplicaState // at the leader; else only this node's own
}

// DirState describes a log directory.
type DirState struct {
	Path        string
	Free, Total int64 // bytes; -1 unknown
	Offline     bool
	Full        bool
}

// ActiveProducer is one producer of DescribeProducers.
type ActiveProducer struct {
	ProducerID       int64
	Epoch            int16
	LastSequence     int32
	LastTimestamp    int64
	CoordinatorEpoch int32
	TxnStartOffset   int64 // -1 without an open transaction
}
