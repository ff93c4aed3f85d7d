package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
)

// partitionView is one partition of topic describe.
type partitionView struct {
	Partition      int32            `json:"partition"`
	Leader         int32            `json:"leader"` // -1: none
	LeaderEpoch    int32            `json:"leaderEpoch"`
	PartitionEpoch int32            `json:"partitionEpoch"` // -1: unknown, as on another Kafka
	Replicas       []int32          `json:"replicas"`
	ISR            []int32          `json:"isr"`
	ELR            []int32          `json:"elr"`
	LogStartOffset int64            `json:"logStartOffset"` // -1: unknown, as without a leader
	HighWatermark  int64            `json:"highWatermark"`  // -1: unknown
	LogEndOffsets  map[string]int64 `json:"logEndOffsets"`  // by node id; a node whose end is unknown is absent
	Transition     string           `json:"transition"`     // what is being changed: commit.rule, commit.durability, reassignment; empty: nothing
	Target         []int32          `json:"target"`         // replicas that a reassignment leads to

	offline []int32 // replicas whose nodes are not alive
	info    metadata.PartitionInfo
}

// topicView is one topic of topic describe.
type topicView struct {
	Name string `json:"name"`
	ID   string `json:"id"`
	commitView
	Transition string            `json:"transition"` // of its partitions, each once; empty: nothing is being changed
	AckRaised  *int64            `json:"ackRaised,omitempty"`
	Configs    map[string]string `json:"configs"`
	Partitions []partitionView   `json:"partitions"`

	internal bool
}

type topicsView struct {
	APIVersion string      `json:"apiVersion"`
	Topics     []topicView `json:"topics"`
}

func (v *topicsView) table(w io.Writer, wide bool) {
	for i, t := range v.Topics {
		if i > 0 {
			fmt.Fprintln(w)
		}
		replicas := 0
		for _, p := range t.Partitions {
			replicas = max(replicas, len(p.present()))
		}
		fmt.Fprintf(w, "TOPIC %s   ID %s   COMMIT %s   MIN ACKS %s   PARTITIONS %d   REPLICAS %d   MIN ISR %s   CLEANUP %s\n", t.Name, t.ID, t.text(), dash(t.MinAcks),
			len(t.Partitions), replicas, dash(t.Configs["min.insync.replicas"]), dash(t.Configs["cleanup.policy"]))
		if wide {
			for _, k := range sortedKeys(t.Configs) {
				fmt.Fprintf(w, "  %s=%s\n", k, t.Configs[k])
			}
		}
		fmt.Fprintln(w, "PART\tLEADER\tEPOCH\tREPLICAS\tISR\tSTART\tHW\tLEO\tSTATUS")
		for _, p := range t.Partitions {
			fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Partition, nodeName(p.Leader), p.LeaderEpoch, ids(p.Replicas), ids(p.ISR),
				known(p.LogStartOffset), known(p.HighWatermark), p.ends(), p.status())
		}
		t.closing(w)
	}
}

func (v *topicsView) names() []string {
	var out []string
	for _, t := range v.Topics {
		out = append(out, t.Name)
	}
	return out
}

func known(offset int64) string {
	if offset < 0 {
		return "-"
	}
	return strconv.FormatInt(offset, 10)
}

// ends writes the log ends in the order of the replicas.
func (p partitionView) ends() string {
	var out []string
	for _, r := range p.Replicas {
		if end, ok := p.LogEndOffsets[strconv.Itoa(int(r))]; ok {
			out = append(out, strconv.FormatInt(end, 10))
		} else {
			out = append(out, "-")
		}
	}
	return strings.Join(out, "/")
}

func (p partitionView) status() string {
	s := "ok"
	switch {
	case p.Leader < 0:
		s = "offline"
	case p.underReplicated():
		s = "under-replicated"
	}
	switch p.Transition {
	case "":
		return s
	case changeReplicas:
		return fmt.Sprintf("%s, moving to %s", s, ids(p.Target))
	}
	return s + ", changing " + p.Transition
}

func sortedKeys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func topicID(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

func newTopicDescribe(a *app) *cobra.Command {
	return a.shaped(&cobra.Command{Use: "describe NAME...", Aliases: []string{"info"}, Short: "Say everything about topics", Args: takes(1, -1, "one or more topic names"),
		ValidArgsFunction: a.completeTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.show(cmd.Context(), &topicsView{}, func(ctx context.Context) (v view, err error) {
				err = a.ask(ctx, func(ctx context.Context, c *client) error {
					topics, err := c.describeTopics(ctx, args)
					if err == nil {
						v = &topicsView{apiVersion, topics}
					}
					return err
				})
				return v, err
			})
		}}, &topicsView{})
}

