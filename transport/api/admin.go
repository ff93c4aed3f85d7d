package api

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"cordwood/fsm/metadata"
)

// longestAdminWait bounds what an admin request may wait for, whatever timeout it names.
const longestAdminWait = time.Minute

// Authorized operations told where no authorizer is configured: everything a client may do to the resource, as bits.
const (
	operationsNotAsked       int32 = -2147483648
	clusterOperations        int32 = 8096
	topicOperations          int32 = 3576
	mostPartitionsPerRequest       = 10000
)

// within bounds ctx by a request's timeout in milliseconds.
func within(ctx context.Context, millis int32) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, min(max(0, time.Duration(millis)*time.Millisecond), longestAdminWait))
}

type requestIDKey struct{}

// withRequestID lets the handlers under ctx give their command the id of a forwarded request, so that the same request
// forwarded again gets the first answer and is not done twice.
func withRequestID(ctx context.Context, id metadata.RequestID) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// requestID is the id of the forwarded request, zero for one that came in here.
func requestID(ctx context.Context) metadata.RequestID {
	id, _ := ctx.Value(requestIDKey{}).(metadata.RequestID)
	return id
}

// propose appends a command and returns its result once this node's image has it. The error is the refusal of the whole
// command, or that of the road to it.
func (h *Handlers) propose(ctx context.Context, cmd metadata.Command) (metadata.Result, error) {
	res, err := h.Metadata.Propose(ctx, cmd)
	if err != nil {
		return res, err
	}
	if res.Err != nil {
		return res, res.Err
	}
	if err := h.Metadata.WaitIndex(ctx, res.Index); err != nil {
		return res, fmt.Errorf("wait for metadata index %d: %w", res.Index, err)
	}
	return res, nil
}

// itemError is the refusal of one item of a command.
func itemError(res metadata.Result, i int) error {
	if i < len(res.Items) {
		return res.Items[i]
	}
	return nil
}

// refusal is an error with its own Kafka code and sentence, where no sentinel says it.
type refusal struct {
	kafka *kerr.Error
	why   string
}

func refuse(kafka *kerr.Error, format string, args ...any) error {
	return &refusal{kafka, fmt.Sprintf(format, args...)}
}

func (r *refusal) Error() string { return r.why }

// Unwrap lets code find Kafka's error.
func (r *refusal) Unwrap() error { return r.kafka }

// sentence is message, and the empty string for nil: some answers never have a null there.
func sentence(err error) *string {
	if m := message(err); m != nil {
		return m
	}
	none := ""
	return &none
}

// registeredBrokers counts the nodes of the cluster, those that are down just now too: a topic made while one restarts
// is to have its replicas on all of them.
func registeredBrokers(img *metadata.Image) int {
	n := 0
	for range img.Brokers() {
		n++
	}
	return n
}
