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
	return f.spoil(ctx, rng, "flipped %d bits in logs of %s", f.s.c.Kill, flip)
}

// truncation cuts the newest segments of nodes that ended in an orderly way, so that they know what they had, and starts
// these again.
type truncation struct{ base }

func (t *truncation) Check() error { return t.disks() }

func (t *truncation) Start(ctx context.Context, rng *rand.Rand) ([]int, string, error) {
	return t.spoil(ctx, rng, "cut %d bytes off the ends of logs of %s", t.s.c.Stop, cut)
}

// spoil ends a minority, does something to the newest segments of some of its logs, and starts it again.
func (b *base) spoil(ctx context.Context, rng *rand.Rand, what string, end func(context.Context, int) error, do func(*rand.Rand, string) (int, error)) ([]int, string, error) {
	nodes := b.s.c.Nodes()
	ids, err := b.s.takeToHurt(ctx, b.kind.Name, rng, 1+rng.IntN(max(1, (len(nodes)-1)/2)))
	if err != nil {
		return nil, "", err
	}
	b.up(ids)
	if err := each(ids, func(id int) error { return end(ctx, id) }); err != nil {
		return ids, "", err
	}
	n := 0
	for _, id := range ids {
		logs, err := b.s.newestSegments(id)
		if err != nil {
			return ids, "", err
		}
		some := 1 + rng.IntN(3)
		for _, i := range rng.Perm(len(logs)) {
			k, err := do(rng, logs[i])
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
	what = fmt.Sprintf(what, n, named(ids))
	if n == 0 {
		return ids, what, fmt.Errorf("%w: their logs hold too little", ErrCannot)
	}
	if err := each(ids, func(id int) error { return b.s.c.Start(ctx, id) }); err != nil {
		return ids, what, err
	}
	return ids, what, nil
}

// newestSegments lists the last segment of each log of a tested topic that a node has, by name.
func (s *Site) newestSegments(id int) (names []string, err error) {
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
		logs, err := filepath.Glob(filepath.Join(root, d.Name(), "*.log"))
		if err != nil {
			return nil, err
		}
		if len(logs) > 0 {
			names = append(names, slices.Max(logs))
		}
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
