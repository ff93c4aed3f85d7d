package metadata

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnotherNumberOfReplicasMovesAsLittleAsItCan(t *testing.T) {
	nodes := []NodeLoad{{1, "a", 3, true}, {2, "a", 3, true}, {3, "b", 3, true}, {4, "c", 9, true}, {5, "b", 0, false}}
	for _, c := range []struct {
		from, want [][]int32
		n          int
	}{
		{[][]int32{{1, 2}}, [][]int32{{1, 2}}, 2},
		{[][]int32{{1, 2}}, [][]int32{{1, 2, 3}}, 3},                    // rack b or c; 3 holds fewer
		{[][]int32{{1, 3}, {2, 3}}, [][]int32{{1, 3, 4}, {2, 3, 4}}, 3}, // a rack of its own counts more than replicas
		{[][]int32{{1, 2, 3}}, [][]int32{{1, 2}}, 2},
		{[][]int32{{1, 5, 3}}, [][]int32{{1, 3}}, 2}, // the one that is down goes first
		{[][]int32{{1, 2, 3, 4}}, [][]int32{{1}}, 1},
	} {
		got, err := Resize(c.from, c.n, nodes)
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%v to %d", c.from, c.n)
	}
	got, err := Resize([][]int32{{1}, {1}, {1}, {1}}, 2, []NodeLoad{{1, "", 4, true}, {2, "", 0, true}, {3, "", 0, true}})
	require.NoError(t, err)
	require.Equal(t, [][]int32{{1, 2}, {1, 3}, {1, 2}, {1, 3}}, got, "new replicas are spread")
	_, err = Resize([][]int32{{1}}, 5, nodes)
	require.ErrorIs(t, err, ErrInvalidReplication)
	require.ErrorContains(t, err, "5 asked, and 4 of 5 nodes are alive")
	_, err = Resize([][]int32{{1}}, 0, nodes)
	require.ErrorIs(t, err, ErrInvalidReplication)
}
