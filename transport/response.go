// Package transport talks: framing, connections, the order of answers, and sending file ranges. It knows nothing of
// topics or replication; handlers live in transport/api.
package transport

import (
	"context"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/logstore/record"
)

// Request is one decoded frame. Byte slices in Body alias the frame's buffer, which is given back after the response
// was sent (or Wait returned); a handler that keeps bytes copies them.
type Request struct {
	Key           int16
	Version       int16
	CorrelationID int32
	ClientID      *string
	Body          kmsg.Request
	Frame         []byte // the frame without its size: header and body, for forwarding
	Conn          *ConnInfo
	// TooNew says that an ApiVersions came in a version above the known ones: Body is an empty version 0, which the
	// answer has to be too.
	TooNew bool
}

// ConnInfo is what handlers may know of the connection a request came in on.
type ConnInfo struct {
	ID       uint64
	Listener string // name of the listener
	Internal bool   // the inter-broker listener: requests between nodes are served here only
	Remote   net.Addr
	Local    net.Addr
	// Closed is closed when the connection is gone. A controller takes it for a sign that the peer may be dead.
	Closed <-chan struct{}

	SoftwareName, SoftwareVersion string // from ApiVersions v3 and above, empty before
}

// Piece is a part of a hand-encoded response body: bytes, or a file range when Span.Len > 0.
type Piece struct {
	Bytes []byte
	Span  record.Span
}

// Response is what a handler returns: exactly one of Body, Pieces, Wait, None or Close is set.
type Response struct {
	// Body is encoded by kmsg with the request's version.
	Body kmsg.Response
	// Pieces is an encoded body (without size and response header) whose file ranges leave by sendfile. The connection
	// releases every Span exactly once on every path.
	Pieces []Piece
	// Wait is called once by the connection's writer, when all earlier answers were sent. It may block, bounded by the
	// request's own limits and ctx (ended when the connection closes), and returns a Response without Wait. Later
	// requests of the connection are read and handled meanwhile, in order.
	Wait func(ctx context.Context) Response
	// Ordered says of a response with Wait that the connection's next request is handled only after Wait has returned:
	// what the request changes must be seen by the next one.
	Ordered bool
	// Failed are Kafka's codes of the errors that Pieces tell of, for the metrics; a Body is read for its own.
	Failed []int16
	// FrameDone says that nothing refers to the request's frame any more: it is given back at once, not only when the
	// answer has left.
	FrameDone bool
	// None says that no answer is sent (Produce with acks=0).
	None bool
	// Close says that the connection is closed without an answer; Reason names the metric label.
	Close  bool
	Reason string
}

// Handler answers requests. Handle is called by the connection's reader, one request after another, and does what must
// happen in order (an append); what waits goes into Response.Wait. ctx ends when the connection closes.
type Handler interface {
	Handle(ctx context.Context, r *Request) Response
}
