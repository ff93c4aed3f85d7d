package nemesis

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestANodeThatRefusesItsDiskIsGivenAnEmptyOne(t *testing.T) {
	for _, name := range []string{"checkpoints", "raftstore", "snapshot"} {
		for seed := range uint64(10) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, 5, 3, 3)
				n := started(t, f, name)
				nodes, _, err := n.Start(t.Context(), seeded(seed))
				require.NoError(t, err)
				f.refuses[nodes[0]] = true
				require.NoError(t, n.Heal(t.Context()))
				require.Equal(t, 1, f.done["wipe"], "that one alone")
				require.NoError(t, f.broken())
				require.Empty(t, f.lost)
			})
		}
	}
}

func TestANodeThatCrashesByItsDiskIsNotHealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, 3, 3, 3)
		n := started(t, f, "raftstore")
		nodes, _, err := n.Start(t.Context(), seeded(1))
		require.NoError(t, err)
		f.refuses[nodes[0]], f.crashes = true, true
		for range 3 {
			require.ErrorContains(t, n.Heal(t.Context()), "it crashed: what it said")
		}
		require.Zero(t, f.done["wipe"])
	})
}

func TestOnlyFilesOfTheKindAreSpoiled(t *testing.T) {
	dir := newFake(t, 3, 1, 3).DataDir(1)
	for want, in := range map[string]func(string) ([]string, error){
		"raft/raft.db": raftStoreIn, "raft/snapshots/2-40-7/meta.json": snapshotsIn, "hosted": checkpointsIn,
	} {
		names, err := in(dir)
		require.NoError(t, err)
		require.Contains(t, names, filepath.Join(dir, want))
		for _, name := range names {
			require.NotContains(t, name, ".tmp")
			require.NotContains(t, name, fakeTopic+"-0")
		}
	}
}

func TestAFileIsRemovedCutOrFlipped(t *testing.T) {
	removed, shorter, flipped := 0, 0, 0
	for seed := range uint64(60) {
		name := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(name, make([]byte, 500), 0o644))
		n, err := spoilFile(seeded(seed), name)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		switch b, err := os.ReadFile(name); {
		case os.IsNotExist(err):
			removed++
		case len(b) < 500:
			shorter++
		default:
			flipped++
		}
	}
	for _, n := range []int{removed, shorter, flipped} {
		require.Greater(t, n, 5)
	}
}
