package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"cordwood/logstore/vfs"
)

// SetRules makes calls of the node's disk fail or wait from now on, within 50 ms of its next one; no rules end that. It needs
// dev_mode.
func (n *Node) SetRules(rules ...vfs.Rule) error {
	name := vfs.RulesFile(n.DataDir())
	if len(rules) == 0 {
		if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	b, err := json.Marshal(rules)
	if err != nil {
		return err
	}
	// The node may read at any moment: it finds the old rules or the new ones.
	if err := os.WriteFile(name+".new", b, 0o644); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
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
