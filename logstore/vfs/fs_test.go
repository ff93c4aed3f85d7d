package vfs

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// onEach runs a test on every file system, since they must be one and the same to their callers.
func onEach(t *testing.T, test func(t *testing.T, fsys FS, dir string)) {
	t.Run("os", func(t *testing.T) { test(t, OS{}, filepath.ToSlash(t.TempDir())) })
	t.Run("mem", func(t *testing.T) {
		m := NewMem(nil)
		require.NoError(t, m.MkdirAll("/data"))
		test(t, m, "/data")
	})
}

func write(t *testing.T, f File, off int64, s string) {
	t.Helper()
	n, err := f.WriteAt([]byte(s), off)
	require.NoError(t, err)
	require.Equal(t, len(s), n)
}

func content(t *testing.T, fsys FS, name string) string {
	t.Helper()
	b, err := ReadFile(fsys, name, 1<<20)
	require.NoError(t, err)
	return string(b)
}

func make1(t *testing.T, fsys FS, name, s string) File {
	t.Helper()
	f, err := fsys.Create(name)
	require.NoError(t, err)
	write(t, f, 0, s)
	return f
}

func TestFilesReadWhatWasWritten(t *testing.T) {
	onEach(t, func(t *testing.T, fsys FS, dir string) {
		f := make1(t, fsys, path.Join(dir, "f"), "hello")
		write(t, f, 7, "w")
		require.NoError(t, f.Sync())
		size, err := f.Size()
		require.NoError(t, err)
		require.EqualValues(t, 8, size)
		require.Equal(t, "hello\x00\x00w", content(t, fsys, path.Join(dir, "f")))

		b := make([]byte, 4)
		n, err := f.ReadAt(b, 6)
		require.Equal(t, io.EOF, err)
		require.Equal(t, "\x00w", string(b[:n]))
		n, err = f.ReadAt(b, 100)
		require.Equal(t, io.EOF, err)
		require.Zero(t, n)

		require.NoError(t, f.Truncate(2))
		require.NoError(t, f.Truncate(4))
		require.Equal(t, "he\x00\x00", content(t, fsys, path.Join(dir, "f")))
		require.Equal(t, path.Join(dir, "f"), f.Name())
		require.NoError(t, f.Close())
		require.ErrorIs(t, f.Close(), fs.ErrClosed)

		g, err := fsys.OpenReadWrite(path.Join(dir, "f"))
		require.NoError(t, err)
		require.Equal(t, "he\x00\x00", content(t, fsys, path.Join(dir, "f")))
		require.NoError(t, g.Close())
		g, err = fsys.Create(path.Join(dir, "f"))
		require.NoError(t, err)
		require.Equal(t, "", content(t, fsys, path.Join(dir, "f")))
		require.NoError(t, g.Close())

		_, err = ReadFile(fsys, path.Join(dir, "f"), 0)
		require.NoError(t, err)
		require.NoError(t, WriteFile(fsys, path.Join(dir, "f"), []byte("whole")))
		require.Equal(t, "whole", content(t, fsys, path.Join(dir, "f")))
		_, err = ReadFile(fsys, path.Join(dir, "f"), 4)
		require.ErrorIs(t, err, ErrTooBig)
		_, err = fsys.Stat(path.Join(dir, "f.tmp"))
		require.ErrorIs(t, err, fs.ErrNotExist)
	})
}

func TestReadOnlyFilesRefuseWrites(t *testing.T) {
	onEach(t, func(t *testing.T, fsys FS, dir string) {
		require.NoError(t, make1(t, fsys, path.Join(dir, "f"), "x").Close())
		f, err := fsys.Open(path.Join(dir, "f"))
		require.NoError(t, err)
		_, err = f.WriteAt([]byte("y"), 0)
		require.Error(t, err)
		require.Error(t, f.Truncate(0))
		require.NoError(t, f.Close())
		require.Equal(t, "x", content(t, fsys, path.Join(dir, "f")))
	})
}

