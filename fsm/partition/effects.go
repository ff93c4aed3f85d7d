package partition

import (
	"time"

	"cordwood/fsm/metadata"
	"cordwood/fsm/mutant"
)

// Facts is what decisions read of a partition's log. The log keeps them; a step sees one consistent set, since its
// caller holds the partition while it runs.
type Facts interface {
	// StartOffset is the first offset that may be read.
	StartOffset() int64
	// Start is StartOffset with the leader epoch of the record before it; -1 when there was none.
	Start() (offset int64, epoch int32)
	// EndOffset is the next offset to append.
	EndOffset() int64
	// FlushedOffset is the end of the prefix that is on disk.
	FlushedOffset() int64
	// HighWatermark is the end of the prefix known to be committed.
	HighWatermark() int64
	// EpochAt is the leader epoch of the record at offset; -1 outside the log.
	EpochAt(offset int64) int32
	// EpochEnd is the largest leader epoch at or below asked with its exclusive end; -1, -1 when there is none.
	EpochEnd(asked int32) (epoch int32, end int64)
	// LastEpoch is the newest leader epoch the log knows, records or not; -1 never written.
	LastEpoch() int32
	// AppliedLoss is the newest loss epoch that the replica has acted on; 0 none.
	AppliedLoss() int32
}

// Brokers is one snapshot of the registered brokers: *metadata.Image.
type Brokers interface {
	// Broker gives one registered broker, nil if there is none.
	Broker(id int32) *metadata.Broker
}

// Effects is what a leader's step asks of its caller. The zero value asks for nothing.
type Effects struct {
	// Advanced says that the high watermark is now HighWatermark: set it in the log, complete acknowledgements and
	// parked fetches.
	Advanced      bool
	HighWatermark int64
	// Propose is an ISR to send to the controller. It counts in the maximal ISR already; no answer to it is needed.
	Propose *metadata.PartitionChange
	// Certify says that a replica's log is complete; sent again until a record shows it.
	Certify *metadata.Certification
	// Marker asks for an epoch-start marker: append it in this epoch, then tell the leader with OnMarker.
	Marker bool
	// Flush asks for an fsync of the log's present end, told with OnFlush: somebody waits for the leader's own position.
	Flush bool
	// Finish says that the change under way is proven; sent again until a record ends it.
	Finish *metadata.Finish
	// Anew are the replicas whose positions were forgotten: whoever waits here for records is to say where it stands.
	Anew []int32
}

// merge adds a later step's effects.
func (e *Effects) merge(o Effects) {
	if o.Advanced {
		e.Advanced, e.HighWatermark = true, o.HighWatermark
	}
	if o.Propose != nil {
		e.Propose = o.Propose
	}
	if o.Certify != nil {
		e.Certify = o.Certify
	}
	e.Marker = e.Marker || o.Marker
	e.Flush = e.Flush || o.Flush
	if o.Finish != nil {
		e.Finish = o.Finish
	}
	e.Anew = append(e.Anew, o.Anew...)
}

// Options are the bounds that a leader works with.
type Options struct {
	// LagMax is how long an in-sync replica may stay behind the log end (replication.lag_time_max).
	LagMax time.Duration
	// Retry is how long a leader waits for a record before it proposes or certifies again.
	Retry time.Duration
}

// Position is what a copy counts for: its end, or what is on disk where the topic's copies count from there.
func Position(rec *metadata.Partition, f Facts) int64 {
	if rec.Durability == metadata.DurabilityMemory || rec.Durability == "" || mutant.DiskEarly {
		return f.EndOffset()
	}
	return f.FlushedOffset()
}
