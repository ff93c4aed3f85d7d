package logstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

// testDir is a log directory on a memory disk, with a clock the test moves.
type testDir struct {
	*Dir
	t      testing.TB
	mem    *vfs.Mem
	fs     vfs.FS // what the directory sees, where it is not mem itself
	uptime func() time.Duration
	wall   func() time.Time
	now    time.Time
}

var testTopic = record.TopicID{1, 2, 3, 4, 5, 6, 0x47, 8, 0x89, 10, 11, 12, 13, 14, 15, 16}

func testID(p int32) record.PartitionID { return record.PartitionID{Topic: testTopic, Partition: p} }

func testConfig() LogConfig {
	c := DefaultLogConfig()
	c.SegmentBytes, c.IndexIntervalBytes = 1000, 200
	return c
}

func newTestDir(t testing.TB) *testDir {
	d := &testDir{t: t, now: time.UnixMilli(1_700_000_000_000)}
	d.mem = vfs.NewMem(func() time.Time { return d.now })
	d.open()
	return d
}

func (d *testDir) options() DirOptions {
	return DirOptions{NodeID: 1, BootID: "boot", Now: func() time.Time { return d.now }, Uptime: d.uptime, Wall: d.wall}
}

func (d *testDir) open() {
	d.t.Helper()
	fsys := d.fs
	if fsys == nil {
		fsys = d.mem
	}
	dir, err := OpenDir(fsys, "data", d.options())
	if err != nil {
		d.t.Fatal(err)
	}
	d.Dir = dir
}

// reopen crashes the disk in the given way and opens every log as class says.
func (d *testDir) reopen(mode vfs.CrashMode, seed uint64, class RestartClass, cfg LogConfig) []*Log {
	d.t.Helper()
	d.mem = d.mem.Crash(mode, seed)
	d.open()
	return d.openAll(class, cfg)
}

