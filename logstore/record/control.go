package record

import (
	"encoding/binary"
	"fmt"
)

// ControlType is what a control batch marks. Kafka's own metadata log knows more types than these.
type ControlType int16

// The markers that end a transaction in a partition, and the one with which a leader's epoch begins.
const (
	ControlAbort  ControlType = 0
	ControlCommit ControlType = 1
	ControlEpoch  ControlType = 2
)

func (t ControlType) String() string {
	switch t {
	case ControlAbort:
		return "abort"
	case ControlCommit:
		return "commit"
	case ControlEpoch:
		return "epoch"
	}
	return fmt.Sprintf("control %d", int16(t))
}

// controlVersion is the version of key and value that this code writes; readers take every later one whose leading
// fields are the same.
const controlVersion = 0

// ParseControlKey reads the key of a control record. ErrInvalidRecord if it is too short or of a negative version.
// Compaction may empty a control batch: then there is no record and no key to parse.
func ParseControlKey(key []byte) (ControlType, error) {
	if len(key) < 4 || int16(binary.BigEndian.Uint16(key)) < 0 {
		return 0, fmt.Errorf("control key %x: %w", key, ErrInvalidRecord)
	}
	return ControlType(binary.BigEndian.Uint16(key[2:])), nil
}

// AppendControlKey appends the key of a control record to dst.
func AppendControlKey(dst []byte, t ControlType) []byte {
	dst = binary.BigEndian.AppendUint16(dst, controlVersion)
	return binary.BigEndian.AppendUint16(dst, uint16(t))
}

// ParseEndMarker reads the value of a commit or abort marker: the epoch of the coordinator that wrote it.
func ParseEndMarker(value []byte) (coordinatorEpoch int32, err error) {
	if len(value) < 6 || int16(binary.BigEndian.Uint16(value)) < 0 {
		return 0, fmt.Errorf("end marker %x: %w", value, ErrInvalidRecord)
	}
	return int32(binary.BigEndian.Uint32(value[2:])), nil
}

// AppendEndMarker appends the value of a commit or abort marker to dst.
func AppendEndMarker(dst []byte, coordinatorEpoch int32) []byte {
	dst = binary.BigEndian.AppendUint16(dst, controlVersion)
	return binary.BigEndian.AppendUint32(dst, uint32(coordinatorEpoch))
}

// NewEpochMarker builds the batch with which a leader's epoch may begin: one control record of no producer and no time,
// whose value is empty. Readers skip it by its control bit; it belongs to no transaction.
func NewEpochMarker() []byte {
	records := []NewRecord{{Key: AppendControlKey(nil, ControlEpoch), Value: []byte{}, Timestamp: NoTimestamp}}
	h := NewHeader(0, records)
	h.Attributes |= AttrControl
	return AppendBatch(nil, h, AppendRecord(nil, &records[0], 0, h.BaseTimestamp))
}
