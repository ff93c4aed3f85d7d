// Package configs is a node's configuration: the registry of its keys (the Config struct and its tags), the strict
// loader of file, environment and flags, and the rules that values obey. It is the one package that imports viper.
//
// Adding a key means adding a field with its four tags: the loader, `config print`, the environment variable and the
// documentation follow from them, and a test fails where the sample file lacks it.
package configs

import "time"

// Config is everything a node is told at start. Values that Load returns are complete and checked; nothing changes
// them afterwards, so they may be read from any goroutine.
//
// Tags: `key` is the name in the file, `default` its value when nobody gives one, `doc` what it means, `unit` how
// values are written (none where the type says it all). `also:"-1"` names a value outside the type's usual range.
type Config struct {
	Node                Node                `key:"node" doc:"Who this node is and where it keeps its data."`
	Cluster             Cluster             `key:"cluster" doc:"The cluster this node forms or joins."`
	Listeners           map[string]Listener `key:"listeners" doc:"Kafka listeners by name. A client is told the addresses of the listener it came in on."`
	InterBrokerListener string              `key:"inter_broker_listener" default:"internal" doc:"Name of the listener on which nodes talk to each other."`
	Raft                Raft                `key:"raft" doc:"The log of metadata and elections."`
	Gossip              Gossip              `key:"gossip" doc:"How nodes find each other and notice failures early."`
	HTTP                HTTP                `key:"http" doc:"Health checks and metrics."`
	Storage             Storage             `key:"storage" doc:"Segment files and the disk."`
	Topics              Topics              `key:"topics" doc:"Defaults of topics that do not set a value of their own."`
	Replication         Replication         `key:"replication" doc:"How followers fetch from leaders."`
	Limits              Limits              `key:"limits" doc:"Bounds on what clients may ask of one node."`
	Log                 Log                 `key:"log" doc:"The node's own log on standard error."`
	DevMode             bool                `key:"dev_mode" default:"false" doc:"Allow fault injection into this node's disk and wall clock. Never for data that matters."`
}

// Node is who this node is.
type Node struct {
	ID         int32  `key:"id" default:"1" unit:"number" doc:"Id of this node, unique in the cluster and kept for life. Must be given when cluster.join names other nodes."`
	Rack       string `key:"rack" default:"" doc:"Where the node stands. Replicas of a partition are spread over racks."`
	DataDir    string `key:"data_dir" default:"/var/lib/cordwood" unit:"path" doc:"Directory of everything the node keeps. One process at a time."`
	BootIDFile string `key:"boot_id_file" default:"/proc/sys/kernel/random/boot_id" unit:"path" doc:"File whose contents change when the machine boots. Unreadable means that every unclean restart counts as a power loss."`
}

// Cluster is the cluster a node belongs to.
type Cluster struct {
	Name              string   `key:"name" default:"cordwood" doc:"Nodes of another name are not talked to."`
	Join              []string `key:"join" default:"" unit:"host:port, …" doc:"Gossip addresses of the nodes that form the cluster, the same list on each of them. Empty: a cluster of one."`
	SecretFile        string   `key:"secret_file" default:"" unit:"path" doc:"File with the secret that nodes prove to each other. Empty: the listener between nodes trusts its network."`
	HeartbeatInterval Duration `key:"heartbeat_interval" default:"500ms" unit:"duration" doc:"How often a node reports to the controller."`
	SessionTimeout    Duration `key:"session_timeout" default:"4s" unit:"duration" doc:"A node that the controller has not heard of for this long is fenced."`
}

// Listener is one Kafka listener.
type Listener struct {
	Bind      string `key:"bind" unit:"host:port" doc:"Address to listen on."`
	Advertise string `key:"advertise" unit:"host:port" doc:"Address that clients of this listener are told to dial. Handed out as written, never resolved here."`
}

// Raft is the metadata log.
type Raft struct {
	Bind              string   `key:"bind" default:"0.0.0.0:9093" unit:"host:port" doc:"Address to listen on."`
	Advertise         string   `key:"advertise" default:"localhost:9093" unit:"host:port" doc:"Address that other nodes dial. A name is resolved at every dial."`
	Voters            int      `key:"voters" default:"3" unit:"number" doc:"How many nodes vote. The others follow along and take the place of a voter that is gone for good."`
	HeartbeatTimeout  Duration `key:"heartbeat_timeout" default:"500ms" unit:"duration" doc:"A voter that hears nothing of the leader for this long starts an election."`
	ElectionTimeout   Duration `key:"election_timeout" default:"500ms" unit:"duration" doc:"How long an election may take before it is tried again."`
	SnapshotThreshold uint64   `key:"snapshot_threshold" default:"8192" unit:"number" doc:"Log entries after which a snapshot is made."`
	SnapshotInterval  Duration `key:"snapshot_interval" default:"2m" unit:"duration" doc:"How often it is looked whether a snapshot is due."`
	VoterReplaceAfter Duration `key:"voter_replace_after" default:"10m" unit:"duration" doc:"A voter that has been dead for this long gives its place to another node."`
}

