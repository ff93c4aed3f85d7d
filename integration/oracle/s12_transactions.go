package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func init() {
	scenarios["12-init-producer-id"] = initProducerID
	scenarios["12-commit-and-abort"] = commitAndAbort
	scenarios["12-refusals"] = txnRefusals
	scenarios["12-offsets-in-transactions"] = txnOffsets
	scenarios["12-newest-versions"] = txnNewest
	scenarios["12-timeout"] = txnTimeout
}

// A producer is what InitProducerId gave.
type producer struct {
	txn   string
	id    int64
	epoch int16
}

func initProducerID(r *run) {
	for v := int16(0); v <= 5; v++ {
		txn := r.topic(fmt.Sprintf("v%d", v))
		r.txnReady(txn)
		p := r.start(fmt.Sprintf("the first time, v%d", v), v, starting(txn, 60000))
		r.start(fmt.Sprintf("the second time, v%d", v), v, starting(txn, 60000))
		if v >= 3 { // older requests cannot say
			old := starting(txn, 60000)
			old.ProducerID, old.ProducerEpoch = p.id, p.epoch
			r.start(fmt.Sprintf("the third time with what the first gave, v%d", v), v, old)
		}
	}
	txn := r.topic("a")
	r.txnReady(txn)
	for _, v := range []int16{0, 4, 5} {
		in := func(step string) string { return fmt.Sprintf("%s, v%d", step, v) }
		r.start(in("a timeout of 0"), v, starting(txn, 0))
		r.start(in("a negative timeout"), v, starting(txn, -1))
		r.start(in("a timeout of 15 minutes and 1 ms"), v, starting(txn, 900001))
		r.start(in("the largest timeout"), v, starting(txn, math.MaxInt32))
		r.start(in("an empty transactional id"), v, starting("", 60000))
		plain := starting("", 60000)
		plain.TransactionalID = nil
		r.start(in("no transactional id"), v, plain)
		plain.TransactionTimeoutMillis = 0
		r.start(in("no transactional id and a timeout of 0"), v, plain)
	}
	p := r.start("a good one", 4, starting(txn, 60000))
	with := func(id int64, epoch int16) *kmsg.InitProducerIDRequest {
		req := starting(txn, 60000)
		req.ProducerID, req.ProducerEpoch = id, epoch
		return req
	}
	p = r.start("with its producer id and epoch", 4, with(p.id, p.epoch))
	r.start("with its producer id and a later epoch", 4, with(p.id, p.epoch+1))
	r.start("with its producer id and the last epoch again", 4, with(p.id, p.epoch-1))
	r.start("with a producer id nobody has", 4, with(p.id+777777, 0))
	r.start("with a producer id and no epoch", 4, with(p.id, -1))
	r.start("with an epoch and no producer id", 4, with(-1, 3))
	r.query("a description of an idle transactional id", 0, examining(txn))
}

