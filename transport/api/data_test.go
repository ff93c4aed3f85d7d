package api_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"log/slog"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
	"cordwood/transport"
	"cordwood/transport/api"
	"cordwood/transport/api/apitest"
)

func produceOf(acks int16, topic string, batches map[int32][]byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 5000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	for n, b := range batches {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = n, b
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return req
}

// batch is a sound batch of one record.
func batch(value string) []byte {
	r := kmsg.NewRecord()
	r.Value = []byte(value)
	r.Length = int32(len(r.AppendTo(nil)) - 1)
	b := kmsg.NewRecordBatch()
	b.Magic, b.NumRecords, b.ProducerID, b.ProducerEpoch, b.FirstSequence = 2, 1, -1, -1, -1
	b.FirstTimestamp, b.MaxTimestamp = 1700000000000, 1700000000000
	b.Records = r.AppendTo(nil)
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	record.SetMaxTimestamp(raw, false, 1700000000000) // renews the checksum
	return raw
}

// Field report 10 (redpanda#126, jocko#76): every partition asked is answered once, whatever is wrong with some.
func TestEveryPartitionAskedIsAnsweredOnceInEveryVersion(t *testing.T) {
	w := apitest.New(t, 1, 2)
	apitest.NewLogs(t, w)
	for _, name := range []string{"a", "b"} {
		require.Zero(t, created(t, w, name, 3, 1).ErrorCode)
	}
	topics := []string{"a", "b", "missing"}
	type place struct {
		topic     string
		partition int32
	}
	want := map[place]int{}
	for _, name := range topics {
		for n := range int32(5) {
			want[place{name, n}] = 1
		}
	}
	name := func(id [16]byte, s string) string {
		for topic := range w.Image().Topics() {
			if topic.ID == id {
				return topic.Name
			}
		}
		if id != ([16]byte{}) {
			return "missing"
		}
		return s
	}
	idOf := func(s string) [16]byte {
		if topic := w.Image().Topic(s); topic != nil {
			return topic.ID
		}
		return [16]byte{9, 9}
	}
	for v := int16(3); v <= 11; v++ {
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.TimeoutMillis = 1, 1000
		for _, s := range topics {
			req.Topics = append(req.Topics, produceOf(1, s, map[int32][]byte{0: batch("x"), 1: {1}, 2: batch("y"), 3: batch("z"), 4: nil}).Topics...)
		}
		got := map[place]int{}
		for _, x := range w.Call(v, req).(*kmsg.ProduceResponse).Topics {
			for _, p := range x.Partitions {
				got[place{x.Topic, p.Partition}]++
			}
		}
		require.Equal(t, want, got, "Produce v%d", v)
	}
	for v := int16(4); v <= 18; v++ {
		req := kmsg.NewPtrFetchRequest()
		req.MaxBytes = 1 << 20
		for _, s := range topics {
			x := kmsg.NewFetchRequestTopic()
			x.Topic, x.TopicID = s, idOf(s)
			for n := range int32(5) {
				p := kmsg.NewFetchRequestTopicPartition()
				p.Partition, p.PartitionMaxBytes = n, 1000
				x.Partitions = append(x.Partitions, p)
			}
			req.Topics = append(req.Topics, x)
		}
		got := map[place]int{}
		for _, x := range w.Call(v, req).(*kmsg.FetchResponse).Topics {
			for _, p := range x.Partitions {
				got[place{name(x.TopicID, x.Topic), p.Partition}]++
			}
		}
		require.Equal(t, want, got, "Fetch v%d", v)
	}
	for v := int16(1); v <= 11; v++ {
		req := kmsg.NewPtrListOffsetsRequest()
		for _, s := range topics {
			x := kmsg.NewListOffsetsRequestTopic()
			x.Topic = s
			for n := range int32(5) {
				p := kmsg.NewListOffsetsRequestTopicPartition()
				p.Partition, p.Timestamp = n, -1
				x.Partitions = append(x.Partitions, p)
			}
			req.Topics = append(req.Topics, x)
		}
		got := map[place]int{}
		for _, x := range w.Call(v, req).(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range x.Partitions {
				got[place{x.Topic, p.Partition}]++
			}
		}
		require.Equal(t, want, got, "ListOffsets v%d", v)
	}
}

func TestALeaderElsewhereIsNamedWithItsAddress(t *testing.T) {
	w := apitest.New(t, 1, 2)
	l := apitest.NewLogs(t, w)
	require.Zero(t, created(t, w, "a", 8, 1).ErrorCode)
	elsewhere := int32(-1)
	for n, p := range w.Image().Topic("a").Partitions {
		if p.Leader == 2 {
			elsewhere = int32(n)
		}
	}
	require.NotEqual(t, int32(-1), elsewhere)
	answer := w.Call(10, produceOf(1, "a", map[int32][]byte{elsewhere: batch("x")})).(*kmsg.ProduceResponse)
	p := answer.Topics[0].Partitions[0]
	require.Equal(t, kerr.NotLeaderForPartition.Code, p.ErrorCode)
	require.EqualValues(t, 2, p.CurrentLeader.LeaderID)
	require.Len(t, answer.Brokers, 1)
	require.EqualValues(t, 19094, answer.Brokers[0].Port, "the address is that of the client's listener")

	fetch := kmsg.NewPtrFetchRequest()
	x := kmsg.NewFetchRequestTopic()
	x.TopicID = w.Image().Topic("a").ID
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.Partition = elsewhere
	x.Partitions = append(x.Partitions, fp)
	fetch.Topics = append(fetch.Topics, x)
	got := w.Call(16, fetch).(*kmsg.FetchResponse)
	require.EqualValues(t, 6, got.Topics[0].Partitions[0].ErrorCode)
	require.Zero(t, l.Held())
}

func TestAReplicaMayFetchBetweenNodesOnly(t *testing.T) {
	w := apitest.New(t, 1, 2)
	l := apitest.NewLogs(t, w)
	require.Zero(t, created(t, w, "a", 1, 1).ErrorCode)
	id := w.Image().Topic("a").ID
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaState.ID, req.ReplicaState.Epoch = 2, w.Image().BrokerEpoch(2)
	x := kmsg.NewFetchRequestTopic()
	x.TopicID = id
	p := kmsg.NewFetchRequestTopicPartition()
	p.CurrentLeaderEpoch = -1
	x.Partitions = append(x.Partitions, p)
	req.Topics = append(req.Topics, x)
	answer := w.Call(17, req).(*kmsg.FetchResponse)
	require.Equal(t, kerr.NotLeaderForPartition.Code, answer.Topics[0].Partitions[0].ErrorCode, "a client's listener")

	var asked *partition.FetchRequest
	l.Asked = func(q *partition.FetchRequest) { asked = q }
	req.SessionID, req.SessionEpoch = 5, 7
	req.UnknownTags.Set(partition.TagFetchSequence, partition.EncodeInt64(41))
	req.Topics[0].Partitions[0].UnknownTags.Set(partition.TagAckOffset, partition.EncodeInt64(3))
	forget := kmsg.NewFetchRequestForgottenTopic()
	forget.TopicID, forget.Partitions = id, []int32{4}
	req.ForgottenTopics = append(req.ForgottenTopics, forget)
	conn := &transport.ConnInfo{Listener: "internal", Internal: true, Remote: &net.TCPAddr{}}
	answer = w.CallOn(conn, 17, req).(*kmsg.FetchResponse)
	require.NotNil(t, asked)
	require.EqualValues(t, 2, asked.ReplicaID)
	require.Equal(t, w.Image().BrokerEpoch(2), asked.BrokerEpoch)
	require.EqualValues(t, 41, asked.Sequence)
	require.EqualValues(t, 5, asked.SessionID)
	require.EqualValues(t, 7, asked.SessionEpoch)
	require.EqualValues(t, 3, asked.Partitions[0].AckOffset)
	require.Equal(t, []record.PartitionID{{Topic: id, Partition: 4}}, asked.Forgotten)
	sequence := int64(-1)
	answer.UnknownTags.Each(func(tag uint32, b []byte) {
		if tag == partition.TagFetchSequence {
			sequence, _ = partition.DecodeInt64(b)
		}
	})
	require.EqualValues(t, 41, sequence)
}

func TestAnEnvelopeCarriesARequestAndItsAnswer(t *testing.T) {
	w := apitest.New(t, 1)
	inner := topicWish("orders", 2, 1)
	inner.SetVersion(7)
	client := "client"
	frame := []byte{0, 19, 0, 7, 0, 0, 0, 9, 0xff, 0xff, 0}
	r := &transport.Request{Key: 19, Version: 7, CorrelationID: 9, ClientID: &client, Body: inner, Frame: inner.AppendTo(frame), Conn: &transport.ConnInfo{Listener: "external"}}
	conn := &transport.ConnInfo{Listener: "internal", Internal: true, Remote: &net.TCPAddr{}}
	send := func() (*kmsg.CreateTopicsResponse, uint64, error) {
		env := w.CallOn(conn, 0, api.NewEnvelope(r, metadata.RequestID{1, 2, 3})).(*kmsg.EnvelopeResponse)
		answer, index, err := api.OpenEnvelope(r, env)
		if err != nil {
			return nil, 0, err
		}
		return answer.(*kmsg.CreateTopicsResponse), index, nil
	}
	first, index, err := send()
	require.NoError(t, err)
	require.Zero(t, first.Topics[0].ErrorCode)
	require.Equal(t, w.Image().Index(), index)

	w.Elsewhere = true
	_, _, err = send()
	require.ErrorIs(t, err, metadata.ErrNotController)

	w.Elsewhere = false
	beat := kmsg.NewPtrBrokerHeartbeatRequest()
	r = &transport.Request{Key: 63, CorrelationID: 9, Body: beat, Frame: beat.AppendTo([]byte{0, 63, 0, 0, 0, 0, 0, 9, 0xff, 0xff, 0}), Conn: r.Conn}
	_, _, err = send()
	require.Error(t, err, "a request between nodes came through an envelope")
}

func TestTopicsAreMadeOnTheWayOnlyWhereBothSidesWantIt(t *testing.T) {
	w := apitest.New(t, 1)
	ask := func(version int16, allow bool, name string) kmsg.MetadataResponseTopic {
		req := kmsg.NewPtrMetadataRequest()
		req.AllowAutoTopicCreation = allow
		x := kmsg.NewMetadataRequestTopic()
		x.Topic = &name
		req.Topics = append(req.Topics, x)
		return w.Call(version, req).(*kmsg.MetadataResponse).Topics[0]
	}
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, ask(9, true, "a").ErrorCode, "the cluster does not")
	w.Handlers.Node.TopicDefaults.AutoCreate = true
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, ask(9, false, "a").ErrorCode, "the client does not")
	made := ask(9, true, "a")
	require.Zero(t, made.ErrorCode)
	require.Len(t, made.Partitions, 1)
	require.EqualValues(t, 1, made.Partitions[0].Leader)
	require.Zero(t, ask(0, false, "b").ErrorCode, "version 0 cannot say that it does not")
	// redpanda#31213: the cluster's own topics are not made with the defaults of others.
	for _, name := range []string{"__consumer_offsets", "__transaction_state"} {
		require.Equal(t, kerr.UnknownTopicOrPartition.Code, ask(9, true, name).ErrorCode)
		require.Nil(t, w.Image().Topic(name))
	}
	require.Equal(t, kerr.InvalidTopicException.Code, ask(9, true, "a/b").ErrorCode)
}

