package partition

import (
	"encoding/binary"
	"errors"
)

// Numbers of the private tagged fields of a Fetch between nodes (docs/protocol.md). They ride in the tag sections of
// Kafka's own request, and are read on the inter-node listener only.
const (
	TagFetchSequence uint32 = 10000 // request and answer, top level: the request number
	TagAckOffset     uint32 = 10001 // request, per partition
	TagFetchState    uint32 = 10002 // answer, per partition
	TagJoinPE        uint32 = 10003 // request, per partition
)

// ErrBadTag says that a private field has another size or form than both sides agreed on.
var ErrBadTag = errors.New("private field of a fetch is malformed")

// FetchState is what a leader tells a follower beside Kafka's own fields.
type FetchState struct {
	LeaderEpoch   int32 // of the leader when it answered
	LogStart      int64 // the leader's log start offset
	LogStartEpoch int32 // epoch of the record before LogStart; -1 none
	Reset         bool  // the follower's offset is below LogStart: empty the log and start there
}

const fetchStateSize = 4 + 8 + 4 + 1

// EncodeInt64 is the body of TagFetchSequence, TagAckOffset and TagJoinPE: eight bytes, big-endian.
func EncodeInt64(v int64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 0, 8), uint64(v))
}

// DecodeInt64 reads what EncodeInt64 wrote, else ErrBadTag.
func DecodeInt64(b []byte) (int64, error) {
	if len(b) != 8 {
		return 0, ErrBadTag
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}

// EncodeFetchState is the body of TagFetchState, 17 bytes: leader epoch, log start, its epoch, and 1 for a reset.
func EncodeFetchState(s FetchState) []byte {
	b := make([]byte, 0, fetchStateSize)
	b = binary.BigEndian.AppendUint32(b, uint32(s.LeaderEpoch))
	b = binary.BigEndian.AppendUint64(b, uint64(s.LogStart))
	b = binary.BigEndian.AppendUint32(b, uint32(s.LogStartEpoch))
	if s.Reset {
		return append(b, 1)
	}
	return append(b, 0)
}

// DecodeFetchState reads what EncodeFetchState wrote, else ErrBadTag.
func DecodeFetchState(b []byte) (FetchState, error) {
	if len(b) != fetchStateSize || b[16] > 1 {
		return FetchState{}, ErrBadTag
	}
	return FetchState{
		LeaderEpoch:   int32(binary.BigEndian.Uint32(b)),
		LogStart:      int64(binary.BigEndian.Uint64(b[4:])),
		LogStartEpoch: int32(binary.BigEndian.Uint32(b[12:])),
		Reset:         b[16] == 1,
	}, nil
}
