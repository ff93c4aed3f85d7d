package logstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

// modelBatch is one batch as the log must hold it.
type modelBatch struct {
	base, end int64
	epoch     int32
	ts        int64
	pid       int64
	seq       int32 // of the last record
	bytes     []byte
}

// model is the truth about one log, kept beside it.
type model struct {
	t       *rapid.T
	d       *testDir
	l       *Log
	cfg     LogConfig
	batches []modelBatch
	start   int64
	end     int64
	epoch   int32
	flushed int64
	hw      int64
	next    map[int64]int32 // next sequence of each producer
}

func newModel(t *rapid.T, tb testing.TB) *model {
	m := &model{t: t, d: newTestDir(tb), next: map[int64]int32{}, epoch: 1}
	m.cfg = testConfig()
	m.cfg.SegmentBytes = int64(rapid.IntRange(700, 2000).Draw(t, "segment.bytes"))
	m.cfg.IndexIntervalBytes = int64(rapid.IntRange(0, 400).Draw(t, "index.interval"))
	m.cfg.Disk = rapid.Bool().Draw(t, "disk")
	m.cfg.FileDeleteDelayMS = 10
	m.l = m.d.create(0, m.cfg)
	return m
}

func (m *model) check(err error) {
	if err != nil {
		m.t.Fatalf("%v", err)
	}
}

func (m *model) append(pid int64, n int, ts int64) {
	b, h := batchOf(n, rapid.IntRange(0, 120).Draw(m.t, "size"), ts)
	seq := record.NoSequence
	if pid >= 0 {
		h.ProducerID, h.ProducerEpoch, h.BaseSequence = pid, 0, m.next[pid]
		b = record.AppendBatch(nil, h, b[record.HeaderSize:])
		parsed, err := record.ParseHeader(b)
		m.check(err)
		h = parsed
		seq = h.LastSequence()
	}
	info, err := m.l.Append(b, &h, m.epoch, false)
	m.check(err)
	if info.Base != m.end || info.Duplicate {
		m.t.Fatalf("append at %d answers %+v", m.end, info)
	}
	m.batches = append(m.batches, modelBatch{info.Base, info.End, m.epoch, ts, pid, seq, bytes.Clone(b)})
	m.end = info.End
	if pid >= 0 {
		m.next[pid] = record.IncrementSequence(seq, 1)
		m.duplicate(pid)
	}
}

// duplicate sends a producer's last batch again.
func (m *model) duplicate(pid int64) {
	last := m.batches[len(m.batches)-1]
	b := bytes.Clone(last.bytes)
	h, err := record.ParseHeader(b)
	m.check(err)
	info, err := m.l.Append(b, &h, m.epoch, false)
	m.check(err)
	if !info.Duplicate || info.Base != last.base || info.End != m.end {
		m.t.Fatalf("a batch sent twice answers %+v, want base %d", info, last.base)
	}
}

func (m *model) replicate() {
	var b []byte
	for range rapid.IntRange(1, 6).Draw(m.t, "batches") {
		one, h := batchOf(rapid.IntRange(1, 3).Draw(m.t, "n"), rapid.IntRange(0, 300).Draw(m.t, "size"), 1_700_000_000_000+m.end)
		m.epoch += int32(rapid.IntRange(0, 1).Draw(m.t, "raise"))
		record.SetOffset(one, m.end, m.epoch)
		m.batches = append(m.batches, modelBatch{m.end, m.end + int64(h.LastOffsetDelta) + 1, m.epoch, h.MaxTimestamp, -1, record.NoSequence, bytes.Clone(one)})
		m.end += int64(h.LastOffsetDelta) + 1
		b = append(b, one...)
	}
	if rapid.Bool().Draw(m.t, "cut short") {
		one, _ := batchOf(1, 50, 0)
		b = append(b, one[:len(one)-3]...)
	}
	end, err := m.l.AppendReplica(b, m.epoch)
	m.check(err)
	if end != m.end {
		m.t.Fatalf("replicated to %d, want %d", end, m.end)
	}
}

