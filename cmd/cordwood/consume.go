package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// recordView is one record as JSON; the shape is that of log dump, with its place.
type recordView struct {
	Topic         string    `json:"topic"`
	Partition     int32     `json:"partition"`
	Offset        int64     `json:"offset"`
	Timestamp     int64     `json:"timestamp"`
	TimestampType string    `json:"timestampType"` // create or append
	LeaderEpoch   int32     `json:"leaderEpoch"`
	Codec         string    `json:"codec"`
	Key           *string   `json:"key"`   // null where there is none; "base64:…" where it is not UTF-8
	Value         *string   `json:"value"` // like key
	Headers       [][2]text `json:"headers"`
	ProducerID    int64     `json:"producerId"`
	ProducerEpoch int16     `json:"producerEpoch"`
	Transactional bool      `json:"transactional"`
}

// text is a string or null.
type text = *string

// textOf writes bytes as text, or in base64 where they are none.
func textOf(b []byte) text {
	if b == nil {
		return nil
	}
	s := string(b)
	if !utf8.ValidString(s) {
		s = "base64:" + base64.StdEncoding.EncodeToString(b)
	}
	return &s
}

var codecNames = []string{"none", "gzip", "snappy", "lz4", "zstd"}

func viewRecord(r *kgo.Record) recordView {
	v := recordView{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), TimestampType: "create",
		LeaderEpoch: r.LeaderEpoch, Codec: "unknown", Key: textOf(r.Key), Value: textOf(r.Value), Headers: [][2]text{},
		ProducerID: r.ProducerID, ProducerEpoch: r.ProducerEpoch, Transactional: r.Attrs.IsTransactional()}
	if r.Attrs.TimestampType() == 1 {
		v.TimestampType = "append"
	}
	if c := int(r.Attrs.CompressionType()); c < len(codecNames) {
		v.Codec = codecNames[c]
	}
	for _, h := range r.Headers {
		v.Headers = append(v.Headers, [2]text{textOf([]byte(h.Key)), textOf(h.Value)})
	}
	return v
}

type consumeOptions struct {
	topic      string
	offset     string
	count      int64
	toEnd      bool
	format     string
	partitions []int32
}

func newConsumeCommand(a *app) *cobra.Command {
	var o consumeOptions
	cmd := a.shaped(&cobra.Command{Use: "consume TOPIC", Short: "Read records", Args: takes(1, 1, "a topic"),
		Long: `Read records and print them, a value a line unless -f or -o says otherwise.

Where to begin (-O): beginning, end, 47 (that offset), +5 (five after the beginning), -5 (five before the end),
@TIME (the first record at or after TIME: milliseconds since 1970, 2006-01-02T15:04:05Z, or -15m for a while ago).

Letters of -f: %t topic, %p partition, %o offset, %k key, %v or %s value, %K and %S their lengths (-1: none), %h headers,
%T time of the record, %m the same in milliseconds since 1970, %e leader epoch, %% a percent sign; \n \t \r \0 \\ \xHH.`,
		Example:           "  cordwood consume orders -O beginning -n 2 -f '%p:%o %T %k %v\\n'\n  cordwood consume orders -e -o json",
		ValidArgsFunction: a.completeTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.topic = args[0]
			return a.consume(cmd.Context(), &o)
		}}, recordView{})
	f := cmd.Flags()
	f.StringVarP(&o.offset, "offset", "O", "beginning", "Where to begin")
	f.Int64VarP(&o.count, "count", "n", 0, "End after so many records")
	f.BoolVarP(&o.toEnd, "exit", "e", false, "End at the end of the topic as it is now")
	f.StringVarP(&o.format, "format", "f", "", "How to print a record")
	f.Int32SliceVarP(&o.partitions, "partition", "p", nil, "Read these partitions only")
	return cmd
}

func (a *app) consume(ctx context.Context, o *consumeOptions) error {
	from, err := parseStart(o.offset, time.Now())
	if err != nil {
		return err
	}
	if o.count < 0 {
		return usage("-n must not be negative")
	}
	write, err := a.recordWriter(o.format)
	if err != nil {
		return err
	}
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	partitions, err := c.partitionsOf(ctx, o.topic, o.partitions)
	if err != nil {
		return err
	}
	at, err := c.startOffsets(ctx, o.topic, partitions, from)
	if err != nil {
		return err
	}
	var ends map[int32]int64
	if o.toEnd {
		if ends, err = c.allOffsets(ctx, o.topic, partitions, -1); err != nil {
			return err
		}
	}
	left := o.count
	err = a.readLog(ctx, c, &logReader{topic: o.topic, from: at, ends: ends}, func(r *kgo.Record) (bool, error) {
		if r.Attrs.IsControl() {
			return true, nil
		}
		if err := write(r); err != nil {
			return false, err
		}
		left--
		return left != 0, nil
	})
	return err
}

