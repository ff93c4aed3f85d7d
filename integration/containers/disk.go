package containers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"cordwood/integration/nemesis"
	"cordwood/logstore/vfs"
)

// disks are the nodes' volumes.
type disks struct{ c *Cluster }

var _ nemesis.Disks = disks{}

// Disks implements nemesis.Cluster.
func (c *Cluster) Disks() nemesis.Disks {
	for _, n := range c.nodes {
		if n.root == "" {
			return nil
		}
	}
	return disks{c}
}

func (d disks) at(id int) (n *member, data string, err error) {
	n, err = d.c.member(id)
	if err != nil {
		return nil, "", err
	}
	return n, filepath.Join(n.root, dataName), nil
}

// LosePower implements nemesis.Disks.
func (d disks) LosePower(ctx context.Context, id int, mode vfs.CrashMode, seed uint64) (string, error) {
	n, data, err := d.at(id)
	if err != nil {
		return "", err
	}
	if err := d.c.Kill(ctx, id); err != nil {
		return "", err
	}
	lost, err := vfs.DropUnsynced(data, vfs.JournalDir(data), mode, seed+uint64(id))
	if err != nil {
		return "", fmt.Errorf("node %d loses power: %w", id, err)
	}
	if err := giveBack(n.root); err != nil {
		return "", err
	}
	bytes, holes := int64(0), 0
	for _, c := range lost.Cut {
		bytes, holes = bytes+c.From-c.To, holes+c.Holes
	}
	return fmt.Sprintf("node %d lost %d bytes of %d files and %d sectors, and %d changes of its directories were undone", id, bytes, len(lost.Cut), holes, len(lost.Undone)),
		writeBoot(filepath.Join(n.root, bootName))
}

// giveBack gives files that we made to the volume's owner, whom the node runs as.
func giveBack(root string) error {
	info, err := os.Stat(root)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if its, ok := info.Sys().(*syscall.Stat_t); ok && (its.Uid != owner.Uid || its.Gid != owner.Gid) && e.Name() != bootName {
			return os.Lchown(name, int(owner.Uid), int(owner.Gid))
		}
		return nil
	})
}

// SetRules implements nemesis.Disks.
func (d disks) SetRules(_ context.Context, id int, rules ...vfs.Rule) error {
	_, data, err := d.at(id)
	if err != nil {
		return err
	}
	return vfs.WriteRules(data, rules...)
}

// clocks are the nodes' wall clocks.
type clocks struct{ d disks }

var _ nemesis.Clocks = clocks{}

// Clocks gives what sets the nodes' clocks: a file beside their data directories; nil where these are out of reach.
func (c *Cluster) Clocks() nemesis.Clocks {
	if c.Disks() == nil {
		return nil
	}
	return clocks{disks{c}}
}

// SetOffset implements nemesis.Clocks.
func (k clocks) SetOffset(_ context.Context, id int, by time.Duration) error {
	_, data, err := k.d.at(id)
	if err != nil {
		return err
	}
	return vfs.WriteClock(data, by)
}

// DataDir implements nemesis.Disks.
func (d disks) DataDir(id int) string {
	_, data, err := d.at(id)
	if err != nil {
		return ""
	}
	return data
}

// Wipe implements nemesis.Disks.
func (d disks) Wipe(_ context.Context, id int) error {
	_, data, err := d.at(id)
	if err != nil {
		return err
	}
	if d.c.Running(id) {
		return fmt.Errorf("node %d runs: its volume is not wiped", id)
	}
	return errors.Join(os.RemoveAll(data), os.RemoveAll(vfs.JournalDir(data)))
}

// Data gives a directory of this machine with what a node that does not run has: the volume itself, or a copy of it in dir.
func (c *Cluster) Data(ctx context.Context, id int, dir string) (string, error) {
	n, err := c.member(id)
	if err != nil {
		return "", err
	}
	if n.root != "" {
		return filepath.Join(n.root, dataName), nil
	}
	to := filepath.Join(dir, fmt.Sprint("n", id))
	if _, err := c.d.run(ctx, "cp", n.helper+":"+filepath.Join(n.target, dataName), to); err != nil {
		return "", err
	}
	return to, nil
}
