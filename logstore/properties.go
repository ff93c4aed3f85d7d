package logstore

import (
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"cordwood/logstore/record"
)

// errProperties says that meta.properties, partition.metadata or a state file breaks its format.
var errProperties = errors.New("properties file breaks its format")

// metaProperties is the content of meta.properties: which node of which cluster the directory belongs to.
type metaProperties struct {
	clusterID   string // empty before the cluster is formed
	nodeID      int32
	directoryID string
}

func decodeMeta(b []byte) (metaProperties, error) {
	m := metaProperties{nodeID: -1}
	kv, err := decodePairs(b, "=")
	if err != nil {
		return m, err
	}
	if kv["version"] != "1" {
		return m, fmt.Errorf("%w: version %.20q", errProperties, kv["version"])
	}
	node, err := strconv.ParseInt(kv["node.id"], 10, 32)
	if err != nil || node < 0 {
		return m, fmt.Errorf("%w: node.id %.20q", errProperties, kv["node.id"])
	}
	m.nodeID, m.clusterID, m.directoryID = int32(node), kv["cluster.id"], kv["directory.id"]
	if m.directoryID == "" {
		return m, fmt.Errorf("%w: no directory.id", errProperties)
	}
	return m, nil
}

func encodeMeta(m metaProperties) []byte {
	b := fmt.Appendf(nil, "version=1\nnode.id=%d\ndirectory.id=%s\n", m.nodeID, m.directoryID)
	if m.clusterID != "" {
		b = fmt.Appendf(b, "cluster.id=%s\n", m.clusterID)
	}
	return b
}

// decodePartitionMetadata reads partition.metadata: the id of the topic that the directory's log belongs to.
func decodePartitionMetadata(b []byte) (record.TopicID, error) {
	kv, err := decodePairs(b, ": ")
	if err != nil {
		return record.TopicID{}, err
	}
	if kv["version"] != "0" {
		return record.TopicID{}, fmt.Errorf("%w: version %.20q", errProperties, kv["version"])
	}
	id, err := record.ParseTopicID(kv["topic_id"])
	if err != nil || id.IsZero() {
		return id, fmt.Errorf("%w: topic_id %.40q", errProperties, kv["topic_id"])
	}
	return id, nil
}

func encodePartitionMetadata(id record.TopicID) []byte {
	return fmt.Appendf(nil, "version: 0\ntopic_id: %s", id)
}

// logState is a partition's own small file (cordwood-state): facts that Kafka's files have no place for. It is replaced
// and synced before the change that it announces.
type logState struct {
	start      int64 // log start offset
	startEpoch int32 // epoch of the record before start
	loss       int32 // newest loss epoch acted on
	generation int64 // raised whenever a claim of the checkpoint is withdrawn
	hw         int64 // the high watermark that counts while the checkpoint is of an older generation
	flushed    int64 // the recovery point, likewise
	holes      int64 // below it offsets may be missing, because compaction took them
}

func decodeState(b []byte) (logState, error) {
	s := logState{startEpoch: record.NoEpoch}
	kv, err := decodePairs(b, ": ")
	if err != nil {
		return s, err
	}
	if kv["version"] != "0" {
		return s, fmt.Errorf("%w: version %.20q", errProperties, kv["version"])
	}
	for _, f := range []struct {
		name string
		bits int
		set  func(int64)
		min  int64
	}{
		{"log_start", 64, func(v int64) { s.start = v }, 0},
		{"log_start_epoch", 32, func(v int64) { s.startEpoch = int32(v) }, -1},
		{"applied_loss", 32, func(v int64) { s.loss = int32(v) }, 0},
		{"generation", 64, func(v int64) { s.generation = v }, 0},
		{"high_watermark", 64, func(v int64) { s.hw = v }, 0},
		{"recovery_point", 64, func(v int64) { s.flushed = v }, 0},
		{"compacted_to", 64, func(v int64) { s.holes = v }, 0},
	} {
		v, err := strconv.ParseInt(kv[f.name], 10, f.bits)
		if err != nil || v < f.min {
			return s, fmt.Errorf("%w: %s %.30q", errProperties, f.name, kv[f.name])
		}
		f.set(v)
	}
	return s, nil
}

func encodeState(s logState) []byte {
	return fmt.Appendf(nil, "version: 0\nlog_start: %d\nlog_start_epoch: %d\napplied_loss: %d\ngeneration: %d\nhigh_watermark: %d\nrecovery_point: %d\ncompacted_to: %d\n",
		s.start, s.startEpoch, s.loss, s.generation, s.hw, s.flushed, s.holes)
}

// decodePairs reads lines of a name, a separator and a value; empty lines and those that begin with # are left out. A
// name twice is an error.
func decodePairs(b []byte, sep string) (map[string]string, error) {
	kv := map[string]string{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		k, v, ok := strings.Cut(line, sep)
		if _, twice := kv[k]; !ok || twice {
			return nil, fmt.Errorf("%w: line %.80q", errProperties, line)
		}
		kv[k] = v
	}
	return kv, nil
}

// parseDirName splits the name of a partition's directory, "<topic>-<partition>".
func parseDirName(name string) (topicPartition, bool) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 || i == len(name)-1 {
		return topicPartition{}, false
	}
	p, err := strconv.ParseInt(name[i+1:], 10, 32)
	if err != nil || p < 0 || strconv.FormatInt(p, 10) != name[i+1:] {
		return topicPartition{}, false
	}
	return topicPartition{name[:i], int32(p)}, true
}

func (tp topicPartition) dirName() string { return tp.topic + "-" + strconv.Itoa(int(tp.partition)) }

// sortHints, sortHosted: files have one order, so that equal content is equal bytes.
func lessPartition(a, b topicPartition) bool {
	if a.topic != b.topic {
		return a.topic < b.topic
	}
	return a.partition < b.partition
}

func sortedHosted(m map[record.PartitionID]string) []hostedEntry {
	rows := make([]hostedEntry, 0, len(m))
	for id, topic := range m {
		rows = append(rows, hostedEntry{topic, id})
	}
	sort.Slice(rows, func(i, j int) bool {
		a, b := rows[i], rows[j]
		if a.topic != b.topic || a.id.Partition != b.id.Partition {
			return lessPartition(topicPartition{a.topic, a.id.Partition}, topicPartition{b.topic, b.id.Partition})
		}
		return string(a.id.Topic[:]) < string(b.id.Topic[:])
	})
	return rows
}
