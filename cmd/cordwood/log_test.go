package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/logstore/record"
)

const kafkaLogs = "../../integration/testdata/kafka-4.4.0/logs"

// command runs one command line.
func command(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(context.Background(), args, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

// expected is a record as the recorder wrote down what Kafka gave it.
type expected struct {
	Offset      int64       `json:"offset"`
	Time        int64       `json:"time"`
	AppendTime  bool        `json:"append_time"`
	Epoch       int32       `json:"leader_epoch"`
	Key         *string     `json:"key"`
	Value       *string     `json:"value"`
	Headers     [][2]string `json:"headers"`
	Codec       int8        `json:"codec"`
	Producer    int64       `json:"producer"`
	PEpoch      int16       `json:"producer_epoch"`
	Transaction bool        `json:"transaction"`
	Control     string      `json:"control"`
}

// bytesOf is the text of the contract as bytes.
func bytesOf(t *testing.T, s *string) string {
	if s == nil {
		return ""
	}
	if packed, ok := strings.CutPrefix(*s, "base64:"); ok {
		b, err := base64.StdEncoding.DecodeString(packed)
		require.NoError(t, err)
		return string(b)
	}
	return *s
}

func expectationOf(t *testing.T, internal bool, line string) expected {
	var r loggedRecord
	d := json.NewDecoder(strings.NewReader(line))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&r))
	codecs := map[string]int8{"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
	e := expected{Offset: r.Offset, Time: r.Timestamp, AppendTime: r.TimestampType == "append", Epoch: r.LeaderEpoch,
		Key: r.Key, Value: r.Value, Codec: codecs[r.Codec], Producer: r.ProducerID, PEpoch: r.ProducerEpoch, Transaction: r.Transactional}
	for _, h := range r.Headers {
		value := "\x00null"
		if h[1] != nil {
			value = *h[1]
		}
		e.Headers = append(e.Headers, [2]string{*h[0], value})
	}
	switch {
	case r.Control != nil:
		types := map[string]string{"abort": "00000000", "commit": "00000001"}
		require.Contains(t, types, *r.Control)
		e.Control = types[*r.Control] + ":" + hex.EncodeToString([]byte(bytesOf(t, r.Value)))
		e.Key, e.Value = nil, nil
	case internal: // keys and values of internal topics stand in hexadecimal
		key, value := "hex "+hex.EncodeToString([]byte(bytesOf(t, r.Key))), "hex "+hex.EncodeToString([]byte(bytesOf(t, r.Value)))
		e.Key, e.Value = &key, &value
	}
	return e
}

func TestLogDumpShowsWhatKafkaWrote(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(kafkaLogs, "*", "expect", "*.json"))
	require.NoError(t, err)
	require.Greater(t, len(files), 40)
	for _, name := range files {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		var want struct{ Records []expected }
		require.NoError(t, json.Unmarshal(b, &want))
		state, partition := filepath.Dir(filepath.Dir(name)), strings.TrimSuffix(filepath.Base(name), ".json")
		dir := filepath.Join(state, "data", partition)
		if filepath.Base(state) == "epochs" {
			dir = filepath.Join(state, "1", partition)
		}
		code, out, errOut := command(t, "log", "dump", dir, "--records", "-o", "json")
		require.Zero(t, code, errOut)
		var got []expected
		for line := range strings.SplitSeq(strings.TrimSuffix(out, "\n"), "\n") {
			if line == "" {
				continue
			}
			e := expectationOf(t, strings.HasPrefix(partition, "__"), line)
			if n := len(want.Records); n > 0 && e.Offset >= want.Records[0].Offset && e.Offset <= want.Records[n-1].Offset {
				got = append(got, e)
			}
		}
		for i := range want.Records {
			if len(want.Records[i].Headers) == 0 {
				want.Records[i].Headers = nil
			}
		}
		require.Len(t, got, len(want.Records), dir)
		for i := range got {
			require.Equal(t, want.Records[i], got[i], dir)
		}
		code, out, errOut = command(t, "log", "dump", dir, "--records")
		require.Zero(t, code, errOut)
		require.GreaterOrEqual(t, strings.Count(out, "\n"), len(want.Records))
	}
}

