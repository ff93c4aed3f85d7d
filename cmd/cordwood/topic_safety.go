package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"cordwood/fsm/metadata"
)

// safetyReplica is one replica of topic safety.
type safetyReplica struct {
	ID      int32 `json:"id"`
	LogEnd  int64 `json:"logEnd"`  // exclusive; -1: its node did not answer
	Flushed int64 `json:"flushed"` // exclusive; -1 unknown
	Trusted bool  `json:"trusted"` // known to hold what it counted for: it may vote
	InSync  bool  `json:"inSync"`
}

// safetyRange is a run of records that are on the same replicas.
type safetyRange struct {
	From         int64         `json:"from"`
	End          int64         `json:"end"` // exclusive
	Holders      []int32       `json:"holders"`
	OnDisk       []int32       `json:"onDisk"`
	Acknowledged bool          `json:"acknowledged"` // committed: acks=all has been answered or may be
	IfDown       metadata.Fate `json:"ifDown"`       // once the nodes of --if-down are killed and stay away; without it: as things are
}

// safetyView is one partition of topic safety.
type safetyView struct {
	Partition     int32               `json:"partition"`
	Rule          metadata.CommitRule `json:"rule"`
	Leader        int32               `json:"leader"`        // -1: none
	HighWatermark int64               `json:"highWatermark"` // without a leader the highest that a replica remembers; -1: unknown
	Replicas      []safetyReplica     `json:"replicas"`
	Ranges        []safetyRange       `json:"ranges"`

	topic  string
	epoch  int32
	facts  metadata.WhatIf
	ifDown []int32
}

type safetiesView struct {
	APIVersion string       `json:"apiVersion"`
	Partitions []safetyView `json:"partitions"`
}

func (v *safetiesView) names() []string {
	var out []string
	for _, p := range v.Partitions {
		out = append(out, fmt.Sprintf("%s/%d", p.topic, p.Partition))
	}
	return out
}

func (v *safetiesView) table(w io.Writer, _ bool) {
	for i := range v.Partitions {
		if i > 0 {
			fmt.Fprintln(w)
		}
		v.Partitions[i].picture(w)
	}
}

func newTopicSafety(a *app) *cobra.Command {
	var down string
	cmd := &cobra.Command{Use: "safety NAME[/PARTITION]", Short: "Show which nodes hold which records, and what would go with them", Args: takes(1, 1, "a topic or a partition"),
		Long: "Show how far each replica's copy reaches, in memory and on disk, and what becomes of the records when nodes die.\n\n" +
			"  safe     the records are kept, and the partition is led and commits records again without anybody's help\n" +
			"  offline  no record is lost, but none is committed until some of the nodes are back\n" +
			"  lost     no node that is left has the records, or a leader without them is elected\n\n" +
			"--if-down judges as if these nodes were killed now and stayed away.",
		Example:           "  cordwood topic safety orders\n  cordwood topic safety orders/0 --if-down 1,2 -o json",
		ValidArgsFunction: a.completeTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, partition, err := partitionArg(args[0], true)
			if err != nil {
				return err
			}
			gone, err := nodeList("--if-down", down)
			if err != nil {
				return err
			}
			return a.show(cmd.Context(), &safetiesView{}, func(ctx context.Context) (v view, err error) {
				err = a.ask(ctx, func(ctx context.Context, c *client) error {
					s, err := c.safety(ctx, topic, partition, gone)
					if err == nil {
						v = s
					}
					return err
				})
				return v, err
			})
		}}
	cmd.Flags().StringVar(&down, "if-down", "", "Nodes to judge as killed, such as 1,2")
	return a.shaped(cmd, &safetiesView{})
}

// partitionArg reads TOPIC/PARTITION; where a topic alone will do, the partition is then -1.
func partitionArg(s string, topicAlone bool) (topic string, partition int32, err error) {
	topic, number, found := strings.Cut(s, "/")
	if !found && topicAlone && topic != "" {
		return topic, -1, nil
	}
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil || n < 0 || topic == "" {
		return "", 0, usage(fmt.Sprintf("%q is no partition: write TOPIC/NUMBER, such as orders/0", s))
	}
	return topic, int32(n), nil
}

