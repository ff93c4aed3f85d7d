package api

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
)

// Settings of topics that live in the partition records: clients set them like others, and are told what the records say.

// minAcksHolds refuses a weakest acknowledgement that the replicas can never give.
func minAcksHolds(minAcks string, replicas int) error {
	n, _ := metadata.ParseAcks(minAcks)
	if int(n) <= replicas {
		return nil
	}
	return fmt.Errorf("%w: %s of %d cannot hold with %d replicas: no record would ever be acknowledged",
		metadata.ErrInvalidConfig, metadata.SettingMinAcks, n, replicas)
}

// twoReplicasForced refuses the quorum rule with two replicas, unless it is forced.
func twoReplicasForced(rule metadata.CommitRule, replicas int, forced bool) error {
	if forced || replicas != 2 || rule.Target() != metadata.RuleQuorum {
		return nil
	}
	return fmt.Errorf("%w: %s=%s with 2 replicas: a majority of 2 is both, so that one node down stops the topic, and nothing more is kept than with %s; use 3 replicas, or force it",
		metadata.ErrInvalidConfig, metadata.SettingCommitRule, metadata.RuleQuorum, metadata.RuleISR)
}

// isForced reads the private field by which the command line forces what is refused for good reason.
func isForced(tags *kmsg.Tags) bool {
	forced := false
	tags.Each(func(key uint32, body []byte) {
		forced = forced || key == metadata.TagForced && len(body) == 1 && body[0] == 1
	})
	return forced
}

// recordSettings gives the settings of a topic with those that its partition records hold: what a change that is under
// way leads to, and what of it differs from the built-in default.
func recordSettings(t *metadata.Topic) map[string]string {
	if len(t.Partitions) == 0 {
		return t.Configs
	}
	p := t.Partitions[0]
	own := make(map[string]string, len(t.Configs)+3)
	for name, value := range t.Configs {
		own[name] = value
	}
	for name, value := range map[string]string{
		metadata.SettingCommitRule:       string(p.Rule.Target()),
		metadata.SettingCommitDurability: string(p.Durability.Target()),
		metadata.SettingRecovery:         string(p.Recovery),
	} {
		s, _ := metadata.LookupSetting(name)
		if _, set := own[name]; set || value != s.Default {
			own[name] = value
		}
	}
	return own
}

// createdWith takes a setting of a new topic that lives in its partition records.
func createdWith(n *metadata.NewTopic, name, value string) {
	switch name {
	case metadata.SettingMinISR:
		n.MinISR = settingInt32(value)
	case metadata.SettingRecovery:
		n.Recovery = metadata.RecoveryPolicy(value)
	case metadata.SettingCommitRule:
		n.Rule = metadata.CommitRule(value)
	case metadata.SettingCommitDurability:
		n.Durability = metadata.Durability(value)
	}
}

// newTopicHolds judges what the settings of a new topic ask of its replicas.
func newTopicHolds(n *metadata.NewTopic, replicas int) error {
	if n.MinISR > 0 {
		if err := minISRHolds(n.MinISR, replicas); err != nil {
			return err
		}
	}
	if raw, set := n.Configs[metadata.SettingMinAcks]; set {
		value, err := metadata.AcceptSetting(metadata.SettingMinAcks, raw)
		if err != nil {
			return err
		}
		if err := minAcksHolds(value, replicas); err != nil {
			return err
		}
	}
	n.Forced = n.Forced && n.Rule == metadata.RuleQuorum && replicas == 2
	return twoReplicasForced(n.Rule, replicas, n.Forced)
}

// alterRecords carries the settings that live in the partition records over to the change.
func (h *Handlers) alterRecords(t *metadata.Topic, change *metadata.TopicConfigChange, forced bool) error {
	defaults := h.Node.TopicDefaults.Settings.Effective(nil)
	replicas := fewestReplicas(t)
	for _, name := range change.Remove {
		switch name {
		case metadata.SettingMinISR:
			change.MinISR = h.Node.TopicDefaults.Settings.MinISRFor(replicas)
		case metadata.SettingRecovery:
			change.Recovery = defaults.Recovery
		case metadata.SettingCommitRule:
			change.Rule = defaults.Rule
		case metadata.SettingCommitDurability:
			change.Durability = defaults.Durability
		}
	}
	for name, raw := range change.Set {
		value, err := metadata.AcceptSetting(name, raw)
		if err != nil {
			return err
		}
		switch name {
		case metadata.SettingMinISR:
			change.MinISR = settingInt32(value)
			err = minISRHolds(change.MinISR, replicas)
		case metadata.SettingMinAcks:
			err = minAcksHolds(value, replicas)
		case metadata.SettingRecovery:
			change.Recovery = metadata.RecoveryPolicy(value)
		case metadata.SettingCommitRule:
			change.Rule = metadata.CommitRule(value)
			err = twoReplicasForced(change.Rule, replicas, forced)
		case metadata.SettingCommitDurability:
			change.Durability = metadata.Durability(value)
		}
		if err != nil {
			return err
		}
	}
	leaveOutInForce(t, change)
	change.Forced = forced && change.Rule == metadata.RuleQuorum
	return oneChange(t, change)
}

// leaveOutInForce drops from a change what every partition has already. It asks for nothing, and nodes of the first
// metadata level could not read it.
func leaveOutInForce(t *metadata.Topic, change *metadata.TopicConfigChange) {
	if !slices.ContainsFunc(t.Partitions, func(p *metadata.Partition) bool { return p.Rule != change.Rule }) {
		change.Rule = ""
	}
	if !slices.ContainsFunc(t.Partitions, func(p *metadata.Partition) bool { return p.Durability != change.Durability }) {
		change.Durability = ""
	}
}

// oneChange refuses a second change of rule or durability before anything is proposed, so that a request which only
// validates is told too. The state machine judges again.
func oneChange(t *metadata.Topic, change *metadata.TopicConfigChange) error {
	p := t.Partitions[0]
	rule := change.Rule != "" && change.Rule != p.Rule.Target()
	durability := change.Durability != "" && change.Durability != p.Durability.Target()
	if rule && durability {
		return refuse(kerr.InvalidRequest, "%s and %s are changed one after the other: a change is proven before the next begins",
			metadata.SettingCommitRule, metadata.SettingCommitDurability)
	}
	return nil
}

// fewestReplicas is the replication factor of a topic; while replicas are being changed, of the partition that has fewest.
func fewestReplicas(t *metadata.Topic) int {
	n := len(t.Partitions[0].Replicas)
	for _, p := range t.Partitions {
		n = min(n, len(p.Replicas))
		if target := targetOf(p); len(target) > 0 {
			n = min(n, len(target))
		}
	}
	return n
}

// targetOf gives the replicas that a partition is on its way to, nil where its replicas are not being changed.
func targetOf(p *metadata.Partition) []int32 {
	if len(p.NewReplicas) > 0 {
		return p.NewReplicas
	}
	return p.Adding
}

// shownReplicas gives the replicas of a partition as clients are told: those that are being added too, at the end.
func shownReplicas(p *metadata.Partition) []int32 {
	l := p.Replicas
	for _, id := range targetOf(p) {
		if !slices.Contains(l, id) {
			l = append(slices.Clip(l), id)
		}
	}
	return l
}
