package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func init() {
	scenarios["10-find-coordinator"] = findCoordinator
	scenarios["10-first-join"] = firstJoin
	scenarios["10-one-member"] = oneMember
	scenarios["10-plain-commits"] = plainCommits
	scenarios["10-static-member"] = staticMember
	scenarios["10-two-members"] = twoMembers
	scenarios["10-empty-and-gone"] = emptyAndGone
}

func findCoordinator(r *run) {
	r.node()
	group, txn := r.topic("g"), r.topic("t")
	r.groupReady(group, r.topic("g2"))
	r.txnReady(txn)
	find := func(step string, v int16, kind int8, keys ...string) {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorType, req.CoordinatorKeys = kind, keys
		if len(keys) > 0 {
			req.CoordinatorKey = keys[0]
		}
		// The first question about a share group makes the broker create a topic first.
		r.await(step, v, func() kmsg.Request { return req }, func(resp kmsg.Response) bool {
			a := resp.(*kmsg.FindCoordinatorResponse)
			return !loading(a.ErrorCode) && !slices.ContainsFunc(a.Coordinators, func(c kmsg.FindCoordinatorResponseCoordinator) bool {
				return loading(c.ErrorCode)
			})
		})
	}
	for v := int16(0); v <= 6; v++ {
		find(fmt.Sprintf("a group, v%d", v), v, 0, group)
	}
	for v := int16(1); v <= 6; v++ {
		find(fmt.Sprintf("a transactional id, v%d", v), v, 1, txn)
		find(fmt.Sprintf("an empty group, v%d", v), v, 0, "")
		find(fmt.Sprintf("an empty transactional id, v%d", v), v, 1, "")
		find(fmt.Sprintf("a key of type 2, v%d", v), v, 2, "g:AAAAAAAAAAAAAAAAAAAAAQ:0")
		find(fmt.Sprintf("a key of type 7, v%d", v), v, 7, group)
	}
	find("a badly formed key of type 2", 6, 2, group)
	find("a key of type -1", 6, -1, group)
	for v := int16(4); v <= 6; v++ {
		find(fmt.Sprintf("two groups, v%d", v), v, 0, group, r.topic("g2"))
		find(fmt.Sprintf("a good and an empty group, v%d", v), v, 0, group, "")
		find(fmt.Sprintf("the same group twice, v%d", v), v, 0, group, group)
		find(fmt.Sprintf("no key, v%d", v), v, 0)
	}
}

const steady = 30000 // a session timeout no scenario outlives