func commitAndAbort(r *run) {
	topic, _ := r.newTopic("t", 1, lasting)
	txn := r.topic("a")
	r.txnReady(txn)
	r.query("an unknown transactional id is described", 0, examining(txn))
	r.query("an empty partition has no producers", 0, producersOf(topic, 0))
	p := r.start("a producer starts", 4, starting(txn, 60000))
	r.query("a description before anything is added", 0, examining(txn))
	r.add("adds a partition", 3, p, topic, 0)
	r.query("a description before anything is written", 0, examining(txn))
	r.write("writes two records", 9, p, topic, txnal(p, 0, "a", "b"))
	r.compare("while it is open", topic)
	r.query("while it is open: the newest record", 7, offsetAt(topic, 0, -3))
	r.query("while it is open: the newest stable record", 7, offsetAt(topic, 1, -3))
	r.query("a description while it is open", 0, examining(txn))
	r.query("the producers of the partition while it is open", 0, producersOf(topic, 0))
	list := func(step string, v int16, states []string, filters ...int64) {
		req := kmsg.NewPtrListTransactionsRequest()
		req.StateFilters, req.ProducerIDFilters, req.DurationFilterMillis = states, filters, -1
		r.query(step, v, req)
	}
	list("transactions while it is open", 0, nil)
	list("transactions while it is open, v1", 1, nil)
	list("transactions while it is open, v2", 2, nil)
	list("transactions that are ongoing", 0, []string{"Ongoing"})
	list("transactions that are complete", 0, []string{"CompleteCommit", "CompleteAbort"})
	list("transactions in an unknown state", 0, []string{"Sleepy", "Ongoing"})
	list("transactions of its producer", 0, nil, p.id)
	list("transactions of an unknown producer", 0, nil, p.id+777777)
	r.put(topic, batchOf{values: []string{"plain"}})
	r.compare("with a plain record behind", topic)
	r.end("commits", 3, p, true)
	r.stable(topic, 4)
	r.compare("after the commit", topic)
	r.query("committed records from the marker on", 11, reading(topic, 1, 3))
	r.await("a description after the commit", 0, func() kmsg.Request { return examining(txn) }, finished)
	r.query("the producers of the partition after the commit", 0, producersOf(topic, 0))
	list("transactions after the commit", 0, nil)
	r.end("commits again", 3, p, true)
	r.end("aborts what is committed", 3, p, false)

	r.add("adds the partition for a second transaction", 3, p, topic, 0)
	r.write("writes for a second transaction", 9, p, topic, txnal(p, 2, "c", "d"))
	r.end("aborts", 3, p, false)
	r.stable(topic, 7)
	r.compare("after the abort", topic)
	r.query("committed records from inside the aborted ones", 11, reading(topic, 1, 5))
	r.await("a description after the abort", 0, func() kmsg.Request { return examining(txn) }, finished)
	r.end("aborts again", 3, p, false)
	r.end("commits what is aborted", 3, p, true)

	r.add("adds the partition for a third transaction", 3, p, topic, 0)
	r.write("writes for a third transaction", 9, p, topic, txnal(p, 4, "e"))
	r.query("a second producer comes while a transaction is open, the first answer", 4, starting(txn, 60000))
	p2 := r.start("a second producer fences the first with an open transaction", 4, starting(txn, 60000))
	r.stable(topic, 9)
	r.compare("after the fencing", topic)
	r.write("the fenced producer writes", 9, p, topic, txnal(p, 5, "f"))
	r.end("the fenced producer commits", 3, p, true)
	r.end("the fenced producer commits, v1", 1, p, true)
	r.query("the fenced producer adds a partition", 3, adding(p, topic, 0))
	r.query("the fenced producer adds a partition, v1", 1, adding(p, topic, 0))
	r.add("the second producer adds a partition", 3, p2, topic, 0)
	r.write("the second producer writes", 9, p2, topic, txnal(p2, 0, "g"))
	r.end("the second producer commits", 3, p2, true)
	r.stable(topic, 11)
	r.compare("at the end", topic)
}