func TestMetadataIsToldByListener(t *testing.T) {
	w := apitest.New(t, 1)
	w.StartAt(2, map[string]metadata.Endpoint{"internal": {Host: "n2", Port: 9092}})
	require.Zero(t, created(t, w, "a", 6, 1).ErrorCode)
	for _, v := range []int16{1, 5, 6, 13} {
		resp := w.Call(v, kmsg.NewPtrMetadataRequest()).(*kmsg.MetadataResponse)
		require.Len(t, resp.Brokers, 1)
		want := kerr.ListenerNotFound.Code
		if v < 6 {
			want = kerr.LeaderNotAvailable.Code
		}
		for n, p := range resp.Topics[0].Partitions {
			if w.Image().Topic("a").Partitions[n].Leader == 2 {
				require.Equal(t, want, p.ErrorCode)
				require.EqualValues(t, -1, p.Leader)
			} else {
				require.Zero(t, p.ErrorCode)
			}
		}
	}
}

// Field report 19 (nisshi#668): a fetch at the end is answered in its time, whatever that is, and at once when there is
// something.
func TestAParkedFetchIsAnsweredByADeadlineOrAProduce(t *testing.T) {
	l, srv := node(t, nil)
	require.Zero(t, created(t, l.Cluster, "a", 1, 1).ErrorCode)
	fetch := func(wait int32) *kmsg.FetchRequest {
		req := kmsg.NewPtrFetchRequest()
		req.MinBytes, req.MaxBytes, req.MaxWaitMillis = 1, 1<<20, wait
		x := kmsg.NewFetchRequestTopic()
		x.Topic, x.TopicID = "a", l.Image().Topic("a").ID
		p := kmsg.NewFetchRequestTopicPartition()
		p.PartitionMaxBytes = 1000
		x.Partitions = append(x.Partitions, p)
		req.Topics = append(req.Topics, x)
		return req
	}
	c := client(t, srv)
	for _, wait := range []int32{0, 1, 100, -1} {
		resp, err := fetch(wait).RequestWith(t.Context(), c.Broker(1))
		require.NoError(t, err)
		require.Empty(t, resp.Topics[0].Partitions[0].RecordBatches)
	}
	got := make(chan int, 1)
	go func() {
		resp, err := fetch(math.MaxInt32).RequestWith(t.Context(), c.Broker(1))
		if err != nil {
			t.Error(err)
			got <- 0
			return
		}
		got <- len(resp.Topics[0].Partitions[0].RecordBatches)
	}()
	_, err := produceOf(-1, "a", map[int32][]byte{0: batch("x")}).RequestWith(t.Context(), c.Broker(1))
	require.NoError(t, err)
	require.Positive(t, <-got)
}

