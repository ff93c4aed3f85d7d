package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"cordwood/logstore/record"
)

// Host writes down, durably, that copies of partitions are about to be here. Create does it for its own; a topic of many
// partitions saves fsyncs by one call before.
func (d *Dir) Host(topic string, ids ...record.PartitionID) error {
	d.files.Lock()
	defer d.files.Unlock()
	var rows []hostedEntry
	d.mu.Lock()
	for _, id := range ids {
		if d.hosted[id] != topic {
			rows = append(rows, hostedEntry{topic, id})
		}
	}
	d.mu.Unlock()
	if len(rows) == 0 {
		return nil
	}
	if err := d.failed(d.appendHosted(encodeHosted(rows))); err != nil {
		return fmt.Errorf("host %s: %w", topic, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range rows {
		d.hosted[r.id] = r.topic
	}
	return nil
}

// appendHosted adds lines to the file of hosted entries: the cost is that of the new ones. files is held.
func (d *Dir) appendHosted(lines []byte) error {
	if d.hostedSize == 0 {
		return d.rewriteHosted(lines)
	}
	f, err := d.fs.OpenReadWrite(d.file(hostedFile))
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt(lines, d.hostedSize); err != nil {
		return errors.Join(err, f.Truncate(d.hostedSize))
	}
	if err := syncFile(f); err != nil {
		return err
	}
	d.hostedSize += int64(len(lines))
	return nil
}

// rewriteHosted replaces the file of hosted entries. files is held.
func (d *Dir) rewriteHosted(lines []byte) error {
	b := append([]byte(hostedHeader), lines...)
	if err := replaceFile(d.fs, d.file(hostedFile), b, true); err != nil {
		return err
	}
	d.hostedSize, d.hostedDirty = int64(len(b)), false
	return nil
}

// Create makes an empty log. Its directory, its topic's id and the hosted entry are durable on return. fs.ErrExist where
// a directory of that name is there.
func (d *Dir) Create(topic string, id record.PartitionID, cfg LogConfig) (*Log, error) {
	if err := d.online(); err != nil {
		return nil, err
	}
	if err := d.roomForReplicas(); err != nil {
		return nil, err
	}
	if err := d.Host(topic, id); err != nil {
		return nil, err
	}
	tp := topicPartition{topic, id.Partition}
	l := newLog(d, d.pathOf(tp), tp, id, cfg)
	if err := l.create(); err != nil {
		return nil, l.place("create", err)
	}
	if err := d.adopt(l); err != nil {
		l.release()
		return nil, err
	}
	return l, nil
}

func (l *Log) create() error {
	d := l.dir
	if err := d.clearHalfMade(l.path); err != nil {
		return err
	}
	if err := d.fs.MkdirAll(l.path); err != nil {
		return d.failed(err)
	}
	s, err := l.createSegment(0)
	if err != nil {
		return err
	}
	if err := d.failed(replaceFile(d.fs, l.file(partitionFile), encodePartitionMetadata(l.id.Topic), true)); err != nil {
		s.active.release()
		return err
	}
	if err := d.failed(syncDir(d.fs, d.path)); err != nil {
		s.active.release()
		return err
	}
	l.dirty.names = false
	l.view.Store(&view{segs: []*segment{s}})
	l.resetActive(s)
	return nil
}

// clearHalfMade makes way where the making of a log was interrupted; any other directory of that name is fs.ErrExist.
func (d *Dir) clearHalfMade(dir string) error {
	entries, err := d.fs.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return err
		}
		if tmp := strings.HasSuffix(e.Name(), tmpSuffix); info.Size() > 0 && !tmp {
			return fmt.Errorf("directory %s: %w", dir, fs.ErrExist)
		}
	}
	return d.failed(d.fs.RemoveAll(dir))
}

// adopt takes a log that was opened or made into the directory's care.
func (d *Dir) adopt(l *Log) error {
	if err := d.Host(l.tp.topic, l.id); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return record.ErrClosed
	}
	if d.logs[l.id] != nil {
		return fmt.Errorf("log %s is open already", l.tp.dirName())
	}
	d.logs[l.id] = l
	d.agenda.wake(l, time.Time{})
	l.note()
	return nil
}

// Logs are the open logs, in no order.
func (d *Dir) Logs() []*Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Values(d.logs))
}

// Delete takes a log out of the directory: its directory is renamed, durably, and removed by a later Tick, after
// file.delete.delay. The caller knows that the cluster wants this copy gone.
func (d *Dir) Delete(l *Log) error {
	l.slow.Lock()
	l.mu.Lock()
	open := !l.closed.Load()
	l.release()
	l.mu.Unlock()
	l.slow.Unlock()
	if !open {
		return nil
	}
	d.agenda.drop(l)
	d.dropHandles(l)
	return d.retire(l.path, l.tp, l.id, time.Duration(l.config.Load().FileDeleteDelayMS)*time.Millisecond)
}

// Delete removes a partition's directory that was found, as Dir.Delete does an open log's.
func (f *Found) Delete() error { return f.dir.retire(f.path, f.tp, f.ID, 0) }

