package logstore

import "cordwood/logstore/record"

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
