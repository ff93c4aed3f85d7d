package metadata

import (
	"cmp"
	"slices"
)

// Place assigns replicas to partitions. Leaders and followers are spread evenly, and over racks where every node names
// one. Nodes that may lead come first; fenced ones are taken, as last replicas, only where the others are too few. Start
// is any number, drawn by the proposer, that says where the pattern begins.
//
// Errors are ErrInvalidPartitions and ErrInvalidReplication, with the numbers asked and possible.
func Place(i *Image, partitions, replication int, start uint64) ([][]int32, error) {
	var ready, spare []*Broker
	for b := range i.Brokers() {
		if b.MayLead() {
			ready = append(ready, b)
		} else {
			spare = append(spare, b)
		}
	}
	registered := len(ready) + len(spare)
	switch {
	case partitions < 1 || partitions > MaxPartitions:
		return nil, refuse(ErrInvalidPartitions, "%d partitions asked, 1 to %d are allowed", partitions, MaxPartitions)
	case replication < 1:
		return nil, refuse(ErrInvalidReplication, "replication factor %d asked, at least 1 is needed", replication)
	case replication > registered:
		return nil, refuse(ErrInvalidReplication, "replication factor %d asked, %d nodes are registered", replication, registered)
	case len(ready) == 0:
		return nil, refuse(ErrInvalidReplication, "replication factor %d asked, and all %d nodes are fenced or shutting down", replication, registered)
	}
	live := newSpread(ready, start)
	rest := newSpread(spare, start)
	out := make([][]int32, partitions)
	for p := range out {
		out[p] = live.pick(p, min(replication, len(ready)), nil)
		if short := replication - len(out[p]); short > 0 {
			out[p] = append(out[p], rest.pick(p, short, live.racksOf(out[p]))...)
		}
	}
	return out, nil
}

// spread deals out replicas of partition after partition.
type spread struct {
	order  []*Broker // neighbours are in different racks as far as they can be
	start  uint64
	racked bool // every node names a rack
}

func newSpread(brokers []*Broker, start uint64) *spread {
	racked := !slices.ContainsFunc(brokers, func(b *Broker) bool { return b.Rack == "" })
	s := &spread{order: brokers, start: start, racked: racked}
	if racked {
		s.order = alternateRacks(brokers)
	}
	return s
}

// pick gives n replicas of partition p: the first walks round the nodes, and the others follow it at a distance that grows
// by one with every round, so that the followers of one node's partitions are spread too. Nodes of racks that are not used
// yet go first.
func (s *spread) pick(p, n int, used map[string]bool) []int32 {
	if n == 0 || len(s.order) == 0 {
		return nil
	}
	size := uint64(len(s.order))
	first := (s.start%size + uint64(p)) % size
	shift := s.start/size + uint64(p)/size
	candidates := []*Broker{s.order[first]}
	for j := range size - 1 {
		candidates = append(candidates, s.order[(first+1+(shift+j)%(size-1))%size])
	}
	if s.racked {
		candidates = newRacksFirst(candidates, used)
	}
	var out []int32
	for _, b := range candidates[:min(n, len(candidates))] {
		out = append(out, b.ID)
	}
	return out
}

// racksOf gives the racks of chosen nodes.
func (s *spread) racksOf(ids []int32) map[string]bool {
	used := map[string]bool{}
	for _, b := range s.order {
		if slices.Contains(ids, b.ID) {
			used[b.Rack] = true
		}
	}
	return used
}

// newRacksFirst keeps the order but lets one node of every rack go before a second one of any.
func newRacksFirst(brokers []*Broker, used map[string]bool) []*Broker {
	seen := map[string]int{}
	for r := range used {
		seen[r]++
	}
	type ranked struct {
		b     *Broker
		round int
	}
	order := make([]ranked, 0, len(brokers))
	for _, b := range brokers {
		order = append(order, ranked{b, seen[b.Rack]})
		seen[b.Rack]++
	}
	slices.SortStableFunc(order, func(a, b ranked) int { return cmp.Compare(a.round, b.round) })
	out := make([]*Broker, 0, len(brokers))
	for _, o := range order {
		out = append(out, o.b)
	}
	return out
}

// alternateRacks deals the nodes rack by rack: the first of each, then the second of each.
func alternateRacks(brokers []*Broker) []*Broker {
	byRack := slices.Clone(brokers)
	slices.SortStableFunc(byRack, func(a, b *Broker) int { return cmp.Or(cmp.Compare(a.Rack, b.Rack), cmp.Compare(a.ID, b.ID)) })
	return newRacksFirst(byRack, nil)
}