// recordWriter prints a record as -f or -o says.
func (a *app) recordWriter(format string) (func(*kgo.Record) error, error) {
	if format == "" {
		switch a.output {
		case "json":
			return func(r *kgo.Record) error { return writeJSON(a.out, viewRecord(r), true) }, nil
		case "yaml":
			return func(r *kgo.Record) error { return writeYAML(a.out, []recordView{viewRecord(r)}) }, nil
		case "wide":
			format = `%p:%o\t%T\t%k\t%v\n`
		case "name":
			format = `%p:%o\n`
		default:
			format = `%v\n`
		}
	}
	parts, err := parseFormat(format)
	if err != nil {
		return nil, err
	}
	var line []byte
	return func(r *kgo.Record) error {
		line = line[:0]
		for _, p := range parts {
			line = p(line, r)
		}
		_, err := a.out.Write(line)
		return err
	}, nil
}

// startAt is a parsed -O.
type startAt struct {
	kind  byte // 'b' beginning, 'e' end, 'a' absolute, '@' time
	delta int64
}

// parseStart reads the grammar of -O. now is what a while ago counts from.
func parseStart(s string, now time.Time) (startAt, error) {
	bad := func() (startAt, error) {
		return startAt{}, usage(fmt.Sprintf("-O %s: write beginning, end, 47, +5, -5 or @time", s))
	}
	switch s {
	case "beginning", "earliest", "start", "oldest":
		return startAt{kind: 'b'}, nil
	case "end", "latest", "newest":
		return startAt{kind: 'e'}, nil
	case "":
		return bad()
	}
	if t, ok := strings.CutPrefix(s, "@"); ok {
		if ms, err := strconv.ParseInt(t, 10, 64); err == nil && ms >= 0 {
			return startAt{'@', ms}, nil
		}
		if ago, err := time.ParseDuration(t); err == nil && ago < 0 {
			return startAt{'@', now.Add(ago).UnixMilli()}, nil
		}
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02"} {
			if at, err := time.Parse(layout, t); err == nil {
				return startAt{'@', at.UnixMilli()}, nil
			}
		}
		return bad()
	}
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil:
		return bad()
	case s[0] == '+':
		return startAt{'b', n}, nil
	case s[0] == '-':
		return startAt{'e', n}, nil
	}
	return startAt{'a', n}, nil
}

// partitionsOf lists the partitions of a topic, or checks those that are asked for.
func (c *client) partitionsOf(ctx context.Context, topic string, only []int32) ([]int32, error) {
	ctx, cancel := context.WithTimeout(ctx, c.app.timeout)
	defer cancel()
	t, err := c.topic(ctx, topic)
	if err != nil {
		return nil, err
	}
	var all []int32
	for _, p := range t.Partitions {
		all = append(all, p.Partition)
	}
	slices.Sort(all)
	for _, p := range only {
		if !slices.Contains(all, p) {
			return nil, &failure{code: exitNotFound, err: errNoPartition(topic, p, len(all)), kafka: "UNKNOWN_TOPIC_OR_PARTITION"}
		}
	}
	if len(only) > 0 {
		return only, nil
	}
	return all, nil
}

// allOffsets is offsets for all of the partitions: it asks again until each has answered or --timeout ends, so that a
// partition between two leaders is waited for.
func (c *client) allOffsets(ctx context.Context, topic string, partitions []int32, at int64) (map[int32]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, c.app.timeout)
	defer cancel()
	out := map[int32]int64{}
	for {
		var missing []int32
		for _, p := range partitions {
			if _, ok := out[p]; !ok {
				missing = append(missing, p)
			}
		}
		if len(missing) == 0 {
			return out, nil
		}
		got, err := c.offsets(ctx, topic, missing, at)
		for p, o := range got {
			out[p] = o
		}
		if err == nil && len(got) == len(missing) {
			return out, nil
		}
		select {
		case <-afterRetry():
		case <-ctx.Done():
			if err == nil {
				err = ctx.Err()
			}
			return nil, &failure{code: exitUnreachable, err: fmt.Errorf("partitions %s of %s have no leader that answers: %w", ids(missing), topic, err)}
		}
	}
}

