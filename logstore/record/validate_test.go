package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"
)

const fixedTime = 1700000000000

func plain(n, size int) []NewRecord {
	records := make([]NewRecord, n)
	for i := range records {
		value := []byte(fmt.Sprintf("value %d ", i))
		value = append(value, bytes.Repeat([]byte{'x'}, max(0, size-len(value)))...)
		records[i] = NewRecord{Key: fmt.Appendf(nil, "k%d", i), Value: value, Timestamp: fixedTime + int64(i),
			Headers: [][2][]byte{{[]byte("h"), []byte("1")}, {[]byte("null"), nil}}}
	}
	return records
}

func body(records []NewRecord) (b []byte) {
	for i := range records {
		b = AppendRecord(b, &records[i], int32(i), records[0].Timestamp)
	}
	return b
}

// packers are the ways in which clients pack the records of a batch.
var packers = map[string]struct {
	codec int8
	pack  func(t testing.TB, b []byte) []byte
}{
	"gzip": {CodecGzip, func(t testing.TB, b []byte) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		write(t, w, b)
		return out.Bytes()
	}},
	"snappy raw":    {CodecSnappy, func(_ testing.TB, b []byte) []byte { return snappy.Encode(nil, b) }},
	"snappy xerial": {CodecSnappy, func(_ testing.TB, b []byte) []byte { return xerial(b, 100) }},
	"snappy xerial joined": {CodecSnappy, func(_ testing.TB, b []byte) []byte {
		return append(xerial(b[:len(b)/2], 32<<10), xerial(b[len(b)/2:], 32<<10)...)
	}},
	"lz4": {CodecLZ4, func(t testing.TB, b []byte) []byte {
		var out bytes.Buffer
		w := lz4.NewWriter(&out)
		write(t, w, b)
		return out.Bytes()
	}},
	"lz4 big blocks and checksums": {CodecLZ4, func(t testing.TB, b []byte) []byte {
		var out bytes.Buffer
		w := lz4.NewWriter(&out)
		require.NoError(t, w.Apply(lz4.BlockSizeOption(lz4.Block4Mb), lz4.ChecksumOption(true), lz4.BlockChecksumOption(true)))
		write(t, w, b)
		return out.Bytes()
	}},
	"zstd": {CodecZstd, func(t testing.TB, b []byte) []byte { return zstdOf(t, b) }},
	"zstd stream": {CodecZstd, func(t testing.TB, b []byte) []byte {
		var out bytes.Buffer
		w, err := zstd.NewWriter(&out)
		require.NoError(t, err)
		for _, half := range [][]byte{b[:len(b)/2], b[len(b)/2:]} {
			_, err = w.Write(half)
			require.NoError(t, err)
			require.NoError(t, w.Flush())
		}
		require.NoError(t, w.Close())
		return out.Bytes()
	}},
	"zstd wide window": {CodecZstd, func(t testing.TB, b []byte) []byte {
		var out bytes.Buffer
		w, err := zstd.NewWriter(&out, zstd.WithWindowSize(64<<20), zstd.WithEncoderConcurrency(1))
		require.NoError(t, err)
		_, err = w.Write(b[:1])
		require.NoError(t, err)
		require.NoError(t, w.Flush()) // so that the frame gives no size and needs its window
		write(t, w, b[1:])
		return out.Bytes()
	}},
}

type writeCloser interface {
	Write([]byte) (int, error)
	Close() error
}

func write(t testing.TB, w writeCloser, b []byte) {
	_, err := w.Write(b)
	require.NoError(t, err)
	require.NoError(t, w.Close())
}

func zstdOf(t testing.TB, b []byte) []byte {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	require.NoError(t, err)
	return w.EncodeAll(b, nil)
}

