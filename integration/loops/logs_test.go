//go:build integration

package loops

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/integration/harness"
)

// logLine is what loops read out of a node's log.
type logLine struct {
	Time          time.Time `json:"time"`
	Level         string    `json:"level"`
	Msg           string    `json:"msg"`
	Kind          string    `json:"kind"` // of a metadata event
	Topic         string    `json:"topic"`
	Partition     int       `json:"partition"`
	Broker        int       `json:"broker"`
	MayBeGoneFrom int64     `json:"mayBeGoneFrom"`
	Why           string    `json:"why"`
	Server        string    `json:"server"` // of raft, node id and directory id

	from *harness.Node
	raw  string
}

// logMark remembers how far each node's log goes.
type logMark map[*harness.Node]int64

func markLogs(t *testing.T, c *harness.Cluster) logMark {
	t.Helper()
	m := logMark{}
	for _, n := range c.Nodes {
		info, err := os.Stat(n.LogFile())
		if err != nil {
			require.ErrorIs(t, err, os.ErrNotExist)
			continue
		}
		m[n] = info.Size()
	}
	return m
}

// logsSince gives what the nodes logged after the mark, in order of time.
func logsSince(t *testing.T, c *harness.Cluster, m logMark) []logLine {
	t.Helper()
	var out []logLine
	for _, n := range c.Nodes {
		f, err := os.Open(n.LogFile())
		if os.IsNotExist(err) {
			continue
		}
		require.NoError(t, err)
		b, err := io.ReadAll(io.NewSectionReader(f, m[n], 1<<40))
		require.NoError(t, err)
		require.NoError(t, f.Close())
		for line := range bytes.Lines(b) {
			l := logLine{from: n, raw: string(bytes.TrimSpace(line))}
			err := json.Unmarshal(line, &l)
			var other *json.UnmarshalTypeError        // a field of this name that is about something else; the rest of the line is read
			if err == nil || errors.As(err, &other) { // a crash's stack is no JSON
				out = append(out, l)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b logLine) int { return a.Time.Compare(b.Time) })
	return out
}
