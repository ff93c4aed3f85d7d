package replica

import (
	"context"
	"errors"
	"fmt"

	"cordwood/fsm/metadata"
	"cordwood/fsm/mutant"
	"cordwood/logstore"
	"cordwood/logstore/record"
)

// Registration is what this process's registration said, which everything else waits for.
type Registration struct {
	BrokerEpoch int64                 // the raft index of the registration
	Class       metadata.RestartClass // what the restart may have lost
}

// suspect is a log that was found damaged, or is missing although it was hosted (found is nil): it waits, untouched,
// until a record shows the damage.
type suspect struct {
	found     *logstore.Found
	judgement logstore.Judgement
}

// Start acts once on an image that has reached this process's registration; before it nothing touched data. Logs are
// opened in parallel and served as they finish. It returns when all are open, or with what could not be opened; a
// damaged replica is queued for the controller and opened when a record shows it.
func (m *Manager) Start(ctx context.Context, image *metadata.Image, reg Registration, found logstore.Inspection) error {
	if err := m.enter(image, reg); err != nil {
		return err
	}
	m.background(m.alter.run)
	m.background(m.dutyLoop)
	m.background(m.diskLoop)
	return m.openAll(ctx, image, reg, found)
}

// enter is the barrier: nothing may touch data before it.
func (m *Manager) enter(image *metadata.Image, reg Registration) error {
	if image == nil || reg.BrokerEpoch <= 0 || image.Index() < uint64(reg.BrokerEpoch) && !mutant.NoRegBarrier {
		return fmt.Errorf("%w: the image has not reached the registration at %d", ErrNotStarted, reg.BrokerEpoch)
	}
	if m.img.Load() != nil {
		return errors.New("replicas are started already")
	}
	if _, err := classOf(reg.Class); err != nil {
		return err
	}
	m.be.Store(reg.BrokerEpoch)
	m.img.Store(image)
	return nil
}

// openAll brings what was found on disk to the image.
func (m *Manager) openAll(ctx context.Context, image *metadata.Image, reg Registration, found logstore.Inspection) error {
	class, err := classOf(reg.Class)
	if err != nil {
		return err
	}
	class = sinceOpened(class, m.opt.Dir.Session())
	m.acting.Lock()
	defer m.acting.Unlock()
	missing := make(map[record.PartitionID]bool, len(found.MissingHosted))
	for _, id := range found.MissingHosted {
		missing[id] = true
	}
	var errs []error
	logs := make(map[record.PartitionID]*logstore.Found, len(found.Logs))
	for _, f := range found.Logs {
		logs[f.ID] = f
		if rec := image.Partition(f.ID); rec == nil || !rec.IsReplica(m.opt.NodeID) {
			errs = append(errs, m.strange(f, image))
		}
	}
	for id := range missing {
		if rec := image.Partition(id); rec == nil || !rec.IsReplica(m.opt.NodeID) {
			m.opt.Dir.Unhost(id) // the metadata has answered for it
		}
	}
	var mine []record.PartitionID
	for t := range image.Topics() {
		for _, rec := range t.Partitions {
			if rec.IsReplica(m.opt.NodeID) {
				mine = append(mine, rec.ID)
			}
		}
	}
	// What is damaged is known before anything is opened: its report goes out first.
	for _, id := range mine {
		m.judge(id, image, class, logs[id], missing[id])
	}
	return errors.Join(append(errs, m.work(mine, func(id record.PartitionID) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return m.begin(id, image, class, logs[id])
	}))...)
}

// background starts one of the manager's goroutines; Close waits for it.
func (m *Manager) background(do func(ctx context.Context)) {
	m.tasks.Add(1)
	go func() {
		defer m.tasks.Done()
		do(m.run)
	}()
}