func firstJoin(r *run) {
	var a kmsg.JoinGroupResponse
	for _, v := range []int16{0, 1, 2, 3} {
		g := r.topic(fmt.Sprintf("v%d", v))
		r.groupReady(g)
		r.query(fmt.Sprintf("the first join, v%d", v), v, joining(g, "", "range"), r.named(fmt.Sprintf("member of v%d", v), &a))
		r.quiet(2, leaving(g, a.MemberID))
	}
	for _, v := range []int16{4, 5, 9} {
		g := r.topic(fmt.Sprintf("v%d", v))
		r.groupReady(g)
		r.query(fmt.Sprintf("the first join, v%d", v), v, joining(g, "", "range"), r.named(fmt.Sprintf("member of v%d", v), &a))
		r.query(fmt.Sprintf("the join with the given id, v%d", v), v, joining(g, a.MemberID, "range", "roundrobin"), r.named(fmt.Sprintf("member of v%d", v), &a))
		r.quiet(2, leaving(g, a.MemberID))
	}
	g := r.topic("bad")
	r.groupReady(g)
	odd := func(step string, v int16, change func(req *kmsg.JoinGroupRequest)) {
		req := joining(g, "", "range")
		change(req)
		r.query(step, v, req, r.named("member never used", &a))
	}
	for _, v := range []int16{2, 9} {
		odd(fmt.Sprintf("a session timeout of 1 ms, v%d", v), v, func(req *kmsg.JoinGroupRequest) { req.SessionTimeoutMillis = 1 })
		odd(fmt.Sprintf("a session timeout of 0, v%d", v), v, func(req *kmsg.JoinGroupRequest) { req.SessionTimeoutMillis = 0 })
		odd(fmt.Sprintf("the largest session timeout, v%d", v), v, func(req *kmsg.JoinGroupRequest) { req.SessionTimeoutMillis = math.MaxInt32 })
		odd(fmt.Sprintf("a negative session timeout, v%d", v), v, func(req *kmsg.JoinGroupRequest) { req.SessionTimeoutMillis = -1 })
		odd(fmt.Sprintf("no protocols, v%d", v), v, func(req *kmsg.JoinGroupRequest) { req.Protocols = nil })
		odd(fmt.Sprintf("an empty protocol type, v%d", v), v, func(req *kmsg.JoinGroupRequest) { req.ProtocolType = "" })
		odd(fmt.Sprintf("an unknown member id, v%d", v), v, func(req *kmsg.JoinGroupRequest) { req.MemberID = "nobody" })
		odd(fmt.Sprintf("an empty group id, v%d", v), v, func(req *kmsg.JoinGroupRequest) { req.Group = "" })
	}
	r.query("the group nobody got into", 5, describing(g))
	// Static members get in without being given an id first, so each has a group of its own.
	for i, c := range []struct{ step, instance, member string }{
		{"an empty instance id", "", ""},
		{"an illegal instance id", "bad/id", ""},
		{"an instance id of 250 letters", strings.Repeat("i", 250), ""},
		{"an unknown member id", "i", "nobody"},
	} {
		h := r.topic(fmt.Sprintf("static-%d", i))
		r.groupReady(h)
		req := joining(h, c.member, "range")
		req.InstanceID = kmsg.StringPtr(c.instance)
		token := fmt.Sprintf("static member %d", i)
		if c.member != "" {
			token = "member never used"
		}
		r.query("a static member with "+c.step, 9, req, r.named(token, &a))
		r.query("the group of a static member with "+c.step, 5, describing(h))
		r.quiet(2, leaving(h, a.MemberID))
	}

	g = r.topic("mixed")
	r.groupReady(g)
	r.query("a member of a mixed group asks for an id", 9, joining(g, "", "range"), r.named("first", &a))
	first := a.MemberID
	r.query("the member of a mixed group joins", 9, joining(g, first, "range"), r.named("first", &a))
	r.query("the member of a mixed group gets its share", 5, handing(syncing(g, first, a.Generation), first, assignment("t", 0)))
	other := joining(g, "", "range")
	other.ProtocolType = "connect"
	r.query("another protocol type in the same group", 9, other)
	r.query("another protocol in the same group", 9, joining(g, "", "sticky"))
	r.query("another protocol in the same group, v2", 2, joining(g, "", "sticky"))
	r.query("an unknown member id in a group with members", 9, joining(g, "nobody", "range"))
	r.query("a heartbeat after these", 4, beating(g, first, a.Generation))
	r.quiet(2, leaving(g, first))
}

