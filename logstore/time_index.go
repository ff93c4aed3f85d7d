package logstore

import (
	"encoding/binary"
	"sort"
)

// The time index of a segment (`.timeindex`): 12 bytes an entry, big-endian: a timestamp that no earlier batch of the
// segment exceeds and the last offset of the first batch that bears it. Both rise strictly. A tail of zeros may follow.
const (
	timeEntrySize = 12
	timeEntryMax  = indexBytesMax/timeEntrySize - 1 // one slot stays for the last entry, made when the segment is sealed
)

// timeEntry is one entry; rel is relative to the segment's base offset.
type timeEntry struct {
	ts  int64 // milliseconds
	rel uint32
}

// decodeTimeIndex reads the entries up to the tail of zeros; ok is false where they do not rise or the file is no whole
// number of entries.
func decodeTimeIndex(b []byte) (entries []timeEntry, ok bool) {
	for len(b) >= timeEntrySize {
		e := timeEntry{ts: int64(binary.BigEndian.Uint64(b)), rel: binary.BigEndian.Uint32(b[8:])}
		if e == (timeEntry{}) && len(entries) > 0 || isZero(b) {
			return entries, true
		}
		if n := len(entries); n > 0 && (e.ts <= entries[n-1].ts || e.rel <= entries[n-1].rel) {
			return entries, false
		}
		entries = append(entries, e)
		b = b[timeEntrySize:]
	}
	return entries, len(b) == 0
}

func encodeTimeIndex(entries []timeEntry) []byte {
	b := make([]byte, 0, len(entries)*timeEntrySize)
	for _, e := range entries {
		b = binary.BigEndian.AppendUint64(b, uint64(e.ts))
		b = binary.BigEndian.AppendUint32(b, e.rel)
	}
	return b
}

// floorTime finds the last entry whose timestamp is below ts: every batch up to it, except perhaps its own, is older
// than ts. ok is false where there is none.
func floorTime(entries []timeEntry, ts int64) (e timeEntry, ok bool) {
	i := sort.Search(len(entries), func(i int) bool { return entries[i].ts >= ts })
	if i == 0 {
		return timeEntry{}, false
	}
	return entries[i-1], true
}

func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
