package main

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// subscription is the metadata of a consumer that subscribes to topics.
func subscription(topics ...string) []byte {
	m := kmsg.NewConsumerMemberMetadata()
	m.Topics = topics
	return m.AppendTo(nil)
}

// assignment hands partitions 0 to n-1 of a topic to a consumer.
func assignment(topic string, partitions ...int32) []byte {
	a := kmsg.NewConsumerMemberAssignment()
	t := kmsg.NewConsumerMemberAssignmentTopic()
	t.Topic, t.Partitions = topic, partitions
	a.Topics = append(a.Topics, t)
	return a.AppendTo(nil)
}

func joining(group, member string, protocols ...string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.ProtocolType = group, member, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = steady, steady
	for _, name := range protocols {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = name, subscription("t")
		req.Protocols = append(req.Protocols, p)
	}
	return req
}

// named learns the member id of a join answer and keeps what the answer says.
func (r *run) named(token string, to *kmsg.JoinGroupResponse) func(kmsg.Response) {
	return func(resp kmsg.Response) {
		a := resp.(*kmsg.JoinGroupResponse)
		if a.MemberID != "" {
			r.learn("", a.MemberID, token)
		}
		*to = *a
	}
}

func syncing(group, member string, generation int32) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = group, member, generation
	req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	return req
}

func handing(req *kmsg.SyncGroupRequest, member string, share []byte) *kmsg.SyncGroupRequest {
	a := kmsg.NewSyncGroupRequestGroupAssignment()
	a.MemberID, a.MemberAssignment = member, share
	req.GroupAssignment = append(req.GroupAssignment, a)
	return req
}

func beating(group, member string, generation int32) *kmsg.HeartbeatRequest {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = group, member, generation
	return req
}

type mark struct {
	topic     string
	id        [16]byte
	partition int32
	offset    int64
	metadata  string // "\x00" = null
}

func committing(group, member string, generation int32, marks ...mark) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = group, member, generation
	for _, m := range marks {
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic, t.TopicID = m.topic, m.id
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = m.partition, m.offset
		if m.metadata != null {
			p.Metadata = kmsg.StringPtr(m.metadata)
		}
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	return req
}

// fetchingOffsets asks for partitions of one topic of a group, in the shape of every version; topic "" asks for all.
func fetchingOffsets(group, topic string, id [16]byte, partitions ...int32) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	if topic != "" {
		t := kmsg.NewOffsetFetchRequestTopic()
		t.Topic, t.Partitions = topic, partitions
		req.Topics = append(req.Topics, t)
		u := kmsg.NewOffsetFetchRequestGroupTopic()
		u.Topic, u.TopicID, u.Partitions = topic, id, partitions
		g.Topics = append(g.Topics, u)
	}
	req.Groups = append(req.Groups, g)
	return req
}

func leaving(group string, members ...string) *kmsg.LeaveGroupRequest {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = group
	for _, id := range members {
		req.MemberID = id
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = id
		req.Members = append(req.Members, m)
	}
	return req
}

func describing(groups ...string) *kmsg.DescribeGroupsRequest {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = groups
	return req
}

func listing(states, types []string) *kmsg.ListGroupsRequest {
	req := kmsg.NewPtrListGroupsRequest()
	req.StatesFilter, req.TypesFilter = states, types
	return req
}

func deleting(groups ...string) *kmsg.DeleteGroupsRequest {
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = groups
	return req
}

func forgetting(group, topic string, partitions ...int32) *kmsg.OffsetDeleteRequest {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = group
	t := kmsg.NewOffsetDeleteRequestTopic()
	t.Topic = topic
	for _, n := range partitions {
		p := kmsg.NewOffsetDeleteRequestTopicPartition()
		p.Partition = n
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return req
}
