package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"cordwood/fsm/metadata"
)

// Peer is a node as gossip shows it: a hint where to ask, never a fact to decide on.
type Peer struct {
	NodeID      int32
	DirectoryID string
	ClusterID   string // empty: none
	RaftAddress string // name and port
	Alive       bool
}

// Options configure a Controller. Zero durations and counts take the defaults of contract and configuration.
type Options struct {
	NodeID        int32
	DirectoryID   string
	ClusterID     string // of meta.properties; empty before the directory belongs to a cluster
	ClusterName   string
	DataDir       string   // raft's files live in DataDir/raft
	GossipAddress string   // this node's advertised gossip address, as it would stand in Join
	Join          []string // cluster.join

	RaftBind      string // host:port to listen on
	RaftAdvertise string // name:port that other nodes dial

	HeartbeatTimeout  time.Duration // of raft; 500 ms. The leader's lease is as long
	ElectionTimeout   time.Duration // of raft; 500 ms
	CommitTimeout     time.Duration // of raft; 20 ms
	SnapshotThreshold uint64        // entries; 8192
	SnapshotInterval  time.Duration // 2 m
	TrailingLogs      uint64        // entries kept behind a snapshot; 8192
	Voters            int           // 3; further nodes stay non-voters
	VoterReplaceAfter time.Duration // 10 m

	SessionTimeout    time.Duration // of a broker; 4 s
	PreferredInterval time.Duration // least time between two rounds of giving leadership back; 5 s
	StallLimit        time.Duration // a store write or a stuck leadership transfer that lasts longer is fatal; 10 s
	ProposeTimeout    time.Duration // bound of a proposal whose context has no earlier end; 10 s

	// InterBrokerListener names the listener at which brokers are dialled to judge whether their process lives.
	InterBrokerListener string
	// Dial connects; nil is a plain net.Dialer. Names are resolved at every call.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Peers gives the nodes that gossip knows, without this one. nil: none.
	Peers func() []Peer
	// Unclean says that a topic's own or default setting wants an unclean election (unclean.leader.election.enable).
	// nil: never.
	Unclean func(*metadata.Topic) bool
	// Publish gets every new image, in order, from one goroutine at a time. It must not block and must not call the
	// controller. nil: nobody listens.
	Publish func(*metadata.Image, metadata.Delta)
	// OnFatal is told once of what this process cannot live on with (a failed write of raft's store, a stuck raft).
	// The owner stops the process. It must return at once and must not call Close from inside.
	OnFatal func(error)
	// FreeReserve gives reserved disk space back when raft's store finds none; true: try again. nil: there is none.
	FreeReserve func() bool

	Registerer prometheus.Registerer // nil: no metrics are registered
	Logger     *slog.Logger          // nil: discards
}

func (o *Options) setDefaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.HeartbeatTimeout, 500*time.Millisecond)
	def(&o.ElectionTimeout, 500*time.Millisecond)
	def(&o.CommitTimeout, 20*time.Millisecond)
	def(&o.SnapshotInterval, 2*time.Minute)
	def(&o.VoterReplaceAfter, 10*time.Minute)
	def(&o.SessionTimeout, 4*time.Second)
	def(&o.PreferredInterval, 5*time.Second)
	def(&o.StallLimit, 10*time.Second)
	def(&o.ProposeTimeout, 10*time.Second)
	if o.SnapshotThreshold == 0 {
		o.SnapshotThreshold = 8192
	}
	if o.TrailingLogs == 0 {
		o.TrailingLogs = 8192
	}
	if o.Voters <= 0 {
		o.Voters = 3
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	if o.Peers == nil {
		o.Peers = func() []Peer { return nil }
	}
	if o.Unclean == nil {
		o.Unclean = func(*metadata.Topic) bool { return false }
	}
	if o.Publish == nil {
		o.Publish = func(*metadata.Image, metadata.Delta) {}
	}
	if o.OnFatal == nil {
		o.OnFatal = func(error) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

func (o *Options) validate() error {
	switch {
	case o.NodeID < 0:
		return fmt.Errorf("controller: node id %d is negative", o.NodeID)
	case o.DirectoryID == "" || len(o.DirectoryID) > maxDirectoryID || strings.Contains(o.DirectoryID, "/"):
		return fmt.Errorf("controller: %q is no directory id", o.DirectoryID)
	case o.DataDir == "":
		return errors.New("controller: no data directory")
	}
	if _, _, err := net.SplitHostPort(o.RaftAdvertise); err != nil {
		return fmt.Errorf("controller: raft.advertise: %w", err)
	}
	return nil
}