func xerial(b []byte, block int) []byte {
	out := append([]byte(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1)
	for len(b) > 0 {
		n := min(block, len(b))
		packed := snappy.Encode(nil, b[:n])
		out = binary.BigEndian.AppendUint32(out, uint32(len(packed)))
		out = append(out, packed...)
		b = b[n:]
	}
	return out
}

func packed(t testing.TB, how string, records []NewRecord) []byte {
	p := packers[how]
	h := NewHeader(0, records)
	h.Attributes = int16(p.codec)
	return AppendBatch(nil, h, p.pack(t, body(records)))
}

func TestEveryPackingOfAClientIsWalked(t *testing.T) {
	for how := range packers {
		t.Run(how, func(t *testing.T) {
			for _, n := range []int{1, 3, 700} {
				b := packed(t, how, plain(n, 100))
				h, err := ValidateProduce(b, lenientRules())
				require.NoError(t, err)
				require.EqualValues(t, n, h.Count)

				unpacked, err := Unpack(nil, &h, b, 1<<20)
				require.NoError(t, err)
				require.Equal(t, body(plain(n, 100)), unpacked)
				if n > 1 {
					_, err = Unpack(nil, &h, b, len(unpacked)-1)
					require.ErrorIs(t, err, ErrBatchTooLarge)
					rules := lenientRules()
					rules.MaxUnpacked = int64(len(unpacked)) - 1
					_, err = ValidateProduce(b, rules)
					require.ErrorIs(t, err, ErrBatchTooLarge)
				}
			}
		})
	}
}

func TestPackedRecordsAreWalkedToTheLast(t *testing.T) {
	for how, p := range packers {
		t.Run(how, func(t *testing.T) {
			records := plain(50, 100)
			records[49].Timestamp = 4102444800000
			_, err := ValidateProduce(packed(t, how, records), lenientRules())
			require.ErrorIs(t, err, ErrInvalidTimestamp)
			require.ErrorContains(t, err, "record 49")

			h := NewHeader(0, records[:3])
			h.Attributes = int16(p.codec)
			for name, bytes := range map[string][]byte{
				"one record too many": body(records[:4]),
				"one record too few":  body(records[:2]),
				"a byte behind":       append(body(records[:3]), 0),
				"a byte less":         body(records[:3])[:len(body(records[:3]))-1],
			} {
				_, err := ValidateProduce(AppendBatch(nil, h, p.pack(t, bytes)), lenientRules())
				require.ErrorIs(t, err, ErrInvalidRecord, name)
			}
			whole := p.pack(t, body(records[:3]))
			_, err = ValidateProduce(AppendBatch(nil, h, whole[:len(whole)-3]), lenientRules())
			require.ErrorIs(t, err, ErrInvalidRecord, "packed bytes cut short")
		})
	}
}

func TestOffsetsInsideABatchCountUp(t *testing.T) {
	records := plain(3, 10)
	for _, deltas := range [][]int32{{0, 2, 1}, {0, 0, 1}, {1, 2, 3}, {0, 1, -1}} {
		var b []byte
		for i, d := range deltas {
			b = AppendRecord(b, &records[i], d, fixedTime)
		}
		_, err := ValidateProduce(AppendBatch(nil, NewHeader(0, records), b), lenientRules())
		require.ErrorIs(t, err, ErrInvalidRecord, deltas)
	}
}

func TestBombsAreRefusedWithoutTheirMemory(t *testing.T) {
	// One record whose value is zeros without end.
	zeros := []NewRecord{{Value: make([]byte, 64<<20)}}
	h := NewHeader(0, zeros)
	h.Attributes = int16(CodecZstd)
	b := AppendBatch(nil, h, zstdOf(t, body(zeros)))
	require.Less(t, len(b), 64<<10)
	for _, limit := range []int64{1 << 20, 128 << 20} {
		rules := lenientRules()
		rules.MaxUnpacked = limit
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ValidateProduce(b, rules)
		runtime.ReadMemStats(&after)
		require.Equal(t, limit < 64<<20, errors.Is(err, ErrBatchTooLarge), err)
		require.Equal(t, limit > 64<<20, err == nil, err)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32<<20), "limit %d", limit)
	}

	// Snappy that claims 4 GiB, lz4 and zstd frames that claim what they do not hold.
	for codec, bytes := range map[int8][]byte{
		CodecSnappy: append(binary.AppendUvarint(nil, math.MaxUint32), 1, 2, 3),
		CodecLZ4:    []byte(lz4Magic + "\x60\x70\x73\xff\xff\xff\x7f"),
		CodecZstd:   {0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
	} {
		h.Attributes = int16(codec)
		_, err := ValidateProduce(AppendBatch(nil, h, bytes), lenientRules())
		require.ErrorIs(t, err, ErrInvalidRecord, CodecName(codec))
	}
}

func TestLinkedLZ4BlocksAreRefused(t *testing.T) {
	h := NewHeader(0, plain(1, 1))
	h.Attributes = int16(CodecLZ4)
	b := packers["lz4"].pack(t, body(plain(1, 1)))
	b[4] &^= 0x20
	_, err := ValidateProduce(AppendBatch(nil, h, b), lenientRules())
	require.ErrorIs(t, err, ErrInvalidRecord, "Kafka's own readers cannot read them")
}

func TestPaddedNumbersAreRefused(t *testing.T) {
	padded := func(zeros int) []byte { // a record whose offset delta 0 is written in zeros+1 bytes
		b := append([]byte{0, 0}, bytes.Repeat([]byte{0x80}, zeros)...) // attributes, timestamp delta
		b = append(b, 0, 1, 1, 0)                                       // the delta's end, null key and value, no headers
		return append(binary.AppendVarint(nil, int64(len(b))), b...)
	}
	h := NewHeader(0, make([]NewRecord, 1))
	for zeros, fine := range map[int]bool{0: true, 4: true, 5: false, 8: false, 10: false} {
		_, err := ValidateProduce(AppendBatch(nil, h, padded(zeros)), lenientRules())
		require.Equal(t, fine, err == nil, "%d: %v", zeros, err)
	}
}

