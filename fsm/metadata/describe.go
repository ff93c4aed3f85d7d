package metadata

import (
	"encoding/binary"
	"fmt"
)

// Private tags of answers that describe a cluster: what Kafka's fields have no room for. Clients skip tags that they
// do not know.
const (
	TagNodeInfo      uint32 = 10020 // DescribeCluster, per broker
	TagPartitionInfo uint32 = 10021 // DescribeTopicPartitions, per partition
	TagCopyPlace     uint32 = 10022 // DescribeQuorum, per replica of a topic partition
	TagAckLatency    uint32 = 10023 // DescribeQuorum, per topic; as a request's own field it asks for it
	TagHistory       uint32 = 10024 // DescribeTopicPartitions, per partition; as a request's own field it asks for it
	TagForced        uint32 = 10031 // CreateTopics, AlterConfigs, AlterPartitionReassignments: take it all the same
)

// DevFetchDelay is the one setting of a broker that may be altered, on a node with dev_mode alone: milliseconds by which
// its replication is delayed.
const DevFetchDelay = "dev.fetch_delay_ms"

// States of a node as people are told.
const (
	NodeAlive    = "alive"
	NodeFenced   = "fenced"
	NodeDraining = "draining" // in controlled shutdown
	NodeDead     = "dead"     // fenced, and gossip has declared it dead or left
)

// NodeInfo is the body of TagNodeInfo.
type NodeInfo struct {
	State    string `json:"state"`
	Voter    bool   `json:"voter"`
	Replicas int32  `json:"replicas"`
	Leaders  int32  `json:"leaders"`
	Rack     string `json:"rack"`
	Version  string `json:"version"`
	MinLevel int32  `json:"minLevel"` // metadata levels that the node understands
	MaxLevel int32  `json:"maxLevel"`
	Level    int32  `json:"level"` // the finalised one, the same for all nodes
}

// PartitionInfo is the body of TagPartitionInfo.
type PartitionInfo struct {
	PartitionEpoch int32          `json:"partitionEpoch"`
	MinISR         int32          `json:"minISR"`
	Rule           CommitRule     `json:"rule,omitempty"`
	Durability     Durability     `json:"durability,omitempty"`
	Recovery       RecoveryPolicy `json:"recovery,omitempty"`
	BeginPE        int32          `json:"beginPE,omitempty"`     // partition epoch of the record that began the present change
	Present        []int32        `json:"present,omitempty"`     // V, while a reassignment is under way: the answer shows more
	NewReplicas    []int32        `json:"newReplicas,omitempty"` // two sets are in force
	Adding         []int32        `json:"adding,omitempty"`      // target of a reassignment that fills observers
	Trusted        []int32        `json:"trusted,omitempty"`     // members that may vote in an election by reports
	// LastLeader is who may lead again on its own report; NoNode: nobody.
	LastLeader int32 `json:"lastLeader"`
	// LossEpoch is the leader epoch of the last flagged unsafe election; 0 never.
	LossEpoch int32  `json:"lossEpoch,omitempty"`
	Safety    Safety `json:"safety,omitempty"`
}

// PartitionInfo tells of a partition of this image what Kafka's fields have no room for.
func (i *Image) PartitionInfo(p *Partition) PartitionInfo {
	info := PartitionInfo{
		PartitionEpoch: p.PartitionEpoch, MinISR: p.MinISR, Rule: p.Rule, Durability: p.Durability, Recovery: p.Recovery,
		BeginPE: p.BeginPE, NewReplicas: p.NewReplicas, Adding: p.Adding, Trusted: TrustedReplicas(p, i.Broker), LastLeader: NoNode,
		LossEpoch: p.LossEpoch, Safety: i.Safety(p),
	}
	if len(p.NewReplicas)+len(p.Adding) > 0 {
		info.Present = p.Replicas
	}
	if lastLeaderHolds(p, i.Broker) {
		info.LastLeader = p.LastLeader
	}
	return info
}

// CopyPlace is the body of TagCopyPlace: 16 bytes, big-endian.
type CopyPlace struct {
	Flushed  int64 // end of the prefix on disk; -1 unknown
	LogStart int64 // first offset of the log; -1 unknown, as of a replica on another node
}

// Encode gives the bytes of the tagged field.
func (c CopyPlace) Encode() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(c.Flushed)), uint64(c.LogStart))
}

// DecodeCopyPlace reads TagCopyPlace, else ErrCorruptField.
func DecodeCopyPlace(b []byte) (CopyPlace, error) {
	if len(b) != 16 {
		return CopyPlace{}, fmt.Errorf("%w: place of a copy in %d bytes", ErrCorruptField, len(b))
	}
	return CopyPlace{Flushed: int64(binary.BigEndian.Uint64(b)), LogStart: int64(binary.BigEndian.Uint64(b[8:]))}, nil
}

// Encode gives the bytes of the tagged field.
func (n NodeInfo) Encode() []byte { return encodeField(n) }

// Encode gives the bytes of the tagged field.
func (p PartitionInfo) Encode() []byte { return encodeField(p) }

// DecodeNodeInfo reads TagNodeInfo.
func DecodeNodeInfo(b []byte) (NodeInfo, error) { return decodeField[NodeInfo](b) }

// DecodePartitionInfo reads TagPartitionInfo.
func DecodePartitionInfo(b []byte) (PartitionInfo, error) { return decodeField[PartitionInfo](b) }
