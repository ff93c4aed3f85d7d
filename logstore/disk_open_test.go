package logstore

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

// scarce is a disk with little free space.
type scarce struct{ vfs.FS }

func (scarce) Usage(string) (free, total int64, err error) { return 10, 1000, nil }

func TestADirectoryKnowsItsDiskWhenItOpens(t *testing.T) {
	for stop, refused := range map[int64]bool{0: false, 11: true} {
		d, err := OpenDir(scarce{vfs.NewMem(nil)}, "/data", DirOptions{NodeID: 1, BootID: "b", DiskStop: stop})
		require.NoError(t, err)
		free, total, offline, full := d.State()
		require.EqualValues(t, 10, free)
		require.EqualValues(t, 1000, total)
		require.False(t, offline)
		require.Equal(t, refused, full)
		require.Equal(t, refused, errors.Is(d.roomForClients(), record.ErrDirFull))
		require.NoError(t, d.Close())
	}
}
