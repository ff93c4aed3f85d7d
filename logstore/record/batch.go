package record

import (
	"encoding/binary"
	"hash/crc32"
)

// Sizes and places of the version 2 batch header (Kafka's DefaultRecordBatch; design: docs/formats.md). All big-endian.
const (
	HeaderSize    = 61 // bytes before the first record
	LogOverhead   = 12 // base offset and length: bytes that Length does not count
	CurrentMagic  = 2
	crcStart      = 21 // the checksum covers everything from the attributes on
	offLength     = 8
	offEpoch      = 12
	offMagic      = 16
	offCRC        = 17
	offAttributes = 21
	offLastDelta  = 23
	offBaseTime   = 27
	offMaxTime    = 35
	offProducer   = 43
	offProdEpoch  = 51
	offSequence   = 53
	offCount      = 57
)

// Bits of the batch attributes.
const (
	AttrCodecMask     = 0x07
	AttrLogAppendTime = 0x08
	AttrTransactional = 0x10
	AttrControl       = 0x20
	AttrDeleteHorizon = 0x40
)

// Values that mean "none" in batches and requests.
const (
	NoProducerID    int64 = -1
	NoProducerEpoch int16 = -1
	NoSequence      int32 = -1
	NoTimestamp     int64 = -1
	NoEpoch         int32 = -1
	NoOffset        int64 = -1
)

// Castagnoli is the table of the batch checksum, CRC-32C.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header is the decoded header of one batch. It copies nothing of the records.
type Header struct {
	BaseOffset      int64
	Length          int32 // bytes after the length field
	LeaderEpoch     int32
	Magic           int8
	CRC             uint32
	Attributes      int16
	LastOffsetDelta int32
	BaseTimestamp   int64 // milliseconds
	MaxTimestamp    int64 // milliseconds
	ProducerID      int64
	ProducerEpoch   int16
	BaseSequence    int32
	Count           int32
}

// Size is the whole batch in bytes, header included.
func (h *Header) Size() int64 { return int64(h.Length) + LogOverhead }

// LastOffset is the offset of the batch's last record, inclusive.
func (h *Header) LastOffset() int64 { return h.BaseOffset + int64(h.LastOffsetDelta) }

// EndOffset is the offset after the batch's last record, exclusive. Never count records: compaction leaves holes.
func (h *Header) EndOffset() int64 { return h.LastOffset() + 1 }

// LastSequence is the sequence of the last record; sequences wrap from 2^31-1 to 0.
func (h *Header) LastSequence() int32 {
	if h.BaseSequence == NoSequence {
		return NoSequence
	}
	return IncrementSequence(h.BaseSequence, h.LastOffsetDelta)
}

// IncrementSequence adds delta to a sequence with Kafka's wrap: the number after 2^31-1 is 0.
func IncrementSequence(seq, delta int32) int32 {
	return int32((int64(seq) + int64(delta)) & 0x7fffffff)
}

// Codec is the compression of the records: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
func (h *Header) Codec() int8 { return int8(h.Attributes & AttrCodecMask) }

// IsControl says that the batch holds a marker and no user records.
func (h *Header) IsControl() bool { return h.Attributes&AttrControl != 0 }

// IsTransactional says that the batch belongs to a transaction.
func (h *Header) IsTransactional() bool { return h.Attributes&AttrTransactional != 0 }

// HasLogAppendTime says that every record bears MaxTimestamp, stamped by the leader.
func (h *Header) HasLogAppendTime() bool { return h.Attributes&AttrLogAppendTime != 0 }

// HasProducer says that the batch came from an idempotent or transactional producer. Any negative id is none.
func (h *Header) HasProducer() bool { return h.ProducerID > NoProducerID }

// DeleteHorizon is the time (milliseconds) from which compaction may drop tombstones and markers of the batch; false if
// none was set. The batch's base timestamp holds it, and the deltas are counted from there.
func (h *Header) DeleteHorizon() (int64, bool) {
	return h.BaseTimestamp, h.Attributes&AttrDeleteHorizon != 0
}

// ParseHeader decodes the header at the start of b. It checks only that the bytes are there and that the length and
// magic can be those of a version 2 batch (ErrCorruptBatch otherwise); see Verify for the checksum.
func ParseHeader(b []byte) (Header, error) {
	var h Header
	if len(b) < HeaderSize {
		return h, ErrShortBatch
	}
	h.BaseOffset = int64(binary.BigEndian.Uint64(b))
	h.Length = int32(binary.BigEndian.Uint32(b[offLength:]))
	h.LeaderEpoch = int32(binary.BigEndian.Uint32(b[offEpoch:]))
	h.Magic = int8(b[offMagic])
	h.CRC = binary.BigEndian.Uint32(b[offCRC:])
	h.Attributes = int16(binary.BigEndian.Uint16(b[offAttributes:]))
	h.LastOffsetDelta = int32(binary.BigEndian.Uint32(b[offLastDelta:]))
	h.BaseTimestamp = int64(binary.BigEndian.Uint64(b[offBaseTime:]))
	h.MaxTimestamp = int64(binary.BigEndian.Uint64(b[offMaxTime:]))
	h.ProducerID = int64(binary.BigEndian.Uint64(b[offProducer:]))
	h.ProducerEpoch = int16(binary.BigEndian.Uint16(b[offProdEpoch:]))
	h.BaseSequence = int32(binary.BigEndian.Uint32(b[offSequence:]))
	h.Count = int32(binary.BigEndian.Uint32(b[offCount:]))
	if h.Magic != CurrentMagic || h.Length < HeaderSize-LogOverhead || h.LastOffsetDelta < 0 {
		return h, ErrCorruptBatch
	}
	return h, nil
}

// Verify checks the batch's checksum. b starts at the batch and holds at least all of it.
func Verify(h *Header, b []byte) error {
	if int64(len(b)) < h.Size() {
		return ErrShortBatch
	}
	if crc32.Checksum(b[crcStart:h.Size()], Castagnoli) != h.CRC {
		return ErrCorruptBatch
	}
	return nil
}

// SetOffset stamps the base offset and the leader epoch, which the checksum does not cover.
func SetOffset(b []byte, base int64, epoch int32) {
	binary.BigEndian.PutUint64(b, uint64(base))
	binary.BigEndian.PutUint32(b[offEpoch:], uint32(epoch))
}

// SetMaxTimestamp stamps the maximum timestamp and the timestamp type, and renews the checksum.
func SetMaxTimestamp(b []byte, logAppend bool, ts int64) {
	attr := binary.BigEndian.Uint16(b[offAttributes:]) &^ AttrLogAppendTime
	if logAppend {
		attr |= AttrLogAppendTime
	}
	binary.BigEndian.PutUint16(b[offAttributes:], attr)
	binary.BigEndian.PutUint64(b[offMaxTime:], uint64(ts))
	size := int64(binary.BigEndian.Uint32(b[offLength:])) + LogOverhead
	binary.BigEndian.PutUint32(b[offCRC:], crc32.Checksum(b[crcStart:size], Castagnoli))
}
