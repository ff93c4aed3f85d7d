package replica

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
)

// ErrNotStarted says that metadata was not replayed to this process's registration yet: nothing touches data.
var ErrNotStarted = errors.New("replicas are not started")

// Manager is this node's replicas. Start, Apply and Close are called one after another by one goroutine; everything else
// may be called at any time.
type Manager struct {
	opt Options

	img atomic.Pointer[metadata.Image] // acted on
	be  atomic.Int64                   // this process's broker epoch; 0 before Start

	acting sync.Mutex // before all other locks: partitions are brought to their records by one at a time

	mu       sync.RWMutex // a leaf lock
	parts    map[record.PartitionID]*Partition
	links    map[int32]*link
	fetchers map[int32]*fetcher
	closed   bool
	// goneLatency is what replicas measured that are here no more.
	goneLatency partition.AckLatency

	alter   *alterQueue
	session sessionQueue
	duty    duty
	counts  counts
	flushes *flushPool

	launch func(f *fetcher) // starts a fetcher; steps are driven by hand in tests
	run    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

// NewManager makes a manager that hosts nothing until Start.
func NewManager(opt Options) (*Manager, error) {
	if opt.Dir == nil || opt.Controller == nil || opt.Dial == nil || opt.Config == nil {
		return nil, errors.New("replica: Dir, Controller, Dial and Config are needed")
	}
	opt.defaults()
	m := &Manager{
		opt:      opt,
		parts:    make(map[record.PartitionID]*Partition),
		links:    make(map[int32]*link),
		fetchers: make(map[int32]*fetcher),
	}
	m.run, m.cancel = context.WithCancel(context.Background())
	m.launch = m.runFetcher
	m.alter = newAlterQueue(m)
	m.flushes = newFlushPool()
	m.session.changed = make(chan struct{}, 1)
	m.duty.left = make(chan struct{}, 1)
	if opt.Registerer != nil {
		if err := m.register(opt.Registerer); err != nil {
			return nil, fmt.Errorf("replica: %w", err)
		}
	}
	return m, nil
}

func (m *Manager) now() time.Time                                     { return m.opt.Now() }
func (m *Manager) brokerEpoch() int64                                 { return m.be.Load() }
func (m *Manager) image() *metadata.Image                             { return m.img.Load() }
func (m *Manager) brokers() partition.Brokers                         { return m.img.Load() }
func (m *Manager) sureToLead(id record.PartitionID, epoch int32) bool { return m.opt.Sure(id, epoch) }

// record is the record of a partition in the image acted on; nil if it is in none.
func (m *Manager) record(id record.PartitionID) *metadata.Partition {
	if img := m.image(); img != nil {
		return img.Partition(id)
	}
	return nil
}

func (m *Manager) find(id record.PartitionID) *Partition {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.parts[id]
}

// absent says why a partition is not hosted here: it is led elsewhere, or there is none.
func (m *Manager) absent(id record.PartitionID) (leader, epoch int32, err error) {
	if img := m.image(); img != nil {
		if rec := img.Partition(id); rec != nil {
			return rec.Leader, rec.LeaderEpoch, partition.ErrNotLeader
		}
	}
	return metadata.NoNode, record.NoEpoch, partition.ErrUnknownPartition
}

// all gives the hosted partitions, sorted by id so that whatever is listed has one order.
func (m *Manager) all() []*Partition {
	m.mu.RLock()
	parts := slices.Collect(maps.Values(m.parts))
	m.mu.RUnlock()
	slices.SortFunc(parts, func(a, b *Partition) int { return comparePartitions(a.id, b.id) })
	return parts
}

func (m *Manager) link(replica int32) *link {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.links[replica]
}

// replaceLink makes l the session of its follower and ends the one before.
func (m *Manager) replaceLink(l *link) {
	m.mu.Lock()
	old := m.links[l.replica]
	m.links[l.replica] = l
	m.mu.Unlock()
	if old != nil {
		old.close()
	}
}

// Ack counts a follower's positions that came between two fetches. What another process of it, or another fetch session
// than the present one, has to say is dropped: its log may have been another then.
func (m *Manager) Ack(a *partition.Ack) {
	image := m.image()
	if image == nil {
		return
	}
	if b := image.Broker(a.Replica); b != nil && a.BrokerEpoch < b.Epoch {
		return
	}
	l := m.link(a.Replica)
	if l == nil || l.id != a.Session || l.brokerEpoch != a.BrokerEpoch {
		return
	}
	now := m.now()
	l.seen.Store(int64(now.Sub(l.base)))
	for _, pos := range a.Positions {
		if p := m.find(pos.ID); p != nil {
			p.Ack(a.Replica, a.BrokerEpoch, pos, now)
		}
	}
}

// Ack counts one position.
func (p *Partition) Ack(replica int32, brokerEpoch int64, a partition.AckPosition, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leader != nil {
		p.apply(p.leader.OnAck(replica, brokerEpoch, a.LeaderEpoch, a.AckOffset, p.node.brokers(), p.log, now))
		p.attribute(replica)
	}
}

// follow makes this node fetch p from leader.
func (m *Manager) follow(p *Partition, leader int32) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return
	}
	f := m.fetchers[leader]
	if f == nil {
		f = newFetcher(m, leader)
		m.fetchers[leader] = f
		m.launch(f)
	}
	f.add(p) // under mu: an empty fetcher is taken for one that is needed no more
	m.mu.Unlock()
}

// flushed lets a follower's fetcher tell its leader how far p's copy counts now.
func (m *Manager) flushed(p *Partition, leader int32) {
	m.mu.RLock()
	f := m.fetchers[leader]
	m.mu.RUnlock()
	if f != nil {
		f.flushed(p)
	}
}

// runFetcher gives f its goroutine.
func (m *Manager) runFetcher(f *fetcher) {
	ctx, cancel := context.WithCancel(m.run)
	f.cancel = cancel
	m.tasks.Add(1)
	go func() {
		defer m.tasks.Done()
		f.run(ctx)
	}()
}

// unfollow stops the fetch of a partition from every leader but keep.
func (m *Manager) unfollow(id record.PartitionID, keep int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for leader, f := range m.fetchers {
		if leader != keep && f.remove(id) {
			f.cancel()
			delete(m.fetchers, leader)
		}
	}
}
