package metadata

import (
	"fmt"
	"slices"
	"strings"

	"cordwood/logstore/record"
)

// rememberedIncarnations bounds Broker.Earlier.
const rememberedIncarnations = 32

// checkEpoch refuses what a process says that is not the registered one.
func (s *State) checkEpoch(b BrokerEpoch) error {
	have := s.head.Broker(b.ID)
	if have == nil {
		return refuse(ErrBrokerNotRegistered, "node %d", b.ID)
	}
	if have.Epoch != b.Epoch {
		return refuse(ErrStaleBrokerEpoch, "node %d has broker epoch %d, %d was given", b.ID, have.Epoch, b.Epoch)
	}
	return nil
}

// registerBroker hands out a broker epoch, decides what the restart may have lost, and fences the old session: the node
// starts fenced, out of every ISR, and out of the ELR where the loss counts.
func (s *State) registerBroker(index uint64, c *RegisterBroker) Result {
	old := s.head.Broker(c.Broker.ID)
	if old != nil && old.Incarnation == c.Broker.Incarnation {
		return Result{Epoch: old.Epoch, Class: old.Class} // a copy of the registration that is in force
	}
	if err := s.head.CheckRegistration(c); err != nil {
		return Result{Err: err}
	}
	b := c.Broker
	b.Epoch = int64(index)
	b.Class = classify(old, c)
	b.Fenced, b.Draining = true, false
	b.LossMedia, b.LossPower = 0, 0
	b.Earlier = earlierOf(old, c)
	if old != nil {
		b.LossMedia, b.LossPower = old.LossMedia, old.LossPower
	}
	switch b.Class {
	case RestartLossyMedia:
		b.LossMedia, b.LossPower = b.Epoch, b.Epoch
	case RestartLossyPower:
		b.LossPower = b.Epoch
	}
	awaited := s.awaited([]int32{b.ID})
	s.putBroker(&b)
	s.brokerEvent(EventBrokerRegistered, b.ID, "broker epoch %d, restart class %s, version %s", b.Epoch, b.Class, b.Version)
	s.withdraw([]int32{b.ID}, func(p *Partition, id int32) bool { return id == b.ID && lossCounts(p.Durability, b.Class) })
	s.tellAwaited(awaited)
	return Result{Epoch: b.Epoch, Class: b.Class}
}

// CheckRegistration says why a registration would be refused, nil if it would not. A controller asks before it proposes,
// so that a node that tries again and again does not fill the log.
func (i *Image) CheckRegistration(c *RegisterBroker) error {
	b, old := &c.Broker, i.Broker(c.Broker.ID)
	noCluster := i.clusterID == ""
	incomplete := b.ID < 0 || b.Incarnation == "" || b.DirectoryID == ""
	wrongLevel := i.level < b.MinLevel || i.level > b.MaxLevel
	late := old != nil && slices.Contains(old.Earlier, b.Incarnation)
	copied := old != nil && old.Incarnation == b.Incarnation
	secondProcess := old != nil && old.MayLead() && old.DirectoryID != b.DirectoryID
	switch {
	case copied:
		return nil
	case noCluster:
		return refuse(ErrInvalidRequest, "the cluster has no id yet")
	case incomplete:
		return refuse(ErrInvalidRequest, "a registration needs a node id from 0, an incarnation and a directory id")
	case wrongLevel:
		return refuse(ErrLevel, "node %d (version %s) knows metadata levels %d to %d, the cluster is at level %d", b.ID, b.Version, b.MinLevel, b.MaxLevel, i.level)
	case late:
		return refuse(ErrLateIncarnation, "a newer process of node %d has registered with broker epoch %d", b.ID, old.Epoch)
	case secondProcess:
		return refuse(ErrDuplicateBroker, "node %d is alive with data directory %s; %s may take its id when that process is gone", b.ID, old.DirectoryID, b.DirectoryID)
	}
	return nil
}

// classify decides what a restart may have lost. known: the controller's last incarnation of this node is one that the
// data directory remembers, so the directory is the one that this incarnation wrote to.
func classify(old *Broker, c *RegisterBroker) RestartClass {
	var last *EarlierIncarnation
	if old != nil && old.DirectoryID == c.Broker.DirectoryID {
		for i := range c.Earlier {
			if c.Earlier[i].ID == old.Incarnation {
				last = &c.Earlier[i]
			}
		}
	}
	known := last != nil
	switch {
	case !known || c.Mismatch:
		return RestartLossyMedia
	case c.Clean:
		return RestartClean
	case c.BootOK && last.SameBoot:
		return RestartProcessCrash
	}
	return RestartLossyPower
}

