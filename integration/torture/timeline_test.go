package torture

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/integration/history"
)

func sendOp(key int, t history.Type, start, end time.Duration) history.Op {
	return history.Op{F: history.Send, Type: t, Start: start, End: end, Mops: []history.Mop{{Send: &history.Sent{Key: key, Value: 1}}}}
}

func TestTheTimelineCountsWhatEndedInEachSecond(t *testing.T) {
	h := &history.History{Header: history.Header{Topics: make([]history.Topic, 1), Keys: []history.Key{{}}}}
	ms := time.Millisecond
	h.Ops = []history.Op{
		sendOp(0, history.OK, 0, 10*ms), sendOp(0, history.OK, 10*ms, 40*ms), sendOp(0, history.Info, 100*ms, 2500*ms),
		{F: history.Poll, Type: history.OK, End: 2600 * ms}, {F: history.Crash, Type: history.Info, End: 2700 * ms},
		{F: history.Poll, Type: history.OK, End: 9 * time.Second, Final: true},
	}
	require.Equal(t, []Step{
		{Operations: 2, Acknowledged: 2, P50: 30 * ms, P99: 30 * ms},
		{},
		{Operations: 3, Failed: 1},
	}, timelineOf(h).Steps)
}

func TestASilenceBeginsWithTheFirstTryAndEndsWithAnAcknowledgement(t *testing.T) {
	h := &history.History{Header: history.Header{Topics: make([]history.Topic, 2), Keys: []history.Key{{}, {Topic: 1}}}}
	s := time.Second
	h.Ops = []history.Op{
		sendOp(0, history.OK, 0, s/100),
		sendOp(0, history.OK, 5*s, 5*s+s/100), // nobody tried before
		sendOp(0, history.Info, 6*s, 9*s),
		sendOp(0, history.OK, 9*s, 10*s),
		sendOp(1, history.OK, 0, s/100), // the other topic was served all the time
		sendOp(1, history.OK, 5*s, 5*s+s/100), sendOp(1, history.OK, 7*s, 7*s+s/100),
	}
	require.Equal(t, []Silence{{Topic: 0, From: 6 * s, To: 10 * s}}, timelineOf(h).Silences)
}
