package logstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

// faultStory runs one life of a log over a disk that fails, and keeps what was acknowledged.
type faultStory struct {
	t     testing.TB
	d     *testDir
	fault *vfs.Fault
	l     *Log
	cfg   LogConfig
	acked []byte // batches from the log start on that were acknowledged and not cut away since
	ends  []int64
	start int64
	// unsure says that a cut failed: whether it happened is open.
	unsure  bool
	offline int // how often OnOffline was called
}

func newFaultStory(t testing.TB, rules ...vfs.Rule) *faultStory {
	s := &faultStory{t: t, cfg: testConfig()}
	s.cfg.Disk = true
	s.d = &testDir{t: t, now: time.UnixMilli(1_700_000_000_000)}
	s.d.mem = vfs.NewMem(func() time.Time { return s.d.now })
	s.fault = vfs.NewFault(s.d.mem, vfs.FaultOptions{})
	if err := s.fault.SetRules(rules...); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *faultStory) appendOne(replica bool) error {
	b, h := batchOf(2, 60, s.d.now.UnixMilli())
	if replica {
		record.SetOffset(b, s.l.EndOffset(), 3)
		if _, err := s.l.AppendReplica(b, 3); err != nil {
			return err
		}
	} else if _, err := s.l.Append(b, &h, 3, false); err != nil {
		return err
	}
	s.acked = append(s.acked, b...)
	s.ends = append(s.ends, s.l.EndOffset())
	return nil
}

// run tells the story to its end and returns every error that came. A step that failed is passed over.
func (s *faultStory) run() (errs []error) {
	note := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	opt := s.d.options()
	opt.OnOffline = func(error) { s.offline++ }
	dir, err := OpenDir(s.fault, "data", opt)
	if err != nil {
		return []error{err}
	}
	s.d.Dir = dir
	if s.l, err = dir.Create("t", testID(0), s.cfg); err != nil {
		note(err)
		note(dir.Close())
		return errs
	}
	note(s.l.BecomeLeader(3))
	for i := range 12 {
		note(s.appendOne(i%3 == 2))
		if i == 5 {
			_, err := s.l.Flush()
			note(err)
			s.l.SetHighWatermark(min(s.l.EndOffset(), 4))
			note(dir.Checkpoint())
		}
	}
	if n := len(s.ends); n > 3 {
		end := s.ends[n-3]
		size := len(s.acked) / n
		if err := s.l.Truncate(end); err != nil {
			note(err)
			s.unsure = true
		} else {
			s.acked, s.ends = s.acked[:size*(n-2)], s.ends[:n-2]
		}
	}
	note(s.appendOne(false))
	if start := int64(4); s.l.EndOffset() >= start {
		note(s.l.RaiseStart(start))
	}
	s.d.now = s.d.now.Add(10 * time.Minute)
	dir.Tick(s.d.now)
	note(s.appendOne(true))
	note(s.appendOne(false))
	s.start = s.l.StartOffset()
	note(dir.CloseClean(context.Background()))
	return errs
}

// check starts anew over the same disk, as after the end of the process, and looks for everything acknowledged.
func (s *faultStory) check(name string) {
	s.t.Helper()
	s.d.mem = s.d.mem.Crash(vfs.CrashKeep, 0)
	s.d.open()
	in, err := s.d.Inspect(context.Background(), 1, nil)
	if err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
	if s.l == nil || len(in.Logs) == 0 {
		if len(s.acked) > 0 {
			s.t.Fatalf("%s: acknowledged batches and no log; unknown %v", name, in.Unknown)
		}
		return
	}
	class := ProcessCrash
	if in.Clean {
		class = Clean
	}
	j := in.Logs[0].Judge(class, true)
	if j.Damaged {
		s.t.Fatalf("%s: as %s damaged: %s", name, class, j.Reason)
	}
	l, err := in.Logs[0].Open(s.cfg, j)
	if err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
	got := readAll(s.t, l, l.StartOffset(), l.EndOffset(), 1<<20)
	for n := range s.ends {
		size := len(s.acked) / len(s.ends)
		if one := s.acked[n*size : (n+1)*size]; s.ends[n] > l.StartOffset() && !bytes.Contains(got, one) && !(s.unsure && n >= len(s.ends)-3) {
			s.t.Fatalf("%s: acknowledged batch before %d is gone", name, s.ends[n])
		}
	}
	if !s.unsure && l.StartOffset() < s.start {
		s.t.Fatalf("%s: the start %d went back to %d", name, s.start, l.StartOffset())
	}
	if err := s.d.CloseClean(context.Background()); err != nil {
		s.t.Fatalf("%s: close: %v", name, err)
	}
}

