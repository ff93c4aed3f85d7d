package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
)

// historyView is what happened to a partition, as one node saw it.
type historyView struct {
	APIVersion string                  `json:"apiVersion"`
	Topic      string                  `json:"topic"`
	Partition  int32                   `json:"partition"`
	Entries    []metadata.HistoryEntry `json:"entries"` // oldest first
}

func (v *historyView) table(w io.Writer, _ bool) {
	fmt.Fprintln(w, "TIME\tEPOCH\tLEADER\tISR\tCHANGE")
	for _, e := range v.Entries {
		at := "before the node's start"
		if e.Time > 0 {
			at = time.UnixMilli(e.Time).Format("2006-01-02 15:04:05.000")
		}
		for i, c := range e.Changes {
			if i > 0 {
				fmt.Fprintf(w, "\t\t\t\t%s\n", c)
				continue
			}
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", at, e.LeaderEpoch, nodeName(e.Leader), ids(e.ISR), c)
		}
	}
}

func (v *historyView) names() []string { return []string{fmt.Sprintf("%s/%d", v.Topic, v.Partition)} }

func newPartitionHistory(a *app) *cobra.Command {
	return a.shaped(&cobra.Command{Use: "history TOPIC/PARTITION", Short: "Show what happened to a partition", Args: takes(1, 1, "a partition"),
		Long: "Show the newest changes of a partition's record: leaders, in-sync replicas, rules, moves. Each node keeps twenty of each\n" +
			"partition in memory; any one is asked.",
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, partition, err := partitionArg(args[0], false)
			if err != nil {
				return err
			}
			return a.show(cmd.Context(), &historyView{}, func(ctx context.Context) (v view, err error) {
				err = a.ask(ctx, func(ctx context.Context, c *client) error {
					h, err := c.history(ctx, topic, partition)
					if err == nil {
						v = h
					}
					return err
				})
				return v, err
			})
		}}, &historyView{})
}

func (c *client) history(ctx context.Context, topic string, partition int32) (*historyView, error) {
	known, err := c.topic(ctx, topic)
	if err != nil {
		return nil, err
	}
	if int(partition) >= len(known.Partitions) {
		return nil, &failure{code: exitNotFound, err: errNoPartition(topic, partition, len(known.Partitions)), kafka: "UNKNOWN_TOPIC_OR_PARTITION"}
	}
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	t := kmsg.NewDescribeTopicPartitionsRequestTopic()
	t.Topic = topic
	req.Topics, req.ResponsePartitionLimit = append(req.Topics, t), 1
	at := kmsg.NewDescribeTopicPartitionsRequestCursor()
	at.Topic, at.Partition = topic, partition
	req.Cursor = &at
	req.UnknownTags.Set(metadata.TagHistory, nil)
	resp, err := req.RequestWith(ctx, c.Client)
	if err != nil {
		return nil, err
	}
	v := &historyView{APIVersion: apiVersion, Topic: topic, Partition: partition, Entries: []metadata.HistoryEntry{}}
	told := false
	for _, t := range resp.Topics {
		if err := refused(topic, t.ErrorCode, nil); err != nil {
			return nil, err
		}
		for _, p := range t.Partitions {
			if p.Partition != partition {
				continue
			}
			if told, err = privateTag(&p.UnknownTags, metadata.TagHistory, &v.Entries); err != nil {
				return nil, err
			}
		}
	}
	if !told {
		return nil, &failure{code: exitOther, err: fmt.Errorf("the node keeps no history of %s/%d: it is no Cordwood, or an older one", topic, partition)}
	}
	return v, nil
}