// startOffsets turns a start into an offset for each partition.
func (c *client) startOffsets(ctx context.Context, topic string, partitions []int32, from startAt) (map[int32]int64, error) {
	starts, err := c.allOffsets(ctx, topic, partitions, -2)
	if err != nil || from.kind == 'b' && from.delta == 0 {
		return starts, err
	}
	ends, err := c.allOffsets(ctx, topic, partitions, -1)
	if err != nil {
		return nil, err
	}
	var times map[int32]int64
	if from.kind == '@' {
		if times, err = c.allOffsets(ctx, topic, partitions, from.delta); err != nil {
			return nil, err
		}
	}
	out := map[int32]int64{}
	for _, p := range partitions {
		at := from.delta
		switch from.kind {
		case 'b':
			at += starts[p]
		case 'e':
			at += ends[p]
		case '@':
			if at = times[p]; at < 0 {
				at = ends[p] // no record as late as that
			}
		}
		out[p] = min(max(at, starts[p]), ends[p])
	}
	return out, nil
}

// formatPart appends its piece of one record.
type formatPart func(line []byte, r *kgo.Record) []byte

var formatLetters = map[byte]formatPart{
	'%': func(b []byte, _ *kgo.Record) []byte { return append(b, '%') },
	't': func(b []byte, r *kgo.Record) []byte { return append(b, r.Topic...) },
	'p': func(b []byte, r *kgo.Record) []byte { return strconv.AppendInt(b, int64(r.Partition), 10) },
	'o': func(b []byte, r *kgo.Record) []byte { return strconv.AppendInt(b, r.Offset, 10) },
	'k': func(b []byte, r *kgo.Record) []byte { return append(b, r.Key...) },
	'v': func(b []byte, r *kgo.Record) []byte { return append(b, r.Value...) },
	's': func(b []byte, r *kgo.Record) []byte { return append(b, r.Value...) },
	'K': func(b []byte, r *kgo.Record) []byte { return appendLength(b, r.Key) },
	'S': func(b []byte, r *kgo.Record) []byte { return appendLength(b, r.Value) },
	'e': func(b []byte, r *kgo.Record) []byte { return strconv.AppendInt(b, int64(r.LeaderEpoch), 10) },
	'm': func(b []byte, r *kgo.Record) []byte { return strconv.AppendInt(b, r.Timestamp.UnixMilli(), 10) },
	'T': func(b []byte, r *kgo.Record) []byte {
		return r.Timestamp.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
	},
	'h': func(b []byte, r *kgo.Record) []byte {
		for i, h := range r.Headers {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(append(b, h.Key...), '='), h.Value...)
		}
		return b
	},
}

func appendLength(b, of []byte) []byte {
	if of == nil {
		return append(b, "-1"...)
	}
	return strconv.AppendInt(b, int64(len(of)), 10)
}

// parseFormat reads -f.
func parseFormat(s string) ([]formatPart, error) {
	var parts []formatPart
	literal := func(c byte) {
		parts = append(parts, func(b []byte, _ *kgo.Record) []byte { return append(b, c) })
	}
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '%':
			if i++; i == len(s) {
				return nil, usage("-f: a letter must follow the % at the end")
			}
			p, ok := formatLetters[s[i]]
			if !ok {
				return nil, usage(fmt.Sprintf("-f: %%%c is no letter of the format; see cordwood consume --help", s[i]))
			}
			parts = append(parts, p)
		case s[i] == '\\' && i+3 < len(s) && s[i+1] == 'x':
			n, err := strconv.ParseUint(s[i+2:i+4], 16, 8)
			if err != nil {
				return nil, usage("-f: two hexadecimal digits must follow \\x")
			}
			literal(byte(n))
			i += 3
		case s[i] == '\\':
			if i++; i == len(s) {
				return nil, usage(`-f: a letter must follow the \ at the end`)
			}
			at := strings.IndexByte(`ntr0\`, s[i])
			if at < 0 {
				return nil, usage(fmt.Sprintf(`-f: \%c is unknown; write \n \t \r \0 \\ or \xHH`, s[i]))
			}
			literal("\n\t\r\x00\\"[at])
		default:
			literal(s[i])
		}
	}
	return parts, nil
}
