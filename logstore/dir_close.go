package logstore

import (
	"context"
	"errors"
	"slices"

	"cordwood/logstore/record"
)

// CloseClean ends an orderly shutdown: everything is flushed and written down, then the clean mark with every log's end
// and size, then the lock is given back. Appends after it are refused. Without an error the next start is CLEAN, but where
// a copy that should be here is not open: then there is no mark, since the next start could not find it met.
func (d *Dir) CloseClean(ctx context.Context) error {
	if err := d.online(); err != nil {
		return errors.Join(err, d.Close())
	}
	s, err := d.settle(ctx)
	if err == nil {
		err = d.checkpoint(true)
	}
	for _, l := range d.Logs() {
		l.shut()
	}
	if err == nil && ctx.Err() == nil && d.whole(s) {
		d.files.Lock()
		err = d.failed(d.writeSession(s))
		d.files.Unlock()
	}
	return errors.Join(err, ctx.Err(), d.Close())
}

// whole says that s speaks of every copy that should be in the directory.
func (d *Dir) whole(s session) bool {
	settled := make(map[record.PartitionID]bool, len(s.Logs))
	for _, l := range s.Logs {
		settled[record.PartitionID{Topic: l.TopicID, Partition: l.Partition}] = true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, topic := range d.hosted {
		if !settled[id] {
			d.logger.Warn("not marked as shut down clean: a log that should be here is not open", "topic", topic, "partition", id.Partition)
			return false
		}
	}
	return true
}

// settle closes every log for appends, flushes it and writes its indexes and producer state.
func (d *Dir) settle(ctx context.Context) (session, error) {
	d.files.Lock()
	s := d.stored
	d.files.Unlock()
	s.Clean, s.Logs = true, []sessionLog{}
	logs := d.Logs()
	slices.SortFunc(logs, func(a, b *Log) int {
		if lessPartition(a.tp, b.tp) {
			return -1
		}
		return 1
	})
	for _, l := range logs {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		end, size, err := l.settle()
		if errors.Is(err, record.ErrClosed) {
			continue
		}
		if err != nil {
			return s, err
		}
		s.Logs = append(s.Logs, sessionLog{Topic: l.tp.topic, TopicID: l.id.Topic, Partition: l.id.Partition, End: end, Size: size})
	}
	return s, nil
}

// settle ends appends and makes the log whole on disk.
func (l *Log) settle() (end, size int64, err error) {
	l.slow.Lock()
	defer l.slow.Unlock()
	l.mu.Lock()
	if err := l.usable(); err != nil {
		l.mu.Unlock()
		return 0, 0, err
	}
	l.settled.Store(true)
	v := l.view.Load()
	l.idx.addTime()
	err = l.writeIndexes(v.active(), &l.idx)
	if err == nil && (v.end > v.start || len(l.producers.byID) > 0) {
		err = l.writeSnapshot(v.end)
	}
	l.mu.Unlock()
	if err != nil {
		return 0, 0, err
	}
	if _, err := l.flush(false); err != nil {
		return 0, 0, err
	}
	return v.end, v.sealed + v.size, nil
}

// shut closes the log's files.
func (l *Log) shut() {
	l.slow.Lock()
	defer l.slow.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release()
}

// Close closes every log without flushing and gives the lock back: the next start is that of a crashed process. Closing
// again does nothing.
func (d *Dir) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.mu.Unlock()
	for _, l := range d.Logs() {
		l.shut()
	}
	d.handles.close()
	return d.lock.Close()
}
