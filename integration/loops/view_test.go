//go:build integration

package loops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/integration/harness"
	"cordwood/integration/workload"
)

const lookWithin = time.Second // of asking one node

// viewed is a partition in the image of one node.
type viewed struct {
	partition, leader, epoch int
	replicas, isr, elr       []int
	metadata.PartitionInfo
}

// settled says that the partition is led and nothing of it is being changed.
func (v viewed) settled() bool {
	return v.leader >= 0 && !v.Rule.Changing() && v.Durability == v.Durability.Target() && len(v.NewReplicas)+len(v.Adding) == 0
}

// untrusted are the replicas that may not vote in an election by reports.
func (v viewed) untrusted() []int {
	return slices.DeleteFunc(slices.Clone(v.replicas), func(id int) bool { return slices.Contains(v.Trusted, int32(id)) })
}

// look asks one node for its image of a topic's partitions, by rising number. It asks nobody else, so that a node that was
// paused or killed delays nothing.
func look(ctx context.Context, n *harness.Node, topic string) ([]viewed, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(n.External), kgo.DialTimeout(lookWithin), kgo.RequestRetries(0))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 1000
	rt := kmsg.NewDescribeTopicPartitionsRequestTopic()
	rt.Topic = topic
	req.Topics = append(req.Topics, rt)
	r, err := client.SeedBrokers()[0].Request(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("node %d: %w", n.ID, err)
	}
	resp := r.(*kmsg.DescribeTopicPartitionsResponse)
	if len(resp.Topics) != 1 || resp.Topics[0].ErrorCode != 0 {
		return nil, fmt.Errorf("node %d does not know topic %s: %+v", n.ID, topic, resp.Topics)
	}
	var out []viewed
	for _, p := range resp.Topics[0].Partitions {
		v := viewed{partition: int(p.Partition), leader: int(p.LeaderID), epoch: int(p.LeaderEpoch), replicas: ints(p.Replicas), isr: ints(p.ISR), elr: ints(p.EligibleLeaderReplicas)}
		body, ok := tagOf(&p.UnknownTags, metadata.TagPartitionInfo)
		if !ok {
			return nil, fmt.Errorf("node %d tells nothing of its own of %s/%d", n.ID, topic, p.Partition)
		}
		if v.PartitionInfo, err = metadata.DecodePartitionInfo(body); err != nil {
			return nil, fmt.Errorf("node %d of %s/%d: %w", n.ID, topic, p.Partition, err)
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b viewed) int { return a.partition - b.partition })
	return out, nil
}

func tagOf(tags *kmsg.Tags, tag uint32) (body []byte, ok bool) {
	tags.Each(func(t uint32, b []byte) {
		if t == tag {
			body, ok = b, true
		}
	})
	return body, ok
}

func ints(ids []int32) []int {
	out := make([]int, len(ids))
	for i, id := range ids {
		out[i] = int(id)
	}
	return out
}

// seen waits until a node's image of all partitions of a topic is as wanted, and gives it.
func seen(t *testing.T, n *harness.Node, topic string, limit time.Duration, what string, want func(viewed) bool) (all []viewed) {
	t.Helper()
	var last error
	eventually(t, limit, fmt.Sprintf("in the image of node %d of %s: %s", n.ID, topic, what), func() bool {
		all, last = look(t.Context(), n, topic)
		return last == nil && len(all) > 0 && !slices.ContainsFunc(all, func(v viewed) bool { return !want(v) })
	})
	return all
}

// fenced waits until another node's image has a node in no session.
func fenced(t *testing.T, by, n *harness.Node, limit time.Duration) {
	t.Helper()
	eventually(t, limit, fmt.Sprintf("node %d fenced in the image of node %d", n.ID, by.ID), func() bool {
		is, err := isFenced(t.Context(), by, n)
		return err == nil && is
	})
}

func unfenced(t *testing.T, by, n *harness.Node, limit time.Duration) {
	t.Helper()
	eventually(t, limit, fmt.Sprintf("node %d in session in the image of node %d", n.ID, by.ID), func() bool {
		is, err := isFenced(t.Context(), by, n)
		return err == nil && !is
	})
}

func isFenced(ctx context.Context, by, n *harness.Node) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(by.External), kgo.DialTimeout(lookWithin), kgo.RequestRetries(0))
	if err != nil {
		return false, err
	}
	defer client.Close()
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType, req.IncludeFencedBrokers = 1, true
	r, err := client.SeedBrokers()[0].Request(ctx, req)
	if err != nil {
		return false, err
	}
	for _, b := range r.(*kmsg.DescribeClusterResponse).Brokers {
		if int(b.NodeID) == n.ID {
			return b.IsFenced, nil
		}
	}
	return false, errors.New("the node is not registered")
}

