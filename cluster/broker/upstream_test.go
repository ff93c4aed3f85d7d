package broker

import (
	"errors"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/transport/rpc"
)

// TestARequestThatNobodyCouldBeDialledForHasAKnownOutcome: it was not carried out, so it may be sent to the next
// controller, and the client is not told that it may have been.
func TestARequestThatNobodyCouldBeDialledForHasAKnownOutcome(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	pool := rpc.NewPool(rpc.PoolOptions{Address: func(int32) (string, error) { return gone, nil }})
	defer pool.Close()
	up := &upstream{node: 1, pool: pool}
	for range 2 { // dialled and refused, then within the pause after that
		_, err = up.ask(t.Context(), 2, purposeForward, kmsg.NewPtrEnvelopeRequest())
		if err == nil || unknownOutcome(err) {
			t.Errorf("%v: nothing was sent", err)
		}
	}
	if !unknownOutcome(errors.New("connection reset")) || unknownOutcome(metadata.ErrNoController) {
		t.Error("a lost connection leaves the outcome open, a missing controller does not")
	}
}
