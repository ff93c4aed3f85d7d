package harness

import (
	"os"
	"time"

	"cordwood/logstore/vfs"
)

// SetClock lets the node's wall clock stand so far ahead of the machine's, behind it where d is negative: within 50 ms of its
// next look, and when it starts. It needs dev_mode.
func (n *Node) SetClock(d time.Duration) error {
	name := vfs.ClockFile(n.DataDir())
	// The node may read at any moment: it finds the old offset or the new one.
	if err := os.WriteFile(name+".new", []byte(d.String()+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
