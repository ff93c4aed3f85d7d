package metadata

import "cordwood/logstore/record"

// Command is one change of the metadata, appended to the raft log and then replayed by every node. It carries time and
// random ids, is refused as a whole or per item by its result, and is safe to apply twice: compare-and-set fields or a
// RequestID make the copy harmless.
type Command interface{ Kind() Kind }

// Kind numbers commands in the log. Numbers are never reused.
type Kind uint16

// The kinds of commands. Each has a version of its own in the codec.
const (
	KindSetCluster         Kind = 1
	KindRegisterBroker     Kind = 2
	KindFenceBrokers       Kind = 3
	KindUnfenceBroker      Kind = 4
	KindUnregisterBroker   Kind = 5
	KindCreateTopics       Kind = 6
	KindDeleteTopics       Kind = 7
	KindCreatePartitions   Kind = 8
	KindAlterTopicConfigs  Kind = 9
	KindAlterPartitions    Kind = 10
	KindElect              Kind = 11
	KindUnsafeElect        Kind = 12
	KindCertify            Kind = 13
	KindReplicaDamaged     Kind = 14
	KindSetMinISR          Kind = 15
	KindAllocateProducerID Kind = 16
	KindSetLevel           Kind = 17

	// From level 2.
	KindBeginElection Kind = 18
	KindElectReported Kind = 19
	KindReassign      Kind = 20
	KindEnterJoint    Kind = 21
	KindFinishChange  Kind = 22
)

// RequestID makes a forwarded request idempotent: the image remembers the answers of the newest ones (bounded) and gives
// them again. The zero value asks for no memory.
type RequestID [16]byte

// SetCluster is the first command of a cluster: it creates its id and finalises the level.
type SetCluster struct {
	ClusterID string `json:"clusterId"`
	Level     int32  `json:"level"`
}

// RegisterBroker registers one process of a node. The result carries the broker epoch, which is the raft index; the same
// incarnation again gets the same epoch.
type RegisterBroker struct {
	Broker  Broker               `json:"broker"`            // Epoch, Fenced, Draining, Loss* are decided by the apply
	Earlier []EarlierIncarnation `json:"earlier,omitempty"` // newest first, back to the last registration known to have succeeded
	Clean   bool                 `json:"clean"`             // the clean flag was set and all ends and sizes matched
	// Mismatch says that the clean flag was set, but ends or sizes did not match: bytes that were fsynced are gone.
	Mismatch bool `json:"mismatch,omitempty"`
	BootOK   bool `json:"bootOk"` // the present boot id is readable
}

// EarlierIncarnation is an incarnation that session.json remembers.
type EarlierIncarnation struct {
	ID       string `json:"id"`
	SameBoot bool   `json:"sameBoot"` // its boot id is the present one
}

// RestartClass is what a restart may have lost, decided by the FSM.
type RestartClass string

// The classes of a restart (replication: broker start and crash classes).
const (
	RestartClean        RestartClass = "clean"
	RestartProcessCrash RestartClass = "process-crash"
	RestartLossyPower   RestartClass = "lossy-power"
	RestartLossyMedia   RestartClass = "lossy-media"
)

// BrokerEpoch names one process of one node.
type BrokerEpoch struct {
	ID    int32 `json:"id"`
	Epoch int64 `json:"epoch"`
}

// FenceBrokers takes brokers out: from every ISR, from every leadership. One command covers all their partitions and
// elects the successors that are safe at once. Draining marks a controlled shutdown: leaders and ISR membership go,
// the broker stays unfenced until its process ends.
type FenceBrokers struct {
	Brokers  []BrokerEpoch `json:"brokers"`
	Draining bool          `json:"draining,omitempty"`
	Reason   string        `json:"reason"`
}

// UnfenceBroker lets a registered broker lead and be seen by clients, and elects for leaderless partitions.
type UnfenceBroker struct {
	Broker BrokerEpoch `json:"broker"`
}

// UnregisterBroker forgets a node. Refused while it holds replicas or is alive.
type UnregisterBroker struct {
	ID      int32     `json:"id"`
	Request RequestID `json:"request"`
}

