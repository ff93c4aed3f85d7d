package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
)

// electView is what became of an election.
type electView struct {
	APIVersion  string `json:"apiVersion"`
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	Leader      int32  `json:"leader"` // afterwards; -1: none yet
	LeaderEpoch int32  `json:"leaderEpoch"`
}

func (v *electView) table(w io.Writer, _ bool) {
	fmt.Fprintf(w, "PARTITION\tLEADER\tEPOCH\n%s/%d\t%s\t%d\n", v.Topic, v.Partition, nodeName(v.Leader), v.LeaderEpoch)
}

func (v *electView) names() []string { return []string{fmt.Sprintf("%s/%d", v.Topic, v.Partition)} }

// electOptions are the flags of partition elect.
type electOptions struct {
	topic      string
	partition  int32
	to         int32
	unclean    bool
	acceptLoss int64 // -1: nothing was typed ahead
}

func newPartitionElect(a *app) *cobra.Command {
	o := electOptions{to: metadata.NoNode, acceptLoss: -1}
	var to string
	cmd := &cobra.Command{Use: "elect TOPIC/PARTITION", Short: "Let the preferred replica lead, or another one", Args: takes(1, 1, "a partition"),
		Long: "Let the preferred replica lead, or with --to another one that is eligible.\n\n" +
			"--unclean elects though no replica is known to hold every acknowledged record. It says how many acknowledged records\n" +
			"will go, at least, and wants that number typed, or given ahead by --accept-loss. Not even then does a replica that\n" +
			"can be elected safely give way.",
		Example: "  cordwood partition elect orders/0 --to 2",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.topic, o.partition, err = partitionArg(args[0], false); err != nil {
				return err
			}
			if to != "" {
				if o.to, err = nodeID(to); err != nil {
					return err
				}
			}
			if cmd.Flags().Changed("accept-loss") && !o.unclean {
				return usage("--accept-loss belongs to --unclean")
			}
			return a.elect(cmd.Context(), &o)
		}}
	f := cmd.Flags()
	f.StringVar(&to, "to", "", "Node that shall lead (default: the preferred replica; with --unclean the most complete one)")
	f.BoolVar(&o.unclean, "unclean", false, "Elect though acknowledged records may be lost")
	f.Int64Var(&o.acceptLoss, "accept-loss", -1, "With --unclean: the number of acknowledged records that may go, typed ahead")
	return a.shaped(cmd, &electView{})
}

func (a *app) elect(ctx context.Context, o *electOptions) error {
	if o.unclean {
		if err := a.confirmLoss(ctx, o); err != nil {
			return err
		}
	}
	return a.show(ctx, &electView{}, func(ctx context.Context) (v view, err error) {
		err = a.ask(ctx, func(ctx context.Context, c *client) error {
			before, err := c.leaderOf(ctx, o)
			if err != nil {
				return err
			}
			if err := c.elect(ctx, o); err != nil {
				return err
			}
			now := before
			for deadline := time.Now().Add(seenWithin); err == nil && now.LeaderEpoch == before.LeaderEpoch && time.Now().Before(deadline) && ctx.Err() == nil; {
				now, err = c.leaderOf(ctx, o) // the node that is asked may hear of it a little later
			}
			v = now
			return err
		})
		return v, err
	})
}

func (c *client) leaderOf(ctx context.Context, o *electOptions) (*electView, error) {
	topics, err := c.describePartitions(ctx, []string{o.topic})
	if err != nil {
		return nil, err
	}
	if l := topics[0].Partitions; int(o.partition) >= len(l) {
		return nil, &failure{code: exitNotFound, err: errNoPartition(o.topic, o.partition, len(l)), kafka: "UNKNOWN_TOPIC_OR_PARTITION"}
	}
	p := &topics[0].Partitions[o.partition]
	return &electView{APIVersion: apiVersion, Topic: o.topic, Partition: o.partition, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch}, nil
}

// confirmLoss says what an unclean election would take, and wants the number typed.
func (a *app) confirmLoss(ctx context.Context, o *electOptions) error {
	var lost, end, hw int64
	var leader int32
	var silent []int32
	err := a.ask(ctx, func(ctx context.Context, c *client) error {
		s, err := c.safety(ctx, o.topic, o.partition, nil)
		if err != nil {
			return err
		}
		leader, end, hw = uncleanLeader(&s.Partitions[0], o.to)
		lost = max(0, hw-end)
		for _, r := range s.Partitions[0].Replicas {
			if r.LogEnd < 0 {
				silent = append(silent, r.ID)
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case leader == metadata.NoNode:
		return &failure{code: exitRefused, err: fmt.Errorf("%s/%d: no replica that could lead answers", o.topic, o.partition), kafka: "ELIGIBLE_LEADERS_NOT_AVAILABLE"}
	}
	said := fmt.Sprintf("%s/%d: node %d would lead with a log that ends at %d; at least %s that were acknowledged are lost for good",
		o.topic, o.partition, leader, end, count(int(lost), "record"))
	if len(silent) > 0 {
		said += fmt.Sprintf(", and whatever else only the replicas on nodes %s hold, which do not answer", ids(silent))
	}
	if o.acceptLoss >= 0 {
		if o.acceptLoss != lost {
			return &failure{code: exitRefused, err: fmt.Errorf("%s; --accept-loss says %d: nothing was done", said, o.acceptLoss)}
		}
		return nil
	}
	if !terminal(a.in) {
		return usage(said + "; type that number ahead with --accept-loss: nobody can be asked here")
	}
	fmt.Fprintf(a.err, "%s.\nType %d to go on: ", said, lost)
	answer := make(chan string, 1)
	go func() { // ends with the process: a read of a terminal cannot be broken off
		line, err := bufio.NewReader(a.in).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			line = ""
		}
		answer <- strings.TrimSpace(line)
	}()
	select {
	case s := <-answer:
		if s == strconv.FormatInt(lost, 10) {
			return nil
		}
		return &failure{code: exitUsage, err: errNotConfirmed}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// uncleanLeader gives who would lead after an unclean election, where its log ends, and how far records are known to be
// committed.
func uncleanLeader(v *safetyView, to int32) (leader int32, end, hw int64) {
	leader, end = metadata.NoNode, -1
	for _, c := range v.facts.Copies {
		wanted := to == metadata.NoNode || to == c.ID
		if wanted && c.Alive && c.End > end && slices.Contains(v.facts.Replicas, c.ID) {
			leader, end = c.ID, c.End
		}
	}
	return leader, end, max(0, v.HighWatermark)
}

func (c *client) elect(ctx context.Context, o *electOptions) error {
	req := kmsg.NewPtrElectLeadersRequest()
	req.TimeoutMillis = c.app.timeoutMillis()
	if o.unclean {
		req.ElectionType = 1
	}
	t := kmsg.NewElectLeadersRequestTopic()
	t.Topic, t.Partitions = o.topic, []int32{o.partition}
	req.Topics = append(req.Topics, t)
	if o.to != metadata.NoNode {
		req.UnknownTags.Set(metadata.TagElectReplica, metadata.EncodeNode(o.to))
	}
	resp, err := req.RequestWith(ctx, c.Client)
	if err != nil {
		return err
	}
	if err := refused("", resp.ErrorCode, nil); err != nil {
		return err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := refused(fmt.Sprintf("%s/%d", t.Topic, p.Partition), p.ErrorCode, p.ErrorMessage); err != nil {
				return err
			}
		}
	}
	return nil
}