// lossCounts says whether a restart of this class takes away trust under this durability.
func lossCounts(d Durability, c RestartClass) bool {
	if d == DurabilityDisk {
		return c == RestartLossyMedia
	}
	return c == RestartLossyMedia || c == RestartLossyPower
}

// earlierOf lists the incarnations whose registrations come too late from now on, newest first.
func earlierOf(old *Broker, c *RegisterBroker) []string {
	var ids []string
	add := func(id string) {
		if id != "" && id != c.Broker.Incarnation && len(ids) < rememberedIncarnations && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if old != nil {
		add(old.Incarnation)
	}
	for _, e := range c.Earlier {
		add(e.ID)
	}
	if old != nil {
		for _, id := range old.Earlier {
			add(id)
		}
	}
	return ids
}

// fenceBrokers takes brokers out of every leadership and ISR, all their partitions in one command.
func (s *State) fenceBrokers(c *FenceBrokers) []error {
	named := make([]int32, len(c.Brokers))
	for i, be := range c.Brokers {
		named[i] = be.ID
	}
	awaited := s.awaited(named)
	var gone []int32
	errs := each(c.Brokers, func(be BrokerEpoch) error {
		if err := s.checkEpoch(be); err != nil {
			return err
		}
		b := *s.head.Broker(be.ID)
		if c.Draining && !b.Draining {
			b.Draining = true
			s.brokerEvent(EventBrokerDraining, b.ID, "broker epoch %d: %s", b.Epoch, c.Reason)
			s.putBroker(&b)
		}
		if !c.Draining && !b.Fenced {
			b.Fenced = true
			s.brokerEvent(EventBrokerFenced, b.ID, "broker epoch %d: %s", b.Epoch, c.Reason)
			s.putBroker(&b)
		}
		gone = append(gone, b.ID)
		return nil
	})
	s.withdraw(gone, nothingLost)
	s.tellAwaited(awaited)
	return errs
}

// unfenceBroker lets a broker lead, and elects it where nobody leads and it is safe.
func (s *State) unfenceBroker(c *UnfenceBroker) error {
	if err := s.checkEpoch(c.Broker); err != nil {
		return err
	}
	b := *s.head.Broker(c.Broker.ID)
	if b.Fenced {
		b.Fenced = false
		s.brokerEvent(EventBrokerUnfenced, b.ID, "broker epoch %d", b.Epoch)
		s.putBroker(&b)
	}
	var ids []record.PartitionID
	for p := range s.head.Leaderless() {
		if p.IsReplica(b.ID) {
			ids = append(ids, p.ID)
		}
	}
	for _, id := range ids {
		old := s.head.Partition(id)
		next := old.clone()
		s.electSafe(next)
		s.commit(old, next, nobodyLost, false)
	}
	return nil
}

func (s *State) unregisterBroker(c *UnregisterBroker) error {
	b := s.head.Broker(c.ID)
	if b == nil {
		return refuse(ErrBrokerNotRegistered, "node %d", c.ID)
	}
	if b.Alive() {
		return refuse(ErrInvalidRequest, "node %d is alive: stop it first", c.ID)
	}
	if held := s.head.hosted(c.ID); len(held) > 0 {
		return refuse(ErrHoldsReplicas, "node %d holds %d: %s", c.ID, len(held), s.namePartitions(held))
	}
	s.head.brokers.Delete(c.ID)
	s.pending.brokers[c.ID] = struct{}{}
	s.brokerEvent(EventBrokerUnregistered, c.ID, "broker epoch %d", b.Epoch)
	return nil
}

// namePartitions writes partitions as people name them, the first ones of many.
func (s *State) namePartitions(ids []record.PartitionID) string {
	const most = 20
	var names []string
	for _, id := range ids[:min(len(ids), most)] {
		names = append(names, fmt.Sprintf("%s-%d", s.head.TopicByID(id.Topic).Name, id.Partition))
	}
	slices.Sort(names)
	out := strings.Join(names, ", ")
	if len(ids) > most {
		out += fmt.Sprintf(" and %d more", len(ids)-most)
	}
	return out
}