func txnRefusals(r *run) {
	topic, _ := r.newTopic("t", 2, lasting)
	txn, other := r.topic("a"), r.topic("b")
	r.txnReady(txn, other)
	r.start("a producer starts", 4, starting(txn, 60000))
	p := r.start("it starts again, so that there is an earlier epoch", 4, starting(txn, 60000))
	q := r.start("another producer starts", 4, starting(other, 60000))
	for v := int16(0); v <= 3; v++ {
		in := func(step string) string { return fmt.Sprintf("%s, v%d", step, v) }
		r.query(in("adds an unknown partition"), v, adding(p, topic, 7))
		r.query(in("adds an unknown topic"), v, adding(p, r.topic("missing"), 0))
		r.query(in("adds a good and an unknown partition"), v, adding(p, topic, 0, 7))
		r.query(in("adds with a later epoch"), v, adding(producer{txn, p.id, p.epoch + 1}, topic, 0))
		r.query(in("adds with an earlier epoch"), v, adding(producer{txn, p.id, p.epoch - 1}, topic, 0))
		r.query(in("adds with another producer's id"), v, adding(producer{txn, q.id, q.epoch}, topic, 0))
		r.query(in("adds to an unknown transactional id"), v, adding(producer{r.topic("missing"), p.id, p.epoch}, topic, 0))
		r.query(in("adds to an empty transactional id"), v, adding(producer{"", p.id, p.epoch}, topic, 0))
	}
	for v := int16(0); v <= 5; v++ {
		for _, commit := range []bool{true, false} {
			verb := map[bool]string{true: "commits", false: "aborts"}[commit]
			fresh := r.topic(fmt.Sprintf("fresh-%s-v%d", verb, v))
			r.txnReady(fresh)
			var f producer
			r.unrecorded(func() { f = r.start("set-up", 4, starting(fresh, 60000)) })
			r.end(fmt.Sprintf("%s nothing of a fresh producer, v%d", verb, v), v, f, commit)
			r.await(fmt.Sprintf("a description of a fresh producer that %s nothing, v%d", verb, v), 0, func() kmsg.Request { return examining(fresh) }, finished)
		}
	}
	r.query("adds nothing", 3, adding(p, topic))
	r.query("a description after adding nothing", 0, examining(txn))
	verify := adding(p, topic, 0)
	verify.Transactions[0].VerifyOnly = true
	r.query("asks in the shape for brokers whether a partition was added, v4", 4, verify)
	r.query("asks in the shape for brokers whether a partition was added, v5", 5, verify)
	for v := int16(0); v <= 4; v++ {
		in := func(step string) string { return fmt.Sprintf("%s, v%d", step, v) }
		r.end(in("commits after adding nothing"), v, p, true)
		r.end(in("aborts after committing that"), v, p, false)
		r.query(in("ends with a later epoch"), v, ending(producer{txn, p.id, p.epoch + 1}, true))
		r.query(in("ends with another producer's id"), v, ending(producer{txn, q.id, q.epoch}, true))
		r.query(in("ends an unknown transactional id"), v, ending(producer{r.topic("missing"), p.id, p.epoch}, true))
		r.query(in("ends an empty transactional id"), v, ending(producer{"", p.id, p.epoch}, true))
	}
	r.write("writes without adding the partition, v3", 3, p, topic, txnal(p, 0, "a"))
	r.write("writes without adding the partition, v9", 9, p, topic, txnal(p, 0, "a"))
	r.write("writes without adding the partition, v11", 11, p, topic, txnal(p, 0, "a"))
	r.write("writes under another transactional id", 9, producer{other, p.id, p.epoch}, topic, txnal(p, 0, "a"))
	r.query("writes a transactional batch without a transactional id", 9, production(topic, nil, txnal(p, 0, "a")))
	r.write("writes a plain batch with a transactional id", 9, p, topic, batchOf{values: []string{"a"}})
	r.write("writes a transactional batch without a producer id", 9, p, topic, batchOf{values: []string{"a"}, attrs: 0x10})
	r.write("writes a marker without adding the partition", 9, p, topic, batchOf{values: []string{"a"}, attrs: 0x30, pid: p.id, producer: true, pepoch: p.epoch})
	few := production(topic, kmsg.StringPtr(txn), txnal(p, 0, "a"))
	few.Acks = 1
	r.query("writes with acks 1 without adding the partition", 9, few)
	r.query("the partition after these", 4, offsetAt(topic, 0, -1))
	r.add("adds one partition", 3, p, topic, 0)
	r.add("adds the same partition again", 3, p, topic, 0)
	r.unordered("Partitions")
	r.write("writes to the partition added and to one that is not", 9, p, topic, txnal(p, 0, "a"), txnal(p, 0, "a"))
	r.end("ends with a later epoch while open", 3, producer{txn, p.id, p.epoch + 1}, true)

	// A refused batch may leave its mark on the partition, so here each has one of its own that belongs to the open
	// transaction of a third producer, most with one batch in it.
	var c producer
	r.txnReady(r.topic("c"))
	r.unrecorded(func() {
		r.start("set-up", 4, starting(r.topic("c"), 60000))
		c = r.start("set-up", 4, starting(r.topic("c"), 60000))
	})
	epoch := func(more int16) []byte {
		return batchOf{values: []string{"a"}, attrs: 0x10, pid: c.id, producer: true, pepoch: c.epoch + more, seq: 1}.bytes()
	}
	trials := []struct {
		step    string
		plain   bool // no transactional id
		acks    int16
		empty   bool // no batch before it
		records []byte
	}{
		{"writes with a later epoch", false, -1, false, epoch(1)},
		{"writes with an earlier epoch", false, -1, false, epoch(-1)},
		{"writes the same batch again", false, -1, false, txnal(c, 0, "a").bytes()},
		{"writes with a gap", false, -1, false, txnal(c, 5, "a").bytes()},
		{"writes a plain batch of the same producer in between", true, -1, false, batchOf{values: []string{"z"}, pid: c.id, producer: true, pepoch: c.epoch, seq: 1}.bytes()},
		{"writes a marker", false, -1, true, batchOf{values: []string{"a"}, attrs: 0x30, pid: c.id, producer: true, pepoch: c.epoch}.bytes()},
		{"writes with acks 1", false, 1, true, txnal(c, 0, "a").bytes()},
		{"writes from sequence 5", false, -1, true, txnal(c, 5, "a").bytes()},
	}
	u := r.createTopic("u", int32(len(trials)))
	r.unrecorded(func() { r.add("set-up", 3, c, u.name, span32(0, int32(len(trials))-1)...) })
	for i, trial := range trials {
		into := func(acks int16, records []byte, plain bool) *kmsg.ProduceRequest {
			req := produce(acks, u, int32(i), records)
			if !plain {
				req.TransactionID = &c.txn
			}
			return req
		}
		if !trial.empty {
			r.quiet(9, into(-1, txnal(c, 0, "a").bytes(), false))
		}
		r.query(trial.step, 9, into(trial.acks, trial.records, trial.plain))
		r.query(trial.step+": what the log holds", 11, fetchOf(u, int32(i), 0))
	}
	r.unrecorded(func() { r.end("set-up", 3, c, false) })
	r.finished(c.txn)
	r.query("a description after refusals", 0, examining(txn, other, r.topic("missing"), ""), func(resp kmsg.Response) {
		byName(resp.(*kmsg.DescribeTransactionsResponse).TransactionStates, func(s kmsg.DescribeTransactionsResponseTransactionState) string {
			return s.TransactionalID
		})
	})
	r.end("commits what is left", 3, p, true)
	r.query("producers of an unknown partition", 0, producersOf(topic, 7))
	r.query("producers of an unknown topic", 0, producersOf(r.topic("missing"), 0))
	r.query("producers of an illegal topic", 0, producersOf("bad/name", 0))
	r.query("transactions with a bad pattern", 2, func() kmsg.Request {
		req := kmsg.NewPtrListTransactionsRequest()
		req.DurationFilterMillis, req.TransactionalIDPattern = -1, kmsg.StringPtr("(")
		return req
	}())
	r.await("transactions by pattern", 2, func() kmsg.Request {
		req := kmsg.NewPtrListTransactionsRequest()
		req.DurationFilterMillis, req.TransactionalIDPattern = -1, kmsg.StringPtr(r.topic("a"))
		return req
	}, func(resp kmsg.Response) bool {
		for _, t := range resp.(*kmsg.ListTransactionsResponse).TransactionStates {
			if strings.HasPrefix(t.TransactionState, "Prepare") {
				return false
			}
		}
		return true
	})
	r.query("transactions that run for an hour", 1, func() kmsg.Request {
		req := kmsg.NewPtrListTransactionsRequest()
		req.DurationFilterMillis = 3600000
		return req
	}())
}

