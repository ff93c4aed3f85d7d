package sim

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

// TestS33_BitsThatRotAreRepairedFromTheOthers: on the leader, and then on its successor at another place.
func TestS33_BitsThatRotAreRepairedFromTheOthers(t *testing.T) {
	byBoth(t, Setup{}, func(t *testing.T, w *World) {
		x := committed(t, w, 4)
		for _, rot := range []int64{1, 3} {
			leader := w.head().Leader
			w.flip(leader, rot)
			w.scrub(leader)
			require.NotEqual(t, leader, w.head().Leader)
			require.EqualValues(t, -1, w.head().Member(leader).Cert)
			require.NotContains(t, w.head().ISR, leader)
			w.calm()
			require.NotContains(t, []int32{metadata.NoNode, leader}, w.head().Leader)
			require.Equal(t, namesOf(x...), reads(t, w, w.head().Leader))
			require.Equal(t, namesOf(x...), w.names(leader))
			require.True(t, w.trusted(leader))
		}
		noLoss(t, w)
	})
}

// TestS34_WhatACrashLeavesIsCutOrTold: by what the page cache outlived.
func TestS34_WhatACrashLeavesIsCutOrTold(t *testing.T) {
	tails := map[string]func(w *World) []byte{
		"a batch that ends past the file": func(w *World) []byte { b := w.nextBatch(B); return b[:len(b)/2] },
		"a whole batch of wrong checksum": func(w *World) []byte { b := w.nextBatch(B); b[len(b)-1] ^= 1; return b },
		"half a batch and garbage": func(w *World) []byte {
			b := w.nextBatch(B)
			for i := len(b) / 2; i < len(b); i++ {
				b[i] = 0xa5
			}
			return append(b, b...)
		},
	}
	for name, tail := range tails {
		t.Run(name, func(t *testing.T) {
			t.Run("killed", func(t *testing.T) {
				byRule(t, Setup{}, func(t *testing.T, w *World) {
					x := committed(t, w, 3)
					bytes := tail(w)
					w.kill(B)
					w.spoil(B, bytes)
					w.boot(B)
					if name == "a batch that ends past the file" {
						require.Zero(t, w.Counts["damage told"])
						require.True(t, w.trusted(B))
					} else {
						require.Equal(t, 1, w.Counts["damage told"])
						require.False(t, w.trusted(B))
						require.NotContains(t, w.head().ISR, B)
					}
					w.calm()
					require.Equal(t, namesOf(x...), w.names(B))
					require.True(t, w.trusted(B))
				})
			})
			t.Run("power lost", func(t *testing.T) {
				byBoth(t, Setup{}, func(t *testing.T, w *World) {
					x := committed(t, w, 3)
					w.node(B).replica().Flush()
					bytes := tail(w)
					w.power(B)
					w.spoil(B, bytes)
					w.boot(B)
					require.Zero(t, w.Counts["damage told"], "a power loss may leave this")
					require.EqualValues(t, 3, w.end(B))
					require.Equal(t, w.head().Durability == metadata.DurabilityDisk, w.trusted(B))
					w.calm()
					require.Equal(t, namesOf(x...), w.names(B))
					require.True(t, w.trusted(B))
				})
			})
		})
	}
}

// nextBatch is what a node would append next.
func (w *World) nextBatch(id int32) []byte {
	plain := newBatch(99)
	h, _ := record.ParseHeader(plain)
	h.BaseOffset, h.LeaderEpoch = w.end(id), w.head().LeaderEpoch
	return record.AppendBatch(nil, h, plain[record.HeaderSize:])
}

// spoil appends bytes to the newest segment of a node that is down.
func (w *World) spoil(id int32, tail []byte) {
	w.onSegment(id, func(f vfs.File) error {
		size, err := f.Size()
		if err == nil {
			_, err = f.WriteAt(tail, size)
		}
		if err == nil {
			err = f.Sync()
		}
		return err
	})
}

// flip turns a bit of the batch that holds an offset, unseen.
func (w *World) flip(id int32, offset int64) {
	w.onSegment(id, func(f vfs.File) error {
		size, err := f.Size()
		if err != nil {
			return err
		}
		sc := record.Scan(f, 0, size)
		for sc.Next() {
			if sc.Header.BaseOffset <= offset && offset < sc.Header.EndOffset() {
				at, b := sc.Pos+record.HeaderSize+5, []byte{0}
				if _, err := f.ReadAt(b, at); err != nil {
					return err
				}
				b[0] ^= 4
				_, err := f.WriteAt(b, at)
				return err
			}
		}
		return io.ErrUnexpectedEOF
	})
}

