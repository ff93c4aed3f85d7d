package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"cordwood/logstore/record"
)

// covered is where the bytes of a batch begin that its checksum, its magic or its neighbours speak for. Those before it are
// the length and the leader epoch, of which a wrong one may look right.
const covered = 16

// bitFlip flips bits in the newest segments of nodes that were killed, and starts these again. The last batch of a segment is
// left alone: a broken one at the end of a log is what a crash leaves behind, and nobody could tell.
type bitFlip struct{ base }

func (f *bitFlip) Check() error { return f.disks() }

func (f *bitFlip) Start(ctx context.Context, rng *rand.Rand) ([]int, string, error) {
	return f.spoil(ctx, rng, spoiling{"flipped %d bits in logs of %s", f.s.c.Kill, f.s.newestSegments, flip, f.up})
}

// truncation cuts the newest segments of nodes that ended in an orderly way, so that they know what they had, and starts
// these again.
type truncation struct{ base }

func (t *truncation) Check() error { return t.disks() }

func (t *truncation) Start(ctx context.Context, rng *rand.Rand) ([]int, string, error) {
	return t.spoil(ctx, rng, spoiling{"cut %d bytes off the ends of logs of %s", t.s.c.Stop, t.s.newestSegments, cut, t.up})
}

// indexRot flips bits in index files, fills them with zeros or removes them, and starts the nodes again. These had ended in an
// orderly way: then every log has such files.
type indexRot struct{ base }

func (x *indexRot) Check() error { return x.disks() }

func (x *indexRot) Start(ctx context.Context, rng *rand.Rand) ([]int, string, error) {
	return x.spoil(ctx, rng, spoiling{"spoiled %d index files of %s", x.s.c.Stop, x.s.indexes, spoilIndex, x.up})
}

// spoiling is what is done to files of nodes that are down.
type spoiling struct {
	what  string // of a number and nodes
	end   func(ctx context.Context, node int) error
	files func(node int) ([]string, error)
	do    func(rng *rand.Rand, file string) (n int, err error)
	back  func(ids []int) // notes how they come back
}

// spoil ends a minority, does something to some of its files, and starts it again.
func (b *base) spoil(ctx context.Context, rng *rand.Rand, w spoiling) ([]int, string, error) {
	nodes := b.s.c.Nodes()
	ids, err := b.s.takeToHurt(ctx, b.kind.Name, rng, 1+rng.IntN(max(1, (len(nodes)-1)/2)))
	if err != nil {
		return nil, "", err
	}
	w.back(ids)
	if err := each(ids, func(id int) error { return w.end(ctx, id) }); err != nil {
		return ids, "", err
	}
	n := 0
	for _, id := range ids {
		files, err := w.files(id)
		if err != nil {
			return ids, "", err
		}
		some := 1 + rng.IntN(3)
		for _, i := range rng.Perm(len(files)) {
			k, err := w.do(rng, files[i])
			if err != nil {
				return ids, "", err
			}
			n += k
			if k > 0 {
				some--
			}
			if some == 0 {
				break
			}
		}
	}
	what := fmt.Sprintf(w.what, n, named(ids))
	if n == 0 {
		return ids, what, fmt.Errorf("%w: their files hold too little", ErrCannot)
	}
	if err := each(ids, func(id int) error { return b.s.c.Start(ctx, id) }); err != nil {
		return ids, what, err
	}
	return ids, what, nil
}

// newestSegments lists the last segment of each log of a tested topic that a node has, by name.
func (s *Site) newestSegments(id int) ([]string, error) {
	return s.files(id, func(dir string) ([]string, error) {
		logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
		if len(logs) > 1 {
			logs = []string{slices.Max(logs)}
		}
		return logs, err
	})
}

// indexes lists the index files of all logs of tested topics that a node has, by name.
func (s *Site) indexes(id int) ([]string, error) {
	return s.files(id, func(dir string) ([]string, error) { return filepath.Glob(filepath.Join(dir, "*index")) })
}

// files lists files of the logs of tested topics that a node has.
func (s *Site) files(id int, in func(dir string) ([]string, error)) (names []string, err error) {
	root := s.c.Disks().DataDir(id)
	dirs, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	for _, d := range dirs {
		topic, ok := topicOf(d.Name())
		if !ok || len(s.opt.Topics) > 0 && !slices.Contains(s.opt.Topics, topic) || len(s.opt.Topics) == 0 && strings.HasPrefix(topic, "__") {
			continue
		}
		more, err := in(filepath.Join(root, d.Name()))
		if err != nil {
			return nil, err
		}
		names = append(names, more...)
	}
	return names, nil
}

// topicOf reads the name of a partition's directory.
func topicOf(dir string) (string, bool) {
	i := strings.LastIndexByte(dir, '-')
	if i < 0 {
		return "", false
	}
	_, err := strconv.Atoi(dir[i+1:])
	return dir[:i], err == nil
}

// flip flips some bits of a segment, in batches before its last one, and gives how many.
func flip(rng *rand.Rand, name string) (int, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	type span struct{ from, to int64 }
	var batches []span
	for s := record.Scan(f, 0, info.Size()); s.Next(); {
		batches = append(batches, span{s.Pos + covered, s.Pos + s.Header.Size()})
	}
	if len(batches) < 2 {
		return 0, nil
	}
	batches = batches[:len(batches)-1]
	bits := 1 + rng.IntN(8)
	for range bits {
		b := batches[rng.IntN(len(batches))]
		pos := b.from + rng.Int64N(b.to-b.from)
		var one [1]byte
		if _, err := f.ReadAt(one[:], pos); err != nil {
			return 0, err
		}
		one[0] ^= 1 << rng.IntN(8)
		if _, err := f.WriteAt(one[:], pos); err != nil {
			return 0, err
		}
	}
	return bits, f.Sync()
}

// cut takes bytes off the end of a segment, more often few than many, and gives how many.
func cut(rng *rand.Rand, name string) (int, error) {
	info, err := os.Stat(name)
	if err != nil || info.Size() == 0 {
		return 0, err
	}
	most := info.Size()
	for range rng.IntN(12) { // each halving as likely as the next
		most = max(1, most/2)
	}
	n := 1 + rng.Int64N(most)
	return int(n), os.Truncate(name, info.Size()-n)
}

// spoilIndex removes an index file, fills it with zeros or flips one of its bits.
func spoilIndex(rng *rand.Rand, name string) (int, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	switch way := rng.IntN(3); {
	case way == 0:
		return 1, os.Remove(name)
	case len(b) == 0:
		return 0, nil
	case way == 1:
		clear(b)
	default:
		b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
	}
	return 1, os.WriteFile(name, b, 0o644)
}
