package api

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/transport"
)

// onController answers an admin request where the controller is: f runs here if this node is it, else the frame is
// forwarded and the controller's answer given, once this node's image has caught up with it. refused makes the answer
// that carries err for everything the request asked, for the case that no controller could be asked or what it did is
// not known (REQUEST_TIMED_OUT): it is never a made-up success.
func (h *Handlers) onController(r *transport.Request, f func(ctx context.Context) kmsg.Response, refused func(err error) kmsg.Response) transport.Response {
	return wait(func(ctx context.Context) kmsg.Response {
		if h.Metadata.IsController() {
			return f(ctx)
		}
		if forwarded(ctx) {
			return refused(metadata.ErrNotController) // two nodes that take each other for it would never end
		}
		resp, err := h.Metadata.Forward(ctx, r)
		if err == nil {
			return resp
		}
		if !errors.Is(err, metadata.ErrOutcomeUnknown) && !errors.Is(err, metadata.ErrNotController) {
			h.log.Debug("request was not forwarded", "api", kmsg.NameForKey(r.Key), "err", err)
		}
		return refused(err)
	})
}
