package record

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const logs = "../../integration/testdata/kafka-4.4.0/logs"

// seen is a record as the recorder of the logs wrote down what Kafka gave it.
type seen struct {
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

// text writes a key or value down as the recorder did: those of internal topics in hexadecimal, null like empty.
func text(internal bool, b []byte) *string {
	s := string(b)
	if internal {
		s = "hex " + hex.EncodeToString(b)
	} else if b == nil {
		return nil
	}
	return &s
}

// readDir reads every record of a partition's segments.
func readDir(t *testing.T, dir string) (all []seen) {
	segments, err := filepath.Glob(filepath.Join(dir, "*.log"))
	require.NoError(t, err)
	require.NotEmpty(t, segments, dir)
	internal := strings.HasPrefix(filepath.Base(dir), "__")
	var r RecordReader
	for _, name := range segments {
		f, err := os.Open(name)
		require.NoError(t, err)
		info, err := f.Stat()
		require.NoError(t, err)
		s := Scan(f, 0, info.Size())
		for s.Next() {
			h := s.Header
			require.NoError(t, r.Reset(&h, s.Batch()))
			for r.Next() {
				got := seen{Offset: r.Record.Offset, Time: r.Record.Timestamp, AppendTime: h.HasLogAppendTime(), Epoch: h.LeaderEpoch,
					Codec: h.Codec(), Producer: h.ProducerID, PEpoch: h.ProducerEpoch, Transaction: h.IsTransactional()}
				if h.IsControl() {
					kind, err := ParseControlKey(r.Record.Key)
					require.NoError(t, err)
					epoch, err := ParseEndMarker(r.Record.Value)
					require.NoError(t, err)
					require.Equal(t, r.Record.Key, AppendControlKey(nil, kind))
					require.Equal(t, r.Record.Value, AppendEndMarker(nil, epoch))
					got.Control = hex.EncodeToString(r.Record.Key) + ":" + hex.EncodeToString(r.Record.Value)
				} else {
					got.Key, got.Value = text(internal, r.Record.Key), text(internal, r.Record.Value)
				}
				for k, v := range r.Record.EachHeader {
					value := "\x00null"
					if v != nil {
						value = string(v)
					}
					got.Headers = append(got.Headers, [2]string{string(k), value})
				}
				require.EqualValues(t, len(got.Headers), r.Record.Headers)
				all = append(all, got)
			}
			require.NoError(t, r.Err())
		}
		if s.Err() != nil {
			zeros, err := s.ZeroTail()
			require.NoError(t, err)
			require.True(t, zeros, "%s: %v at %d", name, s.Err(), s.Pos)
		}
		require.NoError(t, f.Close())
	}
	return all
}

// TestKafkasLogsAreReadAsKafkaReadsThem covers every partition that a real Kafka wrote: all codecs, headers, nulls,
// append time, markers, delete horizons, emptied batches, zero tails.
func TestKafkasLogsAreReadAsKafkaReadsThem(t *testing.T) {
	expected, err := filepath.Glob(filepath.Join(logs, "*", "expect", "*.json"))
	require.NoError(t, err)
	cleaning, err := filepath.Glob(filepath.Join(logs, "cleaning", "*"))
	require.NoError(t, err)
	require.Greater(t, len(expected)+len(cleaning), 50)
	for _, name := range expected {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		var want struct {
			LogStart int64 `json:"log_start"`
			Records  []seen
		}
		require.NoError(t, json.Unmarshal(b, &want))
		state, partition := filepath.Dir(filepath.Dir(name)), strings.TrimSuffix(filepath.Base(name), ".json")
		dirs := []string{filepath.Join(state, "data", partition)}
		if strings.HasSuffix(state, "epochs") {
			dirs = []string{filepath.Join(state, "1", partition), filepath.Join(state, "2", partition), filepath.Join(state, "3", partition)}
		}
		for _, dir := range dirs {
			t.Run(strings.TrimPrefix(dir, logs+"/"), func(t *testing.T) {
				if len(want.Records) == 0 {
					return
				}
				var got []seen
				for _, r := range readDir(t, dir) {
					if r.Offset >= want.Records[0].Offset && r.Offset <= want.Records[len(want.Records)-1].Offset {
						got = append(got, r)
					}
				}
				for i := range want.Records { // null and absent header lists are the same thing
					if len(want.Records[i].Headers) == 0 {
						want.Records[i].Headers = nil
					}
				}
				require.Equal(t, want.Records, got)
			})
		}
	}
	for _, dir := range cleaning {
		if entry, err := os.Stat(dir); err == nil && entry.IsDir() && filepath.Base(dir) != "expect" {
			require.NotEmpty(t, readDir(t, dir), dir)
		}
	}
}

func TestDeleteHorizonsAreFound(t *testing.T) {
	found := 0
	require.NoError(t, filepath.WalkDir(filepath.Join(logs, "cleaning"), func(name string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".log" {
			return err
		}
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		s := Scan(bytes.NewReader(b), 0, int64(len(b)))
		for s.Next() {
			if at, ok := s.Header.DeleteHorizon(); ok {
				found++
				require.Greater(t, at, int64(1700000000000))
			}
		}
		return s.Err()
	}))
	require.Positive(t, found)
}

func TestScannerStopsAtTheFirstBadByte(t *testing.T) {
	var b []byte
	starts := []int{}
	for i := range 5 {
		starts = append(starts, len(b))
		b = append(b, NewBatch(int64(2*i), plain(2, 20_000*(i%2))...)...)
	}
	scan := func(b []byte) (n int, s *Scanner) {
		for s = Scan(bytes.NewReader(b), 0, int64(len(b))); s.Next(); n++ {
			require.EqualValues(t, starts[n], s.Pos)
			require.EqualValues(t, 2*n, s.Header.BaseOffset)
		}
		return n, s
	}
	n, s := scan(b)
	require.Equal(t, 5, n)
	require.NoError(t, s.Err())
	require.EqualValues(t, len(b), s.Pos)

	for cut := starts[4] + 1; cut < len(b); cut += 7 {
		n, s = scan(b[:cut])
		require.Equal(t, 4, n)
		require.ErrorIs(t, s.Err(), ErrShortBatch)
		require.EqualValues(t, starts[4], s.Pos)
		zeros, err := s.ZeroTail()
		require.NoError(t, err)
		require.Equal(t, len(bytes.Trim(b[starts[4]:cut], "\x00")) == 0, zeros)
	}
	bad := bytes.Clone(b)
	bad[starts[3]-1] ^= 1
	n, s = scan(bad)
	require.Equal(t, 2, n)
	require.ErrorIs(t, s.Err(), ErrCorruptBatch)
	require.EqualValues(t, starts[2], s.Pos)

	n, s = scan(append(bytes.Clone(b), make([]byte, 10_000)...))
	require.Equal(t, 5, n)
	require.Error(t, s.Err())
	zeros, err := s.ZeroTail()
	require.NoError(t, err)
	require.True(t, zeros)

	s = Scan(bytes.NewReader(b), int64(starts[2]), int64(starts[4]))
	for n = 0; s.Next(); n++ {
	}
	require.Equal(t, 2, n)
	require.NoError(t, s.Err())
}

func TestControlKeysOfOtherShapesAreRefused(t *testing.T) {
	for _, bad := range [][]byte{nil, {0}, {0, 0, 0}, {0xff, 0xff, 0, 0}} {
		_, err := ParseControlKey(bad)
		require.ErrorIs(t, err, ErrInvalidRecord)
		_, err = ParseEndMarker(append(bad, 0))
		require.ErrorIs(t, err, ErrInvalidRecord)
	}
	kind, err := ParseControlKey([]byte{0, 1, 0, 5, 9, 9})
	require.NoError(t, err)
	require.Equal(t, "control 5", kind.String())
	require.Equal(t, "commit abort", fmt.Sprint(ControlCommit, " ", ControlAbort))
}

func BenchmarkRecordReader(b *testing.B) {
	batch := NewBatch(0, plain(63, 1000)...)
	h, err := ParseHeader(batch)
	require.NoError(b, err)
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	var r RecordReader
	for b.Loop() {
		if err := r.Reset(&h, batch); err != nil {
			b.Fatal(err)
		}
		for r.Next() {
		}
		if r.Err() != nil {
			b.Fatal(r.Err())
		}
	}
}

func FuzzIterate(f *testing.F) {
	for how := range packers {
		f.Add(packed(f, how, plain(3, 30)))
	}
	f.Add(NewBatch(7, plain(3, 30)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r RecordReader
		for s := Scan(bytes.NewReader(b), 0, int64(len(b))); s.Next(); {
			require.Equal(t, b[s.Pos:s.Pos+s.Header.Size()], s.Batch())
		}
		h, err := ParseHeader(b)
		if err != nil || r.Reset(&h, b) != nil {
			return
		}
		n := int32(0)
		for ; r.Next(); n++ {
			headers := int32(0)
			for k := range r.Record.EachHeader {
				require.NotNil(t, k)
				headers++
			}
			require.Equal(t, r.Record.Headers, headers)
		}
		if r.Err() == nil {
			require.Equal(t, max(0, h.Count), n)
		}
		require.False(t, r.Next())
	})
}

func FuzzParseHeader(f *testing.F) {
	f.Add(NewBatch(7, plain(3, 30)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ParseHeader(b)
		if err != nil {
			return
		}
		require.GreaterOrEqual(t, h.Size(), int64(HeaderSize))
		require.GreaterOrEqual(t, h.LastOffset(), h.BaseOffset)
		if Verify(&h, b) == nil {
			require.Equal(t, b[:h.Size()], AppendBatch(nil, h, b[HeaderSize:h.Size()]), "a header is all there is to know")
		}
	})
}