// TestEveryFailingCallLosesNothingAcknowledged fails each changing disk call of a log's life in turn, once: with EIO the
// directory goes offline, with ENOSPC it is full unless an fsync failed, without a free handle it goes on, and what was acknowledged is there afterwards.
func TestEveryFailingCallLosesNothingAcknowledged(t *testing.T) {
	count := newFaultStory(t)
	if errs := count.run(); len(errs) > 0 {
		t.Fatal(errs)
	}
	calls := int(count.fault.Calls(vfs.OpChange))
	count.check("without a fault")
	if calls < 60 {
		t.Fatalf("%d calls", calls)
	}
	for _, what := range []string{"EIO", "ENOSPC", "EMFILE"} {
		for _, times := range []int{1, 0} {
			for n := range calls {
				name := fmt.Sprintf("%s at call %d, times %d", what, n, times)
				s := newFaultStory(t, vfs.Rule{Op: vfs.OpChange, Skip: n, Times: times, Error: what, Short: 20})
				errs := s.run()
				for _, err := range errs {
					known := errors.Is(err, record.ErrDirFull) || errors.Is(err, record.ErrDirOffline) || errors.Is(err, record.ErrClosed)
					if !known && s.l != nil {
						t.Fatalf("%s: %v", name, err)
					}
				}
				if what == "EIO" && s.l != nil && times == 0 && s.offline != 1 && len(errs) > 0 {
					t.Fatalf("%s: the owner was told %d times: %v", name, s.offline, errs)
				}
				s.check(name)
			}
		}
	}
}

// TestFullDiskRefusesAppendsAndRecovers fills a disk for real, reads and deletes on, makes room and appends again.
func TestFullDiskRefusesAppendsAndRecovers(t *testing.T) {
	d := &testDir{t: t, now: time.UnixMilli(1_700_000_000_000)}
	d.mem = vfs.NewMem(func() time.Time { return d.now })
	d.mem.SetCapacity(4 << 20)
	opt := d.options()
	opt.Reserve, opt.DiskStop = 1<<20, 3<<19
	dir, err := OpenDir(d.mem, "data", opt)
	if err != nil {
		t.Fatal(err)
	}
	cfg := testConfig()
	cfg.SegmentBytes, cfg.FileDeleteDelayMS = 256<<10, 0
	l, err := dir.Create("t", testID(0), cfg)
	if err != nil {
		t.Fatal(err)
	}
	tick := func() {
		d.now = d.now.Add(2 * time.Second)
		dir.Tick(d.now)
	}
	big := func() error {
		b, h := batchOf(1, 60<<10, d.now.UnixMilli())
		_, err := l.Append(b, &h, 1, false)
		return err
	}
	n := 0
	for ; big() == nil; n++ {
		tick()
	}
	if free, _, offline, full := dir.State(); offline || !full || free < 1<<20 {
		t.Fatalf("stopped with %d free, offline %v, full %v", free, offline, full)
	}
	if err := big(); !errors.Is(err, record.ErrDirFull) {
		t.Fatal(err)
	}
	// Followers go on until there is really no room; then the reserve is freed and nothing is left half written.
	for err == nil {
		b, _ := batchOf(1, 60<<10, d.now.UnixMilli())
		record.SetOffset(b, l.EndOffset(), 1)
		_, err = l.AppendReplica(b, 1)
	}
	if !errors.Is(err, record.ErrDirFull) {
		t.Fatal(err)
	}
	if _, err := d.mem.Stat("data/" + reserveFile); err == nil {
		t.Fatal("the reserve was not freed")
	}
	end := l.EndOffset()
	readAll(t, l, 0, end, 1<<20)
	tick()
	if err := big(); !errors.Is(err, record.ErrDirFull) {
		t.Fatal(err)
	}
	l.SetHighWatermark(end)
	if err := l.RaiseStart(end - 2); err != nil {
		t.Fatalf("deleting records on a full disk: %v", err)
	}
	tick() // removes the files
	tick() // sees the room, makes the reserve anew
	if err := big(); err != nil {
		t.Fatalf("after there was room: %v", err)
	}
	if info, err := d.mem.Stat("data/" + reserveFile); err != nil || info.Size() != opt.Reserve {
		t.Fatalf("reserve: %v, %v", info, err)
	}
	readAll(t, l, end-2, l.EndOffset(), 1<<20)
	if err := dir.CloseClean(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestFailedFsyncIsNeverTriedAgain(t *testing.T) {
	s := newFaultStory(t)
	dir, err := OpenDir(s.fault, "data", s.d.options())
	if err != nil {
		t.Fatal(err)
	}
	l, err := dir.Create("t", testID(0), testConfig())
	if err != nil {
		t.Fatal(err)
	}
	appendN(t, l, 1, 3)
	if err := s.fault.SetRules(vfs.Rule{Op: vfs.OpSync, Error: "ENOSPC", Times: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Flush(); !errors.Is(err, record.ErrDirOffline) {
		t.Fatalf("flush: %v", err)
	}
	syncs := s.fault.Calls(vfs.OpSync)
	if _, err := l.Flush(); !errors.Is(err, record.ErrDirOffline) {
		t.Fatalf("flush again: %v", err)
	}
	if l.FlushedOffset() != 0 || s.fault.Calls(vfs.OpSync) != syncs {
		t.Fatalf("flushed %d, %d fsyncs after the failed one", l.FlushedOffset(), s.fault.Calls(vfs.OpSync)-syncs)
	}
	b, h := batchOf(1, 10, 0)
	if _, err := l.Append(b, &h, 1, false); !errors.Is(err, record.ErrDirOffline) {
		t.Fatalf("append: %v", err)
	}
	if _, err := l.Read(0, 100, 2, true); !errors.Is(err, record.ErrDirOffline) {
		t.Fatalf("read: %v", err)
	}
	if err := dir.CloseClean(context.Background()); !errors.Is(err, record.ErrDirOffline) {
		t.Fatalf("close: %v", err)
	}
}
