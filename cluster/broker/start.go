package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/cluster/controller"
	"cordwood/cluster/membership"
	"cordwood/cluster/replica"
	"cordwood/fsm/metadata"
	"cordwood/logstore"
	"cordwood/logstore/vfs"
	"cordwood/transport"
	"cordwood/transport/admin"
	"cordwood/transport/api"
	"cordwood/transport/rpc"
)

const (
	inspectWorkers = 4
	maxFetchBytes  = 55 << 20 // Kafka's fetch.max.bytes of a broker
	secretMax      = 64 << 10
)

// open opens everything up to the point where the node can register. What fails says the key, the address or path and
// the way out; nothing stays half started after close.
func (b *Broker) open(ctx context.Context) error {
	if err := b.openDir(ctx); err != nil {
		return err
	}
	secret, err := b.readSecret(b.cfg.Cluster.SecretFile)
	if err != nil {
		return fmt.Errorf("cluster.secret_file: %w", err)
	}
	if err := b.openGossip(); err != nil {
		return err
	}
	if err := b.openController(); err != nil {
		return err
	}
	b.pool = rpc.NewPool(rpc.PoolOptions{Options: rpc.Options{ClientID: fmt.Sprintf("node-%d", b.cfg.Node.ID), Secret: secret, Timeout: 30 * time.Second}, Address: b.address})
	road := &metadataRoad{Controller: b.controller}
	b.up = &upstream{node: b.cfg.Node.ID, controller: controllerRoad{b.controller}, metadata: b.controller, pool: b.pool}
	road.up = b.up
	b.session = newSession(b.up, b.cfg.Cluster.HeartbeatInterval.Std(), b.registration, b.log.With("component", "session"))
	if err := b.openReplicas(secret); err != nil {
		return err
	}
	ids := newProducerIDs(b.up, b.session.epoch.Load)
	handlers := api.New(api.Deps{
		Node: api.Node{
			ID: b.cfg.Node.ID, Rack: b.cfg.Node.Rack, Version: b.opt.Version, InterBrokerListener: b.cfg.InterBrokerListener,
			BrokerConfigs: func() []api.BrokerConfig { return brokerConfigs(b.cfg) }, TopicDefaults: topicDefaults(b.cfg, b.defaults),
			MaxFetchBytes: maxFetchBytes, Dead: b.dead, DelayFetches: b.delayFetches(),
		},
		Metadata: road, Replicas: b.replicas, Controller: b.up.controller, ProducerIDs: ids, Peers: peers{b.up}, History: b.history.of,
	}, api.Options{Logger: b.log.With("component", "api"), Wall: b.wall})
	if err := b.openServer(handlers, secret); err != nil {
		return err
	}
	b.http, err = admin.Listen(admin.Options{Bind: b.cfg.HTTP.Bind, Pprof: b.cfg.HTTP.Pprof, Metrics: b.registry, Ready: b.readiness, Logger: b.log.With("component", "http")})
	if err != nil {
		return bindError("http.bind", b.cfg.HTTP.Bind, errors.Unwrap(err))
	}
	if err := b.members.Start(ctx); err != nil {
		return gossipError(b.cfg.Gossip, err)
	}
	if err := b.controller.Start(ctx); err != nil {
		return bindError("raft.bind", b.cfg.Raft.Bind, err)
	}
	return nil
}

// watchGossip tells the controller whom gossip has given up: a hint to dial, never a reason to fence.
func (b *Broker) watchGossip(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-b.members.Events():
			if e.Member.State == membership.Dead {
				b.controller.Suspect(e.Member.NodeID)
			}
		}
	}
}