// nodeList reads node ids with commas between, in order and once each; empty for an empty text.
func nodeList(flag, s string) ([]int32, error) {
	var out []int32
	if s == "" {
		return out, nil
	}
	for _, word := range strings.Split(s, ",") {
		id, err := nodeID(strings.TrimSpace(word))
		if err != nil || slices.Contains(out, id) {
			return nil, usage(fmt.Sprintf("%s %s: write node ids with commas between, each once, such as 1,2", flag, s))
		}
		out = append(out, id)
	}
	return out, nil
}

// safety gathers the facts of a topic, or of one partition, and judges them.
func (c *client) safety(ctx context.Context, topic string, partition int32, down []int32) (*safetiesView, error) {
	cluster, err := c.cluster(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range down {
		if !slices.ContainsFunc(cluster.Nodes, func(n nodeView) bool { return n.ID == id }) {
			return nil, &failure{code: exitNotFound, err: fmt.Errorf("--if-down: there is no node %d", id), kafka: "BROKER_ID_NOT_REGISTERED"}
		}
	}
	topics, err := c.describePartitions(ctx, []string{topic})
	if err != nil {
		return nil, err
	}
	v := &safetiesView{APIVersion: apiVersion, Partitions: []safetyView{}}
	t := &topics[0]
	if partition >= 0 {
		if int(partition) >= len(t.Partitions) {
			return nil, &failure{code: exitNotFound, err: errNoPartition(topic, partition, len(t.Partitions)), kafka: "UNKNOWN_TOPIC_OR_PARTITION"}
		}
		t.Partitions = t.Partitions[partition : partition+1]
	}
	places := c.places(ctx, t, cluster.Nodes)
	for i := range t.Partitions {
		p := &t.Partitions[i]
		if p.info.Rule == "" {
			return nil, &failure{code: exitOther, err: fmt.Errorf("the nodes do not tell the commit rule of %s: this is no Cordwood, or an older one", topic)}
		}
		v.Partitions = append(v.Partitions, judgeSafety(topic, p, cluster.Nodes, places[p.Partition], down))
	}
	return v, nil
}

// judgeSafety is the picture of one partition: what its record says, joined with what the nodes told of their copies.
func judgeSafety(topic string, p *partitionView, nodes []nodeView, told *partitionPlaces, down []int32) safetyView {
	alive := func(id int32) bool {
		return slices.ContainsFunc(nodes, func(n nodeView) bool { return n.ID == id && n.State == "alive" })
	}
	v := safetyView{
		Partition: p.Partition, Rule: p.info.Rule, Leader: p.Leader, HighWatermark: told.highWatermark(p.Leader),
		Replicas: []safetyReplica{}, Ranges: []safetyRange{}, topic: topic, epoch: p.LeaderEpoch, ifDown: down,
	}
	v.facts = metadata.WhatIf{
		Rule: p.info.Rule, Durability: p.info.Durability, MinISR: p.info.MinISR, Leader: p.Leader, LastLeader: p.info.LastLeader,
		Replicas: p.present(), NewReplicas: p.info.NewReplicas, ISR: p.ISR, ELR: p.ELR,
		LogStart: told.logStart(p.Leader), HighWatermark: v.HighWatermark,
	}
	for _, n := range nodes {
		if n.Voter {
			v.facts.Voters = append(v.facts.Voters, metadata.Voter{ID: n.ID, Alive: n.State == "alive" || n.State == "draining"})
		}
	}
	for _, id := range p.Replicas {
		place := told.of(id, p.Leader)
		r := safetyReplica{ID: id, LogEnd: place.end, Flushed: place.flushed, Trusted: slices.Contains(p.info.Trusted, id), InSync: slices.Contains(p.ISR, id)}
		v.Replicas = append(v.Replicas, r)
		v.facts.Copies = append(v.facts.Copies, metadata.Copy{ID: id, End: r.LogEnd, Flushed: r.Flushed, Trusted: r.Trusted, Alive: alive(id)})
	}
	for _, r := range v.facts.Ranges() {
		v.Ranges = append(v.Ranges, safetyRange{From: r.From, End: r.End, Holders: r.Holders, OnDisk: r.OnDisk, Acknowledged: r.Committed, IfDown: v.facts.IfDown(r, down)})
	}
	return v
}
