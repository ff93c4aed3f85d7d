package harness

import (
	"fmt"

	"cordwood/logstore/vfs"
)

// LosePower ends the node as a power cut of its host does: the process is killed, what of the data directory was not
// synced goes by mode and seed, and the boot id changes. The node does not run afterwards. It needs dev_mode, whose journal
// knows what was synced.
func (n *Node) LosePower(mode vfs.CrashMode, seed uint64) (vfs.Dropped, error) {
	if err := n.Kill(); err != nil {
		return vfs.Dropped{}, err
	}
	d, err := vfs.DropUnsynced(n.DataDir(), vfs.JournalDir(n.DataDir()), mode, seed+uint64(n.ID))
	if err != nil {
		return d, fmt.Errorf("node %d loses power: %w", n.ID, err)
	}
	return d, n.Reboot()
}
