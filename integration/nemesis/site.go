package nemesis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Options says what faults are aimed at.
type Options struct {
	// Topics are the tested ones: whose leaders are hit, which are changed and damaged. None: all that are not internal.
	Topics []string
	// Session is after how long a silent node is fenced. Pauses are drawn shorter and longer than it.
	Session time.Duration
	// Lag is for how long records are written that the paused nodes of amnesia lack.
	Lag time.Duration
}

// Site is a cluster that several faults work on: no two take the same process, and those that take copies of records away
// keep to what the cluster promises to bear. Safe for concurrent use.
type Site struct {
	c   Cluster
	opt Options

	mu   sync.Mutex
	busy map[int]string // nodes whose process or disk a fault has in hand, and its name
	hurt map[int]bool   // nodes whose copies may be gone since everything was whole
	sets [][]int        // replicas of all partitions, as they have been since; nil: nothing was whole yet
	good []time.Time    // when everything was whole
}

// NewSite makes a site of a cluster. Zero options get values: sessions of 4 s, a lag of 5 s.
func NewSite(c Cluster, opt Options) *Site {
	if opt.Session <= 0 {
		opt.Session = 4 * time.Second
	}
	if opt.Lag <= 0 {
		opt.Lag = 5 * time.Second
	}
	return &Site{c: c, opt: opt, busy: map[int]string{}, hurt: map[int]bool{}}
}

// Bearable says whether copies on the hurt nodes may be gone all at once without a record being lost for good: they are a
// minority of the nodes, and of the replicas of every partition. It is asked of all nodes that were hurt since a moment at
// which every partition was in sync and certified.
func Bearable(nodes []int, replicas [][]int, hurt []int) bool {
	minority := func(of []int) bool {
		n := 0
		for _, id := range of {
			if slices.Contains(hurt, id) {
				n++
			}
		}
		return n == 0 || 2*n < len(of)
	}
	return minority(nodes) && !slices.ContainsFunc(replicas, func(r []int) bool { return !minority(r) })
}

// Settle waits until everything is whole again, so that other nodes may be hurt from then on.
func (s *Site) Settle(ctx context.Context) error {
	if !s.idle() {
		return errors.New("faults have nodes in hand: nothing settles")
	}
	asked := time.Now()
	if err := s.c.Settled(ctx); err != nil {
		return err
	}
	v, err := s.c.View(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.hurt)
	s.good = append(s.good, asked)
	s.sets = append([][]int{}, v.replicaSets()...)
	return nil
}

// Whole gives the moments since which all copies were whole that had been spoiled before: when each Settle began to ask, the
// oldest first.
func (s *Site) Whole() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.good)
}

// view is how things are, for a fault that is about to begin.
func (s *Site) view(ctx context.Context) (View, error) {
	v, err := s.c.View(ctx)
	if err != nil {
		return v, fmt.Errorf("%w: nobody tells how things are: %w", ErrCannot, err)
	}
	return v, nil
}

// idle says that no fault has a node in hand.
func (s *Site) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.busy) == 0
}

// Hurt gives the nodes whose copies may be gone since the last Settle, rising.
func (s *Site) Hurt() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.hurt))
}

// take takes those of the nodes that no other fault has in hand, and gives them.
func (s *Site) take(by string, ids []int) (taken []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if s.busy[id] == "" {
			s.busy[id] = by
			taken = append(taken, id)
		}
	}
	slices.Sort(taken)
	return taken
}

func (s *Site) release(by string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, name := range s.busy {
		if name == by {
			delete(s.busy, id)
		}
	}
}

