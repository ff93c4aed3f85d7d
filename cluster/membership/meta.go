package membership

import (
	"encoding/json"
	"errors"
	"fmt"
)

// maxMeta bounds a node's own description, in bytes: what memberlist carries (it panics on more).
const maxMeta = 512

var errMeta = errors.New("malformed gossip meta")

// meta is what a node says of itself in gossip: where to ask it, nothing to decide on.
type meta struct {
	NodeID        int32  `json:"n"`
	DirectoryID   string `json:"d"`
	ClusterID     string `json:"c,omitempty"` // empty: none yet
	RaftAddress   string `json:"r"`           // name and port
	GossipAddress string `json:"g"`           // as it stands in cluster.join
	// Leaving is set before the good-bye: memberlist does not tell its listeners a good-bye from a death.
	Leaving bool `json:"l,omitempty"`
}

// encode refuses what memberlist could not carry.
func (m meta) encode() ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("gossip meta: %w", err)
	}
	if len(b) > maxMeta {
		return nil, fmt.Errorf("%w: %d bytes, %d are carried; shorten raft.advertise and gossip.advertise", errMeta, len(b), maxMeta)
	}
	return b, nil
}

func decodeMeta(b []byte) (meta, error) {
	var m meta
	if len(b) > maxMeta {
		return meta{}, fmt.Errorf("%w: %d bytes", errMeta, len(b))
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return meta{}, fmt.Errorf("%w: %w", errMeta, err)
	}
	if m.NodeID < 0 || m.DirectoryID == "" {
		return meta{}, fmt.Errorf("%w: no node id or directory id", errMeta)
	}
	return m, nil
}
