package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
)

func newPartitionCommand(a *app) *cobra.Command {
	return group("partition", "Move a partition, choose its leader, see what happened to it", []string{"partitions"},
		newPartitionMove(a), newPartitionElect(a), newPartitionHistory(a))
}

// moveView is where a partition is on its way to other replicas.
type moveView struct {
	APIVersion string         `json:"apiVersion"`
	Topic      string         `json:"topic"`
	Partition  int32          `json:"partition"`
	Status     string         `json:"status"`   // moving, done, cancelled, or unchanged
	Replicas   []int32        `json:"replicas"` // in force
	Target     []int32        `json:"target"`   // empty when nothing is under way
	Progress   []moveProgress `json:"progress"` // of the replicas that are being added
}

type moveProgress struct {
	ID     int32 `json:"id"`
	LogEnd int64 `json:"logEnd"` // -1 unknown
	Behind int64 `json:"behind"` // records behind the leader; -1 unknown
}

func (v *moveView) table(w io.Writer, _ bool) {
	fmt.Fprintln(w, "PARTITION\tSTATUS\tREPLICAS\tTARGET\tBEHIND")
	behind := "-"
	for i, p := range v.Progress {
		if i == 0 {
			behind = ""
		} else {
			behind += ", "
		}
		behind += fmt.Sprintf("%d: %s", p.ID, known(p.Behind))
	}
	fmt.Fprintf(w, "%s/%d\t%s\t%s\t%s\t%s\n", v.Topic, v.Partition, v.Status, ids(v.Replicas), ids(v.Target), behind)
}

func (v *moveView) names() []string { return []string{fmt.Sprintf("%s/%d", v.Topic, v.Partition)} }

// moveOptions are the flags of partition move.
type moveOptions struct {
	topic     string
	partition int32
	to        []int32
	cancel    bool
	wait      bool
	waitFor   time.Duration
	force     bool
}

func newPartitionMove(a *app) *cobra.Command {
	var o moveOptions
	var to string
	cmd := &cobra.Command{Use: "move TOPIC/PARTITION", Short: "Move a partition to other nodes, or take a move back", Args: takes(1, 1, "a partition"),
		Long: "Move a partition to other nodes. The new replicas are filled first and count for nothing meanwhile; the old ones leave\n" +
			"once the new ones are proven to hold everything. --cancel takes a move back at any step. Without --to and --cancel the\n" +
			"move that is under way is shown.",
		Example: "  cordwood partition move orders/0 --to 1,2,4 --wait\n  cordwood partition move orders/0 --cancel",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.topic, o.partition, err = partitionArg(args[0], false); err != nil {
				return err
			}
			if o.to, err = nodeList("--to", to); err != nil {
				return err
			}
			if o.cancel && len(o.to) > 0 {
				return usage("--cancel takes no --to: the replicas stay those that are in force")
			}
			return a.move(cmd.Context(), &o)
		}}
	f := cmd.Flags()
	f.StringVar(&to, "to", "", "Nodes that shall hold the partition, the preferred leader first, such as 1,2,4")
	f.BoolVar(&o.cancel, "cancel", false, "Take the move back that is under way")
	f.BoolVar(&o.wait, "wait", false, "Wait for the end of the move, and say how far it is")
	f.DurationVar(&o.waitFor, "wait-for", 10*time.Minute, "How long to wait")
	f.BoolVar(&o.force, "force", false, "Take what is refused for good reason: two replicas under the quorum rule")
	return a.shaped(cmd, &moveView{})
}

func (a *app) move(ctx context.Context, o *moveOptions) error {
	return a.show(ctx, &moveView{}, func(ctx context.Context) (v view, err error) {
		err = a.ask(ctx, func(ctx context.Context, c *client) error {
			if o.cancel || len(o.to) > 0 {
				if err := c.reassign(ctx, map[string]map[int32][]int32{o.topic: {o.partition: o.to}}, o.force); err != nil {
					return err
				}
			}
			m, err := c.movingSoon(ctx, o)
			if err == nil {
				v = m
			}
			return err
		})
		if err != nil || !o.wait || a.watch > 0 {
			return v, err
		}
		return a.waitForMove(ctx, o)
	})
}

