package partition

import (
	"encoding/binary"
	"errors"
	"fmt"

	"cordwood/logstore/record"
)

// Ack is a follower's word, between two fetches, how far its copies count. It goes over the connection of its fetch
// session, behind the fetch that told the leader how far its log goes, and is not answered.
type Ack struct {
	Replica     int32
	BrokerEpoch int64 // of the follower's process
	Session     int32 // fetch session; what is said under another one counts for nothing
	Positions   []AckPosition
}

// AckPosition is one partition of a follower's Ack: how far its copy counts, in its view of the leader epoch.
type AckPosition struct {
	ID          record.PartitionID
	LeaderEpoch int32
	AckOffset   int64
}

// MaxAckPositions bounds one Ack; a follower with more to say sends several.
const MaxAckPositions = 10_000

// ErrBadAck says that an Ack's bytes are not of the form that both sides agreed on.
var ErrBadAck = errors.New("acknowledgement is malformed")

const (
	ackHead         = 4 + 8 + 4 + 4
	ackPositionSize = 16 + 4 + 4 + 8
)

// AppendAck appends the bytes of a: replica, broker epoch, session, count, and for each position topic id, partition,
// leader epoch and offset, all big-endian.
func AppendAck(dst []byte, a *Ack) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(a.Replica))
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.BrokerEpoch))
	dst = binary.BigEndian.AppendUint32(dst, uint32(a.Session))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(a.Positions)))
	for i := range a.Positions {
		p := &a.Positions[i]
		dst = append(dst, p.ID.Topic[:]...)
		dst = binary.BigEndian.AppendUint32(dst, uint32(p.ID.Partition))
		dst = binary.BigEndian.AppendUint32(dst, uint32(p.LeaderEpoch))
		dst = binary.BigEndian.AppendUint64(dst, uint64(p.AckOffset))
	}
	return dst
}

// DecodeAck reads what AppendAck wrote, else ErrBadAck. Negative numbers, which no follower sends, are refused too.
func DecodeAck(b []byte) (Ack, error) {
	if len(b) < ackHead {
		return Ack{}, fmt.Errorf("%w: %d bytes", ErrBadAck, len(b))
	}
	a := Ack{
		Replica:     int32(binary.BigEndian.Uint32(b)),
		BrokerEpoch: int64(binary.BigEndian.Uint64(b[4:])),
		Session:     int32(binary.BigEndian.Uint32(b[12:])),
	}
	n, b := binary.BigEndian.Uint32(b[16:]), b[ackHead:]
	if n > MaxAckPositions || len(b) != int(n)*ackPositionSize {
		return Ack{}, fmt.Errorf("%w: %d positions in %d bytes", ErrBadAck, n, len(b))
	}
	if a.Replica < 0 || a.BrokerEpoch < 0 || a.Session < 0 {
		return Ack{}, fmt.Errorf("%w: replica %d, broker epoch %d, session %d", ErrBadAck, a.Replica, a.BrokerEpoch, a.Session)
	}
	for ; len(b) > 0; b = b[ackPositionSize:] {
		p := AckPosition{
			ID:          record.PartitionID{Topic: record.TopicID(b[:16]), Partition: int32(binary.BigEndian.Uint32(b[16:]))},
			LeaderEpoch: int32(binary.BigEndian.Uint32(b[20:])),
			AckOffset:   int64(binary.BigEndian.Uint64(b[24:])),
		}
		if p.ID.Partition < 0 || p.LeaderEpoch < 0 || p.AckOffset < 0 {
			return Ack{}, fmt.Errorf("%w: partition %s, leader epoch %d, offset %d", ErrBadAck, p.ID, p.LeaderEpoch, p.AckOffset)
		}
		a.Positions = append(a.Positions, p)
	}
	return a, nil
}
