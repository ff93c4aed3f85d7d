package nemesis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

var errPlanned = errors.New("planned")

// fake is a cluster that does what it is told and remembers it.
type fake struct {
	t     *testing.T
	dir   string
	nodes []int

	mu      sync.Mutex
	calls   int
	failAt  func(call int, what string) bool // nil: none fails
	running map[int]bool
	paused  map[int]bool
	edges   map[[2]int]bool
	rules   map[int][]vfs.Rule
	clocks  map[int]time.Duration
	apart   map[int]bool // off the network
	parts   []Partition
	hurt    map[int]bool // copies are gone since all was whole
	most    int          // ever hurt at once
	lost    string       // what was destroyed against the rule
	done    map[string]int
	loose   bool // destroying all is allowed
	slow    func() bool
	refuses map[int]bool // nodes that end when they are started, until they are wiped
	crashes bool         // and by a crash
}

const fakeTopic = "t"

func newFake(t *testing.T, nodes, partitions, replicas int) *fake {
	f := &fake{t: t, dir: t.TempDir(), running: map[int]bool{}, paused: map[int]bool{}, edges: map[[2]int]bool{}, rules: map[int][]vfs.Rule{}, clocks: map[int]time.Duration{}, refuses: map[int]bool{}, apart: map[int]bool{}, hurt: map[int]bool{}, done: map[string]int{}}
	for id := 1; id <= nodes; id++ {
		f.nodes = append(f.nodes, id)
		f.running[id] = true
	}
	for p := range partitions {
		part := Partition{Topic: fakeTopic, ID: int32(p), Rule: "isr"}
		for i := range replicas {
			part.Replicas = append(part.Replicas, 1+(p+i)%nodes)
		}
		part.Leader, part.ISR, part.Trusted = part.Replicas[0], part.Replicas, part.Replicas
		f.parts = append(f.parts, part)
	}
	return f
}

// logFile writes a segment of so many batches.
func logFile(t *testing.T, dir string, batches int) string {
	require.NoError(t, os.MkdirAll(dir, 0o755))
	var b []byte
	for i := range batches {
		b = append(b, record.NewBatch(int64(i), record.NewRecord{Value: []byte("what is to be kept")})...)
	}
	name := filepath.Join(dir, "00000000000000000000.log")
	require.NoError(t, os.WriteFile(name, b, 0o644))
	return name
}

func (f *fake) call(what string) error {
	f.calls++
	f.done[what]++
	if f.failAt != nil && f.failAt(f.calls, what) {
		return fmt.Errorf("%w: %s", errPlanned, what)
	}
	return nil
}

func (f *fake) act(what string, do func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call(what); err != nil {
		return err
	}
	return do()
}

func (f *fake) Nodes() []int { return f.nodes }

func (f *fake) Running(id int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running[id]
}

func (f *fake) Kill(_ context.Context, id int) error {
	return f.act("kill", func() error { f.running[id], f.paused[id] = false, false; return nil })
}

func (f *fake) Start(_ context.Context, id int) error {
	return f.act("start", func() error {
		if f.running[id] {
			return fmt.Errorf("node %d runs already", id)
		}
		f.running[id] = true
		return nil
	})
}

func (f *fake) Stop(_ context.Context, id int) error {
	return f.act("stop", func() error { f.running[id], f.paused[id] = false, false; return nil })
}

func (f *fake) Pause(_ context.Context, id int) error {
	return f.act("pause", func() error {
		if !f.running[id] {
			return fmt.Errorf("node %d does not run", id)
		}
		f.paused[id] = true
		return nil
	})
}

func (f *fake) Resume(_ context.Context, id int) error {
	return f.act("resume", func() error { f.paused[id] = false; return nil })
}

func (f *fake) WaitReady(ctx context.Context, id int) error {
	return f.act("ready", func() error {
		f.running[id] = f.running[id] && !f.refuses[id]
		if !f.running[id] || f.paused[id] || ctx.Err() != nil {
			return fmt.Errorf("node %d is not ready", id)
		}
		return nil
	})
}

func (f *fake) View(ctx context.Context) (v View, err error) {
	err = f.act("view", func() error {
		v.Controller = f.nodes[0]
		for _, p := range f.parts {
			if p.Leader != 0 && (!f.running[p.Leader] || f.paused[p.Leader]) {
				for _, id := range p.ISR {
					if f.running[id] && !f.paused[id] {
						p.Leader = id
					}
				}
			}
			v.Partitions = append(v.Partitions, p)
		}
		return ctx.Err()
	})
	return v, err
}

func (f *fake) Settled(context.Context) error {
	return f.act("settled", func() error {
		if f.slow != nil && f.slow() {
			return errors.New("not yet")
		}
		if err := f.unwhole(); err != nil {
			return err
		}
		clear(f.hurt)
		return nil
	})
}

// unwhole says what is still broken.
func (f *fake) unwhole() error {
	for _, id := range f.nodes {
		switch {
		case !f.running[id]:
			return fmt.Errorf("node %d does not run", id)
		case f.paused[id]:
			return fmt.Errorf("node %d is paused", id)
		case len(f.rules[id]) > 0:
			return fmt.Errorf("the disk of node %d has rules", id)
		case f.apart[id]:
			return fmt.Errorf("node %d is off the network", id)
		case f.clocks[id] != 0:
			return fmt.Errorf("the clock of node %d is %v ahead", id, f.clocks[id])
		}
	}
	if len(f.edges) > 0 {
		return fmt.Errorf("edges are not whole: %v", slices.Collect(maps.Keys(f.edges)))
	}
	return nil
}

