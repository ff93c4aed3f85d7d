//go:build linux || darwin

package vfs

// JournalDir is where a node in development mode keeps the journal of its data directory: beside it.
func JournalDir(dataDir string) string { return cleanDir(dataDir) + ".journal" }

// RulesFile is where a node in development mode looks for fault rules: beside its data directory.
func RulesFile(dataDir string) string { return cleanDir(dataDir) + ".faults.json" }

// ClockFile is where a node in development mode looks for how far its wall clock stands apart: beside its data directory.
func ClockFile(dataDir string) string { return cleanDir(dataDir) + ".clock" }

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
