package workload

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestOnlyProduceRequestsThatWentOutCount(t *testing.T) {
	var w writes
	for _, x := range []struct {
		key   int16
		bytes int
		again bool
	}{{produceKey, 100, false}, {produceKey, 0, false}, {3, 100, false}, {produceKey, 100, true}} {
		w.OnBrokerWrite(kgo.BrokerMetadata{}, x.key, x.bytes, 0, 0, nil)
		if w.again() != x.again {
			t.Errorf("after %+v: %v", x, w.again())
		}
	}
	if w.reset(); w.again() {
		t.Error("after a reset")
	}
}
