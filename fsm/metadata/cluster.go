package metadata

import "math"

// MaxProducerIDBlock is the most producer ids that one AllocateProducerIDs may ask for.
const MaxProducerIDBlock = 1 << 20

func (s *State) setCluster(c *SetCluster) error {
	switch {
	case c.ClusterID == "":
		return refuse(ErrInvalidRequest, "the cluster id is empty")
	case s.head.clusterID == c.ClusterID:
		return nil // a copy of the first command
	case s.head.clusterID != "":
		return refuse(ErrInvalidRequest, "this cluster has the id %s already", s.head.clusterID)
	case c.Level < MinLevel || c.Level > LatestLevel:
		return refuse(ErrLevel, "level %d asked, levels %d to %d are known", c.Level, MinLevel, LatestLevel)
	}
	s.head.clusterID = c.ClusterID
	s.head.level = c.Level
	return nil
}

func (s *State) setLevel(c *SetLevel) error {
	switch {
	case c.Level == s.head.level:
		return nil
	case c.Level < s.head.level:
		return refuse(ErrLevel, "level %d asked, but level %d is final and a level never falls", c.Level, s.head.level)
	case c.Level > LatestLevel:
		return refuse(ErrLevel, "level %d asked, the controller knows levels up to %d", c.Level, LatestLevel)
	}
	for b := range s.head.Brokers() {
		if c.Level < b.MinLevel || c.Level > b.MaxLevel {
			return refuse(ErrLevel, "node %d (version %s) knows levels %d to %d, level %d was asked", b.ID, b.Version, b.MinLevel, b.MaxLevel, c.Level)
		}
	}
	s.head.level = c.Level
	s.brokerEvent(EventLevel, NoNode, "metadata level %d is final", c.Level)
	return nil
}

func (s *State) allocateProducerIDs(c *AllocateProducerIDs) Result {
	if err := s.checkEpoch(c.Broker); err != nil {
		return Result{Err: err}
	}
	if c.Count < 1 || c.Count > MaxProducerIDBlock {
		return Result{Err: refuse(ErrInvalidRequest, "a block of %d producer ids asked, 1 to %d are allowed", c.Count, MaxProducerIDBlock)}
	}
	if s.head.nextPID > math.MaxInt64-int64(c.Count) {
		return Result{Err: refuse(ErrInvalidRequest, "no producer ids are left")}
	}
	first := s.head.nextPID
	s.head.nextPID += int64(c.Count)
	return Result{First: first}
}
