package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

// dumper prints segments one after the other, batch by batch.
type dumper struct {
	*app
	records bool
	w       *bufio.Writer
	reader  record.RecordReader
}

func (d *dumper) flush() error {
	if d.w == nil {
		return nil
	}
	return d.w.Flush()
}

// segment prints one segment up to its end or its first bad byte, which is an error that names it.
func (d *dumper) segment(ctx context.Context, disk vfs.FS, s segmentFile) (err error) {
	f, err := disk.Open(s.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return err
	}
	if d.w == nil {
		d.w = bufio.NewWriterSize(d.out, 64<<10)
	}
	scan := record.Scan(f, 0, size)
	for scan.Next() {
		if err := ctx.Err(); err != nil {
			return errors.Join(d.flush(), err)
		}
		if err := d.batch(s.path, scan); err != nil {
			return errors.Join(d.flush(), fmt.Errorf("%s: byte %d: %w", s.path, scan.Pos, err))
		}
	}
	if err := d.flush(); err != nil || scan.Err() == nil {
		return err
	}
	zeros, err := scan.ZeroTail()
	if err == nil && zeros {
		d.note("%s: %d bytes from byte %d on are zero: room that was never written", s.path, size-scan.Pos, scan.Pos)
		return nil
	}
	return errors.Join(fmt.Errorf("%s: byte %d is the first bad one: %w", s.path, scan.Pos, scan.Err()), err)
}

// batch prints the scanner's batch.
func (d *dumper) batch(file string, scan *record.Scanner) error {
	h := &scan.Header
	if d.records || h.IsControl() && h.Count > 0 {
		if err := d.reader.Reset(h, scan.Batch()); err != nil {
			return err
		}
	}
	if d.records {
		for d.reader.Next() {
			if err := d.record(h); err != nil {
				return err
			}
		}
		return d.reader.Err()
	}
	var key []byte
	if h.IsControl() && d.reader.Next() {
		key = d.reader.Record.Key
	}
	v := batchView{
		File: file, Position: scan.Pos, Size: h.Size(), BaseOffset: h.BaseOffset, LastOffset: h.LastOffset(), Count: h.Count,
		LeaderEpoch: h.LeaderEpoch, Codec: record.CodecName(h.Codec()), TimestampType: timestampType(h),
		MaxTimestamp: h.MaxTimestamp, ProducerID: h.ProducerID, ProducerEpoch: h.ProducerEpoch, Sequence: h.BaseSequence,
		Transactional: h.IsTransactional(),
	}
	if at, ok := h.DeleteHorizon(); ok {
		v.DeleteHorizon = &at
	}
	if h.Count > 0 {
		var err error
		if v.Control, err = controlOf(h, key); err != nil {
			return err
		}
	} else if h.IsControl() {
		v.Control = new(string)
		*v.Control = "emptied"
	}
	if d.output == "json" {
		return writeJSON(d.w, v, true)
	}
	return d.line(
		field("offsets", "%d-%d", v.BaseOffset, v.LastOffset), field("records", "%d", v.Count), field("epoch", "%d", v.LeaderEpoch),
		field("codec", "%s", v.Codec), stamp(v.TimestampType, v.MaxTimestamp), producerFields(v.ProducerID, v.ProducerEpoch, v.Sequence),
		flagFields(v.Transactional, v.Control), horizonField(v.DeleteHorizon),
		field("bytes", "%d", v.Size), field("at", "%d", v.Position))
}

// record prints the reader's record.
func (d *dumper) record(h *record.Header) error {
	r := &d.reader.Record
	v := loggedRecord{
		Offset: r.Offset, Timestamp: r.Timestamp, TimestampType: timestampType(h), LeaderEpoch: h.LeaderEpoch,
		Codec: record.CodecName(h.Codec()), Key: textOf(r.Key), Value: textOf(r.Value), Headers: [][2]*string{},
		ProducerID: h.ProducerID, ProducerEpoch: h.ProducerEpoch, Sequence: record.NoSequence, Transactional: h.IsTransactional(),
	}
	if h.BaseSequence >= 0 {
		v.Sequence = record.IncrementSequence(h.BaseSequence, int32(r.Offset-h.BaseOffset))
	}
	for key, value := range r.EachHeader {
		v.Headers = append(v.Headers, [2]*string{textOf(key), textOf(value)})
	}
	var err error
	if v.Control, err = controlOf(h, r.Key); err != nil {
		return err
	}
	if d.output == "json" {
		return writeJSON(d.w, v, true)
	}
	fields := []string{
		field("offset", "%d", v.Offset), stamp(v.TimestampType, v.Timestamp), field("epoch", "%d", v.LeaderEpoch), field("codec", "%s", v.Codec),
		producerFields(v.ProducerID, v.ProducerEpoch, v.Sequence), flagFields(v.Transactional, v.Control),
		"key=" + quoted(v.Key), "value=" + quoted(v.Value),
	}
	for _, pair := range v.Headers {
		fields = append(fields, "header="+quoted(pair[0])+":"+quoted(pair[1]))
	}
	return d.line(fields...)
}

// line writes what is not empty of its fields.
func (d *dumper) line(fields ...string) error {
	for i, f := range fields {
		if f == "" {
			continue
		}
		if i > 0 {
			d.w.WriteByte(' ')
		}
		d.w.WriteString(f)
	}
	return d.w.WriteByte('\n') // a bufio.Writer keeps its first error
}

func field(name, format string, args ...any) string { return name + "=" + fmt.Sprintf(format, args...) }

// stamp writes a timestamp for people, UTC.
func stamp(kind string, ms int64) string {
	if ms == record.NoTimestamp {
		return kind + "=-"
	}
	return kind + "=" + time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

func producerFields(id int64, epoch int16, sequence int32) string {
	if id < 0 {
		return ""
	}
	return fmt.Sprintf("producer=%d/%d sequence=%d", id, epoch, sequence)
}

func flagFields(transactional bool, control *string) string {
	var flags []string
	if transactional {
		flags = append(flags, "transactional")
	}
	if control != nil {
		flags = append(flags, "control="+*control)
	}
	return strings.Join(flags, " ")
}

func horizonField(at *int64) string {
	if at == nil {
		return ""
	}
	return stamp("horizon", *at)
}

// quoted writes text for one line of people's output.
func quoted(s *string) string {
	if s == nil {
		return "null"
	}
	b, err := json.Marshal(*s)
	if err != nil {
		return fmt.Sprintf("%q", *s)
	}
	return string(b)
}
