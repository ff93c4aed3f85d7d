package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fake is one node that answers as much of the protocol as the commands ask. It keeps logs in memory.
type fake struct {
	t        *testing.T
	addr     string
	listener net.Listener
	wg       sync.WaitGroup

	mu       sync.Mutex
	grown    chan struct{} // closed and replaced at each append
	conns    map[net.Conn]bool
	topics   map[string]*fakeTopic
	handlers map[int16]func(kmsg.Request) kmsg.Response
	asked    []string // names of the requests, in order
}

type fakeTopic struct {
	id         [16]byte
	partitions []*fakeLog
}

type fakeLog struct {
	start, end int64
	batches    []fakeBatch
}

type fakeBatch struct {
	base, next int64
	raw        []byte
}

// fakeVersions are the ranges that the fake advertises: those that name topics, not ids, in Fetch.
var fakeVersions = map[kmsg.Key][2]int16{
	kmsg.ApiVersions: {0, 4}, kmsg.Metadata: {0, 12}, kmsg.Produce: {3, 11}, kmsg.Fetch: {4, 12}, kmsg.ListOffsets: {1, 7}, kmsg.InitProducerID: {0, 4},
	kmsg.CreateTopics: {2, 7}, kmsg.DeleteTopics: {1, 6}, kmsg.CreatePartitions: {0, 3}, kmsg.DescribeConfigs: {1, 4}, kmsg.IncrementalAlterConfigs: {0, 1},
	kmsg.DescribeCluster: {0, 2}, kmsg.DescribeTopicPartitions: {0, 0}, kmsg.DescribeQuorum: {0, 2}, kmsg.UnregisterBroker: {0, 0}, kmsg.UpdateFeatures: {0, 2},
	kmsg.OffsetForLeaderEpoch: {2, 4}, kmsg.AlterPartitionAssignments: {0, 1}, kmsg.ElectLeaders: {0, 2},
}

// startFake listens on addr ("127.0.0.1:0" for any port) until the test ends.
func startFake(t *testing.T, addr string) *fake {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{t: t, addr: l.Addr().String(), listener: l, grown: make(chan struct{}), conns: map[net.Conn]bool{}, topics: map[string]*fakeTopic{}}
	f.handlers = map[int16]func(kmsg.Request) kmsg.Response{
		kmsg.ApiVersions.Int16(): f.apiVersions, kmsg.Metadata.Int16(): f.metadata, kmsg.ListOffsets.Int16(): f.listOffsets,
		kmsg.Produce.Int16(): f.produce, kmsg.Fetch.Int16(): f.fetch, kmsg.InitProducerID.Int16(): f.initProducerID,
		kmsg.OffsetForLeaderEpoch.Int16(): func(r kmsg.Request) kmsg.Response { return r.ResponseKind() },
	}
	f.wg.Go(f.accept)
	t.Cleanup(f.close)
	return f
}

func (f *fake) close() {
	f.listener.Close()
	f.mu.Lock()
	for c := range f.conns {
		c.Close()
	}
	f.mu.Unlock()
	f.wg.Wait()
}

// handle replaces the answer to one kind of request.
func (f *fake) handle(key kmsg.Key, fn func(kmsg.Request) kmsg.Response) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handlers[key.Int16()] = fn
}

// topic makes a topic with empty partitions, led by node 1 in epoch 3.
func (f *fake) topic(name string, partitions int) *fakeTopic {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := &fakeTopic{}
	copy(t.id[:], name+"................")
	for range partitions {
		t.partitions = append(t.partitions, &fakeLog{})
	}
	f.topics[name] = t
	return t
}

// holds waits until the topic holds n records.
func (f *fake) holds(topic string, n int64) {
	f.t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		f.mu.Lock()
		var have int64
		for _, l := range f.topics[topic].partitions {
			have += l.end
		}
		grown := f.grown
		f.mu.Unlock()
		if have == n {
			return
		}
		select {
		case <-grown:
		case <-deadline:
			f.t.Fatalf("%s holds %d records, not %d", topic, have, n)
		}
	}
}

func (f *fake) accept() {
	for {
		c, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		f.conns[c] = true
		f.mu.Unlock()
		f.wg.Go(func() {
			f.serve(c)
			c.Close()
		})
	}
}

