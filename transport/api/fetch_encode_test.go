package api

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
	"cordwood/transport"
)

// whole puts pieces together as a connection sends them.
func whole(t testing.TB, pieces []transport.Piece) []byte {
	t.Helper()
	var out []byte
	for _, p := range pieces {
		out = append(out, p.Bytes...)
		if p.Span.Len > 0 {
			b := make([]byte, p.Span.Len)
			_, err := p.Span.Src.ReadAt(b, p.Span.Off)
			require.NoError(t, err)
			out = append(out, b...)
		}
		p.Span.Release()
	}
	return out
}

// both makes one random answer twice: as this package encodes it and as kmsg does. Sizes are drawn around the lengths
// where a varint grows.
type both struct {
	r     *rand.Rand
	parts []fetchPart
	kafka *kmsg.FetchResponse
}

func (b *both) size() int {
	return []int{0, 0, 1, 61, 126, 127, 128, 200, 16382, 16383, 16384}[b.r.IntN(11)]
}

func randomAnswer(r *rand.Rand, v int16) *both {
	b := &both{r: r, kafka: kmsg.NewPtrFetchResponse()}
	b.kafka.Version = v
	for n := range r.IntN(4) {
		var id record.TopicID
		for i := range id {
			id[i] = byte(r.Uint32())
		}
		b.topic(v, string(bytes.Repeat([]byte{'a' + byte(n)}, 1+r.IntN(140))), id)
	}
	return b
}

func (b *both) topic(v int16, name string, id record.TopicID) {
	t := kmsg.NewFetchResponseTopic()
	t.Topic, t.TopicID = name, id
	if v >= 13 {
		name = ""
	} else {
		id = record.TopicID{}
	}
	for n := range 1 + b.r.IntN(3) {
		k := kmsg.NewFetchResponseTopicPartition()
		p := fetchPart{key: fetchKey{name, id, int32(n)}, leader: -1, leaderEpoch: -1}
		p.code, p.hw, p.lso, p.logStart = int16(b.r.IntN(100)), b.r.Int64(), b.r.Int64(), b.r.Int64()
		k.Partition, k.ErrorCode, k.HighWatermark, k.LastStableOffset, k.LogStartOffset = p.key.partition, p.code, p.hw, p.lso, p.logStart
		if b.r.IntN(2) == 0 {
			p.aborted, k.AbortedTransactions = []partition.AbortedTransaction{}, []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
			for range b.r.IntN(130) {
				x := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
				x.ProducerID, x.FirstOffset = b.r.Int64(), b.r.Int64()
				p.aborted = append(p.aborted, partition.AbortedTransaction{ProducerID: x.ProducerID, FirstOffset: x.FirstOffset})
				k.AbortedTransactions = append(k.AbortedTransactions, x)
			}
		}
		k.RecordBatches = []byte{}
		for range b.r.IntN(3) {
			data := make([]byte, b.size()+10)
			for i := range data {
				data[i] = byte(b.r.Uint32())
			}
			p.spans = append(p.spans, record.NewSpan(bytes.NewReader(data), 10, int64(len(data)-10), nil))
			p.bytes += int64(len(data) - 10)
			k.RecordBatches = append(k.RecordBatches, data[10:]...)
		}
		b.tags(v, &p, &k)
		b.parts = append(b.parts, p)
		t.Partitions = append(t.Partitions, k)
	}
	b.kafka.Topics = append(b.kafka.Topics, t)
}

func (b *both) tags(v int16, p *fetchPart, k *kmsg.FetchResponseTopicPartition) {
	if v < 12 {
		return
	}
	if b.r.IntN(3) == 0 {
		p.diverging = &partition.EpochEnd{Epoch: b.r.Int32(), End: b.r.Int64()}
		k.DivergingEpoch.Epoch, k.DivergingEpoch.EndOffset = p.diverging.Epoch, p.diverging.End
	}
	if b.r.IntN(3) == 0 {
		p.leader, p.leaderEpoch = b.r.Int32(), b.r.Int32()
		k.CurrentLeader.LeaderID, k.CurrentLeader.LeaderEpoch = p.leader, p.leaderEpoch
	}
	if b.r.IntN(3) == 0 {
		p.state = &partition.FetchState{LeaderEpoch: b.r.Int32(), LogStart: b.r.Int64(), LogStartEpoch: b.r.Int32(), Reset: b.r.IntN(2) == 0}
		k.UnknownTags.Set(partition.TagFetchState, partition.EncodeFetchState(*p.state))
	}
}

func TestFetchAnswersAreByteForByteThoseOfKmsg(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	w := metadata.NewState()
	_, _ = w.Apply(1, &metadata.SetCluster{ClusterID: "c", Level: 1})
	_, _ = w.Apply(2, &metadata.RegisterBroker{BootOK: true, Broker: metadata.Broker{
		ID: 7, Incarnation: "i", DirectoryID: "d", MinLevel: 1, MaxLevel: 1, Rack: "r", Listeners: map[string]metadata.Endpoint{"x": {Host: "h", Port: 5}},
	}})
	for v := int16(4); v <= 18; v++ {
		for range 200 {
			b := randomAnswer(r, v)
			e := fetchEncoder{version: v, session: r.Int32(), sequence: -1}
			b.kafka.SessionID = e.session
			if v >= 16 && r.IntN(2) == 0 {
				e.hints = &hintedLeaders{img: w.Image(), listener: "x", nodes: []int32{7, 8}}
				n := kmsg.NewFetchResponseBroker()
				rack := "r"
				n.NodeID, n.Host, n.Port, n.Rack = 7, "h", 5, &rack
				b.kafka.Brokers = append(b.kafka.Brokers, n)
			}
			if v >= 12 && r.IntN(2) == 0 {
				e.sequence = r.Int64()
				b.kafka.UnknownTags.Set(partition.TagFetchSequence, partition.EncodeInt64(e.sequence))
			}
			got, want := whole(t, e.encode(b.parts)), b.kafka.AppendTo(nil)
			require.Equal(t, want, got, "version %d", v)
		}
	}
}

func TestSpansWithoutBytesAreGivenBackByTheEncoder(t *testing.T) {
	released := 0
	p := fetchPart{spans: []record.Span{record.NewSpan(io.NewSectionReader(nil, 0, 0), 0, 0, func() { released++ })}, leader: -1, leaderEpoch: -1}
	whole(t, (&fetchEncoder{version: 12, sequence: -1}).encode([]fetchPart{p}))
	require.Equal(t, 1, released)
}
