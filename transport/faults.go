package transport

import (
	"log/slog"
	"net"
	"sync"
	"time"
)

const (
	faultEvery   = time.Minute
	faultSources = 1024
)

// faultLog writes what clients did wrong: the first of a source and reason per minute, with the number that was left
// out since. Never above INFO: it is not this node's fault.
type faultLog struct {
	log  *slog.Logger
	now  func() time.Time
	mu   sync.Mutex
	seen map[faultKey]*faultCount
}

type faultKey struct{ host, reason string }

type faultCount struct {
	last  time.Time
	count int
}

func newFaultLog(log *slog.Logger) *faultLog {
	return &faultLog{log: log, now: time.Now, seen: map[faultKey]*faultCount{}}
}

func (f *faultLog) note(peer net.Addr, reason, text string, args ...any) {
	host := ""
	if peer != nil {
		if h, _, err := net.SplitHostPort(peer.String()); err == nil {
			host = h
		}
	}
	now, key := f.now(), faultKey{host, reason}
	f.mu.Lock()
	c := f.seen[key]
	if c != nil && now.Sub(c.last) < faultEvery {
		c.count++
		f.mu.Unlock()
		return
	}
	suppressed := 0
	if c != nil {
		suppressed = c.count
	} else if len(f.seen) >= faultSources {
		clear(f.seen) // more sources than are kept apart: forget them all and begin again
	}
	f.seen[key] = &faultCount{last: now}
	f.mu.Unlock()
	if suppressed > 0 {
		args = append(args, "suppressed", suppressed)
	}
	f.log.Info(text, append([]any{"client", host, "reason", reason}, args...)...)
}