// Gossip is the membership layer.
type Gossip struct {
	Bind       string `key:"bind" default:"0.0.0.0:7946" unit:"host:port" doc:"Address to listen on, TCP and UDP."`
	Advertise  string `key:"advertise" default:"localhost:7946" unit:"host:port" doc:"Address that other nodes use. A name is resolved at start and before each rejoin."`
	SecretFile string `key:"secret_file" default:"" unit:"path" doc:"File with the key that gossip is encrypted with. Empty: not encrypted."`
}

// HTTP is the health and metrics server.
type HTTP struct {
	Bind  string `key:"bind" default:"127.0.0.1:8080" unit:"host:port" doc:"Address of /livez, /readyz and /metrics. It has no password."`
	Pprof bool   `key:"pprof" default:"false" doc:"Serve /debug/pprof as well."`
}

// Storage is the log directory.
type Storage struct {
	SegmentBytes           ByteSize `key:"segment_bytes" default:"1GiB" unit:"size" doc:"A segment file is closed at this size."`
	SegmentMS              Duration `key:"segment_ms" default:"7d" unit:"duration" doc:"A segment file is closed at this age."`
	IndexIntervalBytes     ByteSize `key:"index_interval_bytes" default:"4KiB" unit:"size" doc:"Bytes of log between two index entries."`
	RetentionMS            Duration `key:"retention_ms" default:"7d" also:"-1" unit:"duration" doc:"Records older than this are deleted. -1: never."`
	RetentionBytes         ByteSize `key:"retention_bytes" default:"-1" also:"-1" unit:"size" doc:"A partition's oldest records beyond this size are deleted. -1: never."`
	RetentionCheckInterval Duration `key:"retention_check_interval" default:"5m" unit:"duration" doc:"How often it is looked what may be deleted."`
	FlushMessages          int64    `key:"flush_messages" default:"0" unit:"number" doc:"Records after which a log is flushed to disk. 0: never by count."`
	FlushMS                Duration `key:"flush_ms" default:"0s" unit:"duration" doc:"Time after which a log is flushed to disk. 0s: never by time."`
	DiskStop               ByteSize `key:"disk_stop" default:"1GiB" unit:"size" doc:"Below this much free space writes of clients are refused."`
	ReserveFile            ByteSize `key:"reserve_file" default:"64MiB" unit:"size" doc:"Space held back for the metadata log, freed when the disk is full."`
}

// Topics are the defaults of topics.
type Topics struct {
	Partitions            int32    `key:"partitions" default:"1" unit:"number" doc:"Partitions of a topic whose maker does not say."`
	Replication           int16    `key:"replication" default:"3" unit:"number" doc:"Replicas of a partition when the topic's maker does not say; lowered to the number of nodes."`
	AutoCreate            bool     `key:"auto_create" default:"false" doc:"Make a topic when a client asks for one that is not there."`
	MaxMessageBytes       ByteSize `key:"max_message_bytes" default:"1048588" unit:"size" doc:"Largest record batch: 1 MiB and the 12 bytes before its length counts, as Kafka has it."`
	UncleanLeaderElection bool     `key:"unclean_leader_election" default:"false" doc:"Let a replica lead that may lack acknowledged records, rather than wait."`
}

// Replication is how followers fetch.
type Replication struct {
	LagTimeMax    Duration `key:"lag_time_max" default:"10s" unit:"duration" doc:"A follower that has not been level with its leader for this long is out of sync."`
	FetchWaitMax  Duration `key:"fetch_wait_max" default:"500ms" unit:"duration" doc:"How long a fetch between nodes waits for records."`
	FetchMaxBytes ByteSize `key:"fetch_max_bytes" default:"10MiB" unit:"size" doc:"Most bytes in the answer to one fetch between nodes."`
}

// Limits bound what clients may ask.
type Limits struct {
	RequestMaxBytes    ByteSize `key:"request_max_bytes" default:"100MiB" unit:"size" doc:"Largest request."`
	ConnectionsMax     int      `key:"connections_max" default:"10000" unit:"number" doc:"Most open connections of clients."`
	ConnectionsMaxIdle Duration `key:"connections_max_idle" default:"10m" unit:"duration" doc:"A connection on which nothing was asked for this long is closed."`
	InflightBytes      ByteSize `key:"inflight_bytes" default:"512MiB" unit:"size" doc:"Memory for requests and answers under way, over all connections."`
}

// Log is the node's own log.
type Log struct {
	Level  string `key:"level" default:"info" unit:"debug, info, warn or error" doc:"Least level that is written."`
	Format string `key:"format" default:"auto" unit:"auto, text or json" doc:"auto: text on a terminal, json otherwise."`
}

// defaultListeners are the listeners when the file names none; a listener of the file with one of these names takes
// from here what it does not give.
var defaultListeners = map[string]Listener{
	"internal": {Bind: "0.0.0.0:9092", Advertise: "localhost:9092"},
	"external": {Bind: "0.0.0.0:19092", Advertise: "localhost:19092"},
}

// DefaultPath is where serve and health look for the file when they are not told.
const DefaultPath = "/etc/cordwood/cordwood.yaml"

// Std is d as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// Int64 is b in bytes; -1 where the key says "never".
func (b ByteSize) Int64() int64 { return int64(b) }
