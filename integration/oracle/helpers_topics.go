package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A topicRef names a topic for requests of every version: by name up to some version, by id after it.
type topicRef struct {
	name string
	id   [16]byte
}

// unknownID is the id of no topic.
var unknownID = [16]byte{0: 0xbe, 6: 0x4e, 8: 0x8e, 15: 0xef}

// createTopic makes a topic, quietly, that keeps its records for ever (their times are old), learns its id and returns
// when the log of every partition answers.
func (r *run) createTopic(suffix string, partitions int32, configs ...config) topicRef {
	name, id := r.newTopic(suffix, partitions, append([]config{lasting}, configs...)...)
	t := topicRef{name, id}
	if id == ([16]byte{}) {
		panic("no topic " + name)
	}
	return t
}

// absent is a topic nobody made.
func (r *run) absent() topicRef { return topicRef{r.topic("absent"), unknownID} }

// each calls ask for every version with the word that step names begin with.
func each(versions []int16, ask func(v int16, at string)) {
	for _, v := range versions {
		ask(v, fmt.Sprintf("v%d ", v))
	}
}

func span(first, last int16) (l []int16) {
	for v := first; v <= last; v++ {
		l = append(l, v)
	}
	return l
}

func span32(first, last int32) (l []int32) {
	for v := first; v <= last; v++ {
		l = append(l, v)
	}
	return l
}

func createTopics(topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10000
	req.Topics = topics
	return req
}

// replicasOf is a hand-made assignment: the brokers of partitions 0, 1, …
func replicasOf(brokers ...[]int32) []kmsg.CreateTopicsRequestTopicReplicaAssignment {
	l := []kmsg.CreateTopicsRequestTopicReplicaAssignment{}
	for p, b := range brokers {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(p), b
		l = append(l, a)
	}
	return l
}

// produce puts records into one partition; nil records are null on the wire.
func produce(acks int16, t topicRef, partition int32, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 5000
	pt := kmsg.NewProduceRequestTopic()
	pt.Topic, pt.TopicID = t.name, t.id
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, records
	pt.Partitions = append(pt.Partitions, p)
	req.Topics = append(req.Topics, pt)
	return req
}

// fill appends batches to a partition quietly, one request each; a broker that refuses them stops the scenario.
func (r *run) fill(t topicRef, partition int32, batches ...batchOf) {
	for _, b := range batches {
		resp, ok := r.quiet(9, produce(-1, t, partition, b.bytes())).(*kmsg.ProduceResponse)
		if !ok || resp.Topics[0].Partitions[0].ErrorCode != 0 {
			panic(fmt.Sprintf("no records into %s-%d", t.name, partition))
		}
	}
}

// tell sends a request that has no answer.
func (r *run) tell(v int16, req kmsg.Request) {
	req.SetVersion(v)
	frame := req.AppendTo(r.header(req.Key(), v, req.IsFlexible()))
	_, _ = r.dial().Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
}

// fetch asks for partitions 0, 1, … of a topic from the given offsets, without a session and without waiting.
func fetch(t topicRef, offsets ...int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic, ft.TopicID = t.name, t.id
	for i, o := range offsets {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = int32(i), o, 1<<20
		ft.Partitions = append(ft.Partitions, p)
	}
	req.Topics = append(req.Topics, ft)
	return req
}

// fetchOf is fetch for one partition.
func fetchOf(t topicRef, partition int32, offset int64) *kmsg.FetchRequest {
	req := fetch(t, offset)
	req.Topics[0].Partitions[0].Partition = partition
	return req
}

// Special timestamps of ListOffsets.
const (
	latest        = -1
	earliest      = -2
	maxTimestamp  = -3
	earliestLocal = -4
	latestTiered  = -5
)

func listOffsets(t topicRef, partition int32, timestamp int64) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	lt := kmsg.NewListOffsetsRequestTopic()
	lt.Topic = t.name
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = partition, timestamp
	lt.Partitions = append(lt.Partitions, p)
	req.Topics = append(req.Topics, lt)
	return req
}

func epochEnd(t topicRef, partition, epoch, current int32) *kmsg.OffsetForLeaderEpochRequest {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	et := kmsg.NewOffsetForLeaderEpochRequestTopic()
	et.Topic = t.name
	p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	p.Partition, p.LeaderEpoch, p.CurrentLeaderEpoch = partition, epoch, current
	et.Partitions = append(et.Partitions, p)
	req.Topics = append(req.Topics, et)
	return req
}

func deleteRecords(t topicRef, partition int32, offset int64) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 5000
	dt := kmsg.NewDeleteRecordsRequestTopic()
	dt.Topic = t.name
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Partition, p.Offset = partition, offset
	dt.Partitions = append(dt.Partitions, p)
	req.Topics = append(req.Topics, dt)
	return req
}

// leaderEpoch is the present leader epoch of partition 0.
func (r *run) leaderEpoch(t topicRef) int32 {
	if m, ok := r.quiet(9, metadataOf(t.name)).(*kmsg.MetadataResponse); ok && len(m.Topics) == 1 && len(m.Topics[0].Partitions) > 0 {
		return m.Topics[0].Partitions[0].LeaderEpoch
	}
	panic("no leader epoch of " + t.name)
}

// legacyMessage is a healthy message set of the formats before record batches, with one value.
func legacyMessage(magic int8, value string) []byte {
	body := kbin.AppendInt8(nil, magic)
	body = kbin.AppendInt8(body, 0)
	if magic > 0 {
		body = kbin.AppendInt64(body, fixedTime)
	}
	body = kbin.AppendNullableBytes(body, nil)
	body = kbin.AppendBytes(body, []byte(value))
	set := kbin.AppendInt64(nil, 0)
	set = kbin.AppendInt32(set, int32(len(body))+4)
	set = binary.BigEndian.AppendUint32(set, crc32.ChecksumIEEE(body))
	return append(set, body...)
}
