package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"
)

// maxFaults bounds the records that a refused batch names.
const maxFaults = 10000

// minLength is the least that a batch of any format gives as its length; bytes that follow a batch and are fewer than
// LogOverhead are no batch.
const (
	minLength  = 14
	minToMagic = offMagic + 1
)

// ProduceRules is what a partition demands of a batch that a client sends.
type ProduceRules struct {
	MaxBytes       int32 // max.message.bytes, of the whole batch as sent
	SegmentBytes   int64 // segment.bytes
	Now            int64 // wall clock, milliseconds
	BeforeMaxMS    int64 // message.timestamp.before.max.ms
	AfterMaxMS     int64 // message.timestamp.after.max.ms
	LogAppendTime  bool  // message.timestamp.type=LogAppendTime: the batch gets Now
	Compacted      bool  // cleanup.policy has compact: keys are required
	Transactional  bool  // the request bears a transactional id
	RequestVersion int16 // of Produce
	MaxUnpacked    int64 // bytes of the records after decompression; 0 = MaxUnpacked
}

// ValidateProduce checks the records that a client sent for one partition: exactly one batch in the current format,
// whole, sound and within the rules, record by record. Compressed records are unpacked through a small window and walked
// as well, so that nothing is stored that a reader chokes on. It stamps the batch in place where the log's rules say so:
// append time, and a maximum timestamp that the records belie. It returns the header as it stands afterwards; the batch
// is records[:header.Size()] (a few stray bytes behind it are allowed and not part of it).
//
// A refusal is a *BatchError, and nothing was changed. It does not retain records, needs no lock, and allocates nothing
// for uncompressed batches.
func ValidateProduce(records []byte, rules ProduceRules) (Header, error) {
	h, err := soleBatch(records, rules.RequestVersion)
	if err != nil {
		return h, err
	}
	batch := records[:h.Size()]
	if err := checkHeader(&h, batch, &rules); err != nil {
		return h, err
	}
	newest, err := checkRecords(&h, batch, &rules)
	if err != nil {
		return h, err
	}
	switch {
	case rules.LogAppendTime:
		SetMaxTimestamp(batch, true, rules.Now)
	case h.HasLogAppendTime() || newest != h.MaxTimestamp:
		SetMaxTimestamp(batch, false, newest)
	default:
		return h, nil
	}
	return ParseHeader(batch)
}

func refuse(err error, format string, args ...any) *BatchError {
	return &BatchError{Err: err, Message: fmt.Sprintf(format, args...)}
}

func (e *BatchError) silent() *BatchError   { e.Silent = true; return e }
func (e *BatchError) logStart() *BatchError { e.LogStart = true; return e }

// soleBatch finds the one batch of a request: what Kafka checks before it looks at the partition.
func soleBatch(b []byte, version int16) (Header, error) {
	if len(b) < LogOverhead {
		return Header{}, refuse(ErrInvalidRecord, "no batch: %d bytes of records", len(b)).silent()
	}
	length := int32(binary.BigEndian.Uint32(b[offLength:]))
	if length < minLength {
		return Header{}, refuse(ErrCorruptBatch, "the batch's length is %d, at least %d are needed", length, minLength)
	}
	if len(b) < minToMagic {
		return Header{}, refuse(ErrInvalidRecord, "no whole batch: %d bytes of records", len(b)).silent()
	}
	size := int64(length) + LogOverhead
	switch magic := int8(b[offMagic]); {
	case magic < 0 || magic > CurrentMagic:
		return Header{}, refuse(ErrCorruptBatch, "magic %d is unknown", magic)
	case size > int64(len(b)):
		return Header{}, refuse(ErrInvalidRecord, "the batch is %d bytes long, %d came", size, len(b)).silent()
	case magic < CurrentMagic:
		return Header{}, refuse(ErrInvalidRecord, "magic %d is no longer accepted, only %d", magic, CurrentMagic).silent()
	case size < HeaderSize:
		return Header{}, refuse(ErrCorruptBatch, "the batch is %d bytes long, its header alone is %d", size, HeaderSize).silent()
	}
	if int8(b[offAttributes+1]&AttrCodecMask) == CodecZstd && version < 7 {
		return Header{}, refuse(ErrUnsupportedCodec, "zstd needs version 7 of Produce, this is version %d", version).silent()
	}
	if err := checkTail(b[size:]); err != nil {
		return Header{}, err
	}
	h, err := ParseHeader(b)
	if err != nil && h.LastOffsetDelta >= 0 {
		return h, refuse(ErrCorruptBatch, "the header cannot be read: %v", err)
	}
	return h, nil // a negative delta is checkHeader's to refuse
}

