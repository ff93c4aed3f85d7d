package configs

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var clusterName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// checker collects the faults of rules over the whole configuration.
type checker struct {
	cfg    *Config
	src    *Sources
	faults Faults
}

func (c *checker) fault(key, format string, args ...any) {
	c.faults = append(c.faults, c.src.fault(key, fmt.Sprintf(format, args...)))
}

func validate(cfg *Config, src *Sources) Faults {
	c := &checker{cfg: cfg, src: src}
	c.node()
	c.cluster()
	c.addresses()
	c.raft()
	c.storage()
	c.topics()
	c.limits()
	c.oneOf("log.level", cfg.Log.Level, "debug", "info", "warn", "error")
	c.oneOf("log.format", cfg.Log.Format, "auto", "text", "json")
	return c.faults
}

func (c *checker) oneOf(key, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		c.fault(key, "%q is none of %s", value, strings.Join(allowed, ", "))
	}
}

func (c *checker) between(key string, v, lo, hi int64) {
	if v < lo || v > hi {
		c.fault(key, "%d is not between %d and %d", v, lo, hi)
	}
}

func (c *checker) positive(key string, d Duration) {
	if d <= 0 {
		c.fault(key, "must be more than 0s")
	}
}

func (c *checker) node() {
	n := c.cfg.Node
	if n.ID < 0 {
		c.fault("node.id", "%d is negative", n.ID)
	}
	if n.DataDir == "" {
		c.fault("node.data_dir", "is empty; name the directory that keeps the node's data")
	}
}

func (c *checker) cluster() {
	cl := c.cfg.Cluster
	if !clusterName.MatchString(cl.Name) {
		c.fault("cluster.name", "%q: write 1 to 64 letters, digits, dots, dashes and underscores", cl.Name)
	}
	c.positive("cluster.heartbeat_interval", cl.HeartbeatInterval)
	if cl.SessionTimeout < 2*cl.HeartbeatInterval {
		c.fault("cluster.session_timeout", "%s is less than two heartbeat intervals (%s each): a single lost heartbeat would fence the node", cl.SessionTimeout, cl.HeartbeatInterval)
	}
	seen := map[string]bool{}
	others, farAway := false, ""
	for _, a := range cl.Join {
		host, _, why := splitAddress(a, false)
		switch {
		case why != "":
			c.fault("cluster.join", "%q %s", a, why)
		case seen[a]:
			c.fault("cluster.join", "%q is named twice", a)
		}
		seen[a] = true
		if a != c.cfg.Gossip.Advertise {
			others = true
		}
		if why == "" && !isLoopback(host) {
			farAway = a
		}
	}
	if others && !c.src.Given("node.id") {
		c.fault("node.id", "must be given: cluster.join names other nodes, and each needs an id of its own")
	}
	if farAway != "" {
		c.reachable(farAway)
	}
}

// reachable refuses addresses of this machine alone when other nodes are elsewhere: they would dial themselves.
func (c *checker) reachable(other string) {
	addrs := map[string]string{"raft.advertise": c.cfg.Raft.Advertise, "gossip.advertise": c.cfg.Gossip.Advertise}
	if l, ok := c.cfg.Listeners[c.cfg.InterBrokerListener]; ok {
		addrs["listeners."+c.cfg.InterBrokerListener+".advertise"] = l.Advertise
	}
	for _, key := range []string{"listeners." + c.cfg.InterBrokerListener + ".advertise", "raft.advertise", "gossip.advertise"} {
		if host, _, why := splitAddress(addrs[key], false); why == "" && isLoopback(host) {
			c.fault(key, "%q means the dialling machine itself, but cluster.join names %s; write an address of this node that the others can dial", addrs[key], other)
		}
	}
}

func (c *checker) addresses() {
	type bound struct{ key, host, port string }
	var all []bound
	bind := func(key, addr string) string {
		host, port, why := splitAddress(addr, true)
		if why != "" {
			c.fault(key, "%q %s", addr, why)
			return ""
		}
		for _, b := range all {
			if b.port == port && (b.host == host || isWildcard(b.host) || isWildcard(host)) {
				c.fault(key, "%q is the address of %s as well", addr, b.key)
			}
		}
		all = append(all, bound{key, host, port})
		return port
	}
	advertise := func(key, addr, bindKey, bindPort string) {
		_, port, why := splitAddress(addr, false)
		switch {
		case why != "":
			c.fault(key, "%q %s", addr, why)
		case bindPort != "" && port != bindPort && !c.src.Given(key) && c.src.Given(bindKey):
			c.fault(key, "is still %s, but %s has port %s; say which address others shall dial", addr, bindKey, bindPort)
		}
	}
	for _, name := range listenerNames(c.cfg.Listeners) {
		key := "listeners." + name
		port := bind(key+".bind", c.cfg.Listeners[name].Bind)
		advertise(key+".advertise", c.cfg.Listeners[name].Advertise, key+".bind", port)
	}
	if _, ok := c.cfg.Listeners[c.cfg.InterBrokerListener]; !ok {
		c.fault("inter_broker_listener", "%q is none of the listeners: %s", c.cfg.InterBrokerListener, strings.Join(listenerNames(c.cfg.Listeners), ", "))
	}
	advertise("raft.advertise", c.cfg.Raft.Advertise, "raft.bind", bind("raft.bind", c.cfg.Raft.Bind))
	advertise("gossip.advertise", c.cfg.Gossip.Advertise, "gossip.bind", bind("gossip.bind", c.cfg.Gossip.Bind))
	bind("http.bind", c.cfg.HTTP.Bind)
}