// safetyInfo is what `topic safety` says of one partition.
type safetyInfo struct {
	Partition     int
	Rule          string
	Leader        int
	HighWatermark int64
	Replicas      []struct {
		ID              int
		LogEnd, Flushed int64
		Trusted, InSync bool
	}
	Ranges []safetyRange
}

type safetyRange struct {
	From, End       int64 // End is exclusive
	Holders, OnDisk []int
	Acknowledged    bool
	IfDown          string
}

// safety asks which records survive what; ifDown may be empty.
func safety(t *testing.T, c *harness.Cluster, topic string, ifDown ...int) []safetyInfo {
	t.Helper()
	args := []string{"topic", "safety", topic, "-o", "json"}
	if len(ifDown) > 0 {
		args = append(args, "--if-down", list(ifDown))
	}
	out := cordwood(t, c, []int{0}, args...)
	var s struct{ Partitions []safetyInfo }
	require.NoError(t, json.Unmarshal([]byte(out), &s), out)
	require.NotEmpty(t, s.Partitions, out)
	return s.Partitions
}

// list writes node ids as the command line takes them.
func list(ids []int) string {
	s := ""
	for i, id := range ids {
		if i > 0 {
			s += ","
		}
		s += fmt.Sprint(id)
	}
	return s
}

// untrusted names the nodes whose replica of some partition is not trusted, in the image of a node.
func untrusted(t *testing.T, by *harness.Node, topic string) (ids []int) {
	t.Helper()
	all, err := look(t.Context(), by, topic)
	require.NoError(t, err)
	for _, v := range all {
		for _, id := range v.untrusted() {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// allTrusted waits until every replica of a topic is certified.
func allTrusted(t *testing.T, c *harness.Cluster, topic string) {
	t.Helper()
	seen(t, c.Answering()[0], topic, 30*time.Second, "all replicas trusted", func(v viewed) bool { return len(v.untrusted()) == 0 })
}

// assigned makes a topic whose partitions are on the given nodes, the preferred leader first.
func assigned(t *testing.T, c *harness.Cluster, name string, replicas [][]int, settings ...string) {
	t.Helper()
	r := kmsg.NewCreateTopicsRequestTopic()
	r.Topic, r.NumPartitions, r.ReplicationFactor = name, -1, -1
	for p, on := range replicas {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition = int32(p)
		for _, id := range on {
			a.Replicas = append(a.Replicas, int32(id))
		}
		r.ReplicaAssignment = append(r.ReplicaAssignment, a)
	}
	for _, setting := range settings {
		k, v, _ := strings.Cut(setting, "=")
		x := kmsg.NewCreateTopicsRequestTopicConfig()
		x.Name, x.Value = k, kmsg.StringPtr(v)
		r.Configs = append(r.Configs, x)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10000
	req.Topics = append(req.Topics, r)
	client, err := kgo.NewClient(kgo.SeedBrokers(answering(c)...), kgo.DialTimeout(time.Second))
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	resp, err := req.RequestWith(ctx, client)
	require.NoError(t, err)
	for _, r := range resp.Topics {
		require.NoError(t, kerr.ErrorForCode(r.ErrorCode), "%s: %v", r.Topic, r.ErrorMessage)
	}
	known(t, c, name)
}

// known waits until every node that answers has a topic in its image.
func known(t *testing.T, c *harness.Cluster, topic string) {
	t.Helper()
	for _, n := range c.Answering() {
		seen(t, n, topic, 30*time.Second, "the topic", func(viewed) bool { return true })
	}
}

// write starts a writer to a topic, whose ids begin with the tag.
func write(t *testing.T, c *harness.Cluster, topic, tag string, rate int) *workload.Writer {
	t.Helper()
	w, err := workload.StartWriter(workload.WriterOptions{Seeds: c.Bootstrap(), Topic: topic, Tag: tag, File: t.TempDir() + "/acked", Rate: rate, Size: 200, Timed: true})
	require.NoError(t, err)
	return w
}

// stopped ends a writer that must not have failed, and gives what verify says of it and others before it.
func stopped(t *testing.T, c *harness.Cluster, topic string, w *workload.Writer, before ...string) verdict {
	t.Helper()
	require.NoError(t, w.Stop(60*time.Second))
	require.Empty(t, w.Errors())
	return verify(t, c, topic, append(before, w.File)...)
}

// events gives the metadata events of a kind.
func events(lines []logLine, kind string) (out []logLine) {
	for _, l := range lines {
		if l.Kind == kind {
			out = append(out, l)
		}
	}
	return out
}

// percentile is the value below which a share q of the sorted durations lies; 0 of none.
func percentile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func middle(ds []float64) float64 {
	ds = slices.Sorted(slices.Values(ds))
	return ds[len(ds)/2]
}
