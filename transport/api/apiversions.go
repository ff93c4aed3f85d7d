package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/transport"
)

// The features that clients may ask about. Cordwood keeps eligible leader replicas from the first cluster on; the
// features of groups and transactions appear with them, and hang on the metadata level.
const (
	featureELR    = "eligible.leader.replicas.version"
	featureELRMin = 0
	featureELRMax = 1
)

// handleAPIVersions answers which requests are served (KIP-35, 482, 511, 584, 1242). It needs nothing but the table,
// so that it works from the first moment on.
func handleAPIVersions(h *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.ApiVersionsRequest)
	resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
	if r.TooNew {
		resp.ErrorCode = kerr.UnsupportedVersion.Code
		row := rowOf(kmsg.ApiVersions.Int16())
		resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: row.key.Int16(), MinVersion: row.min, MaxVersion: row.max}}
		return body(resp)
	}
	if req.Version >= 3 && !(softwareWord(req.ClientSoftwareName) && softwareWord(req.ClientSoftwareVersion)) {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return body(resp)
	}
	if err := h.expected(req); err != nil {
		resp.ErrorCode = err.Code
		return body(resp)
	}
	if req.Version >= 3 {
		r.Conn.SoftwareName, r.Conn.SoftwareVersion = req.ClientSoftwareName, req.ClientSoftwareVersion
	}
	resp.ApiKeys = make([]kmsg.ApiVersionsResponseApiKey, 0, len(table))
	for i := range table {
		if row := &table[i]; !row.internal {
			resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{
				ApiKey: row.key.Int16(), MinVersion: row.advertised(), MaxVersion: row.max,
			})
		}
	}
	if img := h.Metadata.Image(); img != nil && img.Level() > 0 {
		resp.FinalizedFeaturesEpoch = int64(img.Index())
		resp.FinalizedFeatures = []kmsg.ApiVersionsResponseFinalizedFeature{{
			Name: featureELR, MinVersionLevel: featureELRMax, MaxVersionLevel: featureELRMax,
		}}
	}
	// Clients up to v3 cannot read a supported feature whose lowest level is 0 (KAFKA-17492).
	if req.Version >= 4 {
		resp.SupportedFeatures = []kmsg.ApiVersionsResponseSupportedFeature{{
			Name: featureELR, MinVersion: featureELRMin, MaxVersion: featureELRMax,
		}}
	}
	return body(resp)
}

// expected checks whom a client of v5 thinks that it talks to (KIP-1242): both named or none.
func (h *Handlers) expected(req *kmsg.ApiVersionsRequest) *kerr.Error {
	switch {
	case req.Version < 5 || req.ClusterID == nil && req.NodeID == -1:
		return nil
	case req.ClusterID == nil || req.NodeID == -1:
		return kerr.InvalidRequest
	}
	img := h.Metadata.Image()
	if img == nil || *req.ClusterID != img.ClusterID() || req.NodeID != h.Node.ID {
		return kerr.RebootstrapRequired
	}
	return nil
}

// softwareWord says that s is of the shape [a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])? (KIP-511).
func softwareWord(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9':
		case (c == '-' || c == '.') && i > 0 && i < len(s)-1:
		default:
			return false
		}
	}
	return s != ""
}
