package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
)

// latencyView is when a topic's batches were, or would have been, acknowledged.
type latencyView struct {
	APIVersion  string           `json:"apiVersion"`
	Topic       string           `json:"topic"`
	InForce     string           `json:"inForce"` // commit rule
	Rules       []ruleLatency    `json:"rules"`
	CompletedBy map[string]int64 `json:"completedBy"` // batches, by the node whose copy committed them; -1: a change of the record
	Skipped     int64            `json:"skipped"`     // batches that were not measured
	Raised      int64            `json:"raised"`      // batches whose producer asked for less than min.acks
}

// ruleLatency is one rule; times are milliseconds, interpolated within the buckets that leaders count in.
type ruleLatency struct {
	Rule    string  `json:"rule"` // leader, quorum or isr
	Batches int64   `json:"batches"`
	Mean    float64 `json:"meanMillis"`
	P50     float64 `json:"p50Millis"`
	P99     float64 `json:"p99Millis"`
}

func (v *latencyView) table(w io.Writer, _ bool) {
	fmt.Fprintf(w, "TOPIC %s   COMMIT %s\n", v.Topic, dash(v.InForce))
	fmt.Fprintln(w, "RULE\tBATCHES\tMEAN\tP50\tP99\t")
	for _, r := range v.Rules {
		note := "would have been"
		if r.Rule == v.InForce {
			note = "in force"
		}
		if r.Rule == "leader" {
			note = "acks=1"
		}
		fmt.Fprintf(w, "%s\t%d\t%.2fms\t%.2fms\t%.2fms\t%s\n", r.Rule, r.Batches, r.Mean, r.P50, r.P99, note)
	}
	if len(v.CompletedBy) > 0 {
		fmt.Fprint(w, "commits completed by")
		for _, id := range sortedKeys(v.CompletedBy) {
			name := "node " + id
			if id == "-1" {
				name = "a change of the record"
			}
			fmt.Fprintf(w, "   %s: %d", name, v.CompletedBy[id])
		}
		fmt.Fprintln(w)
	}
	if v.Raised > 0 {
		fmt.Fprintf(w, "batches whose producer asked for less than min.acks: %d\n", v.Raised)
	}
}

func (v *latencyView) names() []string { return []string{v.Topic} }

func newTopicLatency(a *app) *cobra.Command {
	return a.shaped(&cobra.Command{Use: "latency NAME", Short: "Show when records would be acknowledged under each rule", Args: takes(1, 1, "a topic"),
		Long: "Show, for the records that producers really sent, when they would have been acknowledged by the leader alone, by a\n" +
			"majority and by all in-sync replicas, whatever rule is in force, and whose copy completed the commits. Leaders measure\n" +
			"it since their start.",
		ValidArgsFunction: a.completeTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.show(cmd.Context(), &latencyView{}, func(ctx context.Context) (v view, err error) {
				err = a.ask(ctx, func(ctx context.Context, c *client) error {
					l, err := c.latency(ctx, args[0])
					if err == nil {
						v = l
					}
					return err
				})
				return v, err
			})
		}}, &latencyView{})
}

// measured is the private field in which a node tells what it measured. Times are microseconds.
type measured struct {
	Bounds      []int64          `json:"bounds"`
	Leader      measuredTimes    `json:"leader"`
	Quorum      measuredTimes    `json:"quorum"`
	ISR         measuredTimes    `json:"isr"`
	CompletedBy map[string]int64 `json:"completedBy"`
	Skipped     int64            `json:"skipped"`
	Raised      int64            `json:"raised"`
}

type measuredTimes struct {
	Counts []int64 `json:"counts"` // by bucket; the last one is open
	Sum    int64   `json:"sum"`
}

func (m *measuredTimes) add(o *measuredTimes) {
	if m.Counts == nil {
		m.Counts = make([]int64, len(o.Counts))
	}
	for i := range min(len(m.Counts), len(o.Counts)) {
		m.Counts[i] += o.Counts[i]
	}
	m.Sum += o.Sum
}