// TestLogDumpJSONIsTheContract holds the shape that others rely on.
func TestLogDumpJSONIsTheContract(t *testing.T) {
	h := record.NewHeader(7, []record.NewRecord{{Timestamp: 1700000000000}})
	h.LeaderEpoch, h.ProducerID, h.ProducerEpoch, h.BaseSequence = 3, 9, 1, 2147483647
	h.Count, h.LastOffsetDelta, h.Attributes = 2, 1, record.AttrTransactional
	first := record.NewRecord{Key: []byte("k<&>"), Value: []byte{0xff, 0}, Timestamp: 1700000000000,
		Headers: [][2][]byte{{[]byte("h"), []byte("v")}, {[]byte("n"), nil}}}
	second := record.NewRecord{Timestamp: 1700000000005}
	body := record.AppendRecord(record.AppendRecord(nil, &first, 0, 1700000000000), &second, 1, 1700000000000)
	b := record.AppendBatch(nil, h, body)
	marker := h
	marker.BaseOffset, marker.Count, marker.LastOffsetDelta, marker.BaseSequence = 9, 1, 0, -1
	marker.Attributes |= record.AttrControl
	end := record.NewRecord{Key: record.AppendControlKey(nil, record.ControlCommit), Value: record.AppendEndMarker(nil, 4), Timestamp: 1700000000000}
	b = append(b, record.AppendBatch(nil, marker, record.AppendRecord(nil, &end, 0, 1700000000000))...)
	file := filepath.Join(t.TempDir(), "00000000000000000007.log")
	require.NoError(t, os.WriteFile(file, b, 0o644))

	code, out, errOut := command(t, "log", "dump", file, "--records", "-o", "json")
	require.Zero(t, code, errOut)
	require.Equal(t, `{"offset":7,"timestamp":1700000000000,"timestampType":"create","leaderEpoch":3,"codec":"none","key":"k<&>","value":"base64:/wA=","headers":[["h","v"],["n",null]],"producerId":9,"producerEpoch":1,"sequence":2147483647,"transactional":true,"control":null}
{"offset":8,"timestamp":1700000000005,"timestampType":"create","leaderEpoch":3,"codec":"none","key":null,"value":null,"headers":[],"producerId":9,"producerEpoch":1,"sequence":0,"transactional":true,"control":null}
{"offset":9,"timestamp":1700000000000,"timestampType":"create","leaderEpoch":3,"codec":"none","key":"\u0000\u0000\u0000\u0001","value":"\u0000\u0000\u0000\u0000\u0000\u0004","headers":[],"producerId":9,"producerEpoch":1,"sequence":-1,"transactional":true,"control":"commit"}
`, out)

	code, out, errOut = command(t, "log", "dump", file)
	require.Zero(t, code, errOut)
	require.Equal(t, `offsets=7-8 records=2 epoch=3 codec=none create=2023-11-14T22:13:20.000Z producer=9/1 sequence=2147483647 transactional bytes=88 at=0
offsets=9-9 records=1 epoch=3 codec=none create=2023-11-14T22:13:20.000Z producer=9/1 sequence=-1 transactional control=commit bytes=78 at=88
`, out)
	code, out, errOut = command(t, "log", "dump", file, "-o", "json")
	require.Zero(t, code, errOut)
	require.Equal(t, fmt.Sprintf(`{"file":%q,"position":0,"size":88,"baseOffset":7,"lastOffset":8,"count":2,"leaderEpoch":3,"codec":"none","timestampType":"create","maxTimestamp":1700000000000,"deleteHorizon":null,"producerId":9,"producerEpoch":1,"sequence":2147483647,"transactional":true,"control":null}`, file),
		strings.SplitN(out, "\n", 2)[0])
	code, out, _ = command(t, "log", "dump", file, "-o", "help", "--records")
	require.Zero(t, code)
	require.Contains(t, out, `"timestampType"`)
}

// segments builds a partition of two segments.
func segments(t *testing.T) (dir string, files []string) {
	dir = filepath.Join(t.TempDir(), "t-0")
	require.NoError(t, os.Mkdir(dir, 0o755))
	for s := range int64(2) {
		var b []byte
		for i := range int64(3) {
			b = append(b, record.NewBatch(s*30+i*10, make([]record.NewRecord, 10)...)...)
		}
		files = append(files, filepath.Join(dir, fmt.Sprintf("%020d.log", s*30)))
		require.NoError(t, os.WriteFile(files[s], b, 0o644))
	}
	return dir, files
}