// strange is a directory of no replica of this node. Only a topic that the image knows, without this node among its
// replicas, proves that it may go; any other stays, set aside.
func (m *Manager) strange(f *logstore.Found, image *metadata.Image) error {
	id := f.ID
	if image.Partition(id) != nil {
		m.opt.Logger.Info("deleting the log of a partition that this node holds no more", "partition", id.String())
		return f.Delete()
	}
	m.opt.Logger.Warn("a directory of a topic that the cluster does not know was set aside", "partition", id.String())
	return f.Park()
}

func disk(rec *metadata.Partition) bool { return rec.Durability == metadata.DurabilityDisk }

// judge finds damage. A replica that was never certified has nothing that could be missed.
func (m *Manager) judge(id record.PartitionID, image *metadata.Image, class logstore.RestartClass, f *logstore.Found, missing bool) {
	rec := image.Partition(id)
	s := &suspect{found: f}
	reason := "its directory is missing"
	switch {
	case f != nil:
		s.judgement = f.Judge(class, disk(rec))
		if reason = s.judgement.Reason; !s.judgement.Damaged {
			return
		}
	case !missing || rec.Member(m.opt.NodeID).Cert < 0:
		return
	}
	m.duty.wait(id, s)
	if damageApplied(rec, m.opt.NodeID) {
		return
	}
	m.opt.Logger.Error("a replica is damaged; it is repaired from its leader", "partition", id.String(), "reason", reason)
	m.damage(id)
}

// begin opens or makes one replica and brings it to its record.
func (m *Manager) begin(id record.PartitionID, image *metadata.Image, class logstore.RestartClass, f *logstore.Found) error {
	rec, t := image.Partition(id), image.TopicByID(id.Topic)
	if f != nil && m.duty.waiting(id) == nil {
		log, err := f.Open(m.config(t, rec), f.Judge(class, disk(rec)))
		if err != nil {
			return fmt.Errorf("open the log of %s-%d: %w", t.Name, id.Partition, err)
		}
		m.adopt(t, id, log)
	}
	return m.reconcile(id, image)
}