// broken is unwhole for tests, and what else is not as it was.
func (f *fake) broken() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, p := range f.parts {
		if p.Rule != "isr" || !slices.Equal(p.Replicas, f.parts[i].ISR) {
			return fmt.Errorf("partition %+v", p)
		}
	}
	return f.unwhole()
}

// destroy notes that copies of a node are gone.
func (f *fake) destroy(id int) {
	f.hurt[id] = true
	f.most = max(f.most, len(f.hurt))
	v := View{Partitions: f.parts}
	if hurt := slices.Collect(maps.Keys(f.hurt)); !f.loose && !Bearable(f.nodes, v.replicaSets(), hurt) {
		f.lost = fmt.Sprintf("copies of nodes %v are gone at once", hurt)
	}
}

func (f *fake) Edges() Edges     { return f }
func (f *fake) Disks() Disks     { return f }
func (f *fake) Changes() Changes { return f }
func (f *fake) Clocks() Clocks   { return f }

func (f *fake) Networks() Networks { return f }

func (f *fake) Disconnect(_ context.Context, id int) error {
	return f.act("disconnect", func() error { f.apart[id] = true; return nil })
}

func (f *fake) Connect(_ context.Context, id int) error {
	return f.act("connect", func() error { f.apart[id] = false; return nil })
}

func (f *fake) SetOffset(_ context.Context, id int, d time.Duration) error {
	return f.act("clock", func() error { f.clocks[id] = d; return nil })
}

func (f *fake) edge(what string, from, to int, broken bool) error {
	return f.act(what, func() error {
		if from == to {
			return errors.New("no such edge")
		}
		if delete(f.edges, [2]int{from, to}); broken {
			f.edges[[2]int{from, to}] = true
		}
		return nil
	})
}

func (f *fake) Cut(from, to int) error { return f.edge("cut", from, to, true) }
func (f *fake) Delay(from, to int, _, _ time.Duration) error {
	return f.edge("delay", from, to, true)
}
func (f *fake) Loss(from, to int, _ float64) error { return f.edge("loss", from, to, true) }
func (f *fake) Rate(from, to int, _ int64) error   { return f.edge("rate", from, to, true) }
func (f *fake) Mend(from, to int) error            { return f.edge("mend", from, to, false) }

func (f *fake) LosePower(_ context.Context, id int, _ vfs.CrashMode, _ uint64) (string, error) {
	return "bytes", f.act("power", func() error {
		f.running[id], f.paused[id] = false, false
		f.destroy(id)
		return nil
	})
}

func (f *fake) SetRules(_ context.Context, id int, rules ...vfs.Rule) error {
	return f.act("rules", func() error {
		f.rules[id] = rules
		if len(rules) > 0 && rules[0].Error == "EIO" {
			f.destroy(id)
		}
		return nil
	})
}

// DataDir is asked for by those who spoil what is there; only then it is filled.
func (f *fake) DataDir(id int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.destroy(id)
	dir := filepath.Join(f.dir, fmt.Sprint(id))
	for _, p := range f.parts {
		if slices.Contains(p.Replicas, id) {
			log := logFile(f.t, filepath.Join(dir, fmt.Sprintf("%s-%d", p.Topic, p.ID)), 5)
			require.NoError(f.t, os.WriteFile(strings.TrimSuffix(log, "log")+"index", make([]byte, 80), 0o644))
		}
	}
	for _, name := range []string{"session.json", "hosted", "raft/raft.db", "raft/snapshots/2-40-7/meta.json", "raft/snapshots/2-50-8.tmp/meta.json"} {
		name = filepath.Join(dir, name)
		require.NoError(f.t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(f.t, os.WriteFile(name, make([]byte, 80), 0o644))
	}
	return dir
}

func (f *fake) Wipe(_ context.Context, id int) error {
	return f.act("wipe", func() error {
		if f.running[id] {
			return fmt.Errorf("node %d runs", id)
		}
		f.destroy(id)
		delete(f.refuses, id)
		return nil
	})
}

func (f *fake) Refusal(int) (string, bool) { return "what it said", f.crashes }

func (f *fake) part(topic string, id int32) *Partition {
	i := slices.IndexFunc(f.parts, func(p Partition) bool { return p.Topic == topic && p.ID == id })
	return &f.parts[i]
}

func (f *fake) Remove(_ context.Context, id int) error {
	return f.act("remove", func() error {
		if f.running[id] || slices.ContainsFunc(f.parts, func(p Partition) bool { return slices.Contains(p.Replicas, id) }) {
			return fmt.Errorf("node %d runs, or holds something", id)
		}
		return nil
	})
}

func (f *fake) Elect(_ context.Context, topic string, id int32, node int) error {
	return f.act("elect", func() error { f.part(topic, id).Leader = node; return nil })
}

func (f *fake) Move(_ context.Context, topic string, id int32, replicas []int) error {
	return f.act("move", func() error {
		p := f.part(topic, id)
		p.Replicas = replicas
		p.Trusted = replicas
		return nil
	})
}

func (f *fake) SetConfig(_ context.Context, topic, _, value string) error {
	return f.act("config", func() error {
		for i := range f.parts {
			if f.parts[i].Topic == topic {
				f.parts[i].Rule = value
			}
		}
		return nil
	})
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
