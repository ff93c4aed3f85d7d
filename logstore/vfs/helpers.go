package vfs

import (
	"errors"
	"fmt"
	"io"
	"path"
)

// ErrTooBig says that a file is larger than its reader allows.
var ErrTooBig = errors.New("file is larger than allowed")

// ReadFile reads a whole file of at most limit bytes; ErrTooBig if it is larger.
func ReadFile(fsys FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	b, err := readAll(f, limit)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}

func readAll(f File, limit int64) ([]byte, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("%d bytes, %d allowed: %w", size, limit, ErrTooBig)
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if errors.Is(err, io.EOF) && n == len(b) {
		err = nil
	}
	return b[:n], err
}

// WriteFile replaces a file atomically and durably: a temporary file beside it is written and synced, renamed over it,
// and the directory is synced. After a crash at any point the name holds the old or the new content, never a mixture.
// One writer at a time per name.
func WriteFile(fsys FS, name string, data []byte) error {
	tmp := name + ".tmp"
	f, err := fsys.Create(tmp)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", tmp, err)
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return err
	}
	return fsys.SyncDir(path.Dir(name))
}