func (f *fake) serve(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		var size [4]byte
		if _, err := io.ReadFull(r, size[:]); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(r, body); err != nil {
			return
		}
		req, corr := f.decode(body)
		f.mu.Lock()
		f.asked = append(f.asked, kmsg.NameForKey(req.Key()))
		h := f.handlers[req.Key()]
		f.mu.Unlock()
		if h == nil {
			f.t.Errorf("fake: nobody answers %s", kmsg.NameForKey(req.Key()))
			return
		}
		resp := h(req)
		if resp == nil {
			continue
		}
		resp.SetVersion(req.GetVersion())
		out := binary.BigEndian.AppendUint32(make([]byte, 4), corr)
		if resp.IsFlexible() && req.Key() != kmsg.ApiVersions.Int16() {
			out = append(out, 0)
		}
		out = resp.AppendTo(out)
		binary.BigEndian.PutUint32(out, uint32(len(out)-4))
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

func (f *fake) decode(b []byte) (kmsg.Request, uint32) {
	key, version, corr := int16(binary.BigEndian.Uint16(b)), int16(binary.BigEndian.Uint16(b[2:])), binary.BigEndian.Uint32(b[4:])
	id := max(int16(binary.BigEndian.Uint16(b[8:])), 0)
	b = b[10+id:]
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	if req.IsFlexible() {
		b = b[1:]
	}
	if err := req.ReadFrom(b); err != nil {
		f.t.Errorf("fake: %s v%d: %v", kmsg.NameForKey(key), version, err)
	}
	return req, corr
}

func (f *fake) apiVersions(r kmsg.Request) kmsg.Response {
	resp := r.ResponseKind().(*kmsg.ApiVersionsResponse)
	for k, v := range fakeVersions {
		resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: k.Int16(), MinVersion: v[0], MaxVersion: v[1]})
	}
	return resp
}

func (f *fake) hostPort() (string, int32) {
	host, port, _ := net.SplitHostPort(f.addr)
	n, _ := strconv.Atoi(port)
	return host, int32(n)
}

func (f *fake) metadata(r kmsg.Request) kmsg.Response {
	f.mu.Lock()
	defer f.mu.Unlock()
	req, resp := r.(*kmsg.MetadataRequest), r.ResponseKind().(*kmsg.MetadataResponse)
	host, port := f.hostPort()
	resp.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: host, Port: port}}
	resp.ControllerID = 1
	resp.ClusterID = kmsg.StringPtr("fake-cluster")
	var names []string
	for _, t := range req.Topics {
		if t.Topic != nil {
			names = append(names, *t.Topic)
		}
	}
	if req.Topics == nil {
		names = sortedKeys(f.topics)
	}
	for _, name := range names {
		mt := kmsg.NewMetadataResponseTopic()
		mt.Topic = kmsg.StringPtr(name)
		t := f.topics[name]
		if t == nil {
			mt.ErrorCode = kerr.UnknownTopicOrPartition.Code
			resp.Topics = append(resp.Topics, mt)
			continue
		}
		mt.TopicID = t.id
		for p := range t.partitions {
			mp := kmsg.NewMetadataResponseTopicPartition()
			mp.Partition, mp.Leader, mp.LeaderEpoch, mp.Replicas, mp.ISR = int32(p), 1, 3, []int32{1}, []int32{1}
			mt.Partitions = append(mt.Partitions, mp)
		}
		resp.Topics = append(resp.Topics, mt)
	}
	return resp
}

func (f *fake) log(topic string, p int32) *fakeLog {
	if t := f.topics[topic]; t != nil && int(p) < len(t.partitions) {
		return t.partitions[p]
	}
	return nil
}

func (f *fake) listOffsets(r kmsg.Request) kmsg.Response {
	f.mu.Lock()
	defer f.mu.Unlock()
	req, resp := r.(*kmsg.ListOffsetsRequest), r.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, t := range req.Topics {
		at := kmsg.NewListOffsetsResponseTopic()
		at.Topic = t.Topic
		for _, p := range t.Partitions {
			ap := kmsg.NewListOffsetsResponseTopicPartition()
			ap.Partition = p.Partition
			switch l := f.log(t.Topic, p.Partition); {
			case l == nil:
				ap.ErrorCode = kerr.UnknownTopicOrPartition.Code
			case p.Timestamp == -2:
				ap.Offset = l.start
			case p.Timestamp == -1:
				ap.Offset = l.end
			default:
				ap.Offset = l.at(p.Timestamp)
			}
			at.Partitions = append(at.Partitions, ap)
		}
		resp.Topics = append(resp.Topics, at)
	}
	return resp
}

