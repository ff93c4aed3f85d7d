package logstore

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

func TestOpenDir_RefusesWhatIsNotItsOwn(t *testing.T) {
	d := newTestDir(t)
	if _, err := OpenDir(d.mem, "data", d.options()); !errors.Is(err, vfs.ErrLocked) {
		t.Fatalf("a second holder: %v", err)
	}
	if err := d.SetClusterID("one"); err != nil {
		t.Fatal(err)
	}
	if err := d.SetClusterID("two"); !errors.Is(err, ErrForeignDir) || !strings.Contains(err.Error(), "one") {
		t.Fatalf("another cluster: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	opt := d.options()
	opt.NodeID = 2
	if _, err := OpenDir(d.mem, "data", opt); !errors.Is(err, ErrForeignDir) || !strings.Contains(err.Error(), "node 1") {
		t.Fatalf("another node: %v", err)
	}
	d.open()
	if d.ClusterID() != "one" {
		t.Fatalf("cluster %q", d.ClusterID())
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	rewrite(t, d.mem, "data/"+hintsFile, []byte("7\n"))
	if _, err := OpenDir(d.mem, "data", d.options()); !errors.Is(err, ErrUnknownFormat) || !strings.Contains(err.Error(), hintsFile) {
		t.Fatalf("a file of a later version: %v", err)
	}
}

func TestSession_ListsEveryStartBackToTheLastRegistration(t *testing.T) {
	d := newTestDir(t)
	first := d.Session()
	if len(first.Earlier) != 0 || first.CleanFlag || !first.BootKnown {
		t.Fatalf("first start: %+v", first)
	}
	// Two starts that never registered, the second after the machine was started anew.
	ids := []string{first.Incarnation}
	opt := d.options()
	for _, boot := range []string{"boot", "other boot"} {
		d.mem = d.mem.Crash(vfs.CrashLose, 1)
		opt.BootID = boot
		dir, err := OpenDir(d.mem, "data", opt)
		if err != nil {
			t.Fatal(err)
		}
		d.Dir = dir
		ids = append([]string{dir.Session().Incarnation}, ids...)
	}
	s := d.Session()
	if s.DirectoryID != first.DirectoryID || len(s.Earlier) != 2 {
		t.Fatalf("third start: %+v", s)
	}
	for i, e := range s.Earlier {
		if e.ID != ids[i+1] || e.SameBoot {
			t.Fatalf("earlier %d: %+v, want %s of another boot", i, e, ids[i+1])
		}
	}
	if err := d.Registered(); err != nil {
		t.Fatal(err)
	}
	d.mem = d.mem.Crash(vfs.CrashLose, 2)
	dir, err := OpenDir(d.mem, "data", opt)
	if err != nil {
		t.Fatal(err)
	}
	if s := dir.Session(); len(s.Earlier) != 1 || s.Earlier[0].ID != ids[0] || !s.Earlier[0].SameBoot {
		t.Fatalf("after a registration: %+v", s)
	}
}

func TestSession_BootThatCannotBeReadIsNeverTheSame(t *testing.T) {
	d := newTestDir(t)
	for range 2 {
		d.mem = d.mem.Crash(vfs.CrashLose, 1)
		opt := d.options()
		opt.BootID = ""
		dir, err := OpenDir(d.mem, "data", opt)
		if err != nil {
			t.Fatal(err)
		}
		if s := dir.Session(); s.BootKnown || s.Earlier[0].SameBoot {
			t.Fatalf("%+v", s)
		}
	}
}

func TestDir_DeletedLogIsGoneAfterItsDelayAndItsNameIsFree(t *testing.T) {
	d := newTestDir(t)
	cfg := testConfig()
	l := d.create(0, cfg)
	appendN(t, l, 1, 5)
	l.SetHighWatermark(10)
	if err := d.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if err := d.Delete(l); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Read(0, 100, 10, true); !errors.Is(err, record.ErrClosed) {
		t.Fatalf("read of a deleted log: %v", err)
	}
	gone := "data/t-0." + testTopic.String() + deleteSuffix
	if _, err := d.mem.Stat(gone); err != nil {
		t.Fatal(err)
	}
	// The same name in another life: no claim of the old one counts.
	id := testID(0)
	id.Topic[0] = 99
	if _, err := d.Create("t", id, cfg); err != nil {
		t.Fatal(err)
	}
	d.now = d.now.Add(time.Duration(cfg.FileDeleteDelayMS+1) * time.Millisecond)
	d.Tick(d.now)
	if _, err := d.mem.Stat(gone); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("after the delay: %v", err)
	}
	logs := d.reopen(vfs.CrashLose, 1, LossyPower, cfg)
	if len(logs) != 1 || logs[0].ID() != id || logs[0].EndOffset() != 0 {
		t.Fatalf("%d logs", len(logs))
	}
	if in, err := d.Inspect(context.Background(), 1, nil); err != nil || len(in.MissingHosted) != 1 || in.MissingHosted[0] != testID(0) {
		t.Fatalf("the entry of the deleted one is still there, for the metadata to answer for: %v, %v", in.MissingHosted, err)
	}
	d.Unhost(testID(0))
	if err := d.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	d.mem = d.mem.Crash(vfs.CrashLose, 1)
	d.open()
	if in, err := d.Inspect(context.Background(), 1, nil); err != nil || len(in.MissingHosted) != 0 {
		t.Fatalf("missing %v, %v", in.MissingHosted, err)
	}
}

func TestDir_StrayDirectoryIsSetAside(t *testing.T) {
	d := newTestDir(t)
	appendN(t, d.create(0, testConfig()), 1, 5)
	d.mem = d.mem.Crash(vfs.CrashKeep, 1)
	d.open()
	in, err := d.Inspect(context.Background(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Logs[0].Park(); err != nil {
		t.Fatal(err)
	}
	d.mem = d.mem.Crash(vfs.CrashLose, 1)
	if _, err := d.mem.Stat("data/t-0." + testTopic.String() + straySuffix); err != nil {
		t.Fatal(err)
	}
	d.open()
	if in, err := d.Inspect(context.Background(), 1, nil); err != nil || len(in.Logs) != 0 {
		t.Fatalf("%d logs, %v", len(in.Logs), err)
	}
}

// TestDir_DirectoriesOfOthersAreLeftAloneAndSpoilNoCleanStart: somebody's directory may look like a partition's. One of
// ours that lost its partition.metadata is another matter.
func TestDir_DirectoriesOfOthersAreLeftAloneAndSpoilNoCleanStart(t *testing.T) {
	d := newTestDir(t)
	appendN(t, d.create(0, testConfig()), 1, 5)
	if err := d.mem.MkdirAll("data/x-0"); err != nil {
		t.Fatal(err)
	}
	rewrite(t, d.mem, "data/x-0/notes", []byte("mine"))
	for range 2 {
		if err := d.CloseClean(context.Background()); err != nil {
			t.Fatal(err)
		}
		d.open()
		in, err := d.Inspect(context.Background(), 2, nil)
		if err != nil || !in.Clean || len(in.Logs) != 1 || len(in.Unknown) != 1 || !strings.Contains(in.Unknown[0], "x-0") {
			t.Fatalf("clean %v, %d logs, unknown %v, %v", in.Clean, len(in.Logs), in.Unknown, err)
		}
		d.openAll(Clean, testConfig())
	}
	if string(content(t, d.mem, "data/x-0/notes")) != "mine" {
		t.Fatal("changed")
	}
	if err := d.CloseClean(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := d.mem.Remove("data/t-0/" + partitionFile); err != nil {
		t.Fatal(err)
	}
	d.open()
	in, err := d.Inspect(context.Background(), 2, nil)
	if err != nil || in.Clean || len(in.Unknown) != 2 || len(in.MissingHosted) != 1 {
		t.Fatalf("ours: clean %v, unknown %v, missing %v, %v", in.Clean, in.Unknown, in.MissingHosted, err)
	}
}

func TestDir_AppliedLossWithdrawsWhatTheCheckpointClaims(t *testing.T) {
	d := newTestDir(t)
	cfg := testConfig()
	l := d.create(0, cfg)
	appendN(t, l, 1, 10)
	l.SetHighWatermark(20)
	if err := d.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if err := l.SetLoss(4, 0); err != nil {
		t.Fatal(err)
	}
	if err := l.Truncate(8); err != nil {
		t.Fatal(err)
	}
	l = d.reopen(vfs.CrashKeep, 1, ProcessCrash, cfg)[0]
	if l.AppliedLoss() != 4 || l.HighWatermark() != 0 || l.EndOffset() != 8 {
		t.Fatalf("loss %d, high watermark %d, end %d", l.AppliedLoss(), l.HighWatermark(), l.EndOffset())
	}
	l.SetHighWatermark(6)
	if err := d.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	l = d.reopen(vfs.CrashKeep, 1, ProcessCrash, cfg)[0]
	if l.HighWatermark() != 6 {
		t.Fatalf("high watermark %d after a later checkpoint", l.HighWatermark())
	}
}

func TestLog_IdleSegmentIsSealedAndRetiredByAge(t *testing.T) {
	d := newTestDir(t)
	cfg := testConfig()
	cfg.SegmentMS, cfg.RetentionMS = 60_000, 120_000
	l := d.create(0, cfg)
	b, h := batchOf(2, 50, d.now.UnixMilli())
	if _, err := l.Append(b, &h, 7, false); err != nil {
		t.Fatal(err)
	}
	d.now = d.now.Add(61 * time.Second)
	d.Tick(d.now)
	if l.Segments() != 2 {
		t.Fatalf("%d segments", l.Segments())
	}
	d.now = d.now.Add(10 * time.Minute)
	d.Tick(d.now)
	if l.StartOffset() != 0 {
		t.Fatal("retired above the high watermark")
	}
	l.SetHighWatermark(2)
	d.now = d.now.Add(10 * time.Minute)
	d.Tick(d.now)
	if start, epoch := l.Start(); start != 2 || epoch != 7 || l.Segments() != 1 || l.Size() != 0 || l.LastEpoch() != 7 {
		t.Fatalf("start %d epoch %d, %d segments, %d bytes, last epoch %d", start, epoch, l.Segments(), l.Size(), l.LastEpoch())
	}
}

// TestLog_RetentionAsksTheBatchesWhereTheTimeIndexLostItsEnd: a cut time index makes a young segment look old.
func TestLog_RetentionAsksTheBatchesWhereTheTimeIndexLostItsEnd(t *testing.T) {
	d := newTestDir(t)
	cfg := testConfig()
	cfg.IndexIntervalBytes = 0
	l := d.create(0, cfg)
	old := d.now.Add(-48 * time.Hour).UnixMilli()
	for i := range int64(8) {
		b, h := batchOf(1, 60, old+i)
		if i >= 5 {
			b, h = batchOf(1, 60, d.now.UnixMilli()+i)
		}
		if _, err := l.Append(b, &h, 1, false); err != nil {
			t.Fatal(err)
		}
	}
	if l.Segments() != 2 {
		t.Fatalf("%d segments", l.Segments())
	}
	l.SetHighWatermark(l.EndOffset())
	if err := d.CloseClean(context.Background()); err != nil {
		t.Fatal(err)
	}
	name := "data/t-0/" + segmentName(0) + timeSuffix
	es, ok := decodeTimeIndex(content(t, d.mem, name))
	if !ok || len(es) < 3 || es[1].ts > old+10 {
		t.Fatalf("time index %v", es)
	}
	rewrite(t, d.mem, name, encodeTimeIndex(es[:2]))
	d.open()
	cfg.RetentionMS = 24 * 3600 * 1000
	l = d.openAll(Clean, cfg)[0]
	d.Tick(d.now.Add(time.Hour))
	if l.StartOffset() != 0 {
		t.Fatalf("records younger than retention.ms are gone: start %d", l.StartOffset())
	}
}

func TestLog_FlushSettingsForceFsync(t *testing.T) {
	d := newTestDir(t)
	cfg := testConfig()
	cfg.FlushMessages = 6
	l := d.create(0, cfg)
	appendN(t, l, 1, 2)
	if l.FlushedOffset() != 0 {
		t.Fatalf("flushed %d", l.FlushedOffset())
	}
	appendN(t, l, 1, 1)
	if l.FlushedOffset() != 6 {
		t.Fatalf("flushed %d of 6 at flush.messages 6", l.FlushedOffset())
	}
	cfg.FlushMessages, cfg.FlushMS = 0, 1000
	l.SetConfig(cfg)
	appendN(t, l, 1, 2)
	d.now = d.now.Add(999 * time.Millisecond)
	d.Tick(d.now)
	if l.FlushedOffset() != 6 {
		t.Fatalf("flushed %d before flush.ms", l.FlushedOffset())
	}
	d.now = d.now.Add(time.Millisecond)
	d.Tick(d.now)
	if l.FlushedOffset() != 10 {
		t.Fatalf("flushed %d after flush.ms", l.FlushedOffset())
	}
}

func TestLog_EpochEndAnswersForEpochsItHasAndHasNot(t *testing.T) {
	d := newTestDir(t)
	l := d.create(0, testConfig())
	if e, end := l.EpochEnd(5); e != -1 || end != -1 && end != 0 {
		t.Fatalf("empty log: %d, %d", e, end)
	}
	for _, epoch := range []int32{2, 5} {
		if err := l.BecomeLeader(epoch); err != nil {
			t.Fatal(err)
		}
		appendN(t, l, epoch, 3)
	}
	if err := l.BecomeLeader(8); err != nil { // without a record
		t.Fatal(err)
	}
	for _, c := range []struct {
		asked, epoch int32
		end          int64
	}{{-1, -1, -1}, {2, 2, 6}, {3, 2, 6}, {5, 5, 12}, {7, 5, 12}, {8, 8, 12}, {9, 8, 12}} {
		if e, end := l.EpochEnd(c.asked); e != c.epoch || end != c.end {
			t.Errorf("epoch %d: %d ends at %d, want %d at %d", c.asked, e, end, c.epoch, c.end)
		}
	}
	if err := l.Truncate(12); err != nil {
		t.Fatal(err)
	}
	if l.LastEpoch() != 5 {
		t.Fatalf("a cut to the end keeps epoch %d", l.LastEpoch())
	}
	if err := l.RaiseStart(8); err != nil {
		t.Fatal(err)
	}
	if start, epoch := l.Start(); start != 8 || epoch != 5 {
		t.Fatalf("start %d epoch %d", start, epoch)
	}
	if err := l.Reset(100, 6); err != nil {
		t.Fatal(err)
	}
	if l.LastEpoch() != 6 || l.EpochAt(99) != 6 || l.EndOffset() != 100 {
		t.Fatalf("after a reset: epoch %d, at 99 %d, end %d", l.LastEpoch(), l.EpochAt(99), l.EndOffset())
	}
}

// TestLog_FollowerThatStartsInsideABatchTakesTheWholeOfIt: the leader's log start may lie inside a batch.
func TestLog_FollowerThatStartsInsideABatchTakesTheWholeOfIt(t *testing.T) {
	cfg := testConfig()
	leader := newTestDir(t).create(0, cfg)
	for range 3 {
		b, h := batchOf(10, 20, 1_700_000_000_000)
		if _, err := leader.Append(b, &h, 2, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := leader.RaiseStart(14); err != nil {
		t.Fatal(err)
	}
	d := newTestDir(t)
	l := d.create(0, cfg)
	start, epoch := leader.Start()
	if err := l.Reset(start, epoch); err != nil {
		t.Fatal(err)
	}
	old, _ := batchOf(1, 10, 0)
	record.SetOffset(old, start, 1)
	if _, err := l.AppendReplica(old, 2); !errors.Is(err, record.ErrNotContiguous) {
		t.Fatalf("an epoch older than the start's: %v", err)
	}
	if end, err := l.AppendReplica(readAll(t, leader, start, 30, 1<<20), 2); err != nil || end != 30 {
		t.Fatalf("end %d, %v", end, err)
	}
	for range 2 {
		if got := readAll(t, l, 14, 30, 1<<20); string(got) != string(readAll(t, leader, 14, 30, 1<<20)) {
			t.Fatal("other bytes")
		}
		if s, e := l.Start(); s != 14 || e != 2 || l.EndOffset() != 30 {
			t.Fatalf("start %d epoch %d, end %d", s, e, l.EndOffset())
		}
		l = d.reopen(vfs.CrashKeep, 1, ProcessCrash, cfg)[0]
	}
	if err := l.Truncate(17); err != nil { // the batch goes, and with it all there is
		t.Fatal(err)
	}
	if l.EndOffset() != 14 || l.StartOffset() != 14 || l.Size() != 0 {
		t.Fatalf("%d to %d, %d bytes", l.StartOffset(), l.EndOffset(), l.Size())
	}
}

// TestLog_ALogCutToItsStartTakesTheBatchThatTheStartLiesIn: another leader's batch may begin below the start, where the one
// that was cut away or kept ended just there.
func TestLog_ALogCutToItsStartTakesTheBatchThatTheStartLiesIn(t *testing.T) {
	d := newTestDir(t)
	cfg := testConfig()
	l := d.create(0, cfg)
	appendN(t, l, 2, 8) // two records each: one batch ends at 14
	l.SetHighWatermark(14)
	if err := l.RaiseStart(14); err != nil {
		t.Fatal(err)
	}
	if err := l.Truncate(14); err != nil {
		t.Fatal(err)
	}
	if l.StartOffset() != 14 || l.EndOffset() != 14 || l.HighWatermark() != 14 || l.Size() != 0 {
		t.Fatalf("%d to %d, high watermark %d, %d bytes", l.StartOffset(), l.EndOffset(), l.HighWatermark(), l.Size())
	}
	over, _ := batchOf(5, 10, 1_700_000_000_000)
	record.SetOffset(over, 12, 3)
	if end, err := l.AppendReplica(over, 3); err != nil || end != 17 {
		t.Fatalf("end %d, %v", end, err)
	}
	l = d.reopen(vfs.CrashKeep, 1, ProcessCrash, cfg)[0]
	if l.StartOffset() != 14 || l.EndOffset() != 17 || string(readAll(t, l, 14, 17, 1<<20)) != string(over) {
		t.Fatalf("%d to %d after a restart", l.StartOffset(), l.EndOffset())
	}
}

// A power cut may leave older records than those before the log start, and their epochs: neither is the log's any more.
func TestLog_OfALogThatLostAllButItsStartOnlyTheStartIsKnown(t *testing.T) {
	d := newTestDir(t)
	l := d.create(0, testConfig())
	appendN(t, l, 1, 2)
	if _, err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	appendN(t, l, 2, 1)
	l.SetHighWatermark(6)
	if err := l.RaiseStart(6); err != nil {
		t.Fatal(err)
	}
	l = d.reopen(vfs.CrashLose, 1, LossyPower, testConfig())[0]
	if l.StartOffset() != 6 || l.EndOffset() != 6 || l.LastEpoch() != 2 {
		t.Fatalf("log is %d to %d with last epoch %d, want 6 to 6 with epoch 2", l.StartOffset(), l.EndOffset(), l.LastEpoch())
	}
	if e, end := l.EpochEnd(1); e != record.NoEpoch {
		t.Fatalf("epoch 1 is answered with %d to %d", e, end)
	}
}

// TestEpochs_BatchesStandOverTheFile: an undone cut leaves an epoch in the file where older batches lie.
func TestEpochs_BatchesStandOverTheFile(t *testing.T) {
	for _, c := range []struct {
		file, batches epochs
		end           int64
		want          epochs
	}{
		{epochs{{1, 8}, {2, 12}}, epochs{{1, 8}}, 16, epochs{{1, 8}}},
		{epochs{{1, 8}, {2, 16}}, epochs{{1, 8}}, 16, epochs{{1, 8}, {2, 16}}},
		{epochs{{1, 0}, {3, 9}}, epochs{{1, 4}, {2, 6}, {3, 9}}, 12, epochs{{1, 0}, {2, 6}, {3, 9}}},
		{nil, epochs{{4, 0}}, 3, epochs{{4, 0}}},
		{epochs{{1, 0}, {5, 7}}, nil, 7, epochs{{1, 0}, {5, 7}}},
	} {
		if got := c.file.replaced(c.batches, c.end); !slices.Equal(got, c.want) {
			t.Errorf("%v with batches %v to %d: %v, want %v", c.file, c.batches, c.end, got, c.want)
		}
	}
}

// TestDir_AStopWithALogThatIsNotOpenIsNotMarkedClean: a copy that was announced and never made, or that waits for its
// repair, would not fit the mark, and one that does not fit counts as a lost disk for every log of the directory.
func TestDir_AStopWithALogThatIsNotOpenIsNotMarkedClean(t *testing.T) {
	d := newTestDir(t)
	l := d.create(0, testConfig())
	appendN(t, l, 1, 3)
	end := l.EndOffset()
	if err := d.Host("t", testID(1)); err != nil {
		t.Fatal(err)
	}
	if err := d.CloseClean(context.Background()); err != nil {
		t.Fatal(err)
	}
	d.open()
	if d.Session().CleanFlag {
		t.Fatal("marked clean")
	}
	if logs := d.openAll(ProcessCrash, testConfig()); len(logs) != 1 || logs[0].EndOffset() != end {
		t.Fatalf("%d logs", len(logs))
	}
	if _, err := d.Create("t", testID(1), testConfig()); err != nil {
		t.Fatal(err)
	}
	if err := d.CloseClean(context.Background()); err != nil {
		t.Fatal(err)
	}
	d.open()
	if !d.Session().CleanFlag {
		t.Fatal("not marked clean")
	}
}
