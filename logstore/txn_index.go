package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The transaction index of a segment (`.txnindex`) exists where the segment holds the marker of an aborted transaction:
// 34 bytes an entry, in the order of the markers.
const (
	txnEntrySize = 34
	txnVersion   = 0
)

// errTxnIndex says that a transaction index breaks its format.
var errTxnIndex = errors.New("transaction index breaks its format")

// AbortedTxn is an aborted transaction: readers of committed data skip its records.
type AbortedTxn struct {
	ProducerID       int64
	FirstOffset      int64 // of its first record
	LastOffset       int64 // of its marker, inclusive
	LastStableOffset int64 // the log's when the marker was written: everything below was decided
}

// decodeTxnIndex reads a whole transaction index of the segment [base, end).
func decodeTxnIndex(b []byte, base, end int64) ([]AbortedTxn, error) {
	if len(b)%txnEntrySize != 0 {
		return nil, fmt.Errorf("%w: %d bytes", errTxnIndex, len(b))
	}
	txns := make([]AbortedTxn, 0, len(b)/txnEntrySize)
	for ; len(b) > 0; b = b[txnEntrySize:] {
		t := AbortedTxn{
			ProducerID:       int64(binary.BigEndian.Uint64(b[2:])),
			FirstOffset:      int64(binary.BigEndian.Uint64(b[10:])),
			LastOffset:       int64(binary.BigEndian.Uint64(b[18:])),
			LastStableOffset: int64(binary.BigEndian.Uint64(b[26:])),
		}
		switch n := len(txns); {
		case binary.BigEndian.Uint16(b) != txnVersion:
			return nil, fmt.Errorf("%w: version %d", errTxnIndex, binary.BigEndian.Uint16(b))
		case t.FirstOffset < 0 || t.FirstOffset > t.LastOffset || t.LastOffset < base || t.LastOffset >= end:
			return nil, fmt.Errorf("%w: offsets %d to %d in a segment of %d to %d", errTxnIndex, t.FirstOffset, t.LastOffset, base, end)
		case n > 0 && t.LastOffset <= txns[n-1].LastOffset:
			return nil, fmt.Errorf("%w: marker %d after %d", errTxnIndex, t.LastOffset, txns[n-1].LastOffset)
		}
		txns = append(txns, t)
	}
	return txns, nil
}

func encodeTxnIndex(txns []AbortedTxn) []byte {
	b := make([]byte, 0, len(txns)*txnEntrySize)
	for _, t := range txns {
		b = binary.BigEndian.AppendUint16(b, txnVersion)
		b = binary.BigEndian.AppendUint64(b, uint64(t.ProducerID))
		b = binary.BigEndian.AppendUint64(b, uint64(t.FirstOffset))
		b = binary.BigEndian.AppendUint64(b, uint64(t.LastOffset))
		b = binary.BigEndian.AppendUint64(b, uint64(t.LastStableOffset))
	}
	return b
}
