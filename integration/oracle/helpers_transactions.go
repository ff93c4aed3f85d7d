package main

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func starting(txn string, timeout int32) *kmsg.InitProducerIDRequest {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = kmsg.StringPtr(txn), timeout
	req.ProducerID, req.ProducerEpoch = -1, -1
	return req
}

// start asks for a producer id, again while an older transaction is being finished, and learns it.
func (r *run) start(step string, v int16, req *kmsg.InitProducerIDRequest) producer {
	p := producer{id: -1, epoch: -1}
	if req.TransactionalID != nil {
		p.txn = *req.TransactionalID
	}
	r.await(step, v, func() kmsg.Request { return req }, func(resp kmsg.Response) bool {
		return !loading(resp.(*kmsg.InitProducerIDResponse).ErrorCode)
	}, func(resp kmsg.Response) {
		a := resp.(*kmsg.InitProducerIDResponse)
		p.id, p.epoch = a.ProducerID, a.ProducerEpoch
		if a.ProducerID >= 0 {
			r.learnProducer(a.ProducerID, "producer of "+p.txn)
		}
	})
	return p
}

func (r *run) learnProducer(id int64, token string) {
	if r.token("ProducerID", render(id)) == render(id) {
		r.learn("ProducerID", id, token)
	}
}

func adding(p producer, topic string, partitions ...int32) *kmsg.AddPartitionsToTxnRequest {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = p.txn, p.id, p.epoch
	t := kmsg.NewAddPartitionsToTxnRequestTopic()
	t.Topic, t.Partitions = topic, partitions
	req.Topics = append(req.Topics, t)
	x := kmsg.NewAddPartitionsToTxnRequestTransaction()
	x.TransactionalID, x.ProducerID, x.ProducerEpoch = p.txn, p.id, p.epoch
	u := kmsg.NewAddPartitionsToTxnRequestTransactionTopic()
	u.Topic, u.Partitions = topic, partitions
	x.Topics = append(x.Topics, u)
	req.Transactions = append(req.Transactions, x)
	return req
}

// add asks to add partitions, again while an older transaction is being finished.
func (r *run) add(step string, v int16, p producer, topic string, partitions ...int32) {
	r.await(step, v, func() kmsg.Request { return adding(p, topic, partitions...) }, func(resp kmsg.Response) bool {
		for _, t := range resp.(*kmsg.AddPartitionsToTxnResponse).Topics {
			for _, x := range t.Partitions {
				if loading(x.ErrorCode) {
					return false
				}
			}
		}
		return true
	})
}

func ending(p producer, commit bool) *kmsg.EndTxnRequest {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = p.txn, p.id, p.epoch, commit
	return req
}

func (r *run) end(step string, v int16, p producer, commit bool) *kmsg.EndTxnResponse {
	resp, _ := r.await(step, v, func() kmsg.Request { return ending(p, commit) }, func(resp kmsg.Response) bool {
		return !loading(resp.(*kmsg.EndTxnResponse).ErrorCode)
	}, func(resp kmsg.Response) {
		if a := resp.(*kmsg.EndTxnResponse); a.ProducerID >= 0 {
			r.learnProducer(a.ProducerID, "producer of "+p.txn)
		}
	}).(*kmsg.EndTxnResponse)
	return resp
}

// txnal is a transactional batch of a producer.
func txnal(p producer, seq int32, values ...string) batchOf {
	return batchOf{values: values, attrs: 0x10, pid: p.id, producer: true, pepoch: p.epoch, seq: seq}
}

func (r *run) write(step string, v int16, p producer, topic string, bs ...batchOf) {
	r.query(step, v, production(topic, kmsg.StringPtr(p.txn), bs...))
}

// finished waits until the markers of a transaction are written everywhere.
func (r *run) finished(txn string) {
	r.until(0, func() kmsg.Request { return examining(txn) }, func(resp kmsg.Response) bool {
		l := resp.(*kmsg.DescribeTransactionsResponse).TransactionStates
		return len(l) == 1 && !strings.HasPrefix(l[0].State, "Prepare")
	})
}

func reading(topic string, isolation int8, from int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel = 100, 0, 1<<20, isolation
	req.ReplicaID, req.SessionEpoch = -1, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes = from, 1<<20
	p.CurrentLeaderEpoch, p.LogStartOffset, p.LastFetchedEpoch = -1, -1, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func offsetAt(topic string, isolation int8, timestamp int64) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel = -1, isolation
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp, p.CurrentLeaderEpoch = timestamp, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// stable waits until the last stable offset of partition 0 reached the given one: markers are written after EndTxn is answered.
func (r *run) stable(topic string, offset int64) {
	r.until(4, func() kmsg.Request { return offsetAt(topic, 1, -1) }, func(resp kmsg.Response) bool {
		t := resp.(*kmsg.ListOffsetsResponse).Topics
		return len(t) == 1 && len(t[0].Partitions) == 1 && t[0].Partitions[0].Offset >= offset
	})
}

// looks at partition 0 from both sides.
func (r *run) compare(step, topic string) {
	r.query(step+": all records", 11, reading(topic, 0, 0))
	r.query(step+": committed records", 11, reading(topic, 1, 0))
	r.query(step+": committed records, v4", 4, reading(topic, 1, 0))
	r.query(step+": end of the log", 4, offsetAt(topic, 0, -1))
	r.query(step+": end of what is stable", 4, offsetAt(topic, 1, -1))
}

func examining(ids ...string) *kmsg.DescribeTransactionsRequest {
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = ids
	return req
}

// finished says that no described transaction is being finished.
func finished(resp kmsg.Response) bool {
	for _, s := range resp.(*kmsg.DescribeTransactionsResponse).TransactionStates {
		if strings.HasPrefix(s.State, "Prepare") {
			return false
		}
	}
	return true
}

func producersOf(topic string, partitions ...int32) *kmsg.DescribeProducersRequest {
	req := kmsg.NewPtrDescribeProducersRequest()
	t := kmsg.NewDescribeProducersRequestTopic()
	t.Topic, t.Partitions = topic, partitions
	req.Topics = append(req.Topics, t)
	return req
}
