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
// It looks at all topics, and only where the name has such a character.
func (i *Image) Colliding(name string) string {
	if !strings.ContainsAny(name, "._") {
		return ""
	}
	metric := MetricName(name)
	for t := range i.Topics() {
		if t.Name != name && len(t.Name) == len(name) && MetricName(t.Name) == metric {
			return t.Name
		}
	}
	return ""
}
