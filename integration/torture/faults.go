package torture

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cordwood/integration/history"
	"cordwood/integration/nemesis"
)

// faults does what the schedule draws for the run's duration, and heals it.
func (r *runner) faults(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, r.opt.Duration)
	defer cancel()
	if r.schedule == nil {
		<-limited.Done()
		return nil
	}
	if err := r.schedule.Run(limited); err != nil {
		return fmt.Errorf("faults were not healed: %w", err)
	}
	return nil
}

// plan makes the schedule; nil: no faults are wanted. What cannot be is an error that wraps nemesis.ErrUnknown or
// nemesis.ErrCannot; it is known before anything runs.
func (r *runner) plan(topics []history.Topic, began time.Time) (*nemesis.Site, *nemesis.Schedule, error) {
	choices, err := nemesis.Parse(strings.Join(r.opt.Faults, ","))
	if err != nil || len(choices) == 0 {
		return nil, nil, err
	}
	cluster := r.opt.Place.Nemesis()
	if cluster == nil {
		return nil, nil, fmt.Errorf("%w: nothing was said of how to kill, start or pause nodes", nemesis.ErrCannot)
	}
	r.unable = map[string][]string{}
	for _, c := range choices {
		switch err := r.opt.Place.Able(c.Name); {
		case err == nil:
		case c.Named:
			return nil, nil, fmt.Errorf("%s: %w", c.Name, err)
		default:
			r.unable[err.Error()] = append(r.unable[err.Error()], c.Name)
		}
	}
	choices = slices.DeleteFunc(choices, func(c nemesis.Choice) bool { return r.opt.Place.Able(c.Name) != nil })
	site := nemesis.NewSite(cluster, nemesis.Options{Topics: names(topics), Session: r.opt.Session})
	s, err := nemesis.NewSchedule(site, choices, nemesis.ScheduleOptions{
		Seed: r.opt.Seed, Faults: r.opt.Period, Quiet: r.opt.Period, Start: beginWithin, Began: began, Started: r.began, Ended: r.ended,
	})
	if err != nil {
		return nil, nil, err
	}
	if len(s.Names()) == 0 {
		return nil, nil, fmt.Errorf("%w: %s", nemesis.ErrCannot, strings.Join(r.leftOut(s), "; "))
	}
	return site, s, nil
}

// beginWithin bounds the start of one fault: others that are under way wait for it.
const beginWithin = 20 * time.Second

// leftOut says which of the faults that were asked for cannot be done, and why.
func (r *runner) leftOut(s *nemesis.Schedule) (out []string) {
	out = []string{}
	if s == nil {
		return out
	}
	for why, names := range r.unable {
		slices.Sort(names)
		out = append(out, strings.Join(names, ", ")+": "+why)
	}
	for name, why := range s.Left() {
		out = append(out, fmt.Sprintf("%s: %v", name, why))
	}
	slices.Sort(out)
	return out
}