func oneMember(r *run) {
	topic, id := r.newTopic("t", 2)
	g := r.topic("g")
	r.groupReady(g)
	var a kmsg.JoinGroupResponse
	r.query("a sync before there is a group", 5, syncing(g, "nobody", 1))
	r.query("a heartbeat before there is a group", 4, beating(g, "nobody", 1))
	r.query("a describe before there is a group, v5", 5, describing(g))
	r.query("a describe before there is a group, v6", 6, describing(g))
	r.query("a commit with generation 1 before there is a group", 8, committing(g, "nobody", 1, mark{topic, id, 0, 1, ""}))
	join := func(member string) *kmsg.JoinGroupRequest {
		req := joining(g, member, "range", "roundrobin")
		for i := range req.Protocols {
			req.Protocols[i].Metadata = subscription(topic)
		}
		return req
	}
	r.query("asks for an id", 9, join(""), r.named("m", &a))
	m := a.MemberID
	r.query("a describe with a pending member", 5, describing(g))
	r.query("a heartbeat of a pending member", 4, beating(g, m, 0))
	r.query("a sync of a pending member", 5, syncing(g, m, 0))
	r.query("joins", 9, join(m), r.named("m", &a))
	gen := a.Generation
	r.query("a describe before the sync", 5, describing(g))
	r.query("a list of groups before the sync", 5, listing(nil, nil))
	r.query("a heartbeat before the sync", 4, beating(g, m, gen))
	r.query("a commit before the sync", 8, committing(g, m, gen, mark{topic, id, 0, 1, ""}))
	r.query("a sync with a wrong generation", 5, handing(syncing(g, m, gen+1), m, assignment(topic, 0, 1)))
	r.query("a sync of an unknown member", 5, syncing(g, "nobody", gen))
	wrong := handing(syncing(g, m, gen), m, assignment(topic, 0, 1))
	wrong.ProtocolType = kmsg.StringPtr("connect")
	r.query("a sync with a wrong protocol type", 5, wrong)
	wrong = handing(syncing(g, m, gen), m, assignment(topic, 0, 1))
	wrong.Protocol = kmsg.StringPtr("roundrobin")
	r.query("a sync with a wrong protocol", 5, wrong)
	r.query("syncs", 5, handing(syncing(g, m, gen), m, assignment(topic, 0, 1)))
	for v := int16(0); v <= 5; v++ {
		r.query(fmt.Sprintf("syncs again, v%d", v), v, syncing(g, m, gen))
	}
	for v := int16(0); v <= 4; v++ {
		r.query(fmt.Sprintf("a heartbeat, v%d", v), v, beating(g, m, gen))
	}
	r.query("a heartbeat with an older generation", 4, beating(g, m, gen-1))
	r.query("a heartbeat with a newer generation", 4, beating(g, m, gen+1))
	r.query("a heartbeat of an unknown member", 4, beating(g, "nobody", gen))
	r.query("a heartbeat without a member id", 4, beating(g, "", gen))
	r.query("a heartbeat in an unknown group", 4, beating(r.topic("missing"), m, gen))
	r.query("a heartbeat in a group without a name", 4, beating("", m, gen))
	for v := int16(0); v <= 6; v++ {
		r.query(fmt.Sprintf("a describe, v%d", v), v, describing(g))
	}
	withOps := describing(g, r.topic("missing"), "")
	withOps.IncludeAuthorizedOperations = true
	r.query("a describe of three groups with operations", 5, withOps, func(resp kmsg.Response) {
		byName(resp.(*kmsg.DescribeGroupsResponse).Groups, func(x kmsg.DescribeGroupsResponseGroup) string { return x.Group })
	})
	r.query("a describe of no group", 5, describing())
	for v := int16(0); v <= 5; v++ {
		r.query(fmt.Sprintf("a list of groups, v%d", v), v, listing(nil, nil))
	}
	r.query("a list of stable groups", 5, listing([]string{"Stable"}, nil))
	r.query("a list of stable groups in small letters", 5, listing([]string{"stable"}, nil))
	r.query("a list of empty groups", 5, listing([]string{"Empty"}, nil))
	r.query("a list of groups in an unknown state", 5, listing([]string{"Sleepy"}, nil))
	r.query("a list of classic groups", 5, listing(nil, []string{"classic"}))
	r.query("a list of classic groups in capitals", 5, listing(nil, []string{"CLASSIC"}))
	r.query("a list of consumer groups", 5, listing(nil, []string{"consumer"}))
	r.query("a list of groups of an unknown type", 5, listing(nil, []string{"odd"}))
	r.query("a list of stable classic groups", 5, listing([]string{"Stable", "Empty"}, []string{"classic"}))

	for v := int16(2); v <= 10; v++ {
		r.query(fmt.Sprintf("a commit, v%d", v), v, committing(g, m, gen, mark{topic, id, 0, 10 + int64(v), fmt.Sprintf("note %d", v)}))
		r.query(fmt.Sprintf("a fetch after the commit of v%d", v), 8, fetchingOffsets(g, topic, id, 0))
	}
	r.query("a commit with a wrong generation", 8, committing(g, m, gen+1, mark{topic, id, 0, 1, ""}))
	r.query("a commit with an older generation", 8, committing(g, m, gen-1, mark{topic, id, 0, 1, ""}))
	r.query("a commit of an unknown member", 8, committing(g, "nobody", gen, mark{topic, id, 0, 1, ""}))
	r.query("a commit with generation -1 and no member", 8, committing(g, "", -1, mark{topic, id, 0, 1, ""}))
	r.query("a commit with generation -1 and the member", 8, committing(g, m, -1, mark{topic, id, 0, 1, ""}))
	r.query("a commit with metadata of 4096 bytes", 8, committing(g, m, gen, mark{topic, id, 0, 20, strings.Repeat("m", 4096)}))
	r.query("a commit with metadata of 4097 bytes", 8, committing(g, m, gen, mark{topic, id, 0, 21, strings.Repeat("m", 4097)}))
	r.query("a commit with null metadata", 8, committing(g, m, gen, mark{topic, id, 0, 22, null}))
	r.query("a fetch after null metadata", 8, fetchingOffsets(g, topic, id, 0))
	r.query("a commit of a negative offset", 8, committing(g, m, gen, mark{topic, id, 1, -1, ""}))
	r.query("a commit of offset -5", 8, committing(g, m, gen, mark{topic, id, 1, -5, ""}))
	r.query("a fetch after negative offsets", 8, fetchingOffsets(g, topic, id, 1))
	r.query("a commit beyond the end of the log", 8, committing(g, m, gen, mark{topic, id, 1, 1 << 40, ""}))
	r.query("a commit to an unknown topic", 8, committing(g, m, gen, mark{r.topic("missing"), [16]byte{9}, 0, 1, ""}))
	r.query("a commit to an unknown topic id", 10, committing(g, m, gen, mark{r.topic("missing"), [16]byte{9}, 0, 1, ""}))
	r.query("a commit to a zero topic id", 10, committing(g, m, gen, mark{"", [16]byte{}, 0, 1, ""}))
	r.query("a commit to an unknown partition", 8, committing(g, m, gen, mark{topic, id, 7, 1, ""}))
	r.query("a commit to a negative partition", 8, committing(g, m, gen, mark{topic, id, -1, 1, ""}))
	r.query("a commit to a good and an unknown topic", 8, committing(g, m, gen, mark{topic, id, 0, 30, "good"}, mark{r.topic("missing"), [16]byte{9}, 0, 1, ""}))
	r.query("a commit of nothing", 8, committing(g, m, gen))
	withEpoch := committing(g, m, gen, mark{topic, id, 0, 31, "epoch"})
	withEpoch.Topics[0].Partitions[0].LeaderEpoch = 0
	r.query("a commit with a leader epoch", 8, withEpoch)
	for v := int16(1); v <= 10; v++ {
		r.query(fmt.Sprintf("a fetch of what was committed, v%d", v), v, fetchingOffsets(g, topic, id, 0, 1))
	}
	for v := int16(2); v <= 10; v++ {
		r.query(fmt.Sprintf("a fetch of all, v%d", v), v, fetchingOffsets(g, "", id))
	}
	for _, v := range []int16{1, 5, 8} {
		r.query(fmt.Sprintf("a fetch of an unknown partition, v%d", v), v, fetchingOffsets(g, topic, id, 7))
		r.query(fmt.Sprintf("a fetch of an unknown topic, v%d", v), v, fetchingOffsets(g, r.topic("missing"), id, 0))
		r.query(fmt.Sprintf("a fetch of an unknown group, v%d", v), v, fetchingOffsets(r.topic("missing"), topic, id, 0))
	}
	r.query("a fetch of an unknown topic id", 10, fetchingOffsets(g, "x", [16]byte{9}, 0))
	r.query("a fetch of all of an unknown group", 8, fetchingOffsets(r.topic("missing"), "", id))
	r.query("a fetch of no partition of a topic", 8, fetchingOffsets(g, topic, id))
	none := fetchingOffsets(g, "", id)
	none.Groups[0].Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	r.query("a fetch of an empty list of topics", 8, none)
	many := fetchingOffsets(g, topic, id, 0)
	many.Groups = append(many.Groups, fetchingOffsets(r.topic("missing"), "", id).Groups[0], fetchingOffsets(g, "", id).Groups[0])
	r.query("a fetch of several groups", 8, many)
	stable := fetchingOffsets(g, topic, id, 0)
	stable.RequireStable = true
	r.query("a stable fetch where nothing is pending", 8, stable)
	asMember := fetchingOffsets(g, topic, id, 0)
	asMember.Groups[0].MemberID, asMember.Groups[0].MemberEpoch = kmsg.StringPtr(m), gen
	r.query("a fetch with the member id and the generation", 9, asMember)
	asMember.Groups[0].MemberEpoch = gen + 1
	r.query("a fetch with the member id and a wrong generation", 9, asMember)
	asMember.Groups[0].MemberID = kmsg.StringPtr("nobody")
	r.query("a fetch with an unknown member id", 9, asMember)

	r.query("deletes an offset of a topic it subscribes to", 0, forgetting(g, topic, 0))
	r.query("deletes an offset of a topic it does not subscribe to", 0, forgetting(g, r.topic("missing"), 0))
	r.query("deletes the group while it is stable", 2, deleting(g))
	r.query("joins again unchanged as the leader", 9, join(m), r.named("m", &a))
	r.query("an old heartbeat after joining again", 4, beating(g, m, gen))
	r.query("syncs after joining again", 5, handing(syncing(g, m, a.Generation), m, assignment(topic, 0)))
	for v := int16(0); v <= 5; v++ {
		r.query(fmt.Sprintf("an unknown member leaves, v%d", v), v, leaving(g, "nobody"))
	}
	r.query("the member and an unknown one leave", 5, leaving(g, m, "nobody"))
	r.query("a heartbeat after leaving", 4, beating(g, m, a.Generation))
	r.query("a describe after leaving", 5, describing(g))
	r.query("a list of empty groups after leaving", 5, listing([]string{"Empty"}, nil))
	r.query("a fetch after leaving", 8, fetchingOffsets(g, "", id))
	r.query("deletes an offset after leaving", 0, forgetting(g, topic, 0))
	r.query("deletes an offset never committed", 0, forgetting(g, topic, 7))
	r.query("deletes an offset of an unknown topic", 0, forgetting(g, r.topic("missing"), 0))
	r.query("a fetch after an offset was deleted", 8, fetchingOffsets(g, "", id))
	r.query("deletes the group while it is empty", 2, deleting(g))
	r.query("a fetch after the group was deleted", 8, fetchingOffsets(g, topic, id, 0))
	r.query("a describe after the group was deleted, v5", 5, describing(g))
	r.query("a describe after the group was deleted, v6", 6, describing(g))
	r.query("deletes the group again", 2, deleting(g))
	for v := int16(0); v <= 5; v++ {
		h := r.topic(fmt.Sprintf("leave-v%d", v))
		r.groupReady(h)
		who := "nobody"
		if j, ok := r.quiet(2, joining(h, "", "range")).(*kmsg.JoinGroupResponse); ok && j.MemberID != "" {
			who = j.MemberID
		}
		r.learn("", who, fmt.Sprintf("leaver v%d", v))
		r.query(fmt.Sprintf("leaves, v%d", v), v, leaving(h, who))
		r.query(fmt.Sprintf("leaves twice, v%d", v), v, leaving(h, who))
	}
}

