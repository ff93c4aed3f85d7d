package metadata

import (
	"encoding/json"
	"fmt"
)

// Private tags of answers that describe a cluster: what Kafka's fields have no room for. Clients skip tags that they
// do not know.
const (
	TagNodeInfo      uint32 = 10020 // DescribeCluster, per broker
	TagPartitionInfo uint32 = 10021 // DescribeTopicPartitions, per partition
)

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
	PartitionEpoch int32 `json:"partitionEpoch"`
	MinISR         int32 `json:"minISR"`
}

// describeFormat is the first byte of both bodies; strict JSON follows it.
const describeFormat = 1

// Encode writes the body of TagNodeInfo.
func (n *NodeInfo) Encode() []byte { return encodeDescription(n) }

// Encode writes the body of TagPartitionInfo.
func (p *PartitionInfo) Encode() []byte { return encodeDescription(p) }

func encodeDescription(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // structs of numbers and strings always encode
	}
	return append([]byte{describeFormat}, b...)
}

// DecodeNodeInfo reads the body of TagNodeInfo.
func DecodeNodeInfo(b []byte) (n NodeInfo, err error) { return n, decodeDescription(b, &n) }

// DecodePartitionInfo reads the body of TagPartitionInfo.
func DecodePartitionInfo(b []byte) (p PartitionInfo, err error) { return p, decodeDescription(b, &p) }

func decodeDescription(b []byte, v any) error {
	if len(b) == 0 || b[0] != describeFormat {
		return fmt.Errorf("description tag: not of format %d", describeFormat)
	}
	if err := json.Unmarshal(b[1:], v); err != nil {
		return fmt.Errorf("description tag: %w", err)
	}
	return nil
}