// takeToHurt takes up to most free nodes whose copies may go now, in an order that rng draws, and notes them as hurt.
func (s *Site) takeToHurt(ctx context.Context, by string, rng *rand.Rand, most int) ([]int, error) {
	v, err := s.view(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sets == nil {
		return nil, fmt.Errorf("%w: %s destroys copies, and the cluster has not been seen whole yet", ErrCannot, by)
	}
	s.sets = append(s.sets, v.replicaSets()...)
	hurt := slices.Sorted(maps.Keys(s.hurt))
	nodes := s.c.Nodes()
	var taken []int
	for _, i := range rng.Perm(len(nodes)) {
		id := nodes[i]
		if len(taken) == most || s.busy[id] != "" || !Bearable(nodes, s.sets, append(slices.Clone(hurt), id)) {
			continue
		}
		taken, hurt = append(taken, id), append(hurt, id)
		s.busy[id], s.hurt[id] = by, true
	}
	if len(taken) == 0 {
		return nil, fmt.Errorf("%w: no node's copies may be lost beside those of nodes %v", ErrCannot, hurt)
	}
	slices.Sort(taken)
	return taken, nil
}

// takeAllToHurt takes every node, whatever is lost.
func (s *Site) takeAllToHurt(by string) ([]int, error) {
	nodes := s.c.Nodes()
	taken := s.take(by, nodes)
	if len(taken) < len(nodes) {
		s.release(by)
		return nil, fmt.Errorf("%w: another fault has nodes in hand", ErrCannot)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range nodes {
		s.hurt[id] = true
	}
	return taken, nil
}

// base is what all faults have in common: the nodes in hand and how to undo what was begun.
type base struct {
	s     *Site
	kind  *Kind
	undos []undo
}

type undo struct {
	what string
	do   func(context.Context) error
}

func (b *base) Name() string  { return b.kind.Name }
func (b *base) Class() string { return b.kind.Class }

// later notes how to undo what is about to be done: before it is, so that a half done thing is undone, too.
func (b *base) later(what string, do func(context.Context) error) {
	b.undos = append(b.undos, undo{what, do})
}

// Heal undoes all that was begun, the newest first. After one that failed it goes on, but notes all older ones to be done
// again by the next call, since they may rest on it: each may be done twice.
func (b *base) Heal(ctx context.Context) error {
	left := 0 // so many of the oldest
	var errs []error
	for i, u := range slices.Backward(b.undos) {
		if err := u.do(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", u.what, err))
			left = max(left, i+1)
		}
	}
	b.undos = b.undos[:left]
	if left == 0 {
		b.s.release(b.kind.Name)
	}
	return errors.Join(errs...)
}

// least is a Check for so many nodes.
func (b *base) least(n int) error {
	if have := len(b.s.c.Nodes()); have < n {
		return fmt.Errorf("%w: %s needs %d nodes, and there are %d", ErrCannot, b.kind.Name, n, have)
	}
	return nil
}

func (b *base) none() error {
	return fmt.Errorf("%w: %s finds no node that no other fault has in hand", ErrCannot, b.kind.Name)
}

// up undoes the end of nodes: it starts those that do not run, all of them before it waits for any to be ready.
func (b *base) up(ids []int) {
	for _, id := range ids {
		b.later(fmt.Sprintf("wait for node %d", id), func(ctx context.Context) error { return b.s.c.WaitReady(ctx, id) })
	}
	for _, id := range ids {
		b.later(fmt.Sprintf("start node %d", id), func(ctx context.Context) error { return b.startDown(ctx, id) })
	}
}

func (b *base) startDown(ctx context.Context, id int) error {
	if b.s.c.Running(id) {
		return nil
	}
	return b.s.c.Start(ctx, id)
}

// goOn undoes a pause.
func (b *base) goOn(id int) {
	b.later(fmt.Sprintf("resume node %d", id), func(ctx context.Context) error {
		if !b.s.c.Running(id) {
			return nil
		}
		return b.s.c.Resume(ctx, id)
	})
}

// each does f for all ids side by side.
func each(ids []int, f func(id int) error) error {
	errs := make([]error, len(ids))
	var all sync.WaitGroup
	for i, id := range ids {
		all.Go(func() { errs[i] = f(id) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// sleep waits; an error: ctx ended first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// askEvery is how often things that are waited for are looked at.
const askEvery = 200 * time.Millisecond

// eventually asks until f says yes; an error: ctx ended first, and what f said last.
func eventually(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil {
			return nil
		}
		if sleep(ctx, askEvery) != nil {
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}
