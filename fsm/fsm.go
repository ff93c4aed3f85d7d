// Package fsm joins the pure metadata state to hashicorp/raft: it decodes log entries, applies them, and publishes an
// immutable image with what changed. It keeps no other state and does nothing else, so that what every node computes is
// what fsm/metadata computes.
package fsm

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"cordwood/fsm/metadata"
)

// ErrStopped is every answer after an entry or a snapshot that this binary cannot apply: the image stays what it was.
var ErrStopped = errors.New("metadata log cannot be applied any further")

// Options are the hooks of an FSM. Both run on raft's own goroutine and must return soon.
type Options struct {
	// Publish is given each new image with what changed since the one before: once for a batch of entries, and once for a
	// snapshot that was installed, then as a Full delta. raft.NewRaft calls it too, before it returns, when it starts from
	// a snapshot.
	Publish func(*metadata.Image, metadata.Delta)
	// Fatal is called at most once, when an entry cannot be applied: the node must stop, with this sentence.
	Fatal func(error)
}

// FSM is raft's view of the metadata. raft calls Apply, ApplyBatch, Snapshot and Restore from one goroutine; Image is for
// any.
type FSM struct {
	opts    Options
	state   *metadata.State
	image   atomic.Pointer[metadata.Image]
	stopped error
}

var (
	_ raft.FSM         = (*FSM)(nil)
	_ raft.BatchingFSM = (*FSM)(nil)
)

// New gives an FSM without any metadata.
func New(o Options) *FSM {
	f := &FSM{opts: o, state: metadata.NewState()}
	f.image.Store(f.state.Image())
	return f
}

// Image is the newest published image; never nil.
func (f *FSM) Image() *metadata.Image { return f.image.Load() }

// Apply applies one entry. The answer is a metadata.Result.
func (f *FSM) Apply(l *raft.Log) any { return f.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch applies entries in order and publishes one image for all of them. The answers are metadata.Results, nil for
// entries that hold no command.
func (f *FSM) ApplyBatch(logs []*raft.Log) []any {
	out := make([]any, len(logs))
	applied := false
	for i, l := range logs {
		if l.Type != raft.LogCommand {
			continue
		}
		r := f.step(l)
		applied = applied || f.stopped == nil
		out[i] = r
	}
	if applied {
		f.publish(f.state.Publish())
	}
	return out
}

// step applies one command, or stops for good at the first that cannot be applied.
func (f *FSM) step(l *raft.Log) metadata.Result {
	if f.stopped == nil && l.Index <= f.state.Index() {
		f.stop(fmt.Errorf("entry %d of the metadata log comes after entry %d", l.Index, f.state.Index()))
	}
	if f.stopped == nil {
		cmd, err := metadata.DecodeCommand(l.Data)
		if err == nil {
			return f.state.Step(l.Index, cmd)
		}
		f.stop(fmt.Errorf("entry %d of the metadata log: %w", l.Index, err))
	}
	return metadata.Result{Index: l.Index, Err: f.stopped}
}

func (f *FSM) stop(cause error) {
	f.stopped = fmt.Errorf("%w: %w", ErrStopped, cause)
	if f.opts.Fatal != nil {
		f.opts.Fatal(f.stopped)
	}
}

func (f *FSM) publish(d metadata.Delta) {
	f.image.Store(d.New)
	if f.opts.Publish != nil {
		f.opts.Publish(d.New, d)
	}
}
