package logstore

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"testing"

	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

// builtLog is a log of several segments with producers, on a disk that was left in some way.
type builtLog struct {
	mem     *vfs.Mem
	cfg     LogConfig
	content []byte  // all batches
	ends    []int64 // offset after each batch
	bytes   []int64 // bytes up to and with each batch
	bases   []int64 // of the segments
	sizes   []int64
}

// buildLog writes a log, makes it durable, checkpoints it with everything committed, and stops it.
func buildLog(t testing.TB, clean bool) builtLog {
	t.Helper()
	d := newTestDir(t)
	b := builtLog{cfg: testConfig()}
	l := d.create(0, b.cfg)
	if err := l.BecomeLeader(2); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		one, h := batchOf(1+i%3, 40+7*(i%5), 1_700_000_000_000+int64(10*i))
		h.ProducerID, h.ProducerEpoch, h.BaseSequence = 7, 0, int32(l.EndOffset())
		one = record.AppendBatch(nil, h, one[record.HeaderSize:])
		h, err := record.ParseHeader(one)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(one, &h, 2, false); err != nil {
			t.Fatal(err)
		}
		b.content = append(b.content, one...)
		b.ends = append(b.ends, l.EndOffset())
		b.bytes = append(b.bytes, int64(len(b.content)))
	}
	l.SetHighWatermark(l.EndOffset())
	if _, err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	v := l.view.Load()
	for i, s := range v.segs {
		size, _ := v.extent(i)
		b.bases, b.sizes = append(b.bases, s.base), append(b.sizes, size)
	}
	var err error
	if clean {
		err = d.CloseClean(context.Background())
	} else {
		err = d.Checkpoint()
	}
	if err != nil {
		t.Fatal(err)
	}
	b.mem = d.mem.Crash(vfs.CrashKeep, 0)
	return b
}

func (b *builtLog) file(segment int, suffix string) string {
	return segmentPath(path.Join("data", "t-0"), b.bases[segment], suffix)
}

// prefix is the end offset and the content of the batches that lie whole in the first n bytes.
func (b *builtLog) prefix(n int64) (end int64, content []byte) {
	for i, size := range b.bytes {
		if size <= n {
			end, content = b.ends[i], b.content[:size]
		}
	}
	return end, content
}

