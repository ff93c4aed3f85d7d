package configs

import (
	"errors"
	"fmt"
	"sort"
	"strings"
)

// ErrInvalid is what every Faults is, for errors.Is.
var ErrInvalid = errors.New("configuration is invalid")

// Fault is one thing that is wrong in the configuration.
type Fault struct {
	File      string // the file, or "" where the fault is in the environment or a flag
	Line, Col int    // from 1; 0 where there is no place
	Origin    string // where File is "": the variable or flag, or "" for a rule over defaults
	Text      string
}

// String is the fault as one line: where: what.
func (f Fault) String() string {
	switch {
	case f.File != "" && f.Line > 0:
		return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Col, f.Text)
	case f.File != "":
		return f.File + ": " + f.Text
	case f.Origin != "":
		return f.Origin + ": " + f.Text
	}
	return f.Text
}

// Faults is everything that is wrong, in the order of the file, then environment and flags. Never empty as an error.
type Faults []Fault

// Error lists the faults, one a line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].String()
	}
	return strings.Join(lines, "\n")
}

// Is makes errors.Is(err, ErrInvalid) hold.
func (f Faults) Is(target error) bool { return target == ErrInvalid }

func (f Faults) sorted() Faults {
	sort.SliceStable(f, func(i, j int) bool {
		a, b := f[i], f[j]
		if (a.File != "") != (b.File != "") {
			return a.File != ""
		}
		if a.Line != b.Line {
			return a.Line < b.Line
		}
		return a.Col < b.Col
	})
	return f
}
