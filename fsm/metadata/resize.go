package metadata

import (
	"cmp"
	"slices"
)

// NodeLoad is a node as Resize sees it.
type NodeLoad struct {
	ID       int32
	Rack     string
	Replicas int // that it holds already
	MayLead  bool
}

// Resize gives every partition another number of replicas and moves as little as it can. The order stays, hence who is
// preferred; nodes that are down go first, then the last ones. New replicas come on nodes of racks that the partition is
// not on yet, and among those on the ones with fewest replicas. Errors wrap ErrInvalidReplication.
func Resize(partitions [][]int32, replication int, nodes []NodeLoad) ([][]int32, error) {
	up := 0
	for _, n := range nodes {
		if n.MayLead {
			up++
		}
	}
	if replication < 1 {
		return nil, refuse(ErrInvalidReplication, "replication factor %d asked, at least 1 is needed", replication)
	}
	loads := slices.Clone(nodes)
	find := func(id int32) int { return slices.IndexFunc(loads, func(n NodeLoad) bool { return n.ID == id }) }
	mayLead := func(id int32) bool { i := find(id); return i >= 0 && loads[i].MayLead }
	var out [][]int32
	for _, present := range partitions {
		next := slices.Clone(present)
		for len(next) > replication {
			i := len(next) - 1
			for j := i; j >= 0; j-- {
				if !mayLead(next[j]) {
					i = j
					break
				}
			}
			next = slices.Delete(next, i, i+1)
		}
		for len(next) < replication {
			free := slices.DeleteFunc(slices.Clone(loads), func(n NodeLoad) bool { return !n.MayLead || slices.Contains(next, n.ID) })
			if len(free) == 0 {
				return nil, refuse(ErrInvalidReplication, "replication factor %d asked, and %d of %d nodes are alive", replication, up, len(nodes))
			}
			best := slices.MinFunc(free, func(a, b NodeLoad) int {
				return cmp.Or(cmp.Compare(sameRack(loads, next, a), sameRack(loads, next, b)), cmp.Compare(a.Replicas, b.Replicas), cmp.Compare(a.ID, b.ID))
			})
			next = append(next, best.ID)
			loads[find(best.ID)].Replicas++
		}
		out = append(out, next)
	}
	return out, nil
}

// sameRack counts the replicas that are in a node's rack already; nodes without a rack share none.
func sameRack(nodes []NodeLoad, replicas []int32, n NodeLoad) int {
	same := 0
	for _, o := range nodes {
		if n.Rack != "" && o.Rack == n.Rack && slices.Contains(replicas, o.ID) {
			same++
		}
	}
	return same
}
