package history

import (
	"fmt"
	"time"
)

// The rules that allow what would else be violations.
const (
	ruleFlagged    = "the cluster told that it may have lost this"
	ruleRepeats    = "a producer that is not idempotent wrote it again"
	ruleGroups     = "writes of one operation are not kept together"
	ruleUnanswered = "acks=0 waits for nothing, and its client was given up"
	ruleWriteOrder = "writes are not isolated from each other, and their order was inferred"
)

// usual are the rules by which nothing is amiss: Kafka promises no more to anybody, with or without faults.
var usual = map[string]bool{ruleGroups: true, ruleWriteOrder: true}

// deposed bounds how long before a fault and after its end a leader that it deposed may have acknowledged what is lost: by
// then followers that lag have left the in-sync replicas, sessions have ended and preferred leaders are back.
const deposed = time.Minute

// rules knows what the settings of each topic allow.
type rules struct {
	h      *History
	weak   []string // by topic: the rule by which it may lose what it acknowledged, while leaders are deposed
	losses [][]Loss // by key

	unanswered []bool       // by topic: its producers wait for nothing
	crashed    map[int]bool // processes of which a client was given up
}

func rulesOf(h *History) *rules {
	r := &rules{h: h, losses: make([][]Loss, len(h.Header.Keys)), crashed: map[int]bool{}}
	for i := range h.Ops {
		if h.Ops[i].F == Crash {
			r.crashed[h.Ops[i].Process] = true
		}
	}
	for i := range h.Header.Topics {
		t := &h.Header.Topics[i]
		weak := ""
		if !t.commits() {
			weak = fmt.Sprintf("acks=%s may lose what it acknowledged when a fault deposes a leader", t.Acks)
		}
		r.weak = append(r.weak, weak)
		n, _ := copiesAwaited(t.Acks)
		r.unanswered = append(r.unanswered, n == 0)
	}
	for _, l := range h.Losses {
		if t := &h.Header.Topics[h.Header.Keys[l.Key].Topic]; t.Durability == "memory" || l.Media {
			r.losses[l.Key] = append(r.losses[l.Key], l)
		}
	}
	return r
}

// weakly gives the rule by which a record that op sent to the key may be lost with the leader that acknowledged it.
func (r *rules) weakly(key int, op *Op) string {
	weak := r.weak[r.h.Header.Keys[key].Topic]
	if weak == "" {
		return ""
	}
	for i := range r.h.Faults {
		f := &r.h.Faults[i]
		never := f.End < f.Start || f.End == 0
		if f.Start <= op.End+deposed && (never || f.End+deposed >= op.Start) {
			return weak
		}
	}
	if r.crashed[op.Process] && r.unanswered[r.h.Header.Keys[key].Topic] {
		return ruleUnanswered
	}
	return ""
}

// flagged gives the rule by which what was seen or sent since then at one of the offsets may be gone or replaced. What came
// after the cluster told of its loss may not.
func (r *rules) flagged(key int, since time.Duration, offsets ...int64) string {
	for _, l := range r.losses[key] {
		for _, o := range offsets {
			if l.From <= o && o < l.To && since <= l.At {
				return ruleFlagged
			}
		}
	}
	return ""
}

// lose gives the rule by which a record that op sent, and that was at the offsets, may be lost.
func (r *rules) lose(key int, op *Op, offsets ...int64) string {
	if rule := r.weakly(key, op); rule != "" {
		return rule
	}
	return r.flagged(key, op.Start, offsets...)
}

// twice gives the rule by which a record that op sent may be at all of the offsets.
func (r *rules) twice(key int, op *Op, offsets ...int64) string {
	if op.Repeats || r.h.Header.Topics[r.h.Header.Keys[key].Topic].Repeats {
		return ruleRepeats
	}
	return r.flagged(key, op.Start, offsets...)
}
