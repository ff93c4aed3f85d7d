package logstore

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

// benchBatch is 64 KiB of 1 KiB records.
func benchBatch() ([]byte, record.Header) { return batchOf(63, 1024, 1_700_000_000_000) }

// BenchmarkAppend appends batches of 64 KiB; beside it stands BenchmarkPlainWrite of the same bytes.
func BenchmarkAppend(b *testing.B) {
	dir, err := OpenDir(vfs.OS{}, b.TempDir(), DirOptions{NodeID: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer dir.Close()
	l, err := dir.Create("t", testID(0), DefaultLogConfig())
	if err != nil {
		b.Fatal(err)
	}
	batch, h := benchBatch()
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Append(batch, &h, 1, false); err != nil {
			b.Fatal(err)
		}
		if l.EndOffset() > 1<<20 { // keep the disk small
			b.StopTimer()
			if err := l.Reset(0, 1); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	}
}

// BenchmarkPlainWrite is the yardstick: write(2) of the same bytes one after another.
func BenchmarkPlainWrite(b *testing.B) {
	name := filepath.Join(b.TempDir(), "plain")
	f, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { f.Close() }()
	batch, _ := benchBatch()
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if _, err := f.Write(batch); err != nil {
			b.Fatal(err)
		}
		if n++; n%(1<<20/63) == 0 {
			b.StopTimer()
			f.Close()
			if err := os.Remove(name); err != nil {
				b.Fatal(err)
			}
			if f, err = os.Create(name); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	}
}

// BenchmarkAppendReplica appends answers of 1 MiB as a follower does.
func BenchmarkAppendReplica(b *testing.B) {
	dir, err := OpenDir(vfs.OS{}, b.TempDir(), DirOptions{NodeID: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer dir.Close()
	l, err := dir.Create("t", testID(0), DefaultLogConfig())
	if err != nil {
		b.Fatal(err)
	}
	one, _ := benchBatch()
	var answer []byte
	for range 16 {
		answer = append(answer, one...)
	}
	b.SetBytes(int64(len(answer)))
	b.ReportAllocs()
	for b.Loop() {
		for at := 0; at < len(answer); at += len(one) {
			record.SetOffset(answer[at:], l.EndOffset()+int64(at/len(one)*63), 1)
		}
		if _, err := l.AppendReplica(answer, 1); err != nil {
			b.Fatal(err)
		}
		if l.EndOffset() > 1<<20 {
			b.StopTimer()
			if err := l.Reset(0, 1); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	}
}

// BenchmarkRead looks ranges up, at the tail and anywhere, without reading their bytes.
func BenchmarkRead(b *testing.B) {
	dir, err := OpenDir(vfs.OS{}, b.TempDir(), DirOptions{NodeID: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer dir.Close()
	cfg := DefaultLogConfig()
	cfg.SegmentBytes = 16 << 20
	l, err := dir.Create("t", testID(0), cfg)
	if err != nil {
		b.Fatal(err)
	}
	batch, h := batchOf(10, 100, 1_700_000_000_000)
	for range 40_000 {
		if _, err := l.Append(batch, &h, 1, false); err != nil {
			b.Fatal(err)
		}
	}
	for name, at := range map[string]func(i int64) int64{
		"tail":     func(int64) int64 { return l.EndOffset() - 15 },
		"anywhere": func(i int64) int64 { return i * 7919 % l.EndOffset() },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := int64(0); b.Loop(); i++ {
				info, err := l.Read(at(i), 1<<20, l.EndOffset(), true)
				if err != nil {
					b.Fatal(err)
				}
				for _, s := range info.Spans {
					s.Release()
				}
			}
		})
	}
}

// BenchmarkCreate makes empty logs, as a topic of many partitions does, and prints what an idle one weighs.
func BenchmarkCreate(b *testing.B) {
	dir, err := OpenDir(vfs.OS{}, b.TempDir(), DirOptions{NodeID: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer dir.Close()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := dir.Create("t", testID(int32(i)), DefaultLogConfig()); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleDefaultLogConfig() {
	c := DefaultLogConfig()
	fmt.Println(c.SegmentBytes, c.RetentionMS, c.IndexIntervalBytes)
	// Output: 1073741824 604800000 4096
}
