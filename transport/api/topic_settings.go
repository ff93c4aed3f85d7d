package api

import (
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
)

// describedSetting is one setting of a topic as clients are told: what is in force, whence it comes and what stands
// behind it.
type describedSetting struct {
	value    string
	source   kmsg.ConfigSource
	synonyms []synonym // the value in force first
}

type synonym struct {
	name, value string
	source      kmsg.ConfigSource
}

// describeSetting tells what is in force for a topic with these settings of its own. minISR is what
// min.insync.replicas is where the topic does not set it.
func (h *Handlers) describeSetting(s *metadata.Setting, own map[string]string, minISR int32) describedSetting {
	var l []synonym
	if raw, ok := own[s.Name]; ok {
		value, err := s.Parse(raw)
		if err != nil {
			value = raw
		}
		l = append(l, synonym{s.Name, value, kmsg.ConfigSourceDynamicTopicConfig})
	}
	l = append(l, h.clusterSetting(s, minISR)...)
	d := describedSetting{value: s.Default, source: kmsg.ConfigSourceDefaultConfig, synonyms: l}
	if len(l) > 0 {
		d.value, d.source = l[0].value, l[0].source
	}
	return d
}

// clusterSetting tells what stands behind a topic's own value: the cluster's default, then the built-in one.
// min.insync.replicas follows from the number of replicas where the configuration names none, and counts as a default
// of all brokers, so that clients do not take it for a setting of the topic.
func (h *Handlers) clusterSetting(s *metadata.Setting, minISR int32) []synonym {
	var l []synonym
	name := s.Broker
	if name == "" {
		name = s.Name
	}
	if value, ok := h.Node.TopicDefaults.Settings.Override(s.Name); ok {
		l = append(l, synonym{name, value, kmsg.ConfigSourceStaticBrokerConfig})
	} else if s.Name == metadata.SettingMinISR {
		l = append(l, synonym{name, strconv.Itoa(int(minISR)), kmsg.ConfigSourceDynamicDefaultBrokerConfig})
	}
	if s.Broker != "" && !s.Unset {
		l = append(l, synonym{name, s.Default, kmsg.ConfigSourceDefaultConfig})
	}
	return l
}

// minISRHolds refuses a minimum that the replicas can never meet.
func minISRHolds(minISR int32, replicas int) error {
	if int(minISR) <= replicas {
		return nil
	}
	return fmt.Errorf("%w: %s of %d cannot hold with %d replicas: acks=all would always be refused",
		metadata.ErrInvalidConfig, metadata.SettingMinISR, minISR, replicas)
}

// settingInt32 reads the canonical value of a setting of type int.
func settingInt32(canonical string) int32 {
	n, _ := strconv.ParseInt(canonical, 10, 32)
	return int32(n)
}
