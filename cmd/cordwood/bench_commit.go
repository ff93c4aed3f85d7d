package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/configs"
	"cordwood/fsm/metadata"
)

func newBenchCommand(a *app) *cobra.Command {
	return group("bench", "Measure", nil, newBenchCommit(a))
}

// benchOptions are the flags of bench commit.
type benchOptions struct {
	rate       string
	size       string
	duration   time.Duration
	rounds     int
	slow       string
	rules      []string
	durability string
	html       string

	perSecond float64
	bytes     int
	slowNode  int32 // metadata.NoNode: none
	slowBy    time.Duration
}

// benchRule is one way to acknowledge: the settings of its topic and what its producer asks for.
type benchRule struct {
	name, acks string
	settings   []keyValue
}

// benchRules are the rules that can be compared.
func benchRules(name, durability string) (benchRule, bool) {
	commit := commitFlags{acks: name, durability: durability}
	r := benchRule{name: name, acks: "all"}
	if name == "leader" {
		r.acks = "1"
	}
	if name != "leader" && name != "quorum" && name != "isr" {
		return r, false
	}
	var err error
	r.settings, err = commit.settings()
	return r, err == nil
}

func newBenchCommit(a *app) *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{Use: "commit", Short: "Compare what the commit rules cost on this cluster, side by side", Args: takes(0, 0, "no arguments"),
		Long: "Make one topic for each rule, all on the same nodes with the same leader, write to them in turns at the same rate, and\n" +
			"compare when records were acknowledged, whose copy completed the commits, and what each rule survives. The topics are\n" +
			"deleted afterwards.\n\n" +
			"--slow-node delays one node's replication; it works on nodes that run with dev_mode: true.",
		Example: "  cordwood bench commit --rate 2000/s --size 1KiB --duration 10s --slow-node 3:+40ms --html commit.html",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return a.benchCommit(cmd.Context(), &o)
		}}
	f := cmd.Flags()
	f.StringVar(&o.rate, "rate", "1000/s", "Records a second")
	f.StringVar(&o.size, "size", "1KiB", "Bytes of a record's value")
	f.DurationVar(&o.duration, "duration", 10*time.Second, "How long each rule is written to, in all rounds together")
	f.IntVar(&o.rounds, "rounds", 5, "Turns of each rule")
	f.StringVar(&o.slow, "slow-node", "", "Node whose replication is delayed and by how much, such as 3:+40ms")
	f.StringSliceVar(&o.rules, "rules", []string{"leader", "quorum", "isr"}, "Rules to compare: leader, quorum, isr")
	f.StringVar(&o.durability, "durability", "", "Where copies count: memory or disk (default: the topics' default)")
	f.StringVar(&o.html, "html", "", "File to write a page with the latency curves to")
	return a.shaped(cmd, &benchView{})
}

// Bounds of a benchmark.
const (
	benchMaxRate  = 1e6
	benchMaxBytes = 512 << 10
	benchMaxSlow  = 10 * time.Second
	benchMaxTime  = time.Hour
)

func (o *benchOptions) check() error {
	n, err := strconv.ParseFloat(strings.TrimSuffix(o.rate, "/s"), 64)
	if err != nil || !(n > 0 && n <= benchMaxRate) {
		return usage(fmt.Sprintf("--rate %s: write records a second, such as 2000/s", o.rate))
	}
	o.perSecond = n
	size, err := configs.ParseByteSize(o.size)
	if err != nil || size.Int64() < 1 || size.Int64() > benchMaxBytes {
		return usage(fmt.Sprintf("--size %s: write a size of 1 to %d bytes, such as 1KiB", o.size, benchMaxBytes))
	}
	o.bytes = int(size.Int64())
	if o.duration < time.Second || o.duration > benchMaxTime {
		return usage("--duration must be from 1s to 1h")
	}
	if o.rounds < 1 || o.rounds > 1000 || o.duration/time.Duration(o.rounds) < 100*time.Millisecond {
		return usage("--rounds must be at least 1 and leave 100ms for each")
	}
	if o.slowNode, o.slowBy, err = slowNode(o.slow); err != nil {
		return err
	}
	for i, name := range o.rules {
		if _, ok := benchRules(name, ""); !ok || slices.Contains(o.rules[:i], name) {
			return usage(fmt.Sprintf("--rules %s: write leader, quorum and isr, each once at most", strings.Join(o.rules, ",")))
		}
	}
	if o.durability != "" && o.durability != string(metadata.DurabilityMemory) && o.durability != string(metadata.DurabilityDisk) {
		return usage(fmt.Sprintf("--durability %s: write memory or disk", o.durability))
	}
	return nil
}

// slowNode reads NODE:+DELAY.
func slowNode(s string) (int32, time.Duration, error) {
	if s == "" {
		return metadata.NoNode, 0, nil
	}
	node, delay, ok := strings.Cut(s, ":+")
	id, err := nodeID(node)
	by, delayErr := time.ParseDuration(delay)
	if !ok || err != nil || delayErr != nil || by <= 0 || by > benchMaxSlow {
		return 0, 0, usage(fmt.Sprintf("--slow-node %s: write a node and a delay of at most %s, such as 3:+40ms", s, benchMaxSlow))
	}
	return id, by, nil
}

