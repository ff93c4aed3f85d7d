package harness

import (
	"fmt"
	"os"

	"cordwood/logstore/vfs"
)

// SetRules makes calls of the node's disk fail or wait from now on, within 50 ms of its next one; no rules end that. It needs
// dev_mode.
func (n *Node) SetRules(rules ...vfs.Rule) error {
	return vfs.WriteRules(n.DataDir(), rules...)
}

// Wipe removes all that the node keeps, as if it came back with a new disk; it must not run.
func (n *Node) Wipe() error {
	if n.Running() {
		return fmt.Errorf("node %d runs: its directory is not wiped", n.ID)
	}
	if err := os.RemoveAll(n.DataDir()); err != nil {
		return err
	}
	return os.RemoveAll(vfs.JournalDir(n.DataDir()))
}
