package vfs

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// durable is what the journal's lines add up to: how much of each file a power cut would leave, and which directory
// operations it would take back. Paths are relative to the data directory, with slashes; "." is the directory itself.
// Files that no line names are durable as they stand. It is plain state without I/O.
type durable struct {
	names   map[string]*durableFile
	handles map[int64]*durableFile
	pending []dirOp // not durable yet, oldest first
	ops     int64   // directory operations and truncations so far; a mark is this number at the beginning of a sync
}

type durableFile struct {
	at        string // where the content is now: a name, a name under kept, or "" when nowhere
	size      int64  // bytes that are durable
	truncated int64  // ops after the last truncation
	low       int64  // smallest length since the last sync; unset (-1) when not truncated since
}

// keptPrefix starts the names of what was removed or replaced but not yet durably so. It is no name of a data directory.
const keptPrefix = "\x00kept/"

func keptName(n int64) string { return keptPrefix + strconv.FormatInt(n, 10) }

// dirOp is one directory operation that can be taken back.
type dirOp struct {
	id   int64
	kind lineKind // lineOpen (a new file), lineMkdir, lineRename, lineRemove
	path string   // as it is once all later operations are taken back
	to   string   // of a rename
	kept int64    // number of what was removed or replaced, 0 if nothing was or it is not kept
	dirs []string // directories whose sync is still missing, by their present names
}

// A line of the journal is its kind and its fields, separated by spaces; names are quoted as in Go.
type lineKind byte

const (
	lineBegin    lineKind = 'B' // a process begins: no file is open
	lineOpen     lineKind = 'O' // handle, path, size before (-1: the file is new), 1 if it was emptied
	lineSync     lineKind = 'S' // handle, size, mark
	lineTruncate lineKind = 'T' // handle, size
	lineClose    lineKind = 'C' // handle
	lineMkdir    lineKind = 'M' // path
	lineRename   lineKind = 'R' // old path, new path, kept
	lineRemove   lineKind = 'U' // path, kept
	lineSyncDir  lineKind = 'D' // path, mark
	lineFile     lineKind = 'F' // path, durable size, truncated, low: of a summary
	lineHandle   lineKind = 'H' // handle, path: of a summary
	linePending  lineKind = 'P' // id, kind, kept, path, to, dirs…: of a summary
	lineOps      lineKind = 'N' // ops: the end of a summary
)

var errLine = errors.New("malformed journal line")

func newDurable() *durable {
	return &durable{names: map[string]*durableFile{}, handles: map[int64]*durableFile{}}
}

// lineFields are the parsed fields of one line: names and numbers in their order.
type lineFields struct {
	names   []string
	numbers []int64
}

func parseLine(s string) (kind lineKind, f lineFields, err error) {
	if s == "" {
		return 0, f, errLine
	}
	kind, s = lineKind(s[0]), s[1:]
	for s != "" {
		if s[0] != ' ' || len(s) < 2 {
			return kind, f, errLine
		}
		s = s[1:]
		if s[0] == '"' {
			q, err := strconv.QuotedPrefix(s)
			if err != nil {
				return kind, f, errLine
			}
			name, err := strconv.Unquote(q)
			if err != nil {
				return kind, f, errLine
			}
			f.names, s = append(f.names, name), s[len(q):]
			continue
		}
		word, _, _ := strings.Cut(s, " ")
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return kind, f, errLine
		}
		f.numbers, s = append(f.numbers, n), s[len(word):]
	}
	return kind, f, nil
}

func (f *lineFields) has(names, numbers int) bool {
	return len(f.names) == names && len(f.numbers) == numbers
}

// apply adds one line. It answers the numbers of kept things that are no longer needed.
func (d *durable) apply(line string) (released []int64, err error) {
	kind, f, err := parseLine(line)
	if err != nil {
		return nil, fmt.Errorf("%w: %q", err, line)
	}
	switch {
	case kind == lineBegin && f.has(0, 0):
		clear(d.handles)
	case kind == lineOpen && f.has(1, 3):
		d.open(f.numbers[0], f.names[0], f.numbers[1], f.numbers[2] != 0)
	case kind == lineSync && f.has(0, 3):
		if file := d.handles[f.numbers[0]]; file != nil {
			file.synced(f.numbers[1], f.numbers[2])
		}
	case kind == lineTruncate && f.has(0, 2):
		d.ops++
		if file := d.handles[f.numbers[0]]; file != nil {
			file.truncate(f.numbers[1], d.ops)
		}
	case kind == lineClose && f.has(0, 1):
		delete(d.handles, f.numbers[0])
	case kind == lineMkdir && f.has(1, 0):
		d.push(dirOp{kind: kind, path: f.names[0], dirs: []string{path.Dir(f.names[0])}})
	case kind == lineRename && f.has(2, 1):
		d.rename(f.names[0], f.names[1], f.numbers[0])
	case kind == lineRemove && f.has(1, 1):
		d.remove(f.names[0], f.numbers[0])
	case kind == lineSyncDir && f.has(1, 1):
		return d.syncDir(f.names[0], f.numbers[0]), nil
	case kind == lineFile && f.has(1, 3):
		d.names[f.names[0]] = &durableFile{at: f.names[0], size: f.numbers[0], truncated: f.numbers[1], low: f.numbers[2]}
	case kind == lineHandle && f.has(1, 1):
		file := d.names[f.names[0]]
		if file == nil {
			file = &durableFile{low: -1}
		}
		d.handles[f.numbers[0]] = file
	case kind == linePending && len(f.names) >= 2 && len(f.numbers) == 3:
		d.pending = append(d.pending, dirOp{id: f.numbers[0], kind: lineKind(f.numbers[1]), kept: f.numbers[2],
			path: f.names[0], to: f.names[1], dirs: f.names[2:]})
	case kind == lineOps && f.has(0, 1):
		d.ops = f.numbers[0]
	default:
		return nil, fmt.Errorf("%w: %q", errLine, line)
	}
	return nil, nil
}

