package logstore

import (
	"path"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

func TestTheReserveIsGivenOnceAndRefusesAppendsFromThenOn(t *testing.T) {
	d, err := OpenDir(vfs.NewMem(nil), "/data", DirOptions{NodeID: 1, BootID: "b", Reserve: 1 << 16})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	_, _, _, full := d.State()
	require.False(t, full)
	require.True(t, d.FreeReserve(), "there is a reserve to give")
	_, _, _, full = d.State()
	require.True(t, full)
	require.False(t, d.FreeReserve(), "it is given only once")
}

// filledUp has no room until its reserve is removed.
type filledUp struct {
	vfs.FS
	freed bool
}

func (f *filledUp) Create(name string) (vfs.File, error) {
	if !f.freed {
		return nil, syscall.ENOSPC
	}
	return f.FS.Create(name)
}

func (f *filledUp) Remove(name string) error {
	f.freed = f.freed || path.Base(name) == reserveFile
	return f.FS.Remove(name)
}

func (f *filledUp) Usage(string) (free, total int64, err error) { return 0, 1 << 20, nil }

func TestADiskThatWasFilledWhileTheNodeWasDownOpensFromItsReserve(t *testing.T) {
	mem := vfs.NewMem(nil)
	opt := DirOptions{NodeID: 1, BootID: "b", Reserve: 1 << 16}
	d, err := OpenDir(mem, "/data", opt)
	require.NoError(t, err)
	require.NoError(t, d.Close())

	full := &filledUp{FS: mem}
	d, err = OpenDir(full, "/data", opt)
	require.NoError(t, err)
	require.True(t, full.freed)
	require.ErrorIs(t, d.roomForReplicas(), record.ErrDirFull, "it reads and deletes, and takes no records")
	require.NoError(t, d.Close())

	late := &filledUp{FS: mem, freed: true}
	d, err = OpenDir(late, "/data", opt)
	require.NoError(t, err)
	late.freed = false // filled between the opening and the registration
	require.NoError(t, d.Registered())
	require.ErrorIs(t, d.roomForReplicas(), record.ErrDirFull)
	require.NoError(t, d.Close())

	_, err = OpenDir(&filledUp{FS: mem}, "/other", opt)
	require.ErrorIs(t, err, syscall.ENOSPC, "a directory that has no reserve yet does not open")
}
