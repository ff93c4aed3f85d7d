package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
)

// topicDone is what became of one topic in a command that changes topics.
type topicDone struct {
	Name        string `json:"name"`
	ID          string `json:"id,omitempty"`
	Status      string `json:"status"` // created, valid, deleted, altered, added or failed
	Partitions  int32  `json:"partitions,omitempty"`
	Replication int16  `json:"replication,omitempty"`
	MinISR      int    `json:"minIsr,omitempty"`
	commitView
	Error   string `json:"error,omitempty"` // name of the Kafka error
	Message string `json:"message,omitempty"`

	err error
}

type topicsDoneView struct {
	APIVersion string      `json:"apiVersion"`
	Topics     []topicDone `json:"topics"`
}

func (v *topicsDoneView) table(w io.Writer, _ bool) {
	if !slices.ContainsFunc(v.Topics, func(t topicDone) bool { return t.Replication > 0 }) {
		fmt.Fprintln(w, "TOPIC\tSTATUS")
		for _, t := range v.Topics {
			fmt.Fprintf(w, "%s\t%s\n", t.Name, t.Status)
		}
		return
	}
	fmt.Fprintln(w, "TOPIC\tSTATUS\tCOMMIT\tPARTITIONS\tREPLICAS\tMIN ISR")
	for _, t := range v.Topics {
		if t.err != nil {
			fmt.Fprintf(w, "%s\t%s\t-\t-\t-\t-\n", t.Name, t.Status)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\n", t.Name, t.Status, t.text(), t.Partitions, t.Replication, minISRText(t))
	}
	for _, t := range v.Topics {
		if t.err == nil && t.Promise != nil {
			fmt.Fprintf(w, "%s: %s\n", t.Name, t.Promise.Sentence())
		}
	}
}

func minISRText(t topicDone) string {
	if t.MinISR == 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d", t.MinISR, t.Replication)
}

func (v *topicsDoneView) names() []string {
	var out []string
	for _, t := range v.Topics {
		if t.err == nil {
			out = append(out, t.Name)
		}
	}
	return out
}

// fail records an error for one topic.
func (t *topicDone) fail(err error, code int16) {
	t.err, t.Status, t.Message, t.Error = err, "failed", describe(err), errorName(code)
}

// result is the view with the error that its failures amount to: partial success, or the error of the only topic.
func (a *app) result(v *topicsDoneView) (view, error) {
	var failed []error
	for _, t := range v.Topics {
		if t.err != nil {
			failed = append(failed, t.err)
		}
	}
	switch {
	case len(failed) == 0:
		return v, nil
	case len(v.Topics) == 1 && a.output != "json" && a.output != "yaml":
		return nil, failed[0]
	case len(failed) == len(v.Topics):
		return v, failed[0]
	}
	return v, &failure{code: exitPartial, err: fmt.Errorf("%d of %s failed: %w", len(failed), count(len(v.Topics), "topic"), errors.Join(failed...))}
}

func newTopicCommand(a *app) *cobra.Command {
	return group("topic", "Create, look at, change and delete topics", []string{"topics"},
		newTopicCreate(a), newTopicList(a), newTopicDescribe(a), newTopicSafety(a), newTopicLatency(a), newTopicAlter(a), newTopicDelete(a), newAddPartitions(a))
}

func newTopicCreate(a *app) *cobra.Command {
	var partitions int32
	var replication int16
	var configs []string
	var commit commitFlags
	var dryRun bool
	cmd := a.shaped(&cobra.Command{Use: "create NAME...", Short: "Create topics", Args: takes(1, -1, "one or more topic names"),
		Example: "  cordwood topic create orders -p 3 -r 3 --acks quorum -c retention.ms=86400000",
		RunE: func(cmd *cobra.Command, args []string) error {
			settings, err := commit.with(configs)
			if err != nil {
				return err
			}
			req := kmsg.NewPtrCreateTopicsRequest()
			req.TimeoutMillis, req.ValidateOnly = a.timeoutMillis(), dryRun
			for _, name := range args {
				t := kmsg.NewCreateTopicsRequestTopic()
				t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, replication
				for _, s := range settings {
					c := kmsg.NewCreateTopicsRequestTopicConfig()
					c.Name, c.Value = s.key, kmsg.StringPtr(s.value)
					t.Configs = append(t.Configs, c)
				}
				commit.forced(&t.UnknownTags)
				req.Topics = append(req.Topics, t)
			}
			return a.changeTopics(cmd.Context(), func(ctx context.Context, c *client) (*topicsDoneView, error) { return c.createTopics(ctx, req) })
		}}, &topicsDoneView{})
	f := cmd.Flags()
	f.Int32VarP(&partitions, "partitions", "p", -1, "Number of partitions (default: the cluster's topics.partitions)")
	f.Int16VarP(&replication, "replication", "r", -1, "Replicas of each partition (default: the cluster's topics.replication)")
	f.StringArrayVarP(&configs, "config", "c", nil, "Setting of the topic, key=value; may be repeated")
	commit.register(cmd)
	f.BoolVar(&dryRun, "dry-run", false, "Only check")
	return cmd
}

// changeTopics runs a command that changes topics and prints what became of each.
func (a *app) changeTopics(ctx context.Context, fn func(context.Context, *client) (*topicsDoneView, error)) error {
	return a.show(ctx, &topicsDoneView{}, func(ctx context.Context) (v view, err error) {
		err = a.ask(ctx, func(ctx context.Context, c *client) error {
			done, err := fn(ctx, c)
			if err != nil {
				return err
			}
			v, err = a.result(done)
			return err
		})
		return v, err
	})
}

func (c *client) createTopics(ctx context.Context, req *kmsg.CreateTopicsRequest) (*topicsDoneView, error) {
	resp, err := req.RequestWith(ctx, c.Client)
	if err != nil {
		return nil, err
	}
	v := &topicsDoneView{APIVersion: apiVersion, Topics: []topicDone{}}
	for _, t := range resp.Topics {
		d := topicDone{Name: t.Topic, Status: "created", Partitions: max(t.NumPartitions, 0), Replication: max(t.ReplicationFactor, 0)}
		if req.ValidateOnly {
			d.Status = "valid"
		}
		if t.TopicID != [16]byte{} {
			d.ID = topicID(t.TopicID)
		}
		settings := map[string]string{}
		for _, cfg := range t.Configs {
			if cfg.Value != nil {
				settings[cfg.Name] = *cfg.Value
			}
		}
		d.MinISR, _ = strconv.Atoi(settings[metadata.SettingMinISR]) // a node's own number
		d.commitView = commitOf(settings)
		d.promise(d.MinISR, int(d.Replication), metadata.PartitionInfo{}, nil)
		if t.ErrorCode == 0 && d.Replication == 1 && d.Durability == string(metadata.DurabilityMemory) {
			c.app.note("hint:  %s has one replica in memory: a loss of power is answered by an election that is flagged as unsafe; --durability disk keeps what was acknowledged", d.Name)
		}
		if err := refused(t.Topic, t.ErrorCode, t.ErrorMessage); err != nil {
			d.fail(err, t.ErrorCode)
		}
		v.Topics = append(v.Topics, d)
	}
	return v, nil
}

type keyValue struct{ key, value string }

// keyValues reads key=value arguments.
func keyValues(flag string, args []string) ([]keyValue, error) {
	var out []keyValue
	for _, s := range args {
		k, v, ok := strings.Cut(s, "=")
		if !ok || k == "" {
			return nil, usage(fmt.Sprintf("%s %s: write key=value", flag, s))
		}
		out = append(out, keyValue{k, v})
	}
	return out, nil
}

func newTopicAlter(a *app) *cobra.Command {
	var sets, deletes []string
	var commit commitFlags
	var dryRun bool
	var replication int
	cmd := a.shaped(&cobra.Command{Use: "alter NAME...", Short: "Change settings of topics", Args: takes(1, -1, "one or more topic names"),
		ValidArgsFunction: a.completeTopics,
		Example:           "  cordwood topic alter orders --acks quorum\n  cordwood topic alter orders -c retention.ms=3600000 --delete-config segment.bytes",
		RunE: func(cmd *cobra.Command, args []string) error {
			settings, err := commit.with(sets)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("replication") {
				if len(settings)+len(deletes) > 0 || dryRun {
					return usage("--replication moves partitions and stands alone: change settings in a command of their own")
				}
				return a.changeTopics(cmd.Context(), func(ctx context.Context, c *client) (*topicsDoneView, error) {
					return c.resizeTopics(ctx, args, replication, commit.force)
				})
			}
			if len(settings)+len(deletes) == 0 {
				return usage("say what to change: --acks, --commit, --durability, --min-acks, --replication, -c key=value or --delete-config key")
			}
			req := kmsg.NewPtrIncrementalAlterConfigsRequest()
			req.ValidateOnly = dryRun
			for _, name := range args {
				r := kmsg.NewIncrementalAlterConfigsRequestResource()
				r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, name
				for _, s := range settings {
					c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
					c.Name, c.Op, c.Value = s.key, kmsg.IncrementalAlterConfigOpSet, kmsg.StringPtr(s.value)
					r.Configs = append(r.Configs, c)
				}
				for _, k := range deletes {
					c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
					c.Name, c.Op = k, kmsg.IncrementalAlterConfigOpDelete
					r.Configs = append(r.Configs, c)
				}
				commit.forced(&r.UnknownTags)
				req.Resources = append(req.Resources, r)
			}
			return a.changeTopics(cmd.Context(), func(ctx context.Context, c *client) (*topicsDoneView, error) { return c.alterTopics(ctx, req) })
		}}, &topicsDoneView{})
	f := cmd.Flags()
	f.StringArrayVarP(&sets, "config", "c", nil, "Setting, key=value; may be repeated")
	commit.register(cmd)
	f.IntVarP(&replication, "replication", "r", 0, "Replicas of each partition: begins to move them, with as few copies as that takes")
	f.StringArrayVar(&deletes, "delete-config", nil, "Setting to give back to its default; may be repeated")
	f.BoolVar(&dryRun, "dry-run", false, "Only check")
	return cmd
}

func (c *client) alterTopics(ctx context.Context, req *kmsg.IncrementalAlterConfigsRequest) (*topicsDoneView, error) {
	v := &topicsDoneView{APIVersion: apiVersion, Topics: []topicDone{}}
	resp, err := req.RequestWith(ctx, c.Client)
	if err != nil {
		return nil, err
	}
	for _, r := range resp.Resources {
		d := topicDone{Name: r.ResourceName, Status: "altered"}
		if req.ValidateOnly {
			d.Status = "valid"
		}
		if err := refused(r.ResourceName, r.ErrorCode, r.ErrorMessage); err != nil {
			d.fail(err, r.ErrorCode)
		}
		v.Topics = append(v.Topics, d)
	}
	return v, nil
}

func newTopicDelete(a *app) *cobra.Command {
	var yes bool
	cmd := a.shaped(&cobra.Command{Use: "delete NAME...", Aliases: []string{"rm"}, Short: "Delete topics and their records", Args: takes(1, -1, "one or more topic names"),
		ValidArgsFunction: a.completeTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.confirm(cmd.Context(), yes, "deleting "+strings.Join(args, ", ")); err != nil {
				return err
			}
			return a.changeTopics(cmd.Context(), func(ctx context.Context, c *client) (*topicsDoneView, error) {
				return c.deleteTopics(ctx, args)
			})
		}}, &topicsDoneView{})
	cmd.Flags().BoolVar(&yes, "yes", false, "Do not ask")
	return cmd
}