func plainCommits(r *run) {
	topic, id := r.newTopic("t", 2)
	g := r.topic("g")
	r.groupReady(g, "")
	r.query("deletes the unnamed group before a commit made it", 2, deleting(""))
	for v := int16(2); v <= 10; v++ {
		r.query(fmt.Sprintf("a commit without a member, v%d", v), v, committing(g, "", -1, mark{topic, id, 0, int64(v), "plain"}))
	}
	for v := int16(0); v <= 1; v++ {
		r.query(fmt.Sprintf("a commit without a member, v%d", v), v, committing(g, "", -1, mark{topic, id, 0, 1, "plain"}))
	}
	r.query("a describe after plain commits", 5, describing(g))
	r.query("a list after plain commits", 5, listing(nil, nil))
	r.query("a fetch of all after plain commits", 8, fetchingOffsets(g, "", id))
	r.query("a commit with generation 0 and no member", 8, committing(g, "", 0, mark{topic, id, 0, 1, ""}))
	r.query("a commit with generation -1 and a member", 8, committing(g, "somebody", -1, mark{topic, id, 0, 1, ""}))
	r.query("a commit with generation -2", 8, committing(g, "", -2, mark{topic, id, 0, 1, ""}))
	r.query("a commit without a group", 8, committing("", "", -1, mark{topic, id, 0, 1, ""}))
	r.query("a commit with an instance id", 8, func() kmsg.Request {
		req := committing(g, "", -1, mark{topic, id, 0, 1, ""})
		req.InstanceID = kmsg.StringPtr("i")
		return req
	}())
	r.query("a commit of the same partition twice", 8, committing(g, "", -1, mark{topic, id, 1, 1, "one"}, mark{topic, id, 1, 2, "two"}))
	r.query("a fetch after the same partition twice", 8, fetchingOffsets(g, topic, id, 0, 1))
	r.query("a fetch of the same partition twice", 8, fetchingOffsets(g, topic, id, 0, 0))
	kept := committing(g, "", -1, mark{topic, id, 1, 3, "kept"})
	kept.RetentionTimeMillis = 1
	r.query("a commit with a retention of 1 ms", 4, kept)
	time.Sleep(50 * time.Millisecond)
	r.query("a fetch after a retention of 1 ms", 8, fetchingOffsets(g, topic, id, 1))
	r.query("deletes an offset", 0, forgetting(g, topic, 0))
	r.query("a fetch after one offset is gone", 8, fetchingOffsets(g, "", id))
	r.query("deletes the last offset", 0, forgetting(g, topic, 1))
	r.query("a describe after the last offset is gone", 5, describing(g))
	r.query("deletes the group without offsets", 2, deleting(g))
	for v := int16(0); v <= 2; v++ {
		r.quiet(8, committing(g, "", -1, mark{topic, id, 0, 1, ""}))
		r.query(fmt.Sprintf("deletes the group with an offset, v%d", v), v, deleting(g))
		r.query(fmt.Sprintf("deletes an unknown group, v%d", v), v, deleting(g))
	}
	r.quiet(8, committing(g, "", -1, mark{topic, id, 0, 1, ""}))
	r.query("deletes a known, an unknown and an unnamed group", 2, deleting(g, r.topic("missing"), ""), func(resp kmsg.Response) {
		byName(resp.(*kmsg.DeleteGroupsResponse).Groups, func(x kmsg.DeleteGroupsResponseGroup) string { return x.Group })
	})
	r.query("deletes the unnamed group again", 2, deleting(""))
	r.quiet(8, committing(g, "", -1, mark{topic, id, 0, 1, ""}))
	r.query("deletes the same group twice in a request", 2, deleting(g, g))
	gone, goneID := r.newTopic("gone", 1)
	r.quiet(8, committing(g, "", -1, mark{topic, id, 0, 1, ""}, mark{gone, goneID, 0, 1, ""}))
	del := kmsg.NewPtrDeleteTopicsRequest()
	del.TimeoutMillis, del.TopicNames = 10000, []string{gone}
	r.quiet(5, del)
	r.barrier()
	r.until(8, func() kmsg.Request { return fetchingOffsets(g, gone, goneID, 0) }, func(resp kmsg.Response) bool {
		x := resp.(*kmsg.OffsetFetchResponse)
		return len(x.Groups) == 1 && len(x.Groups[0].Topics) == 1 && x.Groups[0].Topics[0].Partitions[0].Offset == -1
	})
	r.query("a fetch of all after a topic was deleted", 8, fetchingOffsets(g, "", id))
}

