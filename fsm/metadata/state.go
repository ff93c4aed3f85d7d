package metadata

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"cordwood/logstore/record"
)

// State is the applier's own copy of the metadata: commands change it, and it publishes immutable images. Trees are
// copied on write, so that an image stays as it was at the cost of what changes, and may be read from any goroutine
// while the State goes on. A State itself belongs to one goroutine.
type State struct {
	head Image // the present metadata; its trees are written to

	requests requestMemory

	published *Image
	pending   pending
}

// pending is what changed since the last image was published.
type pending struct {
	brokers    map[int32]struct{}
	topics     map[record.TopicID]struct{}
	partitions map[record.PartitionID]struct{}
	owned      map[record.TopicID]*Topic // copies that no published image holds: they may be written to
	events     []Event
}

func newPending() pending {
	return pending{
		brokers:    map[int32]struct{}{},
		topics:     map[record.TopicID]struct{}{},
		partitions: map[record.PartitionID]struct{}{},
		owned:      map[record.TopicID]*Topic{},
	}
}

// NewState gives the metadata before the first command.
func NewState() *State {
	s := &State{
		head: Image{
			brokers:    new(btree.Map[int32, *Broker]),
			topics:     new(btree.Map[string, *Topic]),
			names:      new(btree.Map[string, string]),
			metrics:    new(btree.Map[string, string]),
			hosts:      new(btree.Map[string, struct{}]),
			leaderless: new(btree.Map[string, struct{}]),
		},
		requests: newRequestMemory(),
		pending:  newPending(),
	}
	s.published = s.copyHead()
	return s
}

// Image is the newest published image.
func (s *State) Image() *Image { return s.published }

// Apply changes the state by one command of the log and publishes the image: Step and Publish in one.
func (s *State) Apply(index uint64, cmd Command) (Result, Delta) {
	r := s.Step(index, cmd)
	return r, s.Publish()
}

// Publish takes an image of the present state and says what changed since the one before.
func (s *State) Publish() Delta {
	d := Delta{Old: s.published, New: s.copyHead(), Events: s.pending.events}
	for id := range s.pending.brokers {
		d.Brokers = append(d.Brokers, id)
	}
	for id := range s.pending.topics {
		d.Topics = append(d.Topics, id)
	}
	for id := range s.pending.partitions {
		d.Partitions = append(d.Partitions, id)
	}
	slices.Sort(d.Brokers)
	slices.SortFunc(d.Topics, compareTopics)
	slices.SortFunc(d.Partitions, ComparePartitions)
	s.published = d.New
	s.pending = newPending()
	return d
}

// Capture gives a copy of the state as it is, for a snapshot: it may be encoded from another goroutine while this one
// goes on. What was not published yet is published in neither.
func (s *State) Capture() *State {
	s.pending.owned = map[record.TopicID]*Topic{} // the copy shares them now
	c := &State{head: *s.copyHead(), requests: s.requests.copy(), pending: newPending()}
	c.published = c.copyHead()
	return c
}

func (s *State) copyHead() *Image {
	c := s.head
	c.brokers = s.head.brokers.Copy()
	c.topics = s.head.topics.Copy()
	c.names = s.head.names.Copy()
	c.metrics = s.head.metrics.Copy()
	c.hosts = s.head.hosts.Copy()
	c.leaderless = s.head.leaderless.Copy()
	return &c
}

// putBroker stores a broker, which is never written to again.
func (s *State) putBroker(b *Broker) {
	s.head.brokers.Set(b.ID, b)
	s.pending.brokers[b.ID] = struct{}{}
}

// ownTopic gives a copy of the topic that may be written to until the next image; nil if there is none.
func (s *State) ownTopic(id record.TopicID) *Topic {
	if t := s.pending.owned[id]; t != nil {
		return t
	}
	t := s.head.TopicByID(id)
	if t == nil {
		return nil
	}
	c := *t
	c.Partitions = slices.Clone(t.Partitions)
	s.head.topics.Set(c.Name, &c)
	s.pending.owned[id] = &c
	return &c
}

// putPartition stores the next record of a partition, which is never written to again, and keeps the indexes true.
func (s *State) putPartition(p *Partition) {
	t := s.ownTopic(p.ID.Topic)
	old := t.Partitions[p.ID.Partition]
	t.Partitions[p.ID.Partition] = p
	s.pending.partitions[p.ID] = struct{}{}
	k := partitionKey(p.ID)
	if !slices.EqualFunc(old.Members, p.Members, func(a, b Replica) bool { return a.ID == b.ID }) {
		s.unhost(k, old.Members)
		s.host(k, p.Members)
	}
	switch wasLed, isLed := old.Leader != NoNode, p.Leader != NoNode; {
	case wasLed && !isLed:
		s.head.leaderless.Set(k, struct{}{})
	case !wasLed && isLed:
		s.head.leaderless.Delete(k)
	}
}

// indexPartition puts a new partition into the indexes.
func (s *State) indexPartition(p *Partition) {
	k := partitionKey(p.ID)
	s.host(k, p.Members)
	if p.Leader == NoNode {
		s.head.leaderless.Set(k, struct{}{})
	}
}

func (s *State) unindexPartition(p *Partition) {
	k := partitionKey(p.ID)
	s.unhost(k, p.Members)
	s.head.leaderless.Delete(k)
}

func (s *State) host(partition string, members []Replica) {
	for _, m := range members {
		s.head.hosts.Set(hostKey(m.ID, partition), struct{}{})
	}
}

func (s *State) unhost(partition string, members []Replica) {
	for _, m := range members {
		s.head.hosts.Delete(hostKey(m.ID, partition))
	}
}

// indexTopic stores a new topic with all its partitions.
func (s *State) indexTopic(t *Topic) {
	s.head.topics.Set(t.Name, t)
	s.head.names.Set(string(t.ID[:]), t.Name)
	s.head.metrics.Set(MetricName(t.Name), t.Name)
	for _, p := range t.Partitions {
		s.indexPartition(p)
	}
}

// partitionKey orders partitions by topic id and number.
func partitionKey(id record.PartitionID) string {
	var k [20]byte
	copy(k[:], id.Topic[:])
	binary.BigEndian.PutUint32(k[16:], uint32(id.Partition))
	return string(k[:])
}

func partitionOf(key string) (id record.PartitionID) {
	copy(id.Topic[:], key)
	id.Partition = int32(binary.BigEndian.Uint32([]byte(key[16:])))
	return id
}

// hostKey orders replicas by broker, then partition.
func hostKey(broker int32, partition string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(broker))) + partition
}

// hosted lists the partitions that a broker is a replica of.
func (i *Image) hosted(broker int32) []record.PartitionID {
	var ids []record.PartitionID
	prefix := hostKey(broker, "")
	i.hosts.Ascend(prefix, func(k string, _ struct{}) bool {
		if !strings.HasPrefix(k, prefix) {
			return false
		}
		ids = append(ids, partitionOf(k[len(prefix):]))
		return true
	})
	return ids
}

// Index is the raft index of the newest command that was applied, published or not.
func (s *State) Index() uint64 { return s.head.index }
