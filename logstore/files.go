package logstore

import (
	"fmt"
	"io"
	"path"
	"sync"

	"cordwood/logstore/vfs"
)

// Names of the files of a log directory and of a partition's directory (docs/formats.md).
const (
	lockFile       = ".lock"
	metaFile       = "meta.properties"
	sessionFile    = "session.json"
	hostedFile     = "hosted"
	reserveFile    = "cordwood-reserve"
	hintsFile      = "cordwood-checkpoint"
	flushedFile    = "recovery-point-offset-checkpoint"
	hwFile         = "replication-offset-checkpoint"
	startFile      = "log-start-offset-checkpoint"
	cleanerFile    = "cleaner-offset-checkpoint"
	partitionFile  = "partition.metadata"
	epochFile      = "leader-epoch-checkpoint"
	stateFile      = "cordwood-state"
	cutMark        = "cordwood-cut" // stands while a cut is under way: see beginCut
	logSuffix      = ".log"
	indexSuffix    = ".index"
	timeSuffix     = ".timeindex"
	txnSuffix      = ".txnindex"
	snapshotSuffix = ".snapshot"
	deletedSuffix  = ".deleted" // a segment's file on its way out
	cutSuffix      = ".cut"     // the shorter copy of a segment that readers still hold
	swapSuffix     = ".swap"    // Kafka's compaction
	tmpSuffix      = ".tmp"
	deleteSuffix   = "-delete" // a partition's directory on its way out
	straySuffix    = "-stray"  // a partition's directory that nobody asked for, kept for an operator
)

// pieceMax is the most that is read, checked or written in one step: what fits the processor's cache (limits.md).
const pieceMax = 256 << 10

// replaceFile puts data under name in one step: a temporary file, then a rename. With sync, the content is durable
// before the rename and the rename before the return; without, a crash of the machine may leave the old, the new or no
// content, and a crash of the process the old or the new.
func replaceFile(fsys vfs.FS, name string, data []byte, sync bool) error {
	tmp := name + tmpSuffix
	f, err := fsys.Create(tmp)
	if err != nil {
		return fmt.Errorf("create %s: %w", tmp, err)
	}
	if len(data) > 0 {
		_, err = f.WriteAt(data, 0)
	}
	if err == nil && sync {
		if serr := f.Sync(); serr != nil {
			err = &syncError{serr}
		}
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", tmp, err)
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return fmt.Errorf("rename %s: %w", tmp, err)
	}
	if sync {
		return syncDir(fsys, path.Dir(name))
	}
	return nil
}

// syncError marks a failed fsync: whatever its cause, nothing may be assumed of the bytes and it is never tried again.
type syncError struct{ err error }

func (e *syncError) Error() string { return "sync: " + e.err.Error() }
func (e *syncError) Unwrap() error { return e.err }

func syncDir(fsys vfs.FS, name string) error {
	if err := fsys.SyncDir(name); err != nil {
		return fmt.Errorf("directory %s: %w", name, &syncError{err})
	}
	return nil
}

func syncFile(f vfs.File) error {
	if err := f.Sync(); err != nil {
		return fmt.Errorf("%s: %w", f.Name(), &syncError{err})
	}
	return nil
}

// readFile reads a small file whole; files above limit bytes are refused.
func readFile(fsys vfs.FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("%s: %d bytes, more than %d", name, size, limit)
	}
	b := make([]byte, size)
	if err := readFull(f, b, 0); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}

// readFull fills b from off; io.ErrUnexpectedEOF where the file ends before.
func readFull(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// smallFileMax bounds text files and index files that are read whole.
const smallFileMax = 256 << 20

var bufPool = sync.Pool{New: func() any { b := make([]byte, 4<<10); return &b }}

// getBuf lends a buffer of at least n bytes, which putBuf takes back.
func getBuf(n int) *[]byte {
	b := bufPool.Get().(*[]byte)
	if cap(*b) < n {
		*b = make([]byte, n)
	}
	*b = (*b)[:cap(*b)]
	return b
}

func putBuf(b *[]byte) {
	if cap(*b) <= pieceMax {
		bufPool.Put(b)
	}
}
