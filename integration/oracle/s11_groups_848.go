package main

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func init() {
	scenarios["11-consumer-protocol"] = consumerProtocol
	scenarios["11-consumer-refusals"] = consumerRefusals
	scenarios["11-consumer-static"] = consumerStatic
	scenarios["11-consumer-regex"] = consumerRegex
	scenarios["11-consumer-and-classic"] = consumerAndClassic
}

func consumerProtocol(r *run) {
	r.hideEpochs()
	r.unordered("Partitions", "TopicPartitions", "SubscribedTopics")
	topic, id := r.newTopic("t", 2)
	other, _ := r.newTopic("u", 1)
	for v := int16(0); v <= 1; v++ {
		g := r.topic(fmt.Sprintf("v%d", v))
		r.groupReady(g)
		in := func(step string) string { return fmt.Sprintf("%s, v%d", step, v) }
		member := ""
		if v == 1 {
			member = memberA
		}
		var a kmsg.ConsumerGroupHeartbeatResponse
		r.enter(in("joins with one topic"), v, subscribing(g, member, topic), "A", &a)
		m := r.who(&a)
		r.obtain(in("gets its partitions"), g, m, &a)
		r.query(in("a heartbeat with the given epoch"), v, living(g, m, a.MemberEpoch))
		r.query(in("a heartbeat that owns both partitions"), v, owning(living(g, m, a.MemberEpoch), id, 0, 1))
		r.query(in("a heartbeat with every field"), v, func() kmsg.Request {
			req := owning(subscribing(g, m, topic), id, 0, 1)
			req.MemberEpoch = a.MemberEpoch
			return req
		}())
		r.query(in("a heartbeat with the epoch before"), v, living(g, m, a.MemberEpoch-1))
		r.query(in("a heartbeat with a later epoch"), v, living(g, m, a.MemberEpoch+1))
		r.query(in("a heartbeat with epoch -3"), v, living(g, m, -3))
		r.query(in("a heartbeat of an unknown member"), v, living(g, "nobody", a.MemberEpoch))
		r.query(in("a heartbeat in an unknown group"), v, living(r.topic("missing"), m, a.MemberEpoch))
		r.query(in("a description"), v, inspecting(g))
		r.query(in("a description of an unknown and an unnamed group"), v, inspecting(r.topic("missing"), ""))
		r.query(in("a classic description"), 5, describing(g))
		r.query(in("a classic description, newest"), 6, describing(g))
		r.query(in("a list of groups"), 5, listing(nil, nil))
		r.query(in("a list of consumer groups"), 5, listing(nil, []string{"consumer"}))
		r.query(in("a list of stable groups"), 5, listing([]string{"stable"}, nil))
		r.query(in("a list of groups that are assigning"), 5, listing([]string{"Assigning", "Reconciling"}, nil))

		r.query(in("a commit with the member epoch"), 9, committing(g, m, a.MemberEpoch, mark{topic, id, 0, 5, "x"}))
		r.query(in("a commit with the member epoch by topic id"), 10, committing(g, m, a.MemberEpoch, mark{topic, id, 0, 6, "x"}))
		r.query(in("a commit with the member epoch in v8"), 8, committing(g, m, a.MemberEpoch, mark{topic, id, 0, 7, "x"}))
		r.query(in("a commit with an earlier member epoch"), 9, committing(g, m, a.MemberEpoch-1, mark{topic, id, 0, 8, "x"}))
		r.query(in("a commit with a later member epoch"), 9, committing(g, m, a.MemberEpoch+1, mark{topic, id, 0, 8, "x"}))
		r.query(in("a commit of an unknown member"), 9, committing(g, "nobody", a.MemberEpoch, mark{topic, id, 0, 8, "x"}))
		r.query(in("a commit without a member"), 9, committing(g, "", -1, mark{topic, id, 0, 8, "x"}))
		fetch := fetchingOffsets(g, topic, id, 0, 1)
		fetch.Groups[0].MemberID, fetch.Groups[0].MemberEpoch = kmsg.StringPtr(m), a.MemberEpoch
		r.query(in("a fetch of offsets with the member epoch"), 9, fetch)
		fetch.Groups[0].MemberEpoch = a.MemberEpoch - 1
		r.query(in("a fetch of offsets with an earlier member epoch"), 9, fetch)
		fetch.Groups[0].MemberEpoch = a.MemberEpoch + 1
		r.query(in("a fetch of offsets with a later member epoch"), 9, fetch)
		fetch.Groups[0].MemberID = kmsg.StringPtr("nobody")
		r.query(in("a fetch of offsets of an unknown member"), 9, fetch)
		r.query(in("a fetch of offsets without a member"), 8, fetchingOffsets(g, "", id))
		r.query(in("deletes an offset of a subscribed topic"), 0, forgetting(g, topic, 0))
		r.query(in("deletes the group while it has a member"), 2, deleting(g))
		r.query(in("a classic heartbeat"), 4, beating(g, m, a.MemberEpoch))

		var b kmsg.ConsumerGroupHeartbeatResponse
		beatA, beatB := func() { r.beat(g, m, &a) }, func() { r.beat(g, memberB, &b) }
		r.enter(in("a second member joins"), 1, subscribing(g, memberB, topic), "B", &b)
		r.await(in("the first learns that it must give up a partition"), v, func() kmsg.Request { return living(g, m, a.MemberEpoch) }, func(resp kmsg.Response) bool {
			h := resp.(*kmsg.ConsumerGroupHeartbeatResponse)
			return h.ErrorCode != 0 || holding(1, 1)(h)
		}, told(&a), func(kmsg.Response) {
			if holding(1, 1)(&a) {
				r.parted(a.Assignment.Topics[0].Partitions[0])
			}
		})
		r.query(in("the second has to wait"), 1, living(g, memberB, b.MemberEpoch), told(&b))
		r.query(in("a description while a partition moves"), v, inspecting(g))
		r.query(in("a list of groups while a partition moves"), 5, listing(nil, nil))
		if holding(1, 1)(&a) {
			r.query(in("the first gives up a partition"), v, owning(living(g, m, a.MemberEpoch), id, a.Assignment.Topics[0].Partitions...), told(&a))
		}
		r.obtain(in("the second gets its partition"), g, memberB, &b)
		r.settle(g, beatA, beatB)
		r.query(in("a description with two members"), v, inspecting(g))
		r.unlearn("Partitions") // from here on only how many of which topic
		r.learn("Partitions", 0, "one")
		r.learn("Partitions", 1, "one")
		wider := living(g, m, a.MemberEpoch)
		wider.SubscribedTopicNames = []string{topic, other}
		r.query(in("subscribes to another topic too"), v, wider, told(&a), unassigned)
		r.comes(in("gets the partition of the other topic"), g, m, &a, holding(2, 2))
		r.settle(g, beatA, beatB)
		r.query(in("a description with another topic"), v, inspecting(g))
		r.query(in("subscribes to a topic that does not exist"), v, func() kmsg.Request {
			req := living(g, m, a.MemberEpoch)
			req.SubscribedTopicNames = []string{topic, r.topic("missing")}
			return req
		}(), told(&a), unassigned)
		r.comes(in("must give up the partition of the other topic"), g, m, &a, holding(1, 1))
		r.settle(g, beatA, beatB)
		r.query(in("a description with a topic that does not exist"), v, inspecting(g))
		r.query(in("the second leaves"), 1, living(g, memberB, -1))
		r.query(in("the second leaves again"), 1, living(g, memberB, -1))
		r.unlearn("Partitions")
		r.comes(in("the first gets both partitions back"), g, m, &a, holding(1, 2))
		r.query(in("the first leaves"), v, living(g, m, -1))
		r.query(in("a heartbeat after leaving"), v, living(g, m, a.MemberEpoch))
		r.query(in("a description after all left"), v, inspecting(g))
		r.query(in("a list of empty groups"), 5, listing([]string{"empty"}, nil))
		r.enter(in("joins the empty group"), v, subscribing(g, member, topic), "A", &a)
		m = r.who(&a)
		r.obtain(in("gets its partitions in the group that was empty"), g, m, &a)
		r.query(in("a classic leave"), 5, leaving(g, m))
		r.query(in("a heartbeat after a classic leave"), v, living(g, m, a.MemberEpoch))
		r.query(in("a description after a classic leave"), v, inspecting(g))
		r.query(in("a plain commit to the empty group"), 9, committing(g, "", -1, mark{topic, id, 1, 3, "x"}))
		r.query(in("a fetch of offsets after all left"), 8, fetchingOffsets(g, "", id))
		r.query(in("deletes an offset"), 0, forgetting(g, topic, 0))
		r.query(in("deletes the empty group"), 2, deleting(g))
		r.query(in("a description of the deleted group"), v, inspecting(g))
	}
}

