// Package harness runs real nodes for tests, fault tests and the demo: child processes of the cordwood binary on
// loopback, each with a directory of its own. Children end with their parent, whatever way it ends.
package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/template"
	"time"
)

// Options says how a Cluster is made.
type Options struct {
	Binary string // path of the cordwood binary
	Nodes  int    // number of nodes, ids from 1
	Dir    string // holds a directory for each node; made if it is not there
	// External lists the clients' ports by node; empty or too short means free ones.
	External []int
	// Settings are lines of configuration below top-level keys, such as "storage: { segment_bytes: 1MiB }". The key must
	// not be one that the harness writes itself (node, cluster, listeners, raft, gossip, http, dev_mode).
	Settings string
	// RaftSettings and ClusterSettings are extra "key: value" pairs of these sections, such as "session_timeout: 2s".
	RaftSettings, ClusterSettings []string
	// Edges leads what nodes say to each other over proxies that can cut, delay and lose it; nil leaves them alone. It needs
	// Linux.
	Edges *EdgeOptions
	// Host gives the address that a node binds and advertises; nil means 127.0.0.1 for all.
	Host func(node int) string
	// Command is put before a node's command line, such as "ip netns exec NAME"; it must replace itself by the node.
	Command func(node int) []string
	Stderr  io.Writer // a copy of every node's log, nil for none
	// Production leaves dev_mode out: no journal stands before the disk and records leave by sendfile, as for users.
	Production bool
	// Pprof serves /debug/pprof on the nodes' HTTP addresses.
	Pprof bool
}

// Cluster is a set of nodes on loopback.
type Cluster struct {
	Nodes []*Node
	Edges *Edges // nil without Options.Edges
	Dev   bool   // nodes run in dev_mode: power can be lost, disks can be given rules
}

var configTemplate = template.Must(template.New("config").Parse(`node: { id: {{.ID}}, data_dir: "{{.DataDir}}", boot_id_file: "{{.BootIDFile}}" }
cluster:
  name: harness
  join: [{{.Join}}]
{{range .ClusterSettings}}  {{.}}
{{end}}listeners:
  internal: { bind: "{{.Internal}}", advertise: "{{.InternalAdvertise}}" }
  external: { bind: "{{.External}}", advertise: "{{.External}}" }
raft:
  bind: "{{.Raft}}"
  advertise: "{{.RaftAdvertise}}"
{{range .RaftSettings}}  {{.}}
{{end}}gossip: { bind: "{{.Gossip}}", advertise: "{{.GossipAdvertise}}" }
http: { bind: "{{.HTTP}}", pprof: {{.Pprof}} }
dev_mode: {{not .Production}}
{{.Settings}}
`))

