package replica

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"cordwood/fsm/metadata"
	"cordwood/fsm/mutant"
	"cordwood/fsm/partition"
	"cordwood/logstore"
	"cordwood/logstore/record"
)

// Node is what all partitions of a node share. Its methods may be called with a partition held; they take leaf locks
// only and never block.
type node interface {
	now() time.Time
	brokers() partition.Brokers
	// sureToLead says that no controller can have made another node leader for this one's silence, or had when it last answered.
	sureToLead(id record.PartitionID, epoch int32) bool
	// propose, certify, finish and ready queue for the controller.
	propose(c *metadata.PartitionChange)
	certify(c metadata.Certification)
	finish(f metadata.Finish)
	ready(h metadata.Handover)
	// report queues what p has, for an election.
	report(r metadata.ReplicaReportItem)
	// flush asks for an fsync of p's log; Partition.Flush follows.
	flush(p *Partition)
	// flushed says that a follower's copy counts further.
	flushed(p *Partition, leader int32)
	// watch asks for Tick until the partition needs it no more.
	watch(p *Partition)
	// damaged queues a report: the log of p cannot be trusted.
	reportDamage(p *Partition, reason string)
	// resized counts a change of the ISR of a partition that is led here, by members.
	resized(by int)
	// left says that a partition stopped leading.
	left()
	// truncated counts records that were cut from this node's logs; flagged says after a flagged election.
	truncated(records int64, flagged bool)
}

// Partition is this node's replica of one partition. Its methods are plain steps: none starts a goroutine or waits.
//
// Locks: writing serialises whatever changes the log and is held over its I/O; mu holds the state and is never held over
// I/O. Order: writing, mu, then leaf locks (waiters, links, queues).
type Partition struct {
	id    record.PartitionID
	topic string
	node  node
	me    int32
	be    int64 // this process's broker epoch
	opt   partition.Options
	slog  *slog.Logger

	minAcks atomic.Int32 // the weakest acknowledgement that the topic accepts

	writing sync.Mutex
	log     *logstore.Log

	mu          sync.Mutex
	rec         *metadata.Partition // acted on; nil before the first
	role        partition.Role
	leader      *partition.Leader // while leading
	waits       partition.Waits[*ack]
	readers     []*reader    // parked fetches of consumers
	lows        []*reader    // whoever waits for the replicas' log starts
	links       []*linkPart  // followers that fetch from here
	quarantined string       // why; empty: not
	failed      error        // the log refuses work: directory offline or damage
	watched     bool         // in the node's tick set
	acks        *attribution // what is measured of acknowledgements; nil before the first batch
	raised      int64        // batches that wait for more than their producer asked for
	handover    *handover    // while leading: appends wait
	owesReport  bool         // once the log is on disk
	owesMarker  bool         // a change of rule waits for it
	unsettled   bool         // rec was not acted on to the end: the log refused for now
	fetch       fetchState
	flushing    flushState // under the node's flushPool.mu
}

// errClosed says that the node is going down.
var errClosed = fmt.Errorf("%w: the node is shutting down", partition.ErrNotLeader)

// fetchState is where a follower stands with its leader.
type fetchState struct {
	asked   partition.Asked
	seq     int64 // request that asked; an older one's answer is dropped
	valid   bool  // asked is outstanding
	told    int64 // log start told in it
	acked   int64 // position told with it or since
	retries int
}

func newPartition(n node, id record.PartitionID, topic string, me int32, be int64, log *logstore.Log, opt partition.Options, l *slog.Logger) *Partition {
	return &Partition{id: id, topic: topic, node: n, me: me, be: be, log: log, opt: opt, role: partition.RoleIdle,
		slog: l.With("topic", topic, "partition", id.Partition)}
}

