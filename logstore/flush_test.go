package logstore

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

// syncGate is a disk whose fsyncs of segments are counted and, while shut, stand still.
type syncGate struct {
	vfs.FS
	segments, dirs atomic.Int64
	arrived        chan struct{} // one token for each fsync that stands still

	mu   sync.Mutex
	shut chan struct{} // nil: open
}

type gatedFile struct {
	vfs.File
	g *syncGate
}

func newSyncGate(inner vfs.FS) *syncGate {
	return &syncGate{FS: inner, arrived: make(chan struct{}, 100)}
}

func (g *syncGate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = make(chan struct{})
}

func (g *syncGate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.shut)
	g.shut = nil
}

func (g *syncGate) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return gatedFile{f, g}, nil
}

func (g *syncGate) Create(name string) (vfs.File, error) { return g.wrap(g.FS.Create(name)) }
func (g *syncGate) Open(name string) (vfs.File, error)   { return g.wrap(g.FS.Open(name)) }
func (g *syncGate) OpenReadWrite(name string) (vfs.File, error) {
	return g.wrap(g.FS.OpenReadWrite(name))
}

func (g *syncGate) SyncDir(name string) error {
	g.dirs.Add(1)
	return g.FS.SyncDir(name)
}

func (f gatedFile) Sync() error {
	if strings.HasSuffix(f.Name(), logSuffix) {
		f.g.segments.Add(1)
		f.g.mu.Lock()
		shut := f.g.shut
		f.g.mu.Unlock()
		if shut != nil {
			f.g.arrived <- struct{}{}
			<-shut
		}
	}
	return f.File.Sync()
}

func newGatedLog(t *testing.T, cfg LogConfig) (*testDir, *syncGate, *Log) {
	d := &testDir{t: t, now: time.UnixMilli(1_700_000_000_000)}
	d.mem = vfs.NewMem(func() time.Time { return d.now })
	g := newSyncGate(d.mem)
	d.fs = g
	d.open()
	l := d.create(0, cfg)
	if err := l.BecomeLeader(1); err != nil {
		t.Fatal(err)
	}
	return d, g, l
}

// TestLog_AppendsDuringAnFsyncShareTheNextOne: appends need no lock that an fsync holds, and sixteen that wait for the
// disk cost one fsync more, not sixteen.
func TestLog_AppendsDuringAnFsyncShareTheNextOne(t *testing.T) {
	cfg := testConfig()
	cfg.SegmentBytes = 1 << 20
	_, g, l := newGatedLog(t, cfg)
	appendN(t, l, 1, 1)
	before := g.segments.Load()
	g.close()
	flush := func(done chan error) {
		_, err := l.Flush()
		done <- err
	}
	done := make(chan error, 17)
	go flush(done)
	<-g.arrived // the first fsync stands still
	appendN(t, l, 1, 16)
	if got, end := l.FlushedOffset(), l.EndOffset(); got != 0 || end != 34 {
		t.Fatalf("flushed %d of %d while the fsync stands still", got, end)
	}
	var started sync.WaitGroup
	for range 16 {
		started.Add(1)
		go func() {
			started.Done()
			flush(done)
		}()
	}
	started.Wait()
	g.open()
	for range 17 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if n := g.segments.Load() - before; n > 2 {
		t.Fatalf("%d fsyncs for 17 batches, of which 16 came during the first", n)
	}
	if got := l.FlushedOffset(); got != 34 {
		t.Fatalf("flushed %d of 34", got)
	}
}

// TestLog_WhoWaitedForAnFsyncDoesNotPayForLaterAppends: who finds its records flushed when its turn comes leaves what came
// since to those who wait for that. Else writers that go on at once cost an fsync each.
func TestLog_WhoWaitedForAnFsyncDoesNotPayForLaterAppends(t *testing.T) {
	_, g, l := newGatedLog(t, testConfig())
	appendN(t, l, 1, 1)
	asked := l.EndOffset()
	if _, err := l.Flush(); err != nil { // another's, which covered it
		t.Fatal(err)
	}
	appendN(t, l, 1, 1)
	before := g.segments.Load()
	if flushed, err := l.flushTo(asked); err != nil || flushed != asked || g.segments.Load() != before {
		t.Fatalf("flushed %d of %d with %d fsyncs more: %v", flushed, asked, g.segments.Load()-before, err)
	}
	// A cut is an fsync's due all the same.
	if err := l.Truncate(asked); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Flush(); err != nil || g.segments.Load() == before {
		t.Fatalf("no fsync after a cut: %v", err)
	}
}

// TestLog_AFlushCountsForWhatWasThereWhenItBegan: an append during the fsync is not covered by it.
func TestLog_AFlushCountsForWhatWasThereWhenItBegan(t *testing.T) {
	_, g, l := newGatedLog(t, testConfig())
	appendN(t, l, 1, 2)
	g.close()
	done := make(chan int64, 1)
	go func() {
		flushed, err := l.Flush()
		if err != nil {
			t.Error(err)
		}
		done <- flushed
	}()
	<-g.arrived
	appendN(t, l, 1, 30) // over several segments
	g.open()
	if flushed := <-done; flushed != 4 || l.FlushedOffset() != 4 {
		t.Fatalf("flushed %d, %d; 4 were there when it began", flushed, l.FlushedOffset())
	}
	if flushed, err := l.Flush(); err != nil || flushed != 64 {
		t.Fatalf("flushed %d, %v", flushed, err)
	}
}

