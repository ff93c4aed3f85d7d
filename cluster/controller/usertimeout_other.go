//go:build !linux

package controller

import (
	"net"
	"time"
)

const deadPeerTimeout = 3 * time.Second

// setUserTimeout does nothing here: raft's own RPC timeout remains.
func setUserTimeout(net.Conn, time.Duration) error { return nil }
