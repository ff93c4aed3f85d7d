package metadata

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"cordwood/logstore/record"
)

// Numbers of the private tagged fields that ride on Kafka requests between nodes. Kafka's own tags are far below 10000.
const (
	TagRegistration    uint32 = 10010 // BrokerRegistration request: RegistrationExtra
	TagHeartbeat       uint32 = 10011 // BrokerHeartbeat request: HeartbeatExtra
	TagHeartbeatAnswer uint32 = 10012 // BrokerHeartbeat answer: HeartbeatAnswer
	TagEnvelopeAnswer  uint32 = 10013 // Envelope answer: the raft index that it stands for
	TagEnvelope        uint32 = 10014 // Envelope request: EnvelopeExtra
	TagElectReplica    uint32 = 10030 // ElectLeaders request: the node that should lead
)

// wireVersion is the first byte of every private field. A newer version adds fields that older readers do not need; what
// an older reader must understand gets another tag.
const wireVersion = 1

// ErrCorruptField says that a private field does not hold what its tag promises.
var ErrCorruptField = errors.New("private field is corrupt")

// RegistrationExtra is what a registration says beyond Kafka's fields.
type RegistrationExtra struct {
	Earlier     []EarlierIncarnation `json:"earlier,omitempty"` // newest first
	Clean       bool                 `json:"clean"`
	Mismatch    bool                 `json:"mismatch,omitempty"`
	BootOK      bool                 `json:"bootOk"`
	RaftAddress string               `json:"raftAddress"`
	DirectoryID string               `json:"directoryId"`
	MinLevel    int32                `json:"minLevel"`
	MaxLevel    int32                `json:"maxLevel"`
	Version     string               `json:"version"`
}

// ReplicaReportItem is a replica's report for a partition without a leader.
type ReplicaReportItem struct {
	Partition record.PartitionID `json:"partition"`
	Epoch     int32              `json:"epoch"`     // leader epoch in which the replica reports; it has left all epochs below
	LastEpoch int32              `json:"lastEpoch"` // -1 never written
	End       int64              `json:"end"`       // exclusive
	HW        int64              `json:"hw"`
}

// Handover is a move of leadership that its leader makes ready: it appends nothing until the successor has all of its log.
type Handover struct {
	Partition   record.PartitionID `json:"partition"`
	LeaderEpoch int32              `json:"leaderEpoch"`
	To          int32              `json:"to"`
	PauseMS     int32              `json:"pauseMs,omitempty"` // milliseconds; then the leader goes on by itself
}

// HeartbeatExtra is what a broker tells the controller with a heartbeat.
type HeartbeatExtra struct {
	Reports []ReplicaReportItem  `json:"reports,omitempty"`
	Damaged []record.PartitionID `json:"damaged,omitempty"`
	Certify []Certification      `json:"certify,omitempty"`
	Finish  []Finish             `json:"finish,omitempty"` // changes that this leader has proven
	// Ready are handovers whose successor has everything, while this leader still pauses.
	Ready []Handover `json:"ready,omitempty"`
	Full  bool       `json:"full,omitempty"` // the disk takes no records of clients
}

// HeartbeatAnswer is what the controller answers beyond Kafka's fields.
type HeartbeatAnswer struct {
	Index       uint64               `json:"index"`                 // of the newest command in the controller's image
	WantReports []record.PartitionID `json:"wantReports,omitempty"` // partitions whose replicas must report
	// Handovers are asked of the leaders of partitions, once each.
	Handovers []Handover `json:"handovers,omitempty"`
}

// EnvelopeExtra is what a forwarded request says of its client.
type EnvelopeExtra struct {
	RequestID RequestID `json:"requestId"`
	Listener  string    `json:"listener"` // name of the listener that the client came in on
	ClientID  string    `json:"clientId"`
}

// Encode gives the bytes of the tagged field.
func (e RegistrationExtra) Encode() []byte { return encodeField(e) }

// Encode gives the bytes of the tagged field.
func (e HeartbeatExtra) Encode() []byte { return encodeField(e) }

// Encode gives the bytes of the tagged field.
func (e HeartbeatAnswer) Encode() []byte { return encodeField(e) }

// Encode gives the bytes of the tagged field.
func (e EnvelopeExtra) Encode() []byte { return encodeField(e) }

// DecodeRegistrationExtra reads the field of TagRegistration.
func DecodeRegistrationExtra(b []byte) (RegistrationExtra, error) {
	return decodeField[RegistrationExtra](b)
}

// DecodeHeartbeatExtra reads the field of TagHeartbeat.
func DecodeHeartbeatExtra(b []byte) (HeartbeatExtra, error) { return decodeField[HeartbeatExtra](b) }

// DecodeHeartbeatAnswer reads the field of TagHeartbeatAnswer.
func DecodeHeartbeatAnswer(b []byte) (HeartbeatAnswer, error) {
	return decodeField[HeartbeatAnswer](b)
}

// DecodeEnvelopeExtra reads the field of TagEnvelope.
func DecodeEnvelopeExtra(b []byte) (EnvelopeExtra, error) { return decodeField[EnvelopeExtra](b) }

// EncodeIndex gives the bytes of TagEnvelopeAnswer.
func EncodeIndex(index uint64) []byte { return binary.BigEndian.AppendUint64(nil, index) }

// DecodeIndex reads the field of TagEnvelopeAnswer.
func DecodeIndex(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("%w: raft index of %d bytes", ErrCorruptField, len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}

// EncodeNode gives the bytes of TagElectReplica.
func EncodeNode(id int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(id)) }

// DecodeNode reads the field of TagElectReplica. A node id is 0 or more.
func DecodeNode(b []byte) (int32, error) {
	if len(b) != 4 || b[0] > 127 {
		return NoNode, fmt.Errorf("%w: node id of %d bytes, or negative", ErrCorruptField, len(b))
	}
	return int32(binary.BigEndian.Uint32(b)), nil
}

func encodeField(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // structs of plain values always encode
	}
	return append([]byte{wireVersion}, body...)
}

func decodeField[T any](b []byte) (v T, err error) {
	if len(b) == 0 || b[0] < wireVersion {
		return v, fmt.Errorf("%w: %d bytes without a version", ErrCorruptField, len(b))
	}
	if err := json.Unmarshal(b[1:], &v); err != nil {
		return v, fmt.Errorf("%w: %w", ErrCorruptField, err)
	}
	return v, nil
}
