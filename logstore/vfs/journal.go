//go:build linux || darwin

package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	journalName   = "events"
	keptDir       = "kept"
	journalMost   = 16 << 20  // bytes of lines after the last summary that call for a new one
	keptMost      = 256       // removed things kept, at most
	keptMostBytes = 256 << 20 // and their bytes
)

// Journal writes down what of a data directory was made durable, for DropUnsynced. It lives in a directory of its own
// outside the data directory and, to be able to bring back what was removed, on the same file system (elsewhere removals
// count as durable at once). Every line is one write to the page cache, so it survives the process and not the machine;
// a line follows what it tells, so a process killed in between leaves too little durable, never too much.
//
// It watches what goes through Fault. Stores that open their files themselves are not in it: raft's bolt file and
// snapshots overwrite in place or bring their own files, and DropUnsynced leaves them as they are.
//
// One mutex orders the lines, held over the write of a line: a price that only development mode pays. A nil *Journal
// does nothing.
type Journal struct {
	root string // the data directory, absolute
	dir  string

	mu     sync.Mutex
	file   *os.File
	state  *durable
	lines  int64 // bytes since the last summary
	handle int64
	kept   []keptThing // oldest first
	keptNo int64
}

type keptThing struct{ no, bytes int64 }

// OpenJournal opens the journal in dir for a data directory, making it if it is not there. What the data directory
// holds before its first journal is taken as durable.
func OpenJournal(dataDir, dir string) (*Journal, error) {
	root, err := filepath.Abs(dataDir)
	if err != nil {
		return nil, err
	}
	j := &Journal{root: root, dir: dir}
	if err := os.MkdirAll(filepath.Join(dir, keptDir), 0o755); err != nil {
		return nil, err
	}
	if j.state, err = loadDurable(dir); err != nil {
		return nil, err
	}
	clear(j.state.handles)
	if err := j.sweep(); err != nil {
		return nil, err
	}
	return j, j.summarize()
}

func loadDurable(dir string) (*durable, error) {
	b, err := os.ReadFile(filepath.Join(dir, journalName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	d := newDurable()
	for {
		line, rest, whole := bytes.Cut(b, []byte{'\n'})
		if !whole {
			return d, nil // the process was killed within its last line
		}
		if _, err := d.apply(string(line)); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, journalName), err)
		}
		b = rest
	}
}

// sweep takes up the things still kept and removes those that no pending operation needs.
func (j *Journal) sweep() error {
	needed := map[int64]bool{}
	for _, op := range j.state.pending {
		if op.kept != 0 {
			needed[op.kept] = true
		}
	}
	entries, err := os.ReadDir(filepath.Join(j.dir, keptDir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		n, err := strconv.ParseInt(e.Name(), 10, 64)
		if err == nil && needed[n] {
			j.kept = append(j.kept, keptThing{n, 0})
			j.keptNo = max(j.keptNo, n)
		} else if err := os.RemoveAll(j.keptPath(n)); err != nil {
			return err
		}
	}
	slices.SortFunc(j.kept, func(a, b keptThing) int { return int(a.no - b.no) })
	return nil
}

func (j *Journal) keptPath(n int64) string {
	return filepath.Join(j.dir, keptDir, strconv.FormatInt(n, 10))
}

// summarize replaces the lines so far by fewer that say the same. The caller holds mu or is alone.
func (j *Journal) summarize() error {
	b := j.state.summary()
	name := filepath.Join(j.dir, journalName)
	if err := os.WriteFile(name+".tmp", b, 0o644); err != nil {
		return err
	}
	if err := os.Rename(name+".tmp", name); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	if j.file != nil {
		err = j.file.Close()
	}
	j.file, j.lines = f, 0
	return err
}

// Close closes the journal's file.
func (j *Journal) Close() error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file.Close()
}

// rel is the name relative to the data directory, with slashes; false for what is not in it.
func (j *Journal) rel(name string) (string, bool) {
	if j == nil {
		return "", false
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", false
	}
	rel, err := filepath.Rel(j.root, abs)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

// add writes one line and takes it up.
func (j *Journal) add(kind lineKind, fields ...any) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.addLocked(kind, fields...)
}

func (j *Journal) addLocked(kind lineKind, fields ...any) error {
	line := appendLine(make([]byte, 0, 128), kind, fields...)
	if _, err := j.file.Write(line); err != nil {
		return fmt.Errorf("journal of durable bytes: %w", err)
	}
	j.lines += int64(len(line))
	released, err := j.state.apply(string(line[:len(line)-1]))
	if err != nil {
		return err
	}
	for _, n := range released {
		j.kept = slices.DeleteFunc(j.kept, func(k keptThing) bool { return k.no == n })
		err = errors.Join(err, os.RemoveAll(j.keptPath(n)))
	}
	if err == nil && j.lines > journalMost {
		err = j.summarize()
	}
	return err
}