func staticMember(r *run) {
	topic, id := r.newTopic("t", 2)
	g := r.topic("g")
	r.groupReady(g)
	static := func(instance, member string) *kmsg.JoinGroupRequest {
		req := joining(g, member, "range")
		req.InstanceID = kmsg.StringPtr(instance)
		return req
	}
	var a kmsg.JoinGroupResponse
	r.query("joins with an instance id", 9, static("i1", ""), r.named("m1", &a))
	old, gen := a.MemberID, a.Generation
	sync := func(member string, generation int32) *kmsg.SyncGroupRequest {
		req := handing(syncing(g, member, generation), member, assignment(topic, 0, 1))
		req.InstanceID = kmsg.StringPtr("i1")
		return req
	}
	beat := func(member string, generation int32) *kmsg.HeartbeatRequest {
		req := beating(g, member, generation)
		req.InstanceID = kmsg.StringPtr("i1")
		return req
	}
	commit := func(member string, generation int32) *kmsg.OffsetCommitRequest {
		req := committing(g, member, generation, mark{topic, id, 0, 5, ""})
		req.InstanceID = kmsg.StringPtr("i1")
		return req
	}
	r.query("syncs with its instance id", 5, sync(old, gen))
	r.query("a describe of a static member", 5, describing(g))
	r.query("a describe of a static member, v3", 3, describing(g))
	r.query("a heartbeat with its instance id", 4, beat(old, gen))
	r.query("a heartbeat without its instance id", 4, beating(g, old, gen))
	r.query("a commit with its instance id", 8, commit(old, gen))
	r.query("a commit without its instance id", 8, committing(g, old, gen, mark{topic, id, 0, 6, ""}))
	r.query("joins again with its instance id and member id", 9, static("i1", old), r.named("m1", &a))
	if a.ErrorCode == 0 && a.Generation != gen {
		gen = a.Generation
		r.query("syncs after joining again", 5, sync(old, gen))
	}
	r.query("comes back with its instance id and no member id", 9, static("i1", ""), r.named("m2", &a))
	fresh := a.MemberID
	r.query("the old id sends a heartbeat", 4, beat(old, gen))
	r.query("the old id sends a heartbeat without its instance id", 4, beating(g, old, gen))
	r.query("the old id commits", 8, commit(old, gen))
	r.query("the old id commits without its instance id", 8, committing(g, old, gen, mark{topic, id, 0, 7, ""}))
	r.query("the old id syncs", 5, sync(old, gen))
	r.query("the old id joins", 9, static("i1", old))
	r.query("the old id leaves with its instance id", 5, func() kmsg.Request {
		req := leaving(g, old)
		req.Members[0].InstanceID = kmsg.StringPtr("i1")
		return req
	}())
	r.query("the new id syncs", 5, sync(fresh, a.Generation))
	r.query("the new id sends a heartbeat", 4, beat(fresh, a.Generation))
	r.query("an unknown instance id sends a heartbeat", 4, func() kmsg.Request {
		req := beating(g, fresh, a.Generation)
		req.InstanceID = kmsg.StringPtr("i9")
		return req
	}())
	r.query("an unknown instance id commits", 8, func() kmsg.Request {
		req := committing(g, fresh, a.Generation, mark{topic, id, 0, 8, ""})
		req.InstanceID = kmsg.StringPtr("i9")
		return req
	}())
	r.query("comes back with its instance id, no member id and v5", 5, static("i1", ""), r.named("m3", &a))
	r.query("a describe after coming back", 5, describing(g))
	leave := func(step string, v int16, instances ...string) {
		req := leaving(g)
		for _, i := range instances {
			m := kmsg.NewLeaveGroupRequestMember()
			m.InstanceID = kmsg.StringPtr(i)
			req.Members = append(req.Members, m)
		}
		r.query(step, v, req)
	}
	leave("an unknown instance id leaves", 5, "i9")
	leave("leaves by instance id, and an unknown one too", 5, "i1", "i9")
	leave("leaves by instance id again", 4, "i1")
	leave("leaves by instance id again, v3", 3, "i1")
	r.query("a describe after leaving by instance id", 5, describing(g))
}