// of puts one rule into figures.
func (m *measuredTimes) of(rule string, bounds []int64) ruleLatency {
	r := ruleLatency{Rule: rule}
	for _, n := range m.Counts {
		r.Batches += n
	}
	if r.Batches == 0 {
		return r
	}
	r.Mean = float64(m.Sum) / float64(r.Batches) / 1000
	r.P50, r.P99 = m.quantile(0.50, r.Batches, bounds), m.quantile(0.99, r.Batches, bounds)
	return r
}

// quantile is interpolated within its bucket; in the open one it is the bound below.
func (m *measuredTimes) quantile(q float64, all int64, bounds []int64) float64 {
	rank, below := q*float64(all), int64(0)
	low := 0.0
	for i, n := range m.Counts {
		if i >= len(bounds) {
			return low
		}
		high := float64(bounds[i]) / 1000
		if float64(below+n) >= rank && n > 0 {
			return low + (high-low)*(rank-float64(below))/float64(n)
		}
		below, low = below+n, high
	}
	return low
}

func (c *client) latency(ctx context.Context, topic string) (*latencyView, error) {
	topics, err := c.describePartitions(ctx, []string{topic})
	if err != nil {
		return nil, err
	}
	cluster, err := c.cluster(ctx)
	if err != nil {
		return nil, err
	}
	sum, err := c.measured(ctx, topic, cluster.Nodes)
	if err != nil {
		return nil, err
	}
	v := &latencyView{APIVersion: apiVersion, Topic: topic, CompletedBy: sum.CompletedBy, Skipped: sum.Skipped, Raised: sum.Raised}
	for _, p := range topics[0].Partitions {
		v.InForce = string(p.info.Rule)
	}
	v.Rules = []ruleLatency{sum.Leader.of("leader", sum.Bounds), sum.Quorum.of("quorum", sum.Bounds), sum.ISR.of("isr", sum.Bounds)}
	return v, nil
}

// measured adds up what all live nodes measured of a topic.
func (c *client) measured(ctx context.Context, topic string, nodes []nodeView) (*measured, error) {
	req := func() *kmsg.DescribeQuorumRequest {
		req := kmsg.NewPtrDescribeQuorumRequest()
		t := kmsg.NewDescribeQuorumRequestTopic()
		t.Topic = topic
		req.Topics = append(req.Topics, t)
		req.UnknownTags.Set(metadata.TagAckLatency, nil)
		return req
	}
	if _, err := c.metadata(ctx, []string{}); err != nil { // tells the client the nodes' addresses
		return nil, err
	}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		fails []error
		told  int
		sum   = &measured{CompletedBy: map[string]int64{}}
	)
	for _, n := range slices.DeleteFunc(slices.Clone(nodes), func(n nodeView) bool { return n.State != "alive" && n.State != "draining" }) {
		wg.Go(func() {
			answer, err := c.Broker(int(n.ID)).Request(ctx, req())
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				fails = append(fails, fmt.Errorf("node %d: %w", n.ID, err))
				return
			}
			for _, t := range answer.(*kmsg.DescribeQuorumResponse).Topics {
				var m measured
				if ok, err := privateTag(&t.UnknownTags, metadata.TagAckLatency, &m); ok && err == nil {
					told++
					sum.add(&m)
				}
			}
		})
	}
	wg.Wait()
	if told == 0 && len(fails) > 0 {
		return nil, fails[0]
	}
	if told == 0 {
		return nil, &failure{code: exitOther, err: fmt.Errorf("the nodes do not measure acknowledgements of %s: this is no Cordwood, or an older one", topic)}
	}
	for _, err := range fails {
		c.app.note("left out: %s", describe(err))
	}
	return sum, nil
}

func (m *measured) add(o *measured) {
	m.Bounds = o.Bounds
	m.Leader.add(&o.Leader)
	m.Quorum.add(&o.Quorum)
	m.ISR.add(&o.ISR)
	m.Skipped += o.Skipped
	m.Raised += o.Raised
	for id, n := range o.CompletedBy {
		if _, err := strconv.Atoi(id); err == nil {
			m.CompletedBy[id] += n
		}
	}
}