// Field report 18: acks=0 gets no answer, and a client that cannot be told of an error is told by the end of its
// connection.
func TestAProduceWithoutAcknowledgementGetsNoAnswer(t *testing.T) {
	l, srv := node(t, nil)
	require.Zero(t, created(t, l.Cluster, "a", 1, 1).ErrorCode)
	send := func(topic string, b []byte) (net.Conn, int32, error) {
		conn, err := net.Dial("tcp", srv.Addr("external").String())
		require.NoError(t, err)
		require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
		req := produceOf(0, topic, map[int32][]byte{0: b})
		req.SetVersion(7)
		ask := kmsg.NewPtrMetadataRequest()
		ask.SetVersion(1)
		_, err = conn.Write(append(framed(1, req), framed(2, ask)...))
		require.NoError(t, err)
		var head [8]byte
		_, err = io.ReadFull(conn, head[:])
		return conn, int32(binary.BigEndian.Uint32(head[4:])), err
	}
	conn, corr, err := send("a", batch("x"))
	require.NoError(t, err)
	require.EqualValues(t, 2, corr)
	_ = conn.Close()
	for topic, b := range map[string][]byte{"missing": batch("x"), "a": []byte(strings.Repeat("x", 70))} {
		conn, _, err = send(topic, b)
		require.Error(t, err, topic)
		_ = conn.Close()
	}
}

