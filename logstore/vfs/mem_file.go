package vfs

import (
	"io"
	"io/fs"
	"syscall"
	"time"
)

// memFile is an open file of Mem. It goes on reading its content after the name is gone.
type memFile struct {
	fs     *Mem
	node   *memNode
	name   string
	write  bool
	closed bool // guarded by fs.mu
}

func (f *memFile) usable(op string, write bool) error {
	switch {
	case f.closed:
		return pathError(op, f.name, fs.ErrClosed)
	case f.node.dir:
		return pathError(op, f.name, syscall.EISDIR)
	case write && !f.write:
		return pathError(op, f.name, syscall.EBADF)
	}
	return nil
}

func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	if err := f.usable("read", false); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError("read", f.name, syscall.EINVAL)
	}
	if off >= int64(len(f.node.data)) {
		if len(b) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	n := copy(b, f.node.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt writes as much as the capacity allows: like a real disk it may keep a part and report ENOSPC.
func (f *memFile) WriteAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usable("write", true); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError("write", f.name, syscall.EINVAL)
	}
	n, full := len(b), false
	if room := f.fs.room(); room >= 0 {
		if fit := int64(len(f.node.data)) + room - off; fit < int64(n) {
			n, full = int(max(0, fit)), true
		}
	}
	if n > 0 {
		end := off + int64(n)
		if end > int64(len(f.node.data)) {
			f.fs.resize(f.node, end)
		}
		copy(f.node.data[off:end], b)
		f.node.dirty.add(off, end)
		f.node.mtime = f.fs.now()
	}
	if full {
		return n, pathError("write", f.name, syscall.ENOSPC)
	}
	return n, nil
}

// room is the number of bytes that still fit, or -1 without a bound. The caller holds mu.
func (m *Mem) room() int64 {
	if m.capacity == 0 {
		return -1
	}
	return max(0, m.capacity-m.used)
}

// resize sets the length of a file, zeros behind the old end. The caller holds mu.
func (m *Mem) resize(n *memNode, size int64) {
	old := int64(len(n.data))
	if n.links > 0 {
		m.used += size - old
	}
	switch {
	case size < old:
		n.data = n.data[:size]
		n.dirty.add(size, old)
	case size <= int64(cap(n.data)):
		n.data = n.data[:size]
		clear(n.data[old:])
		n.dirty.add(old, size)
	default:
		grown := make([]byte, size, max(size, 2*old))
		copy(grown, n.data)
		n.data = grown
		n.dirty.add(old, size)
	}
	n.mtime = m.now()
}

func (f *memFile) Size() (int64, error) {
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	if f.closed {
		return 0, pathError("stat", f.name, fs.ErrClosed)
	}
	return int64(len(f.node.data)), nil
}

func (f *memFile) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usable("truncate", true); err != nil {
		return err
	}
	if size < 0 {
		return pathError("truncate", f.name, syscall.EINVAL)
	}
	if room := f.fs.room(); room >= 0 && size-int64(len(f.node.data)) > room {
		return pathError("truncate", f.name, syscall.ENOSPC)
	}
	f.fs.resize(f.node, size)
	return nil
}

func (f *memFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usable("sync", false); err != nil {
		return err
	}
	f.node.sync()
	return nil
}

// sync makes the content durable, copying only what changed since the last time.
func (n *memNode) sync() {
	size := len(n.data)
	if size <= len(n.synced) {
		n.synced = n.synced[:size]
	} else {
		n.synced = append(n.synced, n.data[len(n.synced):]...)
	}
	if to := min(n.dirty.to, int64(size)); n.dirty.from < to {
		copy(n.synced[n.dirty.from:to], n.data[n.dirty.from:to])
	}
	n.dirty = extent{}
}

func (f *memFile) Name() string { return f.name }

func (f *memFile) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.closed {
		return pathError("close", f.name, fs.ErrClosed)
	}
	f.closed = true
	return nil
}

type memInfo struct {
	name  string
	size  int64
	dir   bool
	mtime time.Time
}

func infoOf(name string, n *memNode) fs.FileInfo {
	return memInfo{name: name, size: int64(len(n.data)), dir: n.dir, mtime: n.mtime}
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) ModTime() time.Time { return i.mtime }
func (i memInfo) IsDir() bool        { return i.dir }
func (i memInfo) Sys() any           { return nil }
func (i memInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}
