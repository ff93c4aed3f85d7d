package api

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/transport"
)

// Types of coordinator keys.
const (
	keyGroup       int8 = 0
	keyTransaction int8 = 1
	keyShare       int8 = 2
)

// handleFindCoordinator answers that no coordinator is available yet: this version keeps neither groups nor
// transactions, and clients ask again. Keys that no Kafka takes are refused as there.
func handleFindCoordinator(_ *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.FindCoordinatorRequest)
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	if req.Version < 4 {
		err := coordinatorFor(req, req.CoordinatorKey)
		resp.ErrorCode, resp.ErrorMessage = code(err), message(err)
		resp.NodeID, resp.Port = -1, -1
		return body(resp)
	}
	for _, key := range req.CoordinatorKeys {
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		err := coordinatorFor(req, key)
		c.Key, c.NodeID, c.Port = key, -1, -1
		c.ErrorCode, c.ErrorMessage = code(err), message(err)
		resp.Coordinators = append(resp.Coordinators, c)
	}
	return body(resp)
}

func coordinatorFor(req *kmsg.FindCoordinatorRequest, key string) error {
	switch req.CoordinatorType {
	case keyGroup, keyTransaction:
		return refuse(kerr.CoordinatorNotAvailable, "groups and transactions are not kept by this version")
	case keyShare:
		switch {
		case req.Version < 6:
			return refuse(kerr.InvalidRequest, "share coordinators are found from version 6 on")
		case !shareKey(key):
			return refuse(kerr.InvalidRequest, "a share coordinator's key is group:topic id:partition")
		}
		return refuse(kerr.CoordinatorNotAvailable, "share groups are not kept by this version")
	}
	return refuse(kerr.InvalidRequest, "coordinator type %d is unknown", req.CoordinatorType)
}

// shareKey says that key is group:topic id:partition.
func shareKey(key string) bool {
	parts := strings.Split(key, ":")
	if len(parts) < 3 {
		return false
	}
	id, err := base64.RawURLEncoding.DecodeString(parts[len(parts)-2])
	n, bad := strconv.ParseInt(parts[len(parts)-1], 10, 32)
	return err == nil && len(id) == 16 && bad == nil && n >= 0
}
