package logstore

import (
	"testing"

	"github.com/stretchr/testify/require"

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
