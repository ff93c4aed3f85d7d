package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"cordwood/fsm/metadata"
)

// benchView is what bench commit measured.
type benchView struct {
	APIVersion string            `json:"apiVersion"`
	Rate       float64           `json:"rate"` // records a second
	SizeBytes  int               `json:"sizeBytes"`
	Seconds    float64           `json:"seconds"` // of each rule
	Rounds     int               `json:"rounds"`
	Nodes      []int32           `json:"nodes"`    // that held every topic, the leader first
	SlowNode   int32             `json:"slowNode"` // -1: none
	SlowMillis float64           `json:"slowMillis"`
	Rules      []benchRuleResult `json:"rules"`
}

type benchRuleResult struct {
	Rule                string           `json:"rule"`
	Acks                string           `json:"acks"` // of the producer
	Records             int64            `json:"records"`
	Failed              int64            `json:"failed"`
	PerSecond           float64          `json:"perSecond"` // acknowledged
	P50                 float64          `json:"p50Millis"`
	P99                 float64          `json:"p99Millis"`
	P999                float64          `json:"p999Millis"`
	Max                 float64          `json:"maxMillis"`
	CompletedBy         map[string]int64 `json:"completedBy"` // batches, by the node whose copy committed them
	SurvivesLeaderLoss  bool             `json:"survivesLeaderLoss"`
	WritesWithNodesDown int              `json:"writesWithNodesDown"` // how many of the three may be down
	Survives            string           `json:"survives"`
	Curve               []benchPoint     `json:"curve"`
}

type benchPoint struct {
	Quantile float64 `json:"quantile"`
	Millis   float64 `json:"millis"`
}

// benchQuantiles are the points of a curve.
var benchQuantiles = []float64{0, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99, 100}

func millisAt(h *hdrhistogram.Histogram, quantile float64) float64 {
	return float64(h.ValueAtQuantile(quantile)) / 1000
}

func (r *benchRun) view(ctx context.Context, sides []*benchSide) (*benchView, error) {
	v := &benchView{
		APIVersion: apiVersion, Rate: r.o.perSecond, SizeBytes: r.o.bytes, Seconds: r.o.duration.Seconds(), Rounds: r.o.rounds,
		Nodes: r.place, SlowNode: r.o.slowNode, SlowMillis: float64(r.o.slowBy) / float64(time.Millisecond), Rules: []benchRuleResult{},
	}
	for _, s := range sides {
		x := benchRuleResult{Rule: s.name, Acks: s.acks, CompletedBy: r.completedBy(ctx, s)}
		s.mu.Lock()
		x.Records, x.Failed = s.acked.TotalCount(), s.failed
		x.PerSecond = float64(x.Records) / max(s.busy.Seconds(), 1e-9)
		x.P50, x.P99, x.P999, x.Max = millisAt(s.acked, 50), millisAt(s.acked, 99), millisAt(s.acked, 99.9), float64(s.acked.Max())/1000
		for _, q := range benchQuantiles {
			x.Curve = append(x.Curve, benchPoint{q, millisAt(s.acked, q)})
		}
		s.mu.Unlock()
		x.judge(r.promised[s.topic])
		v.Rules = append(v.Rules, x)
	}
	return v, nil
}

// judge says what the rule survives: by the pure judgement of deaths, over three replicas that have everything.
func (x *benchRuleResult) judge(settings commitView) {
	if x.Acks == "1" { // the leader's word alone, which it goes on giving alone
		x.WritesWithNodesDown, x.Survives = 2, "nothing that takes the leader: the record may be on no other node"
		return
	}
	if settings.Promise != nil {
		x.Survives = settings.Promise.Survives
	}
	w := metadata.WhatIf{
		Rule: metadata.CommitRule(settings.Rule), Durability: metadata.Durability(settings.Durability), MinISR: 2, Leader: 1, LastLeader: 1,
		Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3}, HighWatermark: 1,
	}
	for _, id := range w.Replicas {
		w.Copies = append(w.Copies, metadata.Copy{ID: id, End: 1, Trusted: true, Alive: true})
	}
	committed := w.Ranges()[0]
	x.SurvivesLeaderLoss = w.IfDown(committed, []int32{1}) == metadata.FateSafe
	for _, down := range [][]int32{{3}, {2, 3}} {
		if w.IfDown(committed, down) == metadata.FateSafe {
			x.WritesWithNodesDown = len(down)
		}
	}
}

func (v *benchView) table(w io.Writer, wide bool) {
	slow := ""
	if v.SlowNode >= 0 {
		slow = fmt.Sprintf(", node %d slower by %gms", v.SlowNode, v.SlowMillis)
	}
	fmt.Fprintf(w, "%g records/s of %d bytes, %gs for each rule in %d rounds, on nodes %s (leader %d)%s\n", v.Rate, v.SizeBytes, v.Seconds, v.Rounds, ids(v.Nodes), v.Nodes[0], slow)
	fmt.Fprintln(w, "RULE\tACKS\tP50\tP99\tP99.9\tMAX\tRECORDS/S\tFAILED\tCOMPLETED BY\tSURVIVES LEADER LOSS\tWRITES WITH 1 DOWN\tWITH 2 DOWN")
	yes := func(b bool) string {
		if b {
			return "yes"
		}
		return "no"
	}
	for _, r := range v.Rules {
		fmt.Fprintf(w, "%s\t%s\t%.2fms\t%.2fms\t%.2fms\t%.2fms\t%.0f\t%d\t%s\t%s\t%s\t%s\n", r.Rule, r.Acks, r.P50, r.P99, r.P999, r.Max, r.PerSecond, r.Failed,
			r.completed(), yes(r.SurvivesLeaderLoss), yes(r.WritesWithNodesDown >= 1), yes(r.WritesWithNodesDown >= 2))
	}
	if wide {
		for _, r := range v.Rules {
			fmt.Fprintf(w, "%s survives %s\n", r.Rule, r.Survives)
		}
	}
}

// completed says which nodes completed the commits, in shares.
func (x *benchRuleResult) completed() string {
	all := int64(0)
	for _, n := range x.CompletedBy {
		all += n
	}
	if all == 0 {
		return "-"
	}
	var words []string
	for _, id := range sortedKeys(x.CompletedBy) {
		name := id
		if id == "-1" {
			name = "record"
		}
		words = append(words, fmt.Sprintf("%s: %.0f%%", name, 100*float64(x.CompletedBy[id])/float64(all)))
	}
	return strings.Join(words, " ")
}

func (v *benchView) names() []string {
	var out []string
	for _, r := range v.Rules {
		out = append(out, r.Rule)
	}
	return out
}
