package metadata

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A command in the raft log: one format byte, the kind and the version of the kind as big-endian uint16, then a JSON body
// whose unknown fields are an error. A reader that does not know format, kind, version or a field must stop, since it
// could not apply what the others apply.
const (
	commandFormat = 1
	commandHeader = 1 + 2 + 2
)

// ErrCorruptCommand says that bytes are no command of any version.
var ErrCorruptCommand = errors.New("command is corrupt")

// commandKinds lists what this binary reads: the newest version of every kind, the metadata level from which all of its
// commands are known, and an empty command of it.
var commandKinds = map[Kind]struct {
	version uint16
	level   int32
	empty   func() Command
}{
	KindSetCluster:         {1, MinLevel, func() Command { return new(SetCluster) }},
	KindRegisterBroker:     {1, MinLevel, func() Command { return new(RegisterBroker) }},
	KindFenceBrokers:       {1, MinLevel, func() Command { return new(FenceBrokers) }},
	KindUnfenceBroker:      {1, MinLevel, func() Command { return new(UnfenceBroker) }},
	KindUnregisterBroker:   {1, MinLevel, func() Command { return new(UnregisterBroker) }},
	KindCreateTopics:       {2, MinLevel, func() Command { return new(CreateTopics) }},
	KindDeleteTopics:       {1, MinLevel, func() Command { return new(DeleteTopics) }},
	KindCreatePartitions:   {1, MinLevel, func() Command { return new(CreatePartitions) }},
	KindAlterTopicConfigs:  {2, MinLevel, func() Command { return new(AlterTopicConfigs) }},
	KindAlterPartitions:    {1, MinLevel, func() Command { return new(AlterPartitions) }},
	KindElect:              {1, MinLevel, func() Command { return new(Elect) }},
	KindUnsafeElect:        {1, MinLevel, func() Command { return new(UnsafeElect) }},
	KindCertify:            {1, MinLevel, func() Command { return new(Certify) }},
	KindReplicaDamaged:     {1, MinLevel, func() Command { return new(ReplicaDamaged) }},
	KindSetMinISR:          {1, MinLevel, func() Command { return new(SetMinISR) }},
	KindAllocateProducerID: {1, MinLevel, func() Command { return new(AllocateProducerIDs) }},
	KindSetLevel:           {1, MinLevel, func() Command { return new(SetLevel) }},
	KindBeginElection:      {1, QuorumLevel, func() Command { return new(BeginElection) }},
	KindElectReported:      {1, QuorumLevel, func() Command { return new(ElectReported) }},
	KindReassign:           {1, QuorumLevel, func() Command { return new(Reassign) }},
	KindEnterJoint:         {1, QuorumLevel, func() Command { return new(EnterJoint) }},
	KindFinishChange:       {1, QuorumLevel, func() Command { return new(FinishChange) }},
}

// EncodeCommand writes a command for the raft log.
func EncodeCommand(cmd Command) ([]byte, error) {
	if _, ok := commandKinds[cmd.Kind()]; !ok {
		return nil, fmt.Errorf("encode command of kind %d: no such kind", cmd.Kind())
	}
	body, err := json.Marshal(cmd)
	if err != nil {
		return nil, fmt.Errorf("encode command of kind %d: %w", cmd.Kind(), err)
	}
	out := make([]byte, 0, commandHeader+len(body))
	out = append(out, commandFormat)
	out = binary.BigEndian.AppendUint16(out, uint16(cmd.Kind()))
	out = binary.BigEndian.AppendUint16(out, writtenVersion(cmd))
	return append(out, body...), nil
}

// writtenVersion is the oldest version of its kind that holds a command, so that what a binary of an older level can apply
// is written as it reads it, and the rest is known to it as newer.
func writtenVersion(cmd Command) uint16 {
	switch cmd.Kind() {
	case KindCreateTopics, KindAlterTopicConfigs:
		if NeedsLevel(cmd) >= QuorumLevel {
			return 2
		}
	}
	return 1
}

// DecodeCommand reads a command of the raft log. The error is ErrNewerVersion where a newer binary wrote it, and
// ErrCorruptCommand where nobody did.
func DecodeCommand(data []byte) (Command, error) {
	if len(data) < commandHeader {
		return nil, fmt.Errorf("%w: %d bytes", ErrCorruptCommand, len(data))
	}
	if data[0] == 0 {
		return nil, fmt.Errorf("%w: format 0", ErrCorruptCommand)
	}
	if data[0] > commandFormat {
		return nil, fmt.Errorf("command of format %d: %w", data[0], ErrNewerVersion)
	}
	kind, version := Kind(binary.BigEndian.Uint16(data[1:])), binary.BigEndian.Uint16(data[3:])
	k, ok := commandKinds[kind]
	if !ok {
		return nil, fmt.Errorf("command of kind %d: %w", kind, ErrNewerVersion)
	}
	if version > k.version {
		return nil, fmt.Errorf("command of kind %d, version %d (known is %d): %w", kind, version, k.version, ErrNewerVersion)
	}
	if version == 0 {
		return nil, fmt.Errorf("%w: kind %d, version 0", ErrCorruptCommand, kind)
	}
	cmd := k.empty()
	if err := strictJSON(data[commandHeader:], cmd); err != nil {
		return nil, fmt.Errorf("%w: kind %d: %w", ErrCorruptCommand, kind, err)
	}
	return cmd, nil
}

// strictJSON reads exactly one JSON value without unknown fields.
func strictJSON(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the value")
	}
	return nil
}
