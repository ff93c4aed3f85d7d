package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Codecs are the compressions that Kafka knows, in the order of their numbers in a batch's attributes.
var Codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// Record is what a client sends, or what it read and where.
type Record struct {
	Partition  int32
	Offset     int64
	Key, Value string
	Headers    map[string]string
	Codec      string // of its batch; empty if the reader cannot tell
}

// Job is one round of one client: a topic of its own, written in one codec, then read.
type Job struct {
	Seeds      []string
	Topic      string
	Codec      string
	Partitions int32
	Client     string
	Count      int
	Ends       []int64 // where each partition ends; known once the topic is written
}

// Header names that every record carries. A client that can give all its records only the same headers leaves out the
// second.
const (
	headerClient = "client"
	headerNumber = "n"
)

// Record gives the i-th record of the job. Some keys come back often, so that order within a key means something; values
// compress well and do not look alike.
func (j Job) Record(i int) Record {
	return Record{
		Key:     fmt.Sprintf("key-%03d", i%997),
		Value:   fmt.Sprintf("value %d of %s: %s", i, j.Topic, strings.Repeat(fmt.Sprintf("%x ", i*7919), 10+i%20)),
		Headers: map[string]string{headerClient: j.Client, headerNumber: fmt.Sprint(i)},
	}
}

// Client is one client library or tool under test. Both methods end with ctx.
type Client interface {
	// Name is the row in the table. It holds no comma: headers are written with commas between.
	Name() string
	// Version is the library's, as it tells it itself or as the build pinned it.
	Version(ctx context.Context) (string, error)
	// Traits says what the client cannot do, so that it is not asked.
	Traits() Traits
	// Produce writes the job's records and returns when all are acknowledged.
	Produce(ctx context.Context, j Job) error
	// Consume reads every partition by number, from its start to j.Ends.
	Consume(ctx context.Context, j Job) ([]Record, error)
}

// Traits are the limits of a client.
type Traits struct {
	Codecs       []string // those it has
	SameHeaders  bool     // it gives all records of a run the same headers
	ProducerOnly bool     // it reads only as a member of a group
}

// Checks are the names of what is checked of every round, in the order of the columns.
var Checks = []string{"produce", "codec", "read", "count", "order", "key", "value", "header"}

// Findings maps a check to its fault; a check that is not there holds.
type Findings map[string]error

func (f Findings) add(check string, format string, args ...any) {
	if f[check] == nil {
		f[check] = fmt.Errorf(format, args...)
	}
}

// Compare judges what a reader read. The numbers in the values say which record each is: in a partition they must rise,
// offsets must follow each other, one key must stay in one partition unless the client chose partitions without keys.
func (j Job) Compare(reader string, got []Record, traits Traits) Findings {
	f := Findings{}
	if len(got) != j.Count {
		f.add("count", "%s read %d records, not %d", reader, len(got), j.Count)
	}
	seen := make([]bool, j.Count)
	nextOffset := make(map[int32]int64)
	last := make(map[int32]int)
	home := make(map[string]int32)
	for _, r := range got {
		var i int
		if _, err := fmt.Sscanf(r.Value, "value %d of", &i); err != nil || i < 0 || i >= j.Count {
			f.add("value", "%s read the foreign value %.60q", reader, r.Value)
			continue
		}
		at := fmt.Sprintf("%s, record %d at partition %d offset %d", reader, i, r.Partition, r.Offset)
		if seen[i] {
			f.add("count", "%s: read twice", at)
		}
		seen[i] = true
		want := j.Record(i)
		if r.Value != want.Value {
			f.add("value", "%s: value %.80q, not %.80q", at, r.Value, want.Value)
		}
		if r.Key != want.Key {
			f.add("key", "%s: key %q, not %q", at, r.Key, want.Key)
		}
		if p, ok := home[r.Key]; ok && p != r.Partition {
			f.add("key", "%s: key %q was in partition %d before", at, r.Key, p)
		}
		home[r.Key] = r.Partition
		if err := sameHeaders(r.Headers, want.Headers, traits.SameHeaders); err != nil {
			f.add("header", "%s: %v", at, err)
		}
		if r.Offset != nextOffset[r.Partition] {
			f.add("order", "%s: offset %d was due", at, nextOffset[r.Partition])
		}
		nextOffset[r.Partition] = r.Offset + 1
		if before, ok := last[r.Partition]; ok && i <= before {
			f.add("order", "%s: behind record %d", at, before)
		}
		last[r.Partition] = i
		if r.Codec != "" && r.Codec != j.Codec {
			f.add("codec", "%s: written in %s, not %s", at, r.Codec, j.Codec)
		}
	}
	if missing := slices.Index(seen, false); missing >= 0 {
		f.add("count", "%s did not read record %d", reader, missing)
	}
	return f
}

func sameHeaders(got, want map[string]string, onlyClient bool) error {
	names := []string{headerClient, headerNumber}
	if onlyClient {
		names = names[:1]
	}
	if len(got) != len(names) {
		return fmt.Errorf("headers %v, not %v", got, names)
	}
	for _, n := range names {
		if got[n] != want[n] {
			return fmt.Errorf("header %s is %q, not %q", n, got[n], want[n])
		}
	}
	return nil
}
