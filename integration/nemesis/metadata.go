package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// refusals tells why a node's process ended by itself; a Cluster may have it.
type refusals interface {
	// Refusal gives what it said last, and whether that was a crash: no decision of its own to end.
	Refusal(node int) (said string, crashed bool)
}

// checkpoints are the small files beside the logs that say what these hold.
var checkpoints = []string{"cordwood-checkpoint", "replication-offset-checkpoint", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "hosted", "session.json"}

// metadataRot spoils files of the metadata's own, on a minority that was killed, and starts it again. A node may make good what
// is lost, or refuse to start: then it is healed by a new disk. One that crashes by it is not healed.
type metadataRot struct {
	base
	what  string // of a number and nodes
	files func(dir string) ([]string, error)
}

func (m *metadataRot) Check() error {
	if err := m.disks(); err != nil {
		return err
	}
	return m.least(3) // it may have to join anew
}

func (m *metadataRot) Start(ctx context.Context, rng *rand.Rand) ([]int, string, error) {
	return m.spoil(ctx, rng, spoiling{what: m.what, end: m.s.c.Kill, do: spoilFile, back: m.revive,
		files: func(id int) ([]string, error) { return m.files(m.s.c.Disks().DataDir(id)) }})
}

// revive undoes the end of nodes as up does, and gives those an empty disk that refuse to start with the one they have.
func (b *base) revive(ids []int) {
	for _, id := range ids {
		b.later(fmt.Sprintf("bring node %d back", id), func(ctx context.Context) error { return b.ready(ctx, id) })
	}
	for _, id := range ids {
		b.later(fmt.Sprintf("start node %d", id), func(ctx context.Context) error { return b.startDown(ctx, id) })
	}
}

func (b *base) ready(ctx context.Context, id int) error {
	err := b.s.c.WaitReady(ctx, id)
	if err == nil || b.s.c.Running(id) {
		return err
	}
	if r, ok := b.s.c.(refusals); ok {
		if said, crashed := r.Refusal(id); crashed {
			return fmt.Errorf("it crashed: %s", said)
		}
	}
	if err := b.s.c.Disks().Wipe(ctx, id); err != nil {
		return err
	}
	if err := b.s.c.Start(ctx, id); err != nil {
		return err
	}
	return b.s.c.WaitReady(ctx, id)
}

// present keeps the names of files that are there.
func present(names []string) (out []string, err error) {
	for _, name := range names {
		switch _, err := os.Stat(name); {
		case err == nil:
			out = append(out, name)
		case !errors.Is(err, os.ErrNotExist):
			return nil, err
		}
	}
	return out, nil
}

func checkpointsIn(dir string) ([]string, error) {
	var names []string
	for _, c := range checkpoints {
		names = append(names, filepath.Join(dir, c))
	}
	return present(names)
}

func raftStoreIn(dir string) ([]string, error) {
	return present([]string{filepath.Join(dir, "raft", "raft.db")})
}

func snapshotsIn(dir string) (out []string, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "raft", "snapshots", "*", "*"))
	for _, name := range names {
		if !strings.HasSuffix(filepath.Dir(name), ".tmp") {
			out = append(out, name)
		}
	}
	return out, err
}

// spoilFile removes a file, cuts it or flips some of its bits.
func spoilFile(rng *rand.Rand, name string) (int, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	switch way := rng.IntN(4); {
	case way == 0:
		return 1, os.Remove(name)
	case len(b) == 0:
		return 0, nil
	case way == 1:
		return 1, os.Truncate(name, rng.Int64N(int64(len(b))))
	}
	for range 1 + rng.IntN(8) {
		b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
	}
	return 1, os.WriteFile(name, b, 0o600)
}