func (c *client) deleteTopics(ctx context.Context, names []string) (*topicsDoneView, error) {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis, req.TopicNames = c.app.timeoutMillis(), names
	for _, n := range names {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = kmsg.StringPtr(n)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, c.Client)
	if err != nil {
		return nil, err
	}
	v := &topicsDoneView{APIVersion: apiVersion, Topics: []topicDone{}}
	for _, t := range resp.Topics {
		d := topicDone{Status: "deleted"}
		if t.Topic != nil {
			d.Name = *t.Topic
		}
		if t.TopicID != [16]byte{} {
			d.ID = topicID(t.TopicID)
		}
		if err := refused(d.Name, t.ErrorCode, t.ErrorMessage); err != nil {
			d.fail(err, t.ErrorCode)
		}
		v.Topics = append(v.Topics, d)
	}
	return v, nil
}

func newAddPartitions(a *app) *cobra.Command {
	var total int32
	var dryRun bool
	cmd := a.shaped(&cobra.Command{Use: "add-partitions NAME...", Short: "Raise the number of partitions", Args: takes(1, -1, "one or more topic names"),
		ValidArgsFunction: a.completeTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			if total <= 0 {
				return usage("say how many partitions there shall be: --to N")
			}
			req := kmsg.NewPtrCreatePartitionsRequest()
			req.TimeoutMillis, req.ValidateOnly = a.timeoutMillis(), dryRun
			for _, n := range args {
				t := kmsg.NewCreatePartitionsRequestTopic()
				t.Topic, t.Count = n, total
				req.Topics = append(req.Topics, t)
			}
			return a.changeTopics(cmd.Context(), func(ctx context.Context, c *client) (*topicsDoneView, error) { return c.addPartitions(ctx, req) })
		}}, &topicsDoneView{})
	cmd.Flags().Int32Var(&total, "to", 0, "Number of partitions afterwards")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "Only check")
	return cmd
}

func (c *client) addPartitions(ctx context.Context, req *kmsg.CreatePartitionsRequest) (*topicsDoneView, error) {
	resp, err := req.RequestWith(ctx, c.Client)
	if err != nil {
		return nil, err
	}
	v := &topicsDoneView{APIVersion: apiVersion, Topics: []topicDone{}}
	for _, t := range resp.Topics {
		d := topicDone{Name: t.Topic, Status: "added", Partitions: req.Topics[0].Count}
		if req.ValidateOnly {
			d.Status = "valid"
		}
		if err := refused(t.Topic, t.ErrorCode, t.ErrorMessage); err != nil {
			d.fail(err, t.ErrorCode)
		}
		v.Topics = append(v.Topics, d)
	}
	return v, nil
}
