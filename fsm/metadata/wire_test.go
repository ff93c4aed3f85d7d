package metadata

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"cordwood/logstore/record"
)

func TestPrivateFieldsComeBackAsTheyWereSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		same(t, RegistrationExtra.Encode, DecodeRegistrationExtra)
		same(t, HeartbeatExtra.Encode, DecodeHeartbeatExtra)
		same(t, HeartbeatAnswer.Encode, DecodeHeartbeatAnswer)
		same(t, EnvelopeExtra.Encode, DecodeEnvelopeExtra)
		same(t, EncodeIndex, DecodeIndex)
		node := rapid.Int32Min(0).Draw(t, "node")
		got, err := DecodeNode(EncodeNode(node))
		require.NoError(t, err)
		require.Equal(t, node, got)
	})
}

func TestANodeIDIsFourBytesAndNotNegative(t *testing.T) {
	for _, b := range [][]byte{nil, {0, 0, 0}, {0, 0, 0, 0, 1}, EncodeNode(NoNode), EncodeNode(-7)} {
		_, err := DecodeNode(b)
		require.ErrorIs(t, err, ErrCorruptField, "%v", b)
	}
}

func same[T any](t *rapid.T, encode func(T) []byte, decode func([]byte) (T, error)) {
	v := rapid.Make[T]().Draw(t, "value")
	got, err := decode(encode(v))
	require.NoError(t, err)
	require.Equal(t, encode(v), encode(got))
}

func TestAPrivateFieldOfANewerNodeIsReadAsFarAsItIsKnown(t *testing.T) {
	got, err := DecodeHeartbeatAnswer([]byte("\x02" + `{"index":7,"later":true}`))
	require.NoError(t, err)
	require.Equal(t, uint64(7), got.Index)
	for _, b := range []string{"", "\x00{}", "\x01", "\x01{", "\x01[]"} {
		_, err := DecodeHeartbeatAnswer([]byte(b))
		require.ErrorIs(t, err, ErrCorruptField, "%q", b)
	}
}

func FuzzDecodePrivateFields(f *testing.F) {
	f.Add(RegistrationExtra{Earlier: []EarlierIncarnation{{ID: "a", SameBoot: true}}}.Encode())
	f.Add(HeartbeatExtra{Damaged: []record.PartitionID{{Topic: topicID("a"), Partition: 3}}}.Encode())
	f.Add(EnvelopeExtra{RequestID: RequestID{1}}.Encode())
	f.Add(EncodeIndex(5))
	f.Add(EncodeNode(5))
	f.Fuzz(func(t *testing.T, b []byte) {
		stable(t, b, RegistrationExtra.Encode, DecodeRegistrationExtra)
		stable(t, b, HeartbeatExtra.Encode, DecodeHeartbeatExtra)
		stable(t, b, HeartbeatAnswer.Encode, DecodeHeartbeatAnswer)
		stable(t, b, EnvelopeExtra.Encode, DecodeEnvelopeExtra)
		stable(t, b, EncodeIndex, DecodeIndex)
		stable(t, b, EncodeNode, DecodeNode)
	})
}

// stable checks that what was read is written in a form that reads the same.
func stable[T any](t *testing.T, b []byte, encode func(T) []byte, decode func([]byte) (T, error)) {
	v, err := decode(b)
	if err != nil {
		return
	}
	again, err := decode(encode(v))
	require.NoError(t, err)
	require.Equal(t, encode(v), encode(again))
}
