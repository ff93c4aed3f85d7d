package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"cordwood/integration/history"
)

// ScheduleOptions says how faults follow each other.
type ScheduleOptions struct {
	Seed    uint64
	Faults  time.Duration // how long faults are left alone; 0: 10 s
	Quiet   time.Duration // from their end to the next; 0: 10 s
	Start   time.Duration // bound of starting one; 0: 60 s
	Heal    time.Duration // bound of healing one, tried again and again; 0: 60 s
	Settle  time.Duration // bound of waiting until copies may be destroyed again; 0: 45 s
	Periods int           // 0: until the context ends
	// Began is what the times of reports count from.
	Began time.Time
	// Started is told of a fault that has begun, without its end; Ended of the same one when it was healed. Both are called
	// by the goroutine of Run; nil for nobody.
	Started, Ended func(history.Fault)
}

// Schedule draws faults by a seed: in a quarter of the periods none, else one or two of different classes. Every class comes
// up as often as any other, and so do the faults of a class.
type Schedule struct {
	site *Site
	opt  ScheduleOptions
	rng  *rand.Rand

	byClass map[string][]Nemesis
	left    map[string]error // faults that were asked for by class and cannot work here
	none    *deck[bool]
	classes *deck[string]
	faults  map[string]*deck[Nemesis]
}

// NewSchedule makes a schedule. A fault that was named and cannot work is an error that wraps ErrCannot; others that cannot
// are left out.
func NewSchedule(site *Site, choices []Choice, opt ScheduleOptions) (*Schedule, error) {
	for _, d := range []struct {
		d *time.Duration
		v time.Duration
	}{{&opt.Faults, 10 * time.Second}, {&opt.Quiet, 10 * time.Second}, {&opt.Start, time.Minute}, {&opt.Heal, time.Minute}, {&opt.Settle, 45 * time.Second}} {
		if *d.d <= 0 {
			*d.d = d.v
		}
	}
	s := &Schedule{site: site, opt: opt, rng: rand.New(rand.NewPCG(opt.Seed, 0)), byClass: map[string][]Nemesis{}, left: map[string]error{}, faults: map[string]*deck[Nemesis]{}}
	for _, c := range choices {
		n, err := site.Nemesis(c.Name)
		if err != nil {
			return nil, err
		}
		if err := n.Check(); err != nil {
			if c.Named {
				return nil, err
			}
			s.left[c.Name] = err
			continue
		}
		s.byClass[n.Class()] = append(s.byClass[n.Class()], n)
	}
	s.none = newDeck(s.rng, []bool{true, false, false, false})
	var classes []string
	for _, class := range Classes() {
		if all := s.byClass[class]; len(all) > 0 {
			classes = append(classes, class)
			s.faults[class] = newDeck(s.rng, all)
		}
	}
	s.classes = newDeck(s.rng, classes)
	return s, nil
}

// Names gives the faults that are drawn from, class by class.
func (s *Schedule) Names() (out []string) {
	for _, class := range Classes() {
		for _, n := range s.byClass[class] {
			out = append(out, n.Name())
		}
	}
	return out
}

// Left gives the faults that were asked for by class and cannot work here, and why.
func (s *Schedule) Left() map[string]error { return s.left }

// running is a fault that was begun.
type running struct {
	n Nemesis
	f history.Fault
}

// Run does faults until ctx ends, or for so many periods, and heals all of them, whatever happens. That a fault could not be
// started is told to Ended, with what was missing; that one could not be healed is an error, and ends it.
func (s *Schedule) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, s.healAll()) }()
	for period := 0; (s.opt.Periods == 0 || period < s.opt.Periods) && ctx.Err() == nil; period++ {
		under := s.begin(ctx, period)
		_ = sleep(ctx, s.opt.Faults)
		if err := s.end(ctx, under); err != nil {
			return err
		}
		_ = sleep(ctx, s.opt.Quiet)
	}
	return nil
}

// begin draws and starts what is done in one period.
func (s *Schedule) begin(ctx context.Context, period int) (under []running) {
	if s.none.draw(nil) || len(s.classes.all) == 0 {
		return nil
	}
	many := min(1+s.rng.IntN(2), len(s.classes.all))
	var drawn []string
	for range many {
		class := s.classes.draw(func(c string) bool { return !slices.Contains(drawn, c) })
		drawn = append(drawn, class)
	}
	// What has to ask the cluster comes before what lets it answer nobody.
	slices.SortStableFunc(drawn, func(a, b string) int { return slices.Index(beginOrder, a) - slices.Index(beginOrder, b) })
	if s.destroys(drawn) {
		_ = s.settle(ctx) // without it the faults keep to the nodes that are hurt already
	}
	for i, class := range drawn {
		if len(under) > 0 && kindOf(under[0].n.Name()).Alone || !s.one(ctx, class, 2*period+i, &under) {
			s.classes.back(class) // it comes first in the next period
		}
	}
	return under
}