// describeTopics asks for everything that topic describe shows.
func (c *client) describeTopics(ctx context.Context, names []string) ([]topicView, error) {
	topics, err := c.describePartitions(ctx, names)
	if err != nil {
		return nil, err
	}
	if err := c.fillConfigs(ctx, topics); err != nil {
		return nil, err
	}
	for i := range topics {
		if err := c.fillOffsets(ctx, &topics[i]); err != nil {
			return nil, err
		}
		topics[i].fillPromise()
	}
	return topics, c.fillLogEnds(ctx, topics)
}

// partitionsAtOnce bounds one answer of DescribeTopicPartitions; the rest follows by its cursor.
const partitionsAtOnce = 2000

// describePartitions asks one node for the records of the partitions of topics; nil names ask for all topics.
func (c *client) describePartitions(ctx context.Context, names []string) ([]topicView, error) {
	return heard(ctx, func() ([]topicView, error) { return c.describePartitionsNow(ctx, names) })
}

func (c *client) describePartitionsNow(ctx context.Context, names []string) ([]topicView, error) {
	names = slices.Clone(names)
	slices.Sort(names)
	names = slices.Compact(names)
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = partitionsAtOnce
	for _, n := range names {
		t := kmsg.NewDescribeTopicPartitionsRequestTopic()
		t.Topic = n
		req.Topics = append(req.Topics, t)
	}
	var out []topicView
	for {
		resp, err := req.RequestWith(ctx, c.Client)
		if err != nil {
			return nil, err
		}
		for i := range resp.Topics {
			if out, err = addTopic(out, &resp.Topics[i]); err != nil {
				return nil, err
			}
		}
		if resp.NextCursor == nil {
			break
		}
		next := kmsg.NewDescribeTopicPartitionsRequestCursor()
		next.Topic, next.Partition = resp.NextCursor.Topic, resp.NextCursor.Partition
		if req.Cursor != nil && req.Cursor.Topic == next.Topic && req.Cursor.Partition == next.Partition {
			return nil, errors.New("a node's answer does not go on where the last one ended")
		}
		req.Cursor = &next
	}
	slices.SortFunc(out, func(a, b topicView) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// addTopic takes one topic of an answer into out; an answer may begin in the middle of the topic before.
func addTopic(out []topicView, t *kmsg.DescribeTopicPartitionsResponseTopic) ([]topicView, error) {
	name := ""
	if t.Topic != nil {
		name = *t.Topic
	}
	if t.ErrorCode == unknownTopic {
		return nil, noTopic(name)
	}
	if err := refused(name, t.ErrorCode, nil); err != nil {
		return nil, err
	}
	if len(out) == 0 || out[len(out)-1].Name != name {
		out = append(out, topicView{Name: name, ID: topicID(t.TopicID), Configs: map[string]string{}, Partitions: []partitionView{}, internal: t.IsInternal})
	}
	last := &out[len(out)-1]
	for _, p := range t.Partitions {
		v := partitionView{Partition: p.Partition, Leader: p.LeaderID, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: -1,
			Replicas: orEmpty(p.Replicas), ISR: orEmpty(p.ISR), ELR: orEmpty(p.EligibleLeaderReplicas), LogStartOffset: -1, HighWatermark: -1, LogEndOffsets: map[string]int64{}}
		told, err := privateTag(&p.UnknownTags, partitionTag, &v.info)
		if err != nil {
			return nil, err
		}
		if told {
			v.PartitionEpoch = v.info.PartitionEpoch
		}
		v.offline = p.OfflineReplicas
		v.Transition, v.Target = transitionOf(&v.info)
		last.Partitions = append(last.Partitions, v)
	}
	slices.SortFunc(last.Partitions, func(a, b partitionView) int { return int(a.Partition - b.Partition) })
	return out, nil
}

func orEmpty(list []int32) []int32 {
	if list == nil {
		return []int32{}
	}
	return list
}

// fillConfigs asks for the settings in force.
func (c *client) fillConfigs(ctx context.Context, topics []topicView) error {
	req := kmsg.NewPtrDescribeConfigsRequest()
	at := map[string]int{}
	for i, t := range topics {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, t.Name
		req.Resources = append(req.Resources, r)
		at[t.Name] = i
	}
	resp, err := req.RequestWith(ctx, c.Client)
	if err != nil {
		return err
	}
	for _, r := range resp.Resources {
		if err := refused(r.ResourceName, r.ErrorCode, r.ErrorMessage); err != nil {
			return err
		}
		i, ok := at[r.ResourceName]
		if !ok {
			continue
		}
		for _, cfg := range r.Configs {
			if cfg.Value != nil && !cfg.IsSensitive {
				topics[i].Configs[cfg.Name] = *cfg.Value
			}
		}
	}
	return nil
}

// minISR gives min.insync.replicas of each topic.
func (c *client) minISR(ctx context.Context, names []string) (map[string]int, error) {
	out := map[string]int{}
	if len(names) == 0 {
		return out, nil
	}
	var topics []topicView
	for _, n := range names {
		topics = append(topics, topicView{Name: n, Configs: map[string]string{}})
	}
	if err := c.fillConfigs(ctx, topics); err != nil {
		return nil, err
	}
	for _, t := range topics {
		if n, err := strconv.Atoi(t.Configs["min.insync.replicas"]); err == nil {
			out[t.Name] = n
		}
	}
	return out, nil
}

// fillOffsets asks the leaders for log start and high watermark. A partition that nobody answers for keeps -1: it has no
// leader, or one that does not know them yet.
func (c *client) fillOffsets(ctx context.Context, t *topicView) error {
	var led []int32
	for _, p := range t.Partitions {
		if p.Leader >= 0 {
			led = append(led, p.Partition)
		}
	}
	if len(led) == 0 {
		return nil
	}
	starts, err := c.offsets(ctx, t.Name, led, -2)
	var ends map[int32]int64
	if err == nil {
		ends, err = c.offsets(ctx, t.Name, led, -1)
	}
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.app.note("offsets of %s are unknown: %s", t.Name, describe(err))
	}
	for i := range t.Partitions {
		p := &t.Partitions[i]
		if o, ok := starts[p.Partition]; ok {
			p.LogStartOffset = o
		}
		if o, ok := ends[p.Partition]; ok {
			p.HighWatermark = o
		}
	}
	return nil
}

// fillLogEnds asks each leader for the log ends of its partitions' replicas. Another Kafka does not tell them: they stay
// absent.
func (c *client) fillLogEnds(ctx context.Context, topics []topicView) error {
	byLeader := map[int32]map[string][]*partitionView{}
	for i := range topics {
		for j := range topics[i].Partitions {
			p := &topics[i].Partitions[j]
			if p.Leader < 0 {
				continue
			}
			if byLeader[p.Leader] == nil {
				byLeader[p.Leader] = map[string][]*partitionView{}
			}
			byLeader[p.Leader][topics[i].Name] = append(byLeader[p.Leader][topics[i].Name], p)
		}
	}
	for leader, led := range byLeader {
		raised, err := c.logEnds(ctx, leader, led)
		if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			c.app.note("log ends of partitions led by node %d are unknown: %s", leader, describe(err))
		}
		for i := range topics {
			if n, told := raised[topics[i].Name]; told {
				topics[i].raised(n)
			}
		}
	}
	return ctx.Err()
}

