package logstore

import (
	"testing"
	"time"

	"cordwood/logstore/vfs"
)

func TestRetentionClock_BelievesStepsAndTimeThatPassedAndNoJumpAhead(t *testing.T) {
	var c retentionClock
	wall, uptime := time.UnixMilli(1_700_000_000_000), 5*time.Second
	c.at(wall, uptime)
	for i, s := range []struct{ wall, passes, held time.Duration }{
		{time.Hour, time.Hour, 0},             // time passed
		{clockStep, 0, 0},                     // a correction
		{-clockStep, 0, 0},                    // and one back
		{clockStep + 1, 0, clockStep + 1},     // a jump
		{time.Hour, time.Hour, clockStep + 1}, // time goes on, the jump stays
		{-clockStep - 1, 0, 0},                // it is set right
		{-time.Hour, 0, 0},                    // set back: believed
		{time.Hour, 0, 0},                     // and forth again
		{10 * 365 * 24 * time.Hour, 0, 10 * 365 * 24 * time.Hour}, // a dead battery's opposite
		{-11 * 365 * 24 * time.Hour, 0, 0},
	} {
		wall, uptime = wall.Add(s.wall), uptime+s.passes
		now, jumped := c.at(wall, uptime)
		if c.held() != s.held || !now.Equal(wall.Add(-s.held)) {
			t.Errorf("step %d: %v are held, want %v; judged by %v at %v", i, c.held(), s.held, now, wall)
		}
		if by := s.wall - s.passes; (by.Abs() > clockStep) != (jumped == by && by != 0) {
			t.Errorf("step %d: jumped by %v told as %v", i, by, jumped)
		}
	}
}

// TestDir_AWallClockThatJumpsAheadDeletesNothing: only time that passed makes records old, and a start believes the clock.
func TestDir_AWallClockThatJumpsAheadDeletesNothing(t *testing.T) {
	d := &testDir{t: t, now: time.UnixMilli(1_700_000_000_000)}
	d.mem = vfs.NewMem(func() time.Time { return d.now })
	var uptime time.Duration
	d.uptime = func() time.Duration { return uptime }
	d.open()
	cfg := testConfig()
	cfg.RetentionMS, cfg.ProducerExpirationMS = 600_000, 600_000
	l := d.create(0, cfg)
	appendN(t, l, 1, 20)
	l.SetHighWatermark(l.EndOffset())
	tick := func(wall, passes time.Duration) {
		d.now, uptime = d.now.Add(wall), uptime+passes
		d.Tick(d.now)
	}
	tick(0, 0)
	tick(time.Hour, 0)
	if l.StartOffset() != 0 || d.ClockHeld() != time.Hour {
		t.Fatalf("start %d, %v held", l.StartOffset(), d.ClockHeld())
	}
	tick(-time.Hour, 0)
	tick(10*365*24*time.Hour, 0)
	tick(9*time.Minute, 9*time.Minute)
	if l.StartOffset() != 0 {
		t.Fatalf("start %d", l.StartOffset())
	}
	tick(6*time.Minute, 6*time.Minute)
	if l.StartOffset() != l.EndOffset() {
		t.Fatalf("start %d, end %d: what is really old stays", l.StartOffset(), l.EndOffset())
	}
	appendN(t, l, 1, 20)
	l.SetHighWatermark(l.EndOffset())
	if err := d.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	l = d.reopen(vfs.CrashKeep, 1, ProcessCrash, cfg)[0]
	tick(0, 0)
	tick(5*time.Minute, 5*time.Minute)
	if l.StartOffset() != l.EndOffset() || d.ClockHeld() != 0 {
		t.Fatalf("start %d, end %d, %v held after a start", l.StartOffset(), l.EndOffset(), d.ClockHeld())
	}
}

// TestDir_AgesAreJudgedByTheWallClockThatItWasGiven: what the times of Tick tell is how much time passed, and no more.
func TestDir_AgesAreJudgedByTheWallClockThatItWasGiven(t *testing.T) {
	d := &testDir{t: t, now: time.UnixMilli(1_700_000_000_000)}
	d.mem = vfs.NewMem(func() time.Time { return d.now })
	wall := d.now
	d.wall = func() time.Time { return wall }
	d.open()
	cfg := testConfig()
	cfg.RetentionMS = 600_000
	l := d.create(0, cfg)
	appendN(t, l, 1, 20)
	l.SetHighWatermark(l.EndOffset())
	tick := func(by, passes time.Duration) {
		wall, d.now = wall.Add(by), d.now.Add(passes)
		d.Tick(d.now)
	}
	tick(0, 0)
	tick(3*time.Hour, 6*time.Minute)
	if want := 3*time.Hour - 6*time.Minute; l.StartOffset() != 0 || d.ClockHeld() != want {
		t.Fatalf("start %d, %v held, want %v", l.StartOffset(), d.ClockHeld(), want)
	}
	tick(-6*time.Hour, 6*time.Minute) // set back: records live longer
	if l.StartOffset() != 0 || d.ClockHeld() != 0 {
		t.Fatalf("start %d, %v held", l.StartOffset(), d.ClockHeld())
	}
	tick(3*time.Hour+12*time.Minute, 6*time.Minute)
	if l.StartOffset() != l.EndOffset() {
		t.Fatalf("start %d, end %d: what is really old stays", l.StartOffset(), l.EndOffset())
	}
}