func consumerRefusals(r *run) {
	topic, id := r.newTopic("t", 2)
	g := r.topic("g")
	r.groupReady(g, r.topic("never"))
	odd := func(step string, v int16, change func(req *kmsg.ConsumerGroupHeartbeatRequest)) (a kmsg.ConsumerGroupHeartbeatResponse) {
		req := subscribing(g, memberA, topic)
		change(req)
		r.query(step, v, req, r.admitted("odd one", &a), unassigned, level)
		return a
	}
	for v := int16(0); v <= 1; v++ {
		in := func(step string) string { return fmt.Sprintf("%s, v%d", step, v) }
		odd(in("no subscription"), v, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.SubscribedTopicNames = nil })
		odd(in("an empty subscription"), v, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.SubscribedTopicNames = []string{} })
		odd(in("owned partitions missing"), v, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.Topics = nil })
		odd(in("owned partitions not empty"), v, func(req *kmsg.ConsumerGroupHeartbeatRequest) { owning(req, id, 0) })
		odd(in("rebalance timeout missing"), v, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.RebalanceTimeoutMillis = -1 })
		odd(in("rebalance timeout 0"), v, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.RebalanceTimeoutMillis = 0 })
		odd(in("an unknown assignor"), v, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.ServerAssignor = kmsg.StringPtr("odd") })
		odd(in("an empty assignor"), v, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.ServerAssignor = kmsg.StringPtr("") })
		odd(in("an empty group"), v, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.Group = "" })
		odd(in("a blank group"), v, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.Group = " " })
		odd(in("an empty instance id"), v, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.InstanceID = kmsg.StringPtr("") })
		odd(in("an empty rack"), v, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.RackID = kmsg.StringPtr("") })
		odd(in("epoch -2 without an instance id"), v, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.MemberEpoch = -2 })
		odd(in("epoch 1000 of a member at an earlier one"), v, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.MemberEpoch = 1000 })
		odd(in("epoch -1 of a member"), v, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.MemberEpoch = -1 })
		odd(in("epoch -1 in a group everybody left"), v, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.MemberEpoch = -1 })
		odd(in("epoch 5 in a group everybody left"), v, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.MemberEpoch = 5 })
		odd(in("epoch -1 in a group nobody is in"), v, func(req *kmsg.ConsumerGroupHeartbeatRequest) {
			req.Group, req.MemberEpoch = r.topic("never"), -1
		})
		odd(in("epoch 5 in a group nobody is in"), v, func(req *kmsg.ConsumerGroupHeartbeatRequest) {
			req.Group, req.MemberEpoch = r.topic("never"), 5
		})
		odd(in("no member id and epoch 5"), v, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.MemberID, req.MemberEpoch = "", 5 })
	}
	odd("no member id, v1", 1, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.MemberID = "" })
	r.quiet(1, living(g, memberA, -1))
	a := odd("the range assignor", 1, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.ServerAssignor = kmsg.StringPtr("range") })
	beatA := func() { r.beat(g, memberA, &a) }
	r.settle(g, beatA)
	r.query("a description with the range assignor", 1, inspecting(g), level)
	r.query("joins twice with the same id", 1, subscribing(g, memberA, topic), level)
	r.quiet(1, living(g, memberA, -1))
	b := odd("a topic that does not exist", 1, func(req *kmsg.ConsumerGroupHeartbeatRequest) {
		req.MemberID, req.SubscribedTopicNames = memberB, []string{r.topic("missing")}
	})
	r.learn("", memberB, "other odd one")
	a = odd("the same topic twice", 1, func(req *kmsg.ConsumerGroupHeartbeatRequest) {
		req.SubscribedTopicNames = []string{topic, topic}
	})
	r.settle(g, beatA, func() { r.beat(g, memberB, &b) })
	r.query("a description after these", 1, inspecting(g), level)
	r.quiet(1, living(g, memberA, -1))
	r.quiet(1, living(g, memberB, -1))
}

