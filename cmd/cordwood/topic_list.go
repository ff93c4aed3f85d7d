package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
)

// topicRow is one topic of topic list.
type topicRow struct {
	Name            string `json:"name"`
	ID              string `json:"id"`
	Partitions      int    `json:"partitions"`
	Replication     int    `json:"replication"`
	Internal        bool   `json:"internal"`
	UnderReplicated int    `json:"underReplicated"` // partitions
	Offline         int    `json:"offline"`         // partitions without a leader
}

type topicListView struct {
	APIVersion string     `json:"apiVersion"`
	Topics     []topicRow `json:"topics"`
}

func (v *topicListView) table(w io.Writer, wide bool) {
	fmt.Fprint(w, "TOPIC\tPARTITIONS\tREPLICAS\tUNDER-REPLICATED\tOFFLINE")
	if wide {
		fmt.Fprint(w, "\tINTERNAL\tID")
	}
	fmt.Fprintln(w)
	for _, t := range v.Topics {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d", t.Name, t.Partitions, t.Replication, t.UnderReplicated, t.Offline)
		if wide {
			fmt.Fprintf(w, "\t%t\t%s", t.Internal, t.ID)
		}
		fmt.Fprintln(w)
	}
}

func (v *topicListView) names() []string {
	var out []string
	for _, t := range v.Topics {
		out = append(out, t.Name)
	}
	return out
}

func newTopicList(a *app) *cobra.Command {
	var under, offline bool
	cmd := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List the topics", Args: takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.show(cmd.Context(), &topicListView{}, func(ctx context.Context) (v view, err error) {
				err = a.ask(ctx, func(ctx context.Context, c *client) error {
					topics, err := c.describePartitions(ctx, nil)
					if err == nil {
						v = listTopics(topics, func(r topicRow) bool { return (!under || r.UnderReplicated > 0) && (!offline || r.Offline > 0) })
					}
					return err
				})
				return v, err
			})
		}}
	cmd.Flags().BoolVar(&under, "under-replicated", false, "Only topics with a replica out of sync")
	cmd.Flags().BoolVar(&offline, "offline", false, "Only topics with a partition without a leader")
	return cmd
}

func listTopics(topics []topicView, keep func(topicRow) bool) *topicListView {
	v := &topicListView{APIVersion: apiVersion, Topics: []topicRow{}}
	for _, t := range topics {
		r := topicRow{Name: t.Name, ID: t.ID, Partitions: len(t.Partitions), Internal: t.internal}
		for _, p := range t.Partitions {
			r.Replication = max(r.Replication, len(p.present()))
			if p.underReplicated() {
				r.UnderReplicated++
			}
			if p.Leader < 0 {
				r.Offline++
			}
		}
		if keep(r) {
			v.Topics = append(v.Topics, r)
		}
	}
	return v
}

// completionTimeout bounds what a shell waits for names; without an answer it offers none.
const completionTimeout = 300 * time.Millisecond

// completeTopics offers topic names to a shell.
func (a *app) completeTopics(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	a.timeout, a.quiet = completionTimeout, true
	var names []string
	err := a.ask(cmd.Context(), func(ctx context.Context, c *client) error {
		meta, err := c.metadata(ctx, nil)
		if err != nil {
			return err
		}
		for _, t := range meta.Topics {
			if t.Topic != nil && !t.IsInternal {
				names = append(names, *t.Topic)
			}
		}
		return nil
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