// inspect opens the directory of a copy of the disk and returns its one log as found.
func (b *builtLog) inspect(t testing.TB, mem *vfs.Mem) (*testDir, Inspection, *Found) {
	t.Helper()
	d := &testDir{t: t, mem: mem, now: newTestDir(t).now}
	d.open()
	in, err := d.Inspect(context.Background(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(in.Logs) != 1 {
		t.Fatalf("found %d logs, unknown %v", len(in.Logs), in.Unknown)
	}
	return d, in, in.Logs[0]
}

func cutFile(t testing.TB, mem *vfs.Mem, name string, by int64) {
	t.Helper()
	f, err := mem.OpenReadWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(size - by); err != nil {
		t.Fatal(err)
	}
}

// TestSegmentsCutAnywhereInTheLast200Bytes cuts the last and a sealed segment, of a clean and of a killed node, and checks
// what each class of restart makes of it, that all before the cut is there, and that the rest can be had from the leader.
func TestSegmentsCutAnywhereInTheLast200Bytes(t *testing.T) {
	for _, clean := range []bool{true, false} {
		b := buildLog(t, clean)
		last := len(b.bases) - 1
		for _, segment := range []int{last, last - 1} {
			for by := int64(1); by <= 200; by++ {
				checkCut(t, &b, clean, segment, by)
			}
		}
	}
}

func checkCut(t *testing.T, b *builtLog, clean bool, segment int, by int64) {
	t.Helper()
	mem := b.mem.Crash(vfs.CrashKeep, 0)
	cutFile(t, mem, b.file(segment, logSuffix), by)
	name := fmt.Sprintf("clean %v, segment %d, %d bytes", clean, segment, by)
	d, in, f := b.inspect(t, mem)
	if in.Clean {
		t.Fatalf("%s: passes for clean", name)
	}
	sealed := segment < len(b.bases)-1
	for _, c := range []struct {
		class   RestartClass
		disk    bool
		damaged bool
	}{
		{Clean, false, true}, {ProcessCrash, false, true}, {LossyMedia, false, false}, {LossyMedia, true, false},
		{LossyPower, false, sealed}, {LossyPower, true, true},
	} {
		if j := f.Judge(c.class, c.disk); j.Damaged != c.damaged || j.Damaged && j.Reason == "" {
			t.Fatalf("%s: as %s (disk %v) %+v, want damaged %v", name, c.class, c.disk, j, c.damaged)
		}
	}
	at := -by
	for i := 0; i <= segment; i++ {
		at += b.sizes[i]
	}
	end, content := b.prefix(at)
	class := ProcessCrash
	if clean {
		class = LossyMedia
	}
	before := dump(t, mem)
	j := f.Judge(class, false)
	if got := dump(t, mem); got != before {
		t.Fatalf("%s: looking changed the disk", name)
	}
	l, err := f.Open(b.cfg, j)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if l.EndOffset() != end || j.End != end {
		t.Fatalf("%s: end %d, judged %d, want %d", name, l.EndOffset(), j.End, end)
	}
	if _, damaged := l.Damaged(); damaged != !clean {
		t.Fatalf("%s: damaged %v", name, damaged)
	}
	if got := readAll(t, l, 0, end, 1<<20); !bytes.Equal(got, content) {
		t.Fatalf("%s: other bytes", name)
	}
	if _, err := l.AppendReplica(b.content[len(content):], 2); err != nil {
		t.Fatalf("%s: repair: %v", name, err)
	}
	if got := readAll(t, l, 0, l.EndOffset(), 1<<20); !bytes.Equal(got, b.content) {
		t.Fatalf("%s: repaired to other bytes", name)
	}
	if p := l.Producers(); len(p) != 1 || p[0].LastSequence != int32(l.EndOffset()-1) {
		t.Fatalf("%s: producers %+v", name, p)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// dump is every file's name and size below the log's directory.
func dump(t testing.TB, mem *vfs.Mem) string {
	t.Helper()
	entries, err := mem.ReadDir("data/t-0")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&out, e.Name(), info.Size())
	}
	return out.String()
}

// spoilers do to a file what disks and people do.
var spoilers = map[string]func(t testing.TB, mem *vfs.Mem, name, other string){
	"removed": func(t testing.TB, mem *vfs.Mem, name, _ string) {
		if err := mem.Remove(name); err != nil {
			t.Fatal(err)
		}
	},
	"emptied": func(t testing.TB, mem *vfs.Mem, name, _ string) { rewrite(t, mem, name, nil) },
	"zeroed": func(t testing.TB, mem *vfs.Mem, name, _ string) {
		rewrite(t, mem, name, make([]byte, len(content(t, mem, name))))
	},
	"cut by one byte": func(t testing.TB, mem *vfs.Mem, name, _ string) {
		b := content(t, mem, name)
		rewrite(t, mem, name, b[:max(len(b)-1, 0)])
	},
	"cut in half": func(t testing.TB, mem *vfs.Mem, name, _ string) {
		b := content(t, mem, name)
		rewrite(t, mem, name, b[:len(b)/2/24*24])
	},
	"swapped": func(t testing.TB, mem *vfs.Mem, name, other string) {
		a, b := content(t, mem, name), content(t, mem, other)
		rewrite(t, mem, name, b)
		rewrite(t, mem, other, a)
	},
	"inverted": func(t testing.TB, mem *vfs.Mem, name, _ string) {
		b := content(t, mem, name)
		for i := range b {
			b[i] ^= 0xff
		}
		rewrite(t, mem, name, b)
	},
}

func content(t testing.TB, mem *vfs.Mem, name string) []byte {
	t.Helper()
	b, err := vfs.ReadFile(mem, name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func rewrite(t testing.TB, mem *vfs.Mem, name string, b []byte) {
	t.Helper()
	if err := vfs.WriteFile(mem, name, b); err != nil {
		t.Fatal(err)
	}
}

// TestIndexFilesMayBeLostOrWrong spoils every index file and snapshot in every way: the log opens without damage and
// answers every offset and time as before.
func TestIndexFilesMayBeLostOrWrong(t *testing.T) {
	for _, clean := range []bool{true, false} {
		b := buildLog(t, clean)
		for how, spoil := range spoilers {
			for _, suffix := range []string{indexSuffix, timeSuffix, snapshotSuffix} {
				if how == "swapped" && suffix == snapshotSuffix {
					continue // a snapshot of another offset has a good checksum: only its name dates it
				}
				t.Run(fmt.Sprintf("clean %v/%s/%s", clean, suffix[1:], how), func(t *testing.T) {
					checkSpoiled(t, &b, clean, suffix, spoil)
				})
			}
		}
	}
}

func checkSpoiled(t *testing.T, b *builtLog, clean bool, suffix string, spoil func(testing.TB, *vfs.Mem, string, string)) {
	mem := b.mem.Crash(vfs.CrashKeep, 0)
	for i := 0; i+2 < len(b.bases); i += 2 { // sealed segments: the last one's index is memory
		if suffix == snapshotSuffix && i == 0 {
			continue // nothing is before the first segment
		}
		spoil(t, mem, b.file(i, suffix), b.file(i+1, suffix))
	}
	d, in, f := b.inspect(t, mem)
	class := ProcessCrash
	if clean {
		class = Clean
	}
	if in.Clean != clean {
		t.Fatalf("clean %v", in.Clean)
	}
	j := f.Judge(class, true)
	if j.Damaged || j.Cut {
		t.Fatalf("%+v", j)
	}
	l, err := f.Open(b.cfg, j)
	if err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, l, 0, l.EndOffset(), 300); !bytes.Equal(got, b.content) {
		t.Fatal("other bytes")
	}
	if p := l.Producers(); len(p) != 1 || p[0].LastSequence != int32(l.EndOffset()-1) {
		t.Fatalf("producers %+v", p)
	}
	checkExpect(t, l, b.expect(t))
	// What was made anew is used by the next start.
	if err := d.CloseClean(context.Background()); err != nil {
		t.Fatal(err)
	}
	d.open()
	checkExpect(t, d.openAll(Clean, b.cfg)[0], b.expect(t))
}

// expect is what a reader must see of the whole log.
func (b *builtLog) expect(t testing.TB) expectLog {
	t.Helper()
	e := expectLog{End: b.ends[len(b.ends)-1]}
	e.Stable = e.End
	for rest := b.content; len(rest) > 0; {
		h, err := record.ParseHeader(rest)
		if err != nil {
			t.Fatal(err)
		}
		var r record.RecordReader
		if err := r.Reset(&h, rest); err != nil {
			t.Fatal(err)
		}
		for r.Next() {
			e.Records = append(e.Records, shown("t", &h, &r.Record))
			e.Committed = append(e.Committed, r.Record.Offset)
		}
		rest = rest[h.Size():]
	}
	return e
}

// TestBytesChangedInsideAreDamageAndNotATail flips a byte in each batch of the last segment of a killed node.
func TestBytesChangedInsideAreDamageAndNotATail(t *testing.T) {
	b := buildLog(t, false)
	last := len(b.bases) - 1
	for at := int64(0); at < b.sizes[last]; at += 13 {
		mem := b.mem.Crash(vfs.CrashKeep, 0)
		f, err := mem.OpenReadWrite(b.file(last, logSuffix))
		if err != nil {
			t.Fatal(err)
		}
		one := make([]byte, 1)
		if err := readFull(f, one, at); err != nil {
			t.Fatal(err)
		}
		one[0] ^= 0x10
		if _, err := f.WriteAt(one, at); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		_, _, found := b.inspect(t, mem)
		j := found.Judge(ProcessCrash, false)
		end := b.ends[len(b.ends)-1]
		if !j.Damaged || j.End >= end {
			t.Fatalf("byte %d changed: %+v, kind %v", at, j, found.kind)
		}
	}
}

func TestDirectoryOfAHostedPartitionThatIsGoneIsTold(t *testing.T) {
	b := buildLog(t, false)
	if err := b.mem.RemoveAll("data/t-0"); err != nil {
		t.Fatal(err)
	}
	d := &testDir{t: t, mem: b.mem, now: newTestDir(t).now}
	d.open()
	in, err := d.Inspect(context.Background(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(in.MissingHosted) != 1 || in.MissingHosted[0] != testID(0) || in.Clean {
		t.Fatalf("missing %v, clean %v", in.MissingHosted, in.Clean)
	}
}

func TestMissingSegmentsAreDamage(t *testing.T) {
	b := buildLog(t, false)
	for i := range b.bases {
		mem := b.mem.Crash(vfs.CrashKeep, 0)
		if err := mem.Remove(b.file(i, logSuffix)); err != nil {
			t.Fatal(err)
		}
		_, _, f := b.inspect(t, mem)
		if j := f.Judge(ProcessCrash, false); !j.Damaged {
			t.Fatalf("segment %d is gone: %+v", i, j)
		}
	}
}

// TestFound_AgainKnowsWhatBrokeAfterTheInspection: an open log of what is good now, where Open fails on newer damage.
func TestFound_AgainKnowsWhatBrokeAfterTheInspection(t *testing.T) {
	b := buildLog(t, false)
	last := len(b.bases) - 1
	name := b.file(last, logSuffix)
	rot := func(mem *vfs.Mem, at int64) {
		t.Helper()
		f, err := mem.OpenReadWrite(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt(make([]byte, record.HeaderSize), at); err != nil {
			t.Fatal(err)
		}
	}
	before := b.sizes[0]
	for _, size := range b.sizes[1:last] {
		before += size
	}
	var starts []int64 // of the last segment's batches, within it
	at := int64(0)
	for _, end := range b.bytes {
		if at >= before {
			starts = append(starts, at-before)
		}
		at = end
	}
	if len(starts) < 3 {
		t.Fatalf("%d batches in the last segment", len(starts))
	}
	mem := b.mem.Crash(vfs.CrashKeep, 0)
	rot(mem, starts[2])
	files := &countedFiles{FS: mem}
	d := &testDir{t: t, mem: mem, fs: files, now: newTestDir(t).now}
	d.open()
	in, err := d.Inspect(context.Background(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := in.Logs[0]
	defer d.Close()
	j := f.Judge(ProcessCrash, false)
	if end, _ := b.prefix(before + starts[2]); !j.Damaged || j.End != end {
		t.Fatalf("judged %+v, want the end %d", j, end)
	}
	rot(mem, starts[1])
	if _, err := f.Open(b.cfg, j); !isBroken(err) {
		t.Fatalf("opened: %v", err)
	}
	if files.open != 0 {
		t.Fatalf("%d files stay open of what was not", files.open)
	}
	again, err := f.Again()
	if err != nil {
		t.Fatal(err)
	}
	j = again.Judge(ProcessCrash, false)
	l, err := again.Open(b.cfg, j)
	if err != nil {
		t.Fatal(err)
	}
	end, content := b.prefix(before + starts[1])
	if l.EndOffset() != end || l.ID() != f.ID {
		t.Fatalf("%v ends at %d, want %d", l.ID(), l.EndOffset(), end)
	}
	if got := readAll(t, l, 0, l.EndOffset(), 1<<20); !bytes.Equal(got, content) {
		t.Fatal("other bytes")
	}
}

// countedFiles counts the files that are open for writing; for one goroutine.
type countedFiles struct {
	vfs.FS
	open int
}

func (c *countedFiles) OpenReadWrite(name string) (vfs.File, error) {
	f, err := c.FS.OpenReadWrite(name)
	if err != nil {
		return nil, err
	}
	c.open++
	return countedFile{f, c}, nil
}

type countedFile struct {
	vfs.File
	c *countedFiles
}

func (f countedFile) Close() error {
	f.c.open--
	return f.File.Close()
}
