package logstore

import (
	"errors"
	"flag"

	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

var update = flag.Bool("update", false, "write testdata/dir-1 anew")

// goldenDir is a data directory as the first format left it, killed: every later commit opens it.
const goldenDir = "testdata/dir-1"

// writeGolden makes the directory: two partitions, several segments, epochs, a producer, a raised start, an applied loss.
func writeGolden(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(goldenDir); err != nil {
		t.Fatal(err)
	}
	now := time.UnixMilli(1_700_000_000_000)
	dir, err := OpenDir(vfs.OS{}, goldenDir, DirOptions{NodeID: 1, BootID: "boot", Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.SetClusterID("AAAAAAAAQACAAAAAAAAAAQ"); err != nil {
		t.Fatal(err)
	}
	l, err := dir.Create("golden", testID(0), testConfig())
	if err != nil {
		t.Fatal(err)
	}
	for epoch := int32(1); epoch <= 3; epoch++ {
		if err := l.BecomeLeader(epoch); err != nil {
			t.Fatal(err)
		}
		appendN(t, l, epoch, 6)
	}
	b, h := batchOf(2, 30, 1_700_000_000_500)
	h.ProducerID, h.ProducerEpoch, h.BaseSequence = 9, 2, 0
	b = record.AppendBatch(nil, h, b[record.HeaderSize:])
	if h, err = record.ParseHeader(b); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(b, &h, 3, false); err != nil {
		t.Fatal(err)
	}
	if err := l.SetLoss(2, 10); err != nil {
		t.Fatal(err)
	}
	l.SetHighWatermark(30)
	if err := l.RaiseStart(15); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Create("golden", testID(1), testConfig()); err != nil {
		t.Fatal(err)
	}
	if err := dir.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	dir.Tick(now.Add(time.Hour)) // the retired files go
	if err := dir.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestGoldenDirectoryOfTheFirstFormatOpens(t *testing.T) {
	if *update {
		writeGolden(t)
	}
	d := kafkaDir(t, goldenDir, "")
	if d.ClusterID() != "AAAAAAAAQACAAAAAAAAAAQ" || len(d.Session().Earlier) != 1 {
		t.Fatalf("cluster %q, session %+v", d.ClusterID(), d.Session())
	}
	logs := d.openAll(ProcessCrash, testConfig())
	if len(logs) != 2 {
		t.Fatalf("%d logs", len(logs))
	}
	l := logs[0]
	if start, epoch := l.Start(); start != 15 || epoch != 2 || l.EndOffset() != 38 || l.HighWatermark() != 30 || l.AppliedLoss() != 2 {
		t.Fatalf("start %d epoch %d, end %d, high watermark %d, loss %d", start, epoch, l.EndOffset(), l.HighWatermark(), l.AppliedLoss())
	}
	if got := *l.epochs.Load(); !slices.Equal(got, epochs{{2, 15}, {3, 24}}) {
		t.Fatalf("epochs %v", got)
	}
	if p := l.Producers(); len(p) != 1 || p[0] != (ProducerInfo{ProducerID: 9, Epoch: 2, LastSequence: 1, LastTimestamp: 1_700_000_000_500, CoordinatorEpoch: -1, TxnStartOffset: -1}) {
		t.Fatalf("producers %+v", p)
	}
	readAll(t, l, 15, 38, 1<<20)
	if logs[1].EndOffset() != 0 {
		t.Fatalf("second log ends at %d", logs[1].EndOffset())
	}
}

func TestLog_BrokenBytesFoundByAReadMakeItDamaged(t *testing.T) {
	d := newTestDir(t)
	var told string
	d.opt.OnDamage = func(_ *Log, reason string) { told = reason }
	cfg := testConfig()
	l := d.create(0, cfg)
	appendN(t, l, 1, 20)
	f, err := d.mem.OpenReadWrite("data/t-0/" + segmentName(0) + logSuffix)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 40), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Read(1, 10, 40, true); !isDamaged(err) {
		t.Fatalf("read: %v", err)
	}
	if _, damaged := l.Damaged(); !damaged || told == "" {
		t.Fatalf("damaged %v, told %q", damaged, told)
	}
	b, h := batchOf(1, 10, 0)
	if _, err := l.Append(b, &h, 1, false); !isDamaged(err) {
		t.Fatalf("append: %v", err)
	}
	// The leader's batches are taken, and the log is whole again when its owner says so.
	if err := l.Truncate(0); err != nil {
		t.Fatal(err)
	}
	record.SetOffset(b, 0, 1)
	if _, err := l.AppendReplica(b, 1); err != nil {
		t.Fatal(err)
	}
	l.Repaired()
	if _, err := l.Append(b, &h, 1, false); err != nil {
		t.Fatal(err)
	}
}

func TestDir_MakingOfALogThatWasInterruptedIsFinished(t *testing.T) {
	d := newTestDir(t)
	if err := d.Host("t", testID(0), testID(1)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"data/t-0", "data/t-1"} {
		if err := d.mem.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	rewrite(t, d.mem, "data/t-0/"+segmentName(0)+logSuffix, nil)
	logs := d.reopen(vfs.CrashKeep, 1, ProcessCrash, testConfig())
	if len(logs) != 2 {
		t.Fatalf("%d logs", len(logs))
	}
	appendN(t, logs[0], 1, 3)
	logs = d.reopen(vfs.CrashKeep, 1, ProcessCrash, testConfig())
	if len(logs) != 2 || logs[0].EndOffset() != 6 || logs[1].ID() != testID(1) {
		t.Fatalf("%d logs, end %d", len(logs), logs[0].EndOffset())
	}
	// And Create makes its way over such a directory, but over no other.
	if err := d.mem.MkdirAll("data/t-2"); err != nil {
		t.Fatal(err)
	}
	d.create(2, testConfig())
	other := testID(0)
	other.Topic[0] = 77
	if _, err := d.Create("t", other, testConfig()); err == nil {
		t.Fatal("made a log over another one")
	}
}

func TestKafkaSwapFilesAreLeftToKafka(t *testing.T) {
	b := buildLog(t, true)
	rewrite(t, b.mem, b.file(0, logSuffix)+swapSuffix, []byte("x"))
	d := &testDir{t: t, mem: b.mem, now: newTestDir(t).now}
	d.open()
	in, err := d.Inspect(t.Context(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(in.Logs) != 0 || len(in.Unknown) != 1 || in.Clean {
		t.Fatalf("%d logs, unknown %v", len(in.Logs), in.Unknown)
	}
}

// TestIdleLogWeighsLittle bounds what a log that got one batch and rests costs in memory.
func TestIdleLogWeighsLittle(t *testing.T) {
	dir, err := OpenDir(vfs.OS{}, t.TempDir(), DirOptions{NodeID: 1})
	if err != nil {
		t.Fatal(err)
	}
	const logs = 200
	before := heapBytes()
	for i := range int32(logs) {
		l, err := dir.Create("t", testID(i), DefaultLogConfig())
		if err != nil {
			t.Fatal(err)
		}
		appendN(t, l, 1, 1)
	}
	each := (int64(heapBytes()) - int64(before)) / logs
	t.Logf("%d bytes each", each)
	if each < 500 || each > 8<<10 {
		t.Fatalf("an idle log weighs %d bytes", each)
	}
	if err := dir.Close(); err != nil {
		t.Fatal(err)
	}
}

func heapBytes() uint64 {
	for range 3 { // pools need more than one
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func isDamaged(err error) bool { return errors.Is(err, record.ErrDamaged) }

// exists keeps the golden directory from being lost with a clean-up of the tree.
func TestGoldenDirectoryIsThere(t *testing.T) {
	if _, err := os.Stat(filepath.Join(goldenDir, sessionFile)); err != nil {
		t.Fatal(err)
	}
}
