package api

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/transport"
)

// forwardedKey marks the context of a request that came in an Envelope: it is answered here or not at all.
type forwardedKey struct{}

func forwarded(ctx context.Context) bool { return ctx.Value(forwardedKey{}) != nil }

// handleEnvelope answers a client's request that another node forwards to the controller (KIP-590): the same handlers
// run, with the listener that the client came in on.
func handleEnvelope(h *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.EnvelopeRequest)
	resp := req.ResponseKind().(*kmsg.EnvelopeResponse)
	var extra metadata.EnvelopeExtra
	var err error
	req.UnknownTags.Each(func(tag uint32, b []byte) {
		if tag == metadata.TagEnvelope {
			extra, err = metadata.DecodeEnvelopeExtra(b)
		}
	})
	inner, bad := transport.DecodeFrame(h, req.RequestData, false)
	if err != nil || bad != nil {
		h.log.Info("a forwarded request does not decode", "err", errors.Join(err, bad))
		resp.ErrorCode = kerr.InvalidRequest.Code
		return body(resp)
	}
	inner.Conn = &transport.ConnInfo{
		ID: r.Conn.ID, Listener: extra.Listener, Remote: r.Conn.Remote, Local: r.Conn.Local, Closed: r.Conn.Closed,
	}
	return wait(func(ctx context.Context) kmsg.Response {
		if !h.Metadata.IsController() {
			resp.ErrorCode = kerr.NotController.Code
			return resp
		}
		ctx = context.WithValue(withRequestID(ctx, extra.RequestID), forwardedKey{}, true)
		answer := h.Handle(ctx, inner)
		if answer.Wait != nil {
			answer = answer.Wait(ctx)
		}
		if answer.Body == nil {
			resp.ErrorCode = kerr.InvalidRequest.Code
			return resp
		}
		resp.ResponseData = encodeAnswer(inner, answer.Body)
		resp.UnknownTags.Set(metadata.TagEnvelopeAnswer, metadata.EncodeIndex(h.Metadata.Image().Index()))
		return resp
	})
}

// hasHeaderTags says that answers to a request have a tag section behind the correlation id.
func hasHeaderTags(req kmsg.Request) bool {
	return req.IsFlexible() && req.Key() != kmsg.ApiVersions.Int16()
}

// encodeAnswer writes response header and body, as they would leave on a connection, without the size.
func encodeAnswer(r *transport.Request, resp kmsg.Response) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(r.CorrelationID))
	if hasHeaderTags(r.Body) {
		b = append(b, 0)
	}
	return resp.AppendTo(b)
}

// NewEnvelope wraps a client's request for the controller. The id lets the controller recognise the request if it is
// sent again.
func NewEnvelope(r *transport.Request, id metadata.RequestID) *kmsg.EnvelopeRequest {
	req := kmsg.NewPtrEnvelopeRequest()
	req.RequestData = r.Frame
	req.RequestPrincipal = []byte{}
	extra := metadata.EnvelopeExtra{RequestID: id, Listener: r.Conn.Listener}
	if r.ClientID != nil {
		extra.ClientID = *r.ClientID
	}
	req.UnknownTags.Set(metadata.TagEnvelope, extra.Encode())
	return req
}

// OpenEnvelope takes the controller's answer to a request out of its envelope, with the raft index that it stands for.
// Errors are metadata.ErrNotController where the node asked is not it; nothing was done then.
func OpenEnvelope(r *transport.Request, resp *kmsg.EnvelopeResponse) (kmsg.Response, uint64, error) {
	if resp.ErrorCode == kerr.NotController.Code {
		return nil, 0, metadata.ErrNotController
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, 0, fmt.Errorf("envelope: %w", err)
	}
	var index uint64
	var err error
	resp.UnknownTags.Each(func(tag uint32, b []byte) {
		if tag == metadata.TagEnvelopeAnswer {
			index, err = metadata.DecodeIndex(b)
		}
	})
	if err != nil {
		return nil, 0, err
	}
	head := 4
	if hasHeaderTags(r.Body) {
		head++
	}
	if len(resp.ResponseData) < head || int32(binary.BigEndian.Uint32(resp.ResponseData)) != r.CorrelationID {
		return nil, 0, fmt.Errorf("envelope: %d bytes are no answer to this request", len(resp.ResponseData))
	}
	answer := r.Body.ResponseKind()
	if err := answer.ReadFrom(resp.ResponseData[head:]); err != nil {
		return nil, 0, fmt.Errorf("envelope: %w", err)
	}
	return answer, index, nil
}
