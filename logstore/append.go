package logstore

import (
	"fmt"
	"math"

	"cordwood/fsm/mutant"
	"cordwood/logstore/record"
)

// Append writes one validated batch as the leader of epoch: it assigns offsets, stamps them and the epoch into batch and
// h, checks the producer's sequence (a batch that is there already is answered with its old offsets and not written),
// rolls the segment where due and writes once. When it returns, the batch is in the operating system's hands and readers
// may see it; it is on stable storage only where flush.messages made it so. fromZero asks for a first sequence of 0 of a
// producer the log does not know. batch is not kept.
//
// Errors: record.ErrOutOfOrder, ErrProducerEpoch, ErrInvalidTxnState, ErrSegmentTooSmall, ErrDirFull, ErrDirOffline,
// ErrDamaged, ErrClosed. After any of them the log is as it was.
func (l *Log) Append(batch []byte, h *record.Header, epoch int32, fromZero bool) (AppendInfo, error) {
	if err := l.writable(); err != nil {
		return AppendInfo{}, err
	}
	if err := l.dir.roomForClients(); err != nil {
		return AppendInfo{}, err
	}
	if l.damaged.Load() != nil {
		return AppendInfo{}, record.ErrDamaged
	}
	cfg := l.config.Load()
	if h.Size() > cfg.SegmentBytes {
		return AppendInfo{}, fmt.Errorf("%w: %d bytes, segment.bytes is %d", record.ErrSegmentTooSmall, h.Size(), cfg.SegmentBytes)
	}
	l.mu.Lock()
	info, err := l.appendOne(cfg, batch, h, epoch, fromZero)
	l.mu.Unlock()
	if err != nil || info.Duplicate {
		return info, err
	}
	return info, l.flushDue(cfg)
}

// appendOne is Append under mu.
func (l *Log) appendOne(cfg *LogConfig, batch []byte, h *record.Header, epoch int32, fromZero bool) (AppendInfo, error) {
	if err := l.writable(); err != nil { // closed or failed while waiting
		return AppendInfo{}, err
	}
	end := l.view.Load().end
	if h.HasProducer() {
		dup, err := l.producers.check(h, fromZero)
		if err != nil && !mutant.NoDedup {
			return AppendInfo{}, err
		}
		if dup != nil && !mutant.NoDedup {
			return AppendInfo{Base: dup.firstOffset(), Last: dup.lastOffset, End: end, Duplicate: true, AppendTime: dup.timestamp}, nil
		}
	}
	if last := l.LastEpoch(); epoch < last {
		return AppendInfo{}, l.place("append to", fmt.Errorf("%w: epoch %d after %d", record.ErrNotContiguous, epoch, last))
	}
	h.BaseOffset, h.LeaderEpoch = end, epoch
	record.SetOffset(batch, end, epoch)
	if err := l.prepare(cfg, h); err != nil {
		return AppendInfo{}, err
	}
	if err := l.write(batch[:h.Size()]); err != nil {
		return AppendInfo{}, err
	}
	if err := l.account(h, nil); err != nil {
		return AppendInfo{}, err
	}
	info := AppendInfo{Base: h.BaseOffset, Last: h.LastOffset(), End: h.EndOffset(), AppendTime: record.NoTimestamp}
	if h.HasLogAppendTime() {
		info.AppendTime = h.MaxTimestamp
	}
	return info, nil
}

// AppendReplica writes batches as they came from the leader: each must have a good checksum, continue the log without a
// hole, and be of an epoch not older than the one before and not above maxEpoch. Offsets and epochs are kept. A batch cut
// short at the end of the bytes is left out. What stood before a bad batch is kept; end is the log end after it all.
//
// Errors: record.ErrCorruptBatch, ErrNotContiguous, ErrDirFull, ErrDirOffline, ErrClosed.
func (l *Log) AppendReplica(batches []byte, maxEpoch int32) (end int64, err error) {
	if err := l.writable(); err != nil {
		return l.EndOffset(), err
	}
	if err := l.dir.roomForReplicas(); err != nil {
		return l.EndOffset(), err
	}
	cfg := l.config.Load()
	l.mu.Lock()
	err = l.appendAll(cfg, batches, maxEpoch)
	end = l.view.Load().end
	l.mu.Unlock()
	if err != nil {
		return end, err
	}
	return end, l.flushDue(cfg)
}