func (w *World) onSegment(id int32, do func(f vfs.File) error) {
	f, err := w.node(id).disk.OpenReadWrite("/data/t-0/00000000000000000000.log")
	if err != nil {
		w.fail("open a segment: %v", err)
	}
	if err := do(f); err != nil {
		w.fail("change a segment: %v", err)
	}
	if err := f.Close(); err != nil {
		w.fail("close a segment: %v", err)
	}
}

// scrub reads a node's log through and tells what is found.
func (w *World) scrub(id int32) {
	n := w.node(id)
	l := n.replica().Log()
	if _, err := read(l, l.StartOffset(), l.EndOffset()); err != nil {
		n.m.OnDamage(l, err.Error())
		n.tell()
	}
	w.check()
}

// TestS35_AFullDiskRefusesAndKeepsWhatWasAcknowledged
func TestS35_AFullDiskRefusesAndKeepsWhatWasAcknowledged(t *testing.T) {
	byBoth(t, Setup{}, func(t *testing.T, w *World) {
		x := committed(t, w, 3)
		w.node(A).disk.SetCapacity(1)
		y := w.put(A, all)
		w.settle()
		require.True(t, y.refused())
		require.ErrorIs(t, y.answer.Err, record.ErrDirFull)
		require.EqualValues(t, 3, w.end(A), "no part of the batch stays")
		require.Equal(t, namesOf(x...), w.names(A))
		require.Equal(t, namesOf(x...), reads(t, w, A))
		w.node(A).disk.SetCapacity(0)
		w.pass(5 * time.Second)
		w.node(A).dir.Tick(w.now)
		z := w.put(A, all)
		w.sync(B, C)
		require.True(t, z.acked())
		require.Equal(t, namesOf(append(x, z)...), w.names(A))
	})
}

// TestS36_AFollowerWithAFullDiskHoldsUpNobodyForGood, and under the quorum rule nobody at all.
func TestS36_AFollowerWithAFullDiskHoldsUpNobodyForGood(t *testing.T) {
	byBoth(t, Setup{}, func(t *testing.T, w *World) {
		committed(t, w, 3)
		w.node(C).disk.SetCapacity(1)
		x := w.put(A, all)
		w.sync(B, C)
		require.EqualValues(t, 3, w.end(C))
		require.Equal(t, w.head().Rule == metadata.RuleQuorum, x.acked())
		for range 5 {
			w.sync(B, C)
			w.pass(3 * time.Second)
			w.news()
			w.learn()
		}
		require.NotContains(t, w.head().ISR, C)
		require.True(t, x.acked())
		y := w.put(A, all)
		w.sync(B)
		require.True(t, y.acked())
		w.node(C).disk.SetCapacity(0)
		w.node(C).dir.Tick(w.now)
		w.calm()
		require.Contains(t, w.head().ISR, C)
	})
}

// TestS37_ASlowDiskOfAFollowerCostsTheISRRuleOneLag, and the quorum rule nothing.
func TestS37_ASlowDiskOfAFollowerCostsTheISRRuleOneLag(t *testing.T) {
	byRule(t, Setup{Durability: metadata.DurabilityDisk}, func(t *testing.T, w *World) {
		committed(t, w, 2)
		x := w.put(A, all)
		began, waited, changes := w.now, time.Duration(0), 0
		for k := range 40 { // C's disk takes 5 s, the others' nothing
			for range 3 {
				w.round(B)
				w.round(C)
				w.flushes(A, B)
			}
			if k%10 == 9 {
				w.flushes(C)
			}
			if x.acked() {
				waited = max(waited, w.now.Sub(began))
				x, began = w.put(A, all), w.now
			}
			w.pass(500 * time.Millisecond)
			isr := len(w.head().ISR)
			w.news()
			w.learn()
			if len(w.head().ISR) != isr {
				changes++
			}
		}
		if w.head().Rule == metadata.RuleQuorum {
			require.LessOrEqual(t, waited, 500*time.Millisecond, "a step of this test")
		} else {
			require.LessOrEqual(t, waited, 12*time.Second)
		}
		require.LessOrEqual(t, changes, 4, "in 20 s, at a lag of 10 s")
	})
}