// waitForMove looks until nothing is under way any more, and says every second how far it is.
func (a *app) waitForMove(ctx context.Context, o *moveOptions) (view, error) {
	ctx, cancel := context.WithTimeout(ctx, o.waitFor)
	defer cancel()
	c, err := a.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	told := time.Time{}
	for {
		v, err := c.movingSoon(ctx, o)
		switch {
		case err == nil && v.Status == "unchanged" && len(o.to) > 0:
			return v, &failure{code: exitRefused, err: fmt.Errorf("%s/%d did not move: its replicas are %s; somebody took the move back", o.topic, o.partition, ids(v.Replicas))}
		case err == nil && len(v.Target) == 0:
			return v, nil
		case err != nil:
			return nil, err
		}
		if time.Since(told) >= time.Second {
			told = time.Now()
			for _, p := range v.Progress {
				a.note("%s/%d: node %d is %s records behind", o.topic, o.partition, p.ID, known(p.Behind))
			}
		}
		select {
		case <-afterRetry():
		case <-ctx.Done():
			return v, &failure{code: exitUnreachable, err: fmt.Errorf("%s/%d is still on its way to %s after %s; the move goes on", o.topic, o.partition, ids(v.Target), o.waitFor)}
		}
	}
}

// reassign asks for moves, by topic and partition; no replicas cancel. Its error is that of the first that was refused.
func (c *client) reassign(ctx context.Context, moves map[string]map[int32][]int32, force bool) error {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis = c.app.timeoutMillis()
	for _, topic := range sortedKeys(moves) {
		t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		t.Topic = topic
		for _, n := range keysOf(moves[topic], nil) {
			p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
			if p.Partition = n; len(moves[topic][n]) > 0 {
				p.Replicas = moves[topic][n]
			}
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	if force {
		req.UnknownTags.Set(metadata.TagForced, []byte{1})
	}
	resp, err := req.RequestWith(ctx, c.Client)
	if err != nil {
		return err
	}
	if err := refused("", resp.ErrorCode, resp.ErrorMessage); err != nil {
		return err
	}
	var all []error
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := refused(fmt.Sprintf("%s/%d", t.Topic, p.Partition), p.ErrorCode, p.ErrorMessage); err != nil {
				all = append(all, err)
			}
		}
	}
	return errors.Join(all...)
}

// seenWithin is how long a change may take to reach the node that is asked, after another one has answered for it.
const seenWithin = 2 * time.Second

// movingSoon is moving, for a node that may not have heard yet of what was just asked: it looks again for a moment where
// nothing of it can be seen.
func (c *client) movingSoon(ctx context.Context, o *moveOptions) (*moveView, error) {
	for deadline := time.Now().Add(seenWithin); ; {
		v, err := c.moving(ctx, o)
		stale := err == nil && (v.Status == "unchanged" && len(o.to) > 0 || v.Status == "moving" && o.cancel)
		if !stale || time.Now().After(deadline) {
			return v, err
		}
		select {
		case <-afterRetry():
		case <-ctx.Done():
			return v, err
		}
	}
}

// moving tells where a partition is on its way.
func (c *client) moving(ctx context.Context, o *moveOptions) (*moveView, error) {
	topics, err := c.describePartitions(ctx, []string{o.topic})
	if err != nil {
		return nil, err
	}
	t := &topics[0]
	if int(o.partition) >= len(t.Partitions) {
		return nil, &failure{code: exitNotFound, err: errNoPartition(o.topic, o.partition, len(t.Partitions)), kafka: "UNKNOWN_TOPIC_OR_PARTITION"}
	}
	p := &t.Partitions[o.partition]
	v := &moveView{APIVersion: apiVersion, Topic: o.topic, Partition: o.partition, Status: "unchanged", Replicas: p.present(), Target: []int32{}, Progress: []moveProgress{}}
	switch {
	case p.Transition == changeReplicas:
		v.Status, v.Target = "moving", p.Target
	case o.cancel:
		v.Status = "cancelled"
	case len(o.to) > 0 && slices.Equal(p.Replicas, o.to):
		v.Status = "done"
	}
	if v.Status != "moving" || p.Leader < 0 {
		return v, nil
	}
	if _, err := c.logEnds(ctx, p.Leader, map[string][]*partitionView{o.topic: {p}}); err != nil {
		c.app.note("node %d does not say how far the replicas are: %s", p.Leader, describe(err))
	}
	end := func(id int32) int64 {
		if at, ok := p.LogEndOffsets[strconv.Itoa(int(id))]; ok {
			return at
		}
		return -1
	}
	for _, id := range v.Target {
		if slices.Contains(v.Replicas, id) {
			continue
		}
		m := moveProgress{ID: id, LogEnd: end(id), Behind: -1}
		if m.LogEnd >= 0 && end(p.Leader) >= 0 {
			m.Behind = max(0, end(p.Leader)-m.LogEnd)
		}
		v.Progress = append(v.Progress, m)
	}
	return v, nil
}