// mark is the present number of operations, to be taken when a sync begins.
func (j *Journal) mark() int64 {
	if j == nil {
		return 0
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state.ops
}

// opened tells of a file opened for writing: was is its length before, -1 if it is new. It answers the handle by which
// the file goes from now on, 0 for one outside the data directory.
func (j *Journal) opened(name string, was int64, emptied bool) (int64, error) {
	rel, ok := j.rel(name)
	if !ok {
		return 0, nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.handle++
	var flag int64
	if emptied && was >= 0 {
		flag = 1
	}
	return j.handle, j.addLocked(lineOpen, j.handle, rel, was, flag)
}

func (j *Journal) truncated(handle, size int64) error {
	if j == nil || handle == 0 {
		return nil
	}
	return j.add(lineTruncate, handle, size)
}

func (j *Journal) synced(handle, size, mark int64) error {
	return j.add(lineSync, handle, size, mark)
}

func (j *Journal) closed(handle int64) error {
	if j == nil || handle == 0 {
		return nil
	}
	return j.add(lineClose, handle)
}

func (j *Journal) dirSynced(name string, mark int64) error {
	rel, ok := j.rel(name)
	if !ok {
		return nil
	}
	return j.add(lineSyncDir, rel, mark)
}

// keep takes a number for a thing about to be removed, of so many bytes; the oldest things go when there are too many.
func (j *Journal) keep(size int64) (n int64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.keptNo++
	j.kept = append(j.kept, keptThing{j.keptNo, size})
	var total int64
	for _, k := range j.kept {
		total += k.bytes
	}
	for len(j.kept) > 1 && (len(j.kept) > keptMost || total > keptMostBytes) {
		err = errors.Join(err, os.RemoveAll(j.keptPath(j.kept[0].no)))
		total -= j.kept[0].bytes
		j.kept = j.kept[1:]
	}
	return j.keptNo, err
}

// rename does the rename and writes it down; a file that it replaces is kept by a second name.
func (j *Journal) rename(oldname, newname string, do func(string, string) error) error {
	old, okOld := j.rel(oldname)
	to, okTo := j.rel(newname)
	if !okOld || !okTo || old == to {
		return do(oldname, newname)
	}
	var kept int64
	if info, err := os.Lstat(newname); err == nil && info.Mode().IsRegular() {
		if kept, err = j.keep(info.Size()); err != nil {
			return err
		}
		if os.Link(newname, j.keptPath(kept)) != nil {
			kept = 0 // another file system: the old content cannot be kept
		}
	}
	if err := do(oldname, newname); err != nil {
		if kept != 0 {
			err = errors.Join(err, os.Remove(j.keptPath(kept)))
		}
		return err
	}
	return j.add(lineRename, old, to, kept)
}

// remove moves away what is to be removed, so that it can come back, and writes it down. What cannot be moved there is
// removed by do; all says that do takes whole trees.
func (j *Journal) remove(name string, all bool, do func(string) error) error {
	rel, ok := j.rel(name)
	if !ok {
		return do(name)
	}
	info, err := os.Lstat(name)
	if err != nil {
		return do(name)
	}
	if info.IsDir() && !all {
		if entries, err := os.ReadDir(name); err != nil || len(entries) > 0 {
			return do(name) // which refuses
		}
	}
	kept, err := j.keep(sizeOf(name))
	if err != nil {
		return err
	}
	if os.Rename(name, j.keptPath(kept)) != nil {
		if err := do(name); err != nil {
			return err
		}
		kept = 0
	}
	return j.add(lineRemove, rel, kept)
}

// sizeOf is the bytes of a file or tree, as far as they can be told.
func sizeOf(name string) (total int64) {
	_ = filepath.WalkDir(name, func(_ string, e fs.DirEntry, err error) error { //nolint:errcheck // never fails
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				total += info.Size()
			}
		}
		return nil
	})
	return total
}

func (j *Journal) mkdir(name string, inner FS) error {
	rel, ok := j.rel(name)
	if !ok || rel == "." {
		return inner.MkdirAll(name)
	}
	var missing []string
	for p := rel; p != "."; p = path.Dir(p) {
		if _, err := os.Lstat(filepath.Join(j.root, p)); err == nil {
			break
		}
		missing = append(missing, p)
	}
	if err := inner.MkdirAll(name); err != nil {
		return err
	}
	for _, p := range slices.Backward(missing) {
		if err := j.add(lineMkdir, p); err != nil {
			return err
		}
	}
	return nil
}