// openDir locks the directory, writes the new incarnation and looks at every log without changing any.
func (b *Broker) openDir(ctx context.Context) error {
	b.fs, b.wall = vfs.OS{}, time.Now
	if b.cfg.DevMode {
		fault, err := vfs.Dev(b.cfg.Node.DataDir, func(err error) { b.log.Warn("fault rules", "err", err) })
		if err != nil {
			return fmt.Errorf("dev_mode: %w", err)
		}
		b.fault = fault
		b.fs = b.fault
		b.wall = vfs.NewClock(vfs.OS{}, vfs.ClockFile(b.cfg.Node.DataDir), func(err error) { b.log.Warn("clock", "err", err) }).Now
		b.log.Warn("dev_mode is on: this node's disk fails and its clock jumps on demand", "rules", vfs.RulesFile(b.cfg.Node.DataDir), "clock", vfs.ClockFile(b.cfg.Node.DataDir))
	}
	if err := b.fs.MkdirAll(b.cfg.Node.DataDir); err != nil {
		return dirError(b.fs, b.cfg.Node.DataDir, err)
	}
	dir, err := logstore.OpenDir(b.fs, b.cfg.Node.DataDir, logstore.DirOptions{
		NodeID: b.cfg.Node.ID, BootID: b.bootID(), Reserve: b.cfg.Storage.ReserveFile.Int64(), DiskStop: b.cfg.Storage.DiskStop.Int64(),
		RetentionInterval: b.cfg.Storage.RetentionCheckInterval.Std(), Logger: b.log.With("component", "log"),
		OnOffline: b.directoryOffline, OnDamage: b.damaged, OnSync: func(took time.Duration) { b.fsync.Observe(took.Seconds()) },
		Wall: b.wall,
	})
	if err != nil {
		return dirError(b.fs, b.cfg.Node.DataDir, err)
	}
	b.dir = dir
	began := time.Now()
	shown := began
	b.inspection, err = dir.Inspect(ctx, inspectWorkers, func(done, total int) {
		if now := time.Now(); now.Sub(shown) > 2*time.Second {
			shown = now
			b.log.Info("looking at logs", "done", done, "of", total)
		}
	})
	if err != nil {
		return dirError(b.fs, b.cfg.Node.DataDir, err)
	}
	b.log.Info("data directory opened", "path", b.cfg.Node.DataDir, "logs", len(b.inspection.Logs), "clean", b.inspection.Clean, "took", time.Since(began).Round(time.Millisecond).String())
	for _, u := range b.inspection.Unknown {
		b.log.Warn("a directory that is no partition's was left alone", "what", u)
	}
	return nil
}

// directoryOffline is told once that the only log directory failed for good: the controller is asked to fence this node,
// then the process ends.
func (b *Broker) directoryOffline(err error) {
	if s := b.session; s != nil {
		s.offline.Store(true)
		s.wake()
	}
	b.die(fmt.Errorf("the data directory is offline: %w", err))
}

// damaged hands damage found while running to the replicas.
func (b *Broker) damaged(l *logstore.Log, reason string) {
	if r := b.replicas; r != nil {
		r.OnDamage(l, reason)
	}
}

// bootID reads what names this start of the machine; empty where it cannot be read, which counts as a power loss after
// every unclean stop.
func (b *Broker) bootID() string {
	id, err := b.readFile(b.cfg.Node.BootIDFile, 4096)
	if err != nil {
		b.log.Warn("boot id is not readable: an unclean stop will count as a power loss", "file", b.cfg.Node.BootIDFile, "err", err)
		return ""
	}
	return string(bytes.TrimSpace(id))
}

func (b *Broker) readSecret(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	secret, err := b.readFile(file, secretMax)
	if err != nil {
		return nil, err
	}
	secret = bytes.TrimSpace(secret)
	if len(secret) == 0 {
		return nil, fmt.Errorf("%s is empty", file)
	}
	return secret, nil
}

// readFile reads a small file, of which the size is not known beforehand (files of /proc have none).
func (b *Broker) readFile(name string, limit int64) ([]byte, error) {
	f, err := vfs.OS{}.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.NewSectionReader(f, 0, limit))
}

func (b *Broker) openGossip() error {
	key, err := b.readSecret(b.cfg.Gossip.SecretFile)
	if err != nil {
		return fmt.Errorf("gossip.secret_file: %w", err)
	}
	b.members, err = membership.New(membership.Options{
		NodeID: b.cfg.Node.ID, DirectoryID: b.dir.Session().DirectoryID, ClusterID: b.dir.ClusterID(), ClusterName: b.cfg.Cluster.Name,
		Bind: b.cfg.Gossip.Bind, Advertise: b.cfg.Gossip.Advertise, RaftAddress: b.cfg.Raft.Advertise, Join: b.cfg.Cluster.Join,
		SecretKey: key, Registerer: b.registry, Logger: b.log.With("component", "gossip"),
	})
	return err
}

