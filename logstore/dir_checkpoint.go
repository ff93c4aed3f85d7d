package logstore

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"cordwood/logstore/record"
)

// kafkaInterval is how often Kafka's own checkpoint files are replaced; ours is with every Checkpoint.
const kafkaInterval = time.Minute

// Checkpoint writes down how far each log is durable and committed, so that a restart scans only what came later and
// knows what must be there. Sealed segments are synced first. Files whose content did not change are left alone, and
// where no log changed none is looked at.
func (d *Dir) Checkpoint() error {
	if err := d.online(); err != nil {
		return err
	}
	noted := d.agenda.takeNoted()
	for i, l := range noted {
		if err := l.flushSealed(); err != nil && !errors.Is(err, record.ErrClosed) {
			for _, l := range noted[i:] {
				l.note()
			}
			d.changed(i)
			return err
		}
	}
	d.changed(len(noted))
	return d.checkpoint(false)
}

// changed says that the checkpoints do not say what n logs do.
func (d *Dir) changed(n int) {
	d.files.Lock()
	defer d.files.Unlock()
	d.hintsStale = d.hintsStale || n > 0
}

// flushSealed makes all but the active segment durable.
func (l *Log) flushSealed() error {
	if l.view.Load().active().base <= l.flushed.Load() {
		return nil
	}
	l.slow.Lock()
	defer l.slow.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	_, err := l.flush(true)
	return err
}

// claim reads, under slow, what the checkpoint may say of the log and tells the directory before it is written: a cut
// that comes later withdraws it.
func (l *Log) claim() (h hint, start, base int64, open bool) {
	l.slow.Lock()
	defer l.slow.Unlock()
	if l.closed.Load() {
		return hint{}, 0, 0, false
	}
	v := l.view.Load()
	s := l.start.Load()
	h = hint{topic: l.tp.topic, id: l.id, hw: l.hw.Load(), flushed: l.flushed.Load(), generation: s.generation}
	l.dir.mu.Lock()
	l.dir.claims[l.id] = h
	l.dir.mu.Unlock()
	return h, v.start, v.segs[0].base, true
}

// checkpoint replaces the checkpoint files; Kafka's only from time to time, or always with all.
func (d *Dir) checkpoint(all bool) error {
	d.files.Lock()
	defer d.files.Unlock()
	now := d.now()
	d.hintsStale = d.hintsStale || d.hostedDirty || all
	d.kafkaStale = d.kafkaStale || d.hintsStale
	withKafka := all || d.kafkaStale && now.Sub(d.kafkaWritten) >= kafkaInterval
	if !d.hintsStale && !withKafka {
		return nil
	}
	logs := d.Logs()
	slices.SortFunc(logs, func(a, b *Log) int {
		if lessPartition(a.tp, b.tp) {
			return -1
		}
		return 1
	})
	hints := make([]hint, 0, len(logs))
	var hws, flushed, starts []offsetRow
	for _, l := range logs {
		h, start, base, open := l.claim()
		if !open {
			continue
		}
		hints = append(hints, h)
		hws = append(hws, offsetRow{l.tp, h.hw})
		flushed = append(flushed, offsetRow{l.tp, h.flushed})
		if start > base {
			starts = append(starts, offsetRow{l.tp, start})
		}
	}
	if err := d.writeChanged(hintsFile, encodeHints(hints)); err != nil {
		return err
	}
	if d.hostedDirty {
		d.mu.Lock()
		lines := encodeHosted(sortedHosted(d.hosted))
		d.mu.Unlock()
		if err := d.failed(d.rewriteHosted(lines)); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
	}
	d.hintsStale = false
	if !withKafka {
		return nil
	}
	d.kafkaWritten = now
	for _, f := range []struct {
		name string
		rows []offsetRow
	}{{hwFile, hws}, {flushedFile, flushed}, {startFile, starts}} {
		if err := d.writeChanged(f.name, encodeOffsets(f.rows)); err != nil {
			return err
		}
	}
	d.kafkaStale = false
	return nil
}

// writeChanged replaces a file whose content is not that of the last time. files is held.
func (d *Dir) writeChanged(name string, b []byte) error {
	if d.written[name] == string(b) {
		return nil
	}
	if err := d.failed(replaceFile(d.fs, d.file(name), b, true)); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	d.written[name] = string(b)
	return nil
}
