package main

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func twoMembers(r *run) {
	topic, id := r.newTopic("t", 2)
	g := r.topic("g")
	r.groupReady(g)
	side := r.beside()
	defer side.close()
	var a, b kmsg.JoinGroupResponse
	rebalancing := func(resp kmsg.Response) bool { return resp.(*kmsg.HeartbeatResponse).ErrorCode != 0 }

	r.query("A asks for an id", 9, joining(g, "", "range", "roundrobin"), r.named("A", &a))
	memberA := a.MemberID
	r.query("A joins", 9, joining(g, memberA, "range", "roundrobin"), r.named("A", &a))
	r.query("A syncs", 5, handing(syncing(g, memberA, a.Generation), memberA, assignment(topic, 0, 1)))
	r.query("A commits", 8, committing(g, memberA, a.Generation, mark{topic, id, 0, 1, ""}))
	r.on(side, "B asks for an id", 9, joining(g, "", "range"), r.named("B", &b))
	memberB := b.MemberID
	joinB := later(side, "B joins, answered once A has joined again", 9, joining(g, memberB, "range"))
	r.await("A learns of the rebalance", 4, func() kmsg.Request { return beating(g, memberA, a.Generation) }, rebalancing)
	r.query("a describe during the rebalance", 5, describing(g))
	r.query("A syncs during the rebalance", 5, syncing(g, memberA, a.Generation))
	r.query("A commits during the rebalance", 8, committing(g, memberA, a.Generation, mark{topic, id, 0, 2, ""}))
	old := a.Generation
	joinA := r.query("A joins again", 9, joining(g, memberA, "range", "roundrobin"), r.named("A", &a))
	r.collect(joinB, r.named("B", &b))
	r.rewrite(len(r.steps)-2, joinA)
	r.query("a describe between join and sync", 5, describing(g))
	r.query("A sends a heartbeat between join and sync", 4, beating(g, memberA, a.Generation))
	r.query("A commits between join and sync", 8, committing(g, memberA, a.Generation, mark{topic, id, 0, 3, ""}))
	r.query("A commits with the old generation", 8, committing(g, memberA, old, mark{topic, id, 0, 3, ""}))
	syncB := later(side, "B syncs, answered once A has handed out shares", 5, syncing(g, memberB, b.Generation))
	time.Sleep(200 * time.Millisecond)
	r.query("A hands out shares", 5, handing(handing(syncing(g, memberA, a.Generation), memberA, assignment(topic, 0)), memberB, assignment(topic, 1)))
	r.collect(syncB)
	r.query("A sends a heartbeat", 4, beating(g, memberA, a.Generation))
	r.on(side, "B sends a heartbeat", 4, beating(g, memberB, b.Generation))
	r.on(side, "B sends a heartbeat with the old generation", 4, beating(g, memberB, old))
	r.query("a describe with two members", 5, describing(g))
	r.on(side, "B commits", 8, committing(g, memberB, b.Generation, mark{topic, id, 1, 9, ""}))
	r.query("a fetch by anybody", 8, fetchingOffsets(g, "", id))
	r.on(side, "B, who does not lead, joins again unchanged", 9, joining(g, memberB, "range"), r.named("B", &b))
	r.on(side, "B syncs again", 5, syncing(g, memberB, b.Generation))
	r.query("A sends a heartbeat after B joined unchanged", 4, beating(g, memberA, a.Generation))
	r.on(side, "B leaves", 5, leaving(g, memberB))
	r.await("A learns that B left", 4, func() kmsg.Request { return beating(g, memberA, a.Generation) }, rebalancing)
	r.query("A joins alone", 9, joining(g, memberA, "range", "roundrobin"), r.named("A", &a))
	r.query("A syncs alone", 5, handing(syncing(g, memberA, a.Generation), memberA, assignment(topic, 0, 1)))

	brief := joining(g, "", "range")
	brief.SessionTimeoutMillis = 6000
	r.on(side, "C asks for an id with a session of 6 s", 9, brief, r.named("C", &b))
	memberC := b.MemberID
	brief.MemberID = memberC
	joinC := later(side, "C joins", 9, brief)
	r.await("A learns of C", 4, func() kmsg.Request { return beating(g, memberA, a.Generation) }, rebalancing)
	joinA = r.query("A joins beside C", 9, joining(g, memberA, "range", "roundrobin"), r.named("A", &a))
	r.collect(joinC, r.named("C", &b))
	r.rewrite(len(r.steps)-2, joinA)
	syncC := later(side, "C syncs", 5, syncing(g, memberC, b.Generation))
	time.Sleep(200 * time.Millisecond)
	r.query("A hands out shares beside C", 5, handing(handing(syncing(g, memberA, a.Generation), memberA, assignment(topic, 0)), memberC, assignment(topic, 1)))
	r.collect(syncC)
	r.await("A learns that C fell silent for its session", 4, func() kmsg.Request { return beating(g, memberA, a.Generation) }, rebalancing)
	r.on(side, "C wakes up", 4, beating(g, memberC, b.Generation))
	r.query("A joins after C fell silent", 9, joining(g, memberA, "range", "roundrobin"), r.named("A", &a))
	r.query("A leaves at last", 5, leaving(g, memberA))
	r.query("a describe at last", 5, describing(g))
}

func emptyAndGone(r *run) {
	topic, id := r.newTopic("t", 1)
	g := r.topic("missing")
	r.groupReady(g)
	for v := int16(0); v <= 6; v++ {
		r.query(fmt.Sprintf("an unknown group is described, v%d", v), v, describing(g))
	}
	for v := int16(0); v <= 5; v++ {
		r.query(fmt.Sprintf("somebody leaves an unknown group, v%d", v), v, leaving(g, "nobody"))
	}
	r.query("nobody leaves an unknown group", 5, leaving(g))
	r.query("somebody syncs in an unknown group", 5, syncing(g, "nobody", 1))
	r.query("somebody syncs in an unnamed group", 5, syncing("", "nobody", 1))
	r.query("somebody commits to an unknown group", 8, committing(g, "nobody", 1, mark{topic, id, 0, 1, ""}))
	r.query("somebody commits to an unknown group, v10", 10, committing(g, "nobody", 1, mark{topic, id, 0, 1, ""}))
	r.query("offsets of an unknown group are deleted", 0, forgetting(g, topic, 0))
	r.query("offsets of an unnamed group are deleted", 0, forgetting("", topic, 0))
	r.query("an unknown group is deleted", 2, deleting(g))
	r.query("groups of no name are listed", 5, listing([]string{""}, nil))
}