func (b *Broker) openController() error {
	c := b.cfg
	var err error
	b.controller, err = controller.New(controller.Options{
		NodeID: c.Node.ID, DirectoryID: b.dir.Session().DirectoryID, ClusterID: b.dir.ClusterID(), ClusterName: c.Cluster.Name,
		DataDir: c.Node.DataDir, GossipAddress: c.Gossip.Advertise, Join: c.Cluster.Join, RaftBind: c.Raft.Bind, RaftAdvertise: c.Raft.Advertise,
		HeartbeatTimeout: c.Raft.HeartbeatTimeout.Std(), ElectionTimeout: c.Raft.ElectionTimeout.Std(), SnapshotThreshold: c.Raft.SnapshotThreshold,
		SnapshotInterval: c.Raft.SnapshotInterval.Std(), Voters: c.Raft.Voters, VoterReplaceAfter: c.Raft.VoterReplaceAfter.Std(),
		SessionTimeout: c.Cluster.SessionTimeout.Std(), InterBrokerListener: c.InterBrokerListener, Peers: b.peers,
		Unclean: func(t *metadata.Topic) bool { return b.defaults.Effective(t).UncleanElection },
		Publish: b.published, OnFatal: b.die, FreeReserve: b.dir.FreeReserve,
		Registerer: b.registry, Logger: b.log.With("component", "controller"),
	})
	return err
}

// peers gives the other nodes as gossip shows them.
func (b *Broker) peers() []controller.Peer {
	var out []controller.Peer
	for _, m := range b.members.Members() {
		if m.NodeID == b.cfg.Node.ID && m.DirectoryID == b.dir.Session().DirectoryID {
			continue
		}
		out = append(out, controller.Peer{NodeID: m.NodeID, DirectoryID: m.DirectoryID, ClusterID: m.ClusterID, RaftAddress: m.RaftAddress, Alive: m.State == membership.Alive})
	}
	return out
}

// dead says that gossip has given a node up. It is only shown.
func (b *Broker) dead(node int32) bool {
	for _, m := range b.members.Members() {
		if m.NodeID == node {
			return m.State != membership.Alive
		}
	}
	return false
}

// address is where a node's listener between nodes is reached: as it registered it.
func (b *Broker) address(node int32) (string, error) {
	reg := b.controller.Image().Broker(node)
	if reg == nil {
		return "", fmt.Errorf("node %d is not registered", node)
	}
	e, ok := reg.Listeners[b.cfg.InterBrokerListener]
	if !ok {
		return "", fmt.Errorf("node %d has no listener %q", node, b.cfg.InterBrokerListener)
	}
	return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))), nil
}

func (b *Broker) openReplicas(secret []byte) error {
	c := b.cfg.Replication
	var err error
	b.replicas, err = replica.NewManager(replica.Options{
		NodeID: b.cfg.Node.ID, Dir: b.dir, Controller: b.up, Dial: b.dialer(secret), Config: b.logConfig,
		LagMax: c.LagTimeMax.Std(), FetchWaitMax: c.FetchWaitMax.Std(), FetchMaxBytes: int32(min(c.FetchMaxBytes.Int64(), maxFetchBytes)),
		Logger: b.log.With("component", "replica"), Registerer: b.registry, Delay: b.fetchDelay(),
		Sure: b.sureToLead,
	})
	return err
}

// dialer opens connections for fetching: one each, outside the pool, owned by the fetcher.
func (b *Broker) dialer(secret []byte) func(context.Context, int32) (replica.Conn, error) {
	return func(ctx context.Context, node int32) (replica.Conn, error) {
		addr, err := b.address(node)
		if err != nil {
			return nil, err
		}
		conn, err := rpc.Dial(ctx, addr, rpc.Options{ClientID: fmt.Sprintf("fetcher-%d", b.cfg.Node.ID), Secret: secret, Timeout: 30 * time.Second})
		if err != nil {
			return nil, err
		}
		return replica.RPC(conn), nil
	}
}

