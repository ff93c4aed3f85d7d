package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"time"
)

// clockEvery is how often the file of a Clock is looked at, at most.
const clockEvery = 50 * time.Millisecond

// clockLimit bounds that file, in bytes.
const clockLimit = 64

// Clock is a wall clock that stands apart from the machine's as a file says, for nodes in development mode. The file holds
// what time.ParseDuration reads, such as -1h30m; it need not exist and is read again while it changes. One that cannot be
// read leaves the clock as it is. Safe for concurrent use.
type Clock struct {
	fs    FS
	file  string
	warn  func(error)
	begun time.Time

	checked atomic.Int64 // when the file was last looked at, since begun; negative: never
	offset  atomic.Int64 // from the machine's clock, nanoseconds
	told    atomic.Pointer[string]
}

// NewClock makes a clock that follows a file. warn is told of each new reason for which it cannot be read.
func NewClock(fsys FS, file string, warn func(error)) *Clock {
	c := &Clock{fs: fsys, file: file, warn: warn, begun: time.Now()}
	c.checked.Store(-1)
	return c
}

// Now is the time by this clock. It has no monotonic part, as nothing that is measured may hang on a wall clock.
func (c *Clock) Now() time.Time {
	c.reread()
	return time.Now().Round(0).Add(time.Duration(c.offset.Load()))
}

// Offset is how far the clock stands ahead of the machine's.
func (c *Clock) Offset() time.Duration {
	c.reread()
	return time.Duration(c.offset.Load())
}

// reread takes up what the file says now.
func (c *Clock) reread() {
	now, last := int64(time.Since(c.begun)), c.checked.Load()
	if last >= 0 && now-last < int64(clockEvery) || !c.checked.CompareAndSwap(last, now) {
		return
	}
	offset, err := c.read()
	if err == nil {
		c.offset.Store(int64(offset))
		c.told.Store(nil)
		return
	}
	why := err.Error()
	if old := c.told.Swap(&why); old == nil || *old != why {
		c.warn(err)
	}
}

func (c *Clock) read() (time.Duration, error) {
	b, err := ReadFile(c.fs, c.file, clockLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("clock file %s: %w", c.file, err)
	}
	return d, nil
}
