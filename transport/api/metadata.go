package api

import (
	"context"
	"encoding/binary"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/transport"
)

// autoCreateMillis bounds how long a Metadata waits for topics that it creates on the way.
const autoCreateMillis = 3000

// handleMetadata tells who is there and who leads what, as clients of the request's listener reach it.
func handleMetadata(h *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.MetadataRequest)
	h.warnOfLocalhost(r.Conn)
	if err := metadataRefused(req); err != nil {
		return body(refusedMetadata(req, err))
	}
	if missing := h.autoCreated(req); len(missing) > 0 {
		return wait(func(ctx context.Context) kmsg.Response {
			failed := h.createMissing(ctx, r, missing)
			return h.describe(req, r.Conn.Listener, failed)
		})
	}
	return body(h.describe(req, r.Conn.Listener, nil))
}

// warnOfLocalhost says, at most once a minute, that a client from another machine is told an address that only this
// machine can reach: the mistake that most newcomers make. Behind a published container port it is right, so that it is
// no warning.
func (h *Handlers) warnOfLocalhost(conn *transport.ConnInfo) {
	peer, ok := conn.Remote.(*net.TCPAddr)
	if !ok || peer.IP.IsLoopback() || len(peer.IP) == 0 {
		return
	}
	at, _, ok := endpoint(h.Metadata.Image(), h.Node.ID, conn.Listener)
	if ip := net.ParseIP(at.Host); !ok || at.Host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return
	}
	now, last := h.now().UnixMilli(), h.warned.Load()
	if now-last < time.Minute.Milliseconds() || !h.warned.CompareAndSwap(last, now) {
		return
	}
	h.log.Info("a client from another machine is told an address of this one alone; that is right only where the port is published to the client's machine", "client", peer.IP.String(),
		"listener", conn.Listener, "advertised", net.JoinHostPort(at.Host, strconv.Itoa(int(at.Port))), "setting", "listeners."+conn.Listener+".advertise")
}

// metadataRefused judges the request as a whole: topics are asked by id from version 12 on, and must be named before.
func metadataRefused(req *kmsg.MetadataRequest) *kerr.Error {
	for i := range req.Topics {
		t := &req.Topics[i]
		if t.Topic == nil && (req.Version < 12 || t.TopicID == [16]byte{}) || req.Version < 12 && t.TopicID != [16]byte{} {
			return kerr.InvalidRequest
		}
	}
	return nil
}

