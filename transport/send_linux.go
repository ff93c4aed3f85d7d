package transport

import (
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// sendMore writes b and tells the kernel that more follows, so that a header does not become a packet of its own.
func sendMore(c *net.TCPConn, b []byte) error {
	rc, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = rc.Write(func(fd uintptr) bool {
		for len(b) > 0 {
			n, e := unix.SendmsgN(int(fd), b, nil, nil, unix.MSG_MORE|unix.MSG_NOSIGNAL)
			switch e {
			case nil:
				b = b[n:]
			case unix.EINTR:
			case unix.EAGAIN:
				return false // wait until the socket takes more
			default:
				failed = os.NewSyscallError("sendmsg", e)
				return true
			}
		}
		return true
	})
	if failed != nil {
		return failed
	}
	return err
}

// sendFileAt sends n bytes of f from off on, without touching f's position.
func sendFileAt(c *net.TCPConn, f syscall.Conn, off, n int64) error {
	rc, err := c.SyscallConn()
	if err != nil {
		return err
	}
	src, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = src.Control(func(sfd uintptr) { // the file is not closed meanwhile
		werr := rc.Write(func(dfd uintptr) bool {
			for n > 0 {
				m, e := unix.Sendfile(int(dfd), int(sfd), &off, int(n))
				switch {
				case e == unix.EINTR:
				case e == unix.EAGAIN:
					return false
				case e != nil:
					failed = os.NewSyscallError("sendfile", e)
					return true
				case m == 0:
					failed = io.ErrUnexpectedEOF // the file is shorter than promised
					return true
				default:
					n -= int64(m)
				}
			}
			return true
		})
		if failed == nil {
			failed = werr
		}
	})
	if failed != nil {
		return failed
	}
	return err
}
