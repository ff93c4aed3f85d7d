package controller

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// deadPeerTimeout is how long sent bytes may stay unacknowledged by the peer's kernel. A host that vanished without a
// word is so noticed before raft's own RPC timeout, and the name is resolved anew.
const deadPeerTimeout = 3 * time.Second

func setUserTimeout(conn net.Conn, d time.Duration) error {
	t, ok := conn.(*net.TCPConn)
	if !ok {
		return nil // a test's pipe or a wrapper: raft's own timeout remains
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	if err := raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	}); err != nil {
		return err
	}
	return set
}
