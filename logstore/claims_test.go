package logstore

import (
	"testing"

	"cordwood/logstore/vfs"
)

// TestAClaimOfTheHighWatermarkDiesWithTheBytesItWasMadeOf: a cut that was not made durable and what was written after it
// go with the power; what was there before stands again, and the claim was not made of it. Held against the leader's log
// it would put the replica into quarantine.
func TestAClaimOfTheHighWatermarkDiesWithTheBytesItWasMadeOf(t *testing.T) {
	d := newTestDir(t)
	l := d.create(0, testConfig())
	appendN(t, l, 0, 5)
	if _, err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := l.Truncate(2); err != nil {
		t.Fatal(err)
	}
	appendN(t, l, 1, 4)
	l.SetHighWatermark(8)
	if err := d.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	l = d.reopen(vfs.CrashLose, 1, LossyPower, testConfig())[0]
	if l.EpochAt(4) == 1 {
		t.Fatal("the disk kept what was written after the cut: nothing is shown")
	}
	if hw := l.HighWatermark(); hw > 2 {
		t.Errorf("high watermark %d is claimed of records of epoch %d", hw, l.EpochAt(hw-1))
	}
	if hw := l.RecalledHighWatermark(); hw != 8 {
		t.Errorf("%d is remembered as committed, 8 was", hw)
	}
	// A kill before the next checkpoint must not bring the claim back.
	l = d.reopen(vfs.CrashKeep, 1, ProcessCrash, testConfig())[0]
	if hw := l.HighWatermark(); hw > 2 {
		t.Errorf("high watermark %d after another crash", hw)
	}
}

// TestALogCanBeCutWhereItsFirstBrokenBatchStands, whatever of that batch is broken.
func TestALogCanBeCutWhereItsFirstBrokenBatchStands(t *testing.T) {
	for at := range int64(100) {
		d := newTestDir(t)
		l := d.create(0, testConfig())
		appendN(t, l, 0, 3)
		size := l.Size() / 3
		name := "data/t-0/00000000000000000000.log"
		b := content(t, d.mem, name)
		b[size+at] ^= 0xff
		rewrite(t, d.mem, name, b)
		if err := l.Truncate(2); err != nil {
			t.Fatalf("byte %d: %v", at, err)
		}
		if l.EndOffset() != 2 || l.Size() != size {
			t.Fatalf("byte %d: the log ends at %d with %d bytes, not 2 with %d", at, l.EndOffset(), l.Size(), size)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