func framed(corr int32, req kmsg.Request) []byte {
	b := []byte{0, 0, 0, 0}
	b = binary.BigEndian.AppendUint16(b, uint16(req.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(req.GetVersion()))
	b = binary.BigEndian.AppendUint32(b, uint32(corr))
	b = append(b, 0xff, 0xff)
	b = req.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// KIP-1242: a client that names whom it means to talk to is told when it is somebody else.
func TestAClientOfAnotherClusterOrNodeIsTold(t *testing.T) {
	w := apitest.New(t, 1)
	for _, x := range []struct {
		cluster *string
		node    int32
		want    int16
	}{
		{nil, -1, 0}, {kmsg.StringPtr("test"), 1, 0}, {kmsg.StringPtr("test"), 2, kerr.RebootstrapRequired.Code},
		{kmsg.StringPtr("other"), 1, kerr.RebootstrapRequired.Code}, {kmsg.StringPtr("test"), -1, kerr.InvalidRequest.Code}, {nil, 1, kerr.InvalidRequest.Code},
	} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "test", "1.0"
		req.ClusterID, req.NodeID = x.cluster, x.node
		require.Equal(t, x.want, w.Call(5, req).(*kmsg.ApiVersionsResponse).ErrorCode, "%+v", x)
	}
}

var _ api.Replicas = (*apitest.Logs)(nil)

// users met this more than any other fault: the second connection goes to an address that is true inside only.
func TestAClientFromElsewhereThatIsToldLocalhostIsWarnedOfOnceAMinute(t *testing.T) {
	w := apitest.New(t, 1)
	var out bytes.Buffer
	now := time.Unix(100, 0)
	h := api.New(w.Handlers.Deps, api.Options{Logger: slog.New(slog.NewTextHandler(&out, nil)), Now: func() time.Time { return now }})
	w.Handlers = h
	ask := func(ip, listener string) int {
		out.Reset()
		w.CallOn(&transport.ConnInfo{Listener: listener, Remote: &net.TCPAddr{IP: net.ParseIP(ip)}}, 9, kmsg.NewPtrMetadataRequest())
		return strings.Count(out.String(), "listeners.external.advertise")
	}
	require.Zero(t, ask("127.0.0.1", "external"))
	require.Zero(t, ask("10.1.1.1", "internal"), "n1 is a name that others may know")
	require.Equal(t, 1, ask("10.1.1.1", "external"))
	require.Zero(t, ask("10.1.1.1", "external"))
	now = now.Add(time.Minute)
	require.Equal(t, 1, ask("10.1.1.2", "external"))
}

func TestRecordsAreJudgedByTheWallClock(t *testing.T) {
	l, _ := node(t, nil)
	require.Zero(t, created(t, l.Cluster, "a", 1, 1).ErrorCode)
	at := time.UnixMilli(1700000000000) // of the batch
	for _, x := range []struct {
		wall time.Time
		want *kerr.Error
	}{{at, nil}, {at.Add(-2 * time.Hour), kerr.InvalidTimestamp}, {at.Add(2 * time.Hour), nil}} {
		l.Handlers = api.New(l.Handlers.Deps, api.Options{Now: func() time.Time { return time.Unix(1, 0) }, Wall: func() time.Time { return x.wall }})
		got := l.Call(9, produceOf(1, "a", map[int32][]byte{0: batch("x")})).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		code := int16(0)
		if x.want != nil {
			code = x.want.Code
		}
		require.Equal(t, code, got.ErrorCode, "%v", x.wall)
	}
}
