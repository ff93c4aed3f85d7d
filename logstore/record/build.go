package record

import (
	"encoding/binary"
	"hash/crc32"
)

// NewRecord is a record to be put into a batch. A nil Key or Value is null.
type NewRecord struct {
	Key, Value []byte
	Headers    [][2][]byte // key, value
	Timestamp  int64       // milliseconds
}

// AppendRecord appends one record in its stored form: delta is its place in the batch, base the batch's base timestamp.
func AppendRecord(dst []byte, r *NewRecord, delta int32, base int64) []byte {
	body := 1 + varintLen(r.Timestamp-base) + varintLen(int64(delta)) + sizedLen(r.Key) + sizedLen(r.Value) +
		varintLen(int64(len(r.Headers)))
	for _, h := range r.Headers {
		body += sizedLen(h[0]) + sizedLen(h[1])
	}
	dst = binary.AppendVarint(dst, int64(body))
	dst = append(dst, 0)
	dst = binary.AppendVarint(dst, r.Timestamp-base)
	dst = binary.AppendVarint(dst, int64(delta))
	dst = appendSized(dst, r.Key)
	dst = appendSized(dst, r.Value)
	dst = binary.AppendVarint(dst, int64(len(r.Headers)))
	for _, h := range r.Headers {
		dst = appendSized(dst, h[0])
		dst = appendSized(dst, h[1])
	}
	return dst
}

func varintLen(v int64) int {
	n := 1
	for u := uint64(v)<<1 ^ uint64(v>>63); u >= 0x80; u >>= 7 {
		n++
	}
	return n
}

func sizedLen(b []byte) int {
	if b == nil {
		return varintLen(-1)
	}
	return varintLen(int64(len(b))) + len(b)
}

func appendSized(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	return append(binary.AppendVarint(dst, int64(len(b))), b...)
}

// AppendBatch appends a batch whose records are already in their stored form (compressed as the attributes say). Length
// and CRC are computed, all else stands as h says: it builds sound batches and, for tests, unsound ones.
func AppendBatch(dst []byte, h Header, records []byte) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.BaseOffset))
	dst = binary.BigEndian.AppendUint32(dst, uint32(HeaderSize-LogOverhead+len(records)))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.LeaderEpoch))
	dst = append(dst, byte(h.Magic), 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(h.Attributes))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.LastOffsetDelta))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.BaseTimestamp))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.MaxTimestamp))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.ProducerID))
	dst = binary.BigEndian.AppendUint16(dst, uint16(h.ProducerEpoch))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.BaseSequence))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.Count))
	dst = append(dst, records...)
	binary.BigEndian.PutUint32(dst[start+offCRC:], crc32.Checksum(dst[start+crcStart:], Castagnoli))
	return dst
}

// NewHeader is the header of an uncompressed batch of plain records at base, of nobody's producer and no epoch. A batch
// of no records ends at base like one of a single record that compaction removed.
func NewHeader(base int64, records []NewRecord) Header {
	h := Header{
		BaseOffset: base, LeaderEpoch: NoEpoch, Magic: CurrentMagic,
		LastOffsetDelta: int32(max(0, len(records)-1)), Count: int32(len(records)),
		BaseTimestamp: NoTimestamp, MaxTimestamp: NoTimestamp,
		ProducerID: NoProducerID, ProducerEpoch: NoProducerEpoch, BaseSequence: NoSequence,
	}
	for i := range records {
		if i == 0 {
			h.BaseTimestamp = records[0].Timestamp
		}
		h.MaxTimestamp = max(h.MaxTimestamp, records[i].Timestamp)
	}
	return h
}

// NewBatch builds an uncompressed batch of plain records, as a producer without idempotence sends it when base is 0.
func NewBatch(base int64, records ...NewRecord) []byte {
	h := NewHeader(base, records)
	var body []byte
	for i := range records {
		body = AppendRecord(body, &records[i], int32(i), h.BaseTimestamp)
	}
	return AppendBatch(nil, h, body)
}
