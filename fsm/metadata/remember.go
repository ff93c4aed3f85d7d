package metadata

import (
	"encoding/hex"
	"fmt"

	"github.com/tidwall/btree"
)

// RememberedRequests is how many answers of forwarded requests are kept; the oldest go first.
const RememberedRequests = 1024

// requestMemory holds the answers of the newest requests that carried an id. It is part of the replicated state.
type requestMemory struct {
	answers *btree.Map[string, Result] // by the bytes of the request id
	order   *btree.Map[uint64, string] // request ids by the order they came in
	next    uint64
}

func newRequestMemory() requestMemory {
	return requestMemory{answers: new(btree.Map[string, Result]), order: new(btree.Map[uint64, string])}
}

func (m *requestMemory) copy() requestMemory {
	return requestMemory{answers: m.answers.Copy(), order: m.order.Copy(), next: m.next}
}

func (m *requestMemory) find(id RequestID) (Result, bool) {
	if id.IsZero() {
		return Result{}, false
	}
	return m.answers.Get(string(id[:]))
}

func (m *requestMemory) put(id RequestID, r Result) {
	if id.IsZero() {
		return
	}
	m.restore(id, m.next, r)
	m.next++
	for m.order.Len() > RememberedRequests {
		_, oldest, _ := m.order.PopMin()
		m.answers.Delete(oldest)
	}
}

// IsZero says that the request asks for no memory.
func (id RequestID) IsZero() bool { return id == RequestID{} }

// MarshalText writes 32 hexadecimal digits, or nothing for the zero value.
func (id RequestID) MarshalText() ([]byte, error) {
	if id.IsZero() {
		return nil, nil
	}
	return hex.AppendEncode(nil, id[:]), nil
}

// UnmarshalText reads what MarshalText wrote.
func (id *RequestID) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*id = RequestID{}
		return nil
	}
	if len(b) != hex.EncodedLen(len(id)) {
		return fmt.Errorf("request id has %d digits, not %d", len(b), hex.EncodedLen(len(id)))
	}
	_, err := hex.Decode(id[:], b)
	return err
}

// requestID gives the id that a command carries; most commands carry none.
func requestID(cmd Command) RequestID {
	switch c := cmd.(type) {
	case *UnregisterBroker:
		return c.Request
	case *CreateTopics:
		return c.Request
	case *DeleteTopics:
		return c.Request
	case *CreatePartitions:
		return c.Request
	case *AlterTopicConfigs:
		return c.Request
	case *SetLevel:
		return c.Request
	case *Reassign:
		return c.Request
	}
	return RequestID{}
}

// restore puts an answer back at its place.
func (m *requestMemory) restore(id RequestID, seq uint64, r Result) {
	m.answers.Set(string(id[:]), r)
	m.order.Set(seq, string(id[:]))
}