// logConfig gives a topic's log settings.
func (b *Broker) logConfig(t *metadata.Topic) logstore.LogConfig {
	e := b.defaults.Effective(t)
	cfg := logstore.DefaultLogConfig()
	cfg.SegmentBytes, cfg.SegmentMS, cfg.IndexIntervalBytes = e.SegmentBytes, e.SegmentMS, e.IndexIntervalBytes
	cfg.RetentionMS, cfg.RetentionBytes, cfg.CleanupDelete = e.RetentionMS, e.RetentionBytes, e.CleanupDelete
	cfg.FlushMessages, cfg.FlushMS = e.FlushMessages, e.FlushMS
	cfg.FileDeleteDelayMS, cfg.MaxMessageBytes = e.FileDeleteDelayMS, e.MaxMessageBytes
	return cfg
}

func (b *Broker) openServer(handlers *api.Handlers, secret []byte) error {
	var listeners []transport.Listener
	for name, l := range b.cfg.Listeners {
		listeners = append(listeners, transport.Listener{Name: name, Bind: l.Bind, Internal: name == b.cfg.InterBrokerListener})
	}
	c := b.cfg.Limits
	var err error
	b.server, err = transport.NewServer(transport.Options{
		Listeners: listeners, Table: handlers, Handler: handlers, Hold: true, RequestMaxBytes: c.RequestMaxBytes.Int64(), ConnectionsMax: c.ConnectionsMax,
		IdleMax: c.ConnectionsMaxIdle.Std(), InflightBytes: c.InflightBytes.Int64(), Secret: secret, Registerer: b.registry, Logger: b.log.With("component", "transport"),
	})
	if err != nil {
		return err
	}
	if err := b.server.Listen(context.Background()); err != nil {
		b.server = nil
		var bind *transport.BindError
		if errors.As(err, &bind) {
			return bindError("listeners."+bind.Listener+".bind", bind.Address, err)
		}
		return err
	}
	for name, l := range b.cfg.Listeners {
		b.log.Info("listening", "listener", name, "bind", l.Bind, "clients_will_be_told", l.Advertise)
	}
	if len(secret) == 0 {
		b.log.Info("the listener between nodes trusts its network: cluster.secret_file is not set", "listener", b.cfg.InterBrokerListener)
	}
	return nil
}

// registration makes the registration of this process.
func (b *Broker) registration() (*kmsg.BrokerRegistrationRequest, error) {
	s := b.dir.Session()
	me, err := incarnation(s.Incarnation)
	if err != nil {
		return nil, err
	}
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.BrokerID = b.cfg.Node.ID
	if req.ClusterID = b.dir.ClusterID(); req.ClusterID == "" {
		req.ClusterID = b.controller.Image().ClusterID()
	}
	req.IncarnationID = me
	if b.cfg.Node.Rack != "" {
		req.Rack = kmsg.StringPtr(b.cfg.Node.Rack)
	}
	for name, l := range b.cfg.Listeners {
		host, port, err := net.SplitHostPort(l.Advertise)
		if err != nil {
			return nil, fmt.Errorf("listeners.%s.advertise: %w", name, err)
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("listeners.%s.advertise: %w", name, err)
		}
		rl := kmsg.NewBrokerRegistrationRequestListener()
		rl.Name, rl.Host, rl.Port = name, host, uint16(n)
		req.Listeners = append(req.Listeners, rl)
	}
	extra := metadata.RegistrationExtra{
		Clean: s.CleanFlag && b.inspection.Clean, Mismatch: s.CleanFlag && !b.inspection.Clean, BootOK: s.BootKnown, RaftAddress: b.cfg.Raft.Advertise,
		DirectoryID: s.DirectoryID, MinLevel: metadata.MinLevel, MaxLevel: metadata.LatestLevel, Version: b.opt.Version,
	}
	for _, e := range s.Earlier {
		id, err := incarnation(e.ID)
		if err != nil {
			return nil, err
		}
		extra.Earlier = append(extra.Earlier, metadata.EarlierIncarnation{ID: id.String(), SameBoot: e.SameBoot})
	}
	req.UnknownTags.Set(metadata.TagRegistration, extra.Encode())
	return req, nil
}