// level takes epochs out where they only count how many questions came before.
func level(resp kmsg.Response) {
	switch a := resp.(type) {
	case *kmsg.ConsumerGroupDescribeResponse:
		for i := range a.Groups {
			g := &a.Groups[i]
			g.Epoch, g.AssignmentEpoch = int32(sign(int64(g.Epoch))), int32(sign(int64(g.AssignmentEpoch)))
			for j := range g.Members {
				g.Members[j].MemberEpoch = int32(sign(int64(g.Members[j].MemberEpoch)))
			}
		}
	case *kmsg.ConsumerGroupHeartbeatResponse:
		a.MemberEpoch = int32(sign(int64(a.MemberEpoch)))
	}
}

func consumerStatic(r *run) {
	r.hideEpochs()
	topic, id := r.newTopic("t", 2)
	g := r.topic("g")
	r.groupReady(g)
	static := func(req *kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatRequest {
		req.InstanceID = kmsg.StringPtr("i1")
		return req
	}
	var a, b kmsg.ConsumerGroupHeartbeatResponse
	r.enter("joins with an instance id", 1, static(subscribing(g, memberA, topic)), "A", &a)
	r.learn("", memberB, "B")
	r.obtain("gets its partitions", g, memberA, &a)
	r.query("a heartbeat with its instance id", 1, static(living(g, memberA, a.MemberEpoch)))
	r.query("a heartbeat without its instance id", 1, living(g, memberA, a.MemberEpoch))
	r.query("a heartbeat with another instance id", 1, func() kmsg.Request {
		req := living(g, memberA, a.MemberEpoch)
		req.InstanceID = kmsg.StringPtr("i9")
		return req
	}())
	r.query("a description of a static member", 1, inspecting(g))
	r.query("another member joins with the same instance id", 1, static(subscribing(g, memberB, topic)))
	r.query("leaves for a while with epoch -2", 1, static(living(g, memberA, -2)))
	r.query("a description while it is away", 1, inspecting(g))
	r.query("a commit while it is away", 9, committing(g, memberA, a.MemberEpoch, mark{topic, id, 0, 1, ""}))
	r.query("another member takes over the instance id", 1, static(subscribing(g, memberB, topic)), r.admitted("B", &b))
	r.query("the old id sends a heartbeat", 1, static(living(g, memberA, a.MemberEpoch)))
	r.query("the old id sends a heartbeat without its instance id", 1, living(g, memberA, a.MemberEpoch))
	r.query("the new id sends a heartbeat", 1, static(living(g, memberB, b.MemberEpoch)))
	r.query("a description after the take-over", 1, inspecting(g))
	r.query("an admin removes it by instance id", 5, func() kmsg.Request {
		req := leaving(g)
		m := kmsg.NewLeaveGroupRequestMember()
		m.InstanceID = kmsg.StringPtr("i1")
		req.Members = append(req.Members, m)
		return req
	}())
	r.query("leaves for good with epoch -1 after it was removed", 1, static(living(g, memberB, -1)))
	r.enter("joins once more with the instance id", 1, static(subscribing(g, memberB, topic)), "B", &b)
	r.query("leaves for good with epoch -1", 1, static(living(g, memberB, -1)))
	r.query("a description after it left for good", 1, inspecting(g), level)
}

func consumerRegex(r *run) {
	topic, _ := r.newTopic("orders", 1)
	r.newTopic("other", 1)
	g := r.topic("g")
	r.groupReady(g)
	pattern := func(member, regex string) *kmsg.ConsumerGroupHeartbeatRequest {
		req := subscribing(g, member)
		req.SubscribedTopicRegex = kmsg.StringPtr(regex)
		return req
	}
	var a kmsg.ConsumerGroupHeartbeatResponse
	r.learn("", memberB, "B")
	r.query("a bad pattern", 1, pattern(memberB, "(oracle"))
	r.query("a pattern with a look-ahead", 1, pattern(memberB, "(?=x)y"))
	r.query("a pattern with a back reference", 1, pattern(memberB, `(a)\1`))
	r.query("an empty pattern", 1, pattern(memberB, ""), level)
	r.quiet(1, living(g, memberB, -1))
	r.query("joins with a pattern", 1, pattern(memberA, r.topic("")+"ord.*"), r.admitted("A", &a), unassigned, level)
	if !holds(&a) { // patterns may be resolved late: the description below tells
		r.until(1, func() kmsg.Request { return living(g, memberA, a.MemberEpoch) }, func(resp kmsg.Response) bool {
			h := *resp.(*kmsg.ConsumerGroupHeartbeatResponse)
			if h.ErrorCode == 0 {
				a.MemberEpoch = h.MemberEpoch
			}
			return h.ErrorCode != 0 || holds(&h)
		})
	}
	r.query("a description with a pattern", 1, inspecting(g), level)
	both := living(g, memberA, a.MemberEpoch)
	both.SubscribedTopicNames, both.SubscribedTopicRegex = []string{topic}, kmsg.StringPtr(r.topic("")+"ot.*")
	r.query("a pattern and names at once", 1, both, r.admitted("A", &a), unassigned, level)
	drop := living(g, memberA, a.MemberEpoch)
	drop.SubscribedTopicRegex = kmsg.StringPtr("")
	r.query("drops the pattern", 1, drop, r.admitted("A", &a), unassigned, level)
	r.query("a bad pattern later", 1, func() kmsg.Request {
		req := living(g, memberA, a.MemberEpoch)
		req.SubscribedTopicRegex = kmsg.StringPtr("[")
		return req
	}(), level)
	r.query("leaves with a pattern", 1, living(g, memberA, -1))
}

func consumerAndClassic(r *run) {
	topic, id := r.newTopic("t", 2)
	g := r.topic("g")
	r.groupReady(g)
	r.hideEpochs()
	r.unordered("Partitions")
	var a kmsg.ConsumerGroupHeartbeatResponse
	var j kmsg.JoinGroupResponse
	// A generation counts how often members were told of new shares.
	leveled := func(resp kmsg.Response) {
		x := resp.(*kmsg.JoinGroupResponse)
		x.Generation = int32(sign(int64(x.Generation)))
	}
	// turn lets a classic member do what its heartbeats ask for, quietly.
	turn := func(group string, join *kmsg.JoinGroupRequest) {
		h, ok := r.quiet(4, beating(group, join.MemberID, j.Generation)).(*kmsg.HeartbeatResponse)
		if !ok || h.ErrorCode != 27 {
			return
		}
		if x, ok := r.quiet(9, join).(*kmsg.JoinGroupResponse); ok && x.ErrorCode == 0 {
			j = *x
			r.quiet(5, syncing(group, join.MemberID, j.Generation))
		}
	}
	// share asks for what a classic member has: the broker chooses which partition.
	share := func(step, group, member string) {
		r.query(step, 5, syncing(group, member, j.Generation), func(resp kmsg.Response) {
			x := resp.(*kmsg.SyncGroupResponse)
			var had kmsg.ConsumerMemberAssignment
			if had.ReadFrom(x.MemberAssignment) == nil && len(had.Topics) == 1 && had.Topics[0].Topic == topic && len(had.Topics[0].Partitions) == 1 {
				r.learn("MemberAssignment", x.MemberAssignment, "one partition")
			}
		})
	}
	r.enter("a consumer joins", 1, subscribing(g, memberA, topic), "A", &a)
	r.obtain("the consumer gets its partitions", g, memberA, &a)
	beatA := func() { r.beat(g, memberA, &a) }
	plain := joining(g, "", "range")
	plain.Protocols[0].Metadata = subscription(topic)
	r.query("a classic member asks for an id in its group", 9, plain, r.named("C", &j), func(kmsg.Response) { j.Members = nil })
	classic := j.MemberID
	odd := joining(g, "", "range")
	odd.ProtocolType = "connect"
	r.query("a classic member of another type asks for an id in its group", 9, odd)
	broken := joining(g, "", "range")
	broken.Protocols[0].Metadata = []byte{1}
	if d, ok := r.quiet(4, broken).(*kmsg.JoinGroupResponse); ok {
		broken.MemberID = d.MemberID
		r.learn("", d.MemberID, "D")
	}
	r.query("a classic member with metadata that cannot be read", 4, broken)
	plain.MemberID = classic
	r.query("the classic member joins", 9, plain, r.named("C", &j), leveled)
	r.quiet(5, syncing(g, classic, j.Generation))
	r.settle(g, beatA, func() { turn(g, plain) })
	if holding(1, 1)(&a) {
		r.parted(a.Assignment.Topics[0].Partitions[0])
	}
	r.query("a description of the mixed group", 1, inspecting(g), level)
	share("the classic member has a share of the mixed group", g, classic)
	r.query("a classic description of the mixed group", 5, describing(g))
	r.query("the consumer leaves the mixed group", 1, living(g, memberA, -1))
	r.quiet(5, leaving(g, classic))

	r.unlearn("Partitions")
	r.unlearn("MemberAssignment")
	h := r.topic("h")
	r.groupReady(h)
	r.query("a classic member asks for an id", 9, joining(h, "", "range"), r.named("K", &j))
	k := j.MemberID
	first := joining(h, k, "range")
	first.Protocols[0].Metadata = subscription(topic)
	r.query("a classic member joins", 9, first, r.named("K", &j))
	r.query("a classic member syncs", 5, handing(syncing(h, k, j.Generation), k, assignment(topic, 0, 1)))
	a = kmsg.ConsumerGroupHeartbeatResponse{}
	r.enter("a consumer joins the classic group", 1, subscribing(h, memberA, topic), "A", &a)
	r.await("a description of the group that was classic", 1, func() kmsg.Request { return inspecting(h) }, func(resp kmsg.Response) bool {
		d := resp.(*kmsg.ConsumerGroupDescribeResponse)
		return len(d.Groups) != 1 || d.Groups[0].State != "Assigning"
	}, level, func(resp kmsg.Response) {
		for _, x := range resp.(*kmsg.ConsumerGroupDescribeResponse).Groups {
			for _, y := range x.Members {
				if t := y.TargetAssignment.TopicPartitions; y.MemberID == k && len(t) == 1 && len(t[0].Partitions) == 1 {
					r.parted(t[0].Partitions[0])
				}
			}
		}
	})
	r.query("a classic description of the group that was classic", 5, describing(h))
	r.query("the classic member sends a heartbeat", 4, beating(h, k, j.Generation))
	r.query("the classic member commits", 8, committing(h, k, j.Generation, mark{topic, id, 0, 1, ""}))
	r.query("the classic member joins again", 9, first, r.named("K", &j), leveled)
	r.quiet(5, syncing(h, k, j.Generation))
	r.settle(h, func() { r.beat(h, memberA, &a) }, func() { turn(h, first) })
	r.query("a description once the shares have moved", 1, inspecting(h), level)
	share("the classic member has a share of the group that was classic", h, k)
	r.unlearn("Partitions")
	r.quiet(1, living(h, memberA, -1))
	r.quiet(5, leaving(h, k))

	e := r.topic("e")
	r.groupReady(e)
	r.query("a plain commit makes a group", 8, committing(e, "", -1, mark{topic, id, 0, 1, ""}))
	a = kmsg.ConsumerGroupHeartbeatResponse{}
	r.enter("a consumer joins the group a plain commit made", 1, subscribing(e, memberA, topic), "A", &a)
	r.obtain("the consumer gets its partitions in the group a plain commit made", e, memberA, &a)
	r.query("a list of that group", 5, listing(nil, nil))
	r.quiet(1, living(e, memberA, -1))
	r.query("a fetch of offsets after the consumer left", 8, fetchingOffsets(e, "", id))
	other := kmsg.NewPtrConsumerGroupDescribeRequest()
	other.Groups = []string{e, e}
	r.query("the same group described twice", 1, other, level)
	f := r.topic("f")
	r.groupReady(f)
	r.quiet(8, committing(f, "", -1, mark{topic, id, 0, 1, ""}))
	r.query("a classic group described as a consumer group", 1, inspecting(f))
}
