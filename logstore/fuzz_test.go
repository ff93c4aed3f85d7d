package logstore

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

// seedFiles gives a fuzz target every file of the Kafka-written directories whose name ends with suffix.
func seedFiles(f *testing.F, suffix string) {
	f.Helper()
	err := filepath.Walk(kafkaLogs, func(p string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() || !strings.HasSuffix(p, suffix) {
			return err
		}
		b, err := os.ReadFile(p)
		if err == nil && len(b) <= 8<<10 {
			f.Add(b)
		}
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{})
}

func FuzzIndex(f *testing.F) {
	seedFiles(f, indexSuffix)
	f.Fuzz(func(t *testing.T, b []byte) {
		es, ok := decodeIndex(b)
		if enc := encodeIndex(es); !bytes.HasPrefix(b, enc) || ok && !isZero(b[len(enc):]) && len(b)%indexEntrySize == 0 && !bytes.HasPrefix(b[len(enc):], make([]byte, indexEntrySize)) {
			t.Fatalf("%x read as %v", b, es)
		}
		for _, e := range es {
			if got, found := floorEntry(es, e.rel); !found || got != e {
				t.Fatalf("floor of %d is %v", e.rel, got)
			}
			got, found, err := floorEntryFile(bytes.NewReader(b), int64(len(encodeIndex(es))), e.rel)
			if err != nil || !found || got != e {
				t.Fatalf("floor of %d by reads is %v, %v", e.rel, got, err)
			}
		}
		if _, _, err := floorEntryFile(bytes.NewReader(b), int64(len(b)), 77); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzTimeIndex(f *testing.F) {
	seedFiles(f, timeSuffix)
	f.Fuzz(func(t *testing.T, b []byte) {
		es, _ := decodeTimeIndex(b)
		if !bytes.HasPrefix(b, encodeTimeIndex(es)) {
			t.Fatalf("%x read as %v", b, es)
		}
		for i, e := range es {
			if got, found := floorTime(es, e.ts); found != (i > 0) || found && got != es[i-1] {
				t.Fatalf("floor below %d is %v", e.ts, got)
			}
		}
	})
}

func FuzzTxnIndex(f *testing.F) {
	seedFiles(f, txnSuffix)
	f.Fuzz(func(t *testing.T, b []byte) {
		txns, err := decodeTxnIndex(b, 0, 1<<62)
		if err == nil && !bytes.Equal(encodeTxnIndex(txns), b) {
			t.Fatalf("%x read as %v", b, txns)
		}
	})
}

func FuzzSnapshot(f *testing.F) {
	seedFiles(f, snapshotSuffix)
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeSnapshot(b, 1<<62)
		if err != nil {
			return
		}
		again, err := decodeSnapshot(encodeSnapshot(s), 1<<62)
		if err != nil || len(again.byID) != len(s.byID) || len(again.open) != len(s.open) {
			t.Fatalf("%d producers, again %v: %v", len(s.byID), again, err)
		}
	})
}

func FuzzEpochs(f *testing.F) {
	seedFiles(f, epochFile)
	f.Fuzz(func(t *testing.T, b []byte) {
		es, err := decodeEpochs(b)
		if err != nil {
			return
		}
		again, err := decodeEpochs(encodeEpochs(es))
		if err != nil || len(again) != len(es) {
			t.Fatalf("%v, again %v: %v", es, again, err)
		}
		for i, e := range es {
			if es.at(e.start) != e.epoch || i > 0 && es.at(e.start-1) != es[i-1].epoch {
				t.Fatalf("%v: epoch at %d is %d", es, e.start, es.at(e.start))
			}
		}
	})
}

func FuzzCheckpoints(f *testing.F) {
	for _, name := range []string{startFile, flushedFile, hwFile, cleanerFile} {
		seedFiles(f, name)
	}
	f.Add(encodeHints([]hint{{topic: "t", id: testID(3), hw: 7, flushed: 5, generation: 2}}))
	f.Add(append([]byte(hostedHeader), encodeHosted([]hostedEntry{{"t", testID(3)}})...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := decodeOffsets(b); err == nil {
			for tp, o := range m {
				again, err := decodeOffsets(encodeOffsets([]offsetRow{{tp, o}}))
				if err != nil || again[tp] != o {
					t.Fatalf("%v %d, again %v: %v", tp, o, again, err)
				}
			}
		}
		if m, err := decodeHints(b); err == nil {
			for id, h := range m {
				again, err := decodeHints(encodeHints([]hint{h}))
				if err != nil || again[id] != h {
					t.Fatalf("%+v, again %+v: %v", h, again, err)
				}
			}
		}
		if m, size, err := decodeHosted(b); err == nil {
			lines := append([]byte(hostedHeader), encodeHosted(sortedHosted(m))...)
			again, n, err := decodeHosted(lines)
			if err != nil || len(again) != len(m) || size > int64(len(b)) || n != int64(len(lines)) {
				t.Fatalf("%v, again %v: %v", m, again, err)
			}
		}
	})
}

func FuzzProperties(f *testing.F) {
	seedFiles(f, metaFile)
	seedFiles(f, partitionFile)
	f.Add(encodeState(logState{start: 4, startEpoch: -1, generation: 2, hw: 3}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := decodeMeta(b); err == nil {
			if again, err := decodeMeta(encodeMeta(m)); err != nil || again != m {
				t.Fatalf("%+v, again %+v: %v", m, again, err)
			}
		}
		if id, err := decodePartitionMetadata(b); err == nil {
			if again, err := decodePartitionMetadata(encodePartitionMetadata(id)); err != nil || again != id {
				t.Fatalf("%v, again %v: %v", id, again, err)
			}
		}
		if s, err := decodeState(b); err == nil {
			if again, err := decodeState(encodeState(s)); err != nil || again != s {
				t.Fatalf("%+v, again %+v: %v", s, again, err)
			}
		}
		if tp, ok := parseDirName(string(b)); ok && tp.dirName() != string(b) {
			t.Fatalf("%q read as %v", b, tp)
		}
	})
}

func FuzzSession(f *testing.F) {
	good, err := encodeSession(session{Version: 1, DirectoryID: "d", Incarnations: []incarnation{{"a", "b"}}, Clean: true,
		Logs: []sessionLog{{Topic: "t", TopicID: testTopic, End: 3, Size: 100}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeSession(b)
		if err != nil {
			return
		}
		next, told := begin(s, "new", "boot")
		if len(next.Incarnations) > incarnationsMax || next.Incarnations[0].ID != "new" || next.Clean || told.Incarnation != "new" {
			t.Fatalf("%+v, told %+v", next, told)
		}
		b2, err := encodeSession(next)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeSession(b2); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzOpen puts any bytes where a segment should be: whatever they are, the log opens with a prefix of whole sound batches
// and takes more.
func FuzzOpen(f *testing.F) {
	seedFiles(f, logSuffix)
	f.Fuzz(func(t *testing.T, b []byte) {
		b = signed(b)
		d := newTestDir(t)
		if err := d.mem.MkdirAll("data/t-0"); err != nil {
			t.Fatal(err)
		}
		rewrite(t, d.mem, "data/t-0/"+partitionFile, encodePartitionMetadata(testTopic))
		rewrite(t, d.mem, "data/t-0/"+segmentName(0)+logSuffix, b)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		d.open()
		l := d.openAll(LossyMedia, testConfig())[0]
		got := readAllLoose(t, l)
		if !bytes.HasPrefix(b, got) {
			t.Fatalf("%d bytes read that were not there", len(got))
		}
		if l.EndOffset() > 1<<61 || l.LastEpoch() == 1<<31-1 {
			return // no room for more
		}
		one, h := batchOf(1, 10, 5)
		epoch := max(l.LastEpoch(), 0)
		if _, err := l.Append(one, &h, epoch, false); err != nil {
			t.Fatalf("append at %d: %v", l.EndOffset(), err)
		}
		// What was kept is what the next start finds.
		end := l.EndOffset()
		if l = d.reopen(vfs.CrashKeep, 0, ProcessCrash, testConfig())[0]; l.EndOffset() != end {
			t.Fatalf("end %d after a restart, was %d", l.EndOffset(), end)
		}
	})
}

// signed gives the batches that b seems to hold a good checksum, so that what lies behind that check is met too.
func signed(b []byte) []byte {
	b = bytes.Clone(b)
	for at := 0; at < len(b); {
		h, err := record.ParseHeader(b[at:])
		if err != nil || h.Size() > int64(len(b)-at) || h.HasLogAppendTime() {
			break
		}
		record.SetMaxTimestamp(b[at:], false, h.MaxTimestamp)
		at += int(h.Size())
	}
	return b
}

// readAllLoose reads what Read gives from the log start, without a look at offsets: foreign batches may skip some.
func readAllLoose(t testing.TB, l *Log) []byte {
	t.Helper()
	var out []byte
	for from := l.StartOffset(); from < l.EndOffset(); {
		info, err := l.Read(from, 1<<30, l.EndOffset(), true)
		if err != nil {
			t.Fatal(err)
		}
		if len(info.Spans) == 0 {
			return out
		}
		b := make([]byte, info.Bytes)
		if err := readFull(info.Spans[0].Src, b, info.Spans[0].Off); err != nil {
			t.Fatal(err)
		}
		info.Spans[0].Release()
		out = append(out, b...)
		for len(b) > 0 {
			h, err := record.ParseHeader(b)
			if err != nil {
				t.Fatal(err)
			}
			from = h.EndOffset()
			b = b[h.Size():]
		}
	}
	return out
}
