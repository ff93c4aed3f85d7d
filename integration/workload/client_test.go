package workload

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"cordwood/integration/history"
)

func TestOnlyWhatABrokerRefusesBeforeItAppendsIsCertainlyNotThere(t *testing.T) {
	for _, x := range []struct {
		err  error
		sure bool
	}{
		{nil, false}, {kerr.NotEnoughReplicas, true}, {fmt.Errorf("torture-all/0: %w", kerr.MessageTooLarge), true}, {kerr.InvalidRequiredAcks, true},
		{kerr.NotEnoughReplicasAfterAppend, false}, {kerr.NotLeaderForPartition, false}, {kerr.RequestTimedOut, false}, {errors.New("connection reset"), false},
	} {
		if refusedBefore(x.err) != x.sure {
			t.Errorf("%v: %v", x.err, !x.sure)
		}
	}
}

func TestEachLibraryHasBothKindsOfProducers(t *testing.T) {
	a, b := franz{}, other{}
	r := &Run{libraries: []library{a, b}, opt: RunOptions{Header: &history.Header{}}}
	seen := map[string]int{}
	for slot := range 8 {
		p := r.newProcess(slot, nil)
		seen[fmt.Sprintf("%s %v", p.library.name(), p.safe)]++
	}
	for _, kind := range []string{"franz true", "franz false", "other true", "other false"} {
		if seen[kind] != 2 {
			t.Errorf("%v", seen)
		}
	}
}

type other struct{ library }

func (other) name() string { return "other" }

func TestALibraryIsKnownByItsNameOnly(t *testing.T) {
	for name, want := range map[string]error{"": nil, Franz: nil, "Franz": ErrNoLibrary, "sarama": ErrNoLibrary} {
		if err := CheckClient(name); !errors.Is(err, want) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