func (c *checker) raft() {
	r := c.cfg.Raft
	if r.Voters < 1 || r.Voters > 9 || r.Voters%2 == 0 {
		c.fault("raft.voters", "%d: write 1, 3, 5, 7 or 9; an even number survives no more failures than the odd one below it", r.Voters)
	}
	if r.HeartbeatTimeout.Std() < 10*time.Millisecond {
		c.fault("raft.heartbeat_timeout", "%s is less than 10ms", r.HeartbeatTimeout)
	}
	if r.ElectionTimeout < r.HeartbeatTimeout {
		c.fault("raft.election_timeout", "%s is less than raft.heartbeat_timeout (%s)", r.ElectionTimeout, r.HeartbeatTimeout)
	}
	if r.SnapshotThreshold == 0 {
		c.fault("raft.snapshot_threshold", "must be at least 1")
	}
	if r.SnapshotInterval.Std() < 10*time.Millisecond {
		c.fault("raft.snapshot_interval", "%s is less than 10ms", r.SnapshotInterval)
	}
	c.positive("raft.voter_replace_after", r.VoterReplaceAfter)
}

func (c *checker) storage() {
	s := c.cfg.Storage
	c.between("storage.segment_bytes", int64(s.SegmentBytes), 1<<10, math.MaxInt32)
	c.positive("storage.segment_ms", s.SegmentMS)
	c.between("storage.index_interval_bytes", int64(s.IndexIntervalBytes), 0, math.MaxInt32)
	c.positive("storage.retention_check_interval", s.RetentionCheckInterval)
	if s.FlushMessages < 0 {
		c.fault("storage.flush_messages", "%d is negative; 0 means never by count", s.FlushMessages)
	}
}

func (c *checker) topics() {
	t := c.cfg.Topics
	c.between("topics.partitions", int64(t.Partitions), 1, 100_000)
	c.between("topics.replication", int64(t.Replication), 1, math.MaxInt16)
	c.between("topics.max_message_bytes", int64(t.MaxMessageBytes), 1, math.MaxInt32)
	r := c.cfg.Replication
	c.positive("replication.fetch_wait_max", r.FetchWaitMax)
	if r.LagTimeMax < 2*r.FetchWaitMax {
		c.fault("replication.lag_time_max", "%s is less than twice replication.fetch_wait_max (%s): a follower that waits would look slow", r.LagTimeMax, r.FetchWaitMax)
	}
	c.between("replication.fetch_max_bytes", int64(r.FetchMaxBytes), 1<<10, math.MaxInt32)
}

func (c *checker) limits() {
	l := c.cfg.Limits
	c.between("limits.request_max_bytes", int64(l.RequestMaxBytes), 1<<10, math.MaxInt32)
	if l.RequestMaxBytes <= c.cfg.Topics.MaxMessageBytes {
		c.fault("limits.request_max_bytes", "%s does not hold one batch of topics.max_message_bytes (%s)", l.RequestMaxBytes, c.cfg.Topics.MaxMessageBytes)
	}
	if l.InflightBytes < l.RequestMaxBytes {
		c.fault("limits.inflight_bytes", "%s does not hold one request of limits.request_max_bytes (%s)", l.InflightBytes, l.RequestMaxBytes)
	}
	if l.ConnectionsMax < 1 {
		c.fault("limits.connections_max", "must be at least 1")
	}
	c.positive("limits.connections_max_idle", l.ConnectionsMaxIdle)
}

// splitAddress takes host:port apart; IPv6 hosts stand in brackets. why says what is wrong, "" for nothing. An address
// to bind may be a wildcard or leave out the host; one that others are told may not.
func splitAddress(addr string, bind bool) (host, port, why string) {
	if addr == "" {
		return "", "", "is empty; write host:port"
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		if strings.Count(addr, ":") > 1 && !strings.Contains(addr, "]:") {
			return "", "", "is not host:port; an IPv6 address stands in brackets, as in [::1]:9092"
		}
		return "", "", "is not host:port"
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", "", "has no port number between 1 and 65535"
	}
	if n == 0 {
		return "", "", "has port 0; nobody could know which port it is"
	}
	if !bind && host == "" {
		return "", "", "has no host; write the name or address that others dial"
	}
	if !bind && isWildcard(host) {
		return "", "", "cannot be dialled: it means every address of this machine; write a name or address that others dial"
	}
	if strings.ContainsAny(host, " /\\@") {
		return "", "", "is not host:port"
	}
	return host, port, ""
}

func isWildcard(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "" || err == nil && a.IsUnspecified()
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}