func (m *model) truncate() {
	to := rapid.Int64Range(m.start, m.end).Draw(m.t, "to")
	m.check(m.l.Truncate(to))
	m.cut(to)
}

// cut brings the model down to end.
func (m *model) cut(end int64) {
	for n := len(m.batches); n > 0 && m.batches[n-1].end > end; n-- {
		m.end = m.batches[n-1].base
		m.batches = m.batches[:n-1]
	}
	m.end = max(m.end, m.start)
	if m.end == m.start && len(m.batches) > 0 && m.batches[len(m.batches)-1].end > m.start {
		m.batches = nil
	}
	m.hw = min(m.hw, m.end)
	m.flushed = min(m.flushed, m.end)
	m.producers()
}

// producers checks that the log knows each producer that has a batch above the start, at its last sequence there. One
// whose batches are all below may be forgotten or not.
func (m *model) producers() {
	m.next = map[int64]int32{}
	for _, p := range m.l.Producers() {
		m.next[p.ProducerID] = record.IncrementSequence(p.LastSequence, 1)
	}
	want := map[int64]int32{}
	for _, b := range m.batches {
		if b.pid >= 0 && b.base >= m.start {
			want[b.pid] = record.IncrementSequence(b.seq, 1)
		}
	}
	for pid, next := range want {
		if got, known := m.next[pid]; !known || got != next {
			m.t.Fatalf("producer %d goes on at %d (known %v), want %d", pid, got, known, next)
		}
	}
}

func (m *model) raiseStart() {
	to := rapid.Int64Range(m.start, m.end).Draw(m.t, "start")
	m.check(m.l.RaiseStart(to))
	m.start = to
	m.hw = max(m.hw, to)
}

func (m *model) checkpoint() {
	m.hw = rapid.Int64Range(m.hw, m.end).Draw(m.t, "hw")
	m.l.SetHighWatermark(m.hw)
	m.check(m.d.Checkpoint())
	m.flushed = m.l.FlushedOffset()
}

// retain moves the clock and lets retention by size run.
func (m *model) retain() {
	cfg := m.cfg
	cfg.RetentionBytes = int64(rapid.IntRange(0, 3000).Draw(m.t, "retention.bytes"))
	cfg.RetentionMS = -1
	m.l.SetConfig(cfg)
	size, segs := m.l.Size(), m.l.Segments()
	m.d.now = m.d.now.Add(m.d.opt.RetentionInterval)
	m.d.Tick(m.d.now)
	m.l.SetConfig(m.cfg)
	start := m.l.StartOffset()
	if start > m.hw && start > m.start {
		m.t.Fatalf("retention moved the start to %d, above the high watermark %d", start, m.hw)
	}
	if start > m.start && m.l.Size() < cfg.RetentionBytes {
		m.t.Fatalf("%d bytes left of %d in %d segments, retention.bytes is %d", m.l.Size(), size, segs, cfg.RetentionBytes)
	}
	m.start = start
}