// refusedMetadata answers every topic with one error and tells nothing else.
func refusedMetadata(req *kmsg.MetadataRequest, err *kerr.Error) *kmsg.MetadataResponse {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	resp.ControllerID, resp.ErrorCode = metadata.NoNode, err.Code
	for i := range req.Topics {
		t := kmsg.NewMetadataResponseTopic()
		t.ErrorCode, t.Topic, t.TopicID = err.Code, req.Topics[i].Topic, req.Topics[i].TopicID
		if t.Topic == nil {
			t.Topic = new(string)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// autoCreated gives the names asked that are no topics and are to be made on the way.
func (h *Handlers) autoCreated(req *kmsg.MetadataRequest) []string {
	if !h.Node.TopicDefaults.AutoCreate || req.Version >= 4 && !req.AllowAutoTopicCreation || asksByID(req) {
		return nil
	}
	img := h.Metadata.Image()
	var missing []string
	for i := range req.Topics {
		// The cluster's own topics are never made with the defaults of others (redpanda#31213).
		name := *req.Topics[i].Topic
		if img.Topic(name) == nil && metadata.CheckTopicName(name) == nil && !metadata.InternalTopic(name) && name != metadata.MetadataTopic {
			missing = append(missing, name)
		}
	}
	return missing
}

// asksByID says that some topic is asked by id; the ones asked by name are then left out, as in Kafka.
func asksByID(req *kmsg.MetadataRequest) bool {
	for i := range req.Topics {
		if req.Topics[i].TopicID != [16]byte{} {
			return true
		}
	}
	return false
}

// createMissing makes topics with the cluster's defaults by the road of CreateTopics. It gives the codes of those that
// could not be made.
func (h *Handlers) createMissing(ctx context.Context, r *transport.Request, names []string) map[string]int16 {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.SetVersion(7)
	req.TimeoutMillis = autoCreateMillis
	for _, name := range names {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, -1, -1
		req.Topics = append(req.Topics, t)
	}
	ctx, cancel := within(ctx, autoCreateMillis)
	defer cancel()
	failed := map[string]int16{}
	resp, ok := h.answerTo(ctx, r, req).(*kmsg.CreateTopicsResponse)
	if !ok {
		return failed
	}
	for i := range resp.Topics {
		switch c := resp.Topics[i].ErrorCode; c {
		case 0, kerr.TopicAlreadyExists.Code:
		case kerr.NotController.Code, kerr.RequestTimedOut.Code:
			failed[resp.Topics[i].Topic] = kerr.LeaderNotAvailable.Code // asked again, it may work
		default:
			failed[resp.Topics[i].Topic] = c
		}
	}
	return failed
}

// answerTo answers a request that this node makes on behalf of r's client.
func (h *Handlers) answerTo(ctx context.Context, r *transport.Request, req kmsg.Request) kmsg.Response {
	frame := binary.BigEndian.AppendUint16(nil, uint16(req.Key()))
	frame = binary.BigEndian.AppendUint16(frame, uint16(req.GetVersion()))
	frame = append(frame, 0, 0, 0, 0, 0xff, 0xff) // correlation id, client id
	if req.IsFlexible() {
		frame = append(frame, 0)
	}
	inner := &transport.Request{
		Key: req.Key(), Version: req.GetVersion(), Body: req, Conn: r.Conn, Frame: req.AppendTo(frame),
	}
	resp := h.Handle(ctx, inner)
	if resp.Wait != nil {
		resp = resp.Wait(ctx)
	}
	return resp.Body
}

// describe makes the answer from the newest image. failed has the codes of topics that were to be made and were not.
func (h *Handlers) describe(req *kmsg.MetadataRequest, listener string, failed map[string]int16) *kmsg.MetadataResponse {
	img := h.Metadata.Image()
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	resp.ControllerID = h.Metadata.ControllerID()
	if id := img.ClusterID(); id != "" {
		resp.ClusterID = &id
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = clusterOperations
	}
	for b := range img.Brokers() {
		at, ok := b.Listeners[listener]
		if b.Fenced || !ok {
			continue
		}
		x := kmsg.NewMetadataResponseBroker()
		x.NodeID, x.Host, x.Port, x.Rack = b.ID, at.Host, at.Port, rackOf(b)
		resp.Brokers = append(resp.Brokers, x)
	}
	d := describer{img: img, req: req, listener: listener}
	switch {
	case req.Topics == nil || req.Version == 0 && len(req.Topics) == 0:
		resp.Topics = make([]kmsg.MetadataResponseTopic, 0, img.TopicCount())
		for t := range img.Topics() {
			resp.Topics = append(resp.Topics, d.known(t))
		}
	case asksByID(req):
		resp.Topics = d.byID()
	default:
		resp.Topics = d.byName(failed)
	}
	return resp
}

// describer makes the topics of one answer.
type describer struct {
	img      *metadata.Image
	req      *kmsg.MetadataRequest
	listener string
}

func (d *describer) byID() []kmsg.MetadataResponseTopic {
	var out []kmsg.MetadataResponseTopic
	seen := map[[16]byte]bool{}
	for i := range d.req.Topics {
		id := d.req.Topics[i].TopicID
		if id == [16]byte{} || seen[id] {
			continue
		}
		seen[id] = true
		if t := d.img.TopicByID(id); t != nil {
			out = append(out, d.known(t))
			continue
		}
		t := kmsg.NewMetadataResponseTopic()
		t.TopicID, t.ErrorCode = id, kerr.UnknownTopicID.Code
		out = append(out, t)
	}
	return out
}

func (d *describer) byName(failed map[string]int16) []kmsg.MetadataResponseTopic {
	out := make([]kmsg.MetadataResponseTopic, 0, len(d.req.Topics))
	seen := make(map[string]bool, len(d.req.Topics))
	for i := range d.req.Topics {
		name := *d.req.Topics[i].Topic
		if seen[name] {
			continue
		}
		seen[name] = true
		if t := d.img.Topic(name); t != nil {
			out = append(out, d.known(t))
			continue
		}
		t := kmsg.NewMetadataResponseTopic()
		t.Topic, t.ErrorCode = &name, kerr.UnknownTopicOrPartition.Code
		if err := metadata.CheckTopicName(name); err != nil {
			t.ErrorCode = code(err)
		} else if c, ok := failed[name]; ok {
			t.ErrorCode = c
		}
		out = append(out, t)
	}
	return out
}

func (d *describer) known(t *metadata.Topic) kmsg.MetadataResponseTopic {
	x := kmsg.NewMetadataResponseTopic()
	x.Topic, x.TopicID, x.IsInternal = &t.Name, t.ID, metadata.InternalTopic(t.Name)
	if d.req.IncludeTopicAuthorizedOperations {
		x.AuthorizedOperations = topicOperations
	}
	x.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for n, p := range t.Partitions {
		y := kmsg.NewMetadataResponseTopicPartition()
		y.Partition, y.LeaderEpoch, y.Replicas, y.ISR = int32(n), p.LeaderEpoch, shownReplicas(p), p.ISR
		y.Leader, y.ErrorCode = leaderOn(d.img, p, d.listener)
		if d.req.Version < 6 && y.ErrorCode == kerr.ListenerNotFound.Code {
			y.ErrorCode = kerr.LeaderNotAvailable.Code // older clients do not know the other
		}
		for _, id := range y.Replicas {
			if !d.img.Broker(id).Alive() {
				y.OfflineReplicas = append(y.OfflineReplicas, id)
			}
		}
		x.Partitions[n] = y
	}
	return x
}