// appendAll writes batches piece by piece, so that each is summed and written while the processor's cache holds it.
func (l *Log) appendAll(cfg *LogConfig, batches []byte, maxEpoch int32) error {
	if err := l.writable(); err != nil {
		return err
	}
	for len(batches) > 0 {
		n, err := l.appendPiece(cfg, batches, maxEpoch)
		if err != nil {
			return l.place("replicate to", err)
		}
		if n == 0 {
			return nil
		}
		batches = batches[n:]
	}
	return nil
}

// appendPiece writes as many of the first batches as make one piece of one segment, and returns their bytes; 0 where
// only a batch cut short is left.
func (l *Log) appendPiece(cfg *LogConfig, batches []byte, maxEpoch int32) (n int, err error) {
	h, err := l.nextReplicated(batches, maxEpoch)
	if err != nil || h.Size() == 0 {
		return 0, err
	}
	if v := l.view.Load(); h.BaseOffset < v.end {
		if err := l.rebase(h.BaseOffset); err != nil {
			return 0, err
		}
	}
	if err := l.prepare(cfg, &h); err != nil {
		return 0, err
	}
	v := l.view.Load()
	end, epoch := h.EndOffset(), h.LeaderEpoch
	n = int(h.Size())
	var bad error
	for n < pieceMax {
		next, err := l.replicated(batches[n:], end, epoch, maxEpoch)
		if err != nil {
			bad = err
			break
		}
		if next.Size() == 0 || n+int(next.Size()) > pieceMax || next.LeaderEpoch != epoch || l.mustRoll(cfg, &next, v.size+int64(n), v.active().base) {
			break
		}
		end = next.EndOffset()
		n += int(next.Size())
	}
	if err := l.write(batches[:n]); err != nil {
		return 0, err
	}
	for at := 0; at < n; {
		h, err := record.ParseHeader(batches[at:n])
		if err != nil {
			return 0, err
		}
		if err := l.account(&h, batches[at:]); err != nil {
			return 0, err
		}
		at += int(h.Size())
	}
	return n, bad
}

// nextReplicated checks the first batch of b against the log. The zero header says that b holds no whole batch.
func (l *Log) nextReplicated(b []byte, maxEpoch int32) (record.Header, error) {
	v := l.view.Load()
	h, err := l.replicated(b, v.end, l.LastEpoch(), maxEpoch)
	if err != nil && v.end == v.active().base && v.size == 0 && len(v.segs) == 1 {
		// An empty log that begins inside a batch takes the whole of it.
		first, perr := record.ParseHeader(b)
		if perr == nil && first.BaseOffset < v.end && first.EndOffset() > v.end {
			return l.replicated(b, first.BaseOffset, l.LastEpoch(), maxEpoch)
		}
	}
	return h, err
}

// replicated checks the first batch of b: whole, sound, beginning at end, of an epoch between the two.
func (l *Log) replicated(b []byte, end int64, epoch, maxEpoch int32) (record.Header, error) {
	if len(b) < record.HeaderSize {
		return record.Header{Length: -record.LogOverhead}, nil
	}
	h, err := record.ParseHeader(b)
	if err != nil {
		return h, fmt.Errorf("batch at offset %d: %w", end, err)
	}
	if h.Size() > int64(len(b)) {
		return record.Header{Length: -record.LogOverhead}, nil
	}
	if err := record.Verify(&h, b); err != nil {
		return h, fmt.Errorf("batch at offset %d: %w", end, err)
	}
	if h.BaseOffset != end || h.LeaderEpoch < epoch || h.LeaderEpoch > maxEpoch {
		return h, fmt.Errorf("%w: batch %d of epoch %d at end %d, epochs %d to %d", record.ErrNotContiguous, h.BaseOffset, h.LeaderEpoch, end, epoch, maxEpoch)
	}
	return h, nil
}