func (d *testDir) openAll(class RestartClass, cfg LogConfig) []*Log {
	d.t.Helper()
	in, err := d.Inspect(context.Background(), 2, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	var logs []*Log
	for _, f := range in.Logs {
		j := f.Judge(class, cfg.Disk)
		if j.Damaged {
			d.t.Fatalf("%s-%d: damaged: %s", f.Topic, f.ID.Partition, j.Reason)
		}
		l, err := f.Open(cfg, j)
		if err != nil {
			d.t.Fatal(err)
		}
		logs = append(logs, l)
	}
	return logs
}

func (d *testDir) create(p int32, cfg LogConfig) *Log {
	d.t.Helper()
	l, err := d.Create("t", testID(p), cfg)
	if err != nil {
		d.t.Fatal(err)
	}
	return l
}

// batchOf makes a batch of n records of size bytes at time ts, as a client sends it.
func batchOf(n, size int, ts int64) ([]byte, record.Header) {
	recs := make([]record.NewRecord, n)
	for i := range recs {
		recs[i] = record.NewRecord{Value: make([]byte, size), Timestamp: ts}
	}
	b := record.NewBatch(0, recs...)
	h, err := record.ParseHeader(b)
	if err != nil {
		panic(err)
	}
	return b, h
}

func appendN(t testing.TB, l *Log, epoch int32, batches int) {
	t.Helper()
	for range batches {
		b, h := batchOf(2, 50, 1_700_000_000_000+l.EndOffset())
		if _, err := l.Append(b, &h, epoch, false); err != nil {
			t.Fatal(err)
		}
	}
}

// readAll reads the log from its start in ranges of at most limit bytes.
func readAll(t testing.TB, l *Log, from, bound int64, limit int32) []byte {
	t.Helper()
	var out []byte
	for from < bound {
		info, err := l.Read(from, limit, bound, true)
		if err != nil {
			t.Fatalf("read at %d: %v", from, err)
		}
		var got []byte
		for _, s := range info.Spans {
			b := make([]byte, s.Len)
			if err := readFull(s.Src, b, s.Off); err != nil {
				t.Fatalf("read span at %d: %v", from, err)
			}
			s.Release()
			got = append(got, b...)
		}
		n := 0
		for n < len(got) {
			h, err := record.ParseHeader(got[n:])
			if err != nil || h.Size() > int64(len(got)-n) {
				break
			}
			if err := record.Verify(&h, got[n:]); err != nil {
				t.Fatalf("batch at %d: %v", h.BaseOffset, err)
			}
			n += int(h.Size())
			from = h.EndOffset()
		}
		if n == 0 {
			t.Fatalf("read at %d below %d gave %d bytes and no batch", from, bound, len(got))
		}
		out = append(out, got[:n]...)
	}
	return out
}

func TestLog_AppendedBatchesAreReadBackAndSurviveACleanRestart(t *testing.T) {
	d := newTestDir(t)
	cfg := testConfig()
	l := d.create(0, cfg)
	if err := l.BecomeLeader(3); err != nil {
		t.Fatal(err)
	}
	appendN(t, l, 3, 40)
	if l.EndOffset() != 80 || l.Segments() < 3 {
		t.Fatalf("end %d, %d segments", l.EndOffset(), l.Segments())
	}
	want := readAll(t, l, 0, l.EndOffset(), 300)
	l.SetHighWatermark(80)
	if err := d.CloseClean(context.Background()); err != nil {
		t.Fatal(err)
	}
	l = d.reopen(vfs.CrashLose, 1, Clean, cfg)[0]
	if got := readAll(t, l, 0, 80, 1<<20); string(got) != string(want) {
		t.Fatal("other bytes after the restart")
	}
	if l.HighWatermark() != 80 || l.LastEpoch() != 3 || l.FlushedOffset() != 80 {
		t.Fatalf("hw %d, epoch %d, flushed %d", l.HighWatermark(), l.LastEpoch(), l.FlushedOffset())
	}
	if s := d.Session(); !s.CleanFlag || len(s.Earlier) != 1 || !s.Earlier[0].SameBoot {
		t.Fatalf("session %+v", s)
	}
}

func TestLog_KilledProcessLosesNothing(t *testing.T) {
	d := newTestDir(t)
	cfg := testConfig()
	l := d.create(0, cfg)
	appendN(t, l, 1, 25)
	want := readAll(t, l, 0, 50, 1<<20)
	l = d.reopen(vfs.CrashKeep, 1, ProcessCrash, cfg)[0]
	if got := readAll(t, l, 0, 50, 1<<20); string(got) != string(want) {
		t.Fatal("other bytes after the crash")
	}
	if d.Session().CleanFlag {
		t.Fatal("a crash counts as clean")
	}
	appendN(t, l, 2, 5)
	if l.EpochAt(49) != 1 || l.EpochAt(50) != 2 {
		t.Fatalf("epochs %d, %d", l.EpochAt(49), l.EpochAt(50))
	}
}

func TestLog_TruncateLeavesTheBytesOfASpanAlone(t *testing.T) {
	d := newTestDir(t)
	l := d.create(0, testConfig())
	appendN(t, l, 1, 20)
	for _, end := range []int64{33, 12, 5} { // in the active segment, then in sealed ones
		from := max(end-8, 0)
		info, err := l.Read(from, 1<<20, l.EndOffset(), true)
		if err != nil {
			t.Fatal(err)
		}
		s := info.Spans[0]
		before := make([]byte, s.Len)
		if err := readFull(s.Src, before, s.Off); err != nil {
			t.Fatal(err)
		}
		if err := l.Truncate(end); err != nil {
			t.Fatal(err)
		}
		if got := l.EndOffset(); got != end&^1 {
			t.Fatalf("end %d after a cut to %d", got, end)
		}
		appendN(t, l, 2, 10)
		after := make([]byte, s.Len)
		if err := readFull(s.Src, after, s.Off); err != nil {
			t.Fatal(err)
		}
		if string(before) != string(after) {
			t.Fatalf("bytes of a span changed by a cut to %d", end)
		}
		s.Release()
		readAll(t, l, 0, l.EndOffset(), 1<<20)
	}
}

func TestLog_ReadStaysWithinItsBounds(t *testing.T) {
	d := newTestDir(t)
	l := d.create(0, testConfig())
	appendN(t, l, 1, 10)
	if _, err := l.Read(21, 100, 20, true); !errors.Is(err, record.ErrOffsetOutOfRange) {
		t.Fatalf("above the end: %v", err)
	}
	info, err := l.Read(20, 100, 20, true)
	if err != nil || len(info.Spans) != 0 {
		t.Fatalf("at the end: %v, %v", info, err)
	}
	info, err = l.Read(3, 1, 20, false)
	if err != nil || info.Bytes != 0 {
		t.Fatalf("limit below a batch: %v, %v", info, err)
	}
	if got := readAll(t, l, 0, 10, 1<<20); len(got) == 0 {
		t.Fatal("nothing below the bound")
	}
}