// TestLog_FlushedRecordsOutlivePowerOverASegmentRoll: the files of new segments and their names are durable too.
func TestLog_FlushedRecordsOutlivePowerOverASegmentRoll(t *testing.T) {
	cfg := testConfig()
	cfg.Disk = true
	for seed := range uint64(8) {
		d, g, l := newGatedLog(t, cfg)
		appendN(t, l, 1, 25)
		if l.Segments() < 3 {
			t.Fatalf("%d segments", l.Segments())
		}
		dirs := g.dirs.Load()
		if _, err := l.Flush(); err != nil {
			t.Fatal(err)
		}
		if g.dirs.Load() == dirs {
			t.Fatal("the directory with the new segments' names was not synced")
		}
		appendN(t, l, 1, 10) // not flushed
		d.fs = nil
		mode := vfs.CrashLose
		if seed%2 == 1 {
			mode = vfs.CrashTear
		}
		l = d.reopen(mode, seed, LossyPower, cfg)[0]
		if l.EndOffset() < 50 {
			t.Fatalf("seed %d: the log ends at %d, flushed were 50", seed, l.EndOffset())
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLog_ADurableCutOutlivesPower is S42's truncation: neither the segments that were cut away nor their epochs come
// back, since their records would win an election.
func TestLog_ADurableCutOutlivesPower(t *testing.T) {
	cfg := testConfig()
	cfg.Disk = true
	for name, cut := range map[string]func(l *Log) error{
		"truncate within a segment": func(l *Log) error { return l.Truncate(14) },
		"truncate to the first":     func(l *Log) error { return l.Truncate(3) },
		"reset":                     func(l *Log) error { return l.Reset(40, 2) },
	} {
		for seed := range uint64(6) {
			d, _, l := newGatedLog(t, cfg)
			appendN(t, l, 1, 3)
			if err := l.BecomeLeader(7); err != nil {
				t.Fatal(err)
			}
			appendN(t, l, 7, 25)
			if _, err := l.Flush(); err != nil {
				t.Fatal(err)
			}
			if err := cut(l); err != nil {
				t.Fatal(err)
			}
			end, last := l.EndOffset(), l.LastEpoch()
			d.fs = nil
			mode := vfs.CrashLose
			if seed%2 == 1 {
				mode = vfs.CrashTear
			}
			l = d.reopen(mode, seed, LossyPower, cfg)[0]
			if l.EndOffset() != end || l.LastEpoch() != last {
				t.Fatalf("%s, seed %d: after the power cut the log ends at %d in epoch %d, it was cut to %d in epoch %d", name, seed, l.EndOffset(), l.LastEpoch(), end, last)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestLog_AMarkerBeginsAnEpochAndNoReaderTakesItForARecord checks the stored form, which other readers know it by.
func TestLog_AMarkerBeginsAnEpochAndNoReaderTakesItForARecord(t *testing.T) {
	d := newTestDir(t)
	l := d.create(0, testConfig())
	if err := l.BecomeLeader(1); err != nil {
		t.Fatal(err)
	}
	appendN(t, l, 1, 1)
	if err := l.BecomeLeader(5); err != nil {
		t.Fatal(err)
	}
	info, err := l.AppendMarker(5)
	if err != nil || info.Base != 2 || info.End != 3 {
		t.Fatalf("%+v, %v", info, err)
	}
	b := readAll(t, l, 2, l.EndOffset(), 1<<20)
	h, err := record.ParseHeader(b)
	if err != nil || record.Verify(&h, b) != nil {
		t.Fatalf("%+v: %v", h, err)
	}
	if !h.IsControl() || h.IsTransactional() || h.HasProducer() || h.LeaderEpoch != 5 || h.BaseOffset != 2 || h.Count != 1 {
		t.Fatalf("marker %+v", h)
	}
	var r record.RecordReader
	if err := r.Reset(&h, b); err != nil || !r.Next() {
		t.Fatal(err)
	}
	if string(r.Record.Key) != "\x00\x00\x00\x02" || r.Record.Value == nil || len(r.Record.Value) != 0 {
		t.Fatalf("key %x, value %v", r.Record.Key, r.Record.Value)
	}
	if n := len(l.Producers()); n != 0 {
		t.Fatalf("%d producers", n)
	}
	l.SetHighWatermark(3)
	if l.LastStableOffset() != 3 || l.LastEpoch() != 5 {
		t.Fatalf("stable %d, epoch %d", l.LastStableOffset(), l.LastEpoch())
	}
	if _, err := l.AppendMarker(4); !errors.Is(err, record.ErrNotContiguous) {
		t.Fatalf("a marker of an older epoch: %v", err)
	}
	// A follower takes it as it is, and it outlives a kill.
	f := d.create(1, testConfig())
	if _, err := f.AppendReplica(readAll(t, l, 0, 3, 1<<20), 5); err != nil || f.EndOffset() != 3 || f.LastEpoch() != 5 {
		t.Fatalf("follower at %d in epoch %d: %v", f.EndOffset(), f.LastEpoch(), err)
	}
	for _, l := range d.reopen(vfs.CrashKeep, 1, ProcessCrash, testConfig()) {
		if l.EndOffset() != 3 || l.EpochAt(2) != 5 {
			t.Fatalf("after a kill the log ends at %d, epoch at 2 is %d", l.EndOffset(), l.EpochAt(2))
		}
	}
}
