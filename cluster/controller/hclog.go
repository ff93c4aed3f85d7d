package controller

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
)

// raftLog is raft's logger on top of slog. Levels are slog's to filter.
type raftLog struct {
	log  *slog.Logger
	name string
	args []any
}

func newRaftLog(l *slog.Logger) hclog.Logger { return &raftLog{log: l, name: "raft"} }

var slogLevels = map[hclog.Level]slog.Level{
	hclog.NoLevel: slog.LevelInfo, hclog.Trace: slog.LevelDebug - 4, hclog.Debug: slog.LevelDebug,
	hclog.Info: slog.LevelInfo, hclog.Warn: slog.LevelWarn, hclog.Error: slog.LevelError,
}

// demoted are messages that raft has at WARN or ERROR for what is daily life of a cluster: a peer that is down or comes in.
var demoted = []string{
	"failed to heartbeat to", "failed to appendEntries to", "failed to make requestVote RPC", "failed to make requestPreVote RPC",
	"failed to pipeline appendEntries", "failed to decode incoming command", "peer has newer term, stopping replication",
	"failed to contact", "failed to contact quorum of nodes, stepping down", "failed to get previous log",
	"failed to flush response", "heartbeat timeout reached", "rejecting pre-vote request", "rejecting vote request",
	"appendEntries rejected", "Election timeout reached",
}

// taken are names in every line that raft uses for values of its own. Of two the same, readers of JSON keep one.
var taken = []string{slog.TimeKey, slog.LevelKey, slog.MessageKey, "node"}

func (l *raftLog) Log(level hclog.Level, msg string, args ...any) {
	if level == hclog.Off {
		return
	}
	to := slogLevels[level]
	if to > slog.LevelInfo {
		for _, d := range demoted {
			if strings.HasPrefix(msg, d) {
				to = slog.LevelInfo
				break
			}
		}
	}
	ctx := context.Background()
	if !l.log.Enabled(ctx, to) {
		return
	}
	attrs := make([]any, 0, len(args)+2)
	for i, a := range args {
		if name, ok := a.(string); ok && i%2 == 0 && slices.Contains(taken, name) {
			a = "raft." + name
		}
		attrs = append(attrs, plain(a))
	}
	l.log.Log(ctx, to, l.name+": "+msg, attrs...)
}

// plain gives a value as people read it: raft hands over servers, configurations and itself.
func plain(a any) any {
	switch v := a.(type) {
	case string, bool, int, int64, uint64, float64, time.Duration, time.Time, error, nil:
		return a
	case hclog.Format:
		if len(v) > 0 {
			return fmt.Sprintf(fmt.Sprint(v[0]), v[1:]...)
		}
	}
	return fmt.Sprint(a)
}

func (l *raftLog) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }
func (l *raftLog) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }
func (l *raftLog) Info(msg string, args ...any)  { l.Log(hclog.Info, msg, args...) }
func (l *raftLog) Warn(msg string, args ...any)  { l.Log(hclog.Warn, msg, args...) }
func (l *raftLog) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

func (l *raftLog) enabled(level hclog.Level) bool {
	return l.log.Enabled(context.Background(), slogLevels[level])
}

func (l *raftLog) IsTrace() bool { return l.enabled(hclog.Trace) }
func (l *raftLog) IsDebug() bool { return l.enabled(hclog.Debug) }
func (l *raftLog) IsInfo() bool  { return l.enabled(hclog.Info) }
func (l *raftLog) IsWarn() bool  { return l.enabled(hclog.Warn) }
func (l *raftLog) IsError() bool { return l.enabled(hclog.Error) }

func (l *raftLog) ImpliedArgs() []any { return l.args }

func (l *raftLog) With(args ...any) hclog.Logger {
	return &raftLog{log: l.log.With(args...), name: l.name, args: append(l.args[:len(l.args):len(l.args)], args...)}
}

func (l *raftLog) Name() string { return l.name }

func (l *raftLog) Named(name string) hclog.Logger {
	if l.name != "" {
		name = l.name + "." + name
	}
	return l.ResetNamed(name)
}

func (l *raftLog) ResetNamed(name string) hclog.Logger {
	return &raftLog{log: l.log, name: name, args: l.args}
}

func (l *raftLog) SetLevel(hclog.Level) {}

func (l *raftLog) GetLevel() hclog.Level {
	for _, level := range []hclog.Level{hclog.Trace, hclog.Debug, hclog.Info, hclog.Warn} {
		if l.enabled(level) {
			return level
		}
	}
	return hclog.Error
}

func (l *raftLog) StandardLogger(opts *hclog.StandardLoggerOptions) *log.Logger {
	return log.New(l.StandardWriter(opts), "", 0)
}

func (l *raftLog) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return raftLogWriter{l} }

type raftLogWriter struct{ l *raftLog }

func (w raftLogWriter) Write(b []byte) (int, error) {
	w.l.Info(strings.TrimSpace(string(b)))
	return len(b), nil
}
