package replica

import (
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
)

func count(h *partition.AckHistogram) (n int64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

func TestALeaderMeasuresEachRuleOnTheSameBatches(t *testing.T) {
	w := newWorld(t, 1, 2, 3)
	w.createAs(metadata.RuleQuorum, metadata.DurabilityMemory, 2, 1, 2, 3)
	w.replayAll()
	a, b, c := w.nodes[1], w.nodes[2], w.nodes[3]
	for _, n := range []*member{b, c} {
		n.round(1)
		n.round(1)
	}
	a.produce(partition.AcksAll, newBatch(1))
	w.now = w.now.Add(3 * time.Millisecond)
	b.round(1)
	b.round(1)
	l := a.m.AckLatency(w.topic)
	require.EqualValues(t, 1, count(&l.Leader))
	require.EqualValues(t, 1, count(&l.Quorum))
	require.Zero(t, count(&l.ISR), "node 3 has it not")
	require.Equal(t, 3*time.Millisecond, l.Quorum.Sum)
	require.Equal(t, map[int32]int64{2: 1}, l.CompletedBy)
	w.now = w.now.Add(40 * time.Millisecond)
	c.round(1)
	c.round(1)
	l = a.m.AckLatency(w.topic)
	require.EqualValues(t, 1, count(&l.ISR))
	require.Equal(t, 43*time.Millisecond, l.ISR.Sum)
	require.Equal(t, map[int32]int64{2: 1}, l.CompletedBy, "completed once")

	// What is on its way when the office ends is measured no more.
	a.produce(partition.AcksAll, newBatch(2))
	w.fence(1)
	w.replayAll()
	l = a.m.AckLatency(w.topic)
	require.EqualValues(t, 2, count(&l.Leader))
	require.EqualValues(t, 1, count(&l.Quorum))
	require.Zero(t, a.m.AckLatency(record.TopicID{}).CompletedBy)
}

func TestAnISRThatShrinksCompletesByItsRecord(t *testing.T) {
	w := newWorld(t, 1, 2, 3)
	w.create(1, 1, 2, 3)
	w.replayAll()
	a, b := w.nodes[1], w.nodes[2]
	b.round(1)
	b.round(1)
	pp := a.produce(partition.AcksAll, newBatch(1))
	b.round(1)
	b.round(1)
	require.False(t, isAnswered(pp))
	w.fence(3)
	a.replay(100)
	require.NoError(t, mustAnswer(t, pp).Err)
	l := a.m.AckLatency(w.topic)
	require.Equal(t, map[int32]int64{partition.ByRecord: 1}, l.CompletedBy)
}

func TestMeasuringIsBoundedAndSaysWhatItLeftOut(t *testing.T) {
	a := &attribution{}
	at := time.UnixMilli(0)
	for i := range int64(measuredMax + 5) {
		a.appended(i, at, at)
	}
	require.EqualValues(t, 5, a.total.Skipped)
	require.Len(t, a.ring, measuredMax)
	a.counted(partition.Points{Quorum: 10, InSync: 4}, 7, 2, at.Add(time.Millisecond))
	require.EqualValues(t, 10, count(&a.total.Quorum))
	require.EqualValues(t, 4, count(&a.total.ISR))
	require.Equal(t, map[int32]int64{2: 7}, a.total.CompletedBy)
	for i := range int64(4) { // room again, around the ring's end
		a.appended(measuredMax+5+i, at, at)
	}
	require.EqualValues(t, 5, a.total.Skipped)
	a.counted(partition.Points{Quorum: 1 << 40, InSync: 1 << 40}, 1<<40, 3, at.Add(time.Second))
	require.EqualValues(t, measuredMax+4, count(&a.total.Quorum))
	require.EqualValues(t, measuredMax+4, count(&a.total.ISR))
	require.Equal(t, a.tail, a.first)
	before := testing.AllocsPerRun(100, func() {
		a.appended(1<<41, at, at)
		a.counted(partition.Points{Quorum: 1 << 42, InSync: 1 << 42}, 1<<42, 3, at)
	})
	require.Zero(t, before, "allocations for a batch")
}

// TestAcksAreRaisedToWhatTheTopicAccepts is the table of min.acks.
func TestAcksAreRaisedToWhatTheTopicAccepts(t *testing.T) {
	for _, x := range []struct {
		asked, least, waits int16
	}{
		{0, 0, 0}, {1, 0, 1}, {-1, 0, -1}, {2, 0, 2},
		{0, 1, 1}, {1, 1, 1}, {2, 1, 2}, {-1, 1, -1},
		{0, 2, 2}, {1, 2, 2}, {3, 2, 3}, {2, 3, 3}, {-1, 3, -1},
		{0, -1, -1}, {1, -1, -1}, {3, -1, -1}, {-1, -1, -1},
	} {
		require.Equal(t, x.waits, stronger(x.asked, x.least), "acks %d on a topic of at least %d", x.asked, x.least)
	}
}

func TestAProducerWaitsForWhatTheTopicAccepts(t *testing.T) {
	w := newWorld(t, 1, 2, 3)
	w.createAs(metadata.RuleQuorum, metadata.DurabilityMemory, 2, 1, 2, 3)
	w.replayAll()
	a, b := w.nodes[1], w.nodes[2]
	b.round(1)
	b.round(1)
	require.True(t, isAnswered(a.produce(1, newBatch(1))))
	set := func(v string) {
		r := w.do(&metadata.AlterTopicConfigs{Topics: []metadata.TopicConfigChange{{Topic: w.topic, Set: map[string]string{metadata.SettingMinAcks: v}}}})
		require.NoError(t, r.Items[0])
		w.replayAll()
	}
	set("all")
	pp := a.produce(1, newBatch(2))
	require.False(t, isAnswered(pp), "an acks=1 producer waits for the majority")
	none := a.produce(0, newBatch(3))
	require.True(t, isAnswered(none), "who wants no answer waits for none")
	require.False(t, isAnswered(a.produce(partition.AcksAll, newBatch(4))))
	require.EqualValues(t, 2, a.part().raised, "all was asked for by the producer itself")
	b.round(1)
	b.round(1)
	require.NoError(t, mustAnswer(t, pp).Err)
	set("2")
	require.False(t, isAnswered(a.produce(1, newBatch(5))), "two copies")
	set("0")
	require.True(t, isAnswered(a.produce(1, newBatch(6))))

	// Fewer than can commit are refused before the append, whatever the producer asked for.
	set("all")
	w.fence(2)
	w.fence(3)
	w.replayAll()
	end := a.part().log.EndOffset()
	require.ErrorIs(t, mustAnswer(t, a.produce(0, newBatch(7))).Err, partition.ErrNotEnoughReplicas)
	require.ErrorIs(t, mustAnswer(t, a.produce(1, newBatch(7))).Err, partition.ErrNotEnoughReplicas)
	require.Equal(t, end, a.part().log.EndOffset())
	require.EqualValues(t, 3, a.m.AckLatency(w.topic).Raised)
	require.Contains(t, gathered(t, a.m), `cordwood_produce_acks_raised_total{topic="t"} 3`)
}

// gathered is the metrics of a manager in short: name, labels and value of counters, name and count of histograms.
func gathered(t *testing.T, m *Manager) (out []string) {
	r := prometheus.NewRegistry()
	require.NoError(t, m.register(r))
	fams, err := r.Gather()
	require.NoError(t, err)
	for _, f := range fams {
		for _, x := range f.Metric {
			name := f.GetName()
			for _, l := range x.Label {
				name += "{" + l.GetName() + `="` + l.GetValue() + `"}`
			}
			switch {
			case x.Counter != nil:
				out = append(out, name+" "+strconv.FormatFloat(x.Counter.GetValue(), 'f', -1, 64))
			case x.Histogram != nil:
				out = append(out, name+" "+strconv.FormatUint(x.Histogram.GetSampleCount(), 10))
			}
		}
	}
	return out
}