func (m *model) crash() {
	mode := rapid.SampledFrom([]vfs.CrashMode{vfs.CrashKeep, vfs.CrashLose, vfs.CrashTear}).Draw(m.t, "mode")
	m.flushed = max(m.flushed, m.l.FlushedOffset())
	m.d.mem = m.d.mem.Crash(mode, rapid.Uint64().Draw(m.t, "seed"))
	m.d.open()
	class := LossyPower
	if mode == vfs.CrashKeep {
		class = ProcessCrash
	}
	in, err := m.d.Inspect(context.Background(), 1, nil)
	m.check(err)
	if len(in.Logs) != 1 || in.Clean {
		m.t.Fatalf("found %d logs, clean %v, unknown %v", len(in.Logs), in.Clean, in.Unknown)
	}
	f := in.Logs[0]
	j := f.Judge(class, m.cfg.Disk)
	if j.Damaged && (mode == vfs.CrashKeep || m.cfg.Disk && f.kind == breakNone) {
		m.t.Fatalf("damaged: %s", j.Reason)
	}
	m.t.Logf("found end %d, size %d, segments %v, start %d, hints %+v, %s", f.end, f.size, f.segs, f.state.start, f.hints, f.where)
	m.l, err = f.Open(m.cfg, j)
	m.check(err)
	m.l.Repaired()
	end := m.l.EndOffset()
	if mode == vfs.CrashKeep && end != m.end {
		m.t.Fatalf("a killed process left end %d of %d", end, m.end)
	}
	if end < m.flushed || end > m.end {
		m.t.Fatalf("end %d after a power cut, flushed was %d, written %d", end, m.flushed, m.end)
	}
	if m.cfg.Disk {
		m.flushed = end
	}
	m.cut(end)
	if e := m.l.LastEpoch(); e > m.epoch {
		m.t.Fatalf("epoch %d after a restart, %d before", e, m.epoch)
	}
	m.hw = m.l.HighWatermark()
}

func (m *model) closeClean() {
	m.check(m.d.CloseClean(context.Background()))
	m.d.mem = m.d.mem.Crash(vfs.CrashLose, 1)
	m.d.open()
	in, err := m.d.Inspect(context.Background(), 1, nil)
	m.check(err)
	if len(in.Logs) != 1 || !in.Clean {
		for _, f := range in.Logs {
			m.t.Logf("%s found: end %d, size %d, segments %v, start %d, %s", f.path, f.end, f.size, f.segs, f.state.start, f.where)
		}
		m.t.Fatalf("not clean after an orderly shutdown: %+v, marks %+v", in.Logs, m.d.stored.Logs)
	}
	j := in.Logs[0].Judge(Clean, m.cfg.Disk)
	if j.Damaged || j.Cut {
		m.t.Fatalf("clean, and %+v", j)
	}
	m.l, err = in.Logs[0].Open(m.cfg, j)
	m.check(err)
	m.flushed = m.end
	m.cut(m.end)
	if m.l.HighWatermark() != m.hw {
		m.t.Fatalf("high watermark %d, was %d", m.l.HighWatermark(), m.hw)
	}
}

func (m *model) reset() {
	at := rapid.Int64Range(0, m.end+10).Draw(m.t, "at")
	m.check(m.l.Reset(at, m.epoch))
	m.batches, m.start, m.end, m.hw, m.flushed, m.next = nil, at, at, at, at, map[int64]int32{}
	if got := m.l.StartEpoch(); got != m.epoch {
		m.t.Fatalf("start epoch %d, want %d", got, m.epoch)
	}
}

// verify compares the log with the model.
func (m *model) verify() {
	if s, e := m.l.StartOffset(), m.l.EndOffset(); s != m.start || e != m.end {
		m.t.Fatalf("log is %d to %d, want %d to %d", s, e, m.start, m.end)
	}
	if m.l.FlushedOffset() > m.end {
		m.t.Fatalf("flushed %d of %d", m.l.FlushedOffset(), m.end)
	}
	var want []byte
	for _, b := range m.batches {
		if b.end > m.start {
			want = append(want, b.bytes...)
		}
		if b.base >= m.start && m.l.EpochAt(b.base) != b.epoch {
			m.t.Fatalf("epoch at %d is %d, want %d", b.base, m.l.EpochAt(b.base), b.epoch)
		}
	}
	got := readAll(m.d.t, m.l, m.start, m.end, int32(rapid.IntRange(0, 2000).Draw(m.t, "limit")))
	if !bytes.Equal(got, want) {
		m.t.Fatalf("log holds %d bytes, want %d, or others", len(got), len(want))
	}
	if m.end > m.start {
		at := rapid.Int64Range(m.start, m.end-1).Draw(m.t, "at")
		bound := rapid.Int64Range(at, m.end).Draw(m.t, "bound")
		m.readAt(at, bound)
	}
	if _, err := m.l.Read(m.start-1, 1, m.end, true); !errors.Is(err, record.ErrOffsetOutOfRange) {
		m.t.Fatalf("read below the start: %v", err)
	}
	m.findTime()
}

