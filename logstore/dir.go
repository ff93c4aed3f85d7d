package logstore

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

// Sentinels of opening a log directory.
var (
	// ErrForeignDir says that the directory belongs to another node or cluster.
	ErrForeignDir = errors.New("log directory belongs to somebody else")
	// ErrUnknownFormat says that a file of the directory was written by a program that knows more, or is broken.
	ErrUnknownFormat = errors.New("log directory has a file that cannot be read")
)

// ForeignDirError is ErrForeignDir with both sides of the mistake.
type ForeignDirError struct {
	NodeID      int32  // whose directory it is
	ClusterID   string // empty while it has joined none
	WantNode    int32  // who opened it
	WantCluster string // empty where only the node differs
}

func (e *ForeignDirError) Error() string {
	cluster := "no cluster yet"
	if e.ClusterID != "" {
		cluster = "cluster " + e.ClusterID
	}
	if e.WantCluster != "" {
		return fmt.Sprintf("data belongs to %s (node %d); this node is configured for cluster %s", cluster, e.NodeID, e.WantCluster)
	}
	return fmt.Sprintf("data belongs to %s (node %d); this node is configured as node %d", cluster, e.NodeID, e.WantNode)
}

// Is makes it ErrForeignDir.
func (e *ForeignDirError) Is(target error) bool { return target == ErrForeignDir }

// DirOptions configures a log directory.
type DirOptions struct {
	NodeID int32
	// BootID names the present start of the machine; empty where it cannot be read.
	BootID string
	// Reserve is the size in bytes of a file that is freed when the disk is full, for the metadata's own log; 0 for none.
	Reserve int64
	// DiskStop is the free space in bytes below which clients' appends are refused; 0 for no bound.
	DiskStop int64
	// RetentionInterval is how often Tick applies retention; 0 means 5 minutes.
	RetentionInterval time.Duration
	// OpenFiles bounds the sealed segments' files kept open; 0 means 1000.
	OpenFiles int
	Logger    *slog.Logger
	Now       func() time.Time
	// Wall is the wall clock that ages of records are judged by; nil: the times of Now and Tick.
	Wall func() time.Time
	// Uptime is the time that has really passed, by a clock that nobody sets; nil: what the times of Now and Tick tell of it.
	Uptime func() time.Duration
	// OnOffline is called once, when the directory fails for good; it must not call the Dir.
	OnOffline func(error)
	// OnSync is told how long each fsync of a segment took; it must not block. nil: nobody asks.
	OnSync func(time.Duration)
	// OnDamage is called when stored records of a log are found broken, by whatever call found it; it must not block.
	OnDamage func(*Log, string)
}

// Dir is the log directory of a node. All methods may be called concurrently; it starts no goroutine: Tick and Checkpoint
// are called by a timer of the owner.
//
// Lock order: files (one writer of the directory's own files), then a log's slow and mu, then mu, then the agenda's.
type Dir struct {
	fs      vfs.FS
	path    string
	opt     DirOptions
	logger  *slog.Logger
	now     func() time.Time
	begun   time.Time // when the directory was opened
	handles *handles
	lock    io.Closer
	lives   atomic.Uint64 // numbers for fileKey

	session Session
	holes   map[topicPartition]int64 // Kafka's cleaner checkpoint: below it offsets may be missing
	kafka   kafkaFacts

	state  diskState
	agenda agenda

	files        sync.Mutex
	stored       session // what session.json says, but for the logs' ends
	written      map[string]string
	hostedSize   int64     // bytes of the file of hosted entries that count
	hostedDirty  bool      // it has entries too much
	checked      time.Time // when the disk's usage was last looked at
	kafkaWritten time.Time // when Kafka's checkpoint files were last replaced
	retained     time.Time // when retention was last applied
	clock        retentionClock
	held         atomic.Int64 // of clock, for readers: nanoseconds
	hintsStale   bool         // the checkpoint does not say what the logs do
	kafkaStale   bool         // Kafka's neither

	mu     sync.Mutex
	meta   metaProperties
	logs   map[record.PartitionID]*Log
	hosted map[record.PartitionID]string // topic names
	claims map[record.PartitionID]hint   // what the checkpoint on disk says
	later  []removal
	closed bool
}

