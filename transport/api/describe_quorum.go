package api

import (
	"context"
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
	"cordwood/transport"
)

// controllerListener is the name that Kafka's tools show for the listener of the metadata log.
const controllerListener = "CONTROLLER"

func handleDescribeQuorum(h *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.DescribeQuorumRequest)
	for _, t := range req.Topics {
		if t.Topic == metadata.MetadataTopic && !h.Metadata.IsController() {
			return h.describeQuorumElsewhere(r, req)
		}
	}
	return wait(func(context.Context) kmsg.Response { return h.describeQuorum(req) })
}

// describeQuorumElsewhere asks the controller for the metadata log, whose followers it alone knows. Topic partitions
// are still this node's own to answer, and what it knows of the metadata log where no controller answers.
func (h *Handlers) describeQuorumElsewhere(r *transport.Request, req *kmsg.DescribeQuorumRequest) transport.Response {
	return wait(func(ctx context.Context) kmsg.Response {
		ctx, cancel := context.WithTimeout(ctx, longestAdminWait)
		defer cancel()
		own := h.describeQuorum(req)
		told, err := h.Metadata.Forward(ctx, r)
		answer, ok := told.(*kmsg.DescribeQuorumResponse)
		if err != nil || !ok {
			return own
		}
		for i, t := range answer.Topics {
			if t.Topic == metadata.MetadataTopic && i < len(own.Topics) {
				own.Topics[i] = t
			}
		}
		own.Nodes = answer.Nodes
		return own
	})
}

func (h *Handlers) describeQuorum(req *kmsg.DescribeQuorumRequest) *kmsg.DescribeQuorumResponse {
	resp := req.ResponseKind().(*kmsg.DescribeQuorumResponse)
	resp.ErrorMessage = sentence(nil)
	img := h.Metadata.Image()
	q := h.Controller.Quorum()
	measured := asksFor(&req.UnknownTags, metadata.TagAckLatency)
	for _, asked := range req.Topics {
		t := kmsg.NewDescribeQuorumResponseTopic()
		t.Topic = asked.Topic
		for _, p := range asked.Partitions {
			if asked.Topic == metadata.MetadataTopic && p.Partition == 0 {
				t.Partitions = append(t.Partitions, h.describeMetadataLog(&q))
				resp.Nodes = describeQuorumNodes(&q)
				continue
			}
			t.Partitions = append(t.Partitions, h.describePartitionQuorum(img, asked.Topic, p.Partition))
		}
		if known := img.Topic(asked.Topic); measured && known != nil {
			latency := h.Replicas.AckLatency(known.ID)
			t.UnknownTags.Set(metadata.TagAckLatency, partition.EncodeAckLatency(&latency))
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

func (h *Handlers) describeMetadataLog(q *Quorum) kmsg.DescribeQuorumResponseTopicPartition {
	x := kmsg.NewDescribeQuorumResponseTopicPartition()
	x.ErrorMessage = sentence(nil)
	x.LeaderID, x.LeaderEpoch, x.HighWatermark = q.Leader, int32(q.Term), q.HighWatermark
	for _, v := range q.Voters {
		x.CurrentVoters = append(x.CurrentVoters, h.describeVoter(q, &v))
	}
	for _, o := range q.Observers {
		x.Observers = append(x.Observers, h.describeVoter(q, &o))
	}
	return x
}

// describeVoter tells of one member of raft. The leader is caught up with itself now.
func (h *Handlers) describeVoter(q *Quorum, v *QuorumReplica) kmsg.DescribeQuorumResponseTopicPartitionReplicaState {
	s := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
	s.ReplicaID, s.LogEndOffset, s.LastFetchTimestamp, s.LastCaughtUpTimestamp = v.ID, v.LogEnd, v.LastFetch, v.LastCaught
	if v.ID == q.Leader {
		s.LastFetchTimestamp = h.wall().UnixMilli()
		s.LastCaughtUpTimestamp = s.LastFetchTimestamp
	}
	if id, err := record.ParseTopicID(v.DirectoryID); err == nil { // directory ids are written like topic ids
		s.ReplicaDirectoryID = id
	}
	return s
}

func describeQuorumNodes(q *Quorum) []kmsg.DescribeQuorumResponseNode {
	var l []kmsg.DescribeQuorumResponseNode
	for _, members := range [][]QuorumReplica{q.Voters, q.Observers} {
		for _, m := range members {
			host, port, err := net.SplitHostPort(m.Address)
			if err != nil {
				continue
			}
			number, err := strconv.ParseUint(port, 10, 16)
			if err != nil {
				continue
			}
			n := kmsg.NewDescribeQuorumResponseNode()
			n.NodeID = m.ID
			at := kmsg.NewDescribeQuorumResponseNodeListener()
			at.Name, at.Host, at.Port = controllerListener, host, uint16(number)
			n.Listeners = append(n.Listeners, at)
			l = append(l, n)
		}
	}
	return l
}

// describePartitionQuorum tells of a topic partition what its leader knows of every replica: Kafka has no such answer.
// Another node that hosts it says that it does not lead, and tells of its own replica alone.
func (h *Handlers) describePartitionQuorum(img *metadata.Image, topic string, n int32) kmsg.DescribeQuorumResponseTopicPartition {
	x := kmsg.NewDescribeQuorumResponseTopicPartition()
	x.Partition, x.ErrorMessage = n, sentence(nil)
	id, known := partitionNamed(img, topic, n)
	if !known {
		x.ErrorCode = kerr.UnknownTopicOrPartition.Code
		return x
	}
	p := img.Partition(id)
	x.LeaderID, x.LeaderEpoch, x.HighWatermark = p.Leader, p.LeaderEpoch, -1
	s, hosted := h.Replicas.State(id)
	if !hosted || !s.Leader {
		x.ErrorCode, x.ErrorMessage = code(partition.ErrNotLeader), message(partition.ErrNotLeader)
	} else {
		x.LeaderEpoch = s.LeaderEpoch
	}
	if !hosted {
		return x
	}
	x.HighWatermark = s.HighWatermark
	for _, r := range s.Replicas {
		state := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
		state.ReplicaID, state.LogEndOffset, state.LastFetchTimestamp, state.LastCaughtUpTimestamp = r.ID, r.LogEnd, r.LastFetch, r.LastCaughtUp
		place := metadata.CopyPlace{Flushed: r.Flushed, LogStart: -1}
		if r.ID == h.Node.ID {
			place.LogStart = s.LogStartOffset
		}
		state.UnknownTags.Set(metadata.TagCopyPlace, place.Encode())
		x.CurrentVoters = append(x.CurrentVoters, state)
	}
	return x
}