func (d *Dir) retire(dir string, tp topicPartition, id record.PartitionID, delay time.Duration) error {
	to := fmt.Sprintf("%s.%s%s", dir, id.Topic, deleteSuffix)
	if err := d.fs.RemoveAll(to); err != nil {
		return d.failed(err)
	}
	if err := d.failed(d.fs.Rename(dir, to)); err != nil {
		return fmt.Errorf("delete %s: %w", tp.dirName(), err)
	}
	if err := d.failed(syncDir(d.fs, d.path)); err != nil {
		return fmt.Errorf("delete %s: %w", tp.dirName(), err)
	}
	d.forget(id)
	d.removeLater(to, d.now().Add(delay))
	return nil
}

// Park sets a directory aside that the cluster's metadata does not account for. An operator decides about it.
func (f *Found) Park() error {
	to := fmt.Sprintf("%s.%s%s", f.path, f.ID.Topic, straySuffix)
	if err := f.dir.failed(f.dir.fs.Rename(f.path, to)); err != nil {
		return fmt.Errorf("park %s: %w", f.tp.dirName(), err)
	}
	if err := f.dir.failed(syncDir(f.dir.fs, f.dir.path)); err != nil {
		return fmt.Errorf("park %s: %w", f.tp.dirName(), err)
	}
	f.dir.forget(f.ID)
	f.dir.logger.Warn("a directory of a topic that the cluster does not know was set aside; nothing removes it: if the topic was deleted while this node was down, or nobody misses it, remove the directory by hand", "dir", to)
	return nil
}

// Unhost removes a hosted entry whose directory is gone, once the cluster's metadata has answered for it.
func (d *Dir) Unhost(id record.PartitionID) { d.forget(id) }

// forget takes a partition out of the books; the file of hosted entries follows with the next Tick, Checkpoint or close.
// An entry too much is harmless: its topic's deletion is in the metadata.
func (d *Dir) forget(id record.PartitionID) {
	d.files.Lock()
	defer d.files.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.hosted, id)
	delete(d.logs, id)
	delete(d.claims, id)
	d.hostedDirty = true
}

// dropHandles closes what the cache holds of a log.
func (d *Dir) dropHandles(l *Log) {
	for _, s := range l.view.Load().segs {
		d.handles.drop(s.key())
		d.handles.drop(s.indexKey())
		d.handles.drop(s.timeKey())
	}
}

func (d *Dir) removeLater(name string, due time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.later = append(d.later, removal{name, due})
}

// Tick does the periodic duties that are due at now: the disk's states, sealing of idle segments, retention, flush.ms,
// removal of files whose delay is over. Its cost is that of the logs with something due. What fails is logged; what it means for the directory
// State tells.
func (d *Dir) Tick(now time.Time) {
	if d.online() != nil {
		return
	}
	d.files.Lock()
	d.checkUsage(now)
	aged := d.age(now)
	retain := now.Sub(d.retained) >= d.opt.RetentionInterval
	if retain {
		d.retained = now
	}
	d.files.Unlock()
	for _, l := range d.agenda.take(now) {
		d.duty(l, l.tick(now, aged))
		l.mu.Lock()
		l.plan()
		l.mu.Unlock()
	}
	if retain {
		for _, l := range d.Logs() {
			d.duty(l, l.retain(aged))
		}
	}
	d.removeDue(now)
}

// age gives the time that records' ages are judged by, and tells when the wall clock has jumped. files is held.
func (d *Dir) age(now time.Time) time.Time {
	uptime := now.Sub(d.begun)
	if d.opt.Uptime != nil {
		uptime = d.opt.Uptime()
	}
	if d.opt.Wall != nil {
		now = d.opt.Wall()
	}
	aged, jumped := d.clock.at(now, uptime)
	held := d.clock.held()
	d.held.Store(int64(held))
	switch {
	case jumped != 0 && held > 0:
		d.logger.Warn("the wall clock jumped: no record gets older by that; if the clock is right now, restart the node", "by", jumped, "ahead", held)
	case jumped != 0:
		d.logger.Warn("the wall clock jumped", "by", jumped)
	}
	return aged
}

// ClockHeld tells how far the wall clock has jumped ahead of the time that records' ages are judged by; 0: they agree.
func (d *Dir) ClockHeld() time.Duration { return time.Duration(d.held.Load()) }

// duty says what became of a log's duty.
func (d *Dir) duty(l *Log, err error) {
	if err != nil && !errors.Is(err, record.ErrClosed) {
		d.logger.Warn("periodic duty of a log failed", "topic", l.tp.topic, "partition", l.tp.partition, "err", err)
	}
}

func (d *Dir) removeDue(now time.Time) {
	var due []string
	d.mu.Lock()
	d.later = slices.DeleteFunc(d.later, func(r removal) bool {
		gone := !r.due.After(now)
		if gone {
			due = append(due, r.name)
		}
		return gone
	})
	d.mu.Unlock()
	for _, name := range due {
		if err := d.fs.RemoveAll(name); err != nil {
			d.logger.Warn("file on its way out was not removed", "file", name, "err", err)
		}
	}
}

// removeLeftovers removes directories that were on their way out when the process ended. Called once, when the owner has
// taken the directory's logs: before, nothing is removed.
func (d *Dir) removeLeftovers() error {
	entries, err := d.fs.ReadDir(d.path)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range entries {
		name := path.Join(d.path, e.Name())
		listed := slices.ContainsFunc(d.later, func(r removal) bool { return r.name == name })
		if e.IsDir() && strings.HasSuffix(e.Name(), deleteSuffix) && !listed {
			d.later = append(d.later, removal{name: name})
		}
	}
	return nil
}