// kafkaFacts are what Kafka's own checkpoint files say, for directories that Kafka wrote.
type kafkaFacts struct {
	starts, flushed, hws map[topicPartition]int64
	own                  bool // our own checkpoint is there and stands instead
}

// removal is a file or directory that goes after a delay.
type removal struct {
	name string
	due  time.Time
}

// OpenDir takes hold of a log directory: it locks it, checks whose it is, writes down a new incarnation durably, and reads
// what the checkpoints say. An empty directory becomes one of this node. No log is opened: see Inspect.
//
// Errors: vfs.ErrLocked, ErrForeignDir, ErrUnknownFormat, and the disk's.
func OpenDir(fsys vfs.FS, dir string, opt DirOptions) (*Dir, error) {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.OpenFiles == 0 {
		opt.OpenFiles = 1000
	}
	if opt.RetentionInterval == 0 {
		opt.RetentionInterval = 5 * time.Minute
	}
	d := &Dir{fs: fsys, path: dir, opt: opt, logger: opt.Logger, now: opt.Now, handles: newHandles(fsys, opt.OpenFiles),
		written: map[string]string{}, logs: map[record.PartitionID]*Log{}}
	if err := makeDurable(fsys, dir); err != nil {
		return nil, fmt.Errorf("log directory %s: %w", dir, err)
	}
	lock, err := fsys.Lock(d.file(lockFile))
	if err != nil {
		return nil, fmt.Errorf("lock log directory %s: %w", dir, err)
	}
	d.lock = lock
	if err := d.load(); err != nil {
		lock.Close()
		return nil, fmt.Errorf("log directory %s: %w", dir, err)
	}
	d.files.Lock()
	d.begun = d.now()
	d.checkUsage(d.begun) // the first answer must know the disk, and a disk that is low refuses from the start
	d.files.Unlock()
	return d, nil
}

// makeDurable makes a directory and the parents it lacks, and makes their names durable.
func makeDurable(fsys vfs.FS, dir string) error {
	var made []string
	for at := path.Clean(dir); at != "." && at != "/"; at = path.Dir(at) {
		if _, err := fsys.Stat(at); err == nil {
			break
		}
		made = append(made, at)
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	for _, m := range slices.Backward(made) {
		if err := syncDir(fsys, path.Dir(m)); err != nil {
			return err
		}
	}
	return nil
}

func (d *Dir) load() error {
	if err := d.loadMeta(); err != nil {
		return err
	}
	old, err := d.loadSession(d.meta.directoryID)
	if err != nil {
		return err
	}
	if err := d.loadCheckpoints(); err != nil {
		return err
	}
	d.stored, d.session = begin(old, newUUID(), d.opt.BootID)
	if err := d.withReserve(func() error { return d.writeSession(d.stored) }); err != nil {
		return err
	}
	d.stored.Logs, d.stored.Clean = old.Logs, old.Clean // for Inspect; the file says no more
	if err := d.removeLeftovers(); err != nil {
		return err
	}
	return d.makeReserve()
}

func newUUID() string {
	id := record.NewTopicID()
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// loadMeta checks or makes meta.properties.
func (d *Dir) loadMeta() error {
	b, err := readFile(d.fs, d.file(metaFile), smallFileMax)
	if errors.Is(err, fs.ErrNotExist) {
		d.meta = metaProperties{nodeID: d.opt.NodeID, directoryID: newUUID()}
		return replaceFile(d.fs, d.file(metaFile), encodeMeta(d.meta), true)
	}
	if err != nil {
		return err
	}
	if d.meta, err = decodeMeta(b); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnknownFormat, metaFile, err)
	}
	if d.meta.nodeID != d.opt.NodeID {
		return &ForeignDirError{NodeID: d.meta.nodeID, ClusterID: d.meta.clusterID, WantNode: d.opt.NodeID}
	}
	return nil
}

