package transport

import "github.com/twmb/franz-go/pkg/kmsg"

// Action is what to do with a frame by its key and version, before its body is looked at.
type Action uint8

// The actions. The zero value is the safe one.
const (
	// Refuse closes the connection without an answer, as Kafka does for keys and versions it does not know.
	Refuse Action = iota
	// Serve decodes the body and calls the Handler.
	Serve
	// AnswerOldest does not decode the body: the version is above what is known, and the question is the one that
	// asks for versions. The request is handled as version 0 with Request.TooNew set (KIP-511).
	AnswerOldest
)

// Table says which requests are served. Lookup gives an empty request of the version to decode into; internal says
// that the connection came in on the listener between nodes. It is called from many goroutines.
type Table interface {
	Lookup(key, version int16, internal bool) (kmsg.Request, Action)
}
