package metadata

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func nodes(racks ...string) *State {
	s := NewState()
	for i, rack := range racks {
		s.putBroker(&Broker{ID: int32(i + 1), Rack: rack})
	}
	s.Publish()
	return s
}

func TestPlacementWithoutRacks(t *testing.T) {
	got, err := Place(nodes("", "", "", "").Image(), 9, 3, 0)
	require.NoError(t, err)
	require.Equal(t, [][]int32{
		{1, 2, 3}, {2, 3, 4}, {3, 4, 1}, {4, 1, 2},
		{1, 3, 4}, {2, 4, 1}, {3, 1, 2}, {4, 2, 3},
		{1, 4, 2},
	}, got)
}

func TestPlacementErrorsNameBothNumbers(t *testing.T) {
	s := nodes("", "", "")
	_, err := Place(s.Image(), 1, 4, 0)
	require.ErrorIs(t, err, ErrInvalidReplication)
	require.ErrorContains(t, err, "replication factor 4 asked, 3 nodes are registered")
	_, err = Place(s.Image(), 1, 0, 0)
	require.ErrorIs(t, err, ErrInvalidReplication)
	_, err = Place(s.Image(), 0, 1, 0)
	require.ErrorIs(t, err, ErrInvalidPartitions)
	_, err = Place(s.Image(), MaxPartitions+1, 1, 0)
	require.ErrorIs(t, err, ErrInvalidPartitions)
	for id := range int32(3) {
		s.putBroker(&Broker{ID: id + 1, Fenced: id < 2, Draining: true})
	}
	s.Publish()
	_, err = Place(s.Image(), 1, 1, 0)
	require.ErrorIs(t, err, ErrInvalidReplication)
	require.ErrorContains(t, err, "all 3 nodes are fenced")
}

// TestPlacementIsEvenAndSpansRacks: any cluster, any start.
func TestPlacementIsEvenAndSpansRacks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 9).Draw(t, "nodes")
		racks := rapid.IntRange(0, 4).Draw(t, "racks")
		s := NewState()
		inRack := map[int32]string{}
		fenced := map[int32]bool{}
		for id := range int32(size) {
			b := &Broker{ID: id, Fenced: id > 0 && rapid.IntRange(0, 4).Draw(t, "fenced") == 0}
			if racks > 0 {
				b.Rack = fmt.Sprint(rapid.IntRange(1, racks).Draw(t, "rack"))
			}
			inRack[id], fenced[id] = b.Rack, b.Fenced
			s.putBroker(b)
		}
		s.Publish()
		factor := rapid.IntRange(1, size).Draw(t, "replicas")
		rounds := rapid.IntRange(1, 3).Draw(t, "rounds")
		var ready []int32
		for id := range int32(size) {
			if !fenced[id] {
				ready = append(ready, id)
			}
		}
		got, err := Place(s.Image(), rounds*len(ready), factor, rapid.Uint64().Draw(t, "start"))
		require.NoError(t, err)
		leads := map[int32]int{}
		for _, replicas := range got {
			leads[replicas[0]]++
			require.Len(t, replicas, factor)
			require.Len(t, slices.Compact(slices.Sorted(slices.Values(replicas))), factor, "a node twice in %v", replicas)
			live := replicas[:min(factor, len(ready))]
			used := map[string]bool{}
			for _, id := range live {
				require.False(t, fenced[id], "a fenced node before the others are used up")
				used[inRack[id]] = true
			}
			all := map[string]bool{}
			for _, id := range ready {
				all[inRack[id]] = true
			}
			if racks > 0 {
				require.Len(t, used, min(len(live), len(all)), "racks of %v", live)
			}
		}
		for _, id := range ready {
			require.Equal(t, rounds, leads[id], "leaders of node %d in %v", id, got)
		}
	})
}
