package main

import (
	"reflect"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// subscribing is the first heartbeat of a consumer: epoch 0, all fields given.
func subscribing(group, member string, topics ...string) *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = group, member, 0
	req.RebalanceTimeoutMillis, req.SubscribedTopicNames = steady, topics
	req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	return req
}

// living is a later heartbeat that changes nothing.
func living(group, member string, epoch int32) *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = group, member, epoch, -1
	return req
}

func owning(req *kmsg.ConsumerGroupHeartbeatRequest, id [16]byte, partitions ...int32) *kmsg.ConsumerGroupHeartbeatRequest {
	t := kmsg.NewConsumerGroupHeartbeatRequestTopic()
	t.TopicID, t.Partitions = id, partitions
	req.Topics = append(req.Topics, t)
	return req
}

// admitted learns the member id of a heartbeat answer and keeps what the answer says.
func (r *run) admitted(token string, to *kmsg.ConsumerGroupHeartbeatResponse) func(kmsg.Response) {
	return func(resp kmsg.Response) {
		a := resp.(*kmsg.ConsumerGroupHeartbeatResponse)
		if a.MemberID != nil && *a.MemberID != "" {
			r.learn("", *a.MemberID, token)
		}
		*to = *a
	}
}

func (r *run) who(a *kmsg.ConsumerGroupHeartbeatResponse) string {
	if a.MemberID == nil {
		return "nobody"
	}
	return *a.MemberID
}

func inspecting(groups ...string) *kmsg.ConsumerGroupDescribeRequest {
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = groups
	return req
}

// Member ids as version 1 clients make them up.
const (
	memberA = "AAAAAAAAAAAAAAAAAAAAAQ"
	memberB = "AAAAAAAAAAAAAAAAAAAAAg"
)

// enter lets a member in. It may get its partitions at once or with a later heartbeat, so the recorded answer has none;
// obtain waits for them and records them as a step of their own.
//
// How late they come is the broker's affair: Kafka computes assignments once a second at most. No recorded answer may
// depend on that, so steps that change a subscription are recorded without assignment too (unassigned), and what comes
// of them as steps of their own (comes), or once the group is stable (settle).
func (r *run) enter(step string, v int16, req *kmsg.ConsumerGroupHeartbeatRequest, token string, a *kmsg.ConsumerGroupHeartbeatResponse) {
	r.query(step, v, req, r.admitted(token, a), unassigned)
}

func unassigned(resp kmsg.Response) { resp.(*kmsg.ConsumerGroupHeartbeatResponse).Assignment = nil }

// told keeps what a later answer says; what it does not mention stays.
func told(a *kmsg.ConsumerGroupHeartbeatResponse) func(kmsg.Response) {
	return func(resp kmsg.Response) {
		h := resp.(*kmsg.ConsumerGroupHeartbeatResponse)
		if a.ErrorCode = h.ErrorCode; h.ErrorCode == 0 {
			a.MemberEpoch = h.MemberEpoch
		}
		if h.Assignment != nil {
			a.Assignment = h.Assignment
		}
	}
}

// beat is a quiet heartbeat of a member that owns what it was told to.
func (r *run) beat(group, member string, a *kmsg.ConsumerGroupHeartbeatResponse) {
	req := living(group, member, a.MemberEpoch)
	if a.Assignment != nil {
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		for _, t := range a.Assignment.Topics {
			owning(req, t.TopicID, t.Partitions...)
		}
	}
	if resp := r.quiet(1, req); resp != nil {
		told(a)(resp)
	} else {
		a.ErrorCode = -1
	}
}

// comes lets a member send heartbeats until it is told to own what is awaited, and records that.
func (r *run) comes(step, group, member string, a *kmsg.ConsumerGroupHeartbeatResponse, awaited func(*kmsg.ConsumerGroupHeartbeatResponse) bool) {
	for end := time.Now().Add(r.wait); a.ErrorCode == 0 && !awaited(a) && time.Now().Before(end); time.Sleep(30 * time.Millisecond) {
		r.beat(group, member, a)
	}
	r.arrange(a)
	r.record(Step{Name: step, API: "ConsumerGroupHeartbeat", Version: 1, Answer: r.normal("", reflect.ValueOf(a.Assignment))})
}

func (r *run) obtain(step, group, member string, a *kmsg.ConsumerGroupHeartbeatResponse) {
	r.comes(step, group, member, a, holds)
}

// settle lets members send heartbeats, as others do it, until the group is stable.
func (r *run) settle(group string, beats ...func()) {
	for end := time.Now().Add(r.wait); time.Now().Before(end); time.Sleep(30 * time.Millisecond) {
		for _, b := range beats {
			b()
		}
		d, ok := r.quiet(1, inspecting(group)).(*kmsg.ConsumerGroupDescribeResponse)
		if !ok || len(d.Groups) != 1 || d.Groups[0].State == "Stable" {
			return
		}
	}
}

// parted learns which of the partitions 0 and 1 a member keeps and which it loses to another: the broker chooses.
func (r *run) parted(keeps int32) {
	r.unlearn("Partitions")
	r.learn("Partitions", keeps, "kept partition")
	r.learn("Partitions", 1-keeps, "moved partition")
}

// hideEpochs shows of group and member epochs only whether they are there: how far they rise depends on how changes are
// taken together.
func (r *run) hideEpochs() {
	for _, f := range []string{"MemberEpoch", "Epoch", "AssignmentEpoch"} {
		r.hide(f, "epoch")
	}
}

func holds(a *kmsg.ConsumerGroupHeartbeatResponse) bool {
	return a.Assignment != nil && len(a.Assignment.Topics) > 0
}

// holding says whether a member is told to own so many partitions of so many topics.
func holding(topics, partitions int) func(*kmsg.ConsumerGroupHeartbeatResponse) bool {
	return func(a *kmsg.ConsumerGroupHeartbeatResponse) bool {
		if a.Assignment == nil || len(a.Assignment.Topics) != topics {
			return false
		}
		n := 0
		for _, t := range a.Assignment.Topics {
			n += len(t.Partitions)
		}
		return n == partitions
	}
}
