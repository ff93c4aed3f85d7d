package replica

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/partition"
)

// TestOffsetsWaitForRecords: a high watermark that moved travels with the next records; without any it is told all the
// same, long before the fetch's time is over.
func TestOffsetsWaitForRecords(t *testing.T) {
	w := newWorld(t, 1, 2)
	w.create(1, 1, 2)
	w.replayAll()
	a, b := w.nodes[1], w.nodes[2]
	for range 3 {
		b.round(1)
	}
	acked := func() *followerFetch { // the fetch that acknowledges what was written before
		x := b.ask(1)
		req := requestOf(x.req)
		req.MaxWait = time.Until(w.now) + time.Hour
		return a.m.Fetch(context.Background(), req).(*followerFetch)
	}
	a.produce(partition.AcksAll, newBatch(1))
	b.round(1)

	f := acked()
	g := gathering{f: f, left: int64(f.req.MaxBytes), patient: true}
	require.False(t, g.take())
	require.Empty(t, g.answers, "offsets alone are not told at once")
	require.Len(t, g.offsets, 1)
	a.produce(partition.AcksAll, newBatch(2))
	require.False(t, g.take())
	require.Len(t, g.answers, 1)
	require.Positive(t, spanBytes(g.answers[0].Spans))
	require.EqualValues(t, 1, g.answers[0].HighWatermark)
	release(g.answers[0].Spans)

	delete(b.sessions, 1) // the answer is lost with its connection
	for range 4 {
		b.round(1)
	}
	a.produce(partition.AcksAll, newBatch(3))
	b.round(1)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r := acked().Wait(ctx)
	require.NoError(t, ctx.Err())
	require.NoError(t, r.Err)
	require.Len(t, r.Answers, 1)
	require.Zero(t, spanBytes(r.Answers[0].Spans))
	require.EqualValues(t, 3, r.Answers[0].HighWatermark)
}

// TestARequestOfAReplacedSessionNamesNothing: a follower that dialled anew while its last request was being read has a
// new session; what is left of the old one neither panics nor stays at the partition.
func TestARequestOfAReplacedSessionNamesNothing(t *testing.T) {
	w := newWorld(t, 1, 2)
	w.create(1, 1, 2)
	w.replayAll()
	a, b := w.nodes[1], w.nodes[2]
	for range 3 {
		b.round(1)
	}
	a.produce(1, newBatch(1))
	b.round(1)
	x := b.ask(1)
	req := requestOf(x.req)
	require.NotEmpty(t, req.Partitions)
	old, err := a.m.resume(req)
	require.NoError(t, err)
	a.m.replaceLink(newLink(2, b.be, w.now))
	require.NotPanics(t, func() { old.name(a.m, &req.Partitions[0], w.now) })
	require.Empty(t, a.part().links)
	old.forget(req.Partitions[0].ID)
}
