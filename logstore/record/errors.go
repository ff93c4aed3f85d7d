package record

import (
	"errors"
	"fmt"
)

// Sentinels of the log that callers branch on. transport/api maps them to Kafka's codes in one table.
var (
	ErrShortBatch       = errors.New("batch is cut short")                                  // fewer bytes than the header or its length promises
	ErrCorruptBatch     = errors.New("batch is corrupt")                                    // CORRUPT_MESSAGE 2: checksum, magic above 2, length
	ErrInvalidRecord    = errors.New("batch breaks the format")                             // INVALID_RECORD 87
	ErrInvalidTimestamp = errors.New("timestamp out of bounds")                             // INVALID_TIMESTAMP 32
	ErrBatchTooLarge    = errors.New("batch is larger than max.message.bytes")              // MESSAGE_TOO_LARGE 10
	ErrSegmentTooSmall  = errors.New("batch is larger than segment.bytes")                  // RECORD_LIST_TOO_LARGE 18
	ErrUnsupportedCodec = errors.New("codec not allowed in this request version")           // UNSUPPORTED_COMPRESSION_TYPE 76
	ErrOutOfOrder       = errors.New("sequence out of order")                               // OUT_OF_ORDER_SEQUENCE_NUMBER 45
	ErrProducerEpoch    = errors.New("producer epoch is older than the known one")          // INVALID_PRODUCER_EPOCH 47
	ErrInvalidTxnState  = errors.New("transaction is in another state")                     // INVALID_TXN_STATE 48
	ErrOffsetOutOfRange = errors.New("offset out of range")                                 // OFFSET_OUT_OF_RANGE 1
	ErrDirFull          = errors.New("log directory is full")                               // KAFKA_STORAGE_ERROR 56
	ErrDirOffline       = errors.New("log directory is offline")                            // KAFKA_STORAGE_ERROR 56
	ErrDamaged          = errors.New("log is damaged and waits for repair from its leader") // KAFKA_STORAGE_ERROR 56
	ErrClosed           = errors.New("log is closed")                                       // NOT_LEADER_OR_FOLLOWER 6
	ErrNotContiguous    = errors.New("batch does not continue the log")                     // follower append only
)

// BatchFault is what was wrong with one record of a produced batch (KIP-467). It wraps one of the sentinels above.
type BatchFault struct {
	Index   int32 // index of the record in its batch
	Message string
}

// BatchError is a refused batch: nothing of it was appended.
type BatchError struct {
	Err     error        // one of the sentinels
	Message string       // a sentence for the client
	Records []BatchFault // the records at fault, if single ones were; at most maxFaults of them
	// What a real Kafka tells about this fault beside its code, for who wants to answer alike.
	LogStart bool // the answer bears the partition's log start offset: the request was sound and the log refused
	Silent   bool // the answer bears no sentence
}

func (e *BatchError) Error() string { return fmt.Sprintf("%v: %s", e.Err, e.Message) }

// Unwrap gives the sentinel.
func (e *BatchError) Unwrap() error { return e.Err }
