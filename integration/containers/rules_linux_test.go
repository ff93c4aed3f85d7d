package containers

import (
	"errors"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// ownNetwork is one of the test's own, as a container has it: an error says that this user may not make one.
func ownNetwork(t *testing.T) error {
	t.Helper()
	runtime.LockOSThread() // for good: the thread goes with the test, and its network with it
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	up, err := unix.NewIfreq("lo")
	require.NoError(t, err)
	up.SetUint16(unix.IFF_UP)
	require.NoError(t, unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, up))
	return nil
}

// heard counts how many of a hundred datagrams come through. They are sent and received one by one on loopback, where what
// comes through has come when the call returns.
func heard(t *testing.T) (n int) {
	t.Helper()
	in, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer in.Close()
	out, err := net.Dial("udp4", in.LocalAddr().String())
	require.NoError(t, err)
	defer out.Close()
	for range 100 {
		_, err := out.Write([]byte{1})
		require.NoError(t, err)
	}
	require.NoError(t, in.SetReadDeadline(time.Now().Add(200*time.Millisecond)))
	for {
		if _, _, err := in.ReadFrom(make([]byte, 1)); err != nil {
			return n
		}
		n++
	}
}

// TestRulesKeepOutWhatTheySayAndGoWithoutATrace needs root, and a kernel with nftables.
func TestRulesKeepOutWhatTheySayAndGoWithoutATrace(t *testing.T) {
	if err := ownNetwork(t); errors.Is(err, unix.EPERM) {
		t.Skipf("a network of its own needs root: %v", err)
	} else {
		require.NoError(t, err)
	}
	require.Equal(t, 100, heard(t))
	require.NoError(t, setRules(wishes{Drop: []string{"127.0.0.1"}}))
	require.Zero(t, heard(t))
	require.NoError(t, setRules(wishes{Drop: []string{"10.0.0.1"}, Lose: map[string]int{"10.0.0.2": 100}}), "in place of the former")
	require.Equal(t, 100, heard(t), "others are heard")
	require.NoError(t, setRules(wishes{Lose: map[string]int{"127.0.0.1": 50}}))
	require.InDelta(t, 50, heard(t), 30)
	require.NoError(t, setRules(wishes{Lose: map[string]int{"127.0.0.1": 50}, Drop: []string{"127.0.0.1"}}))
	require.Zero(t, heard(t))
	require.NoError(t, removeRules())
	require.Equal(t, 100, heard(t))
	c, err := nftables.New()
	require.NoError(t, err)
	tables, err := c.ListTables()
	require.NoError(t, err)
	require.Empty(t, tables)
}