// loadCheckpoints reads the hosted entries and every checkpoint.
func (d *Dir) loadCheckpoints() error {
	b, err := readFile(d.fs, d.file(hostedFile), smallFileMax)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if d.hosted, d.hostedSize, err = decodeHosted(b); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnknownFormat, hostedFile, err)
	}
	if d.claims, err = loadText(d, hintsFile, decodeHints); err != nil {
		return err
	}
	_, serr := d.fs.Stat(d.file(hintsFile))
	d.kafka.own = serr == nil
	for name, to := range map[string]*map[topicPartition]int64{startFile: &d.kafka.starts, flushedFile: &d.kafka.flushed, hwFile: &d.kafka.hws, cleanerFile: &d.holes} {
		if *to, err = loadText(d, name, decodeOffsets); err != nil {
			return err
		}
	}
	return nil
}

// loadText reads a file that may be missing.
func loadText[K comparable, V any](d *Dir, name string, decode func([]byte) (map[K]V, error)) (map[K]V, error) {
	b, err := readFile(d.fs, d.file(name), smallFileMax)
	if errors.Is(err, fs.ErrNotExist) {
		return map[K]V{}, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := decode(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUnknownFormat, name, err)
	}
	if m == nil {
		m = map[K]V{}
	}
	return m, nil
}

// hintFor is what still holds of the checkpoints' claims about a partition.
func (d *Dir) hintFor(id record.PartitionID, tp topicPartition, s logState) hint {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.claims[id]
	if !d.kafka.own {
		h = hint{topic: tp.topic, id: id, hw: d.kafka.hws[tp], flushed: d.kafka.flushed[tp]}
	}
	if h.generation < s.generation {
		h.hw, h.flushed, h.generation = s.hw, s.flushed, s.generation
	}
	return h
}

// claimed is what the checkpoint on disk says of a partition.
func (d *Dir) claimed(id record.PartitionID) hint {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.claims[id]
}

func (d *Dir) file(name string) string { return path.Join(d.path, name) }

// Path is where the directory lies.
func (d *Dir) Path() string { return d.path }

// Session describes this start for registration.
func (d *Dir) Session() Session { return d.session }

// ClusterID is the cluster the directory belongs to, empty before it has joined one.
func (d *Dir) ClusterID() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.meta.clusterID
}

// SetClusterID writes down, durably, which cluster the directory belongs to. ErrForeignDir where it belongs to another.
func (d *Dir) SetClusterID(id string) error {
	d.files.Lock()
	defer d.files.Unlock()
	d.mu.Lock()
	m := d.meta
	d.mu.Unlock()
	if m.clusterID == id {
		return nil
	}
	if m.clusterID != "" {
		return &ForeignDirError{NodeID: m.nodeID, ClusterID: m.clusterID, WantNode: d.opt.NodeID, WantCluster: id}
	}
	m.clusterID = id
	if err := d.failed(d.withReserve(func() error { return replaceFile(d.fs, d.file(metaFile), encodeMeta(m), true) })); err != nil {
		return err
	}
	d.mu.Lock()
	d.meta = m
	d.mu.Unlock()
	return nil
}

// Registered says that the controller has taken this incarnation and that every log was opened as it was told to: the ones
// before need not be told any more.
func (d *Dir) Registered() error {
	d.files.Lock()
	defer d.files.Unlock()
	s := d.stored
	s.Clean, s.Logs = false, nil
	s.Incarnations = s.Incarnations[:1]
	if err := d.failed(d.withReserve(func() error { return d.writeSession(s) })); err != nil {
		return err
	}
	d.stored.Incarnations = s.Incarnations
	return nil
}

