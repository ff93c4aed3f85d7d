// Package metadata is the replicated metadata of a cluster: brokers, topics, partition records, and the commands that
// change them. It is pure: no goroutine, lock, file, socket, clock or randomness. Commands carry times and random ids
// with them, so that every node computes the same image.
package metadata

import (
	"cordwood/logstore/record"
)

// NoNode stands where a node id is asked for and there is none.
const NoNode int32 = -1

// Levels of the metadata format. A registration carries the range that its binary understands; the image holds the
// finalised one. No command above the finalised level is proposed.
const (
	MinLevel    int32 = 1
	LatestLevel int32 = QuorumLevel
)

// CommitRule says when a record counts as committed and who may be elected (docs: the table of commit.rule).
type CommitRule string

// The commit rules, and the two transitions between them in which both hold.
const (
	RuleISR         CommitRule = "isr"
	RuleQuorum      CommitRule = "quorum"
	RuleISRToQuorum CommitRule = "isr-to-quorum"
	RuleQuorumToISR CommitRule = "quorum-to-isr"
)

// ElectBy is the rule by which leaders are elected while r is in force: the old rule until a change is finished.
func (r CommitRule) ElectBy() CommitRule {
	if r == RuleQuorum || r == RuleQuorumToISR {
		return RuleQuorum
	}
	return RuleISR
}

// Target is the rule that will be in force once the change under way is finished; r itself when none is.
func (r CommitRule) Target() CommitRule {
	switch r {
	case RuleISRToQuorum:
		return RuleQuorum
	case RuleQuorumToISR:
		return RuleISR
	}
	return r
}

// Changing says that r is a transition, in which both rules hold.
func (r CommitRule) Changing() bool { return r == RuleISRToQuorum || r == RuleQuorumToISR }

// Durability says where a replica's copy counts.
type Durability string

// The durabilities, and the transition to disk, in which positions count from disk and trust still from memory.
const (
	DurabilityMemory       Durability = "memory"
	DurabilityMemoryToDisk Durability = "memory-to-disk"
	DurabilityDisk         Durability = "disk"
)

// Target is the durability that will be in force once the change under way is finished; d itself when none is.
func (d Durability) Target() Durability {
	if d == DurabilityMemoryToDisk {
		return DurabilityDisk
	}
	return d
}

// RecoveryPolicy says how a partition without any safe candidate is led again (replication: OFFLINE_UNSAFE).
type RecoveryPolicy string

// The recovery policies.
const (
	RecoverWaitAll   RecoveryPolicy = "wait-all"
	RecoverManual    RecoveryPolicy = "manual"
	RecoverProactive RecoveryPolicy = "proactive"
)

// Endpoint is an address of a node under a listener's name, as clients are told: handed out as written, never resolved.
type Endpoint struct {
	Host string `json:"host"`
	Port int32  `json:"port"`
}

// Broker is a registered node. Values in an Image are immutable.
type Broker struct {
	ID          int32               `json:"id"`
	Epoch       int64               `json:"epoch"`             // raft index of the registration that is in force
	Incarnation string              `json:"incarnation"`       // uuid of the process that registered
	Earlier     []string            `json:"earlier,omitempty"` // incarnations before it, newest first, bounded: their registrations come too late
	DirectoryID string              `json:"directoryId"`
	Rack        string              `json:"rack,omitempty"`
	Listeners   map[string]Endpoint `json:"listeners"` // by listener name
	RaftAddress string              `json:"raftAddress"`
	Fenced      bool                `json:"fenced"`
	Class       RestartClass        `json:"class"`     // what this restart may have lost
	Draining    bool                `json:"draining"`  // in controlled shutdown: never elected, never added to an ISR
	LossMedia   int64               `json:"lossMedia"` // epoch of the last registration that may have lost fsynced bytes; 0 never
	LossPower   int64               `json:"lossPower"` // epoch of the last one that may have lost any acknowledged bytes; >= LossMedia
	MinLevel    int32               `json:"minLevel"`
	MaxLevel    int32               `json:"maxLevel"`
	Version     string              `json:"version"`
}

// Alive says that the broker is registered and unfenced.
func (b *Broker) Alive() bool { return b != nil && !b.Fenced }

// MayLead says that the broker may be elected and may join an ISR: registered, unfenced and not shutting down.
func (b *Broker) MayLead() bool { return b.Alive() && !b.Draining }

// Replica is one member of a partition's V ∪ Vnew ∪ adding with what is recorded of it.
type Replica struct {
	ID     int32 `json:"id"`
	JoinPE int32 `json:"joinPE"` // partition epoch of the record by which it came in
	Cert   int64 `json:"cert"`   // broker epoch under which it was last certified complete; -1 never
}

// Partition is the record of one partition: every field of the protocol, also those whose rules come later. Values in
// an Image are immutable; a change makes a new one.
type Partition struct {
	ID record.PartitionID `json:"-"`

	Replicas    []int32   `json:"replicas"`              // V, preferred leader first
	NewReplicas []int32   `json:"newReplicas,omitempty"` // Vnew: empty unless joint
	Adding      []int32   `json:"adding,omitempty"`      // observers being filled by a reassignment
	Members     []Replica `json:"members"`               // V ∪ Vnew ∪ adding, sorted by id

	Rule       CommitRule     `json:"rule"`
	Durability Durability     `json:"durability"`
	Recovery   RecoveryPolicy `json:"recovery"`
	MinISR     int32          `json:"minISR"`
	BeginPE    int32          `json:"beginPE,omitempty"` // partition epoch of the record that began the present change

	Leader            int32   `json:"leader"`            // NoNode if none
	LeaderBrokerEpoch int64   `json:"leaderBrokerEpoch"` // epoch of the leader's process that was elected
	LeaderEpoch       int32   `json:"leaderEpoch"`
	PartitionEpoch    int32   `json:"partitionEpoch"`
	ISR               []int32 `json:"isr"`
	ELR               []int32 `json:"elr,omitempty"`
	LastLeader        int32   `json:"lastLeader"` // of the last election applied; NoNode before the first
	LossEpoch         int32   `json:"lossEpoch"`  // leader epoch of the last flagged unsafe election; 0 never
}

// Member gives the recorded facts of one replica, nil if it is none.
func (p *Partition) Member(id int32) *Replica {
	for i := range p.Members {
		if p.Members[i].ID == id {
			return &p.Members[i]
		}
	}
	return nil
}

// IsReplica says that id is in V ∪ Vnew ∪ adding.
func (p *Partition) IsReplica(id int32) bool { return p.Member(id) != nil }

// Topic is one life of a topic. Values in an Image are immutable.
type Topic struct {
	ID         record.TopicID    `json:"id"`
	Name       string            `json:"name"`
	Configs    map[string]string `json:"configs,omitempty"` // set on the topic; defaults are not stored
	Partitions []*Partition      `json:"partitions"`        // index = partition number
}
