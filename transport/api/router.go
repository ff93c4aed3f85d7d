package api

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/transport"
)

// Options are what the handlers need beside Deps.
type Options struct {
	Logger *slog.Logger
	// Now is the time by which sessions grow old; nil: time.Now.
	Now func() time.Time
	// Wall is the wall clock, for record timestamps; nil: Now.
	Wall func() time.Time
	// FetchSessions limits the incremental fetch sessions kept at once; 0 means 1000.
	FetchSessions int
}

// Handlers answers every request of the table. It implements transport.Handler and transport.Table and is safe for
// any number of connections.
type Handlers struct {
	Deps
	log      *slog.Logger
	now      func() time.Time
	wall     func() time.Time
	configs  topicConfigs
	sessions *fetchSessions
	warned   atomic.Int64 // when a client was last told an address that it cannot reach, Unix milliseconds
}

// New makes the handlers of a node.
func New(deps Deps, opts Options) *Handlers {
	h := &Handlers{Deps: deps, log: opts.Logger, now: opts.Now, wall: opts.Wall, sessions: newFetchSessions(opts.FetchSessions)}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	if h.now == nil {
		h.now = time.Now
	}
	if h.wall == nil {
		h.wall = h.now
	}
	if h.Node.TopicDefaults.Settings == nil {
		h.Node.TopicDefaults.Settings, _ = metadata.NewDefaults(nil) // the built-in ones are legal: a test holds it
	}
	return h
}

// Lookup implements transport.Table.
func (h *Handlers) Lookup(key, version int16, internal bool) (kmsg.Request, transport.Action) {
	if key == transport.AckKey {
		if !internal || version != 0 {
			return nil, transport.Refuse
		}
		return transport.NewOneWay(key, nil), transport.Serve
	}
	row := rowOf(key)
	if row == nil || row.internal && !internal {
		return nil, transport.Refuse
	}
	action := transport.Serve
	if version < row.min || version > row.max {
		if row.key != kmsg.ApiVersions {
			return nil, transport.Refuse
		}
		action, version = transport.AnswerOldest, 0
	}
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	return req, action
}

// Handle implements transport.Handler.
func (h *Handlers) Handle(ctx context.Context, r *transport.Request) transport.Response {
	if r.Key == transport.AckKey {
		return handleAck(h, r)
	}
	row := rowOf(r.Key)
	if row == nil {
		return transport.Response{Close: true, Reason: "unknown-key"}
	}
	return row.handle(h, ctx, r)
}

// body is a response that is ready.
func body(resp kmsg.Response) transport.Response { return transport.Response{Body: resp} }

// wait is a response that f makes, off the connection's reader. f may block, bounded by ctx and by the request's own
// limits. The connection's next request is handled after f has returned, so that it sees what f changed.
func wait(f func(ctx context.Context) kmsg.Response) transport.Response {
	return transport.Response{Ordered: true, Wait: func(ctx context.Context) transport.Response {
		resp := f(ctx)
		if resp == nil {
			return transport.Response{Close: true, Reason: "no-answer"}
		}
		return transport.Response{Body: resp}
	}}
}
