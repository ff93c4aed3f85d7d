package replica

import (
	"context"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore"
	"cordwood/logstore/record"
)

// Steps is a manager without a goroutine: whoever holds it calls every step that fetchers, senders and loops would call,
// in the order it likes. The simulation runs this very code. It belongs to one goroutine.
type Steps struct {
	*Manager
	sessions map[int32]*session
}

// NewSteps makes a manager that is driven by hand. Options.Controller and Options.Dial are never called.
func NewSteps(opt Options) (*Steps, error) {
	m, err := NewManager(opt)
	if err != nil {
		return nil, err
	}
	m.launch = func(f *fetcher) { f.cancel = func() {} }
	m.flushes.launch = func() {}
	return &Steps{Manager: m, sessions: make(map[int32]*session)}, nil
}

// Begin is Start without the loops.
func (s *Steps) Begin(image *metadata.Image, reg Registration, found logstore.Inspection) error {
	if err := s.enter(image, reg); err != nil {
		return err
	}
	return s.openAll(context.Background(), image, reg, found)
}

// Tick does what only time decides.
func (s *Steps) Tick() {
	s.tick()
	s.resettle()
}

// Proposals takes the ISR proposals that wait to be sent, by partition.
func (s *Steps) Proposals() []*metadata.PartitionChange {
	s.alter.mu.Lock()
	defer s.alter.mu.Unlock()
	out := slices.Collect(maps.Values(s.alter.next))
	clear(s.alter.next)
	slices.SortFunc(out, func(a, b *metadata.PartitionChange) int { return comparePartitions(a.Partition, b.Partition) })
	return out
}

// Leaders lists the nodes that this one fetches from, by id.
func (s *Steps) Leaders() []int32 { return slices.Sorted(maps.Keys(s.fetchers)) }

// StepFetch is a fetch of this node on its way to a leader.
type StepFetch struct {
	Leader  int32
	Request *kmsg.FetchRequest

	f   *fetcher
	s   *session
	seq int64
}

// Ask builds the next fetch to a leader; nil when nothing is followed there.
func (s *Steps) Ask(leader int32) *StepFetch {
	f := s.fetchers[leader]
	if f == nil {
		return nil
	}
	ses := s.sessions[leader]
	if ses == nil {
		ses = &session{}
		s.sessions[leader] = ses
		f.reopen(ses)
	}
	req, _ := f.build(ses, s.now())
	ses.epoch++
	return &StepFetch{Leader: leader, Request: req, f: f, s: ses, seq: ses.seq}
}

// Take acts on the answer to a fetch. An error ends the connection: Break follows.
func (s *Steps) Take(x *StepFetch, resp *kmsg.FetchResponse) error {
	return x.f.take(x.s, x.seq, resp, s.now())
}

// NextAck takes what is to be told a leader of how far copies count, behind the fetches asked before; nil when there is
// nothing.
func (s *Steps) NextAck(leader int32) *partition.Ack {
	f, ses := s.fetchers[leader], s.sessions[leader]
	if f == nil || ses == nil {
		return nil
	}
	return f.nextAck(ses)
}

// TakeLate acts on an answer that came over a connection which has ended since. No fetcher would hand it on; the replica
// has to drop it all the same.
func (s *Steps) TakeLate(x *StepFetch, resp *kmsg.FetchResponse) error {
	old := *x.s
	return x.f.take(&old, x.seq, resp, s.now())
}

// Break ends the connection to a leader; the next fetch opens a new session. Request numbers go on.
func (s *Steps) Break(leader int32) {
	f, ses := s.fetchers[leader], s.sessions[leader]
	if f == nil || ses == nil {
		delete(s.sessions, leader)
		return
	}
	f.reopen(ses)
}

// Replica gives the replica of a partition, nil if it is not hosted here.
func (s *Steps) Replica(id record.PartitionID) *Partition { return s.find(id) }

// Log is the replica's log.
func (p *Partition) Log() *logstore.Log { return p.log }

// Office is the leader state while this replica leads, else nil.
func (p *Partition) Office() *partition.Leader { return p.leader }

// Record is the record that this replica acted on last.
func (p *Partition) Record() *metadata.Partition { return p.rec }

// Stuck says why the replica does nothing for its partition: quarantined, or the log failed. Empty: it works.
func (p *Partition) Stuck() (quarantined string, failed error) { return p.quarantined, p.failed }

// RaiseStart moves the log start, where this replica leads, as DeleteRecords does.
func (p *Partition) RaiseStart(to int64) error {
	_, err := p.raiseStart(to)
	return err
}

// FlushStep does what one flush worker does next; false when no log waits for its disk.
func (s *Steps) FlushStep() bool {
	s.flushes.mu.Lock()
	waiting := s.flushes.workers > 0
	s.flushes.mu.Unlock()
	return waiting && s.flushes.step()
}