// checkTail looks at what follows the batch. Fewer than LogOverhead bytes are ignored, as Kafka does.
func checkTail(b []byte) error {
	switch {
	case len(b) < LogOverhead:
		return nil
	case int32(binary.BigEndian.Uint32(b[offLength:])) < minLength,
		len(b) >= minToMagic && (int8(b[offMagic]) < 0 || b[offMagic] > CurrentMagic):
		return refuse(ErrCorruptBatch, "%d bytes follow the batch and are none", len(b)).silent()
	}
	return refuse(ErrInvalidRecord, "%d bytes follow the batch; one batch a partition is allowed", len(b)).silent()
}

// checkHeader checks all that can be known without reading a record.
func checkHeader(h *Header, batch []byte, rules *ProduceRules) error {
	if h.BaseOffset != 0 {
		return refuse(ErrInvalidRecord, "the base offset is %d, producers send 0", h.BaseOffset).silent().logStart()
	}
	if h.Size() > int64(rules.MaxBytes) {
		return refuse(ErrBatchTooLarge, "the batch is %d bytes long, max.message.bytes is %d", h.Size(), rules.MaxBytes).silent()
	}
	if h.Size() > rules.SegmentBytes {
		return refuse(ErrSegmentTooSmall, "the batch is %d bytes long, segment.bytes is %d", h.Size(), rules.SegmentBytes).silent()
	}
	if Verify(h, batch) != nil {
		return refuse(ErrCorruptBatch, "the checksum does not fit the bytes").silent()
	}
	if h.Codec() > CodecZstd {
		return refuse(ErrUnsupportedCodec, "codec %d is unknown", h.Codec()).silent().logStart()
	}
	if err := checkClaims(h, rules); err != nil {
		return err.silent().logStart()
	}
	return nil
}

func checkClaims(h *Header, rules *ProduceRules) *BatchError {
	switch {
	case h.LastOffsetDelta < 0 || int64(h.Count) != int64(h.LastOffsetDelta)+1:
		return refuse(ErrInvalidRecord, "the batch counts %d records and its last offset delta is %d", h.Count, h.LastOffsetDelta)
	case h.IsControl():
		return refuse(ErrInvalidRecord, "clients must not write control batches")
	case h.HasProducer() && h.BaseSequence < 0:
		return refuse(ErrInvalidRecord, "producer %d sent the sequence %d", h.ProducerID, h.BaseSequence)
	case h.IsTransactional() && !rules.Transactional:
		return refuse(ErrInvalidTxnState, "a transactional batch needs a transactional id in its request")
	}
	return nil
}

// checkRecords walks every record and returns the newest timestamp among them, NoTimestamp if none is above that.
func checkRecords(h *Header, batch []byte, rules *ProduceRules) (int64, error) {
	if h.Codec() == CodecNone {
		w := walker{buf: batch[HeaderSize:]}
		return walkAll(&w, h, rules)
	}
	newest, err := checkPacked(h, batch, rules, false)
	if errors.Is(err, zstd.ErrWindowSizeExceeded) {
		newest, err = checkPacked(h, batch, rules, true)
	}
	if err == nil || errors.As(err, new(*BatchError)) {
		return newest, err
	}
	if errors.Is(err, errUnpacked) {
		return 0, refuse(ErrBatchTooLarge, "the records unpack to more than %d bytes", rules.unpacked()).logStart()
	}
	return 0, refuse(ErrInvalidRecord, "%s: %v", CodecName(h.Codec()), err).silent().logStart()
}

