package controller

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

const (
	raftDir        = "raft"    // below the data directory
	raftFile       = "raft.db" // entries, term and vote
	raftSnapshots  = 2         // kept
	raftLogCache   = 512       // entries
	raftRPCTimeout = 10 * time.Second
	raftLockWait   = time.Second // for another process that has the store open
	raftMaxAppend  = 256         // entries in one AppendEntries
)

// node is this node's part in raft: store, network and state machine. raft-boltdb and raft's snapshot store write
// through the operating system; they are the documented exception to logstore/vfs.
type node struct {
	id        raft.ServerID
	bolt      *raftboltdb.BoltStore
	store     *latch
	snapshots *raft.FileSnapshotStore
	transport *raft.NetworkTransport
	stream    *stream
	raft      *raft.Raft
	leading   chan bool // raft's own word for every change of leadership; must be drained
	config    *raft.Config
}

// openStore opens raft's files and says whether they hold anything.
func openStore(opt *Options, onFatal func(error)) (n *node, hasState bool, err error) {
	dir := filepath.Join(opt.DataDir, raftDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, false, fmt.Errorf("raft: %w", err)
	}
	if err := checkStore(dir, opt.ClusterID != ""); err != nil {
		return nil, false, damage(err)
	}
	path := filepath.Join(dir, raftFile)
	bolt, err := raftboltdb.New(raftboltdb.Options{
		Path:        path,
		BoltOptions: &bbolt.Options{Timeout: raftLockWait, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType},
	})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, false, fmt.Errorf("raft: %s is in use by another process", path)
	}
	if err != nil {
		return nil, false, damage(fmt.Errorf("open %s: %w", path, err))
	}
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(dir, raftSnapshots, newRaftLog(opt.Logger))
	if err != nil {
		return nil, false, errors.Join(fmt.Errorf("raft: snapshots in %s: %w", dir, err), bolt.Close())
	}
	n = &node{id: serverID(opt.NodeID, opt.DirectoryID), bolt: bolt, snapshots: snapshots, leading: make(chan bool, 64)}
	n.store = newLatch(bolt, onFatal, opt.FreeReserve)
	hasState, err = raft.HasExistingState(n.store, n.store, snapshots)
	if err != nil {
		return nil, false, errors.Join(damage(fmt.Errorf("read %s: %w", path, err)), bolt.Close())
	}
	n.config = raftConfig(opt, n)
	return n, hasState, nil
}

func raftConfig(opt *Options, n *node) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = n.id
	c.HeartbeatTimeout = opt.HeartbeatTimeout
	c.ElectionTimeout = opt.ElectionTimeout
	c.LeaderLeaseTimeout = opt.HeartbeatTimeout
	c.CommitTimeout = opt.CommitTimeout
	c.MaxAppendEntries = raftMaxAppend
	c.SnapshotThreshold = opt.SnapshotThreshold
	c.SnapshotInterval = opt.SnapshotInterval
	c.TrailingLogs = opt.TrailingLogs
	c.NotifyCh = n.leading
	c.Logger = newRaftLog(opt.Logger)
	c.ShutdownOnRemove = false
	c.NoLegacyTelemetry = true
	// RestoreCommittedLogs stays false: with it raft 1.8.0 hangs at start when many entries follow the snapshot.
	return c
}

// start runs raft on an open store and stream.
func (n *node) start(fsm raft.FSM, s *stream, addresses raft.ServerAddressProvider) error {
	n.stream = s
	n.transport = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: s, MaxPool: 3, Timeout: raftRPCTimeout, Logger: n.config.Logger, ServerAddressProvider: addresses,
		// Pipelining can leave a follower without entries until its leader restarts (hashicorp/raft 612).
		MaxRPCsInFlight: 1,
	})
	cache, err := raft.NewLogCache(raftLogCache, n.store)
	if err != nil {
		return fmt.Errorf("raft: %w", err)
	}
	n.raft, err = n.newRaft(fsm, cache)
	if err != nil {
		return damage(fmt.Errorf("start: %w", err))
	}
	return nil
}

// newRaft starts raft, which panics where an entry of its log cannot be read. It has started no goroutine by then.
func (n *node) newRaft(fsm raft.FSM, cache raft.LogStore) (r *raft.Raft, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = damagedf("%v", p)
		}
	}()
	return raft.NewRaft(n.config, fsm, cache, n.store, n.snapshots, n.transport)
}

// damage says what to do about raft's files where they cannot be read.
func damage(err error) error {
	return fmt.Errorf("raft: %w (if its files are damaged: this node may not vote again with what is left; stop it, reset it with `cordwood node reset` and let it rejoin)", err)
}

// bootstrap founds a cluster with this node as the only voter. A store that holds something already is left alone.
func (n *node) bootstrap(advertise, directoryID string) error {
	err := n.raft.BootstrapCluster(raft.Configuration{Servers: []raft.Server{
		{Suffrage: raft.Voter, ID: n.id, Address: raftAddress(advertise, directoryID)},
	}}).Error()
	if err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
		return fmt.Errorf("raft: bootstrap: %w", err)
	}
	return nil
}

// close stops raft, the network and the store, in this order.
func (n *node) close() error {
	var errs []error
	if n.stream != nil {
		n.stream.stopDialling()
	}
	if n.raft != nil {
		errs = append(errs, n.raft.Shutdown().Error())
	}
	if n.transport != nil {
		errs = append(errs, n.transport.Close())
	}
	if n.stream != nil {
		errs = append(errs, n.stream.Close())
	}
	return errors.Join(append(errs, n.bolt.Close())...)
}

// servers gives raft's newest configuration, committed or not.
func (n *node) servers() ([]raft.Server, uint64, error) {
	f := n.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return nil, 0, fmt.Errorf("raft: configuration: %w", err)
	}
	return f.Configuration().Servers, f.Index(), nil
}
