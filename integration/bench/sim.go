package main

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"cordwood/integration/load"
	"cordwood/integration/sim"
)

const (
	// simFor is how much processor time, in seconds, the simulation is measured for, in all rounds together.
	simFor   = 6
	simSteps = 50_000 // a second that are aimed at
)

// sim measures steps of the simulation by the processor time of this process, with everything around them: building the
// worlds, the checks after each step, and the collection of garbage. Schedules of all profiles take turns. A broken
// invariant is an error.
func (b *bench) sim(ctx context.Context) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	profiles := append(sim.Profiles(), sim.Profile{Name: "swarm"})
	counts := map[string]int{}
	before, err := load.CPU(os.Getpid())
	if err != nil {
		return err
	}
	steps := 0
	for seed := uint64(1); ; seed++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, p := range profiles { // whole turns only: profiles differ in speed
			r := sim.Run(seed, p, counts)
			if r.Fault != "" {
				return fmt.Errorf("profile %s, seed %d: %s", p.Name, seed, r.Fault)
			}
			steps += r.Steps
		}
		now, err := load.CPU(os.Getpid())
		if err != nil {
			return err
		}
		if used := (now - before).Seconds(); used >= simFor {
			b.table.reaches("simulated steps, all profiles, one core", float64(steps)/used, "/s", simSteps)
			return nil
		}
	}
}
