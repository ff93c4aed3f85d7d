package containers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"cordwood/integration/nemesis"
)

// Options says which cluster is brought up.
type Options struct {
	File    string        // the compose file
	Dir     string        // an empty directory for what the run writes; removed when the process dies
	Session time.Duration // after how long a silent node is fenced
	Room    int64         // bytes that each node's volume has, in memory
	Reap    []string      // a command line of ours that calls Reap with its two last arguments
}

// Cluster are the nodes of a compose file, in a project of their own. Methods may be called from any goroutine, those for one
// node one after another.
type Cluster struct {
	d       *docker
	opt     Options
	layout  *layout
	project string
	nodes   []*member
	edges   *edges
	whole   nemesis.Whole
	reaper  *reaper // nil: nothing was made
	cleared []string
}

// member is a node of a Cluster.
type member struct {
	node
	agent  *agent
	wish   sync.Mutex // orders what its agent is told
	cid    string     // of its container
	helper string     // container
	root   string     // of its volume, a directory of this machine; empty: out of reach
	joined []joined

	mu        sync.Mutex // guards all below
	addresses []string
	down      bool
	paused    bool
}

// New reads the file and asks the engine; nothing is made. An error wraps ErrSetup or ErrEngine.
func New(ctx context.Context, opt Options) (*Cluster, error) {
	if _, err := os.Stat(opt.File); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSetup, err)
	}
	d, err := newDocker(ctx)
	if err != nil {
		return nil, err
	}
	c := &Cluster{d: d, opt: opt, project: fmt.Sprintf("cordwood-torture-%d", os.Getpid())}
	c.edges = &edges{c: c, cut: map[[2]int]bool{}, lose: map[[2]int]int{}}
	if err := c.read(ctx); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrSetup, opt.File, err)
	}
	if c.cleared, err = d.sweepDead(ctx); err != nil {
		return nil, fmt.Errorf("remove what a killed run left: %w", err)
	}
	return c, nil
}

// Cleared names the projects of killed runs that New removed.
func (c *Cluster) Cleared() []string { return c.cleared }

func (c *Cluster) read(ctx context.Context) error {
	out, err := c.d.composed(ctx, callWithin, c.opt.File, c.project, "config")
	if err != nil {
		return err
	}
	if c.layout, err = readLayout([]byte(out)); err != nil {
		return err
	}
	images := map[string]image{}
	for _, name := range c.layout.images() {
		out, err := c.d.run(ctx, "image", "inspect", name)
		if err != nil {
			continue // findNodes says so where it is a node's
		}
		if images[name], err = decodeImage([]byte(out)); err != nil {
			return err
		}
	}
	return c.layout.findNodes(images)
}

// Bootstrap gives the addresses for clients.
func (c *Cluster) Bootstrap() (out []string) {
	for _, n := range c.nodes {
		out = append(out, n.at())
	}
	return out
}

func (n *member) at() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(n.host)) }

// Size is the number of nodes.
func (c *Cluster) Size() int { return len(c.layout.nodes) }

func (c *Cluster) node(id int) *member {
	for _, n := range c.nodes {
		if n.id == id {
			return n
		}
	}
	return nil
}

const upWithin = 50 * time.Second

// Up brings all up, and returns when every node serves.
func (c *Cluster) Up(ctx context.Context) error {
	ports, err := freePorts(len(c.layout.nodes))
	if err != nil {
		return err
	}
	for i := range c.layout.nodes {
		c.layout.nodes[i].host = ports[i]
	}
	text, err := c.layout.generate(generated{
		project: c.project, owner: ourselves().String(), room: c.opt.Room,
		settings: map[string]string{
			"dev_mode": "true", "cluster.session_timeout": c.opt.Session.String(), "storage.segment_bytes": "1MiB", "storage.disk_stop": diskStop,
			"storage.reserve_file": reserveFile, "log.format": "json", "log.level": "info",
		},
	})
	if err != nil {
		return err
	}
	file := filepath.Join(c.opt.Dir, "compose.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	if c.reaper, err = startReaper(c.opt.Reap, c.project, c.opt.Dir); err != nil {
		return err
	}
	if _, err := c.d.composed(ctx, upWithin, file, c.project, "up", "-d"); err != nil {
		return fmt.Errorf("bring the cluster up: %w", err)
	}
	if err := c.find(ctx); err != nil {
		return err
	}
	for _, n := range c.nodes {
		if err := c.WaitReady(ctx, n.id); err != nil {
			return err
		}
	}
	return nil
}

// Bounds of a node's small volume.
const (
	diskStop    = "16MiB"
	reserveFile = "8MiB"
)

// find learns which containers there are, their addresses and their volumes.
func (c *Cluster) find(ctx context.Context) error {
	out, err := c.d.run(ctx, "ps", "-aq", "--no-trunc", "--filter", "label="+projectLabel+"="+c.project)
	if err != nil {
		return err
	}
	text, err := c.d.run(ctx, append([]string{"inspect"}, lines(out)...)...)
	if err != nil {
		return err
	}
	all, err := decodeContainers([]byte(text))
	if err != nil {
		return err
	}
	by := map[string]*container{}
	for i := range all {
		by[all[i].Config.Labels[serviceLabel]] = &all[i]
	}
	for _, n := range c.layout.nodes {
		helper, own := by[n.service], by[n.service+nodeSuffix]
		if helper == nil || own == nil {
			return fmt.Errorf("service %s has no container", n.service)
		}
		m := &member{node: n, cid: own.ID, helper: helper.ID}
		m.agent = &agent{line: append([]string{"docker", "exec", "-i", "-u", "0:0", helper.ID}, append(n.program, "torture", "agent")...)}
		m.learn(helper)
		for _, name := range helper.networks() {
			m.joined = append(m.joined, joined{name, helper.NetworkSettings.Networks[name].Aliases})
		}
		if m.root, err = c.root(ctx, helper.volume(n.target)); err != nil {
			return err
		}
		c.nodes = append(c.nodes, m)
	}
	return nil
}

func (n *member) learn(helper *container) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addresses = helper.addresses()
}

func (n *member) addressesNow() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addresses
}

// root is where a volume is on this machine; empty: we may not read it, or it is not of this machine.
func (c *Cluster) root(ctx context.Context, volume string) (string, error) {
	if volume == "" {
		return "", errors.New("a node's volume is not mounted")
	}
	out, err := c.d.run(ctx, "volume", "inspect", "-f", "{{.Mountpoint}}", volume)
	if err != nil {
		return "", err
	}
	dir := strings.TrimSpace(out)
	if !writable(filepath.Join(dir, bootName)) { // its helper has written it
		return "", nil
	}
	return dir, nil
}

func writable(name string) bool {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// closeWithin bounds the end of all.
const closeWithin = 3 * time.Minute

// Close removes all that Up made, whatever state it is in.
func (c *Cluster) Close() error {
	if c.reaper == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.agent.Close())
	}
	err := c.d.clear(ctx, c.project, 1)
	errs = append(errs, err, c.reaper.end(err == nil))
	c.reaper = nil
	return errors.Join(errs...)
}

// freePorts gives ports of loopback that nobody has now.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all at the end, so that no two are the same
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
