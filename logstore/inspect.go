package logstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"sort"
	"strings"

	"cordwood/logstore/record"
)

// Found is a partition's directory as it lies on disk, checked as far as a restart has to and changed in nothing. Judge
// says what a kind of restart makes of it, Open carries that out. Not safe for concurrent use.
type Found struct {
	Topic string
	ID    record.PartitionID

	dir  *Dir
	path string
	tp   topicPartition

	segs     []foundSegment
	retired  []int64  // bases of segments that lie wholly below the start
	epochs   epochs   // of the file, and of the batches that were scanned
	onDisk   epochs   // of the file alone
	state    logState // of the file, or what Kafka's files say
	hints    hint     // checkpointed high watermark and recovery point that still hold; zero where none
	holes    int64    // offsets below it may be missing: compaction was, or in somebody else's log may have been, there
	halfMade bool     // its making was interrupted: partition.metadata is missing
	hosted   bool     // this program made the log, so its own files are complete
	clean    bool     // ends and sizes are those of the clean mark: nothing was scanned

	end   int64 // offset after the last good batch
	size  int64 // bytes of all segments as they lie there
	at    int   // segment of the break, the last one without a break
	pos   int64 // byte in it where good batches end
	kind  breakKind
	where string // what broke, for people
	// epochsLost says that the epoch file is not readable: epochs come from all batches of the log.
	epochsLost bool
}

// foundSegment is one segment's file; end is known where it was read.
type foundSegment struct {
	base int64
	size int64
}

// End is the offset after the last good batch. It may lie below Start: then nothing of the log is left.
func (f *Found) End() int64 { return f.end }

// Start is the log start offset.
func (f *Found) Start() int64 { return f.state.start }

// Size is the bytes of all segments as they lie there.
func (f *Found) Size() int64 { return f.size }

// inspect reads one partition's directory. mark is what the clean shutdown wrote down of it, nil without a clean mark.
func (d *Dir) inspect(name string, tp topicPartition, mark *sessionLog) (*Found, error) {
	f := &Found{Topic: tp.topic, dir: d, path: path.Join(d.path, name), tp: tp, holes: d.holes[tp]}
	if err := f.listSegments(); err != nil {
		return nil, err
	}
	topic, err := f.topicID()
	if err != nil {
		return nil, err
	}
	f.ID = record.PartitionID{Topic: topic, Partition: tp.partition}
	if err := f.readFacts(); err != nil {
		return nil, err
	}
	if mark != nil && mark.TopicID == topic && f.size == mark.Size { // a segment below the start may linger until the next retention
		if f.tail(len(f.segs)-1) == breakNone && f.end == mark.End {
			f.clean = true
			f.pos = f.segs[len(f.segs)-1].size
			return f, nil
		}
	}
	return f, f.scan(mark != nil)
}

// Again inspects the directory once more, every byte of it, after Open has failed on what it met: more may be broken by now
// than this Found knows of.
func (f *Found) Again() (*Found, error) {
	a := &Found{Topic: f.Topic, ID: f.ID, dir: f.dir, path: f.path, tp: f.tp, holes: f.dir.holes[f.tp], halfMade: f.halfMade}
	if err := a.listSegments(); err != nil {
		return nil, err
	}
	if err := a.readFacts(); err != nil {
		return nil, err
	}
	return a, a.scan(true)
}

// topicID reads which topic the directory is of. A directory without that file and without a byte of records is one whose
// making was interrupted before it was acknowledged: the hosted entry knows.
func (f *Found) topicID() (record.TopicID, error) {
	name := path.Join(f.path, partitionFile)
	b, err := readFile(f.dir.fs, name, smallFileMax)
	if errors.Is(err, fs.ErrNotExist) && f.size == 0 {
		var found []record.TopicID
		for id, topic := range f.dir.hosted {
			if topic == f.Topic && id.Partition == f.tp.partition {
				found = append(found, id.Topic)
			}
		}
		if f.halfMade = len(found) == 1; f.halfMade {
			return found[0], nil
		}
	}
	if err != nil {
		return record.TopicID{}, fmt.Errorf("read %s: %w", name, err)
	}
	id, err := decodePartitionMetadata(b)
	if err != nil {
		return record.TopicID{}, fmt.Errorf("%s: %w", name, err)
	}
	return id, nil
}

// errSwap says that Kafka's compaction was interrupted between two renames. Only Kafka knows how it goes on.
var errSwap = errors.New("an interrupted compaction of Kafka: start and stop Kafka once on this directory")

// listSegments finds the segments' files. A directory without any is an empty log at its start.
func (f *Found) listSegments() error {
	entries, err := f.dir.fs.ReadDir(f.path)
	if err != nil {
		return fmt.Errorf("read directory %s: %w", f.path, err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), swapSuffix) {
			return fmt.Errorf("%s: %w", path.Join(f.path, e.Name()), errSwap)
		}
		base, ok := parseSegmentName(e.Name(), logSuffix)
		if !ok {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return fmt.Errorf("%s: %w", path.Join(f.path, e.Name()), err)
		}
		f.segs = append(f.segs, foundSegment{base, info.Size()})
		f.size += info.Size()
	}
	sort.Slice(f.segs, func(i, j int) bool { return f.segs[i].base < f.segs[j].base })
	return nil
}