// NewTopic is one topic of CreateTopics, placed and validated by the proposer, judged again by the apply.
type NewTopic struct {
	ID         record.TopicID    `json:"id"`
	Name       string            `json:"name"`
	Configs    map[string]string `json:"configs,omitempty"`
	Assignment [][]int32         `json:"assignment"` // replicas by partition, preferred leader first
	Rule       CommitRule        `json:"rule"`
	Durability Durability        `json:"durability"`
	Recovery   RecoveryPolicy    `json:"recovery"`
	MinISR     int32             `json:"minISR"`
	// Forced takes what is legal but not wise: the quorum rule with two replicas. From level 2.
	Forced bool `json:"forced,omitempty"`
}

// CreateTopics creates topics; each succeeds or fails by itself.
type CreateTopics struct {
	Topics  []NewTopic `json:"topics"`
	Request RequestID  `json:"request"`
}

// DeleteTopics deletes topics by id; each succeeds or fails by itself.
type DeleteTopics struct {
	Topics  []record.TopicID `json:"topics"`
	Request RequestID        `json:"request"`
}

// MorePartitions is one topic of CreatePartitions.
type MorePartitions struct {
	Topic      record.TopicID `json:"topic"`
	First      int32          `json:"first"` // number of partitions before: compare-and-set
	Assignment [][]int32      `json:"assignment"`
}

// CreatePartitions adds partitions; each topic succeeds or fails by itself.
type CreatePartitions struct {
	Topics  []MorePartitions `json:"topics"`
	Request RequestID        `json:"request"`
}

// TopicConfigChange sets and removes settings of one topic.
type TopicConfigChange struct {
	Topic  record.TopicID    `json:"topic"`
	Set    map[string]string `json:"set,omitempty"`
	Remove []string          `json:"remove,omitempty"`
	MinISR int32             `json:"minISR,omitempty"` // new value for all partitions; 0 leaves it
	// Recovery is the new policy for all partitions; empty leaves it.
	Recovery RecoveryPolicy `json:"recovery,omitempty"`
	// Rule begins the change to another commit rule on all partitions; the present one aborts a change that is under way,
	// empty leaves it. From level 2.
	Rule CommitRule `json:"rule,omitempty"`
	// Durability begins the change to another durability on all partitions; the present one aborts a change that is under
	// way, empty leaves it. From level 2.
	Durability Durability `json:"durability,omitempty"`
	// Forced takes what is legal but not wise: the quorum rule with two replicas. From level 2.
	Forced bool `json:"forced,omitempty"`
}

// AlterTopicConfigs changes settings; each topic succeeds or fails by itself. A value is computed by the proposer, so
// that AlterConfigs and IncrementalAlterConfigs share it.
type AlterTopicConfigs struct {
	Topics  []TopicConfigChange `json:"topics"`
	Request RequestID           `json:"request"`
}

// PartitionChange is one leader's proposal of an ISR: a compare-and-set on leader, its broker epoch, leader epoch and
// partition epoch. Every member comes with its broker epoch.
type PartitionChange struct {
	Partition         record.PartitionID `json:"partition"`
	Leader            int32              `json:"leader"`
	LeaderBrokerEpoch int64              `json:"leaderBrokerEpoch"`
	LeaderEpoch       int32              `json:"leaderEpoch"`
	PartitionEpoch    int32              `json:"partitionEpoch"`
	ISR               []BrokerEpoch      `json:"isr"`
}

// AlterPartitions carries the proposals of many partitions; each is judged by itself.
type AlterPartitions struct {
	Changes []PartitionChange `json:"changes"`
}

// Election is one leader proposed under the ISR rule: a compare-and-set on leader epoch and partition epoch. The FSM
// checks the candidate and never trusts the proposer.
type Election struct {
	Partition      record.PartitionID `json:"partition"`
	LeaderEpoch    int32              `json:"leaderEpoch"`
	PartitionEpoch int32              `json:"partitionEpoch"`
	Leader         int32              `json:"leader"`
}

// Elect carries the elections of many partitions; each is judged by itself.
type Elect struct {
	Elections []Election `json:"elections"`
}

