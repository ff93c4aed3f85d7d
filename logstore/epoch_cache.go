package logstore

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"

	"cordwood/logstore/record"
)

// errEpochFile says that a leader-epoch-checkpoint breaks its format.
var errEpochFile = errors.New("leader epoch file breaks its format")

// epochEntry says that the records from start on, up to the next entry, were written in epoch.
type epochEntry struct {
	epoch int32
	start int64
}

// epochs are a log's leader epochs, oldest first; epoch and start rise strictly. A value is never changed in place, so
// that readers may hold one without a lock.
type epochs []epochEntry

// last is the newest entry's epoch, NoEpoch where the log was never written nor led.
func (es epochs) last() int32 {
	if len(es) == 0 {
		return record.NoEpoch
	}
	return es[len(es)-1].epoch
}

// at is the epoch of the record at offset, NoEpoch below the first entry.
func (es epochs) at(offset int64) int32 {
	i := sort.Search(len(es), func(i int) bool { return es[i].start > offset })
	if i == 0 {
		return record.NoEpoch
	}
	return es[i-1].epoch
}

// assign notes that records from start on are of epoch. An entry that begins at or after start, or has an equal or
// later epoch, had no record and goes. The same or an older epoch than the last entry that stays changes nothing.
func (es epochs) assign(epoch int32, start int64) (epochs, bool) {
	if n := len(es); n > 0 && es[n-1].epoch == epoch && es[n-1].start <= start {
		return es, false
	}
	n := len(es)
	for n > 0 && (es[n-1].start >= start || es[n-1].epoch >= epoch) {
		n--
	}
	return append(slices.Clone(es[:n]), epochEntry{epoch, start}), true
}

// cutEnd keeps what the records below end need. An entry at end itself, that of a leader that wrote nothing, goes too.
func (es epochs) cutEnd(end int64) (epochs, bool) {
	n := len(es)
	for n > 0 && es[n-1].start >= end {
		n--
	}
	if n == len(es) {
		return es, false
	}
	return slices.Clone(es[:n]), true
}

// cutStart forgets epochs that ended at or before start; the entry that covers start begins there from now on.
func (es epochs) cutStart(start int64) (epochs, bool) {
	i := sort.Search(len(es), func(i int) bool { return es[i].start > start })
	if i == 0 || i == 1 && es[0].start == start {
		return es, false
	}
	out := slices.Clone(es[i-1:])
	out[0].start = start
	return out, true
}

// replaced puts what batches say in the place of what es says of offsets from the first of them up to end. Entries at or
// above end, of leaders without a record there, stay where they are newer.
func (es epochs) replaced(batches epochs, end int64) epochs {
	if len(batches) == 0 {
		return es
	}
	n := sort.Search(len(es), func(i int) bool { return es[i].start >= batches[0].start })
	out := slices.Clone(es[:n])
	for _, e := range batches {
		out, _ = out.assign(e.epoch, e.start)
	}
	for _, e := range es[n:] {
		if e.start >= end && e.epoch > out.last() {
			out = append(out, e)
		}
	}
	return out
}

// decodeEpochs reads a leader-epoch-checkpoint: a version 0, the number of entries, one "epoch start" a line.
func decodeEpochs(b []byte) (epochs, error) {
	if len(b) == 0 {
		return nil, nil // never written yet
	}
	rows, err := decodeCheckpoint(b, 2)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errEpochFile, err)
	}
	es := make(epochs, 0, len(rows))
	for _, row := range rows {
		epoch, err1 := strconv.ParseInt(row[0], 10, 32)
		start, err2 := strconv.ParseInt(row[1], 10, 64)
		if err1 != nil || err2 != nil || epoch < 0 || start < 0 {
			return nil, fmt.Errorf("%w: line %q", errEpochFile, row)
		}
		if n := len(es); n > 0 && (es[n-1].epoch >= int32(epoch) || es[n-1].start >= start) {
			return nil, fmt.Errorf("%w: epoch %d at %d follows epoch %d at %d", errEpochFile, epoch, start, es[n-1].epoch, es[n-1].start)
		}
		es = append(es, epochEntry{int32(epoch), start})
	}
	return es, nil
}

func encodeEpochs(es epochs) []byte {
	b := fmt.Appendf(nil, "0\n%d\n", len(es))
	for _, e := range es {
		b = fmt.Appendf(b, "%d %d\n", e.epoch, e.start)
	}
	return b
}