// beginOrder is in which order the faults of a period begin, by class.
var beginOrder = []string{"membership", "disk", "clock", "process", "network"}

// one starts one fault of a class. What finds nothing to do gives way to another fault of the class, once each. What faults
// draw depends on the seed and their number alone: how much one draws, which the cluster has a say in, changes no other.
func (s *Schedule) one(ctx context.Context, class string, number int, under *[]running) bool {
	var tried []string
	for range s.byClass[class] {
		n := s.faults[class].draw(func(n Nemesis) bool { return !slices.Contains(tried, n.Name()) })
		tried = append(tried, n.Name())
		if ctx.Err() != nil {
			return false
		}
		if len(*under) > 0 && kindOf(n.Name()).Alone {
			continue
		}
		if r, ok := s.start(ctx, n, rand.New(rand.NewPCG(s.opt.Seed, uint64(1+number)))); ok {
			*under = append(*under, r)
			return true
		}
	}
	return false
}

// destroys says whether a fault of these classes may destroy copies.
func (s *Schedule) destroys(classes []string) bool {
	for _, class := range classes {
		if slices.ContainsFunc(s.byClass[class], func(n Nemesis) bool { return kindOf(n.Name()).Destroys }) {
			return true
		}
	}
	return false
}

func (s *Schedule) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.opt.Settle)
	defer cancel()
	return s.site.Settle(ctx)
}

// start starts one fault, and heals it at once when that failed or the run ended meanwhile.
func (s *Schedule) start(ctx context.Context, n Nemesis, rng *rand.Rand) (running, bool) {
	bounded, cancel := context.WithTimeout(ctx, s.opt.Start)
	defer cancel()
	r := running{n: n, f: history.Fault{Name: n.Name(), Start: time.Since(s.opt.Began)}}
	nodes, what, err := n.Start(bounded, rng)
	r.f.Nodes, r.f.What = nodes, what
	if err == nil {
		if s.opt.Started != nil {
			s.opt.Started(r.f)
		}
		return r, true
	}
	if errors.Is(err, ErrCannot) && len(nodes) == 0 && s.mend(ctx, n) == nil {
		return r, false // nothing was done: there is nothing to tell
	}
	switch {
	case ctx.Err() != nil:
		r.f.What = also(what, "the run ended while it was begun")
	case errors.Is(err, ErrCannot):
		r.f.What = also(what, err.Error()) // a part of it was done
	default:
		r.f.Failed = fmt.Sprintf("start: %v", err)
	}
	_ = s.end(ctx, []running{r}) // Run tries again, and tells
	return r, false
}

// also adds to what people are told.
func also(what, more string) string { return strings.TrimPrefix(what+"; "+more, "; ") }

// end heals faults, also when ctx has ended, and tells of their ends. It heals them side by side: a node may have to wait for
// what another fault holds back.
func (s *Schedule) end(ctx context.Context, under []running) error {
	errs := make([]error, len(under))
	var all sync.WaitGroup
	for i := range under {
		all.Go(func() {
			errs[i] = s.mend(ctx, under[i].n)
			under[i].f.End = time.Since(s.opt.Began)
		})
	}
	all.Wait()
	for i, r := range under {
		if errs[i] != nil {
			r.f.Failed = strings.TrimPrefix(r.f.Failed+"; ", "; ") + errs[i].Error()
		}
		if s.opt.Ended != nil {
			s.opt.Ended(r.f)
		}
	}
	return errors.Join(errs...)
}

// mend heals within the bound, again and again.
func (s *Schedule) mend(ctx context.Context, n Nemesis) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opt.Heal)
	defer cancel()
	if err := eventually(bounded, func() error { return n.Heal(bounded) }); err != nil {
		return fmt.Errorf("heal %s: %w", n.Name(), err)
	}
	return nil
}

// healAll heals what is still left of any fault.
func (s *Schedule) healAll() error {
	var errs []error
	for _, class := range Classes() {
		for _, n := range s.byClass[class] {
			errs = append(errs, s.mend(context.Background(), n))
		}
	}
	return errors.Join(errs...)
}

// deck gives what it holds in an order drawn anew whenever all was given.
type deck[T comparable] struct {
	rng  *rand.Rand
	all  []T
	left []T
}

func newDeck[T comparable](rng *rand.Rand, all []T) *deck[T] { return &deck[T]{rng: rng, all: all} }

// draw gives the next one of which ok holds, nil of any. There must be one.
func (d *deck[T]) draw(ok func(T) bool) T {
	for {
		if i := slices.IndexFunc(d.left, func(x T) bool { return ok == nil || ok(x) }); i >= 0 {
			x := d.left[i]
			d.left = slices.Delete(d.left, i, i+1)
			return x
		}
		for _, i := range d.rng.Perm(len(d.all)) {
			d.left = append(d.left, d.all[i])
		}
	}
}

// back puts one back that was drawn: it is the next.
func (d *deck[T]) back(x T) { d.left = slices.Insert(d.left, 0, x) }
