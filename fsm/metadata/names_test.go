package metadata

import (
	"errors"
	"strings"
	"testing"
)

func TestTopicNamesCannotLeadOutOfTheDataDirectory(t *testing.T) {
	for name, ok := range map[string]bool{
		"orders": true, "a.b": true, "a_b": true, "-x": true, "...": true, "CON": true, strings.Repeat("n", 249): true,
		"": false, ".": false, "..": false, "a/b": false, "../x": false, "a b": false, "tøpic": false, "a\n": false,
		"a\x00": false, strings.Repeat("n", 250): false,
	} {
		if err := CheckTopicName(name); ok != (err == nil) || err != nil && !errors.Is(err, ErrInvalidTopic) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
