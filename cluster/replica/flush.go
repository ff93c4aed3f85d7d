package replica

import (
	"sync"

	"cordwood/fsm/partition"
)

// flushers is how many logs a node brings to disk at the same time. Batches that arrive meanwhile share the next fsync
// of their log, so that more workers only help where the disk takes several at once.
const flushers = 8

// flushPool makes logs durable for partitions whose copies count from there. A partition is in it once, however often it
// asks, and one fsync of a log runs at a time. An idle pool has no goroutine.
type flushPool struct {
	launch func() // starts a worker; steps are driven by hand in tests

	// mu is a leaf lock.
	mu      sync.Mutex
	queue   []*Partition
	workers int
	closed  bool
	tasks   sync.WaitGroup
}

// flushState is where a partition stands in the pool. Under flushPool.mu.
type flushState struct {
	queued, running, again bool
}

func newFlushPool() *flushPool {
	f := &flushPool{}
	f.launch = func() {
		f.tasks.Add(1)
		go f.work()
	}
	return f
}

// flush asks for an fsync of everything that p's log holds by now, and returns at once.
func (m *Manager) flush(p *Partition) { m.flushes.add(p) }

func (f *flushPool) add(p *Partition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed || p.flushing.queued:
		return
	case p.flushing.running:
		p.flushing.again = true
		return
	}
	f.push(p)
}

// push queues p and sees to a worker. The caller holds mu.
func (f *flushPool) push(p *Partition) {
	p.flushing.queued = true
	f.queue = append(f.queue, p)
	if f.workers < flushers {
		f.workers++
		f.launch()
	}
}

// work flushes until nothing is queued.
func (f *flushPool) work() {
	defer f.tasks.Done()
	for f.step() {
	}
}

// step flushes the partition that waits longest; false, and the worker is gone, where none does.
func (f *flushPool) step() bool {
	f.mu.Lock()
	if len(f.queue) == 0 || f.closed {
		f.workers--
		f.mu.Unlock()
		return false
	}
	p := f.queue[0]
	f.queue[0] = nil
	f.queue = f.queue[1:]
	p.flushing.queued, p.flushing.running = false, true
	f.mu.Unlock()

	p.Flush()

	f.mu.Lock()
	defer f.mu.Unlock()
	p.flushing.running = false
	if p.flushing.again && !f.closed {
		p.flushing.again = false
		p.flushing.queued = true
		f.queue = append(f.queue, p) // behind the others; this worker goes on
	}
	return true
}

// close lets the fsyncs that run end and starts no more.
func (f *flushPool) close() {
	f.mu.Lock()
	f.closed = true
	f.queue = nil
	f.mu.Unlock()
	f.tasks.Wait()
}

// Flush brings the log to disk and does what waited for that: the leader counts itself, a follower tells its leader, a
// report is made.
func (p *Partition) Flush() {
	_, err := p.log.Flush()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.fail(err)
		return
	}
	if p.leader != nil {
		p.apply(p.leader.OnFlush(p.node.brokers(), p.log, p.node.now()))
		p.attribute(p.me)
	}
	if p.role == partition.RoleFollow {
		p.node.flushed(p, p.rec.Leader)
	}
	if p.owesReport {
		if r, ok := p.reportNow(); ok {
			p.owesReport = false
			p.node.report(r)
		} else if p.owesReport = p.mayReport(); p.owesReport {
			p.node.flush(p)
		}
	}
}