// New draws addresses, writes every node's configuration and starts nothing.
func New(opt Options) (*Cluster, error) {
	if opt.Nodes < 1 || opt.Nodes > 32 {
		return nil, fmt.Errorf("a cluster of %d nodes: want 1 to 32", opt.Nodes)
	}
	c := &Cluster{Dev: !opt.Production}
	ports, err := freePorts(opt.Nodes * 5)
	if err != nil {
		return nil, err
	}
	address := func(i, k int) string {
		host := "127.0.0.1"
		if opt.Host != nil {
			host = opt.Host(i + 1)
		}
		return fmt.Sprintf("%s:%d", host, ports[i*5+k])
	}
	for i := range opt.Nodes {
		n := &Node{ID: i + 1, Dir: filepath.Join(opt.Dir, fmt.Sprintf("n%d", i+1)), binary: opt.Binary, stderr: opt.Stderr,
			External: address(i, 0), Internal: address(i, 1), Raft: address(i, 2), Gossip: address(i, 3), HTTP: address(i, 4)}
		if opt.Command != nil {
			n.command = opt.Command(n.ID)
		}
		if i < len(opt.External) {
			n.External = fmt.Sprintf("127.0.0.1:%d", opt.External[i])
		}
		c.Nodes = append(c.Nodes, n)
	}
	if err := c.configureAll(opt); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// configureAll opens the roads to all nodes and writes their configurations.
func (c *Cluster) configureAll(opt Options) error {
	roads := map[string]string{} // by the address that they lead to
	if opt.Edges != nil {
		if _, err := os.Stat(sockets); err != nil {
			return fmt.Errorf("%w: %w", errNoSockets, err)
		}
		o := *opt.Edges
		if o.Source == nil {
			o.Source = c.source
		}
		c.Edges = NewEdges(o)
		for _, n := range c.Nodes {
			for _, address := range []string{n.Internal, n.Raft, n.Gossip} {
				road, err := c.Edges.Road(n.ID, address)
				if err != nil {
					return err
				}
				roads[address] = road
			}
		}
	}
	for _, n := range c.Nodes {
		if err := c.configure(n, opt, roads); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) configure(n *Node, opt Options, roads map[string]string) error {
	if err := os.MkdirAll(n.Dir, 0o755); err != nil {
		return err
	}
	told := func(address string) string {
		if road, ok := roads[address]; ok {
			return road
		}
		return address
	}
	var join []string
	for _, m := range c.Nodes {
		join = append(join, `"`+told(m.Gossip)+`"`)
	}
	var b bytes.Buffer
	err := configTemplate.Execute(&b, map[string]any{
		"ID": n.ID, "DataDir": n.DataDir(), "BootIDFile": n.BootIDFile(), "Join": strings.Join(join, ", "),
		"Internal": n.Internal, "InternalAdvertise": told(n.Internal), "External": n.External,
		"Raft": n.Raft, "RaftAdvertise": told(n.Raft), "Gossip": n.Gossip, "GossipAdvertise": told(n.Gossip),
		"HTTP": n.HTTP, "Settings": opt.Settings, "RaftSettings": opt.RaftSettings, "ClusterSettings": opt.ClusterSettings,
		"Production": opt.Production, "Pprof": opt.Pprof,
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(n.ConfigFile(), b.Bytes(), 0o644); err != nil {
		return err
	}
	return n.Reboot()
}

// Ports of nodes are drawn from here: below those that kernels give to whoever asks for any port, outgoing connections and
// our own proxies among them, which would take a port before its node does; and clear of those that the demo and configs/
// have.
const firstPort, lastPort = 21000, 29000

// freePorts draws ports that nobody listens on. Another process may take one before we do; starts fail loudly then.
func freePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for tries := 0; len(ports) < n; tries++ {
		if tries > 100*n {
			return nil, fmt.Errorf("no %d free ports between %d and %d", n, firstPort, lastPort)
		}
		if p := firstPort + rand.IntN(lastPort-firstPort); !slices.Contains(ports, p) && PortsFree(p) {
			ports = append(ports, p)
		}
	}
	return ports, nil
}

// PortsFree says whether all ports can be listened on, on loopback.
func PortsFree(ports ...int) bool {
	for _, p := range ports {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}

// Start starts the nodes that do not run.
func (c *Cluster) Start() error {
	for _, n := range c.Nodes {
		if n.Running() {
			continue
		}
		if err := n.Start(); err != nil {
			return err
		}
	}
	return nil
}

// WaitReady waits until every running node is ready, at most for the limit.
func (c *Cluster) WaitReady(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return c.each(func(n *Node) error {
		if !n.Running() {
			return nil
		}
		return n.WaitReady(ctx)
	})
}

// Kill kills the given nodes at once, all of them when none is given.
func (c *Cluster) Kill(nodes ...*Node) error {
	if len(nodes) == 0 {
		nodes = c.Nodes
	}
	return c.each(func(n *Node) error {
		if !slices.Contains(nodes, n) {
			return nil
		}
		return n.Kill()
	})
}

// each runs f for all nodes side by side and joins the errors.
func (c *Cluster) each(f func(*Node) error) error {
	errs := make([]error, len(c.Nodes))
	var wg sync.WaitGroup
	for i, n := range c.Nodes {
		wg.Go(func() { errs[i] = f(n) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Close kills what still runs and ends the roads between nodes. Directories stay: their maker removes them.
func (c *Cluster) Close() error {
	err := c.Kill()
	if c.Edges != nil {
		err = errors.Join(err, c.Edges.Close())
	}
	return err
}

// Answering lists the nodes that run and are not paused.
func (c *Cluster) Answering() []*Node {
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(n *Node) bool { return !n.Answers() })
}

// Bootstrap lists the clients' addresses, for seeds.
func (c *Cluster) Bootstrap() []string {
	var a []string
	for _, n := range c.Nodes {
		a = append(a, n.External)
	}
	return a
}

// Node gives a node by id, nil if there is none.
func (c *Cluster) Node(id int) *Node {
	if id < 1 || id > len(c.Nodes) {
		return nil
	}
	return c.Nodes[id-1]
}
