package torture

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/integration/history"
	"cordwood/logstore/record"
)

func testHeader() *history.Header {
	return &history.Header{Began: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Topics: []history.Topic{{Name: "a"}, {Name: "b"}},
		Keys: []history.Key{{Topic: 0, Partition: 0}, {Topic: 0, Partition: 1}, {Topic: 1, Partition: 0}}}
}

func batch(base int64, epoch int32, values ...string) []byte {
	recs := make([]record.NewRecord, len(values))
	for i, v := range values {
		recs[i] = record.NewRecord{Value: []byte(v), Timestamp: 1}
	}
	b := record.NewBatch(0, recs...)
	record.SetOffset(b, base, epoch)
	return b
}

func TestCopiesAreReadOffTheDiskWithTheirWatermarks(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) {
		t.Helper()
		name = filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, b, 0o644))
	}
	write("a-0/00000000000000000005.log", append(batch(5, 1, "7", "8"), batch(7, 2, "9")...))
	write("a-0/00000000000000000008.log", batch(8, 2, "x"))
	write("a-0/00000000000000000005.index", nil)
	write("b-0/00000000000000000000.log", nil)
	write(watermarkFile, []byte("0\n2\na 0 8\nb 0 3\n"))
	got, err := readCopies(dir, 2, testHeader())
	require.NoError(t, err)
	require.Len(t, got, 2)
	for i := range got[0].Batches {
		require.NotZero(t, got[0].Batches[i].CRC)
		got[0].Batches[i].CRC = 0
	}
	require.Equal(t, []history.Copy{
		{Key: 0, Node: 2, Start: 5, End: 9, High: 8, Batches: []history.Batch{{Base: 5, Last: 6, Epoch: 1, Values: []int64{7, 8}}, {Base: 7, Last: 7, Epoch: 2, Values: []int64{9}}, {Base: 8, Last: 8, Epoch: 2, Values: []int64{0}}}},
		{Key: 2, Node: 2, High: 0},
	}, got)

	torn := batch(9, 2, "10")
	write("a-0/00000000000000000009.log", torn[:len(torn)-1])
	_, err = readCopies(dir, 2, testHeader())
	require.ErrorIs(t, err, record.ErrShortBatch)
	require.ErrorContains(t, err, "00000000000000000009.log: byte 0")
}

func TestLossesAreReadOutOfANodesLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(name, []byte(`{"time":"2026-01-02T03:04:06Z","kind":"DataLossPossible","topic":"a","partition":1,"mayBeGoneFrom":12}
panic: not JSON
{"time":"2026-01-02T03:04:07Z","kind":"PartitionOffline","topic":"a","partition":1}
{"time":"2026-01-02T03:04:08Z","kind":"DataLossPossible","topic":"another","partition":1,"mayBeGoneFrom":1}
`), 0o644))
	got, err := readLosses(name, testHeader())
	require.NoError(t, err)
	require.Equal(t, []history.Loss{{Key: 1, From: 12, To: noEnd, At: time.Second}}, got)
	got, err = readLosses(name+"x", testHeader())
	require.NoError(t, err)
	require.Empty(t, got)
}