func TestNamesFollowTheirFiles(t *testing.T) {
	onEach(t, func(t *testing.T, fsys FS, dir string) {
		a, b := path.Join(dir, "a"), path.Join(dir, "b")
		_, err := fsys.Open(a)
		require.ErrorIs(t, err, fs.ErrNotExist)
		_, err = fsys.Create(path.Join(dir, "no/such/f"))
		require.ErrorIs(t, err, fs.ErrNotExist)

		f := make1(t, fsys, a, "one")
		require.NoError(t, make1(t, fsys, b, "two").Close())
		require.NoError(t, fsys.Rename(a, b))
		require.Equal(t, "one", content(t, fsys, b))
		_, err = fsys.Stat(a)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorIs(t, fsys.Rename(a, b), fs.ErrNotExist)

		require.NoError(t, fsys.Remove(b))
		require.ErrorIs(t, fsys.Remove(b), fs.ErrNotExist)
		got := make([]byte, 3)
		_, err = f.ReadAt(got, 0)
		require.NoError(t, err, "an open file outlives its name")
		require.Equal(t, "one", string(got))
		require.NoError(t, f.Close())
	})
}

func TestDirectoriesHoldNames(t *testing.T) {
	onEach(t, func(t *testing.T, fsys FS, dir string) {
		sub := path.Join(dir, "x/y")
		require.NoError(t, fsys.MkdirAll(sub))
		require.NoError(t, fsys.MkdirAll(sub))
		for _, name := range []string{"c", "a", "b"} {
			require.NoError(t, make1(t, fsys, path.Join(sub, name), name).Close())
		}
		list, err := fsys.ReadDir(sub)
		require.NoError(t, err)
		require.Len(t, list, 3)
		for i, want := range []string{"a", "b", "c"} {
			require.Equal(t, want, list[i].Name())
			require.False(t, list[i].IsDir())
		}
		require.NoError(t, fsys.SyncDir(sub))
		require.Error(t, fsys.SyncDir(path.Join(dir, "absent")))
		require.ErrorIs(t, fsys.Remove(sub), syscall.ENOTEMPTY)
		require.NoError(t, fsys.Rename(path.Join(dir, "x"), path.Join(dir, "z")))
		require.Equal(t, "a", content(t, fsys, path.Join(dir, "z/y/a")))
		require.Error(t, fsys.MkdirAll(path.Join(dir, "z/y/a/b")), "a file is no directory")
		require.NoError(t, fsys.RemoveAll(path.Join(dir, "z")))
		require.NoError(t, fsys.RemoveAll(path.Join(dir, "z")))
		list, err = fsys.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, list)

		require.NoError(t, make1(t, fsys, path.Join(dir, "f"), "").Close())
		when := time.Unix(1700000000, 0)
		require.NoError(t, fsys.Chtimes(path.Join(dir, "f"), when))
		info, err := fsys.Stat(path.Join(dir, "f"))
		require.NoError(t, err)
		require.True(t, info.ModTime().Equal(when))
	})
}

func TestOneHolderPerLock(t *testing.T) {
	onEach(t, func(t *testing.T, fsys FS, dir string) {
		l, err := fsys.Lock(path.Join(dir, ".lock"))
		require.NoError(t, err)
		_, err = fsys.Lock(path.Join(dir, ".lock"))
		require.ErrorIs(t, err, ErrLocked)
		require.NoError(t, l.Close())
		l, err = fsys.Lock(path.Join(dir, ".lock"))
		require.NoError(t, err)
		require.NoError(t, l.Close())
		_, err = fsys.Stat(path.Join(dir, ".lock"))
		require.NoError(t, err)
	})
}

func TestUsageHasRoom(t *testing.T) {
	onEach(t, func(t *testing.T, fsys FS, dir string) {
		free, total, err := fsys.Usage(dir)
		require.NoError(t, err)
		require.Positive(t, total)
		require.LessOrEqual(t, free, total)
	})
}

func TestOSFilesCanBeSentByTheKernel(t *testing.T) {
	f := make1(t, OS{}, path.Join(filepath.ToSlash(t.TempDir()), "f"), "x")
	defer func() { require.NoError(t, f.Close()) }()
	_, ok := f.(syscall.Conn)
	require.True(t, ok)
}

func TestAFullMemDiskKeepsAPartAndSaysSo(t *testing.T) {
	m := NewMem(nil)
	m.SetCapacity(10)
	f := make1(t, m, "/f", "12345678")
	n, err := f.WriteAt([]byte("abcd"), 8)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, 2, n)
	free, total, err := m.Usage("/")
	require.NoError(t, err)
	require.Zero(t, free)
	require.EqualValues(t, 10, total)
	require.ErrorIs(t, f.Truncate(11), syscall.ENOSPC)
	require.NoError(t, f.Truncate(4))
	write(t, f, 4, "zz")
	require.NoError(t, m.Remove("/f"))
	free, _, err = m.Usage("/")
	require.NoError(t, err)
	require.EqualValues(t, 10, free)
	require.True(t, errors.Is(f.Close(), nil))
}