// quorumOf asks for the positions of partitions' replicas.
func quorumOf(topics map[string][]*partitionView) *kmsg.DescribeQuorumRequest {
	req := kmsg.NewPtrDescribeQuorumRequest()
	for _, name := range sortedKeys(topics) {
		t := kmsg.NewDescribeQuorumRequestTopic()
		t.Topic = name
		for _, p := range topics[name] {
			rp := kmsg.NewDescribeQuorumRequestTopicPartition()
			rp.Partition = p.Partition
			t.Partitions = append(t.Partitions, rp)
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

// logEnds asks one leader. It gives, by topic, how many batches it knows whose acks the topic raised.
func (c *client) logEnds(ctx context.Context, leader int32, topics map[string][]*partitionView) (raised map[string]int64, err error) {
	req := quorumOf(topics)
	req.UnknownTags.Set(metadata.TagAckLatency, nil)
	r, err := c.Broker(int(leader)).RetriableRequest(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := r.(*kmsg.DescribeQuorumResponse)
	if err := refused("", resp.ErrorCode, resp.ErrorMessage); err != nil {
		return nil, err
	}
	raised = map[string]int64{}
	for _, t := range resp.Topics {
		var m measured
		if told, err := privateTag(&t.UnknownTags, metadata.TagAckLatency, &m); told && err == nil {
			raised[t.Topic] = m.Raised
		}
		for _, answer := range t.Partitions {
			i := slices.IndexFunc(topics[t.Topic], func(p *partitionView) bool { return p.Partition == answer.Partition })
			if i < 0 || answer.ErrorCode != 0 {
				continue
			}
			for _, s := range slices.Concat(answer.CurrentVoters, answer.Observers) {
				if s.LogEndOffset >= 0 {
					topics[t.Topic][i].LogEndOffsets[strconv.Itoa(int(s.ReplicaID))] = s.LogEndOffset
				}
			}
		}
	}
	return raised, nil
}