// ReplicaReport is what a replica says of its log when no leader is known.
type ReplicaReport struct {
	Broker    BrokerEpoch `json:"broker"`
	LastEpoch int32       `json:"lastEpoch"` // newest entry of the epoch cache; -1 never written
	End       int64       `json:"end"`       // log end offset, exclusive
	HW        int64       `json:"hw"`        // the replica's high watermark hint; only named in the loss event
}

// ElectionStart ends the leadership of a partition whose leaders are elected by reports, before the next one may be
// elected: a compare-and-set on leader epoch and leader. Fencing a leader does the same in its own record.
type ElectionStart struct {
	Partition   record.PartitionID `json:"partition"`
	LeaderEpoch int32              `json:"leaderEpoch"`
	Leader      int32              `json:"leader"` // NoNode: there is none already; a new epoch throws away the reports of this one
}

// BeginElection carries the starts of many partitions; each is judged by itself.
type BeginElection struct {
	Elections []ElectionStart `json:"elections"`
}

// ReportedElection is one leader proposed under the quorum rule. Voters are the reports that prove it: of a majority of
// trusted replicas, of which the leader's log is the most complete; or the last leader's own report alone. The FSM checks
// every voter again and never trusts the proposer.
type ReportedElection struct {
	Partition   record.PartitionID `json:"partition"`
	LeaderEpoch int32              `json:"leaderEpoch"` // in which the voters reported; it stays
	Leader      BrokerEpoch        `json:"leader"`
	Voters      []ReplicaReport    `json:"voters"`
}

// ElectReported carries the elections of many partitions; each is judged by itself.
type ElectReported struct {
	Elections []ReportedElection `json:"elections"`
}

// AnyPartitionEpoch stands where a change does not compare the partition epoch.
const AnyPartitionEpoch int32 = -1

// Reassignment begins the move of one partition to other replicas, or cancels the one that is under way.
type Reassignment struct {
	Partition      record.PartitionID `json:"partition"`
	PartitionEpoch int32              `json:"partitionEpoch"`   // compare-and-set; AnyPartitionEpoch
	Target         []int32            `json:"target,omitempty"` // preferred leader first; empty cancels
	Forced         bool               `json:"forced,omitempty"` // two replicas under the quorum rule are taken
}

// Reassign carries the reassignments of many partitions; each succeeds or fails by itself.
type Reassign struct {
	Items   []Reassignment `json:"items"`
	Request RequestID      `json:"request"`
}

// JointEntry takes a reassignment under the quorum rule from filling observers to two sets in force: a compare-and-set
// on the partition epoch. Every member of the target must be trusted.
type JointEntry struct {
	Partition      record.PartitionID `json:"partition"`
	PartitionEpoch int32              `json:"partitionEpoch"`
}

// EnterJoint carries the entries of many partitions; each is judged by itself.
type EnterJoint struct {
	Items []JointEntry `json:"items"`
}

// Evidence is a position that the leader counted in its present epoch.
type Evidence struct {
	Broker BrokerEpoch `json:"broker"`
	Offset int64       `json:"offset"`
}

// Finish ends the change that is under way on one partition, be it of rule, durability or replicas: a compare-and-set on
// leader, its broker epoch, leader epoch and partition epoch. Evidence is every position at or above Point; the FSM
// counts it again.
type Finish struct {
	Partition         record.PartitionID `json:"partition"`
	Leader            int32              `json:"leader"`
	LeaderBrokerEpoch int64              `json:"leaderBrokerEpoch"`
	LeaderEpoch       int32              `json:"leaderEpoch"`
	PartitionEpoch    int32              `json:"partitionEpoch"`
	Point             int64              `json:"point"` // log end, exclusive, that the new regime is proven to hold
	Evidence          []Evidence         `json:"evidence"`
}

// FinishChange carries the finishes of many partitions; each is judged by itself.
type FinishChange struct {
	Items []Finish `json:"items"`
}

