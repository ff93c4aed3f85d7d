package transport

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AckKey is the private key of a follower's acknowledgement between two fetches, version 0: a frame that is not answered.
// Proofs of the cluster's secret have the key before it. Clients are never told of it.
const AckKey int16 = 31001

// OneWay is a request between nodes that Kafka does not know and that has no answer. Its body is bytes here; the header
// is the oldest kind, without tags.
type OneWay struct {
	key  int16
	Body []byte
}

var _ kmsg.Request = (*OneWay)(nil)

// NewOneWay makes a request of a private key.
func NewOneWay(key int16, body []byte) *OneWay { return &OneWay{key: key, Body: body} }

// Key implements kmsg.Request.
func (r *OneWay) Key() int16 { return r.key }

// MaxVersion implements kmsg.Request.
func (r *OneWay) MaxVersion() int16 { return 0 }

// SetVersion implements kmsg.Request: there is one version.
func (r *OneWay) SetVersion(int16) {}

// GetVersion implements kmsg.Request.
func (r *OneWay) GetVersion() int16 { return 0 }

// IsFlexible implements kmsg.Request.
func (r *OneWay) IsFlexible() bool { return false }

// AppendTo implements kmsg.Request.
func (r *OneWay) AppendTo(b []byte) []byte { return append(b, r.Body...) }

// ReadFrom implements kmsg.Request. Body aliases b.
func (r *OneWay) ReadFrom(b []byte) error {
	r.Body = b
	return nil
}

// ResponseKind implements kmsg.Request: there is none.
func (r *OneWay) ResponseKind() kmsg.Response { return nil }