// truncate notes a new length; ops is the number after it.
func (f *durableFile) truncate(size, ops int64) {
	if f.low < 0 || size < f.low {
		f.low = size
	}
	f.size, f.truncated = min(f.size, size), ops
}

// synced notes a sync that began at mark, when the file had size bytes. If the file was truncated meanwhile, only what
// lies below the cut is sure.
func (f *durableFile) synced(size, mark int64) {
	if f.truncated > mark {
		size = max(f.size, min(size, f.low))
	}
	f.size, f.low = size, -1
}

func (d *durable) push(op dirOp) {
	op.id = d.ops
	d.ops++
	d.pending = append(d.pending, op)
}

func (d *durable) open(handle int64, name string, was int64, emptied bool) {
	file := d.names[name]
	if file == nil || was < 0 {
		file = &durableFile{at: name, size: max(0, was), low: -1}
		d.names[name] = file
	}
	if was < 0 {
		d.push(dirOp{kind: lineOpen, path: name, dirs: []string{path.Dir(name)}})
	}
	if emptied {
		d.ops++
		file.truncate(0, d.ops)
	}
	d.handles[handle] = file
}

// moved is name after old became to, for old itself and everything below it.
func moved(name, old, to string) string {
	if name == old {
		return to
	}
	if strings.HasPrefix(name, old+"/") {
		return to + name[len(old):]
	}
	return name
}

// move gives new names to what stands at old and below.
func (d *durable) move(old, to string) {
	next := map[string]*durableFile{}
	for name, file := range d.names {
		if file.at = moved(name, old, to); file.at != name {
			next[file.at] = file
			delete(d.names, name)
		}
	}
	maps.Copy(d.names, next)
}

func (d *durable) rename(old, to string, kept int64) {
	if kept != 0 {
		d.move(to, keptName(kept))
	} else {
		d.forget(to)
	}
	d.move(old, to)
	d.moveDirs(old, to)
	dirs := []string{path.Dir(old), path.Dir(to)}
	d.push(dirOp{kind: lineRename, path: old, to: to, kept: kept, dirs: slices.Compact(dirs)})
}

// moveDirs gives new names to the directories whose sync is awaited.
func (d *durable) moveDirs(old, to string) {
	for _, op := range d.pending {
		for i, dir := range op.dirs {
			op.dirs[i] = moved(dir, old, to)
		}
	}
}

func (d *durable) remove(name string, kept int64) {
	if kept != 0 {
		d.move(name, keptName(kept))
	} else {
		d.forget(name)
	}
	d.moveDirs(name, keptName(kept)) // a directory made later under the same name is another one
	d.push(dirOp{kind: lineRemove, path: name, kept: kept, dirs: []string{path.Dir(name)}})
}

// forget takes away a name and all below it whose content is gone.
func (d *durable) forget(name string) {
	for n, file := range d.names {
		if n == name || strings.HasPrefix(n, name+"/") {
			file.at = ""
			delete(d.names, n)
		}
	}
}

// syncDir makes durable what was done in a directory before the mark.
func (d *durable) syncDir(name string, mark int64) (released []int64) {
	var open []dirOp
	for _, op := range d.pending {
		if op.id < mark {
			op.dirs = slices.DeleteFunc(op.dirs, func(dir string) bool { return dir == name })
		}
		if len(op.dirs) > 0 {
			open = append(open, op)
			continue
		}
		if op.kept != 0 {
			released = append(released, op.kept)
			d.forget(keptName(op.kept))
		}
		open = settle(open, op)
	}
	d.pending = open
	return released
}

// settle fits the older operations that are still open to one that is durable now and will not be taken back before
// them: what it renamed they find under the new name, and what it removed they need not look for. Going back in time,
// its names become what they were before each of the open ones.
func settle(open []dirOp, op dirOp) []dirOp {
	from, to := op.path, op.to
	for i := len(open) - 1; i >= 0; i-- {
		o := open[i]
		switch op.kind {
		case lineRename:
			open[i].path, open[i].to = moved(o.path, from, to), moved(o.to, from, to)
		case lineRemove:
			if strings.HasPrefix(o.path, from+"/") {
				open = slices.Delete(open, i, i+1)
			}
		}
		switch o.kind {
		case lineRename:
			from, to = moved(from, o.to, o.path), moved(to, o.to, o.path)
		case lineMkdir, lineOpen:
			if from == o.path || strings.HasPrefix(from, o.path+"/") {
				return open // what bears these names in older operations is something else
			}
		}
	}
	return open
}

// summary is lines that add up to the same state.
func (d *durable) summary() []byte {
	b := []byte("B\n")
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		f := d.names[name]
		b = appendLine(b, lineFile, name, f.size, f.truncated, f.low)
	}
	for _, op := range d.pending {
		fields := []any{op.id, int64(op.kind), op.kept, op.path, op.to}
		for _, dir := range op.dirs {
			fields = append(fields, dir)
		}
		b = appendLine(b, linePending, fields...)
	}
	for _, h := range slices.Sorted(maps.Keys(d.handles)) {
		b = appendLine(b, lineHandle, h, d.handles[h].at)
	}
	return appendLine(b, lineOps, d.ops)
}

func appendLine(b []byte, kind lineKind, fields ...any) []byte {
	b = append(b, byte(kind))
	for _, f := range fields {
		b = append(b, ' ')
		switch v := f.(type) {
		case string:
			b = strconv.AppendQuote(b, v)
		case int64:
			b = strconv.AppendInt(b, v, 10)
		}
	}
	return append(b, '\n')
}
