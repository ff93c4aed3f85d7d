//go:build linux || darwin

package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Dropped tells what DropUnsynced took. Paths are relative to the data directory.
type Dropped struct {
	Cut    []CutFile
	Undone []string // directory operations taken back, the newest first: "create x", "rename x to y" …
}

// CutFile is a file that lost bytes that were not synced.
type CutFile struct {
	Path     string
	From, To int64 // length before and after
	Holes    int   // sectors below To that were never written (CrashTear)
}

// DropUnsynced gives a data directory the state in which a power cut would have left it, after the process that used it
// was killed: bytes and directory operations that the journal does not know to be durable go, all of them (CrashLose)
// or some by chance (CrashTear). Nothing may have the directory open. The same directory, journal, mode and seed give
// the same result. Afterwards all that is left counts as durable.
//
// What was overwritten in place keeps its new bytes, as if they had reached the disk just in time. Files that are not
// opened through Fault, raft's bolt store and snapshots among them, are left out.
func DropUnsynced(dataDir, journalDir string, mode CrashMode, seed uint64) (Dropped, error) {
	var out Dropped
	if mode != CrashLose && mode != CrashTear {
		return out, errors.New("drop unsynced bytes: nothing is lost when only the process ends")
	}
	d, err := loadDurable(journalDir)
	if err != nil {
		return out, err
	}
	p := &dropper{state: d, root: dataDir, journal: journalDir, rng: rand.New(rand.NewPCG(seed, uint64(mode))), tear: mode == CrashTear}
	for _, name := range sortedFiles(d.names) {
		if err := p.cut(d.names[name], &out); err != nil {
			return out, err
		}
	}
	keep := 0
	if p.tear {
		keep = p.rng.IntN(len(d.pending) + 1)
	}
	for _, op := range slices.Backward(d.pending[keep:]) {
		if err := p.undo(op); err != nil {
			return out, fmt.Errorf("take back %s: %w", op, err)
		}
		out.Undone = append(out.Undone, op.String())
	}
	if err := os.WriteFile(filepath.Join(journalDir, journalName), newDurable().summary(), 0o644); err != nil {
		return out, err
	}
	return out, os.RemoveAll(filepath.Join(journalDir, keptDir))
}

func sortedFiles(m map[string]*durableFile) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

type dropper struct {
	state         *durable
	root, journal string
	rng           *rand.Rand
	tear          bool
}

// real is where a name of the journal is on the disk.
func (p *dropper) real(name string) string {
	if rest, ok := strings.CutPrefix(name, keptPrefix); ok {
		return filepath.Join(p.journal, keptDir, rest)
	}
	return filepath.Join(p.root, name)
}

func (p *dropper) cut(file *durableFile, out *Dropped) error {
	name := p.real(file.at)
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	size := info.Size()
	if !info.Mode().IsRegular() || size <= file.size {
		return nil
	}
	c := CutFile{Path: file.at, From: size, To: file.size}
	if p.tear {
		c.To += p.rng.Int64N(size - file.size + 1)
		if c.Holes, err = p.holes(name, file.size, c.To); err != nil {
			return err
		}
	}
	out.Cut = append(out.Cut, c)
	return os.Truncate(name, c.To)
}

// holes zeroes, in one file of four, about one in four of the sectors that lie wholly between from and to.
func (p *dropper) holes(name string, from, to int64) (n int, err error) {
	if p.rng.IntN(4) != 0 {
		return 0, nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	for at := (from + sector - 1) / sector * sector; at+sector <= to && err == nil; at += sector {
		if p.rng.IntN(4) == 0 {
			n++
			_, err = f.WriteAt(make([]byte, sector), at)
		}
	}
	return n, errors.Join(err, f.Close())
}

// removeKnown removes a file or a tree, but no file that the journal does not know and no directory that holds one.
func (p *dropper) removeKnown(name string) error {
	known := map[string]bool{}
	for _, f := range p.state.names {
		known[p.real(f.at)] = true
	}
	var dirs []string
	err := filepath.WalkDir(name, func(at string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case e.IsDir():
			dirs = append(dirs, at)
			return nil
		case at == name || known[at]:
			return os.Remove(at)
		}
		return nil
	})
	for _, dir := range slices.Backward(dirs) {
		if rerr := os.Remove(dir); rerr != nil && !errors.Is(rerr, syscall.ENOTEMPTY) {
			err = errors.Join(err, rerr)
		}
	}
	return err
}

func (o dirOp) String() string {
	switch o.kind {
	case lineRename:
		return "rename " + o.path + " to " + o.to
	case lineRemove:
		return "remove " + o.path
	case lineMkdir:
		return "mkdir " + o.path
	}
	return "create " + o.path
}

// undo takes one operation back; all later ones are taken back already. Something missing is no fault: the process was
// killed before the line that tells where it went.
func (p *dropper) undo(o dirOp) error {
	var err error
	switch o.kind {
	case lineOpen:
		err = os.Remove(p.real(o.path))
	case lineMkdir:
		return p.removeKnown(p.real(o.path))
	case lineRename:
		err = p.rename(o.to, o.path)
		if err == nil && o.kept != 0 {
			err = p.rename(keptName(o.kept), o.to)
		}
	case lineRemove:
		if o.kept != 0 {
			err = p.rename(keptName(o.kept), o.path)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (p *dropper) rename(from, to string) error {
	if err := os.Rename(p.real(from), p.real(to)); err != nil {
		return err
	}
	p.state.move(from, to)
	return nil
}
