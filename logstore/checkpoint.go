package logstore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"cordwood/logstore/record"
)

// errCheckpoint says that a checkpoint file breaks its format.
var errCheckpoint = errors.New("checkpoint file breaks its format")

// decodeCheckpoint reads Kafka's text form: a line with version 0, a line with the number of entries, one entry a line,
// its fields split by single spaces. An empty file is one that was never written and has no entries.
func decodeCheckpoint(b []byte, fields int) ([][]string, error) {
	if len(b) == 0 {
		return nil, nil
	}
	text, whole := strings.CutSuffix(string(b), "\n")
	if !whole {
		return nil, fmt.Errorf("%w: cut short", errCheckpoint)
	}
	lines := strings.Split(text, "\n")
	if lines[0] != "0" {
		return nil, fmt.Errorf("%w: version %.20q", errCheckpoint, lines[0])
	}
	if len(lines) < 2 {
		return nil, fmt.Errorf("%w: no count", errCheckpoint)
	}
	n, err := strconv.Atoi(lines[1])
	if err != nil || n != len(lines)-2 {
		return nil, fmt.Errorf("%w: count %.20q, %d entries", errCheckpoint, lines[1], len(lines)-2)
	}
	rows := make([][]string, 0, n)
	for _, line := range lines[2:] {
		row := strings.Split(line, " ")
		if len(row) != fields {
			return nil, fmt.Errorf("%w: line %.80q", errCheckpoint, line)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// topicPartition names a partition as Kafka's checkpoint files do.
type topicPartition struct {
	topic     string
	partition int32
}

// decodeOffsets reads one of Kafka's offset checkpoints: "topic partition offset" a line.
func decodeOffsets(b []byte) (map[topicPartition]int64, error) {
	rows, err := decodeCheckpoint(b, 3)
	if err != nil {
		return nil, err
	}
	m := make(map[topicPartition]int64, len(rows))
	for _, row := range rows {
		p, err1 := strconv.ParseInt(row[1], 10, 32)
		o, err2 := strconv.ParseInt(row[2], 10, 64)
		if err1 != nil || err2 != nil || p < 0 || o < 0 {
			return nil, fmt.Errorf("%w: line %q", errCheckpoint, row)
		}
		m[topicPartition{row[0], int32(p)}] = o
	}
	return m, nil
}

// offsetRow is one line of an offset checkpoint.
type offsetRow struct {
	topicPartition
	offset int64
}

func encodeOffsets(rows []offsetRow) []byte {
	b := fmt.Appendf(nil, "0\n%d\n", len(rows))
	for _, r := range rows {
		b = fmt.Appendf(b, "%s %d %d\n", r.topic, r.partition, r.offset)
	}
	return b
}

// hint is what the directory's own checkpoint (cordwood-checkpoint) says of one partition. It is tied to the topic's
// id, so that a topic made again under an old name has no claims to meet, and to the generation of the partition's state
// file, which a cut raises before bytes go.
type hint struct {
	topic      string
	id         record.PartitionID
	hw         int64
	flushed    int64
	generation int64
}

func encodeHints(rows []hint) []byte {
	b := fmt.Appendf(nil, "0\n%d\n", len(rows))
	for _, r := range rows {
		b = fmt.Appendf(b, "%s %d %s %d %d %d\n", r.topic, r.id.Partition, r.id.Topic, r.hw, r.flushed, r.generation)
	}
	return b
}

func decodeHints(b []byte) (map[record.PartitionID]hint, error) {
	rows, err := decodeCheckpoint(b, 6)
	if err != nil {
		return nil, err
	}
	m := make(map[record.PartitionID]hint, len(rows))
	for _, row := range rows {
		p, err1 := strconv.ParseInt(row[1], 10, 32)
		t, err2 := record.ParseTopicID(row[2])
		hw, err3 := strconv.ParseInt(row[3], 10, 64)
		fl, err4 := strconv.ParseInt(row[4], 10, 64)
		g, err5 := strconv.ParseInt(row[5], 10, 64)
		if err := errors.Join(err1, err2, err3, err4, err5); err != nil || p < 0 || hw < 0 || fl < 0 || g < 0 {
			return nil, fmt.Errorf("%w: line %q", errCheckpoint, row)
		}
		id := record.PartitionID{Topic: t, Partition: int32(p)}
		m[id] = hint{topic: row[0], id: id, hw: hw, flushed: fl, generation: g}
	}
	return m, nil
}

// hostedEntry is one line of the file `hosted`: this directory holds, or is about to hold, a copy of the partition.
type hostedEntry struct {
	topic string
	id    record.PartitionID
}

// hostedHeader is the first line of the file `hosted`: its version.
const hostedHeader = "0\n"

// encodeHosted writes entries as lines, which may be appended to the file.
func encodeHosted(rows []hostedEntry) []byte {
	var b []byte
	for _, r := range rows {
		b = fmt.Appendf(b, "%s %d %s\n", r.topic, r.id.Partition, r.id.Topic)
	}
	return b
}

// decodeHosted reads the file `hosted`. A last line without its end was never acknowledged and does not count; size is
// the bytes that do.
func decodeHosted(b []byte) (m map[record.PartitionID]string, size int64, err error) {
	m = map[record.PartitionID]string{}
	if len(b) == 0 {
		return m, 0, nil
	}
	rest, ok := strings.CutPrefix(string(b), hostedHeader)
	if !ok {
		return nil, 0, fmt.Errorf("%w: version %.20q", errCheckpoint, b)
	}
	size = int64(len(hostedHeader))
	for line := range strings.Lines(rest) {
		text, whole := strings.CutSuffix(line, "\n")
		if !whole {
			break
		}
		row := strings.Split(text, " ")
		if len(row) != 3 {
			return nil, 0, fmt.Errorf("%w: line %.80q", errCheckpoint, text)
		}
		p, err1 := strconv.ParseInt(row[1], 10, 32)
		t, err2 := record.ParseTopicID(row[2])
		if err1 != nil || err2 != nil || p < 0 {
			return nil, 0, fmt.Errorf("%w: line %q", errCheckpoint, row)
		}
		m[record.PartitionID{Topic: t, Partition: int32(p)}] = row[0]
		size += int64(len(line))
	}
	return m, size, nil
}
