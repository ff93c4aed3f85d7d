//go:build linux || darwin

package vfs

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"
)

// JournalDir is where a node in development mode keeps the journal of its data directory: beside it.
func JournalDir(dataDir string) string { return cleanDir(dataDir) + ".journal" }

// RulesFile is where a node in development mode looks for fault rules: beside its data directory.
func RulesFile(dataDir string) string { return cleanDir(dataDir) + ".faults.json" }

// ClockFile is where a node in development mode looks for how far its wall clock stands apart: beside its data directory.
func ClockFile(dataDir string) string { return cleanDir(dataDir) + ".clock" }

// WriteRules makes calls of the disk of a node in development mode fail or wait from now on, within 50 ms of its next one.
// No rules end that.
func WriteRules(dataDir string, rules ...Rule) error {
	name := RulesFile(dataDir)
	if len(rules) == 0 {
		if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	b, err := json.Marshal(rules)
	if err != nil {
		return err
	}
	return replaceWatched(name, b)
}

// WriteClock lets the wall clock of a node in development mode stand so far ahead of the machine's, behind it where offset is
// negative: within 50 ms of its next look, and when it starts.
func WriteClock(dataDir string, offset time.Duration) error {
	return replaceWatched(ClockFile(dataDir), []byte(offset.String()+"\n"))
}

// replaceWatched writes a file that the node may read at any moment: it finds the old one or the new one.
func replaceWatched(name string, b []byte) error {
	if err := os.WriteFile(name+".new", b, 0o644); err != nil { //nolint:gosec // the node reads it, as whoever it runs as
		return err
	}
	return os.Rename(name+".new", name)
}

func cleanDir(dir string) string {
	for len(dir) > 1 && dir[len(dir)-1] == '/' {
		dir = dir[:len(dir)-1]
	}
	return dir
}

// Dev is the operating system's file system for a node in development mode: with the journal of JournalDir and the rules
// of RulesFile. warn is told of a bad rules file. The data directory need not exist yet.
func Dev(dataDir string, warn func(error)) (*Fault, error) {
	j, err := OpenJournal(dataDir, JournalDir(dataDir))
	if err != nil {
		return nil, err
	}
	return NewFault(OS{}, FaultOptions{RulesFile: RulesFile(dataDir), Journal: j, Warn: warn}), nil
}