func (r *ProduceRules) unpacked() int64 {
	if r.MaxUnpacked > 0 {
		return r.MaxUnpacked
	}
	return MaxUnpacked
}

// checkPacked is walkAll through an unpacker; an error of the decompressor comes back as it is.
func checkPacked(h *Header, batch []byte, rules *ProduceRules, rare bool) (int64, error) {
	u, r, err := newUnpacker(h.Codec(), batch[HeaderSize:], rare)
	if err != nil {
		return 0, err
	}
	defer u.done()
	w := walker{buf: u.window[:0], src: r, room: rules.unpacked()}
	newest, err := walkAll(&w, h, rules)
	if w.err != nil && !errors.Is(w.err, io.EOF) {
		return 0, w.err
	}
	return newest, err
}

// walkAll checks count records and that nothing follows them.
func walkAll(w *walker, h *Header, rules *ProduceRules) (int64, error) {
	t := newTimeCheck(h, rules)
	var faults []BatchFault
	newest := NoTimestamp
	for i := range h.Count {
		r, ok := w.next()
		if !ok {
			return 0, refuse(ErrInvalidRecord, "record %d of %d is malformed or cut short", i, h.Count).silent().logStart()
		}
		if r.offsetDelta != i {
			return 0, refuse(ErrInvalidRecord, "record %d bears the offset delta %d", i, r.offsetDelta).silent().logStart()
		}
		ts := h.BaseTimestamp + r.timeDelta
		newest = max(newest, ts)
		if len(faults) >= maxFaults {
			continue // it is refused anyway; the rest is walked for its format
		}
		if rules.Compacted && r.nullKey {
			faults = append(faults, BatchFault{i, "a compacted topic needs a key in every record"})
		} else if fault := t.fault(ts); fault != "" {
			faults = append(faults, BatchFault{i, fault})
		}
	}
	if !w.ended() {
		return 0, refuse(ErrInvalidRecord, "bytes follow the last of %d records", h.Count).silent().logStart()
	}
	if len(faults) > 0 {
		err := ErrInvalidRecord
		if t.failed {
			err = ErrInvalidTimestamp
		}
		e := refuse(err, "%d of %d records refused; record %d: %s", len(faults), h.Count, faults[0].Index, faults[0].Message).logStart()
		e.Records = faults
		return 0, e
	}
	return newest, nil
}

// timeCheck judges create times.
type timeCheck struct {
	oldest, newest int64 // bounds, inclusive
	stamped        bool  // the producer claims append time, which is not its to give
	appendTime     bool  // the log stamps: bounds do not count
	failed         bool
	rules          *ProduceRules
}

func newTimeCheck(h *Header, rules *ProduceRules) timeCheck {
	return timeCheck{
		oldest:     saturate(rules.Now, -rules.BeforeMaxMS),
		newest:     saturate(rules.Now, rules.AfterMaxMS),
		stamped:    h.HasLogAppendTime(),
		appendTime: rules.LogAppendTime,
		rules:      rules,
	}
}

// saturate adds without wrapping.
func saturate(a, b int64) int64 {
	switch sum := a + b; {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}

// fault is what is wrong with a timestamp, "" if nothing is. Records without a timestamp pass.
func (t *timeCheck) fault(ts int64) string {
	bounded := !t.appendTime && ts != NoTimestamp
	switch {
	case bounded && ts >= t.oldest && ts <= t.newest:
		return ""
	case bounded && ts < t.oldest:
		t.failed = true
		return fmt.Sprintf("timestamp %d is more than %d ms before the leader's clock", ts, t.rules.BeforeMaxMS)
	case bounded:
		t.failed = true
		return fmt.Sprintf("timestamp %d is more than %d ms ahead of the leader's clock", ts, t.rules.AfterMaxMS)
	case t.stamped:
		t.failed = true
		return "the producer set the timestamp type to append time, which only the log does"
	}
	return ""
}