// Inspection is what lies in a log directory.
type Inspection struct {
	Logs []*Found // by topic and partition
	// Clean says that the process before shut down in order and every log's end and size are as it left them.
	Clean bool
	// MissingHosted are partitions of which a copy should be here and no directory is.
	MissingHosted []record.PartitionID
	// Unknown are directories that are no partition's, with the reason. Clean does not ask for them: one of ours that is
	// not recognised any more is missing among the logs of the clean mark.
	Unknown []string
}

// Inspect reads every partition's directory and changes nothing: after an unclean stop all batches past the recovery
// points are checked. Up to workers directories are read at a time; progress is called, one call at a time, after each.
func (d *Dir) Inspect(ctx context.Context, workers int, progress func(done, total int)) (Inspection, error) {
	entries, err := d.fs.ReadDir(d.path)
	if err != nil {
		return Inspection{}, fmt.Errorf("read log directory %s: %w", d.path, err)
	}
	marks := map[topicPartition]*sessionLog{}
	if d.stored.Clean {
		for i := range d.stored.Logs {
			m := &d.stored.Logs[i]
			marks[topicPartition{m.Topic, m.Partition}] = m
		}
	}
	in := inspector{d: d, marks: marks, progress: progress}
	for _, e := range entries {
		if tp, ok := parseDirName(e.Name()); ok && e.IsDir() {
			in.jobs = append(in.jobs, tp)
		}
	}
	if err := in.run(ctx, max(workers, 1)); err != nil {
		return Inspection{}, err
	}
	return in.result(), nil
}

// inspector shares the work of Inspect.
type inspector struct {
	d        *Dir
	marks    map[topicPartition]*sessionLog
	jobs     []topicPartition
	progress func(done, total int)

	mu    sync.Mutex
	next  int
	done  int
	err   error
	found []*Found
	out   []string
}

func (in *inspector) run(ctx context.Context, workers int) error {
	var wg sync.WaitGroup
	for range min(workers, len(in.jobs)) {
		wg.Go(func() {
			for in.one(ctx) {
			}
		})
	}
	wg.Wait()
	return in.err
}

// one takes and does one job; false ends the worker.
func (in *inspector) one(ctx context.Context) bool {
	in.mu.Lock()
	if in.err == nil {
		in.err = ctx.Err()
	}
	if in.err != nil || in.next == len(in.jobs) {
		in.mu.Unlock()
		return false
	}
	tp := in.jobs[in.next]
	in.next++
	in.mu.Unlock()

	f, err := in.d.inspect(tp.dirName(), tp, in.marks[tp])

	in.mu.Lock()
	defer in.mu.Unlock()
	in.done++
	switch {
	case err == nil:
		in.found = append(in.found, f)
	case errors.Is(err, errProperties) || errors.Is(err, errSwap) || errors.Is(err, fs.ErrNotExist):
		in.out = append(in.out, fmt.Sprintf("%s: %v", tp.dirName(), err))
	default:
		in.err = err
		return false
	}
	if in.progress != nil {
		in.progress(in.done, len(in.jobs))
	}
	return true
}

func (in *inspector) result() Inspection {
	r := Inspection{Logs: in.found, Unknown: in.out, Clean: in.d.stored.Clean && len(in.marks) == len(in.found)}
	here := map[record.PartitionID]bool{}
	for _, f := range in.found {
		here[f.ID] = true
		r.Clean = r.Clean && f.clean
	}
	for _, h := range sortedHosted(in.d.hosted) {
		if !here[h.id] {
			r.MissingHosted = append(r.MissingHosted, h.id)
			r.Clean = false
		}
	}
	slices.SortFunc(r.Logs, func(a, b *Found) int {
		if lessPartition(a.tp, b.tp) {
			return -1
		}
		return 1
	})
	slices.Sort(r.Unknown)
	return r
}
