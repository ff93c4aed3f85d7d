package metadata

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

// Encode gives the bytes of the tagged field.
func (n NodeInfo) Encode() []byte { return encodeField(n) }

// Encode gives the bytes of the tagged field.
func (p PartitionInfo) Encode() []byte { return encodeField(p) }

// DecodeNodeInfo reads TagNodeInfo.
func DecodeNodeInfo(b []byte) (NodeInfo, error) { return decodeField[NodeInfo](b) }

// DecodePartitionInfo reads TagPartitionInfo.
func DecodePartitionInfo(b []byte) (PartitionInfo, error) { return decodeField[PartitionInfo](b) }
