//go:build integration && linux

package loops

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/integration/harness"
)

const (
	goneWithin = 6 * time.Second // a node whose host answers no more
	// skipNetns, set to anything, lets the test of cut-off nodes be skipped where namespaces cannot be made.
	skipNetns = "SKIP_NETNS"
)

// TestACutOffNodeIsReplacedInTime lets every packet from and to a node vanish, by nft in the node's own network
// namespace. It needs root, ip and nft.
func TestACutOffNodeIsReplacedInTime(t *testing.T) {
	needNamespaces(t)
	rng := random(t)
	table := NewTable("round", "cut off", "node", "partitions led", "replaced in")
	defer table.Print(os.Stdout)
	took := map[string][]time.Duration{}
	net := newNetwork(t, 3)
	abs, err := filepath.Abs(*binary)
	require.NoError(t, err)
	c := start(t, 3, harness.Options{Binary: abs, Host: net.address, Command: net.exec})
	topic(t, c, "loop", 3)
	for round := range *rounds {
		for _, kind := range failoverKinds {
			inSync(t, c, "loop")
			f := armed(t, c, kind, rng.IntN(3))
			victim := f.victim
			began := time.Now()
			net.cut(t, victim.ID)
			f.await(t)
			d := time.Since(began)
			took[kind] = append(took[kind], d)
			table.Add(round, kind, victim.ID, len(f.led), d)
			require.LessOrEqual(t, d, goneWithin, "%s cut off", kind)
			f.close()
			net.heal(t, victim.ID)
			require.NoError(t, c.WaitReady(t.Context(), 30*time.Second))
		}
	}
	for _, kind := range failoverKinds {
		fmt.Printf("replaced, %s cut off: %s\n", kind, Spread(took[kind]))
	}
}

// needNamespaces fails where there can be none, and skips only when told to.
func needNamespaces(t *testing.T) {
	t.Helper()
	var missing error
	if os.Geteuid() != 0 {
		missing = errors.New("not root")
	}
	for _, tool := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing = errors.Join(missing, err)
		}
	}
	if missing == nil {
		return
	}
	why := fmt.Sprintf("NOT TESTED: nodes cut off by nft in network namespaces: %v", missing)
	if os.Getenv(skipNetns) != "" {
		t.Skip(why)
	}
	t.Fatalf("%s; set %s=1 to leave it out", why, skipNetns)
}

// network is a namespace for each node, and one with the bridge between them, where no firewall of this machine reaches.
type network struct {
	name  string // of this machine's link to it, and the beginning of the namespaces' names
	third int    // of the addresses 10.251.third.x
}

func newNetwork(t *testing.T, nodes int) *network {
	t.Helper()
	n := &network{name: fmt.Sprintf("cw%d", os.Getpid()%1000000), third: os.Getpid() % 250}
	t.Cleanup(func() {
		for id := 0; id <= nodes; id++ {
			_ = exec.Command("ip", "netns", "del", n.space(id)).Run() // its links go with it
		}
	})
	hub := n.space(0)
	run(t, "ip", "netns", "add", hub)
	run(t, "ip", "-n", hub, "link", "add", "hub", "type", "bridge")
	run(t, "ip", "-n", hub, "link", "set", "hub", "up")
	run(t, "ip", "link", "add", n.name, "type", "veth", "peer", "name", "here", "netns", hub)
	run(t, "ip", "addr", "add", n.address(254)+"/24", "dev", n.name)
	run(t, "ip", "link", "set", n.name, "up")
	run(t, "ip", "-n", hub, "link", "set", "here", "master", "hub", "up")
	for id := 1; id <= nodes; id++ {
		space, port := n.space(id), fmt.Sprintf("port%d", id)
		run(t, "ip", "netns", "add", space)
		run(t, "ip", "-n", hub, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space)
		run(t, "ip", "-n", hub, "link", "set", port, "master", "hub", "up")
		run(t, "ip", "-n", space, "addr", "add", n.address(id)+"/24", "dev", "eth0")
		run(t, "ip", "-n", space, "link", "set", "eth0", "up")
		run(t, "ip", "-n", space, "link", "set", "lo", "up")
	}
	return n
}

func (n *network) space(id int) string    { return fmt.Sprintf("%s-%d", n.name, id) }
func (n *network) address(id int) string  { return fmt.Sprintf("10.251.%d.%d", n.third, id) }
func (n *network) exec(node int) []string { return []string{"ip", "netns", "exec", n.space(node)} }

// cut drops every packet of a node but those to itself, silently.
func (n *network) cut(t *testing.T, id int) {
	t.Helper()
	run(t, "ip", "netns", "exec", n.space(id), "nft",
		"add table inet cut; add chain inet cut in { type filter hook input priority 0; policy drop; }; "+
			"add chain inet cut out { type filter hook output priority 0; policy drop; }; "+
			"add rule inet cut in iif lo accept; add rule inet cut out oif lo accept")
}

func (n *network) heal(t *testing.T, id int) {
	t.Helper()
	run(t, "ip", "netns", "exec", n.space(id), "nft", "delete table inet cut")
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, args, out)
}
