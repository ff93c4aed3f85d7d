package nemesis

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Clocks sets the wall clocks that nodes go by.
type Clocks interface {
	// SetOffset lets a node's wall clock stand so far ahead of the machine's, behind it where d is negative. It need not run.
	SetOffset(ctx context.Context, node int, d time.Duration) error
}

// clocked is a Cluster whose clocks may be set; nil: they cannot.
type clocked interface{ Clocks() Clocks }

// How far clocks are set. A node believes the clock that it starts with: what is tested has to be kept for longer than the
// furthest.
const (
	clockLeast = 100 * time.Millisecond
	clockMost  = 12 * time.Hour
)

// clocks gives what sets the clocks, nil: nothing can.
func (b *base) clocks() Clocks {
	if c, ok := b.s.c.(clocked); ok {
		return c.Clocks()
	}
	return nil
}

// settable is a Check for faults of clocks.
func (b *base) settable() error {
	if b.clocks() == nil {
		return fmt.Errorf("%w: %s needs nodes whose clocks can be set", ErrCannot, b.kind.Name)
	}
	return nil
}

// someOffsets draws nodes and how far the clock of each is set. Small offsets are drawn as often as large ones.
func (b *base) someOffsets(rng *rand.Rand) (ids []int, offsets map[int]time.Duration) {
	nodes := b.s.c.Nodes()
	ids = draw(rng, nodes, 1+rng.IntN(len(nodes)))
	slices.Sort(ids)
	offsets = map[int]time.Duration{}
	for _, id := range ids {
		d := time.Duration(float64(clockLeast) * math.Exp(rng.Float64()*math.Log(float64(clockMost)/float64(clockLeast)))).Round(time.Millisecond)
		if rng.IntN(2) == 0 {
			d = -d
		}
		offsets[id] = d
	}
	return ids, offsets
}

// right undoes what was done to a clock.
func (b *base) right(id int) {
	b.later(fmt.Sprintf("set the clock of node %d right", id), func(ctx context.Context) error { return b.clocks().SetOffset(ctx, id, 0) })
}

func toldOffsets(ids []int, offsets map[int]time.Duration) string {
	var all []string
	for _, id := range ids {
		all = append(all, fmt.Sprintf("node %d by %v", id, offsets[id]))
	}
	return strings.Join(all, ", ")
}

// jump sets the clocks of some nodes ahead or back, each by its own time.
type jump struct{ base }

func (j *jump) Check() error { return j.settable() }

func (j *jump) Start(ctx context.Context, rng *rand.Rand) ([]int, string, error) {
	ids, offsets := j.someOffsets(rng)
	what := "moved the clocks of " + toldOffsets(ids, offsets)
	for _, id := range ids {
		j.right(id)
		if err := j.clocks().SetOffset(ctx, id, offsets[id]); err != nil {
			return ids, what, err
		}
	}
	return ids, what, nil
}

// Within these times a clock that is strobed goes there, or back. A node looks every 50 ms.
const (
	strobeLeast = 100 * time.Millisecond
	strobeMost  = 300 * time.Millisecond
)

// strobe sets the clocks of some nodes ahead or back, and right again, several times a second until it is healed.
type strobe struct{ base }

func (s *strobe) Check() error { return s.settable() }

func (s *strobe) Start(ctx context.Context, rng *rand.Rand) ([]int, string, error) {
	ids, offsets := s.someOffsets(rng)
	every := strobeLeast + time.Duration(rng.Int64N(int64(strobeMost-strobeLeast))).Round(time.Millisecond)
	what := fmt.Sprintf("moved the clocks of %s there and back every %v", toldOffsets(ids, offsets), every)
	for _, id := range ids {
		s.right(id)
		if err := s.clocks().SetOffset(ctx, id, offsets[id]); err != nil {
			return ids, what, err
		}
	}
	going, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	s.later("end the strobing", func(context.Context) error { // SetOffset ends with its context
		stop()
		<-ended
		return nil
	})
	set := s.clocks()
	go func() {
		defer close(ended)
		for away := false; sleep(going, every) == nil; away = !away {
			for _, id := range ids {
				d := time.Duration(0)
				if away {
					d = offsets[id]
				}
				// One that fails is a jump less: that clocks can be set right is seen when it is healed.
				_ = set.SetOffset(going, id, d)
			}
		}
	}()
	return ids, what, nil
}
