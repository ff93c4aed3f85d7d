package workload

import (
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// produceKey is the number of produce requests.
const produceKey = 0

// writes counts the produce requests that a client wrote since the last reset. A client that is told to try once still writes
// a record again where its partition has moved to another leader under way.
type writes struct{ n atomic.Int64 }

var _ kgo.HookBrokerWrite = (*writes)(nil)

// OnBrokerWrite implements kgo.HookBrokerWrite.
func (w *writes) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, bytes int, _, _ time.Duration, _ error) {
	if key == produceKey && bytes > 0 {
		w.n.Add(1)
	}
}

func (w *writes) reset()      { w.n.Store(0) }
func (w *writes) again() bool { return w.n.Load() > 1 }
