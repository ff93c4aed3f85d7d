package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"
	"syscall"
	"time"
)

// rulesEvery is how often the rules file is looked at, at most.
const rulesEvery = 50 * time.Millisecond

// rulesLimit bounds a rules file, in bytes.
const rulesLimit = 1 << 20

// FaultOptions says where Fault takes its rules from and whether it keeps a journal.
type FaultOptions struct {
	// RulesFile is a JSON array of Rule that is read again when it changes; it need not exist. A file that cannot be read
	// as such leaves the old rules in force and is told to Warn.
	RulesFile string
	// Journal, when not nil, learns of everything that was made durable. Fault closes it.
	Journal *Journal
	// Warn is told about a bad rules file; nil for nobody.
	Warn func(error)
}

// Fault wraps a file system: it lets calls fail or wait by rules and keeps the journal from which DropUnsynced knows
// what a power cut would have taken. Files whose bytes leave by sendfile are read past it. Safe for concurrent use.
type Fault struct {
	inner   FS
	opt     FaultOptions
	set     ruleSet
	checked atomic.Int64 // when the rules file was last looked at, unix nanoseconds
	stamp   atomic.Pointer[ruleStamp]
}

type ruleStamp struct {
	size  int64
	mtime time.Time
}

var _ FS = (*Fault)(nil)

// NewFault wraps inner.
func NewFault(inner FS, opt FaultOptions) *Fault {
	f := &Fault{inner: inner, opt: opt}
	f.set.calls = map[Op]int64{}
	return f
}

// Close closes the journal. Files stay as they are.
func (f *Fault) Close() error { return f.opt.Journal.Close() }

// SetRules replaces the rules and starts their counts anew. Rules of the file replace them when it changes next.
func (f *Fault) SetRules(rules ...Rule) error {
	for i := range rules {
		if err := rules[i].check(); err != nil {
			return fmt.Errorf("fault rule %d: %w", i, err)
		}
	}
	f.set.set(rules)
	return nil
}

// Calls is how many calls of a kind were made so far, failed ones included: for tests that fail each in turn.
func (f *Fault) Calls(op Op) (n int64) {
	f.set.mu.Lock()
	defer f.set.mu.Unlock()
	for o, calls := range f.set.calls {
		if op == OpAny || op == o || op == OpChange && knownOps[o] {
			n += calls
		}
	}
	return n
}

// reread takes up a changed rules file.
func (f *Fault) reread() {
	if f.opt.RulesFile == "" {
		return
	}
	now, last := time.Now().UnixNano(), f.checked.Load()
	if now-last < int64(rulesEvery) || !f.checked.CompareAndSwap(last, now) {
		return
	}
	var stamp ruleStamp
	info, err := f.inner.Stat(f.opt.RulesFile)
	if err == nil {
		stamp = ruleStamp{info.Size(), info.ModTime()}
	}
	if old := f.stamp.Swap(&stamp); old == nil && err != nil || old != nil && *old == stamp {
		return
	}
	var rules []Rule
	if err == nil {
		var b []byte
		if b, err = ReadFile(f.inner, f.opt.RulesFile, rulesLimit); err == nil {
			rules, err = ParseRules(b)
		}
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		f.set.set(rules)
	} else if f.opt.Warn != nil {
		f.opt.Warn(err)
	}
}

// before waits as the rules say and answers the error that the call shall have, nil to go on.
func (f *Fault) before(op Op, name string) (short int, err error) {
	f.reread()
	v := f.set.judge(op, name)
	if v.delay > 0 {
		time.Sleep(v.delay)
	}
	if v.err == nil {
		return 0, nil
	}
	return v.short, &fs.PathError{Op: string(op), Path: name, Err: v.err}
}

func (f *Fault) open(op Op, name string, open func(string) (File, error)) (File, error) {
	if _, err := f.before(op, name); err != nil {
		return nil, err
	}
	var was int64 = -1 // bytes of a file that was there before
	if op != OpOpen {
		if info, err := f.inner.Stat(name); err == nil {
			was = info.Size()
		}
	}
	inner, err := open(name)
	if err != nil {
		return nil, err
	}
	file := &faultFile{File: inner, fs: f}
	if op != OpOpen {
		if file.handle, err = f.opt.Journal.opened(name, was, op == OpCreate); err != nil {
			return nil, errors.Join(err, inner.Close())
		}
	}
	if conn, ok := inner.(syscall.Conn); ok {
		return &faultConn{faultFile: file, Conn: conn}, nil
	}
	return file, nil
}

// Create implements FS.
func (f *Fault) Create(name string) (File, error) { return f.open(OpCreate, name, f.inner.Create) }

// Open implements FS.
func (f *Fault) Open(name string) (File, error) { return f.open(OpOpen, name, f.inner.Open) }