func TestExtendedSnappyIsRefused(t *testing.T) {
	records := plain(200, 300)
	h := NewHeader(0, records)
	h.Attributes = int16(CodecSnappy)
	_, err := ValidateProduce(AppendBatch(nil, h, s2.EncodeSnappyBest(nil, body(records))), lenientRules())
	require.NoError(t, err)
	extended := s2.EncodeBetter(nil, body(records))
	_, err = s2.Decode(nil, extended)
	require.NoError(t, err, "our decoder knows them")
	_, err = ValidateProduce(AppendBatch(nil, h, extended), lenientRules())
	require.ErrorIs(t, err, ErrInvalidRecord, "Kafka's own readers do not")
}

func TestAppendTimeIsStampedAndSealed(t *testing.T) {
	rules := lenientRules()
	rules.LogAppendTime = true
	b := NewBatch(0, plain(3, 10)...)
	h, err := ValidateProduce(b, rules)
	require.NoError(t, err)
	require.True(t, h.HasLogAppendTime())
	require.Equal(t, rules.Now, h.MaxTimestamp)
	require.NoError(t, Verify(&h, b))
	parsed, err := ParseHeader(b)
	require.NoError(t, err)
	require.Equal(t, parsed, h)
}

func TestAMaximumThatTheRecordsBelieIsPutRight(t *testing.T) {
	for _, wrong := range []int64{-1, fixedTime, fixedTime + 500, math.MaxInt64} {
		records := plain(3, 10)
		h := NewHeader(0, records)
		h.MaxTimestamp = wrong
		b := AppendBatch(nil, h, body(records))
		got, err := ValidateProduce(b, lenientRules())
		require.NoError(t, err)
		require.EqualValues(t, fixedTime+2, got.MaxTimestamp)
		require.NoError(t, Verify(&got, b))
	}
	records := plain(3, 10)
	h := NewHeader(0, records)
	h.Attributes |= AttrLogAppendTime
	b := AppendBatch(nil, h, body(records))
	got, err := ValidateProduce(b, lenientRules())
	require.NoError(t, err)
	require.False(t, got.HasLogAppendTime(), "the type is the log's to give")
	require.NoError(t, Verify(&got, b))
}

func TestAClaimedAppendTimeIsRefusedWhereTheLogStamps(t *testing.T) {
	rules := lenientRules()
	rules.LogAppendTime = true
	h := NewHeader(0, plain(2, 1))
	h.Attributes |= AttrLogAppendTime
	_, err := ValidateProduce(AppendBatch(nil, h, body(plain(2, 1))), rules)
	require.ErrorIs(t, err, ErrInvalidTimestamp)
}

func TestTimestampBoundsAreInclusive(t *testing.T) {
	rules := lenientRules()
	rules.BeforeMaxMS, rules.AfterMaxMS = 1000, 2000
	for delta, fine := range map[int64]bool{-1001: false, -1000: true, 0: true, 2000: true, 2001: false} {
		_, err := ValidateProduce(NewBatch(0, NewRecord{Timestamp: rules.Now + delta}), rules)
		if fine {
			require.NoError(t, err, delta)
		} else {
			require.ErrorIs(t, err, ErrInvalidTimestamp, delta)
		}
	}
	rules.BeforeMaxMS, rules.AfterMaxMS = math.MaxInt64, math.MaxInt64
	for _, ts := range []int64{math.MaxInt64, 0, -1} {
		_, err := ValidateProduce(NewBatch(0, NewRecord{Timestamp: ts}), rules)
		require.NoError(t, err, ts)
	}
}

func TestCompactedTopicsNeedKeys(t *testing.T) {
	rules := lenientRules()
	rules.Compacted = true
	records := plain(4, 10)
	_, err := ValidateProduce(NewBatch(0, records...), rules)
	require.NoError(t, err)
	records[1].Key, records[3].Key = nil, nil
	records[2].Key = []byte{}
	_, err = ValidateProduce(NewBatch(0, records...), rules)
	require.ErrorIs(t, err, ErrInvalidRecord)
	var refusal *BatchError
	require.ErrorAs(t, err, &refusal)
	require.Len(t, refusal.Records, 2)
	require.EqualValues(t, 1, refusal.Records[0].Index)
	require.EqualValues(t, 3, refusal.Records[1].Index)
	records[3].Timestamp = 4102444800000
	records[3].Key = []byte("k")
	_, err = ValidateProduce(NewBatch(0, records...), rules)
	require.ErrorIs(t, err, ErrInvalidTimestamp, "a wrong time outweighs, as in Kafka")
}

