package workload

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"cordwood/integration/history"
)

// nowhere is a Sink.
type nowhere struct{}

func (nowhere) Op(history.Op)               {}
func (nowhere) Watermark(history.Watermark) {}

// TestWhatASettledClusterLostIsNotWaitedFor but what one lacks that has not settled is, to the limit.
func TestWhatASettledClusterLostIsNotWaitedFor(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	require.NoError(t, err)
	defer fake.Close()
	r, err := NewRun(RunOptions{Seeds: fake.ListenAddrs(), Processes: 1, Sink: nowhere{}, Header: &history.Header{
		Began: time.Now(), Topics: []history.Topic{{Name: "t", Acks: "all"}}, Keys: []history.Key{{}}}})
	require.NoError(t, err)
	p := r.newProcess(0, nil)
	defer p.close()
	for range 3 {
		_, typ, err := p.send(t.Context(), &history.Op{}, 0)
		require.NoError(t, err)
		require.Equal(t, history.OK, typ)
	}
	require.NoError(t, r.Finish(t.Context(), time.Minute, false), "all is there")

	r.reached(0, 9) // somebody was told of more
	require.ErrorIs(t, r.Finish(t.Context(), 2*finalQuiet, false), context.DeadlineExceeded)
	began := time.Now()
	require.NoError(t, r.Finish(t.Context(), time.Minute, true))
	require.Less(t, time.Since(began), 30*time.Second)
}
