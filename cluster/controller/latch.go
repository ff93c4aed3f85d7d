package controller

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
)

// errLatched refuses every write to raft's store after the first one that failed.
var errLatched = errors.New("raft store is closed for writing after a failed write")

// durableStore is what raft keeps its log, term and vote in.
type durableStore interface {
	raft.LogStore
	raft.StableStore
}

// latch is raft's store with a memory of failure: after the first failed write or sync it refuses all further ones,
// since a later sync of the same file may falsely succeed, and tells the owner. hashicorp/raft by itself would step
// down and go on. Safe for concurrent use.
type latch struct {
	durableStore
	onFatal     func(error)
	freeReserve func() bool // gives disk space back; true: a write that found no space is tried once more

	failed atomic.Pointer[error]

	mu      sync.Mutex          // guards writing
	writing map[int64]time.Time // writes in flight by number, with their start
	next    int64
}

func newLatch(s durableStore, onFatal func(error), freeReserve func() bool) *latch {
	return &latch{durableStore: s, onFatal: onFatal, freeReserve: freeReserve, writing: map[int64]time.Time{}}
}

func (l *latch) write(what string, f func() error) error {
	if p := l.failed.Load(); p != nil {
		return fmt.Errorf("%s: %w: %w", what, errLatched, *p)
	}
	l.mu.Lock()
	n := l.next
	l.next++
	l.writing[n] = time.Now()
	l.mu.Unlock()
	err := f()
	// No space is not an I/O failure: bolt has rolled the transaction back, nothing was promised.
	if err != nil && noSpace(err) && l.freeReserve != nil && l.freeReserve() {
		err = f()
	}
	l.mu.Lock()
	delete(l.writing, n)
	l.mu.Unlock()
	if err == nil {
		return nil
	}
	err = fmt.Errorf("raft store: %s: %w", what, err)
	if l.failed.CompareAndSwap(nil, &err) {
		l.onFatal(err)
	}
	return err
}

// noSpace says that a write failed for want of space only.
func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// stalled gives how long the oldest write in flight has been going on, 0 without one.
func (l *latch) stalled(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var d time.Duration
	for _, start := range l.writing {
		d = max(d, now.Sub(start))
	}
	return d
}

func (l *latch) StoreLog(e *raft.Log) error {
	return l.StoreLogs([]*raft.Log{e})
}

func (l *latch) StoreLogs(es []*raft.Log) error {
	es = summed(es)
	return l.write("store entries", func() error { return l.durableStore.StoreLogs(es) })
}

func (l *latch) DeleteRange(first, last uint64) error {
	return l.write("delete entries", func() error { return l.durableStore.DeleteRange(first, last) })
}

func (l *latch) Set(k, v []byte) error {
	v = sealed(k, v)
	return l.write("store value", func() error { return l.durableStore.Set(k, v) })
}

func (l *latch) SetUint64(k []byte, v uint64) error {
	return l.Set(k, binary.BigEndian.AppendUint64(nil, v))
}

// GetLog gives an entry as it was stored; else an error that wraps errStoreDamaged.
func (l *latch) GetLog(index uint64, e *raft.Log) error {
	if err := l.durableStore.GetLog(index, e); err != nil {
		return err
	}
	return checkEntry(index, e)
}

// Get gives a value as it was stored; else an error that wraps errStoreDamaged.
func (l *latch) Get(k []byte) ([]byte, error) {
	b, err := l.durableStore.Get(k)
	if err != nil {
		return nil, err
	}
	return unsealed(k, b)
}

// GetUint64 gives a number as it was stored; else an error that wraps errStoreDamaged.
func (l *latch) GetUint64(k []byte) (uint64, error) {
	b, err := l.Get(k)
	if err != nil {
		return 0, err
	}
	if len(b) != 8 {
		return 0, damagedf("value %s has %d bytes", k, len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}
