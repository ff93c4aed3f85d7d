package containers

import (
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/integration/nemesis"
)

// listening is an agent that takes everything.
var listening = []string{"sh", "-c", `echo '{"version":1}'; while read -r line; do echo '{"version":1}'; done`}

func threeNodes(line []string) *Cluster {
	c := &Cluster{}
	c.edges = &edges{c: c, cut: map[[2]int]bool{}, lose: map[[2]int]int{}}
	for i, a := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
		c.nodes = append(c.nodes, &member{node: node{id: i + 1}, agent: &agent{line: line}, addresses: []string{a}})
	}
	return c
}

func TestACutIsARuleOfTheOneThatHears(t *testing.T) {
	c := threeNodes(listening)
	for _, n := range c.nodes {
		defer func() { require.NoError(t, n.agent.Close()) }()
	}
	e := c.Edges()
	require.NoError(t, e.Cut(1, 3))
	require.NoError(t, e.Cut(2, 3))
	require.NoError(t, e.Loss(1, 3, 0.3))
	require.Equal(t, wishes{Drop: []string{"10.0.0.1", "10.0.0.2"}, Lose: map[string]int{"10.0.0.1": 30}}, c.edges.wishes(3))
	require.Equal(t, wishes{Lose: map[string]int{}}, c.edges.wishes(1), "it hears the others")
	c.nodes[1].learn(&container{NetworkSettings: struct{ Networks map[string]network }{map[string]network{"a": {IPAddress: "10.0.0.9"}}}})
	require.NoError(t, c.edges.reapply())
	require.Equal(t, []string{"10.0.0.1", "10.0.0.9"}, c.edges.wishes(3).Drop, "the address of now")
	require.NoError(t, e.Mend(1, 3))
	require.NoError(t, e.Mend(2, 3))
	require.Equal(t, wishes{Lose: map[string]int{}}, c.edges.wishes(3))
	require.ErrorIs(t, e.Delay(1, 2, 1, 1), nemesis.ErrCannot)
	require.Error(t, e.Cut(1, 4))
}

func TestAnAgentThatEndsIsStartedAgain(t *testing.T) {
	a := &agent{line: []string{"sh", "-c", `echo '{"version":1}'; read -r line; echo '{"version":1}'`}}
	require.NoError(t, a.tell(wishes{}))
	require.ErrorContains(t, a.tell(wishes{}), "rules of the network")
	require.NoError(t, a.tell(wishes{}))
	require.NoError(t, a.Close())
	require.NoError(t, a.Close(), "twice")
}

func TestAnAgentThatCannotWorkSaysWhy(t *testing.T) {
	for script, says := range map[string]string{
		"echo no such subcommand >&2; exit 2":        "it ended: no such subcommand",
		`echo '{"version":2}'; cat`:                  "build the image anew",
		`echo '{"version":1,"error":"no nftables"}'`: "no nftables",
		`echo something else; cat`:                   "something else",
		`echo '{"version":1}'; read -r l; echo '{"version":1,"error":"no such rule"}'; cat`: "no such rule",
	} {
		a := &agent{line: []string{"sh", "-c", script}}
		require.ErrorContains(t, a.tell(wishes{}), says, script)
		require.NoError(t, a.Close())
	}
}