// readAt checks one read: it begins with the batch that holds at and nothing of it reaches bound.
func (m *model) readAt(at, bound int64) {
	info, err := m.l.Read(at, 1<<20, bound, true)
	m.check(err)
	defer func() {
		for _, s := range info.Spans {
			s.Release()
		}
	}()
	var holds modelBatch
	for _, b := range m.batches {
		if b.base <= at && at < b.end {
			holds = b
		}
	}
	if holds.end > bound {
		if len(info.Spans) != 0 {
			m.t.Fatalf("read at %d below %d gave bytes of the batch %d to %d", at, bound, holds.base, holds.end)
		}
		return
	}
	if len(info.Spans) != 1 {
		m.t.Fatalf("read at %d below %d gave nothing", at, bound)
	}
	b := make([]byte, info.Bytes)
	m.check(readFull(info.Spans[0].Src, b, info.Spans[0].Off))
	if !bytes.HasPrefix(b, holds.bytes) {
		m.t.Fatalf("read at %d does not begin with its batch", at)
	}
	for len(b) > 0 {
		h, err := record.ParseHeader(b)
		m.check(err)
		if h.EndOffset() > bound || h.EndOffset() > info.End {
			m.t.Fatalf("read at %d below %d gave the batch %d to %d, end %d", at, bound, h.BaseOffset, h.EndOffset(), info.End)
		}
		b = b[h.Size():]
	}
}

func (m *model) findTime() {
	ts := int64(1_700_000_000_000) + rapid.Int64Range(0, m.end+5).Draw(m.t, "time")
	want := int64(-1)
	for _, b := range m.batches {
		if b.end > m.start && b.ts >= ts {
			want = max(b.base, m.start)
			break
		}
	}
	got, _, _, found, err := m.l.OffsetForTime(ts, m.end)
	m.check(err)
	if found != (want >= 0) || found && got != want {
		m.t.Fatalf("time %d is at %d (%v), want %d", ts, got, found, want)
	}
}

func TestLog_BehavesAsItsModelOverCrashes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(rt, t)
		ops := map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				m.append(-1, rapid.IntRange(1, 4).Draw(t, "n"), 1_700_000_000_000+rapid.Int64Range(0, m.end+1).Draw(t, "ts"))
			},
			"produce": func(t *rapid.T) {
				m.append(rapid.Int64Range(1, 3).Draw(t, "pid"), rapid.IntRange(1, 4).Draw(t, "n"), 1_700_000_000_000+m.end)
			},
			"replicate": func(*rapid.T) { m.replicate() },
			"truncate":  func(*rapid.T) { m.truncate() },
			"start":     func(*rapid.T) { m.raiseStart() },
			"retain":    func(*rapid.T) { m.retain() },
			"lead": func(*rapid.T) {
				m.epoch++
				m.check(m.l.BecomeLeader(m.epoch))
				if e, end := m.l.EpochEnd(m.epoch); e != m.epoch || end != m.end {
					m.t.Fatalf("epoch %d ends at %d", e, end)
				}
			},
			"flush": func(*rapid.T) {
				got, err := m.l.Flush()
				m.check(err)
				if got != m.end {
					m.t.Fatalf("flushed to %d of %d", got, m.end)
				}
				m.flushed = got
			},
			"checkpoint": func(*rapid.T) { m.checkpoint() },
			"crash":      func(*rapid.T) { m.crash() },
			"close":      func(*rapid.T) { m.closeClean() },
			"reset":      func(*rapid.T) { m.reset() },
			"":           func(*rapid.T) { m.verify() },
		}
		rt.Repeat(ops)
	})
}

func ExampleRestartClass() {
	fmt.Println(Clean, ProcessCrash, LossyPower, LossyMedia)
	// Output: CLEAN PROCESS_CRASH LOSSY_POWER LOSSY_MEDIA
}