func TestLogCheckNamesTheFirstBadByte(t *testing.T) {
	batch := int64(len(record.NewBatch(0, make([]record.NewRecord, 10)...)))
	patch := func(file int, change func(b []byte) []byte) func(t *testing.T, files []string) {
		return func(t *testing.T, files []string) {
			b, err := os.ReadFile(files[file])
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(files[file], change(b), 0o644))
		}
	}
	replace := func(at int64, with []byte) func(b []byte) []byte {
		return func(b []byte) []byte { return append(b[:at:at], append(with, b[at+int64(len(with)):]...)...) }
	}
	for name, c := range map[string]struct {
		damage func(t *testing.T, files []string)
		bad    int64 // -1: nothing
		reason string
	}{
		"nothing":                     {func(*testing.T, []string) {}, -1, ""},
		"a flipped bit":               {patch(0, func(b []byte) []byte { b[2*batch-1] ^= 1; return b }), batch, "corrupt"},
		"a cut":                       {patch(1, func(b []byte) []byte { return b[:len(b)-1] }), 2 * batch, "short"},
		"an unwritten tail":           {patch(1, func(b []byte) []byte { return append(b, make([]byte, 5000)...) }), -1, ""},
		"zeros before the last":       {patch(0, func(b []byte) []byte { return append(b, make([]byte, 5000)...) }), 3 * batch, "zeros"},
		"zeros and more":              {patch(1, func(b []byte) []byte { return append(append(b, make([]byte, 500)...), 1) }), 3 * batch, "corrupt"},
		"an offset that falls":        {patch(0, replace(batch, record.NewBatch(5, make([]record.NewRecord, 10)...))), batch, "10 or more must follow"},
		"an offset of the next":       {patch(0, replace(2*batch, record.NewBatch(25, make([]record.NewRecord, 10)...))), 2 * batch, "next segment"},
		"records that cannot be read": {patch(0, replace(0, unreadable(batch))), 0, "breaks the format"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, files := segments(t)
			c.damage(t, files)
			for _, where := range []string{dir, filepath.Dir(dir)} {
				code, out, errOut := command(t, "log", "check", where, "-o", "json")
				var v checkView
				require.NoError(t, json.Unmarshal([]byte(out), &v), errOut)
				require.Len(t, v.Segments, 2)
				if c.bad < 0 {
					require.Zero(t, code)
					require.Zero(t, v.Bad)
					require.EqualValues(t, 60, v.Segments[1].EndOffset)
					continue
				}
				require.Equal(t, exitOther, code)
				require.Equal(t, 1, v.Bad)
				for _, s := range v.Segments {
					if s.FirstBadByte != nil {
						require.Equal(t, c.bad, *s.FirstBadByte)
						require.Contains(t, s.Reason, c.reason)
						require.Equal(t, c.bad/batch, s.Batches)
					}
				}
				code, out, _ = command(t, "log", "check", where)
				require.Equal(t, exitOther, code)
				require.Contains(t, out, fmt.Sprintf("%d: ", c.bad))
			}
		})
	}
}

// unreadable is a batch of a given size with the right checksum and records that are none.
func unreadable(size int64) []byte {
	h := record.NewHeader(0, make([]record.NewRecord, 10))
	return record.AppendBatch(nil, h, bytes.Repeat([]byte{0xff}, int(size-record.HeaderSize)))
}

func TestLogCheckFindsNoFaultWithKafka(t *testing.T) {
	for _, dir := range []string{"stopped/data", "killed/data", "epochs/1", "epochs/2", "epochs/3", "cleaning"} {
		code, out, errOut := command(t, "log", "check", filepath.Join(kafkaLogs, dir))
		require.Zero(t, code, "%s%s", out, errOut)
	}
}

func TestLogDumpStopsAtTheFirstBadByte(t *testing.T) {
	_, files := segments(t)
	b, err := os.ReadFile(files[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(files[0], b[:len(b)-5], 0o644))
	code, out, errOut := command(t, "log", "dump", files[0])
	require.Equal(t, exitOther, code)
	require.Equal(t, 2, strings.Count(out, "\n"), "what is good comes first")
	require.Contains(t, errOut, fmt.Sprintf("byte %d is the first bad one", 2*len(b)/3))
}

func TestLogCommandsSayWhatIsMissing(t *testing.T) {
	empty := t.TempDir()
	for _, args := range [][]string{
		{"log", "dump", filepath.Join(empty, "no")}, {"log", "dump", empty}, {"log", "check", empty}, {"log", "check", filepath.Join(empty, "no")},
	} {
		code, _, errOut := command(t, args...)
		require.Equal(t, exitNotFound, code, errOut)
		require.Contains(t, errOut, empty)
	}
	code, _, _ := command(t, "log", "dump")
	require.Equal(t, exitUsage, code)
	code, _, _ = command(t, "log", "dump", empty, "-o", "yaml")
	require.Equal(t, exitUsage, code)
}
