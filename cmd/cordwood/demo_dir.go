package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"cordwood/logstore/vfs"
)

const (
	demoPrefix = "cordwood-demo-"
	// demoOwner is a file in the directory of a demo that does not keep it, locked while the demo runs.
	demoOwner = ".owner"
)

// makeDemoDir makes a directory for a demo's data in parent. remove takes it away; with keep it does nothing.
func makeDemoDir(parent string, keep bool) (dir string, remove func() error, err error) {
	dir, err = os.MkdirTemp(parent, demoPrefix)
	if err != nil || keep {
		return dir, func() error { return nil }, err
	}
	// Locked before it has its name: a demo that starts now must not take this one for dead.
	made := filepath.Join(dir, demoOwner+".new")
	lock, err := vfs.OS{}.Lock(made)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := os.Rename(made, filepath.Join(dir, demoOwner)); err != nil {
		return "", nil, errors.Join(err, lock.Close(), os.RemoveAll(dir))
	}
	return dir, func() error { return errors.Join(os.RemoveAll(dir), lock.Close()) }, nil
}

// clearStale removes what demos and tortures that were killed left, and says so.
func (a *app) clearStale() {
	removed, err := removeStaleDemos(os.TempDir())
	if err != nil {
		a.note("%v", err)
	}
	for _, dir := range removed {
		a.note("removed %s, left by a demo that was killed, or by a torture", dir)
	}
}

// removeStaleDemos removes what demos that were killed left in parent: directories of this user's with a demo's name and
// owner file, whose lock nobody holds. What it cannot look at it leaves alone.
func removeStaleDemos(parent string) (removed []string, err error) {
	dirs, err := filepath.Glob(filepath.Join(parent, demoPrefix+"*"))
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() {
			continue
		}
		if s, ok := info.Sys().(*syscall.Stat_t); !ok || int(s.Uid) != os.Getuid() {
			continue
		}
		if info, err := os.Lstat(filepath.Join(dir, demoOwner)); err != nil || !info.Mode().IsRegular() {
			continue
		}
		lock, err := vfs.OS{}.Lock(filepath.Join(dir, demoOwner))
		if err != nil {
			continue // it runs
		}
		err = errors.Join(os.RemoveAll(dir), lock.Close())
		if err != nil {
			errs = append(errs, fmt.Errorf("remove what a killed demo left: %w", err))
			continue
		}
		removed = append(removed, dir)
	}
	return removed, errors.Join(errs...)
}
