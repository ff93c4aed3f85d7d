package vfs

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Mem is a file system in memory that can crash. It tells apart what was made durable from what was only written: a
// file's bytes become durable with its Sync, a directory's entries with SyncDir of that directory. It is stricter than
// most real file systems, where a file's Sync also keeps its entry. Safe for concurrent use; one mutex guards it all.
type Mem struct {
	mu       sync.RWMutex
	root     *memNode
	pending  []memChange // changes of entries that are not durable yet, oldest first
	locks    map[string]bool
	capacity int64 // bytes of file content that fit; 0 = no limit
	used     int64
	now      func() time.Time
}

var _ FS = (*Mem)(nil)

// memNode is a file or a directory.
type memNode struct {
	dir   bool
	mtime time.Time
	links int // entries that name it

	data   []byte // what a reader sees
	synced []byte // what survives a power cut
	dirty  extent // bytes of data that may differ from synced

	entries map[string]*memNode // what a reader sees
	durable map[string]*memNode // what survives a power cut
}

// memChange is one directory operation: entries set (nil node: removed). The entries of one operation in one directory
// survive a power cut together or not at all, so a rename is atomic.
type memChange []memEntry

type memEntry struct {
	dir  *memNode
	name string
	node *memNode
}

// extent is a half-open range of bytes; empty when to <= from.
type extent struct{ from, to int64 }

func (e *extent) add(from, to int64) {
	if e.to <= e.from {
		*e = extent{from, to}
		return
	}
	e.from, e.to = min(e.from, from), max(e.to, to)
}

// NewMem makes an empty file system that holds only the root directory. Modification times come from now, or from the
// wall clock if it is nil.
func NewMem(now func() time.Time) *Mem {
	if now == nil {
		now = time.Now
	}
	return &Mem{root: newMemDir(), locks: map[string]bool{}, now: now}
}

func newMemDir() *memNode {
	return &memNode{dir: true, entries: map[string]*memNode{}, durable: map[string]*memNode{}}
}

// SetCapacity bounds the bytes of all files; writes beyond it are cut short with ENOSPC. 0 takes the bound away.
func (m *Mem) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = bytes
}

func cleanPath(name string) string { return path.Clean("/" + name) }

func pathError(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// find returns the node of a clean path, or the error a lookup gives.
func (m *Mem) find(name string) (*memNode, error) {
	n := m.root
	if name == "/" {
		return n, nil
	}
	for part := range strings.SplitSeq(name[1:], "/") {
		if !n.dir {
			return nil, syscall.ENOTDIR
		}
		next := n.entries[part]
		if next == nil {
			return nil, fs.ErrNotExist
		}
		n = next
	}
	return n, nil
}

// parent returns the directory that holds, or would hold, a clean path, and the last part of it.
func (m *Mem) parent(name string) (*memNode, string, error) {
	if name == "/" {
		return nil, "", syscall.EBUSY
	}
	dir, base := path.Split(name)
	p, err := m.find(path.Clean(dir))
	if err == nil && !p.dir {
		err = syscall.ENOTDIR
	}
	return p, base, err
}

// change applies one directory operation and remembers it until it is durable.
func (m *Mem) change(c ...memEntry) {
	for _, e := range c {
		if old := e.dir.entries[e.name]; old != nil {
			m.unlink(old)
		}
		if e.node == nil {
			delete(e.dir.entries, e.name)
		} else {
			e.dir.entries[e.name] = e.node
			e.node.links++
		}
		e.dir.mtime = m.now()
	}
	m.pending = append(m.pending, c)
}

// unlink takes one name from a node. Content without a name no longer counts as used, though open files keep it.
func (m *Mem) unlink(n *memNode) {
	if n.links--; n.links == 0 && !n.dir {
		m.used -= int64(len(n.data))
	}
}

func (m *Mem) open(op, name string, create, truncate, write bool) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, base, err := m.parent(cleanPath(name))
	if err != nil {
		return nil, pathError(op, name, err)
	}
	n := p.entries[base]
	switch {
	case n == nil && !create:
		return nil, pathError(op, name, fs.ErrNotExist)
	case n == nil:
		n = &memNode{mtime: m.now()}
		m.change(memEntry{p, base, n})
	case n.dir && write:
		return nil, pathError(op, name, syscall.EISDIR)
	}
	if truncate {
		m.resize(n, 0)
	}
	return &memFile{fs: m, node: n, name: name, write: write}, nil
}

// Create implements FS.
func (m *Mem) Create(name string) (File, error) { return m.open("create", name, true, true, true) }

// Open implements FS.
func (m *Mem) Open(name string) (File, error) { return m.open("open", name, false, false, false) }

// OpenReadWrite implements FS.
func (m *Mem) OpenReadWrite(name string) (File, error) {
	return m.open("open", name, true, false, true)
}