// UnsafeElection elects the most complete log of a partition that has no safe candidate, and flags it.
type UnsafeElection struct {
	Partition record.PartitionID `json:"partition"`
	Epoch     int32              `json:"epoch"` // present leader epoch
	Leader    BrokerEpoch        `json:"leader"`
	Reports   []ReplicaReport    `json:"reports"`
	// Forced is the operator's or the topic's word for an unclean election among the unfenced reporters
	// (unclean.leader.election.enable, ElectLeaders type 1).
	Forced bool `json:"forced,omitempty"`
}

// UnsafeElect carries unsafe elections; each is judged by itself and raises DataLossPossible.
type UnsafeElect struct {
	Elections []UnsafeElection `json:"elections"`
}

// Certification says that b's log of this stay is complete.
type Certification struct {
	Partition         record.PartitionID `json:"partition"`
	LeaderEpoch       int32              `json:"leaderEpoch"`
	LeaderBrokerEpoch int64              `json:"leaderBrokerEpoch"`
	Broker            BrokerEpoch        `json:"broker"`
	JoinPE            int32              `json:"joinPE"`
}

// Certify carries certifications; each is judged by itself.
type Certify struct {
	Items []Certification `json:"items"`
}

// ReplicaDamaged takes the replicas of one broker out of ISR and ELR before their first report, fetch or lead.
type ReplicaDamaged struct {
	Broker     BrokerEpoch          `json:"broker"`
	Partitions []record.PartitionID `json:"partitions"`
}

// SetMinISR changes min.insync.replicas of partitions by compare-and-set.
type SetMinISR struct {
	Partition      record.PartitionID `json:"partition"`
	PartitionEpoch int32              `json:"partitionEpoch"`
	MinISR         int32              `json:"minISR"`
}

// AllocateProducerIDs hands out a block of producer ids, never again.
type AllocateProducerIDs struct {
	Broker BrokerEpoch `json:"broker"`
	Count  int32       `json:"count"`
}

// SetLevel finalises a higher metadata level.
type SetLevel struct {
	Level   int32     `json:"level"`
	Request RequestID `json:"request"`
}

// Result is what applying a command answered. It is remembered with the request id.
type Result struct {
	Index uint64       `json:"index"` // raft index of the command
	Err   error        `json:"-"`     // refusal of the whole command
	Items []error      `json:"-"`     // refusal by item, in the command's order; nil entries succeeded
	Epoch int64        `json:"epoch"` // RegisterBroker: the broker epoch
	Class RestartClass `json:"class"` // RegisterBroker: what the restart may have lost
	First int64        `json:"first"` // AllocateProducerIDs: first id of the block
}

func (*SetCluster) Kind() Kind          { return KindSetCluster }
func (*RegisterBroker) Kind() Kind      { return KindRegisterBroker }
func (*FenceBrokers) Kind() Kind        { return KindFenceBrokers }
func (*UnfenceBroker) Kind() Kind       { return KindUnfenceBroker }
func (*UnregisterBroker) Kind() Kind    { return KindUnregisterBroker }
func (*CreateTopics) Kind() Kind        { return KindCreateTopics }
func (*DeleteTopics) Kind() Kind        { return KindDeleteTopics }
func (*CreatePartitions) Kind() Kind    { return KindCreatePartitions }
func (*AlterTopicConfigs) Kind() Kind   { return KindAlterTopicConfigs }
func (*AlterPartitions) Kind() Kind     { return KindAlterPartitions }
func (*Elect) Kind() Kind               { return KindElect }
func (*UnsafeElect) Kind() Kind         { return KindUnsafeElect }
func (*Certify) Kind() Kind             { return KindCertify }
func (*ReplicaDamaged) Kind() Kind      { return KindReplicaDamaged }
func (*SetMinISR) Kind() Kind           { return KindSetMinISR }
func (*AllocateProducerIDs) Kind() Kind { return KindAllocateProducerID }
func (*SetLevel) Kind() Kind            { return KindSetLevel }
func (*BeginElection) Kind() Kind       { return KindBeginElection }
func (*ElectReported) Kind() Kind       { return KindElectReported }
func (*Reassign) Kind() Kind            { return KindReassign }
func (*EnterJoint) Kind() Kind          { return KindEnterJoint }
func (*FinishChange) Kind() Kind        { return KindFinishChange }