// OpenReadWrite implements FS.
func (f *Fault) OpenReadWrite(name string) (File, error) {
	return f.open(OpOpenRW, name, f.inner.OpenReadWrite)
}

// Rename implements FS. Rules see the old name.
func (f *Fault) Rename(oldname, newname string) error {
	if _, err := f.before(OpRename, oldname); err != nil {
		return err
	}
	return f.opt.Journal.rename(oldname, newname, f.inner.Rename)
}

// Remove implements FS.
func (f *Fault) Remove(name string) error {
	if _, err := f.before(OpRemove, name); err != nil {
		return err
	}
	return f.opt.Journal.remove(name, false, f.inner.Remove)
}

// RemoveAll implements FS.
func (f *Fault) RemoveAll(name string) error {
	if _, err := f.before(OpRemoveAll, name); err != nil {
		return err
	}
	return f.opt.Journal.remove(name, true, f.inner.RemoveAll)
}

// MkdirAll implements FS.
func (f *Fault) MkdirAll(name string) error {
	if _, err := f.before(OpMkdir, name); err != nil {
		return err
	}
	return f.opt.Journal.mkdir(name, f.inner)
}

// ReadDir implements FS.
func (f *Fault) ReadDir(name string) ([]fs.DirEntry, error) {
	if _, err := f.before(OpReadDir, name); err != nil {
		return nil, err
	}
	return f.inner.ReadDir(name)
}

// Stat implements FS.
func (f *Fault) Stat(name string) (fs.FileInfo, error) {
	if _, err := f.before(OpStat, name); err != nil {
		return nil, err
	}
	return f.inner.Stat(name)
}

// SyncDir implements FS.
func (f *Fault) SyncDir(name string) error {
	if _, err := f.before(OpSyncDir, name); err != nil {
		return err
	}
	mark := f.opt.Journal.mark()
	if err := f.inner.SyncDir(name); err != nil {
		return err
	}
	return f.opt.Journal.dirSynced(name, mark)
}

// Chtimes implements FS.
func (f *Fault) Chtimes(name string, mtime time.Time) error {
	if _, err := f.before(OpChtimes, name); err != nil {
		return err
	}
	return f.inner.Chtimes(name, mtime)
}

// Lock implements FS. The lock file is not part of the journal.
func (f *Fault) Lock(name string) (io.Closer, error) {
	if _, err := f.before(OpLock, name); err != nil {
		return nil, err
	}
	return f.inner.Lock(name)
}

// Usage implements FS.
func (f *Fault) Usage(name string) (free, total int64, err error) {
	if _, err := f.before(OpUsage, name); err != nil {
		return 0, 0, err
	}
	return f.inner.Usage(name)
}

// faultFile is an open file. handle is its number in the journal, 0 for one that is only read.
type faultFile struct {
	File
	fs     *Fault
	handle int64
}

// faultConn is a faultFile whose inner file can be sent by the kernel.
type faultConn struct {
	*faultFile
	syscall.Conn
}

func (f *faultFile) ReadAt(b []byte, off int64) (int, error) {
	if _, err := f.fs.before(OpRead, f.Name()); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, off)
}

func (f *faultFile) WriteAt(b []byte, off int64) (int, error) {
	short, err := f.fs.before(OpWrite, f.Name())
	if err == nil {
		return f.File.WriteAt(b, off)
	}
	if short > 0 {
		n, werr := f.File.WriteAt(b[:min(short, len(b))], off)
		return n, errors.Join(err, werr)
	}
	return 0, err
}

func (f *faultFile) Size() (int64, error) {
	if _, err := f.fs.before(OpSize, f.Name()); err != nil {
		return 0, err
	}
	return f.File.Size()
}

func (f *faultFile) Truncate(size int64) error {
	if _, err := f.fs.before(OpTruncate, f.Name()); err != nil {
		return err
	}
	if err := f.File.Truncate(size); err != nil {
		return err
	}
	return f.fs.opt.Journal.truncated(f.handle, size)
}

func (f *faultFile) Sync() error {
	if _, err := f.fs.before(OpSync, f.Name()); err != nil {
		return err
	}
	if f.handle == 0 || f.fs.opt.Journal == nil {
		return f.File.Sync()
	}
	mark := f.fs.opt.Journal.mark()
	size, err := f.File.Size() // before: what is written meanwhile may not be covered
	if err != nil {
		return err
	}
	if err := f.File.Sync(); err != nil {
		return err
	}
	return f.fs.opt.Journal.synced(f.handle, size, mark)
}

func (f *faultFile) Close() error {
	return errors.Join(f.File.Close(), f.fs.opt.Journal.closed(f.handle))
}
