package history

import "errors"

// MaxLine bounds one line of a history file in bytes: the copy of a large log is the longest.
const MaxLine = 64 << 20

var (
	// ErrCut says that lines at the end of a history are missing: its writer was killed, or its file was cut.
	ErrCut = errors.New("the history is cut: its end is missing")
	// ErrNewer says that a newer version of Cordwood wrote the history.
	ErrNewer = errors.New("the history was written by a newer version")
	// ErrNoHistory says that the first line is of something else.
	ErrNoHistory = errors.New("this is no history that cordwood torture has written")
	// ErrLineTooLong says that a line has more than MaxLine bytes.
	ErrLineTooLong = errors.New("line is too long")
	// ErrClosed says that a Writer was closed.
	ErrClosed = errors.New("the history is closed")
)

// line is one line of a file: exactly one of its fields is set. The first is the header, the last is the end.
type line struct {
	Header    *Header    `json:"header,omitempty"`
	Op        *Op        `json:"op,omitempty"`
	Fault     *Fault     `json:"fault,omitempty"`
	Loss      *Loss      `json:"loss,omitempty"`
	Watermark *Watermark `json:"watermark,omitempty"`
	Copy      *Copy      `json:"copy,omitempty"`
	End       *counts    `json:"end,omitempty"`
}

// counts is how many lines of each kind were written, so that a history of which some are gone is not taken for a whole one.
type counts struct {
	Ops        int `json:"ops"`
	Faults     int `json:"faults"`
	Losses     int `json:"losses"`
	Watermarks int `json:"watermarks"`
	Copies     int `json:"copies"`
}

// kinds is how many fields of the line are set.
func (l *line) kinds() int {
	n := 0
	for _, set := range [...]bool{l.Header != nil, l.Op != nil, l.Fault != nil, l.Loss != nil, l.Watermark != nil, l.Copy != nil, l.End != nil} {
		if set {
			n++
		}
	}
	return n
}

func (h *History) counts() counts {
	return counts{len(h.Ops), len(h.Faults), len(h.Losses), len(h.Watermarks), len(h.Copies)}
}
