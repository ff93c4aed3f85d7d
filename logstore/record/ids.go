// Package record holds what logs, replicas, handlers and connections share: identifiers, the record batch format
// (version 2), the file ranges that carry batches to a socket, and the sentinel errors of the log.
//
// It imports nothing of the project.
package record

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
)

// TopicID names one life of a topic: a topic deleted and made again under the same name has another id (KIP-516).
// The zero value names no topic.
type TopicID [16]byte

// NewTopicID draws a random id (a version 4 UUID). Like Kafka it never starts with a dash in base64, so that tools
// do not take it for a flag.
func NewTopicID() TopicID {
	for {
		var id TopicID
		if _, err := rand.Read(id[:]); err != nil {
			panic(err) // crypto/rand never fails on a supported system
		}
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		if id.String()[0] != '-' {
			return id
		}
	}
}

// String is Kafka's text form: base64url without padding, 22 characters.
func (id TopicID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// IsZero says that the id names no topic.
func (id TopicID) IsZero() bool { return id == TopicID{} }

// MarshalText writes the text form, so that JSON holds what people see elsewhere.
func (id TopicID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads the text form.
func (id *TopicID) UnmarshalText(b []byte) error {
	v, err := ParseTopicID(string(b))
	if err == nil {
		*id = v
	}
	return err
}

// ParseTopicID reads the text form, and a UUID in hexadecimal with or without dashes.
func ParseTopicID(s string) (TopicID, error) {
	var id TopicID
	if b, err := base64.RawURLEncoding.DecodeString(s); err == nil && len(b) == len(id) {
		return TopicID(b), nil
	}
	h := make([]byte, 0, 32)
	for i := range len(s) {
		if s[i] != '-' {
			h = append(h, s[i])
		}
	}
	if b, err := hex.DecodeString(string(h)); err == nil && len(b) == len(id) {
		return TopicID(b), nil
	}
	return id, fmt.Errorf("%q is not a topic id", s)
}

// PartitionID names one partition of one life of a topic.
type PartitionID struct {
	Topic     TopicID
	Partition int32
}

// String is for logs: topic id, slash, partition.
func (p PartitionID) String() string { return p.Topic.String() + "/" + strconv.Itoa(int(p.Partition)) }
