// Package history holds what clients did to a cluster and saw of it, reads and writes it as one JSON object a line, and
// judges it: every anomaly that Jepsen's Kafka tests know, and checks of our own. It is pure but for the reader and writer it
// is given; nothing here talks to a cluster.
package history

import "time"

// Version is of the format. A newer one is refused, since what it adds could change a verdict.
const Version = 1

// Header is the first line: what the run was.
type Header struct {
	Version int       `json:"version"`
	Began   time.Time `json:"began"` // times of all other lines count from here
	Seed    uint64    `json:"seed"`
	Nodes   int       `json:"nodes"`
	Flags   []string  `json:"flags,omitempty"` // to repeat the run
	Topics  []Topic   `json:"topics"`
	Keys    []Key     `json:"keys"` // a key of operations is an index into it

	// Transactions says that the groups of sends and polls were transactions. Without, they are only done one after another,
	// and may see what they sent themselves.
	Transactions bool `json:"transactions,omitempty"`

	// Subscriptions says that the cluster has consumer groups, and that every third client, from the second on, subscribed as
	// a member of one, where its library can. Without, all were assigned what they read.
	Subscriptions bool `json:"subscriptions,omitempty"`
}

// Topic is a topic's settings, on which its verdict depends, and how the clients wrote to it.
type Topic struct {
	Name       string `json:"name"`
	Replicas   int    `json:"replicas"`
	MinISR     int    `json:"minISR"`
	Rule       string `json:"rule"`       // isr or quorum
	Durability string `json:"durability"` // memory or disk
	MinAcks    string `json:"minAcks"`
	Acks       string `json:"acks"` // of the producers: 0, 1, 2 and so on, or all

	// Repeats says that the producers tried again without being idempotent, so that any record may be there twice.
	Repeats bool `json:"repeats,omitempty"`
}

// Key is one partition.
type Key struct {
	Topic     int   `json:"topic"` // index into Header.Topics
	Partition int32 `json:"partition"`
}

// Type says what became of an operation.
type Type string

// The types. An operation that was under way when its client was given up, or the run ended, is Info.
const (
	OK   Type = "ok"
	Fail Type = "fail" // certainly not done
	Info Type = "info" // perhaps done, now or later
)

// F is what an operation is.
type F string

// The operations. Txn is a group of sends and polls; Assign and Subscribe name the keys that are read from now on, Subscribe
// those that the members of a group share, so that each member reads some of them; Crash gives the client up and takes a new one.
// A rebalance of the group is no operation: the next one names what it moved.
const (
	Send      F = "send"
	Poll      F = "poll"
	Txn       F = "txn"
	Assign    F = "assign"
	Subscribe F = "subscribe"
	Crash     F = "crash"
)

// Op is one operation of one process: a client, which does one thing after another.
type Op struct {
	Process int           `json:"p"`
	Type    Type          `json:"type"`
	F       F             `json:"f"`
	Start   time.Duration `json:"start"` // nanoseconds since Header.Began
	End     time.Duration `json:"end"`
	Mops    []Mop         `json:"mops,omitempty"`
	Keys    []int         `json:"keys,omitempty"`  // of Assign and Subscribe
	Moved   []int         `json:"moved,omitempty"` // keys whose assignment changed since the operation before, or within this one
	Final   bool          `json:"final,omitempty"` // a poll after the faults were healed
	Error   string        `json:"error,omitempty"`
	Node    int           `json:"node,omitempty"`   // that answered, where it is known
	Client  string        `json:"client,omitempty"` // library that did it; empty: franz-go

	// Repeats says that a client that is not idempotent wrote a record more than once, so that it may be there twice.
	Repeats bool `json:"repeats,omitempty"`
}

// Mop is one send or one poll of an operation. Exactly one of Send and Poll is set.
type Mop struct {
	Send *Sent  `json:"send,omitempty"`
	Poll []Seen `json:"poll,omitempty"` // in the order they came; of one or more keys
}

// Sent is one record that was handed to a producer. Values are unique in their key and at least 1; each is sent once by the
// harness, only the client library may repeat it.
type Sent struct {
	Key    int   `json:"k"`
	Value  int64 `json:"v"`
	Offset int64 `json:"o"` // -1: not told
}

// Seen is one record that a poll gave.
type Seen struct {
	Key    int   `json:"k"`
	Value  int64 `json:"v"`
	Offset int64 `json:"o"`
}

// Fault is something that was done to the cluster, or undone.
type Fault struct {
	Name   string        `json:"name"` // of the nemesis, such as kill
	Nodes  []int         `json:"nodes,omitempty"`
	What   string        `json:"what,omitempty"` // for people
	Start  time.Duration `json:"start"`
	End    time.Duration `json:"end"` // healed
	Failed string        `json:"failed,omitempty"`
}

// Loss is what a cluster said it may have lost: offsets [From, To) of a key.
type Loss struct {
	Key  int           `json:"k"`
	From int64         `json:"from"`
	To   int64         `json:"to"`
	At   time.Duration `json:"at"`

	// Media says that disks were lost or damaged, so that it may be true of fsynced records too. Without, a topic of
	// durability disk may not lose what was acknowledged.
	Media bool `json:"media,omitempty"`
}

// Watermark is a high watermark that one client was told. One of an older epoch than the client was told before is not held
// against the cluster.
type Watermark struct {
	Process int           `json:"p"`
	Key     int           `json:"k"`
	High    int64         `json:"high"` // exclusive
	Epoch   int32         `json:"epoch"`
	Node    int           `json:"node,omitempty"`
	At      time.Duration `json:"at"`
}

// Copy is the log of one key on one node, read after everything was healed: one entry for each batch.
type Copy struct {
	Key     int     `json:"k"`
	Node    int     `json:"node"`
	Start   int64   `json:"start"`
	End     int64   `json:"end"`
	High    int64   `json:"high"` // exclusive
	Batches []Batch `json:"batches"`
}

// Batch is one batch of a Copy.
type Batch struct {
	Base    int64   `json:"o"`
	Last    int64   `json:"l"`
	Epoch   int32   `json:"e"`
	Control bool    `json:"c,omitempty"`
	CRC     uint32  `json:"crc"`
	Values  []int64 `json:"v,omitempty"` // of its records, where they are ours; 0: another one's
}

// History is a whole run.
type History struct {
	Header     Header
	Ops        []Op // by End
	Faults     []Fault
	Losses     []Loss
	Watermarks []Watermark
	Copies     []Copy
}
