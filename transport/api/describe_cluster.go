package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/transport"
)

// Endpoint types of DescribeCluster.
const (
	endpointBrokers     int8 = 1
	endpointControllers int8 = 2
)

func handleDescribeCluster(h *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.DescribeClusterRequest)
	resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
	img := h.Metadata.Image()
	resp.ClusterID, resp.ControllerID, resp.EndpointType = img.ClusterID(), metadata.NoNode, endpointBrokers
	resp.ClusterAuthorizedOperations = operationsNotAsked
	if req.Version >= 1 && req.EndpointType != endpointBrokers {
		err := refuse(kerr.UnsupportedEndpointType, "endpoint type %d is unknown", req.EndpointType)
		if req.EndpointType == endpointControllers {
			err = refuse(kerr.MismatchedEndpointType, "this is a broker's listener; controllers are described by DescribeQuorum")
		}
		resp.ErrorCode, resp.ErrorMessage = code(err), message(err)
		return body(resp)
	}
	resp.ControllerID = h.Metadata.ControllerID()
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations
	}
	infos := h.nodeInfos(img)
	for b := range img.Brokers() {
		at, ok := b.Listeners[r.Conn.Listener]
		if !ok || b.Fenced && !req.IncludeFencedBrokers {
			continue
		}
		x := kmsg.NewDescribeClusterResponseBroker()
		x.NodeID, x.Host, x.Port, x.IsFenced = b.ID, at.Host, at.Port, b.Fenced
		if b.Rack != "" {
			x.Rack = &b.Rack
		}
		x.UnknownTags.Set(metadata.TagNodeInfo, infos[b.ID].Encode())
		resp.Brokers = append(resp.Brokers, x)
	}
	return body(resp)
}

// nodeInfos tells of every registered node what Kafka's answer has no field for.
func (h *Handlers) nodeInfos(img *metadata.Image) map[int32]*metadata.NodeInfo {
	infos := map[int32]*metadata.NodeInfo{}
	for b := range img.Brokers() {
		n := &metadata.NodeInfo{State: metadata.NodeAlive, Rack: b.Rack, Version: b.Version, MinLevel: b.MinLevel, MaxLevel: b.MaxLevel, Level: img.Level()}
		switch {
		case b.Fenced && h.Node.Dead != nil && h.Node.Dead(b.ID):
			n.State = metadata.NodeDead
		case b.Fenced:
			n.State = metadata.NodeFenced
		case b.Draining:
			n.State = metadata.NodeDraining
		}
		infos[b.ID] = n
	}
	for _, v := range h.Controller.Quorum().Voters {
		if n := infos[v.ID]; n != nil {
			n.Voter = true
		}
	}
	for t := range img.Topics() {
		for _, p := range t.Partitions {
			for _, m := range p.Members {
				if n := infos[m.ID]; n != nil {
					n.Replicas++
				}
			}
			if n := infos[p.Leader]; n != nil {
				n.Leaders++
			}
		}
	}
	return infos
}
