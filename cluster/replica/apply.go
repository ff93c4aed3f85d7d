package replica

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore"
	"cordwood/logstore/record"
)

// Apply acts on the difference that led to image. Deltas come in order, each from the image acted on before; several may
// be merged into one.
func (m *Manager) Apply(image *metadata.Image, delta metadata.Delta) error {
	old := m.img.Load()
	if old == nil {
		return ErrNotStarted
	}
	m.acting.Lock()
	defer m.acting.Unlock()
	m.img.Store(image)
	if delta.Full {
		return m.change(m.differing(old, image), image)
	}
	for _, id := range delta.Topics {
		m.reconfigure(id, image)
	}
	return m.change(delta.Partitions, image)
}

// change brings partitions to their records: what goes goes first, since a new topic may want an old one's directories.
func (m *Manager) change(ids []record.PartitionID, image *metadata.Image) error {
	var gone, stay []record.PartitionID
	for _, id := range ids {
		if image.Partition(id) == nil {
			gone = append(gone, id)
		} else {
			stay = append(stay, id)
		}
	}
	do := func(id record.PartitionID) error { return m.reconcile(id, image) }
	return errors.Join(m.work(gone, do), m.announce(stay, image), m.work(stay, do))
}

// announce writes down the replicas that are about to be made, a topic's by one write.
func (m *Manager) announce(ids []record.PartitionID, image *metadata.Image) error {
	fresh := make(map[record.TopicID][]record.PartitionID)
	for _, id := range ids {
		if m.find(id) == nil && image.Partition(id).IsReplica(m.opt.NodeID) {
			fresh[id.Topic] = append(fresh[id.Topic], id)
		}
	}
	for id, ids := range fresh {
		if len(ids) < 2 {
			continue // made known with its log
		}
		if err := m.opt.Dir.Host(image.TopicByID(id).Name, ids...); err != nil {
			return err
		}
	}
	return nil
}

// differing lists the partitions whose records are not the same in both images, and the hosted ones.
func (m *Manager) differing(old, image *metadata.Image) []record.PartitionID {
	var ids []record.PartitionID
	for t := range image.Topics() {
		for _, p := range t.Partitions {
			if old.Partition(p.ID) != p {
				ids = append(ids, p.ID)
			}
		}
		m.reconfigure(t.ID, image)
	}
	for _, p := range m.all() {
		if image.Partition(p.id) == nil {
			ids = append(ids, p.id)
		}
	}
	return ids
}

// work calls do for every id, several at a time, and joins the errors.
func (m *Manager) work(ids []record.PartitionID, do func(record.PartitionID) error) error {
	if len(ids) < 8 {
		var errs []error
		for _, id := range ids {
			errs = append(errs, do(id))
		}
		return errors.Join(errs...)
	}
	var (
		wait sync.WaitGroup
		mu   sync.Mutex
		errs []error
		next = make(chan record.PartitionID)
	)
	for range min(m.opt.Workers, len(ids)) {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for id := range next {
				if err := do(id); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		}()
	}
	for _, id := range ids {
		next <- id
	}
	close(next)
	wait.Wait()
	return errors.Join(errs...)
}

// reconfigure gives a topic's logs their present settings.
func (m *Manager) reconfigure(id record.TopicID, image *metadata.Image) {
	t := image.TopicByID(id)
	if t == nil {
		return
	}
	cfg, least := m.opt.Config(t), leastAcks(t)
	for _, rec := range t.Partitions {
		if p := m.find(rec.ID); p != nil {
			cfg.Disk = fromDisk(rec)
			p.log.SetConfig(cfg)
			p.minAcks.Store(least)
		}
	}
}

// reconcile brings one partition to its record. What its log refuses for now is tried again by time.
func (m *Manager) reconcile(id record.PartitionID, image *metadata.Image) error {
	err := m.settle(id, image)
	m.duty.outcome(id, err, m.now())
	return err
}

func (m *Manager) settle(id record.PartitionID, image *metadata.Image) error {
	rec := image.Partition(id)
	p := m.find(id)
	if p == nil {
		if rec == nil || !rec.IsReplica(m.opt.NodeID) {
			return nil
		}
		var err error
		if p, err = m.host(image.TopicByID(id.Topic), rec); p == nil {
			return err
		}
	}
	gone, err := p.View(rec)
	if gone {
		m.unfollow(id, metadata.NoNode)
		return errors.Join(err, m.drop(p))
	}
	err = errors.Join(err, m.mend(p, rec))
	m.steer(p)
	return err
}

// steer points the fetcher of a follower at its leader.
func (m *Manager) steer(p *Partition) {
	leader, follows := p.follows()
	if !follows {
		m.unfollow(p.id, metadata.NoNode)
		return
	}
	m.unfollow(p.id, leader)
	m.follow(p, leader)
}

// follows says whom this replica fetches from.
func (p *Partition) follows() (leader int32, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.role != partition.RoleFollow || p.failed != nil || p.quarantined != "" {
		return metadata.NoNode, false
	}
	return p.rec.Leader, true
}

// host makes a replica that was not here before. nil without an error: it waits for its damage to be known.
func (m *Manager) host(t *metadata.Topic, rec *metadata.Partition) (*Partition, error) {
	if w := m.duty.waiting(rec.ID); w != nil {
		if !damageApplied(rec, m.opt.NodeID) {
			return nil, nil
		}
		return m.repair(w, t, rec)
	}
	log, err := m.opt.Dir.Create(t.Name, rec.ID, m.config(t, rec))
	if err != nil {
		return nil, fmt.Errorf("create the log of %s-%d: %w", t.Name, rec.ID.Partition, err)
	}
	return m.adopt(t, rec.ID, log), nil
}

// config is how the log of a partition of t is kept.
func (m *Manager) config(t *metadata.Topic, rec *metadata.Partition) logstore.LogConfig {
	c := m.opt.Config(t)
	c.Disk = fromDisk(rec)
	return c
}

// adopt hosts a log.
func (m *Manager) adopt(t *metadata.Topic, id record.PartitionID, log *logstore.Log) *Partition {
	p := newPartition(m, id, t.Name, m.opt.NodeID, m.brokerEpoch(), log, partition.Options{LagMax: m.opt.LagMax, Retry: proposeRetry}, m.opt.Logger)
	p.minAcks.Store(leastAcks(t))
	m.mu.Lock()
	m.parts[id] = p
	m.mu.Unlock()
	return p
}

// drop deletes a replica that a record took away.
func (m *Manager) drop(p *Partition) error {
	var measured partition.AckLatency
	p.latency(&measured)
	m.mu.Lock()
	if m.parts[p.id] == p {
		delete(m.parts, p.id)
		m.goneLatency.Add(&measured)
	}
	m.mu.Unlock()
	m.session.forget(p.id)
	p.writing.Lock()
	defer p.writing.Unlock()
	m.opt.Logger.Info("replica deleted", "topic", p.topic, "partition", p.id.Partition, "end", p.log.EndOffset())
	if err := m.opt.Dir.Delete(p.log); err != nil {
		return fmt.Errorf("delete the log of %s-%d: %w", p.topic, p.id.Partition, err)
	}
	return nil
}

// damageApplied says that the record shows the damage of this replica: out of ISR and ELR, uncertified, not leading.
func damageApplied(rec *metadata.Partition, me int32) bool {
	r := rec.Member(me)
	return r != nil && r.Cert < 0 && rec.Leader != me && !slices.Contains(rec.ISR, me) && !slices.Contains(rec.ELR, me)
}
