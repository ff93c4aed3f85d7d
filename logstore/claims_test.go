package logstore

import (
	"bytes"
	"context"
	"testing"

	"cordwood/logstore/vfs"
)

// TestLog_WhatACutTookNeverStandsAgain, whichever part of what was written since the cut the power takes: the log is always
// one that was written. A memory topic's log is nowhere synced for its records. The process may end at any call of a cut.
func TestLog_WhatACutTookNeverStandsAgain(t *testing.T) {
	for name, cut := range map[string]struct {
		to   int64
		read bool // somebody holds the bytes
	}{
		"inside the active segment": {to: 18},
		"inside a sealed segment":   {to: 6},
		"at a segment's first":      {to: 10},
		"to the start":              {to: 0},
		"under a reader":            {to: 6, read: true},
	} {
		t.Run(name, func(t *testing.T) {
			calls := cutStory(t, cut.to, cut.read, -1, 0)
			if calls < 4 {
				t.Fatalf("%d calls", calls)
			}
			for seed := range uint64(40) {
				for killed := -1; killed < calls; killed++ {
					cutStory(t, cut.to, cut.read, killed, seed)
				}
			}
		})
	}
}

// cutStory cuts a log to an offset, writes other records in a newer epoch, takes the power and checks what is left. The
// process ends at the cut's call of number killed, from 0, with its memory kept. It returns the calls that the cut made.
func cutStory(t *testing.T, to int64, read bool, killed int, seed uint64) (calls int) {
	t.Helper()
	d := newTestDir(t)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	fault := vfs.NewFault(d.mem, vfs.FaultOptions{})
	d.fs = fault
	d.open()
	cfg := testConfig()
	l := d.create(0, cfg)
	appendN(t, l, 1, 12)
	old := readAll(t, l, 0, l.EndOffset(), 1<<20)
	if _, err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	if read {
		info, err := l.Read(0, 1<<20, l.EndOffset(), true)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			for _, s := range info.Spans {
				s.Release()
			}
		}()
	}
	before := fault.Calls(vfs.OpChange)
	if killed >= 0 {
		if err := fault.SetRules(vfs.Rule{Op: vfs.OpChange, Skip: killed, Error: "EIO"}); err != nil {
			t.Fatal(err)
		}
	}
	err := l.Truncate(to)
	calls = int(fault.Calls(vfs.OpChange) - before)
	if killed < 0 && err != nil || killed >= 0 && err == nil {
		t.Fatalf("killed at call %d: %v", killed, err)
	}
	d.fs = nil
	if killed >= 0 {
		l = d.reopen(vfs.CrashKeep, seed, ProcessCrash, cfg)[0]
		if err := l.Truncate(to); err != nil {
			t.Fatal(err)
		}
	}
	appendN(t, l, 2, 9)
	written := readAll(t, l, 0, l.EndOffset(), 1<<20)
	if len(written) <= int(to/2)*len(old)/12 {
		t.Fatal("nothing was written")
	}
	d.mem = d.mem.Crash(vfs.CrashTear, seed)
	d.open()
	in, err := d.Inspect(context.Background(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Damaged where a segment lost its end that others follow: it opens with what comes before.
	if l, err = in.Logs[0].Open(cfg, in.Logs[0].Judge(LossyPower, false)); err != nil {
		t.Fatal(err)
	}
	left := readAll(t, l, 0, l.EndOffset(), 1<<20)
	if !bytes.HasPrefix(written, left) {
		t.Fatalf("cut to %d, killed at call %d, seed %d: epochs %v to %d are none that were ever written", to, killed, seed, *l.epochs.Load(), l.EndOffset())
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return calls
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
