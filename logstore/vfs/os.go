//go:build linux || darwin

package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// OS is the operating system's file system. The zero value is ready; it holds no state.
type OS struct{}

var _ FS = OS{}

// osFile adds what File asks for and os.File lacks. Its Sync is fsync on Linux and F_FULLFSYNC on darwin, where plain
// fsync stops at the drive's cache (os.File.Sync sees to both). SyscallConn comes from os.File, for sendfile.
type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func openOS(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, 0o644)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Create implements FS.
func (OS) Create(name string) (File, error) { return openOS(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC) }

// Open implements FS.
func (OS) Open(name string) (File, error) { return openOS(name, os.O_RDONLY) }

// OpenReadWrite implements FS.
func (OS) OpenReadWrite(name string) (File, error) { return openOS(name, os.O_RDWR|os.O_CREATE) }

// Rename implements FS.
func (OS) Rename(oldname, newname string) error { return os.Rename(oldname, newname) }

// Remove implements FS.
func (OS) Remove(name string) error { return os.Remove(name) }

// RemoveAll implements FS.
func (OS) RemoveAll(name string) error { return os.RemoveAll(name) }

// MkdirAll implements FS.
func (OS) MkdirAll(name string) error { return os.MkdirAll(name, 0o755) }

// ReadDir implements FS.
func (OS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

// Stat implements FS.
func (OS) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// SyncDir implements FS.
func (OS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Chtimes implements FS.
func (OS) Chtimes(name string, mtime time.Time) error { return os.Chtimes(name, mtime, mtime) }

// Lock implements FS with flock, which the kernel gives back when the process ends, however it ends.
func (OS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err == nil {
		return f, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
}

// Usage implements FS. Free is what an ordinary user may still fill.
func (OS) Usage(name string) (free, total int64, err error) {
	var st unix.Statfs_t
	for {
		err = unix.Statfs(name, &st)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: name, Err: err}
	}
	return int64(st.Bavail) * int64(st.Bsize), int64(st.Blocks) * int64(st.Bsize), nil //nolint:unconvert // sizes differ by system
}
