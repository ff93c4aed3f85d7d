package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/logstore/vfs"
)

func TestADemoRemovesWhatKilledDemosLeftAndNothingElse(t *testing.T) {
	parent := t.TempDir()
	running, remove, err := makeDemoDir(parent, false)
	require.NoError(t, err)
	kept, _, err := makeDemoDir(parent, true)
	require.NoError(t, err)
	others := filepath.Join(parent, demoPrefix+"of-somebody")
	require.NoError(t, os.Mkdir(others, 0o755))
	elsewhere := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(elsewhere, demoOwner), nil, 0o644))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(parent, demoPrefix+"link")))
	killed := filepath.Join(parent, demoPrefix+"killed")
	require.NoError(t, os.MkdirAll(filepath.Join(killed, "n1", "orders-0"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(killed, demoOwner), nil, 0o644)) // and nobody holds its lock

	removed, err := removeStaleDemos(parent)
	require.NoError(t, err)
	require.Equal(t, []string{killed}, removed)
	require.NoDirExists(t, killed)
	for _, dir := range []string{running, kept, others, elsewhere} {
		require.DirExists(t, dir)
	}

	_, err = vfs.OS{}.Lock(filepath.Join(running, demoOwner))
	require.ErrorIs(t, err, vfs.ErrLocked)
	require.NoError(t, remove())
	require.NoDirExists(t, running)
}