func enlisting(p producer, group string) *kmsg.AddOffsetsToTxnRequest {
	req := kmsg.NewPtrAddOffsetsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = p.txn, p.id, p.epoch, group
	return req
}

func pledging(p producer, group, member string, generation int32, m mark) *kmsg.TxnOffsetCommitRequest {
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = p.txn, p.id, p.epoch, group
	req.MemberID, req.Generation = member, generation
	t := kmsg.NewTxnOffsetCommitRequestTopic()
	t.Topic, t.TopicID = m.topic, m.id
	x := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	x.Partition, x.Offset, x.Metadata = m.partition, m.offset, kmsg.StringPtr(m.metadata)
	t.Partitions = append(t.Partitions, x)
	req.Topics = append(req.Topics, t)
	return req
}

func txnOffsets(r *run) {
	topic, id := r.newTopic("t", 2)
	txn, g := r.topic("a"), r.topic("g")
	r.txnReady(txn)
	r.groupReady(g)
	r.start("a producer starts", 4, starting(txn, 60000))
	p := r.start("it starts again, so that there is an earlier epoch", 4, starting(txn, 60000))
	settledAdd := func(step string, v int16, p producer, group string) {
		r.await(step, v, func() kmsg.Request { return enlisting(p, group) }, func(resp kmsg.Response) bool {
			return !loading(resp.(*kmsg.AddOffsetsToTxnResponse).ErrorCode)
		})
	}
	fetch := func(step string, v int16, stable bool, partitions ...int32) {
		req := fetchingOffsets(g, topic, id, partitions...)
		req.RequireStable = stable
		r.query(step, v, req)
	}
	// committed waits until the group coordinator saw the end of the transaction.
	committed := func() {
		r.until(7, func() kmsg.Request {
			req := fetchingOffsets(g, topic, id, 0)
			req.RequireStable = true
			return req
		}, func(resp kmsg.Response) bool {
			a := resp.(*kmsg.OffsetFetchResponse)
			return a.ErrorCode == 0 && len(a.Topics) == 1 && a.Topics[0].Partitions[0].ErrorCode == 0
		})
	}
	for v := int16(0); v <= 3; v++ {
		in := func(step string) string { return fmt.Sprintf("%s, v%d", step, v) }
		settledAdd(in("adds a group"), v, p, g)
		r.query(in("pledges an offset"), v, pledging(p, g, "", -1, mark{topic, id, 0, 10 + int64(v), "pledged"}))
		fetch(in("a fetch while it is pending"), 7, false, 0, 1)
		fetch(in("a stable fetch while it is pending"), 7, true, 0, 1)
		fetch(in("a stable fetch by group while it is pending"), 8, true, 0, 1)
		r.end(in("commits"), v, p, true)
		committed()
		fetch(in("a stable fetch after the commit"), 7, true, 0, 1)
	}
	settledAdd("adds a group to abort", 3, p, g)
	r.query("pledges an offset to abort", 3, pledging(p, g, "", -1, mark{topic, id, 0, 99, "never"}))
	r.query("a description with a group", 0, examining(txn))
	r.query("a plain commit while a pledge is pending", 8, committing(g, "", -1, mark{topic, id, 1, 5, "plain"}))
	r.query("deletes the group while a pledge is pending", 2, deleting(g))
	r.query("deletes an offset while a pledge is pending", 0, forgetting(g, topic, 0))
	r.end("aborts", 3, p, false)
	r.finished(txn)
	fetch("a stable fetch after the abort", 7, true, 0, 1)
	r.query("pledges without adding the group", 3, pledging(p, g, "", -1, mark{topic, id, 0, 1, ""}))
	settledAdd("adds a group for refusals", 3, p, g)
	r.query("pledges to another group", 3, pledging(p, r.topic("h"), "", -1, mark{topic, id, 0, 1, ""}))
	r.query("pledges with an unknown member of a group that is gone", 3, pledging(p, g, "nobody", 1, mark{topic, id, 0, 1, ""}))
	r.query("pledges with a generation and no member to a group that is gone", 3, pledging(p, g, "", 5, mark{topic, id, 0, 1, ""}))
	k := r.topic("k")
	r.groupReady(k)
	r.quiet(8, committing(k, "", -1, mark{topic, id, 0, 1, ""}))
	settledAdd("adds a group that a plain commit made", 3, p, k)
	r.query("pledges with an unknown member", 3, pledging(p, k, "nobody", 1, mark{topic, id, 0, 1, ""}))
	r.query("pledges with a generation and no member", 3, pledging(p, k, "", 5, mark{topic, id, 0, 1, ""}))
	r.query("pledges with a member and no generation", 3, pledging(p, k, "nobody", -1, mark{topic, id, 0, 1, ""}))
	r.query("pledges with a later epoch", 3, pledging(producer{txn, p.id, p.epoch + 1}, g, "", -1, mark{topic, id, 0, 1, ""}))
	r.query("pledges with an earlier epoch", 3, pledging(producer{txn, p.id, p.epoch - 1}, g, "", -1, mark{topic, id, 0, 1, ""}))
	r.query("pledges to an unknown topic", 3, pledging(p, g, "", -1, mark{r.topic("missing"), id, 0, 1, ""}))
	r.query("pledges to an unknown partition", 3, pledging(p, g, "", -1, mark{topic, id, 7, 1, ""}))
	r.query("pledges to an empty group", 3, pledging(p, "", "", -1, mark{topic, id, 0, 1, ""}))
	r.query("adds an empty group", 3, enlisting(p, ""))
	r.query("adds a group with a later epoch", 3, enlisting(producer{txn, p.id, p.epoch + 1}, g))
	r.query("adds a group with an earlier epoch", 3, enlisting(producer{txn, p.id, p.epoch - 1}, g))
	r.query("adds a group to an unknown transactional id", 3, enlisting(producer{r.topic("missing"), p.id, p.epoch}, g))
	r.query("adds a group to an empty transactional id", 3, enlisting(producer{"", p.id, p.epoch}, g))
	r.end("ends the refusals", 3, p, false)
	committed()
	fetch("a stable fetch at the end", 7, true, 0, 1)
}

