package logstore

import (
	"fmt"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"cordwood/logstore/record"
)

// LogConfig is what a topic's settings say about its logs. Zero values are not defaults: the caller fills every field.
type LogConfig struct {
	SegmentBytes       int64 // a segment is sealed before it would grow above; at least one batch fits
	SegmentMS          int64 // age in milliseconds at which a segment is sealed; 0 or less never
	IndexIntervalBytes int64 // bytes between two index entries
	RetentionMS        int64 // -1 without a limit
	RetentionBytes     int64 // -1 without a limit
	CleanupDelete      bool  // retention by age and size applies
	FlushMessages      int64 // offsets between forced fsyncs; 0 never
	FlushMS            int64 // milliseconds between forced fsyncs; 0 never
	FileDeleteDelayMS  int64 // how long files stay after they left the log
	// ProducerExpirationMS is how long an idle producer is remembered.
	ProducerExpirationMS int64
	MaxMessageBytes      int32
	// Disk says that what counts must survive power loss: cuts, epochs and starts are durable when the call returns.
	// (Records are flushed by Flush, at the caller's choice of moment.)
	Disk bool
}

// DefaultLogConfig is Kafka's defaults.
func DefaultLogConfig() LogConfig {
	return LogConfig{
		SegmentBytes: 1 << 30, SegmentMS: 7 * 24 * 3600 * 1000, IndexIntervalBytes: 4096,
		RetentionMS: 7 * 24 * 3600 * 1000, RetentionBytes: -1, CleanupDelete: true,
		FileDeleteDelayMS: 60_000, ProducerExpirationMS: 24 * 3600 * 1000, MaxMessageBytes: 1<<20 + 12,
	}
}

// AppendInfo says where a batch stands.
type AppendInfo struct {
	Base, Last int64 // offsets of the first and the last record
	End        int64 // log end offset after the append
	Duplicate  bool  // the batch was there already: the old offsets are told
	AppendTime int64 // stored log append time, -1 where the batch bears create time; of a duplicate its max timestamp
}

// ReadInfo is what a read found. The receiver releases every Span once.
type ReadInfo struct {
	Spans []record.Span
	Bytes int64
	// End is an offset that no record of the range reaches, at best the end of its last batch; -1 where knowing one would
	// cost a read.
	End int64
}

// ProducerInfo describes one producer that the log knows.
type ProducerInfo struct {
	ProducerID       int64
	Epoch            int16
	LastSequence     int32 // -1 unknown
	LastTimestamp    int64 // milliseconds
	CoordinatorEpoch int32 // -1 unknown
	TxnStartOffset   int64 // -1 without an open transaction
}

// Log is one partition's log. All methods may be called concurrently. Reads take no lock; appends are serialised by the
// log's mutex, which is not held over an fsync but in Truncate, Reset and the append of a new segment's file.
//
// Lock order: slow, then mu. slow serialises what takes long (flush, cuts, retention, index repair, checkpoints of this
// log); mu guards the state of the append path.
type Log struct {
	dir  *Dir
	path string // directory of the partition
	tp   topicPartition
	id   record.PartitionID

	view   atomic.Pointer[view]
	epochs atomic.Pointer[epochs]
	start  atomic.Pointer[logState] // log start, loss, generation: replaced whole, always after it is on disk
	hw     atomic.Int64

	recalled atomic.Int64 // high watermark as it was claimed before a restart; see RecalledHighWatermark
	// flushed is the offset below which everything is on stable storage.
	flushed atomic.Int64
	damaged atomic.Pointer[string]
	closed  atomic.Bool
	// unstable says that a transaction may hold the last stable offset back. Set under mu before readers see its first batch.
	unstable atomic.Bool
	settled  atomic.Bool // an orderly shutdown has begun: no more changes
	cuts     atomic.Uint64
	config   atomic.Pointer[LogConfig]
	noted    atomic.Bool // a checkpoint would say something new: see note

	slow sync.Mutex

	mu        sync.Mutex
	idx       indexer      // of the active segment
	firstTS   int64        // max timestamp of the active segment's first batch; NoTimestamp where there is none
	opened    time.Time    // when the active segment got its first batch, as far as known
	aborted   []AbortedTxn // of the active segment
	producers producers
	unsynced  time.Time // when the oldest byte above flushed was written
	dirty     dirtyFiles
	swept     time.Time // when idle producers were last looked for

	due  time.Time // the appointment with Tick; of agenda.mu
	slot int       // place in the agenda, from 1; 0 without an appointment; of agenda.mu
}

// ID names the partition.
func (l *Log) ID() record.PartitionID { return l.id }

// Topic is the topic's name.
func (l *Log) Topic() string { return l.tp.topic }

// Config is the configuration in force.
func (l *Log) Config() LogConfig { return *l.config.Load() }

// SetConfig replaces the configuration; the next append, tick or retention follows it.
func (l *Log) SetConfig(c LogConfig) {
	l.config.Store(&c)
	l.dir.agenda.wake(l, time.Time{})
}

// EndOffset is the offset after the last record.
func (l *Log) EndOffset() int64 { return l.view.Load().end }

// StartOffset is the first offset that may be read.
func (l *Log) StartOffset() int64 { return l.view.Load().start }

// StartEpoch is the epoch of the record before the log start, -1 where there was none.
func (l *Log) StartEpoch() int32 { return l.start.Load().startEpoch }

// Start is log start offset and the epoch of the record before it, from one moment.
func (l *Log) Start() (offset int64, epoch int32) {
	s := l.start.Load()
	return s.start, s.startEpoch
}

// FlushedOffset is the offset below which every record is on stable storage.
func (l *Log) FlushedOffset() int64 { return l.flushed.Load() }