// repair opens a damaged replica after a record showed the damage: with what is good of it, or empty. Its leader gives
// it the rest.
func (m *Manager) repair(s *suspect, t *metadata.Topic, rec *metadata.Partition) (*Partition, error) {
	var log *logstore.Log
	var err error
	if s.found == nil {
		log, err = m.opt.Dir.Create(t.Name, rec.ID, m.config(t, rec))
	} else {
		log, err = s.found.Open(m.config(t, rec), s.judgement)
		if rotten(err) { // it rotted on since it was inspected
			log, err = m.openAgain(s, m.config(t, rec))
		}
		if rotten(err) && rec.Leader != metadata.NoNode {
			log, err = m.replace(s.found, t, rec)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open the damaged log of %s-%d: %w", t.Name, rec.ID.Partition, err)
	}
	if hw := log.HighWatermark(); hw > log.EndOffset() {
		log.SetHighWatermark(log.EndOffset())
	}
	log.Repaired()
	m.duty.settle(rec.ID)
	m.session.settle(rec.ID)
	m.opt.Logger.Info("repairing a damaged replica", "topic", t.Name, "partition", rec.ID.Partition, "end", log.EndOffset())
	return m.adopt(t, rec.ID, log), nil
}

func rotten(err error) bool {
	return errors.Is(err, record.ErrDamaged) || errors.Is(err, record.ErrCorruptBatch)
}

// openAgain opens a damaged log with what is good of it now. It is damaged whatever this look finds.
func (m *Manager) openAgain(s *suspect, cfg logstore.LogConfig) (*logstore.Log, error) {
	found, err := s.found.Again()
	if err != nil {
		return nil, err
	}
	j := found.Judge(logstore.LossyMedia, cfg.Disk)
	j.Damaged, j.Reason, j.Lossy = true, s.judgement.Reason, s.judgement.Lossy
	s.found, s.judgement = found, j
	return found.Open(cfg, j)
}

// replace gives up a log that cannot even be opened, and makes an empty one in its place.
func (m *Manager) replace(f *logstore.Found, t *metadata.Topic, rec *metadata.Partition) (*logstore.Log, error) {
	m.opt.Logger.Error("a damaged log cannot be opened; all of it comes from its leader", "topic", t.Name, "partition", rec.ID.Partition)
	if err := f.Delete(); err != nil {
		return nil, err
	}
	return m.opt.Dir.Create(t.Name, rec.ID, m.config(t, rec))
}

// OnDamage takes note that stored records of a log were found broken. The log directory calls it, whoever found it.
func (m *Manager) OnDamage(l *logstore.Log, reason string) {
	if p := m.find(l.ID()); p != nil && p.log == l {
		m.reportDamage(p, reason)
	}
}

// reportDamage queues a running replica whose log turned out damaged.
func (m *Manager) reportDamage(p *Partition, reason string) {
	p.slog.Error("the log is damaged; it is repaired from its leader", "reason", reason)
	m.damage(p.id)
}

// mend lets a running damaged replica start anew once a record shows its damage. With a leader it is filled again from
// there. Without one its bytes stay as they are, since they may be the only ones, until nobody is known to have
// everything: then what is sound of it takes part in the choice, as it would after a start. An error, errUnmended, is for
// trying again.
func (m *Manager) mend(p *Partition, rec *metadata.Partition) error {
	if rec == nil || !m.damageShown(p.id) {
		return nil
	}
	var err error
	switch {
	case rec.Leader != metadata.NoNode:
		err = p.resync()
	case m.image().Safety(rec) == metadata.OfflineUnsafe:
		err = p.salvage()
	default:
		return nil
	}
	if err != nil {
		p.slog.Error("a damaged log cannot be repaired", "err", err)
		return fmt.Errorf("%w: partition %s: %w", errUnmended, p.id, err)
	}
	m.session.settle(p.id)
	return nil
}

// errUnmended says that a damaged log could not be made ready for its repair.
var errUnmended = errors.New("damaged log is not repaired yet")

// resync empties a damaged log, so that its leader gives all of it again.
func (p *Partition) resync() error {
	p.writing.Lock()
	defer p.writing.Unlock()
	if err := p.log.Reset(0, record.NoEpoch); err != nil {
		return err
	}
	p.repaired()
	return nil
}

// salvage cuts a damaged log where its first broken batch stands.
func (p *Partition) salvage() error {
	p.writing.Lock()
	defer p.writing.Unlock()
	end := p.log.EndOffset()
	to := p.soundEnd()
	if err := p.log.Truncate(to); err != nil {
		return err
	}
	if p.log.HighWatermark() > to {
		p.log.SetHighWatermark(to)
	}
	p.node.truncated(end-to, true)
	p.slog.Warn("cut a damaged log to what is sound of it, since no replica is known to have everything", "from", end, "to", to)
	p.repaired()
	return nil
}

func (p *Partition) repaired() {
	p.log.Repaired()
	p.mu.Lock()
	p.failed = nil
	p.mu.Unlock()
}

// sinceOpened is the class that the logs are opened by. The controller tells what was lost since the registration before; one
// that was killed before it opened anything leaves its loss to be answered for by the next, which must not believe claims
// that were made before it.
func sinceOpened(class logstore.RestartClass, s logstore.Session) logstore.RestartClass {
	if n := len(s.Earlier); class == logstore.ProcessCrash && n > 0 && !s.Earlier[n-1].SameBoot {
		return logstore.LossyPower
	}
	return class
}

// classOf is the log's name for a restart class.
func classOf(c metadata.RestartClass) (logstore.RestartClass, error) {
	switch c {
	case metadata.RestartClean:
		return logstore.Clean, nil
	case metadata.RestartProcessCrash:
		return logstore.ProcessCrash, nil
	case metadata.RestartLossyPower:
		return logstore.LossyPower, nil
	case metadata.RestartLossyMedia:
		return logstore.LossyMedia, nil
	}
	return "", fmt.Errorf("restart class %q is unknown", c)
}
