package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"cordwood/integration/load"
	"cordwood/logstore"
	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

// batchBytes is the least size of a batch of the log's measures.
const batchBytes = 64 << 10

// fullBatch is a batch of records of 1 KiB, as a producer sends it.
func fullBatch(now time.Time) ([]byte, record.Header, error) {
	records := make([]record.NewRecord, batchBytes/load.RecordBytes)
	for i := range records {
		records[i] = record.NewRecord{Value: make([]byte, load.RecordBytes), Timestamp: now.UnixMilli()}
	}
	b := record.NewBatch(0, records...)
	h, err := record.ParseHeader(b)
	return b, h, err
}

// append measures a log against write(2) of the same bytes.
func (b *bench) append(context.Context) error {
	batch, header, err := fullBatch(time.Now())
	if err != nil {
		return err
	}
	var pairs []pair
	for range b.rounds {
		var p pair
		if p.yardstick, err = b.plainWrites(batch); err != nil {
			return err
		}
		if p.figure, err = b.appends(batch, &header); err != nil {
			return err
		}
		pairs = append(pairs, p)
	}
	b.table.atLeast("append to a log, 64 KiB batches / write(2)", median(pairs), 0.6)
	return nil
}

// touchMemory fills and frees as much page cache as the largest measure will use. In a virtual machine the first touch of
// a page may cost many times a write, because the host has to find it; no measure shall pay for that.
func (b *bench) touchMemory() error {
	const replicas = 3
	batch, _, err := fullBatch(time.Now())
	if err != nil {
		return err
	}
	name := filepath.Join(b.dir, "touch")
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer os.Remove(name)
	defer f.Close()
	for n := int64(0); n < b.bytes*int64(b.rounds)*replicas; n += int64(len(batch)) {
		if _, err := f.Write(batch); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) plainWrites(batch []byte) (float64, error) {
	name := filepath.Join(b.dir, "plain")
	f, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	defer os.Remove(name)
	defer f.Close()
	start := time.Now()
	var n int64
	for n < b.bytes {
		m, err := f.Write(batch)
		if err != nil {
			return 0, err
		}
		n += int64(m)
	}
	return load.Result{Bytes: n, Took: time.Since(start)}.MBs(), nil
}

func (b *bench) appends(batch []byte, header *record.Header) (float64, error) {
	name := filepath.Join(b.dir, "append")
	defer os.RemoveAll(name)
	dir, err := logstore.OpenDir(vfs.OS{}, name, logstore.DirOptions{NodeID: 1})
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	log, err := dir.Create("bench", record.PartitionID{Topic: record.TopicID{1}}, logstore.DefaultLogConfig())
	if err != nil {
		return 0, err
	}
	start := time.Now()
	var n int64
	for n < b.bytes {
		if _, err := log.Append(batch, header, 0, false); err != nil {
			return 0, err
		}
		n += int64(len(batch))
	}
	return load.Result{Bytes: n, Took: time.Since(start)}.MBs(), nil
}
