package metadata

import (
	"fmt"
	"strings"
)

// MaxTopicName is the longest name of a topic, in characters: name, dash and partition number make a directory.
const MaxTopicName = 249

// MetadataTopic is the name under which clients ask for the state of the metadata log. No topic may have it.
const MetadataTopic = "__cluster_metadata"

// CheckTopicName says whether a topic may have this name: 1 to 249 letters, digits, dots, underscores and dashes, but
// neither "." nor "..". Its errors wrap ErrInvalidTopic.
func CheckTopicName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrInvalidTopic)
	case name == "." || name == "..":
		return fmt.Errorf("%w: it is %q", ErrInvalidTopic, name)
	case len(name) > MaxTopicName:
		return fmt.Errorf("%w: it has %d characters, the most is %d", ErrInvalidTopic, len(name), MaxTopicName)
	}
	for i := range len(name) {
		c := name[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
			return fmt.Errorf("%w: %q holds something else than letters, digits, dots, underscores and dashes", ErrInvalidTopic, name)
		}
	}
	return nil
}

// MetricName is the name with dots as underscores, as metrics show it. Two topics may not share it.
func MetricName(name string) string { return strings.ReplaceAll(name, ".", "_") }

// Colliding gives the topic whose name differs from this one only in dots and underscores, "" if there is none.
func (i *Image) Colliding(name string) string {
	if other, _ := i.metrics.Get(MetricName(name)); other != name {
		return other
	}
	return ""
}

// checkNewName judges the name of a topic that is to be made.
func (s *State) checkNewName(name string) error {
	if err := CheckTopicName(name); err != nil {
		return err
	}
	other := s.head.Colliding(name)
	switch {
	case name == MetadataTopic:
		return refuse(ErrInvalidRequest, "%s is the metadata log", name)
	case s.head.Topic(name) != nil:
		return refuse(ErrTopicExists, "%s", name)
	case other != "":
		return refuse(ErrInvalidTopic, "%s and the topic %s differ only in dots and underscores", name, other)
	}
	return nil
}

// InternalTopic says that a topic is the cluster's own: clients are told so, and tools leave it out of their lists.
func InternalTopic(name string) bool {
	return name == "__consumer_offsets" || name == "__transaction_state" || name == "__share_group_state"
}
