package logstore

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

// overdue names a duty of l that a Tick at now should have done.
func overdue(l *Log, now time.Time) string {
	cfg := l.Config()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case cfg.SegmentMS > 0 && l.view.Load().size > 0 && now.Sub(l.opened).Milliseconds() > cfg.SegmentMS:
		return "a segment is not sealed"
	case cfg.FlushMS > 0 && l.flushed.Load() < l.EndOffset() && now.Sub(l.unsynced).Milliseconds() >= cfg.FlushMS:
		return "bytes are not flushed"
	case cfg.ProducerExpirationMS > 0 && len(l.producers.byID) > 0 && now.Sub(l.swept) >= producerSweep:
		return "idle producers were not looked for"
	}
	return ""
}

// TestDir_TickLeavesNoDutyUndoneAndCheckpointNoFactUntold does anything to some logs, in any order. After every Tick
// nothing is due, though it looks only at logs with an appointment, and after every Checkpoint the file says what every
// log says, though only logs that changed make it write.
func TestDir_TickLeavesNoDutyUndoneAndCheckpointNoFactUntold(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	d := newTestDir(t)
	d.opt.RetentionInterval = 90 * time.Minute
	var logs []*Log
	for p := range int32(6) {
		logs = append(logs, d.create(p, testConfig()))
	}
	next := map[*Log]int32{}
	settings := []int64{0, 1, 700, 60_000, 3_600_000, math.MaxInt64}
	for step := range 4000 {
		l := logs[r.IntN(len(logs))]
		var err error
		switch r.IntN(12) {
		case 0, 1, 2:
			b, h := batchOf(1, r.IntN(200), d.now.UnixMilli())
			if r.IntN(2) == 0 {
				h.ProducerID, h.ProducerEpoch, h.BaseSequence = 7, 0, next[l]
				b = record.AppendBatch(nil, h, b[record.HeaderSize:])
				if h, err = record.ParseHeader(b); err != nil {
					t.Fatal(err)
				}
				next[l]++
			}
			_, err = l.Append(b, &h, 1, false)
		case 3:
			b, _ := batchOf(1, 20, d.now.UnixMilli())
			record.SetOffset(b, l.EndOffset(), 1)
			_, err = l.AppendReplica(b, 1)
		case 4:
			err = l.Truncate(max(l.StartOffset(), l.EndOffset()-r.Int64N(9)))
			delete(next, l)
			for _, p := range l.Producers() {
				next[l] = record.IncrementSequence(p.LastSequence, 1)
			}
		case 5:
			l.SetHighWatermark(l.StartOffset() + r.Int64N(l.EndOffset()-l.StartOffset()+1))
		case 6:
			cfg := l.Config()
			cfg.SegmentMS, cfg.FlushMS = settings[r.IntN(len(settings))], settings[r.IntN(len(settings))]
			l.SetConfig(cfg)
		case 7:
			_, err = l.Flush()
		case 8:
			switch r.IntN(4) {
			case 0:
				err = l.RaiseStart(l.StartOffset() + r.Int64N(l.EndOffset()-l.StartOffset()+1))
			case 1:
				err = l.Reset(l.EndOffset()+r.Int64N(3), 1)
				delete(next, l)
			case 2:
				err = l.SetLoss(int32(step), l.StartOffset())
			}
		case 9, 10:
			d.now = d.now.Add([]time.Duration{0, time.Millisecond, time.Second, 2 * time.Minute, time.Hour}[r.IntN(5)])
			d.Tick(d.now)
			for _, l := range logs {
				if what := overdue(l, d.now); what != "" {
					t.Fatalf("step %d, partition %d: %s", step, l.id.Partition, what)
				}
			}
		case 11:
			err = d.Checkpoint()
			told, derr := decodeHints(content(t, d.mem, "data/"+hintsFile))
			if derr != nil {
				t.Fatal(derr)
			}
			for _, l := range logs {
				want := hint{topic: "t", id: l.id, hw: l.HighWatermark(), flushed: l.FlushedOffset(), generation: l.start.Load().generation}
				if told[l.id] != want {
					t.Fatalf("step %d: the checkpoint says %+v, the log %+v", step, told[l.id], want)
				}
				if base := l.view.Load().active().base; l.FlushedOffset() < base {
					t.Fatalf("step %d, partition %d: flushed to %d, sealed segments end at %d", step, l.id.Partition, l.FlushedOffset(), base)
				}
			}
		}
		if err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
	}
}

// TestDir_KafkasFilesFollowTheLastChange: they are written more rarely than ours, and the last change reaches them
// though nothing comes after it.
func TestDir_KafkasFilesFollowTheLastChange(t *testing.T) {
	d := newTestDir(t)
	l := d.create(0, testConfig())
	appendN(t, l, 1, 3)
	for range 2 {
		l.SetHighWatermark(l.HighWatermark() + 2)
		if err := d.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	d.now = d.now.Add(kafkaInterval)
	if err := d.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	rows, err := decodeOffsets(content(t, d.mem, "data/"+hwFile))
	if err != nil || rows[l.tp] != 4 {
		t.Fatalf("high watermark %d of 4, %v", rows[l.tp], err)
	}
}

// TestDir_IdleLogsHaveNoAppointment: what nobody writes to is looked at once and then left alone; a deleted log as well.
func TestDir_IdleLogsHaveNoAppointment(t *testing.T) {
	d := newTestDir(t)
	var logs []*Log
	for p := range int32(20) {
		logs = append(logs, d.create(p, testConfig()))
	}
	appendN(t, logs[0], 1, 1)
	d.Tick(d.now)
	if err := d.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if len(d.agenda.due) != 1 || d.agenda.due[0] != logs[0] || len(d.agenda.noted) != 0 {
		t.Fatalf("%d appointments, %d noted", len(d.agenda.due), len(d.agenda.noted))
	}
	if err := d.Delete(logs[0]); err != nil {
		t.Fatal(err)
	}
	if len(d.agenda.due) != 0 {
		t.Fatal("a deleted log has an appointment")
	}
}

// BenchmarkIdleDuties is one second of the duties of a node with many idle logs: two Ticks and a fifth of a Checkpoint.
func BenchmarkIdleDuties(b *testing.B) {
	for _, n := range []int32{100, 10_000} {
		b.Run(fmt.Sprintf("logs=%d", n), func(b *testing.B) {
			dir, err := OpenDir(vfs.NewMem(time.Now), "data", DirOptions{NodeID: 1})
			if err != nil {
				b.Fatal(err)
			}
			defer dir.Close()
			for p := range n {
				l, err := dir.Create("t", testID(p), DefaultLogConfig())
				if err != nil {
					b.Fatal(err)
				}
				batch, h := batchOf(1, 10, 1_700_000_000_000)
				if _, err := l.Append(batch, &h, 1, false); err != nil {
					b.Fatal(err)
				}
			}
			now := time.Now()
			for i := 0; b.Loop(); i++ {
				now = now.Add(500 * time.Millisecond)
				dir.Tick(now)
				dir.Tick(now)
				if i%5 == 0 {
					if err := dir.Checkpoint(); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
