package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sort"

	"cordwood/logstore/record"
)

// A producer snapshot (`<offset>.snapshot`) is the producer state of all batches below its offset: version int16 1,
// CRC-32C of all that follows, a count, 46 bytes a producer. Only the newest batch of each producer is kept.
const (
	snapshotVersion    = 1
	snapshotHeader     = 10
	snapshotEntrySize  = 46
	snapshotCRCStart   = 6
	snapshotProducers  = 1 << 24 // more is no count
	snapshotNoLastSeen = -1
)

// errSnapshot says that a producer snapshot breaks its format or its checksum.
var errSnapshot = errors.New("producer snapshot breaks its format")

func encodeSnapshot(s *producers) []byte {
	b := make([]byte, snapshotHeader, snapshotHeader+len(s.byID)*snapshotEntrySize)
	binary.BigEndian.PutUint16(b, snapshotVersion)
	binary.BigEndian.PutUint32(b[6:], uint32(len(s.byID)))
	ids := make([]int64, 0, len(s.byID))
	for id := range s.byID {
		ids = append(ids, id)
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] })
	for _, id := range ids {
		p := s.byID[id]
		last := producedBatch{lastSeq: record.NoSequence, lastOffset: snapshotNoLastSeen}
		if n := len(p.batches); n > 0 {
			last = p.batches[n-1]
		}
		b = binary.BigEndian.AppendUint64(b, uint64(id))
		b = binary.BigEndian.AppendUint16(b, uint16(p.epoch))
		b = binary.BigEndian.AppendUint32(b, uint32(last.lastSeq))
		b = binary.BigEndian.AppendUint64(b, uint64(last.lastOffset))
		b = binary.BigEndian.AppendUint32(b, uint32(last.delta))
		b = binary.BigEndian.AppendUint64(b, uint64(p.timestamp))
		b = binary.BigEndian.AppendUint32(b, uint32(p.coordinatorEpoch))
		b = binary.BigEndian.AppendUint64(b, uint64(p.txnFirst))
	}
	binary.BigEndian.PutUint32(b[2:], crc32.Checksum(b[snapshotCRCStart:], record.Castagnoli))
	return b
}

// decodeSnapshot reads a snapshot taken at offset.
func decodeSnapshot(b []byte, offset int64) (*producers, error) {
	if len(b) < snapshotHeader {
		return nil, fmt.Errorf("%w: %d bytes", errSnapshot, len(b))
	}
	n := int64(binary.BigEndian.Uint32(b[6:]))
	switch {
	case binary.BigEndian.Uint16(b) != snapshotVersion:
		return nil, fmt.Errorf("%w: version %d", errSnapshot, binary.BigEndian.Uint16(b))
	case crc32.Checksum(b[snapshotCRCStart:], record.Castagnoli) != binary.BigEndian.Uint32(b[2:]):
		return nil, fmt.Errorf("%w: checksum", errSnapshot)
	case n > snapshotProducers || int64(len(b)) != snapshotHeader+n*snapshotEntrySize:
		return nil, fmt.Errorf("%w: %d producers in %d bytes", errSnapshot, n, len(b))
	}
	s := &producers{}
	if n > 0 {
		s.byID = make(map[int64]*producer, n)
	}
	for b = b[snapshotHeader:]; len(b) > 0; b = b[snapshotEntrySize:] {
		id := int64(binary.BigEndian.Uint64(b))
		p := &producer{
			epoch:            int16(binary.BigEndian.Uint16(b[8:])),
			timestamp:        int64(binary.BigEndian.Uint64(b[26:])),
			coordinatorEpoch: int32(binary.BigEndian.Uint32(b[34:])),
			txnFirst:         int64(binary.BigEndian.Uint64(b[38:])),
		}
		last := producedBatch{
			lastSeq:    int32(binary.BigEndian.Uint32(b[10:])),
			lastOffset: int64(binary.BigEndian.Uint64(b[14:])),
			delta:      int32(binary.BigEndian.Uint32(b[22:])),
			timestamp:  p.timestamp,
		}
		if last.lastOffset >= offset || p.txnFirst >= offset || last.delta < 0 || s.byID[id] != nil {
			return nil, fmt.Errorf("%w: producer %d", errSnapshot, id)
		}
		if last.lastOffset >= 0 && last.lastSeq >= 0 {
			p.batches = []producedBatch{last}
		}
		if p.txnFirst >= 0 {
			s.open = append(s.open, openTxn{p.txnFirst, id})
		} else {
			p.txnFirst = -1
		}
		s.byID[id] = p
	}
	sort.Slice(s.open, func(i, j int) bool { return s.open[i].first < s.open[j].first })
	return s, nil
}