// View acts on the partition's present record (nil: it is no more), by its difference to the one acted on before.
// gone says that this node is no replica any more. An error leaves the partition idle: its log failed for good, or
// refused for now, and then the next View begins anew.
func (p *Partition) View(rec *metadata.Partition) (gone bool, err error) {
	now := p.node.now()
	p.countFrom(rec)
	p.mu.Lock()
	old := p.rec
	if p.unsettled {
		old = nil
	}
	t := partition.Decide(old, rec, p.me, p.be, p.log)
	if t.NewEpoch {
		p.step(partition.RoleIdle) // at once, also before a write in flight has ended
	}
	p.mu.Unlock()

	// An office in which nothing was written left its epoch behind: no record of the next leader may be held against it.
	vacant := t.Role == partition.RoleFollow && p.log.LastEpoch() != partition.EpochBefore(p.log.EndOffset(), p.log)
	if !t.NewEpoch && !t.Loss && !t.TakeOffice && !vacant && t.Role != partition.RoleGone {
		return false, p.amend(old, rec, t.Role, now)
	}

	p.writing.Lock()
	defer p.writing.Unlock()
	if t.Loss && t.Role != partition.RoleGone {
		if err = p.log.SetLoss(t.LossEpoch, t.LossHW); err == nil {
			p.slog.Warn("a flagged election ended the claims of this replica", "lossEpoch", t.LossEpoch, "highWatermark", t.LossHW)
		}
	}
	leso := p.log.EndOffset()
	if err == nil && t.TakeOffice {
		err = p.enter(rec)
	}
	if err == nil && vacant {
		err = p.log.Truncate(p.log.EndOffset())
	}
	if mutant.TruncToHW && err == nil && t.Role == partition.RoleFollow && t.NewEpoch {
		err = p.log.Truncate(p.log.HighWatermark())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rec, p.role, p.unsettled = rec, t.Role, err != nil
	switch {
	case t.Role == partition.RoleGone:
		return true, nil
	case err != nil:
		p.role = partition.RoleIdle
		p.fail(err)
		return false, fmt.Errorf("partition %s in leader epoch %d: %w", p.id, rec.LeaderEpoch, err)
	case t.TakeOffice && p.failed == nil:
		p.lead(rec, leso, now)
	case t.NewEpoch:
		p.volunteer()
	}
	p.catchUp()
	return false, nil
}

// countFrom tells the log whether its copy counts from disk by rec: cuts are durable then, and what may follow them.
func (p *Partition) countFrom(rec *metadata.Partition) {
	if rec == nil {
		return
	}
	if c := p.log.Config(); c.Disk != fromDisk(rec) {
		c.Disk = fromDisk(rec)
		p.log.SetConfig(c)
		p.node.flush(p) // what was cut before, too
	}
}

// fromDisk says that copies count from disk, in a change to that too.
func fromDisk(rec *metadata.Partition) bool {
	return rec.Durability == metadata.DurabilityDisk || rec.Durability == metadata.DurabilityMemoryToDisk
}

// amend takes over a record that changes neither epoch nor role.
func (p *Partition) amend(old, rec *metadata.Partition, role partition.Role, now time.Time) error {
	p.mu.Lock()
	p.rec, p.role = rec, role
	if p.leader != nil {
		p.node.resized(len(rec.ISR) - len(old.ISR))
		p.apply(p.leader.OnView(rec, p.node.brokers(), p.log, now))
		p.attribute(partition.ByRecord)
	}
	p.catchUp()
	owes := p.owesMarker
	p.mu.Unlock()
	if owes {
		return p.mark(now)
	}
	return nil
}

// enter enters rec's epoch in the log, with its marker where one is needed. The caller holds writing.
func (p *Partition) enter(rec *metadata.Partition) error {
	if err := p.log.BecomeLeader(rec.LeaderEpoch); err != nil {
		return err
	}
	if !partition.NeedsMarker(rec, p.log) {
		return nil
	}
	_, err := p.log.AppendMarker(rec.LeaderEpoch)
	return err
}

// mark appends the marker that a change asks for in the midst of an office.
func (p *Partition) mark(now time.Time) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.mu.Lock()
	leader := p.leader
	p.mu.Unlock()
	if leader == nil {
		return nil
	}
	_, err := p.log.AppendMarker(leader.Epoch())
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil:
		p.fail(err)
		return fmt.Errorf("partition %s in leader epoch %d: %w", p.id, leader.Epoch(), err)
	case p.leader == leader:
		p.owesMarker = false
		p.apply(leader.OnMarker(p.node.brokers(), p.log, now))
		p.notifyFollowers()
	}
	return nil
}

// catchUp brings to disk what a follower has there in memory only, where copies count from disk. The caller holds mu.
func (p *Partition) catchUp() {
	if p.role == partition.RoleFollow && p.failed == nil && partition.Position(p.rec, p.log) < p.log.EndOffset() {
		p.node.flush(p)
	}
}

