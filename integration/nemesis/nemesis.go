// Package nemesis breaks clusters on purpose, and mends them: one fault at a time or several together, drawn by a seed.
//
// Clocks are those that a node in development mode can be given: what a record's time is, and how old it is. What is waited
// for goes by a clock that nobody sets. A node that finds the metadata's own files spoiled may refuse to start; then it
// is given an empty disk.
package nemesis

import (
	"context"
	"errors"
	"math/rand/v2"
)

// ErrCannot says that this cluster gives no way to do a fault: too few nodes, no permission, no hook for it.
var ErrCannot = errors.New("the nemesis cannot work here")

// Nemesis is one kind of fault. Methods are called by one goroutine, one after another.
type Nemesis interface {
	// Name is the fault's name in flags and reports, such as kill.
	Name() string
	// Class is the fault class that it belongs to: process, network, disk, clock or membership.
	Class() string
	// Check says whether the cluster can bear it: nil, or an error that wraps ErrCannot.
	Check() error
	// Start does it, once. It gives the nodes it was done to and what it was for people, also with an error: what was begun
	// has to be healed.
	Start(ctx context.Context, rng *rand.Rand) (nodes []int, what string, err error)
	// Heal undoes all that Start did; without a Start it does nothing. It must work after any error of Start and twice.
	Heal(ctx context.Context) error
}