// Rename implements FS.
func (m *Mem) Rename(oldname, newname string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.rename(cleanPath(oldname), cleanPath(newname))
	if err != nil {
		return pathError("rename", oldname+" to "+newname, err)
	}
	return nil
}

func (m *Mem) rename(from, to string) error {
	fromDir, fromBase, err := m.parent(from)
	if err != nil {
		return err
	}
	n := fromDir.entries[fromBase]
	if n == nil {
		return fs.ErrNotExist
	}
	toDir, toBase, err := m.parent(to)
	if err != nil {
		return err
	}
	if from == to {
		return nil
	}
	if n.dir && strings.HasPrefix(to, from+"/") {
		return syscall.EINVAL
	}
	if old := toDir.entries[toBase]; old != nil {
		switch {
		case old.dir && !n.dir:
			return syscall.EISDIR
		case !old.dir && n.dir:
			return syscall.ENOTDIR
		case len(old.entries) > 0:
			return syscall.ENOTEMPTY
		}
	}
	m.change(memEntry{toDir, toBase, n}, memEntry{fromDir, fromBase, nil})
	return nil
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, base, err := m.parent(cleanPath(name))
	if err != nil {
		return pathError("remove", name, err)
	}
	n := p.entries[base]
	switch {
	case n == nil:
		return pathError("remove", name, fs.ErrNotExist)
	case len(n.entries) > 0:
		return pathError("remove", name, syscall.ENOTEMPTY)
	}
	m.change(memEntry{p, base, nil})
	return nil
}

// RemoveAll implements FS.
func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, base, err := m.parent(cleanPath(name))
	if err != nil || p.entries[base] == nil {
		if errors.Is(err, fs.ErrNotExist) || err == nil {
			return nil
		}
		return pathError("remove", name, err)
	}
	m.removeTree(p, base)
	return nil
}

func (m *Mem) removeTree(p *memNode, base string) {
	n := p.entries[base]
	for _, child := range sortedNames(n.entries) {
		m.removeTree(n, child)
	}
	m.change(memEntry{p, base, nil})
}

func sortedNames(entries map[string]*memNode) []string {
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.root
	for part := range strings.SplitSeq(cleanPath(name)[1:], "/") {
		if part == "" {
			continue // the root itself
		}
		next := n.entries[part]
		if next == nil {
			next = newMemDir()
			next.mtime = m.now()
			m.change(memEntry{n, part, next})
		}
		if !next.dir {
			return pathError("mkdir", name, syscall.ENOTDIR)
		}
		n = next
	}
	return nil
}

// ReadDir implements FS.
func (m *Mem) ReadDir(name string) ([]fs.DirEntry, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.find(cleanPath(name))
	if err == nil && !n.dir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	list := make([]fs.DirEntry, 0, len(n.entries))
	for _, child := range sortedNames(n.entries) {
		list = append(list, fs.FileInfoToDirEntry(infoOf(child, n.entries[child])))
	}
	return list, nil
}

// Stat implements FS.
func (m *Mem) Stat(name string) (fs.FileInfo, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.find(cleanPath(name))
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return infoOf(path.Base(cleanPath(name)), n), nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(cleanPath(name))
	if err == nil && !n.dir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return pathError("syncdir", name, err)
	}
	kept := m.pending[:0]
	for _, c := range m.pending {
		c = slices.DeleteFunc(c, func(e memEntry) bool {
			if e.dir != n {
				return false
			}
			e.persist()
			return true
		})
		if len(c) > 0 {
			kept = append(kept, c)
		}
	}
	clear(m.pending[len(kept):])
	m.pending = kept
	return nil
}

func (e memEntry) persist() {
	if e.node == nil {
		delete(e.dir.durable, e.name)
	} else {
		e.dir.durable[e.name] = e.node
	}
}

// Chtimes implements FS.
func (m *Mem) Chtimes(name string, mtime time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(cleanPath(name))
	if err != nil {
		return pathError("chtimes", name, err)
	}
	n.mtime = mtime
	return nil
}

// Lock implements FS. The lock is of this Mem alone: a crashed copy starts unlocked.
func (m *Mem) Lock(name string) (io.Closer, error) {
	f, err := m.OpenReadWrite(name)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locks[cleanPath(name)] {
		return nil, pathError("lock", name, ErrLocked)
	}
	m.locks[cleanPath(name)] = true
	return &memLock{File: f, fs: m, name: cleanPath(name)}, nil
}

type memLock struct {
	File
	fs   *Mem
	name string
}

func (l *memLock) Close() error {
	if err := l.File.Close(); err != nil {
		return err
	}
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	delete(l.fs.locks, l.name)
	return nil
}

// Usage implements FS. Without a capacity it reports a terabyte.
func (m *Mem) Usage(string) (free, total int64, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	total = m.capacity
	if total == 0 {
		total = 1 << 40
	}
	return max(0, total-m.used), total, nil
}