// prepare makes room for a batch: its epoch noted, a new segment where one is due. mu is held.
func (l *Log) prepare(cfg *LogConfig, h *record.Header) error {
	if es, changed := l.epochs.Load().assign(h.LeaderEpoch, h.BaseOffset); changed {
		if err := l.writeEpochs(es, cfg.Disk); err != nil {
			return err
		}
	}
	v := l.view.Load()
	if l.mustRoll(cfg, h, v.size, v.active().base) {
		return l.roll(h.BaseOffset)
	}
	return nil
}

// mustRoll says that the batch belongs into a new segment. Age goes by the batches' own times, so that every replica cuts
// at the same place.
func (l *Log) mustRoll(cfg *LogConfig, h *record.Header, size, base int64) bool {
	if h.LastOffset()-base > math.MaxInt32 {
		return true
	}
	if size == 0 {
		return false
	}
	if size+h.Size() > cfg.SegmentBytes || l.idx.full() {
		return true
	}
	if cfg.SegmentMS <= 0 {
		return false
	}
	if l.firstTS != record.NoTimestamp && h.MaxTimestamp != record.NoTimestamp {
		return h.MaxTimestamp-l.firstTS > cfg.SegmentMS
	}
	return l.dir.now().Sub(l.opened).Milliseconds() > cfg.SegmentMS
}

// write puts b behind the last batch. A write that failed is cut back; where even that fails the directory is given up.
func (l *Log) write(b []byte) error {
	v := l.view.Load()
	f := v.active().active.f
	_, err := f.WriteAt(b, v.size)
	if err == nil {
		return nil
	}
	if terr := f.Truncate(v.size); terr != nil {
		return l.place("append to", l.dir.offline(fmt.Errorf("%w; cutting the partial write back: %w", err, terr)))
	}
	return l.place("append to", l.dir.failed(err))
}

// account takes a batch that was written into the log's state and shows it to readers. b is the batch where it may be a
// marker, nil for a client's. mu is held.
func (l *Log) account(h *record.Header, b []byte) error {
	v := l.view.Load()
	newDuty := v.size == 0 || h.HasProducer() && len(l.producers.byID) == 0
	if v.size == 0 {
		l.firstTS, l.opened = h.MaxTimestamp, l.dir.now()
	}
	if l.unsynced.IsZero() {
		l.unsynced = l.dir.now()
		newDuty = newDuty || l.config.Load().FlushMS > 0
	}
	l.idx.add(h, v.size)
	var txn AbortedTxn
	var aborted bool
	if h.HasProducer() {
		var m *marker
		if h.IsControl() {
			if parsed, ok := parseMarker(h, b); ok {
				m = &parsed
			}
		}
		txn, aborted = l.producers.apply(h, m)
		if l.producers.unstable() {
			l.unstable.Store(true)
		}
	}
	recent := v.recent
	if len(recent) >= batchesRecent {
		recent = append(make([]batchPos, 0, batchesRecent), recent[batchesRecent/2:]...)
	}
	recent = append(recent, batchPos{h.BaseOffset, v.size})
	next := *v
	next.recent, next.index = recent, l.idx.index
	next.size += h.Size()
	next.end = h.EndOffset()
	l.view.Store(&next)
	if newDuty {
		l.plan()
	}
	if aborted {
		return l.appendAborted(txn)
	}
	return nil
}

// appendAborted adds an entry to the active segment's transaction index. mu is held.
func (l *Log) appendAborted(t AbortedTxn) error {
	s := l.view.Load().active()
	name := s.sibling(txnSuffix)
	f, err := l.dir.fs.OpenReadWrite(name)
	if err == nil {
		_, err = f.WriteAt(encodeTxnIndex([]AbortedTxn{t}), int64(len(l.aborted))*txnEntrySize)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}
	l.aborted = append(l.aborted, t)
	l.dirty.names = true
	if err != nil {
		// The log's batches are there, their index is not: it is made anew from them at the next start.
		return l.place("index a transaction of", l.dir.failed(err))
	}
	return nil
}
