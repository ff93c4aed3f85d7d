package nemesis

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/logstore/record"
)

func TestFlippedBitsAreSeenByWhoChecksAllBatches(t *testing.T) {
	for seed := range uint64(200) {
		name := logFile(t, t.TempDir(), 4)
		before, err := os.ReadFile(name)
		require.NoError(t, err)
		last := len(before) - len(before)/4
		bits, err := flip(seeded(seed), name)
		require.NoError(t, err)
		require.Positive(t, bits)
		after, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, before[last:], after[last:], "the last batch stays")
		if string(before) == string(after) {
			continue // one bit was flipped there and back
		}
		f, err := os.Open(name)
		require.NoError(t, err)
		s := record.Scan(f, 0, int64(len(after)))
		for s.Next() {
		}
		require.NoError(t, f.Close())
		require.ErrorIs(t, s.Err(), record.ErrCorruptBatch, "seed %d", seed)
		require.Less(t, s.Pos, int64(last))
	}
}

func TestALogOfOneBatchIsNotFlipped(t *testing.T) {
	name := logFile(t, t.TempDir(), 1)
	bits, err := flip(seeded(1), name)
	require.NoError(t, err)
	require.Zero(t, bits)
}

func TestACutTakesFewBytesAndMany(t *testing.T) {
	few, many := 0, 0
	for seed := range uint64(200) {
		name := logFile(t, t.TempDir(), 20)
		before, err := os.Stat(name)
		require.NoError(t, err)
		n, err := cut(seeded(seed), name)
		require.NoError(t, err)
		after, err := os.Stat(name)
		require.NoError(t, err)
		require.Positive(t, n)
		require.Equal(t, before.Size()-int64(n), after.Size())
		if n < 50 {
			few++
		}
		if int64(n) > before.Size()/3 {
			many++
		}
	}
	require.Greater(t, few, 40)
	require.Greater(t, many, 10)

	empty := filepath.Join(t.TempDir(), "empty.log")
	require.NoError(t, os.WriteFile(empty, nil, 0o644))
	n, err := cut(seeded(1), empty)
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestOnlyTheNewestSegmentsOfTestedTopicsAreSpoiled(t *testing.T) {
	f := newFake(t, 3, 2, 3)
	dir := f.DataDir(1)
	logFile(t, filepath.Join(dir, "__consumer_offsets-3"), 2)
	logFile(t, filepath.Join(dir, "other-0"), 2)
	logFile(t, filepath.Join(dir, "t-0.abc-delete"), 2)
	logFile(t, filepath.Join(dir, "t-0.abc-stray"), 2)
	newest := filepath.Join(dir, "t-0", "00000000000000000007.log")
	require.NoError(t, os.WriteFile(newest, nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "session.json"), nil, 0o644))

	all, err := NewSite(f, Options{Topics: []string{fakeTopic}}).newestSegments(1)
	require.NoError(t, err)
	require.Equal(t, []string{newest, filepath.Join(dir, "t-1", "00000000000000000000.log")}, all)

	all, err = NewSite(f, Options{}).newestSegments(1)
	require.NoError(t, err)
	require.Contains(t, all, filepath.Join(dir, "other-0", "00000000000000000000.log"))
	for _, name := range all {
		require.NotContains(t, name, "__consumer_offsets")
		require.NotContains(t, name, "abc")
	}
}

func TestAnIndexIsRemovedZeroedOrFlipped(t *testing.T) {
	full := bytes.Repeat([]byte{7}, 64)
	ways := map[string]int{}
	for seed := range uint64(60) {
		name := filepath.Join(t.TempDir(), "00000000000000000000.index")
		require.NoError(t, os.WriteFile(name, full, 0o644))
		n, err := spoilIndex(seeded(seed), name)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		b, err := os.ReadFile(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			ways["removed"]++
		case bytes.Equal(b, make([]byte, 64)):
			ways["zeroed"]++
		default:
			require.NoError(t, err)
			require.Len(t, b, 64)
			require.NotEqual(t, full, b)
			ways["flipped"]++
		}
	}
	require.Len(t, ways, 3)
}