func txnNewest(r *run) {
	topic, id := r.newTopic("t", 1, lasting)
	txn, g := r.topic("a"), r.topic("g")
	r.txnReady(txn)
	r.groupReady(g)
	p := r.start("a producer starts", 5, starting(txn, 60000))
	next := func(step string, commit bool) {
		if a := r.end(step, 5, p, commit); a != nil && a.ErrorCode == 0 && a.ProducerID >= 0 {
			p.id, p.epoch = a.ProducerID, a.ProducerEpoch
		}
	}
	r.await("writes without adding the partition", 12, func() kmsg.Request { return production(topic, &txn, txnal(p, 0, "a")) }, calm)
	r.query("a description after an implicit add", 0, examining(txn))
	next("commits and gets a new epoch", true)
	r.stable(topic, 2)
	r.compare("after the commit", topic)
	r.query("the producers of the partition after the commit", 0, producersOf(topic, 0))
	next("commits nothing with the new epoch", true)
	next("aborts nothing with the new epoch", false)
	r.await("writes with the new epoch from sequence 0", 12, func() kmsg.Request { return production(topic, &txn, txnal(p, 0, "b")) }, calm)
	old := p
	next("aborts and gets a new epoch", false)
	r.stable(topic, 4)
	r.compare("after the abort", topic)
	r.query("the old epoch aborts again", 5, ending(old, false))
	r.query("the old epoch commits", 5, ending(old, true))
	r.write("the old epoch writes", 12, old, topic, txnal(old, 1, "c"))
	r.write("writes with a later epoch", 12, p, topic, batchOf{values: []string{"a"}, attrs: 0x10, pid: p.id, producer: true, pepoch: p.epoch + 1})
	r.await("pledges an offset without adding the group", 5, func() kmsg.Request { return pledging(p, g, "", -1, mark{topic, id, 0, 5, "x"}) },
		func(resp kmsg.Response) bool {
			t := resp.(*kmsg.TxnOffsetCommitResponse).Topics
			return len(t) == 0 || len(t[0].Partitions) == 0 || !loading(t[0].Partitions[0].ErrorCode)
		})
	r.query("a description after an implicit add of a group", 0, examining(txn))
	next("commits the offset", true)
	r.until(7, func() kmsg.Request {
		req := fetchingOffsets(g, topic, id, 0)
		req.RequireStable = true
		return req
	}, func(resp kmsg.Response) bool {
		a := resp.(*kmsg.OffsetFetchResponse)
		return len(a.Topics) == 1 && a.Topics[0].Partitions[0].ErrorCode == 0
	})
	r.query("the offset after the commit", 8, fetchingOffsets(g, topic, id, 0))
}