// Size is the bytes of all segments.
func (l *Log) Size() int64 {
	v := l.view.Load()
	return v.sealed + v.size
}

// Segments is the number of segments.
func (l *Log) Segments() int { return len(l.view.Load().segs) }

// LastEpoch is the newest leader epoch that the log was led or written in, else the epoch of its start.
func (l *Log) LastEpoch() int32 {
	if e := l.epochs.Load().last(); e != record.NoEpoch {
		return e
	}
	return l.StartEpoch()
}

// EpochAt is the epoch of the record at offset; -1 where that is unknown. The record before the log start counts.
func (l *Log) EpochAt(offset int64) int32 {
	if s := l.start.Load(); offset == s.start-1 {
		return s.startEpoch
	}
	return l.epochs.Load().at(offset)
}

// EpochEnd is the largest epoch at or below asked that the log knows, and the exclusive end of its records. An epoch
// above the newest one gives the newest with the log end: a caller that must tell them apart looks at LastEpoch first.
// Below the first entry the epoch of the log start answers, with the first entry's start; below that -1, -1.
func (l *Log) EpochEnd(asked int32) (epoch int32, end int64) {
	es := *l.epochs.Load()
	for i := len(es) - 1; i >= 0; i-- {
		if es[i].epoch > asked {
			continue
		}
		if i == len(es)-1 {
			return es[i].epoch, l.EndOffset()
		}
		return es[i].epoch, es[i+1].start
	}
	s := l.start.Load()
	if asked < s.startEpoch || asked < 0 {
		return record.NoEpoch, record.NoOffset
	}
	if len(es) > 0 {
		return s.startEpoch, es[0].start
	}
	return s.startEpoch, l.EndOffset()
}

// HighWatermark is the offset below which records are committed, as the log was last told.
func (l *Log) HighWatermark() int64 { return l.hw.Load() }

// RecalledHighWatermark is the highest offset below which this log is known or was once claimed to be committed, at most
// its end. After a restart that may have lost bytes it is above HighWatermark, and others may stand there: it is for
// saying what may be gone, and for nothing else.
func (l *Log) RecalledHighWatermark() int64 {
	return max(l.hw.Load(), min(l.recalled.Load(), l.EndOffset()))
}

// SetHighWatermark notes the high watermark, for the checkpoint, the last stable offset and retention. The caller decides
// and keeps it between log start and end.
func (l *Log) SetHighWatermark(hw int64) {
	if l.hw.Swap(hw) != hw {
		l.note()
	}
}

// AppliedLoss is the newest loss epoch acted on.
func (l *Log) AppliedLoss() int32 { return l.start.Load().loss }

// LastStableOffset is the offset below which every transaction is decided and committed; at most the high watermark.
func (l *Log) LastStableOffset() int64 {
	hw := l.hw.Load()
	if !l.unstable.Load() {
		return hw
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.producers.firstUnstable(hw)
	l.unstable.Store(l.producers.unstable())
	if first >= 0 {
		return min(hw, first)
	}
	return hw
}

// Producers describes every producer known, by id.
func (l *Log) Producers() []ProducerInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.producers.list()
}

// Damaged says why the log is not trusted, if so: what it held beyond its present end, or inside, was found broken. Such
// a log takes a leader's batches and no client's.
func (l *Log) Damaged() (reason string, damaged bool) {
	if p := l.damaged.Load(); p != nil {
		return *p, true
	}
	return "", false
}

// Repaired ends the state of damage: the caller has made the log whole from its leader.
func (l *Log) Repaired() { l.damaged.Store(nil) }

// damage notes that stored bytes are broken and tells the directory's owner once.
func (l *Log) damage(err error) {
	reason := err.Error()
	if l.damaged.CompareAndSwap(nil, &reason) {
		l.dir.logger.Error("stored records are damaged", "topic", l.tp.topic, "partition", l.tp.partition, "reason", reason)
		if l.dir.opt.OnDamage != nil {
			l.dir.opt.OnDamage(l, reason)
		}
	}
}

// usable refuses what a closed log or an offline directory cannot do.
func (l *Log) usable() error {
	if l.closed.Load() {
		return record.ErrClosed
	}
	return l.dir.online()
}

// writable is usable, and no orderly shutdown has begun.
func (l *Log) writable() error {
	if l.settled.Load() {
		return record.ErrClosed
	}
	return l.usable()
}

func (l *Log) file(name string) string { return path.Join(l.path, name) }

// place names the log in errors.
func (l *Log) place(op string, err error) error {
	return fmt.Errorf("%s %s: %w", op, l.tp.dirName(), err)
}

// publish replaces what readers see. mu is held.
func (l *Log) publish(change func(v *view)) {
	v := *l.view.Load()
	change(&v)
	l.view.Store(&v)
}

// writeState puts the partition's own facts on disk and then in force. slow is held, or the log not open yet.
func (l *Log) writeState(s logState) error {
	if err := l.dir.failed(replaceFile(l.dir.fs, l.file(stateFile), encodeState(s), true)); err != nil {
		return l.place("write state of", err)
	}
	l.start.Store(&s)
	return nil
}

// writeEpochs replaces the epoch file and then the cache. With durable it is synced; without, the next Flush does that.
// mu is held, or the log not open yet.
func (l *Log) writeEpochs(es epochs, durable bool) error {
	if err := l.dir.failed(replaceFile(l.dir.fs, l.file(epochFile), encodeEpochs(es), durable)); err != nil {
		return l.place("write epochs of", err)
	}
	l.dirty.epochs = !durable
	l.epochs.Store(&es)
	return nil
}
