//go:build !linux

package transport

import (
	"errors"
	"net"
	"syscall"
)

// sendMore writes b; only Linux can be told that more follows.
func sendMore(c *net.TCPConn, b []byte) error {
	_, err := c.Write(b)
	return err
}

// sendFileAt is for Linux; elsewhere file ranges go through a buffer.
func sendFileAt(*net.TCPConn, syscall.Conn, int64, int64) error { return errors.ErrUnsupported }