// benchCleanup bounds what is done after the measurement, also after an interruption.
const benchCleanup = 10 * time.Second

func (a *app) benchCommit(ctx context.Context, o *benchOptions) (err error) {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	place, err := c.benchPlace(ctx, o)
	if err != nil {
		return err
	}
	var b [3]byte
	rand.Read(b[:])
	run := &benchRun{a: a, c: c, o: o, place: place, prefix: "bench-commit-" + hex.EncodeToString(b[:])}
	defer func() {
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), benchCleanup)
		defer cancel()
		if undone := run.cleanUp(after); err == nil {
			err = undone
		}
	}()
	v, err := run.measure(ctx)
	if err != nil {
		return err
	}
	if err := a.print(v); err != nil {
		return err
	}
	if o.html != "" {
		if err := os.WriteFile(o.html, benchPage(v), 0o644); err != nil {
			return err
		}
		a.note("the latency curves are in %s", o.html)
	}
	return nil
}

// benchPlace chooses the nodes of the topics: a leader that is not the slow node, and the slow one among the followers.
func (c *client) benchPlace(ctx context.Context, o *benchOptions) ([]int32, error) {
	ctx, cancel := context.WithTimeout(ctx, c.app.timeout)
	defer cancel()
	cluster, err := c.cluster(ctx)
	if err != nil {
		return nil, err
	}
	var leader, others []int32
	for _, n := range cluster.Nodes {
		switch {
		case n.State != "alive":
		case n.ID == o.slowNode:
			others = append([]int32{n.ID}, others...)
		case len(leader) == 0:
			leader = append(leader, n.ID)
		default:
			others = append(others, n.ID)
		}
	}
	place := append(leader, others...)
	if len(leader) == 0 || len(place) < 3 {
		return nil, &failure{code: exitRefused, err: fmt.Errorf("the rules are compared on three replicas: nodes alive: %d of %d", len(place), len(cluster.Nodes)), kafka: "INVALID_REPLICATION_FACTOR"}
	}
	if o.slowNode != metadata.NoNode && !slices.Contains(place, o.slowNode) {
		return nil, &failure{code: exitNotFound, err: fmt.Errorf("--slow-node: node %d is not alive", o.slowNode)}
	}
	return place[:3], nil
}

// createTopics makes a topic for each rule.
func (r *benchRun) createTopics(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.a.timeout)
	defer cancel()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = r.a.timeoutMillis()
	for _, rule := range r.rules {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = r.topic(rule.name), -1, -1
		at := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		at.Replicas = r.place
		t.ReplicaAssignment = append(t.ReplicaAssignment, at)
		for _, s := range rule.settings {
			c := kmsg.NewCreateTopicsRequestTopicConfig()
			c.Name, c.Value = s.key, kmsg.StringPtr(s.value)
			t.Configs = append(t.Configs, c)
		}
		req.Topics = append(req.Topics, t)
	}
	done, err := r.c.createTopics(ctx, req)
	if err != nil {
		return err
	}
	for _, t := range done.Topics {
		if t.err != nil {
			return t.err
		}
		r.made = append(r.made, t.Name)
		r.promised[t.Name] = t.commitView
	}
	return nil
}

func (r *benchRun) topic(rule string) string { return r.prefix + "-" + rule }

// cleanUp deletes the topics and takes the delay back, whatever happened.
func (r *benchRun) cleanUp(ctx context.Context) error {
	var first error
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	if r.slowed {
		keep(r.c.delayNode(ctx, r.o.slowNode, 0))
	}
	if len(r.made) > 0 {
		done, err := r.c.deleteTopics(ctx, r.made)
		keep(err)
		if done != nil {
			for _, t := range done.Topics {
				keep(t.err)
			}
		}
	}
	return first
}

// delayNode delays one node's replication, which only nodes in development mode take.
func (c *client) delayNode(ctx context.Context, node int32, by time.Duration) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	x := kmsg.NewIncrementalAlterConfigsRequestResource()
	x.ResourceType, x.ResourceName = kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(node))
	s := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	s.Name, s.Value = metadata.DevFetchDelay, kmsg.StringPtr(strconv.FormatInt(by.Milliseconds(), 10))
	x.Configs = append(x.Configs, s)
	req.Resources = append(req.Resources, x)
	answer, err := c.Broker(int(node)).RetriableRequest(ctx, req)
	if err != nil {
		return err
	}
	for _, x := range answer.(*kmsg.IncrementalAlterConfigsResponse).Resources {
		if err := refused(fmt.Sprintf("--slow-node %d", node), x.ErrorCode, x.ErrorMessage); err != nil {
			return &failure{code: exitRefused, err: err, hint: "run the node with dev_mode: true"}
		}
	}
	return nil
}
