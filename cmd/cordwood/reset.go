package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"cordwood/logstore/vfs"
)

// lockFile is what a node locks in its data directory while it runs.
const lockFile = ".lock"

func newResetCommand(a *app) *cobra.Command {
	var dir string
	var yes bool
	cmd := &cobra.Command{Use: "reset --data DIR", Short: "Wipe the data directory of a stopped node", Args: takes(0, 0, "no arguments"),
		Long: "Delete everything in the data directory of a node that does not run. When the node starts again it is a new one to\n" +
			"its cluster: it gets its partitions anew from the other replicas.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return usage("say which directory: --data DIR")
			}
			return a.reset(cmd.Context(), dir, yes)
		}}
	cmd.Flags().StringVar(&dir, "data", "", "The node's data directory (node.data_dir)")
	cmd.Flags().BoolVar(&yes, "yes", false, "Do not ask")
	return cmd
}

func (a *app) reset(ctx context.Context, dir string, yes bool) error {
	disk := vfs.OS{}
	about, err := describeData(disk, dir)
	if err != nil {
		return err
	}
	lock, err := disk.Lock(filepath.Join(dir, lockFile))
	if errors.Is(err, vfs.ErrLocked) {
		return &failure{code: exitRefused, err: fmt.Errorf("%s is in use by a running node", dir), hint: "stop the node first"}
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", dir, err)
	}
	defer lock.Close()
	if err := a.confirm(ctx, yes, fmt.Sprintf("deleting %s in %s", about, dir)); err != nil {
		return err
	}
	entries, err := disk.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read %s: %w", dir, err)
	}
	// The properties go last: what is left of an interrupted reset is still known as a node's directory.
	for _, last := range []bool{false, true} {
		for _, e := range entries {
			if e.Name() == lockFile || (e.Name() == propertiesFile) != last {
				continue
			}
			if err := disk.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("delete %s: %w", filepath.Join(dir, e.Name()), err)
			}
		}
	}
	if err := disk.SyncDir(dir); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	fmt.Fprintf(a.out, "deleted %s in %s\n", about, dir)
	return nil
}

const (
	propertiesFile = "meta.properties"
	propertiesMax  = 64 << 10
)

// describeData says whose data a directory holds, and refuses one that is no node's.
func describeData(disk vfs.FS, dir string) (string, error) {
	f, err := disk.Open(filepath.Join(dir, propertiesFile))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := disk.Stat(dir); err != nil {
			return "", &failure{code: exitNotFound, err: err}
		}
		return "", &failure{code: exitRefused, err: fmt.Errorf("%s is not a node's data directory: it has no %s", dir, propertiesFile)}
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	properties := map[string]string{}
	for sc := bufio.NewScanner(io.NewSectionReader(f, 0, propertiesMax)); sc.Scan(); {
		if k, v, ok := strings.Cut(sc.Text(), "="); ok {
			properties[k] = v
		}
	}
	about := "the data of node " + dash(properties["node.id"])
	if id := properties["cluster.id"]; id != "" {
		about += " of cluster " + id
	}
	return about, nil
}
