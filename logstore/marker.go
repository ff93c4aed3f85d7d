package logstore

import "cordwood/logstore/record"

// AppendMarker writes the marker with which epoch begins, as Append writes a batch. A directory that refuses clients for
// lack of room still tries: without the marker nothing of the log can be committed.
//
// Errors: record.ErrDirFull, ErrDirOffline, ErrDamaged, ErrClosed. After any of them the log is as it was.
func (l *Log) AppendMarker(epoch int32) (AppendInfo, error) {
	if err := l.writable(); err != nil {
		return AppendInfo{}, err
	}
	if l.damaged.Load() != nil {
		return AppendInfo{}, record.ErrDamaged
	}
	batch := record.NewEpochMarker()
	h, err := record.ParseHeader(batch)
	if err != nil {
		return AppendInfo{}, l.place("append a marker to", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.appendOne(l.config.Load(), batch, &h, epoch, false)
}

// marker is the content of a transaction's last batch: how it ended, by which coordinator.
type marker struct {
	commit           bool
	coordinatorEpoch int32
}

// markerBytesMax bounds what is read of a control batch: its header and one small record.
const markerBytesMax = record.HeaderSize + 256

// parseMarker reads the one record of a control batch, whole in b. ok is false for an emptied batch and for control
// records that end no transaction.
func parseMarker(h *record.Header, b []byte) (m marker, ok bool) {
	if !h.IsControl() || h.Count == 0 || h.Size() > markerBytesMax {
		return marker{}, false
	}
	var r record.RecordReader
	if r.Reset(h, b) != nil || !r.Next() {
		return marker{}, false
	}
	t, err := record.ParseControlKey(r.Record.Key)
	if err != nil || t != record.ControlAbort && t != record.ControlCommit {
		return marker{}, false
	}
	m.commit = t == record.ControlCommit
	m.coordinatorEpoch, err = record.ParseEndMarker(r.Record.Value)
	return m, err == nil
}