// readFacts reads the state and epoch files and the claims of the checkpoints.
func (f *Found) readFacts() error {
	f.state = logState{startEpoch: record.NoEpoch}
	b, err := readFile(f.dir.fs, path.Join(f.path, stateFile), smallFileMax)
	switch {
	case err == nil:
		if f.state, err = decodeState(b); err != nil {
			return fmt.Errorf("%s: %w", path.Join(f.path, stateFile), err)
		}
	case errors.Is(err, fs.ErrNotExist):
		f.state.start = f.dir.kafka.starts[f.tp]
	default:
		return fmt.Errorf("read %s: %w", path.Join(f.path, stateFile), err)
	}
	if _, f.hosted = f.dir.hosted[f.ID]; !f.hosted && len(f.segs) > 0 {
		f.state.start = max(f.state.start, f.segs[0].base) // Kafka's files say it only where it lies inside a segment
	}
	if f.holes = max(f.holes, f.state.holes); !f.hosted {
		f.holes = math.MaxInt64
	}
	for len(f.segs) > 1 && f.segs[1].base <= f.state.start {
		f.retired = append(f.retired, f.segs[0].base) // and back, because that was not durable
		f.segs = f.segs[1:]
	}
	f.hints = f.dir.hintFor(f.ID, f.tp, f.state)
	b, err = readFile(f.dir.fs, path.Join(f.path, epochFile), smallFileMax)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", path.Join(f.path, epochFile), err)
	}
	if f.epochs, err = decodeEpochs(b); err != nil {
		f.epochs = nil
	}
	f.epochsLost = len(f.epochs) == 0 && f.size > 0 // missing, broken, or emptied by a power cut
	f.onDisk = f.epochs
	return nil
}

// tail checks that the batches behind segment i's last index entry fill it to its end, the last one's checksum included,
// and sets end to theirs. Without a fitting index it begins at the first byte.
func (f *Found) tail(i int) breakKind {
	if i < 0 {
		f.end = f.state.start
		return breakNone
	}
	s := f.segs[i]
	file, err := f.dir.fs.Open(segmentPath(f.path, s.base, logSuffix))
	if err != nil {
		return breakRead
	}
	defer file.Close()
	if s.size == 0 {
		f.end = s.base
		return breakNone
	}
	from := f.lastIndexed(s)
	for {
		end, kind := tailFrom(file, s, from)
		if kind == breakNone || from.pos == 0 {
			f.end = end
			return kind
		}
		from = indexEntry{}
	}
}

func tailFrom(file io.ReaderAt, s foundSegment, from indexEntry) (end int64, kind breakKind) {
	w := newWalker(file, int64(from.pos), s.size)
	defer w.close()
	end = s.base
	var last int64
	for first := true; ; first = false {
		h, pos, err := w.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || h.BaseOffset < end || first && from.pos > 0 && h.LastOffset() != s.base+int64(from.rel) {
			return end, breakBad
		}
		last, end = pos, h.EndOffset()
	}
	buf := getBuf(pieceMax)
	defer putBuf(buf)
	win := window{r: file, buf: (*buf)[:pieceMax], size: s.size}
	_, kind, _ = checkBatch(&win, last)
	return end, kind
}

// lastIndexed is the last entry of a segment's index file that may fit; zero where the file is no help.
func (f *Found) lastIndexed(s foundSegment) indexEntry {
	b, err := readFile(f.dir.fs, segmentPath(f.path, s.base, indexSuffix), indexBytesMax)
	if err != nil {
		return indexEntry{}
	}
	es, _ := decodeIndex(b)
	for i := len(es) - 1; i >= 0; i-- {
		if int64(es[i].pos) < s.size {
			return es[i]
		}
	}
	return indexEntry{}
}

// scan reads what an unclean restart must: every batch from the recovery point on, and of the segments before it their
// tails and that they continue each other. all is for a directory whose clean mark does not fit: nothing is trusted.
func (f *Found) scan(all bool) error {
	from := 0
	if !all && !f.epochsLost {
		for from < len(f.segs)-1 && f.segs[from+1].base <= f.hints.flushed {
			from++
		}
	}
	f.end = f.state.start
	if len(f.segs) > 0 {
		f.end = f.segs[0].base
	}
	for i, s := range f.segs {
		f.at, f.pos = i, 0
		if f.gap(i) {
			f.kind, f.where = breakGap, fmt.Sprintf("segment %d follows end %d", s.base, f.end)
			return nil
		}
		var err error
		f.pos = s.size
		if i >= from || f.tail(i) != breakNone { // a broken tail is looked at from the segment's start
			err = f.scanOne(i, i == from)
		}
		if err != nil {
			return err
		}
		if f.kind != breakNone {
			f.where = fmt.Sprintf("%s in segment %d at byte %d, offset %d", f.kind, s.base, f.pos, f.end)
			if f.kind == breakRead {
				return fmt.Errorf("%s: %s", f.path, f.where)
			}
			return nil
		}
	}
	return nil
}

// gap says that segment i does not begin where the one before it ended. Compaction leaves room between two.
func (f *Found) gap(i int) bool {
	base := f.segs[i].base
	if i == 0 {
		return base > f.state.start
	}
	return base < f.end || base > f.end && f.end >= f.holes
}

// scanOne checks every batch of segment i. first says that it is the first one scanned: its epochs go on from the file's.
func (f *Found) scanOne(i int, first bool) error {
	s := f.segs[i]
	file, err := f.dir.fs.Open(segmentPath(f.path, s.base, logSuffix))
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	defer file.Close()
	if first && f.epochsLost {
		f.epochs = nil
	}
	before := f.epochs.at(s.base - 1)
	if s.base == f.state.start {
		before = f.state.startEpoch
	}
	r := scanSegment(file, 0, s.size, s.base, f.holes, before)
	f.pos, f.kind = r.pos, r.kind
	f.end = r.end
	if r.kind == breakRead {
		return fmt.Errorf("scan segment %s: %w", segmentPath(f.path, s.base, logSuffix), r.err)
	}
	f.epochs = f.epochs.replaced(r.epochs, r.end)
	return nil
}
