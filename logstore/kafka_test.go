package logstore

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

const kafkaLogs = "../integration/testdata/kafka-4.4.0/logs"

// expectRecord and expectLog are what a real Kafka's reader saw (integration/testdata/kafka-4.4.0).
type expectRecord struct {
	Offset      int64       `json:"offset"`
	Time        int64       `json:"time"`
	AppendTime  bool        `json:"append_time"`
	Epoch       int32       `json:"leader_epoch"`
	Key         *string     `json:"key"`
	Value       *string     `json:"value"`
	Headers     [][2]string `json:"headers"`
	Codec       uint8       `json:"codec"`
	Producer    int64       `json:"producer"`
	PEpoch      int16       `json:"producer_epoch"`
	Transaction bool        `json:"transaction"`
	Control     string      `json:"control"`
}

type expectLog struct {
	Start     int64          `json:"log_start"`
	End       int64          `json:"high_watermark"`
	Stable    int64          `json:"last_stable_offset"`
	Records   []expectRecord `json:"records"`
	Committed []int64        `json:"committed"`
}

// kafkaDir copies a directory that Kafka wrote onto a memory disk and takes hold of it.
func kafkaDir(t testing.TB, from, to string) *testDir {
	d := &testDir{t: t, now: time.UnixMilli(1_700_000_000_000)}
	d.mem = vfs.NewMem(func() time.Time { return d.now })
	copyIn(t, d.mem, from, filepath.Join("data", to))
	d.open()
	return d
}