// calm says that no partition of a produce answer asks to wait for an older transaction.
func calm(resp kmsg.Response) bool {
	for _, t := range resp.(*kmsg.ProduceResponse).Topics {
		for _, p := range t.Partitions {
			if loading(p.ErrorCode) {
				return false
			}
		}
	}
	return true
}

func txnTimeout(r *run) {
	topic, _ := r.newTopic("t", 1, lasting)
	txn := r.topic("a")
	r.txnReady(txn)
	p := r.start("a producer with a timeout of 1 s", 4, starting(txn, 1000))
	r.add("adds a partition", 3, p, topic, 0)
	r.write("writes", 9, p, topic, txnal(p, 0, "a"))
	// Brokers look for late transactions every ten seconds.
	end := time.Now().Add(20 * time.Second)
	for time.Now().Before(end) {
		a, ok := r.quiet(0, examining(txn)).(*kmsg.DescribeTransactionsResponse)
		if !ok || len(a.TransactionStates) != 1 || a.TransactionStates[0].State != "Ongoing" && a.TransactionStates[0].State != "PrepareAbort" {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	r.stable(topic, 2)
	r.query("a description after the timeout", 0, examining(txn))
	r.compare("after the timeout", topic)
	r.query("the late producer commits", 3, ending(p, true))
	r.write("the late producer writes", 9, p, topic, txnal(p, 1, "b"))
	r.query("the late producer adds a partition", 3, adding(p, topic, 0))
	late := starting(txn, 1000)
	late.ProducerID, late.ProducerEpoch = p.id, p.epoch
	r.start("the late producer starts again with its epoch", 4, late)
}