func TestABatchMustFitASegment(t *testing.T) {
	rules := lenientRules()
	b := NewBatch(0, plain(1, 100)...)
	rules.SegmentBytes = int64(len(b))
	_, err := ValidateProduce(b, rules)
	require.NoError(t, err)
	rules.SegmentBytes--
	_, err = ValidateProduce(b, rules)
	require.ErrorIs(t, err, ErrSegmentTooSmall)
}

func TestARefusedBatchIsLeftAsItWas(t *testing.T) {
	records := plain(3, 10)
	records[2].Timestamp = 4102444800000
	h := NewHeader(0, records)
	h.MaxTimestamp = 5
	b := AppendBatch(nil, h, body(records))
	before := bytes.Clone(b)
	_, err := ValidateProduce(b, lenientRules())
	require.Error(t, err)
	require.Equal(t, before, b)
}

func TestEveryCutAndFlipOfABatchIsRefused(t *testing.T) {
	b := NewBatch(0, plain(3, 10)...)
	for n := range len(b) {
		_, err := ValidateProduce(bytes.Clone(b[:n]), lenientRules())
		require.Error(t, err, "%d bytes of %d", n, len(b))
	}
	for i := range b {
		if i >= offEpoch && i < offMagic {
			continue // the leader epoch is the log's to write
		}
		for bit := range 8 {
			flipped := bytes.Clone(b)
			flipped[i] ^= 1 << bit
			_, err := ValidateProduce(flipped, lenientRules())
			require.Error(t, err, "byte %d bit %d", i, bit)
		}
	}
}

func TestNamedRecordsAreBounded(t *testing.T) {
	records := make([]NewRecord, maxFaults+50)
	for i := range records {
		records[i].Timestamp = 4102444800000
	}
	_, err := ValidateProduce(NewBatch(0, records...), lenientRules())
	var refusal *BatchError
	require.ErrorAs(t, err, &refusal)
	require.Len(t, refusal.Records, maxFaults)
}

// BenchmarkValidateProduce measures batches of 64 KiB of 1 KiB records.
func BenchmarkValidateProduce(b *testing.B) {
	records := make([]NewRecord, 63)
	for i := range records {
		records[i] = NewRecord{Value: []byte(strings.Repeat(string(rune('a'+i%26)), 1000) + "0123456789"), Timestamp: fixedTime + int64(i)}
	}
	h := NewHeader(0, records)
	run := func(name string, batch []byte) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body(records))))
			b.ReportAllocs()
			rules := lenientRules()
			for b.Loop() {
				if _, err := ValidateProduce(batch, rules); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("none", AppendBatch(nil, h, body(records)))
	for _, how := range []string{"gzip", "snappy raw", "lz4", "zstd stream"} {
		run(how, packed(b, how, records))
	}
}

func FuzzValidateProduce(f *testing.F) {
	for how := range packers {
		f.Add(packed(f, how, plain(3, 30)), true)
	}
	f.Add(NewBatch(0, plain(3, 30)...), false)
	for _, s := range recorded(f, "04-produce-faults") {
		if req := s.produce(f); len(req.Topics) > 0 && len(req.Topics[0].Partitions) > 0 {
			f.Add(req.Topics[0].Partitions[0].Records, true)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		b = bytes.Clone(b) // it is stamped in place
		if size := sizeIn(b); seal && size >= HeaderSize && size <= int64(len(b)) {
			h, _ := ParseHeader(b)
			SetMaxTimestamp(b, h.HasLogAppendTime(), h.MaxTimestamp) // a checksum that fits lets faults behind it be reached
		}
		rules := lenientRules()
		rules.MaxUnpacked = 1 << 20
		h, err := ValidateProduce(b, rules)
		if err != nil {
			var refusal *BatchError
			require.ErrorAs(t, err, &refusal)
			return
		}
		// What was accepted can be read to the last record, and stands as it is when it comes again.
		require.NoError(t, Verify(&h, b))
		var r RecordReader
		require.NoError(t, r.Reset(&h, b))
		n, newest := int32(0), NoTimestamp
		for ; r.Next(); n++ {
			require.EqualValues(t, n, r.Record.Offset)
			newest = max(newest, r.Record.Timestamp)
		}
		require.NoError(t, r.Err())
		require.Equal(t, h.Count, n)
		require.Equal(t, newest, h.MaxTimestamp)
		again, err := ValidateProduce(b, rules)
		require.NoError(t, err)
		require.Equal(t, h, again)
	})
}

func sizeIn(b []byte) int64 {
	if len(b) < LogOverhead {
		return 0
	}
	return int64(int32(binary.BigEndian.Uint32(b[offLength:]))) + LogOverhead
}
