package partition

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/logstore/record"
)

func sampleAck() *Ack {
	return &Ack{Replica: 3, BrokerEpoch: 1 << 40, Session: 77, Positions: []AckPosition{
		{ID: record.PartitionID{Topic: record.TopicID{1, 2, 15: 9}, Partition: 5}, LeaderEpoch: 8, AckOffset: 1 << 50},
		{ID: record.PartitionID{Topic: record.TopicID{4}}, LeaderEpoch: 0, AckOffset: 0},
	}}
}

func FuzzDecodeAck(f *testing.F) {
	f.Add(AppendAck(nil, sampleAck()))
	f.Add(AppendAck(nil, &Ack{}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := DecodeAck(b); err == nil && !bytes.Equal(AppendAck(nil, &a), b) {
			t.Fatalf("%x reads as %+v, which is written otherwise", b, a)
		}
	})
}

func TestAnAckIsReadAsItWasWrittenAndNothingElseIs(t *testing.T) {
	b := AppendAck(nil, sampleAck())
	a, err := DecodeAck(b)
	require.NoError(t, err)
	require.Equal(t, *sampleAck(), a)
	for n := range b {
		_, err := DecodeAck(b[:n])
		require.ErrorIs(t, err, ErrBadAck, "cut after %d bytes", n)
	}
	_, err = DecodeAck(append(bytes.Clone(b), 0))
	require.ErrorIs(t, err, ErrBadAck, "a byte too much")
	for _, at := range []int{0, 4, 12, ackHead + 16, ackHead + 20, ackHead + 24} {
		wrong := bytes.Clone(b)
		wrong[at] |= 0x80
		_, err := DecodeAck(wrong)
		require.ErrorIs(t, err, ErrBadAck, "a negative number at byte %d", at)
	}
	huge := make([]byte, ackHead+(MaxAckPositions+1)*ackPositionSize)
	binary.BigEndian.PutUint32(huge[16:], MaxAckPositions+1)
	_, err = DecodeAck(huge)
	require.ErrorIs(t, err, ErrBadAck)
}