// lead takes office; the log ended at leso before its marker. The caller holds mu and writing.
func (p *Partition) lead(rec *metadata.Partition, leso int64, now time.Time) {
	l, e := partition.NewLeader(p.me, p.be, rec, leso, p.node.brokers(), p.log, p.opt, now)
	p.leader = l
	p.log.SetHighWatermark(l.HighWatermark())
	p.apply(e)
	p.notify()
	p.slog.Debug("leading", "epoch", rec.LeaderEpoch, "end", l.StartOffset(), "highWatermark", l.HighWatermark(), "isr", rec.ISR)
}

// step leaves the present role. The caller holds mu.
func (p *Partition) step(to partition.Role) {
	if p.leader != nil {
		p.leader = nil
		p.endHandover()
		p.node.left()
	}
	p.role = to
	p.fetch = fetchState{}
	p.owesReport, p.owesMarker = false, false
	if p.acks != nil {
		p.acks.forget()
	}
	p.waits.Fail(partition.ErrNotLeader, finish)
	p.notify()
	p.lowered()
}

// apply carries out a leader's effects. The caller holds mu.
func (p *Partition) apply(e partition.Effects) {
	if e.Advanced {
		p.log.SetHighWatermark(e.HighWatermark)
	}
	if p.waits.Len() > 0 {
		p.waits.Complete(p.leader, p.log, finish)
	}
	if e.Advanced {
		p.notify()
	}
	if e.Propose != nil {
		p.node.propose(e.Propose)
	}
	if e.Certify != nil {
		p.node.certify(*e.Certify)
	}
	if e.Finish != nil {
		p.node.finish(*e.Finish)
	}
	if e.Marker {
		p.owesMarker = true // appended by mark, under writing
	}
	if e.Flush {
		p.node.flush(p)
	}
	for _, id := range e.Anew {
		p.askAnew(id)
	}
	p.tellReady()
	if !p.watched && p.leader.Ticking(p.log) {
		p.watched = true
		p.node.watch(p)
	}
}

// notify tells parked fetches that something changed. The caller holds mu.
func (p *Partition) notify() {
	for _, r := range p.readers {
		r.signal()
	}
	p.notifyFollowers()
}

// askAnew makes a follower that waits here say where it stands. The caller holds mu.
func (p *Partition) askAnew(replica int32) {
	for _, l := range p.links {
		if l.link.replica == replica {
			l.askAnew()
		}
	}
}

// notifyFollowers tells those who may read past the high watermark. The caller holds mu.
func (p *Partition) notifyFollowers() {
	for _, l := range p.links {
		l.notify()
	}
}

// Tick does what only time decides. It says whether the partition needs it again.
func (p *Partition) Tick() bool {
	now := p.node.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leader == nil {
		p.watched = false
		return false
	}
	p.apply(p.leader.Tick(p.node.brokers(), p.log, now))
	p.watched = p.leader.Ticking(p.log)
	return p.watched
}

// fail takes note of an error of the log. The caller holds mu.
func (p *Partition) fail(err error) {
	if errors.Is(err, record.ErrDirFull) || errors.Is(err, record.ErrClosed) {
		return // passes, or the node is going down
	}
	p.failed = err
	p.step(partition.RoleIdle)
	if errors.Is(err, record.ErrDamaged) || errors.Is(err, record.ErrCorruptBatch) || errors.Is(err, record.ErrShortBatch) {
		p.node.reportDamage(p, err.Error())
	}
}

// leads gives the leader state where this node leads in the asked epoch (negative: any). The caller holds mu.
func (p *Partition) leads(epoch int32) (*partition.Leader, error) {
	switch {
	case p.failed != nil:
		return nil, p.failed
	case p.leader == nil:
		return nil, partition.ErrNotLeader
	case epoch >= 0:
		if err := partition.CheckEpoch(p.leader.Epoch(), epoch); err != nil {
			return nil, err
		}
	}
	return p.leader, nil
}

// hint is who leads by the newest record, for answers that refuse. The caller holds mu.
func (p *Partition) hint() (leader, epoch int32) {
	if p.rec == nil {
		return metadata.NoNode, record.NoEpoch
	}
	return p.rec.Leader, p.rec.LeaderEpoch
}
