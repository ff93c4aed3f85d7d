package main

import (
	"context"
	"errors"
	"testing"
)

// TestATopicThatAnotherNodeJustMadeIsAskedForAgain: each node applies the metadata in its own time, and a script that
// creates a topic and writes to it asks another node each time.
func TestATopicThatAnotherNodeJustMadeIsAskedForAgain(t *testing.T) {
	asked := 0
	n, err := heard(t.Context(), func() (int, error) {
		if asked++; asked < 3 {
			return 0, noTopic("t")
		}
		return asked, nil
	})
	if n != 3 || err != nil {
		t.Errorf("asked %d times: %v", n, err)
	}
	var missing *failure
	if _, err = heard(t.Context(), func() (int, error) { return 0, noTopic("t") }); !errors.As(err, &missing) || missing.code != exitNotFound {
		t.Errorf("a topic that is nowhere: %v", err)
	}
	asked = 0
	_, err = heard(t.Context(), func() (int, error) { asked++; return 0, context.Canceled })
	if asked != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("another error was asked for %d times: %v", asked, err)
	}
}
