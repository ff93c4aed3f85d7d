package vfs

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCrashLosesExactlyWhatWasNotSynced(t *testing.T) {
	m := NewMem(nil)
	require.NoError(t, m.MkdirAll("/d"))
	require.NoError(t, m.SyncDir("/"))
	f := make1(t, m, "/d/f", "durable")
	require.NoError(t, f.Sync())

	_, err := m.Crash(CrashLose, 1).Stat("/d/f")
	require.ErrorIs(t, err, fs.ErrNotExist, "its directory was not synced")
	require.NoError(t, m.SyncDir("/d"))
	write(t, f, 7, " and not")
	write(t, f, 0, "D")
	require.Equal(t, "durable", content(t, m.Crash(CrashLose, 1), "/d/f"))

	kept := m.Crash(CrashKeep, 1)
	require.Equal(t, "Durable and not", content(t, kept, "/d/f"))
	require.Equal(t, "durable", content(t, kept.Crash(CrashLose, 1), "/d/f"), "a killed process leaves its bytes unsynced")

	require.NoError(t, f.Truncate(3))
	require.Equal(t, "durable", content(t, m.Crash(CrashLose, 1), "/d/f"))
	require.NoError(t, f.Sync())
	require.Equal(t, "Dur", content(t, m.Crash(CrashLose, 1), "/d/f"))
}

func TestCrashTakesDirectoryOperationsWhole(t *testing.T) {
	for _, mode := range []CrashMode{CrashLose, CrashTear} {
		m := NewMem(nil)
		require.NoError(t, WriteFile(m, "/f", []byte("old")))
		f := make1(t, m, "/f.tmp", "new")
		require.NoError(t, f.Sync())
		require.NoError(t, m.Rename("/f.tmp", "/f"))
		seen := map[string]bool{}
		for seed := range uint64(50) {
			seen[content(t, m.Crash(mode, seed), "/f")] = true
		}
		want := map[string]bool{"old": true}
		if mode == CrashTear {
			want["new"] = true
		}
		require.Equal(t, want, seen)
		require.NoError(t, m.SyncDir("/"))
		require.NoError(t, m.Remove("/f"))
		seen = map[string]bool{}
		for seed := range uint64(50) {
			c := m.Crash(mode, seed)
			if _, err := c.Stat("/f"); err == nil {
				require.Equal(t, "new", content(t, c, "/f"))
				seen["there"] = true
			} else {
				seen["gone"] = true
			}
		}
		require.Equal(t, mode == CrashTear, seen["gone"])
		require.True(t, seen["there"])
	}
}

func TestCrashTearsBetweenDurableAndWritten(t *testing.T) {
	m := NewMem(nil)
	f := make1(t, m, "/f", strings.Repeat("a", 1000))
	require.NoError(t, f.Sync())
	require.NoError(t, m.SyncDir("/"))
	write(t, f, 900, strings.Repeat("b", 5000))
	lengths, holes := map[int]bool{}, 0
	for seed := range uint64(200) {
		got := content(t, m.Crash(CrashTear, seed), "/f")
		require.Equal(t, got, content(t, m.Crash(CrashTear, seed), "/f"), "seed %d is repeatable", seed)
		require.GreaterOrEqual(t, len(got), 1000)
		require.LessOrEqual(t, len(got), 5900)
		require.Equal(t, strings.Repeat("a", 900), got[:900], "seed %d: bytes that were not written again are safe", seed)
		lengths[len(got)] = true
		if strings.Contains(got, "\x00b") {
			holes++
		}
	}
	require.Greater(t, len(lengths), 30)
	require.Positive(t, holes, "sectors reach the disk in any order")
}

// TestCrashAgreesWithAModel drives random calls and compares every crash that loses with what a plain map remembers
// at each sync.
func TestCrashAgreesWithAModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range 200 {
		m := NewMem(nil)
		names, durableNames := map[string]int{}, map[string]int{} // name → file number
		now, durable := map[int]string{}, map[int]string{}        // file number → content
		open := map[int]File{}
		for step := range 60 {
			name := fmt.Sprintf("/f%d", rng.IntN(4))
			id, exists := names[name]
			switch op := rng.IntN(7); {
			case !exists:
				id = len(now)
				f, err := m.OpenReadWrite(name)
				require.NoError(t, err)
				names[name], now[id], durable[id], open[id] = id, "", "", f
			case op == 0:
				off, b := rng.IntN(900), strings.Repeat(string(rune('a'+step%26)), rng.IntN(900))
				write(t, open[id], int64(off), b)
				if c := now[id]; b != "" {
					c += strings.Repeat("\x00", max(0, off+len(b)-len(c)))
					now[id] = c[:off] + b + c[off+len(b):]
				}
			case op == 1:
				size := rng.IntN(1200)
				require.NoError(t, open[id].Truncate(int64(size)))
				c := now[id] + strings.Repeat("\x00", max(0, size-len(now[id])))
				now[id] = c[:size]
			case op == 2:
				require.NoError(t, open[id].Sync())
				durable[id] = now[id]
			case op == 3:
				to := fmt.Sprintf("/f%d", rng.IntN(4))
				require.NoError(t, m.Rename(name, to))
				delete(names, name)
				names[to] = id
			case op == 4:
				require.NoError(t, m.Remove(name))
				delete(names, name)
			case op == 5:
				require.NoError(t, m.SyncDir("/"))
				durableNames = map[string]int{}
				for n, i := range names {
					durableNames[n] = i
				}
			case op == 6:
				require.Equal(t, now[id], content(t, m, name), "round %d step %d", round, step)
			}
			c := m.Crash(CrashLose, 0)
			list, err := c.ReadDir("/")
			require.NoError(t, err)
			require.Len(t, list, len(durableNames))
			for n, i := range durableNames {
				require.Equal(t, durable[i], content(t, c, path.Clean(n)), "round %d step %d %s", round, step, n)
			}
		}
	}
}
