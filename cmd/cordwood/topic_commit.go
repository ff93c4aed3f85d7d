package main

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
)

// commitFlags are the flags that say when a topic's records are committed and acknowledged.
type commitFlags struct {
	acks, rule, durability, minAcks string
	force                           bool
}

func (o *commitFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.acks, "acks", "", "isr, quorum, leader or a number of replicas: short for --commit with --min-acks")
	f.StringVar(&o.rule, "commit", "", "When a record is committed: isr (every in-sync replica has it) or quorum (a majority has it)")
	f.StringVar(&o.durability, "durability", "", "Where a replica's copy counts: memory or disk")
	f.StringVar(&o.minAcks, "min-acks", "", "The weakest acknowledgement that the topic gives: 0, 1, a number of replicas, or all")
	f.BoolVar(&o.force, "force", false, "Take what is refused for good reason, such as the quorum rule with two replicas")
}

// settings gives the topic settings that the flags stand for.
func (o *commitFlags) settings() ([]keyValue, error) {
	rule, minAcks := o.rule, o.minAcks
	if o.acks != "" {
		var ok bool
		if rule, minAcks, ok = acksShorthand(o.acks); !ok {
			return nil, usage(fmt.Sprintf("--acks %s: write isr, quorum, leader or a number of replicas", o.acks))
		}
		if o.rule != "" && o.rule != rule || o.minAcks != "" && o.minAcks != minAcks {
			return nil, usage(fmt.Sprintf("--acks %s stands for --commit %s --min-acks %s and contradicts what else is given", o.acks, rule, minAcks))
		}
	}
	var out []keyValue
	for _, s := range []keyValue{{metadata.SettingCommitRule, rule}, {metadata.SettingCommitDurability, o.durability}, {metadata.SettingMinAcks, minAcks}} {
		if s.value != "" {
			out = append(out, s)
		}
	}
	return out, nil
}

// acksShorthand gives commit rule and weakest acknowledgement for one word.
func acksShorthand(word string) (rule, minAcks string, ok bool) {
	switch word {
	case "isr", "quorum":
		return word, metadata.MinAcksAll, true
	case "leader":
		return string(metadata.RuleISR), "1", true
	}
	n, err := strconv.ParseUint(word, 10, 15)
	return string(metadata.RuleISR), strconv.FormatUint(n, 10), err == nil && n > 0
}

// with joins the settings of -c with those of the flags; one that both name is a contradiction.
func (o *commitFlags) with(configs []string) ([]keyValue, error) {
	given, err := keyValues("-c", configs)
	if err != nil {
		return nil, err
	}
	own, err := o.settings()
	if err != nil {
		return nil, err
	}
	for _, s := range own {
		if slices.ContainsFunc(given, func(g keyValue) bool { return g.key == s.key }) {
			return nil, usage(fmt.Sprintf("-c %s=… and a flag that stands for it are both given", s.key))
		}
	}
	return slices.Concat(given, own), nil
}

// forced sets the private field that takes what is refused for good reason.
func (o *commitFlags) forced(tags *kmsg.Tags) {
	if o.force {
		tags.Set(metadata.TagForced, []byte{1})
	}
}

// commitView is what a topic's settings say about commits.
type commitView struct {
	Rule       string            `json:"commitRule,omitempty"`
	Durability string            `json:"commitDurability,omitempty"`
	MinAcks    string            `json:"minAcks,omitempty"`
	Recovery   string            `json:"recoveryPolicy,omitempty"`
	Promise    *metadata.Promise `json:"promise,omitempty"`
}

// commitOf reads the settings. A Kafka of another house has none of them, and nothing is promised for it.
func commitOf(configs map[string]string) commitView {
	return commitView{
		Rule: configs[metadata.SettingCommitRule], Durability: configs[metadata.SettingCommitDurability],
		MinAcks: configs[metadata.SettingMinAcks], Recovery: configs[metadata.SettingRecovery],
	}
}

// promise puts the settings in words, for a topic with these partitions. While rule or durability change, inForce says
// what holds.
func (v *commitView) promise(minISR, replicas int, inForce metadata.PartitionInfo, partitions []metadata.PromisePartition) {
	if v.Rule == "" || v.Durability == "" || v.MinAcks == "" || minISR < 1 || replicas < 1 {
		return
	}
	f := metadata.PromiseFacts{
		Rule: metadata.CommitRule(v.Rule), Durability: metadata.Durability(v.Durability), MinAcks: v.MinAcks, MinISR: int32(minISR),
		Replicas: replicas, Partitions: partitions,
	}
	if inForce.Rule != "" {
		f.Rule, f.Durability = inForce.Rule, inForce.Durability
	}
	p := metadata.PromiseOf(f)
	v.Promise = &p
}

// text is rule and durability for a table.
func (v *commitView) text() string {
	if v.Rule == "" {
		return "-"
	}
	return v.Rule + ", " + v.Durability
}
