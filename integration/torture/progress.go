package torture

import (
	"context"
	"slices"
	"sync"
	"time"

	"cordwood/integration/history"
)

// phase is where a run is, for those who watch.
type phase struct {
	mu    sync.Mutex
	name  string
	begun time.Time
	of    time.Duration
}

func (p *phase) enter(name string, of time.Duration) {
	p.mu.Lock()
	p.name, p.begun, p.of = name, time.Now(), of
	p.mu.Unlock()
}

const tellEvery = time.Second

// watch tells the progress every second until the function it gives is called.
func (r *runner) watch(ctx context.Context) (end func()) {
	if r.opt.Progress == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(tellEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				r.opt.Progress(r.progress())
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func (r *runner) progress() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := Progress{Phase: r.name, Of: r.of}
	if !r.begun.IsZero() {
		p.Elapsed = time.Since(r.begun)
	}
	for name, n := range r.under {
		if n > 0 {
			p.Faults = append(p.Faults, name)
		}
	}
	slices.Sort(p.Faults)
	if r.work != nil {
		p.Operations, p.Acknowledged = r.work.Operations(), r.work.Acknowledged()
		p.Anomalies = r.rec.live.Found()
	}
	return p
}

// began and ended follow the faults.
func (r *runner) began(f history.Fault) {
	r.mu.Lock()
	r.under[f.Name]++
	r.mu.Unlock()
}

func (r *runner) ended(f history.Fault) {
	r.mu.Lock()
	r.under[f.Name] = max(0, r.under[f.Name]-1) // one that failed to start never began
	r.mu.Unlock()
	r.rec.fault(f)
}
