package logstore

import (
	"encoding/binary"
	"io"
	"sort"
)

// The offset index of a segment (`.index`): 8 bytes an entry, big-endian, strictly rising. An entry says where the batch
// that ends with an offset starts. Files of a segment that was never closed may have a tail of zeros (Kafka maps them at
// full size); position 0 never stands in an entry, because an entry is made only after other bytes.
const (
	indexEntrySize = 8
	indexBytesMax  = 10 << 20 // as Kafka's segment.index.bytes
	indexEntryMax  = indexBytesMax / indexEntrySize
)

// indexEntry is one entry: the last offset of a batch, relative to the segment's base, and the byte it starts at.
type indexEntry struct {
	rel uint32
	pos uint32
}

// decodeIndex reads the entries of an index file up to its tail of zeros. ok is false where they do not rise strictly or
// the file is no whole number of entries; what was read before stands in entries.
func decodeIndex(b []byte) (entries []indexEntry, ok bool) {
	for len(b) >= indexEntrySize {
		e := indexEntry{rel: binary.BigEndian.Uint32(b), pos: binary.BigEndian.Uint32(b[4:])}
		if e == (indexEntry{}) {
			return entries, true
		}
		if n := len(entries); e.pos == 0 || n > 0 && (e.rel <= entries[n-1].rel || e.pos <= entries[n-1].pos) {
			return entries, false
		}
		entries = append(entries, e)
		b = b[indexEntrySize:]
	}
	return entries, len(b) == 0
}

// encodeIndex writes entries as they stand in the file.
func encodeIndex(entries []indexEntry) []byte {
	b := make([]byte, 0, len(entries)*indexEntrySize)
	for _, e := range entries {
		b = binary.BigEndian.AppendUint32(b, e.rel)
		b = binary.BigEndian.AppendUint32(b, e.pos)
	}
	return b
}

// floorEntry finds the last entry at or below rel; ok is false where there is none.
func floorEntry(entries []indexEntry, rel uint32) (e indexEntry, ok bool) {
	i := sort.Search(len(entries), func(i int) bool { return entries[i].rel > rel })
	if i == 0 {
		return indexEntry{}, false
	}
	return entries[i-1], true
}

// floorEntryFile is floorEntry by reads of single entries of a file of size bytes.
func floorEntryFile(r io.ReaderAt, size int64, rel uint32) (e indexEntry, ok bool, err error) {
	buf := getBuf(indexEntrySize)
	defer putBuf(buf)
	n := int(size / indexEntrySize)
	i := sort.Search(n, func(i int) bool {
		if err != nil {
			return true
		}
		var at indexEntry
		if at, err = readIndexEntry(r, i, *buf); err != nil {
			return true
		}
		return at.pos == 0 || at.rel > rel // a tail of zeros is above everything
	})
	if err != nil || i == 0 {
		return indexEntry{}, false, err
	}
	e, err = readIndexEntry(r, i-1, *buf)
	return e, err == nil, err
}

func readIndexEntry(r io.ReaderAt, i int, buf []byte) (indexEntry, error) {
	if err := readFull(r, buf[:indexEntrySize], int64(i)*indexEntrySize); err != nil {
		return indexEntry{}, err
	}
	return indexEntry{rel: binary.BigEndian.Uint32(buf), pos: binary.BigEndian.Uint32(buf[4:])}, nil
}
