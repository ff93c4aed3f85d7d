// Package membership joins the nodes of a cluster by gossip (hashicorp/memberlist). It shows where nodes can be asked
// and says quickly that one may be gone. It decides nothing: who leads and who is fenced is raft's and the controller's.
package membership

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	maxEvents      = 256             // waiting to be taken
	rejoinEvery    = 2 * time.Second // while a place of the join list is empty
	rejoinFirst    = 100 * time.Millisecond
	resolveWithin  = 2 * time.Second
	leaveWithin    = 2 * time.Second
	reclaimAfter   = time.Millisecond // a dead node's name may come back with another address
	lookAgainEvery = 5 * time.Second
	youngFor       = time.Minute // after start every place is called again and again: others may refuse this node still
)

// State is what gossip thinks of a node.
type State string

// The states of a member.
const (
	Alive State = "alive"
	Dead  State = "dead" // declared dead: it answers nobody
	Left  State = "left" // it said good-bye
)

// Member is a node as gossip shows it.
type Member struct {
	NodeID        int32
	DirectoryID   string
	ClusterID     string // empty: none yet
	RaftAddress   string // name and port
	GossipAddress string // as it stands in cluster.join
	State         State
	Since         time.Time // of the state
}

// Event says that a member changed: its new form.
type Event struct{ Member Member }

// Options configure a Membership.
type Options struct {
	NodeID      int32
	DirectoryID string
	ClusterID   string // empty: none yet
	ClusterName string // gossip of another name is not heard
	Bind        string // host:port, TCP and UDP
	Advertise   string // name:port; the name is resolved at start and before each rejoin
	RaftAddress string // told to others
	Join        []string
	SecretKey   []byte // 16, 24 or 32 bytes; nil: gossip is not encrypted

	Registerer prometheus.Registerer // nil: no metrics are registered
	Logger     *slog.Logger          // nil: discards
	// Resolve looks a host name up; nil is net.DefaultResolver.
	Resolve func(ctx context.Context, host string) ([]net.IP, error)
}

// Membership is this node's part in gossip. All methods are safe for concurrent use.
type Membership struct {
	opt     Options
	log     *slog.Logger
	host    string // of Advertise
	port    int
	events  chan Event
	metrics *metrics

	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup

	mu   sync.Mutex // guards list and ip; held while memberlist is made and ended, never by its callbacks
	list *memberlist.Memberlist
	ip   net.IP // that list advertises

	table table
}

// New checks the options and gives a Membership that has not started.
func New(opt Options) (*Membership, error) {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.Resolve == nil {
		opt.Resolve = func(ctx context.Context, host string) ([]net.IP, error) {
			return net.DefaultResolver.LookupIP(ctx, "ip", host)
		}
	}
	host, port, err := splitAddress(opt.Advertise)
	if err != nil {
		return nil, fmt.Errorf("gossip.advertise: %w", err)
	}
	if _, _, err := splitAddress(opt.Bind); err != nil {
		return nil, fmt.Errorf("gossip.bind: %w", err)
	}
	switch len(opt.SecretKey) {
	case 0, 16, 24, 32:
	default:
		return nil, fmt.Errorf("gossip secret has %d bytes, not 16, 24 or 32", len(opt.SecretKey))
	}
	m := &Membership{opt: opt, log: opt.Logger, host: host, port: port, events: make(chan Event, maxEvents)}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.table.self = meta{NodeID: opt.NodeID, DirectoryID: opt.DirectoryID, ClusterID: opt.ClusterID, RaftAddress: opt.RaftAddress, GossipAddress: opt.Advertise}
	longest := m.table.self
	longest.ClusterID, longest.Leaving = "0123456789012345678901", true // what it may be later
	if _, err := longest.encode(); err != nil {
		return nil, err
	}
	m.metrics = newMetrics(m)
	if opt.Registerer != nil {
		if err := m.metrics.register(opt.Registerer); err != nil {
			return nil, fmt.Errorf("gossip: metrics: %w", err)
		}
	}
	return m, nil
}

func splitAddress(a string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(a)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("port %q: %w", p, err)
	}
	return host, int(n), nil
}

// Start listens and begins to join in the background. It waits, within ctx, until the advertised name resolves.
func (m *Membership) Start(ctx context.Context) error {
	ip, err := m.resolveSelf(ctx)
	for tries := 0; err != nil && tries < 20; tries++ {
		m.log.Info("gossip.advertise does not resolve yet", "name", m.host, "err", err)
		t := time.NewTimer(500 * time.Millisecond)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("gossip.advertise: %w", err)
		}
		ip, err = m.resolveSelf(ctx)
	}
	if err != nil {
		return fmt.Errorf("gossip.advertise: %w", err)
	}
	m.mu.Lock()
	err = m.open(ip)
	m.mu.Unlock()
	if err != nil {
		return err
	}
	m.wait.Add(1)
	go m.keepJoined()
	return nil
}

