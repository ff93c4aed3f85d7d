package metadata

import (
	"iter"

	"github.com/tidwall/btree"

	"cordwood/logstore/record"
)

// Image is the metadata at one raft index. It is immutable and may be read from any goroutine. Maps are persistent
// (copy-on-write trees), so that applying a command costs its delta and not the image.
type Image struct {
	index     uint64
	level     int32
	clusterID string
	nextPID   int64 // first producer id of the next block

	brokers *btree.Map[int32, *Broker]
	topics  *btree.Map[string, *Topic]
	names   *btree.Map[string, string] // topic names by the bytes of the topic id

	metrics    *btree.Map[string, string]   // topic names by MetricName
	hosts      *btree.Map[string, struct{}] // hostKey: which broker is a replica of which partition
	leaderless *btree.Map[string, struct{}] // partitionKey of the partitions without a leader
}

// Index is the raft index of the last command applied.
func (i *Image) Index() uint64 { return i.index }

// Level is the finalised metadata level; 0 before the first command.
func (i *Image) Level() int32 { return i.level }

// ClusterID is empty before the first command.
func (i *Image) ClusterID() string { return i.clusterID }

// Broker gives one registered broker, nil if there is none.
func (i *Image) Broker(id int32) *Broker { b, _ := i.brokers.Get(id); return b }

// Brokers gives all registered brokers, rising ids.
func (i *Image) Brokers() iter.Seq[*Broker] {
	return func(yield func(*Broker) bool) {
		i.brokers.Scan(func(_ int32, b *Broker) bool { return yield(b) })
	}
}

// Topic gives a topic by name, nil if there is none.
func (i *Image) Topic(name string) *Topic { t, _ := i.topics.Get(name); return t }

// TopicByID gives a topic by id, nil if there is none.
func (i *Image) TopicByID(id record.TopicID) *Topic {
	name, ok := i.names.Get(string(id[:]))
	if !ok {
		return nil
	}
	return i.Topic(name)
}

// Topics gives all topics, rising names.
func (i *Image) Topics() iter.Seq[*Topic] {
	return func(yield func(*Topic) bool) {
		i.topics.Scan(func(_ string, t *Topic) bool { return yield(t) })
	}
}

// TopicCount is the number of topics.
func (i *Image) TopicCount() int { return i.topics.Len() }

// Partition gives the record of one partition, nil if topic or partition is unknown.
func (i *Image) Partition(id record.PartitionID) *Partition {
	t := i.TopicByID(id.Topic)
	if t == nil || id.Partition < 0 || int(id.Partition) >= len(t.Partitions) {
		return nil
	}
	return t.Partitions[id.Partition]
}

// ReplicasOf gives the partitions that a broker is a replica of, in the order of their ids.
func (i *Image) ReplicasOf(broker int32) iter.Seq[*Partition] {
	return func(yield func(*Partition) bool) {
		for _, id := range i.hosted(broker) {
			if !yield(i.Partition(id)) {
				return
			}
		}
	}
}

// Leaderless gives the partitions that have no leader, in the order of their ids.
func (i *Image) Leaderless() iter.Seq[*Partition] {
	return func(yield func(*Partition) bool) {
		i.leaderless.Scan(func(k string, _ struct{}) bool { return yield(i.Partition(partitionOf(k))) })
	}
}

// LeaderlessCount is the number of partitions that have no leader.
func (i *Image) LeaderlessCount() int { return i.leaderless.Len() }

// BrokerEpoch is the current epoch of a broker, -1 if it is not registered.
func (i *Image) BrokerEpoch(id int32) int64 {
	if b := i.Broker(id); b != nil {
		return b.Epoch
	}
	return -1
}

// Delta names what changed between two images. Records in between may have been skipped: compare old and new.
type Delta struct {
	Old, New *Image
	// Full says that everything may have changed (a snapshot was installed); the lists are then empty.
	Full       bool
	Brokers    []int32              // registered, changed or removed
	Topics     []record.TopicID     // created, deleted or with changed settings
	Partitions []record.PartitionID // created, deleted or changed
	Events     []Event              // what operators are told; only the active controller logs them
}