func copyIn(t testing.TB, mem *vfs.Mem, from, to string) {
	t.Helper()
	err := filepath.Walk(from, func(p string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		name := filepath.Join(to, rel)
		if info.IsDir() {
			return mem.MkdirAll(name)
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		f, err := mem.Create(name)
		if err != nil {
			return err
		}
		if _, err := f.WriteAt(b, 0); err != nil {
			return err
		}
		return f.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
}

func readExpect(t *testing.T, dir, name string) expectLog {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var e expectLog
	if err := json.Unmarshal(b, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

// seen reads the log below bound as a consumer does: records, and the offsets a read-committed one keeps below stable.
func seen(t *testing.T, l *Log, bound, stable int64) (records []expectRecord, committed []int64) {
	t.Helper()
	aborted, err := l.Aborted(l.StartOffset(), stable)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(aborted, func(a, b AbortedTxn) int { return int(a.FirstOffset - b.FirstOffset) }) // as clients do
	skip := map[int64]bool{}
	b := readAll(t, l, l.StartOffset(), bound, 400)
	for len(b) > 0 {
		h, err := record.ParseHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		for len(aborted) > 0 && aborted[0].FirstOffset <= h.LastOffset() {
			skip[aborted[0].ProducerID] = true
			aborted = aborted[1:]
		}
		var r record.RecordReader
		if err := r.Reset(&h, b); err != nil {
			t.Fatal(err)
		}
		for r.Next() {
			x := shown(l.Topic(), &h, &r.Record)
			if x.Offset < l.StartOffset() {
				continue
			}
			records = append(records, x)
			if !h.IsControl() && x.Offset < stable && !(h.IsTransactional() && skip[h.ProducerID]) {
				committed = append(committed, x.Offset)
			}
			if strings.HasPrefix(x.Control, "00000000") {
				delete(skip, h.ProducerID)
			}
		}
		if err := r.Err(); err != nil {
			t.Fatal(err)
		}
		b = b[h.Size():]
	}
	return records, committed
}

func shown(topic string, h *record.Header, r *record.Record) expectRecord {
	x := expectRecord{Offset: r.Offset, Time: r.Timestamp, AppendTime: h.HasLogAppendTime(), Epoch: h.LeaderEpoch, Codec: uint8(h.Codec()),
		Producer: h.ProducerID, PEpoch: h.ProducerEpoch, Transaction: h.IsTransactional()}
	text := func(b []byte) *string {
		if b == nil {
			return nil
		}
		s := string(b)
		return &s
	}
	if h.IsControl() {
		x.Control = fmt.Sprintf("%x:%x", r.Key, r.Value)
		return x
	}
	if strings.HasPrefix(topic, "__") {
		k, v := fmt.Sprintf("hex %x", r.Key), fmt.Sprintf("hex %x", r.Value)
		x.Key, x.Value = &k, &v
		return x
	}
	x.Key, x.Value = text(r.Key), text(r.Value)
	for key, value := range r.EachHeader {
		v := "\x00null"
		if value != nil {
			v = string(value)
		}
		x.Headers = append(x.Headers, [2]string{string(key), v})
	}
	return x
}

func checkExpect(t *testing.T, l *Log, e expectLog) {
	t.Helper()
	if l.StartOffset() != e.Start || l.EndOffset() != e.End {
		t.Fatalf("log is %d to %d, want %d to %d", l.StartOffset(), l.EndOffset(), e.Start, e.End)
	}
	l.SetHighWatermark(e.End)
	if got := l.LastStableOffset(); got != e.Stable {
		t.Errorf("last stable offset %d, want %d", got, e.Stable)
	}
	records, committed := seen(t, l, e.End, e.Stable)
	if diff := cmp.Diff(e.Records, records); diff != "" && len(e.Records)+len(records) > 0 {
		t.Errorf("records (-want +got):\n%.3000s", diff)
	}
	if !slices.Equal(e.Committed, committed) {
		t.Errorf("read committed gets %v, want %v", committed, e.Committed)
	}
	checkLookups(t, l, e)
}

// checkLookups asks for every record by its offset and by its time.
func checkLookups(t *testing.T, l *Log, e expectLog) {
	t.Helper()
	for _, r := range e.Records {
		info, err := l.Read(r.Offset, 1, e.End, true)
		if err != nil {
			t.Fatalf("read %d: %v", r.Offset, err)
		}
		b := make([]byte, record.HeaderSize)
		if err := readFull(info.Spans[0].Src, b, info.Spans[0].Off); err != nil {
			t.Fatal(err)
		}
		info.Spans[0].Release()
		h, err := record.ParseHeader(b)
		if err != nil || h.BaseOffset > r.Offset || h.LastOffset() < r.Offset {
			t.Fatalf("read %d gave the batch %d to %d: %v", r.Offset, h.BaseOffset, h.LastOffset(), err)
		}
		if got := l.EpochAt(r.Offset); got != r.Epoch {
			t.Fatalf("epoch at %d is %d, want %d", r.Offset, got, r.Epoch)
		}
		want := int64(-1)
		for _, w := range e.Records {
			if w.Time >= r.Time {
				want = w.Offset
				break
			}
		}
		got, ts, _, found, err := l.OffsetForTime(r.Time, e.End)
		if err != nil || !found || got != want {
			t.Fatalf("offset for time %d is %d (time %d, found %v, %v), want %d", r.Time, got, ts, found, err, want)
		}
	}
	if len(e.Records) == 0 {
		return
	}
	best := e.Records[0]
	for _, r := range e.Records {
		if r.Time > best.Time {
			best = r
		}
	}
	if got, ts, _, found, err := l.MaxTime(e.End); err != nil || !found || got != best.Offset || ts != best.Time {
		t.Fatalf("newest record %d (time %d, found %v, %v), want %d", got, ts, found, err, best.Offset)
	}
}

func TestKafkaDirectories_OpenRecoverAndReadAsKafkaDid(t *testing.T) {
	for _, which := range []string{"stopped", "killed"} {
		dir := filepath.Join(kafkaLogs, which)
		d := kafkaDir(t, filepath.Join(dir, "data"), "")
		in, err := d.Inspect(context.Background(), 4, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(in.Unknown) > 0 || len(in.MissingHosted) > 0 || len(in.Logs) == 0 {
			t.Fatalf("%s: unknown %v, missing %v, %d logs", which, in.Unknown, in.MissingHosted, len(in.Logs))
		}
		for _, f := range in.Logs {
			t.Run(which+"/"+f.tp.dirName(), func(t *testing.T) {
				j := f.Judge(ProcessCrash, false)
				if j.Damaged {
					t.Fatalf("damaged: %s", j.Reason)
				}
				l, err := f.Open(DefaultLogConfig(), j)
				if err != nil {
					t.Fatal(err)
				}
				checkExpect(t, l, readExpect(t, filepath.Join(dir, "expect"), f.tp.dirName()))
			})
		}
		// Killed without a word, the log is ours now and still whole.
		for _, l := range d.reopen(vfs.CrashKeep, 1, ProcessCrash, DefaultLogConfig()) {
			t.Run(which+"/killed/"+l.tp.dirName(), func(t *testing.T) {
				checkExpect(t, l, readExpect(t, filepath.Join(dir, "expect"), l.tp.dirName()))
			})
		}
		if err := d.CloseClean(context.Background()); err != nil {
			t.Fatal(err)
		}
		// And once more from the clean mark, with what was written on the way.
		d.mem = d.mem.Crash(vfs.CrashLose, 1)
		d.open()
		for _, l := range d.openAll(Clean, DefaultLogConfig()) {
			t.Run(which+"/again/"+l.tp.dirName(), func(t *testing.T) {
				checkExpect(t, l, readExpect(t, filepath.Join(dir, "expect"), l.tp.dirName()))
			})
		}
	}
}

func TestKafkaReplicas_DivergeWhereTheirEpochsSay(t *testing.T) {
	want := readExpect(t, filepath.Join(kafkaLogs, "epochs", "expect"), "epochs-0")
	logs := map[string]*Log{}
	for _, node := range []string{"1", "2", "3"} {
		d := kafkaDir(t, filepath.Join(kafkaLogs, "epochs", node), "")
		logs[node] = d.openAll(ProcessCrash, DefaultLogConfig())[0]
	}
	alone := logs["3"]
	if b, err := os.ReadFile(filepath.Join(kafkaLogs, "epochs", "alone")); err != nil || strings.TrimSpace(string(b)) != "3" {
		t.Fatalf("the node alone: %q, %v", b, err)
	}
	if alone.EndOffset() != 45 || alone.LastEpoch() != 3 {
		t.Fatalf("the node alone ends at %d in epoch %d", alone.EndOffset(), alone.LastEpoch())
	}
	leader := logs["1"]
	if epoch, end := leader.EpochEnd(alone.LastEpoch()); epoch != 3 || end != 42 {
		t.Fatalf("the leader answers epoch %d, end %d", epoch, end)
	}
	if err := alone.Truncate(42); err != nil {
		t.Fatal(err)
	}
	rest := readAll(t, leader, 42, leader.EndOffset(), 1<<20)
	if end, err := alone.AppendReplica(rest, 4); err != nil || end != 45 {
		t.Fatalf("end %d, %v", end, err)
	}
	for node, l := range logs {
		if got := readAll(t, l, 0, 45, 1<<20); string(got) != string(readAll(t, leader, 0, 45, 1<<20)) {
			t.Errorf("node %s holds other bytes", node)
		}
		records, _ := seen(t, l, want.End, want.End)
		if diff := cmp.Diff(want.Records, records); diff != "" {
			t.Errorf("node %s (-want +got):\n%.2000s", node, diff)
		}
	}
}

func TestKafkaCleaning_EveryMomentOpens(t *testing.T) {
	for i := 1; i <= 15; i++ {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			from := filepath.Join(kafkaLogs, "cleaning", fmt.Sprint(i))
			cleaner, err := os.ReadFile(filepath.Join(from, cleanerFile))
			if err != nil {
				t.Fatal(err)
			}
			tp := topicPartition{"ce2", 0} // the name in the cleaner's checkpoint
			d := &testDir{t: t, now: time.UnixMilli(1_700_000_000_000)}
			d.mem = vfs.NewMem(func() time.Time { return d.now })
			copyIn(t, d.mem, from, filepath.Join("data", tp.dirName()))
			if err := vfs.WriteFile(d.mem, "data/"+cleanerFile, cleaner); err != nil {
				t.Fatal(err)
			}
			d.open()
			l := d.openAll(ProcessCrash, DefaultLogConfig())[0]
			checkOrder(t, l)
			l.SetHighWatermark(l.EndOffset())
			stable := l.EndOffset()
			if i == 1 {
				stable = 3 // a transaction is open
			}
			if got := l.LastStableOffset(); got != stable {
				t.Fatalf("last stable offset %d, want %d", got, stable)
			}
			for _, p := range l.Producers() {
				if p.Epoch < 0 {
					t.Fatalf("producer %d has epoch %d", p.ProducerID, p.Epoch)
				}
			}
			end := l.EndOffset()
			b, h := batchOf(1, 10, 1_700_000_000_000)
			if info, err := l.Append(b, &h, l.LastEpoch(), false); err != nil || info.Base != end {
				t.Fatalf("append at %d: %+v, %v", end, info, err)
			}
		})
	}
}

// checkOrder walks all batches and checks that offsets rise.
func checkOrder(t *testing.T, l *Log) {
	t.Helper()
	b := readAll(t, l, l.StartOffset(), l.EndOffset(), 1<<20)
	last := int64(-1)
	for len(b) > 0 {
		h, err := record.ParseHeader(b)
		if err != nil || h.BaseOffset <= last {
			t.Fatalf("batch %d after %d: %v", h.BaseOffset, last, err)
		}
		last = h.LastOffset()
		b = b[h.Size():]
	}
}
