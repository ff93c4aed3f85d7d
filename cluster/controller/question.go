package controller

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// questionVersion is the version of the question and its answer.
const questionVersion = 1

// maxQuestion bounds a question and an answer, in bytes.
const maxQuestion = 64 << 10

var errQuestion = errors.New("malformed question or answer")

// question is what a node asks another one directly, over its raft port.
type question struct {
	Version     int    `json:"version"`
	ClusterName string `json:"clusterName"`
}

// answer is what a node says of itself. Forming a cluster and the care of the voters rest on it, never on gossip alone.
type answer struct {
	Version       int      `json:"version"`
	ClusterName   string   `json:"clusterName"`
	NodeID        int32    `json:"nodeId"`
	DirectoryID   string   `json:"directoryId"`
	ClusterID     string   `json:"clusterId"`     // empty: none on disk and none in the metadata
	HasState      bool     `json:"hasState"`      // raft's store holds entries or a snapshot: this node is of some cluster
	GossipAddress string   `json:"gossipAddress"` // as it stands in cluster.join
	RaftAddress   string   `json:"raftAddress"`   // name and port
	Join          []string `json:"join"`
	MaxLevel      int32    `json:"maxLevel,omitempty"` // highest metadata level that this binary knows; one that does not say knows 1
	LastIndex     uint64   `json:"lastIndex"`          // of raft's log
	AppliedIndex  uint64   `json:"appliedIndex"`
}

// writeMessage writes one length-prefixed JSON message.
func writeMessage(w io.Writer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if len(body) > maxQuestion {
		return fmt.Errorf("%w: %d bytes", errQuestion, len(body))
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}

// readMessage reads one length-prefixed JSON message. The size is checked before anything is allocated for it.
func readMessage(r io.Reader, v any) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxQuestion {
		return fmt.Errorf("%w: %d bytes", errQuestion, n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%w: %w", errQuestion, err)
	}
	return nil
}

// readAnswer reads an answer and refuses one of another version or name.
func readAnswer(r io.Reader, clusterName string) (answer, error) {
	var a answer
	if err := readMessage(r, &a); err != nil {
		return answer{}, err
	}
	if a.Version != questionVersion {
		return answer{}, fmt.Errorf("%w: version %d, this node speaks %d", errQuestion, a.Version, questionVersion)
	}
	if a.ClusterName != clusterName {
		return answer{}, fmt.Errorf("%w: the node is of cluster.name %q, this one of %q", errQuestion, a.ClusterName, clusterName)
	}
	return a, nil
}

// ask puts the question to the node at a raft address (name and port), within ctx and five seconds.
func ask(ctx context.Context, dial func(context.Context, string, string) (net.Conn, error), hostPort, clusterName string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	conn, err := dial(ctx, "tcp", hostPort)
	if err != nil {
		return answer{}, fmt.Errorf("ask %s: %w", hostPort, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := conn.Write([]byte{helloQuestion}); err != nil {
		return answer{}, fmt.Errorf("ask %s: %w", hostPort, err)
	}
	if err := writeMessage(conn, question{Version: questionVersion, ClusterName: clusterName}); err != nil {
		return answer{}, fmt.Errorf("ask %s: %w", hostPort, err)
	}
	a, err := readAnswer(conn, clusterName)
	if err != nil {
		return answer{}, fmt.Errorf("ask %s: %w", hostPort, err)
	}
	return a, nil
}

// serveQuestion answers one question on a connection that has a deadline.
func (c *Controller) serveQuestion(_ context.Context, conn net.Conn) {
	var q question
	if err := readMessage(conn, &q); err != nil {
		c.log.Debug("question not understood", "remote", conn.RemoteAddr(), "err", err)
		return
	}
	if err := writeMessage(conn, c.self()); err != nil {
		c.log.Debug("question not answered", "remote", conn.RemoteAddr(), "err", err)
	}
}