// open makes the memberlist that advertises ip. The caller holds mu.
func (m *Membership) open(ip net.IP) error {
	bindHost, bindPort, err := splitAddress(m.opt.Bind)
	if err != nil {
		return fmt.Errorf("gossip.bind: %w", err)
	}
	if bindHost == "" {
		bindHost = "0.0.0.0"
	}
	c := memberlist.DefaultLANConfig()
	c.Name = fmt.Sprintf("%d.%s", m.opt.NodeID, m.opt.DirectoryID)
	c.Label = m.opt.ClusterName
	c.BindAddr, c.BindPort = bindHost, bindPort
	c.AdvertiseAddr, c.AdvertisePort = ip.String(), m.port
	c.SecretKey = m.opt.SecretKey
	c.ProbeInterval, c.ProbeTimeout, c.SuspicionMult = 500*time.Millisecond, 200*time.Millisecond, 3
	c.PushPullInterval, c.GossipToTheDeadTime = 15*time.Second, 15*time.Second
	c.DeadNodeReclaimTime = reclaimAfter
	c.TCPTimeout = 3 * time.Second
	c.Delegate, c.Events = &delegate{m}, &delegate{m}
	c.Logger = log.New(gossipLog{m.log}, "", 0)
	l, err := memberlist.Create(c)
	if err != nil {
		return fmt.Errorf("gossip: listen on %s: %w", m.opt.Bind, err)
	}
	m.list, m.ip = l, ip
	return nil
}

// resolveSelf looks the advertised name up now, IPv4 before IPv6.
func (m *Membership) resolveSelf(ctx context.Context) (net.IP, error) {
	if ip := net.ParseIP(m.host); ip != nil {
		return ip, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveWithin)
	defer cancel()
	ips, err := m.opt.Resolve(ctx, m.host)
	if err != nil {
		return nil, err
	}
	for _, ip := range ips {
		if ip.To4() != nil {
			return ip, nil
		}
	}
	if len(ips) == 0 {
		return nil, fmt.Errorf("%s has no address", m.host)
	}
	return ips[0], nil
}

// keepJoined calls the addresses of the join list that no live member has, again and again, names resolved anew. In its
// first minute it calls all: another node refuses this one while it takes its former address for alive.
func (m *Membership) keepJoined() {
	defer m.wait.Done()
	wait, begin := rejoinFirst, time.Now()
	for {
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-m.ctx.Done():
			t.Stop()
			return
		}
		missing := m.table.missing(m.opt.Join, time.Since(begin) < youngFor)
		if len(missing) == 0 {
			wait = lookAgainEvery
			continue
		}
		wait = min(2*wait, rejoinEvery)
		m.rejoin(missing)
	}
}

func (m *Membership) rejoin(addresses []string) {
	ip, err := m.resolveSelf(m.ctx)
	if err != nil {
		m.log.Info("gossip.advertise does not resolve", "name", m.host, "err", err)
		return
	}
	m.mu.Lock()
	if m.list != nil && !ip.Equal(m.ip) {
		m.log.Info("this node's address changed; gossip starts anew", "from", m.ip, "to", ip)
		if err := m.list.Shutdown(); err != nil {
			m.log.Info("gossip not shut down cleanly", "err", err)
		}
		m.list = nil
	}
	if m.list == nil && m.ctx.Err() == nil {
		if err := m.open(ip); err != nil {
			m.log.Warn("gossip does not start", "err", err)
		}
	}
	list := m.list
	m.mu.Unlock()
	if list == nil {
		return
	}
	for _, a := range addresses {
		if _, err := list.Join([]string{a}); err != nil {
			m.log.Debug("gossip: not joined", "address", a, "err", err)
		}
	}
}

// Members gives all nodes that gossip knows, this one included, rising node ids. A node that came back with another
// directory is given once.
func (m *Membership) Members() []Member { return m.table.members() }

// Events gives what changes, newest state of the member each time. When nobody takes them in time the oldest are
// dropped: Members has the truth.
func (m *Membership) Events() <-chan Event { return m.events }

// SetClusterID tells the others what cluster this node is of.
func (m *Membership) SetClusterID(id string) {
	if !m.table.setClusterID(id) {
		return
	}
	m.mu.Lock()
	list := m.list
	m.mu.Unlock()
	if list == nil {
		return
	}
	if err := list.UpdateNode(leaveWithin); err != nil {
		m.log.Debug("gossip: cluster id not spread yet", "err", err)
	}
}

// Close says good-bye, stops and waits for the goroutines of this package.
func (m *Membership) Close() error {
	m.cancel()
	m.wait.Wait()
	m.mu.Lock()
	list := m.list
	m.list = nil
	m.mu.Unlock()
	defer m.metrics.unregister()
	if list == nil {
		return nil
	}
	m.table.leave()
	if err := list.UpdateNode(leaveWithin / 4); err != nil {
		m.log.Debug("gossip: leaving not heard", "err", err)
	}
	if err := list.Leave(leaveWithin); err != nil {
		m.log.Debug("gossip: good-bye not heard", "err", err)
	}
	if err := list.Shutdown(); err != nil {
		return fmt.Errorf("gossip: %w", err)
	}
	return nil
}
