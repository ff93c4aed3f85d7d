package harness

import (
	"time"

	"cordwood/logstore/vfs"
)

// SetClock lets the node's wall clock stand so far ahead of the machine's, behind it where d is negative: within 50 ms of its
// next look, and when it starts. It needs dev_mode.
func (n *Node) SetClock(d time.Duration) error {
	return vfs.WriteClock(n.DataDir(), d)
}