// at is the base of the first batch whose first record is at or after a time, -1 if none is.
func (l *fakeLog) at(ms int64) int64 {
	for _, b := range l.batches {
		var rb kmsg.RecordBatch
		if rb.ReadFrom(b.raw) == nil && rb.FirstTimestamp >= ms {
			return b.base
		}
	}
	return -1
}

func (f *fake) initProducerID(r kmsg.Request) kmsg.Response {
	resp := r.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID = 7
	return resp
}

func (f *fake) produce(r kmsg.Request) kmsg.Response {
	f.mu.Lock()
	defer f.mu.Unlock()
	req, resp := r.(*kmsg.ProduceRequest), r.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range req.Topics {
		at := kmsg.NewProduceResponseTopic()
		at.Topic = t.Topic
		for _, p := range t.Partitions {
			ap := kmsg.NewProduceResponseTopicPartition()
			ap.Partition = p.Partition
			if l := f.log(t.Topic, p.Partition); l != nil {
				ap.BaseOffset = l.append(p.Records)
			} else {
				ap.ErrorCode = kerr.UnknownTopicOrPartition.Code
			}
			at.Partitions = append(at.Partitions, ap)
		}
		resp.Topics = append(resp.Topics, at)
	}
	close(f.grown)
	f.grown = make(chan struct{})
	if req.Acks == 0 {
		return nil
	}
	return resp
}

// append gives a batch its place and keeps it.
func (l *fakeLog) append(raw []byte) int64 {
	raw = slices.Clone(raw)
	base := l.end
	binary.BigEndian.PutUint64(raw, uint64(base))
	l.end += int64(binary.BigEndian.Uint32(raw[23:])) + 1
	l.batches = append(l.batches, fakeBatch{base, l.end, raw})
	return base
}

func (f *fake) fetch(r kmsg.Request) kmsg.Response {
	req := r.(*kmsg.FetchRequest)
	deadline := time.After(time.Duration(req.MaxWaitMillis) * time.Millisecond)
	for {
		f.mu.Lock()
		resp, any := f.read(req)
		grown := f.grown
		f.mu.Unlock()
		if any {
			return resp
		}
		select {
		case <-grown:
		case <-deadline:
			return resp
		}
	}
}

func (f *fake) read(req *kmsg.FetchRequest) (*kmsg.FetchResponse, bool) {
	resp, any := req.ResponseKind().(*kmsg.FetchResponse), false
	for _, t := range req.Topics {
		at := kmsg.NewFetchResponseTopic()
		at.Topic = t.Topic
		for _, p := range t.Partitions {
			ap := kmsg.NewFetchResponseTopicPartition()
			ap.Partition = p.Partition
			l := f.log(t.Topic, p.Partition)
			switch {
			case l == nil:
				ap.ErrorCode, any = kerr.UnknownTopicOrPartition.Code, true
			case p.FetchOffset < l.start || p.FetchOffset > l.end:
				ap.ErrorCode, any = kerr.OffsetOutOfRange.Code, true
			default:
				ap.HighWatermark, ap.LastStableOffset, ap.LogStartOffset = l.end, l.end, l.start
				for _, b := range l.batches {
					if b.next > p.FetchOffset {
						ap.RecordBatches, any = append(ap.RecordBatches, b.raw...), true
					}
				}
			}
			at.Partitions = append(at.Partitions, ap)
		}
		resp.Topics = append(resp.Topics, at)
	}
	return resp, any
}

// result is what a command line left behind.
type result struct {
	code     int
	out, err string
}

// cordwood runs a command line in this process against brokers.
func cordwood(t *testing.T, brokers, in string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return cordwoodCtx(ctx, brokers, in, args...)
}

func cordwoodCtx(ctx context.Context, brokers, in string, args ...string) result {
	var out, errOut bytes.Buffer
	if brokers != "" {
		args = append([]string{"-b", brokers}, args...)
	}
	code := run(ctx, args, strings.NewReader(in), &out, &errOut)
	return result{code, out.String(), errOut.String()}
}

// golden compares with a file of testdata; UPDATE_GOLDEN=1 writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s differs:\n%s\nwanted:\n%s", path, got, want)
	}
}
