package sim

import (
	"math/rand/v2"
)

// Result is what one schedule came to.
type Result struct {
	Fault Fault // empty: nothing was broken
	Trace []string
	Steps int
}

// Run runs one schedule of a profile and adds its events to counts.
func Run(seed uint64, p Profile, counts map[string]int) (r Result) {
	if p.Name == "swarm" {
		p = Swarm(rand.New(rand.NewPCG(seed, 0x5a)))
	}
	var w *World
	defer func() {
		if w != nil {
			r.Trace = w.trace
			for k, v := range w.Counts {
				counts[k] += v
			}
		}
		if e := recover(); e != nil {
			f, ok := e.(Fault)
			if !ok {
				panic(e)
			}
			r.Fault = f
		}
	}()
	w = New(seed, p)
	wheel := newWheel(p.Weights)
	for r.Steps = range p.Steps {
		w.step(wheel.draw(w.rng.IntN(wheel.sum)))
		w.check()
	}
	w.heal()
	return r
}
