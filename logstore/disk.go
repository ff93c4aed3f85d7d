package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"syscall"
	"time"

	"cordwood/logstore/record"
)

// diskState is what became of a directory's disk.
type diskState struct {
	broken atomic.Pointer[error] // set once: a write or fsync failed, nothing is trusted any more
	full   atomic.Bool           // a write found no room; ends when there is room again
	low    atomic.Bool           // free space is below DiskStop
	free   atomic.Int64
	total  atomic.Int64
}

// usageInterval is how often Tick asks how full the disk is; fullMargin what must be free beside the reserve before a
// full directory takes records again.
const (
	usageInterval = time.Second
	fullMargin    = 1 << 20
)

// State tells free and total bytes of the disk (-1 unknown), and whether the directory failed or is full.
func (d *Dir) State() (free, total int64, offline, full bool) {
	return d.state.free.Load(), d.state.total.Load(), d.state.broken.Load() != nil, d.state.full.Load() || d.state.low.Load()
}

// online refuses everything once the directory failed.
func (d *Dir) online() error {
	if p := d.state.broken.Load(); p != nil {
		return fmt.Errorf("%w: %w", record.ErrDirOffline, *p)
	}
	return nil
}

// roomForClients refuses clients' records on a full disk, and before it is full.
func (d *Dir) roomForClients() error {
	if d.state.low.Load() {
		return fmt.Errorf("%w: less than %d bytes are free in %s", record.ErrDirFull, d.opt.DiskStop, d.path)
	}
	return d.roomForReplicas()
}

// roomForReplicas refuses records on a full disk.
func (d *Dir) roomForReplicas() error {
	if d.state.full.Load() {
		return fmt.Errorf("%w: %s", record.ErrDirFull, d.path)
	}
	return nil
}

// failed turns the error of a disk call into what it means for the directory: no room makes it full, no free file handle
// refuses this one call, anything else takes it offline for ever. nil stays nil.
func (d *Dir) failed(err error) error {
	if err == nil || errors.Is(err, record.ErrDirFull) || errors.Is(err, record.ErrDirOffline) {
		return err
	}
	var sync *syncError
	if !errors.As(err, &sync) && noRoom(err) {
		if d.state.full.CompareAndSwap(false, true) {
			d.logger.Warn("log directory is full: appends are refused", "dir", d.path, "err", err)
			d.freeReserve()
		}
		return fmt.Errorf("%w: %w", record.ErrDirFull, err)
	}
	if !errors.As(err, &sync) && (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)) {
		return fmt.Errorf("%w: %w", record.ErrDirFull, err)
	}
	return d.offline(err)
}

// noRoom says that a disk or a quota is full.
func noRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// offline gives the directory up for the life of the process.
func (d *Dir) offline(err error) error {
	if d.state.broken.CompareAndSwap(nil, &err) {
		d.logger.Error("log directory failed and is offline", "dir", d.path, "err", err)
		if d.opt.OnOffline != nil {
			d.opt.OnOffline(err)
		}
	}
	if errors.Is(err, record.ErrDirOffline) {
		return err
	}
	return fmt.Errorf("%w: %w", record.ErrDirOffline, err)
}

// FreeReserve removes the reserve file and turns the directory full, for a store beside the logs that found no room. It
// says whether there was a reserve to give; safe from any goroutine.
func (d *Dir) FreeReserve() bool {
	_, err := d.fs.Stat(d.file(reserveFile))
	had := err == nil
	if d.state.full.CompareAndSwap(false, true) {
		d.logger.Warn("log directory is full: appends are refused", "dir", d.path)
	}
	d.freeReserve()
	return had
}

// withReserve does a write that a start cannot go on without, a second time with the reserve's room where the disk has
// none: it may have been filled while the node was down.
func (d *Dir) withReserve(write func() error) error {
	err := write()
	var sync *syncError
	if err == nil || errors.As(err, &sync) || !noRoom(err) || !d.FreeReserve() {
		return err
	}
	return write()
}

// freeReserve gives the reserve's bytes to whoever needs them now: the metadata's log.
func (d *Dir) freeReserve() {
	if err := d.fs.Remove(d.file(reserveFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.logger.Warn("reserve file was not removed", "dir", d.path, "err", err)
	}
}

// makeReserve writes the reserve file where it is not there at its size. A disk without room for it is full.
func (d *Dir) makeReserve() error {
	name := d.file(reserveFile)
	info, err := d.fs.Stat(name)
	if err == nil && info.Size() == d.opt.Reserve {
		return nil
	}
	if err == nil {
		if err := d.fs.Remove(name); err != nil {
			return err
		}
	}
	if d.opt.Reserve == 0 {
		return nil
	}
	err = d.writeReserve(name)
	if err != nil && noRoom(err) {
		d.state.full.Store(true)
		d.freeReserve()
		d.logger.Warn("log directory has no room for its reserve: appends are refused", "dir", d.path, "bytes", d.opt.Reserve)
		return nil
	}
	return err
}

func (d *Dir) writeReserve(name string) error {
	f, err := d.fs.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := getBuf(pieceMax)
	defer putBuf(buf)
	b := (*buf)[:pieceMax]
	clear(b)
	for at := int64(0); at < d.opt.Reserve; at += int64(len(b)) {
		if _, err := f.WriteAt(b[:min(int64(len(b)), d.opt.Reserve-at)], at); err != nil {
			return err
		}
	}
	return nil
}

// checkUsage looks at the disk and moves the directory in and out of its states. files is held.
func (d *Dir) checkUsage(now time.Time) {
	if now.Sub(d.checked) < usageInterval {
		return
	}
	d.checked = now
	free, total, err := d.fs.Usage(d.path)
	if err != nil {
		free, total = -1, -1
	}
	d.state.free.Store(free)
	d.state.total.Store(total)
	if low := err == nil && free < d.opt.DiskStop; d.state.low.CompareAndSwap(!low, low) {
		d.logger.Warn("free space of the log directory passed the bound", "dir", d.path, "free", free, "bound", d.opt.DiskStop, "refusing", low)
	}
	if !d.state.full.Load() || free < d.opt.Reserve+fullMargin {
		return
	}
	if err := d.makeReserve(); err != nil {
		d.offline(err)
		return
	}
	if _, err := d.fs.Stat(d.file(reserveFile)); err == nil || d.opt.Reserve == 0 {
		d.state.full.Store(false)
		d.logger.Info("log directory has room again", "dir", d.path, "free", free)
	}
}
