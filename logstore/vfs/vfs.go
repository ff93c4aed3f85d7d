// Package vfs is the only road from the project to a disk. It has three implementations: the operating system's files
// (OS), a memory file system that can crash (Mem) and a wrapper that fails or delays calls and keeps a journal of what
// was made durable (Fault). It imports nothing of the project.
package vfs

import (
	"io"
	"io/fs"
	"time"
)

// File is an open file. ReadAt and WriteAt may be called concurrently with each other. A File of the OS file system also
// implements syscall.Conn, for sendfile with an explicit offset.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Size is the present length in bytes.
	Size() (int64, error)
	// Truncate sets the length in bytes; growing fills with zeros.
	Truncate(size int64) error
	// Sync makes content and length durable. After a failed Sync nothing about unsynced bytes may be assumed: the
	// directory goes offline and the call is never repeated.
	Sync() error
	// Name is the path it was opened by.
	Name() string
}

// FS is a file system. Paths are slash-separated and absolute or relative to the process, as the operating system's.
// All methods may be called concurrently. Errors satisfy errors.Is for fs.ErrNotExist and fs.ErrExist, and for
// syscall.ENOSPC, EDQUOT and EIO where those were the cause.
type FS interface {
	// Create opens for reading and writing, emptying a file that exists.
	Create(name string) (File, error)
	// Open opens an existing file for reading only.
	Open(name string) (File, error)
	// OpenReadWrite opens for reading and writing and creates the file if it is not there.
	OpenReadWrite(name string) (File, error)
	// Rename replaces newname atomically. Durable after SyncDir of both parents.
	Rename(oldname, newname string) error
	// Remove removes one file or empty directory.
	Remove(name string) error
	// RemoveAll removes a tree; nil if it is not there.
	RemoveAll(name string) error
	// MkdirAll makes a directory and its parents, mode 0755.
	MkdirAll(name string) error
	// ReadDir lists a directory, sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	// Stat describes one name.
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes the directory's entries (creations, renames, removals) durable.
	SyncDir(name string) error
	// Chtimes sets the modification time.
	Chtimes(name string, mtime time.Time) error
	// Lock takes the exclusive lock on a file, creating it; ErrLocked if another process or holder has it. Closing the
	// result gives it back. The file is never removed.
	Lock(name string) (io.Closer, error)
	// Usage reports the free and total bytes of the file system that holds name.
	Usage(name string) (free, total int64, err error)
}
