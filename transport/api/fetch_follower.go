package api

import (
	"context"
	"time"

	"cordwood/fsm/partition"
	"cordwood/logstore/record"
	"cordwood/transport"
)

// followerVersion is the least version in which a follower may fetch: with topic ids, broker epoch and tags.
const followerVersion = 15

// handleFollower answers a replica of the cluster. The session is the replica manager's, which parks the request at what
// the follower waits for: numbers, named and forgotten partitions are passed on as they came, and what comes back is
// told as it is.
func (f *fetching) handleFollower(ctx context.Context) transport.Response {
	f.limits()
	a := &f.ask
	a.SessionID, a.SessionEpoch = f.req.SessionID, f.req.SessionEpoch
	eachAsked(f.req, func(k fetchKey, p partition.FetchPartition) {
		p.ID = record.PartitionID{Topic: k.id, Partition: k.partition}
		a.Partitions = append(a.Partitions, p)
	})
	for i := range f.req.ForgottenTopics {
		t := &f.req.ForgottenTopics[i]
		for _, p := range t.Partitions {
			a.Forgotten = append(a.Forgotten, record.PartitionID{Topic: t.TopicID, Partition: p})
		}
	}
	pending := f.h.Replicas.Fetch(ctx, a)
	return transport.Response{Wait: func(ctx context.Context) transport.Response { return f.answerFollower(pending.Wait(ctx)) }}
}

// limits takes over what the request says beside its partitions.
func (f *fetching) limits() {
	most := f.h.Node.MaxFetchBytes
	if most <= 0 {
		most = defaultMaxFetchBytes
	}
	a := &f.ask
	a.ReplicaID, a.BrokerEpoch, a.Sequence = -1, -1, -1
	if f.follower {
		a.ReplicaID, a.BrokerEpoch, a.Sequence = f.replica, f.epoch, f.sequence
	}
	a.MaxBytes = min(max(f.req.MaxBytes, 0), most)
	a.MinBytes = min(f.req.MinBytes, a.MaxBytes)
	a.MaxWait = time.Duration(max(f.req.MaxWaitMillis, 0)) * time.Millisecond
	a.Committed = f.req.IsolationLevel == committedOnly
}

func (f *fetching) answerFollower(res partition.FetchResult) transport.Response {
	hints := hintedLeaders{img: f.img, listener: f.listener}
	tell := make([]fetchPart, len(res.Answers))
	for i := range res.Answers {
		a := &res.Answers[i]
		tell[i] = fetchPart{key: fetchKey{id: a.ID.Topic, partition: a.ID.Partition}, hw: -1, lso: -1, logStart: -1, leader: -1, leaderEpoch: -1}
		f.fill(&tell[i], a, &hints)
	}
	e := fetchEncoder{version: f.req.Version, code: code(res.Err), session: res.SessionID, sequence: f.sequence, hints: &hints}
	return transport.Response{Pieces: e.encode(tell), Failed: e.failed(tell)}
}

// handleAck takes how far a follower's copies count. Nothing is answered; a frame that cannot be read ends the connection,
// and one of an older process or another fetch session is dropped by the replicas.
func handleAck(h *Handlers, r *transport.Request) transport.Response {
	ack, err := partition.DecodeAck(r.Body.(*transport.OneWay).Body)
	if err != nil {
		return transport.Response{Close: true, Reason: "ack"}
	}
	h.Replicas.Ack(&ack)
	return transport.Response{None: true}
}
