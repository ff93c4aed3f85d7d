package metadata

import "fmt"

// Step changes the state by one command of the log, without publishing an image: several commands of one batch share
// one. Index is the raft index of the command, higher than any before. It panics on a command type that it does not
// know, which the codec never makes.
func (s *State) Step(index uint64, cmd Command) Result {
	s.head.index = index
	if r, ok := s.requests.find(requestID(cmd)); ok {
		return r
	}
	r := s.judge(index, cmd)
	r.Index = index
	s.requests.put(requestID(cmd), r)
	return r
}

func (s *State) judge(index uint64, cmd Command) Result {
	if err := CheckLevel(s.head.level, commandKinds[cmd.Kind()].level); err != nil {
		return Result{Err: err}
	}
	switch c := cmd.(type) {
	case *SetCluster:
		return Result{Err: s.setCluster(c)}
	case *RegisterBroker:
		return s.registerBroker(index, c)
	case *FenceBrokers:
		return Result{Items: s.fenceBrokers(c)}
	case *UnfenceBroker:
		return Result{Err: s.unfenceBroker(c)}
	case *UnregisterBroker:
		return Result{Err: s.unregisterBroker(c)}
	case *CreateTopics:
		return Result{Items: each(c.Topics, s.createTopic)}
	case *DeleteTopics:
		return Result{Items: each(c.Topics, s.deleteTopic)}
	case *CreatePartitions:
		return Result{Items: each(c.Topics, s.createPartitions)}
	case *AlterTopicConfigs:
		return Result{Items: each(c.Topics, s.alterTopicConfigs)}
	case *AlterPartitions:
		return Result{Items: each(c.Changes, s.alterPartition)}
	case *Elect:
		return Result{Items: each(c.Elections, s.elect)}
	case *UnsafeElect:
		return Result{Items: each(c.Elections, s.unsafeElect)}
	case *Certify:
		return Result{Items: each(c.Items, s.certify)}
	case *ReplicaDamaged:
		return s.replicaDamaged(c)
	case *SetMinISR:
		return Result{Err: s.setMinISR(c)}
	case *AllocateProducerIDs:
		return s.allocateProducerIDs(c)
	case *SetLevel:
		return Result{Err: s.setLevel(c)}
	case *BeginElection:
		return Result{Items: each(c.Elections, s.beginElection)}
	case *ElectReported:
		return Result{Items: each(c.Elections, s.electReported)}
	case *Reassign:
		return Result{Items: each(c.Items, s.reassign)}
	case *EnterJoint:
		return Result{Items: each(c.Items, s.enterJoint)}
	case *FinishChange:
		return Result{Items: each(c.Items, s.finishChange)}
	}
	panic(fmt.Sprintf("metadata: command of unknown type %T", cmd))
}

// each judges the items of a command by themselves.
func each[T any](items []T, do func(T) error) []error {
	errs := make([]error, len(items))
	for i, it := range items {
		errs[i] = do(it)
	}
	return errs
}
