package logstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"cordwood/logstore/record"
)

// Session is one life of the process on its log directory, as registration tells it to the controller.
type Session struct {
	Incarnation string // drawn at this start
	DirectoryID string // drawn when the directory was first used
	// Earlier are the incarnations before, the newest first, back to the last that is known to have registered.
	Earlier []EarlierIncarnation
	// CleanFlag says that the process before shut down in order. Whether the logs are as it left them is
	// Inspection.Clean.
	CleanFlag bool
	// BootKnown says that the boot id of the machine could be read.
	BootKnown bool
}

// EarlierIncarnation is a former life of the process.
type EarlierIncarnation struct {
	ID       string
	SameBoot bool // the machine has not been started anew since
}

// session is the content of session.json.
type session struct {
	Version      int           `json:"version"` // 1
	DirectoryID  string        `json:"directoryId"`
	Incarnations []incarnation `json:"incarnations"` // newest first
	Clean        bool          `json:"clean"`
	Logs         []sessionLog  `json:"logs,omitempty"` // when clean
}

type incarnation struct {
	ID     string `json:"id"`
	BootID string `json:"bootId,omitempty"` // empty: it could not be read
}

// sessionLog is what a clean shutdown writes down of one log.
type sessionLog struct {
	Topic     string         `json:"topic"`
	TopicID   record.TopicID `json:"topicId"`
	Partition int32          `json:"partition"`
	End       int64          `json:"end"`
	Size      int64          `json:"size"` // bytes of all its segments
}

// errSession says that session.json breaks its format.
var errSession = errors.New("session file breaks its format")

func decodeSession(b []byte) (session, error) {
	var s session
	if err := json.Unmarshal(b, &s); err != nil {
		return session{}, fmt.Errorf("%w: %w", errSession, err)
	}
	if s.Version != 1 {
		return session{}, fmt.Errorf("%w: version %d", errSession, s.Version)
	}
	if s.DirectoryID == "" || slices.ContainsFunc(s.Incarnations, func(i incarnation) bool { return i.ID == "" }) {
		return session{}, fmt.Errorf("%w: an id is missing", errSession)
	}
	return s, nil
}

func encodeSession(s session) ([]byte, error) {
	b, err := json.MarshalIndent(s, "", " ")
	return append(b, '\n'), err
}

// incarnationsMax bounds the list while no registration succeeds. The oldest stays: it is the one the controller knows.
const incarnationsMax = 64

// begin makes the session of a new start out of the one before.
func begin(old session, id, bootID string) (session, Session) {
	next := session{Version: 1, DirectoryID: old.DirectoryID, Incarnations: append([]incarnation{{id, bootID}}, old.Incarnations...)}
	if n := len(next.Incarnations); n > incarnationsMax {
		next.Incarnations = append(next.Incarnations[:incarnationsMax-1], next.Incarnations[n-1])
	}
	s := Session{Incarnation: id, DirectoryID: old.DirectoryID, CleanFlag: old.Clean, BootKnown: bootID != ""}
	for _, i := range old.Incarnations {
		s.Earlier = append(s.Earlier, EarlierIncarnation{ID: i.ID, SameBoot: bootID != "" && i.BootID == bootID})
	}
	return next, s
}

// loadSession reads session.json. A file that is missing or unreadable is a directory without a past: the controller
// then takes the restart for one that may have lost anything.
func (d *Dir) loadSession(directoryID string) (session, error) {
	b, err := readFile(d.fs, d.file(sessionFile), smallFileMax)
	if errors.Is(err, fs.ErrNotExist) {
		return session{Version: 1, DirectoryID: directoryID}, nil
	}
	if err != nil {
		return session{}, err
	}
	s, err := decodeSession(b)
	if err != nil || s.DirectoryID != directoryID {
		d.logger.Warn("session file does not fit the directory and counts as lost", "dir", d.path, "err", err)
		return session{Version: 1, DirectoryID: directoryID}, nil
	}
	return s, nil
}

func (d *Dir) writeSession(s session) error {
	b, err := encodeSession(s)
	if err != nil {
		return err
	}
	return replaceFile(d.fs, d.file(sessionFile), b, true)
}
