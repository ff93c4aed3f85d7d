package torture

import (
	"slices"
	"time"

	"cordwood/integration/history"
)

const (
	timelineStep = time.Second
	silenceLeast = time.Second // shorter waits are no unavailability
)

// Timeline is a run over time, in steps of a second.
type Timeline struct {
	Steps    []Step    `json:"steps"`
	Silences []Silence `json:"silences"` // by topic, then by start
}

// Step is one second of a run.
type Step struct {
	Operations   int           `json:"operations"`   // that ended in it
	Acknowledged int           `json:"acknowledged"` // records
	Failed       int           `json:"failed"`       // operations that failed, or of which nobody knows
	P50          time.Duration `json:"p50"`          // of sends that were acknowledged in it: nanoseconds, 0 of none
	P99          time.Duration `json:"p99"`
}

// Silence is a time in which nothing of a topic was acknowledged although clients tried.
type Silence struct {
	Topic int           `json:"topic"`
	From  time.Duration `json:"from"`
	To    time.Duration `json:"to"`
}

// timelineOf computes the timeline of a history, without its final polls.
func timelineOf(h *history.History) Timeline {
	var t Timeline
	took := map[int][]time.Duration{}
	acked := make([][]time.Duration, len(h.Header.Topics)) // ends
	tried := make([][]time.Duration, len(h.Header.Topics)) // starts
	for _, op := range h.Ops {
		if op.Final {
			continue
		}
		n := int(op.End / timelineStep)
		for len(t.Steps) <= n {
			t.Steps = append(t.Steps, Step{})
		}
		s := &t.Steps[n]
		s.Operations++
		if op.Type != history.OK && op.F != history.Crash {
			s.Failed++
		}
		for _, m := range op.Mops {
			if m.Send == nil {
				continue
			}
			topic := h.Header.Keys[m.Send.Key].Topic
			tried[topic] = append(tried[topic], op.Start)
			if op.Type != history.OK {
				continue
			}
			s.Acknowledged++
			acked[topic] = append(acked[topic], op.End)
			if op.F == history.Send {
				took[n] = append(took[n], op.End-op.Start)
			}
		}
	}
	for n, ds := range took {
		slices.Sort(ds)
		t.Steps[n].P50, t.Steps[n].P99 = at(ds, 0.5), at(ds, 0.99)
	}
	for topic := range acked {
		t.Silences = append(t.Silences, silences(topic, acked[topic], tried[topic])...)
	}
	return t
}

// at is the value below which a share q of the sorted durations lies.
func at(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// silences are the long times between two acknowledgements in which something was begun.
func silences(topic int, acked, tried []time.Duration) (out []Silence) {
	slices.Sort(acked)
	slices.Sort(tried)
	for i := 1; i < len(acked); i++ {
		from, to := acked[i-1], acked[i]
		if to-from < silenceLeast {
			continue
		}
		j, _ := slices.BinarySearch(tried, from)
		if j < len(tried) && tried[j] < to {
			out = append(out, Silence{Topic: topic, From: max(from, tried[j]), To: to})
		}
	}
	return slices.DeleteFunc(out, func(s Silence) bool { return s.To-s.From < silenceLeast })
}
