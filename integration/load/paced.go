package load

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Paced writes n records at a rate, whether or not those before are acknowledged, and returns how long each took, sorted:
// counted from when it was due, so that a writer that is held up does not look fast. Any record that is not acknowledged
// is an error.
func Paced(ctx context.Context, t Target, perSecond float64, n int) ([]time.Duration, error) {
	c, err := t.client(kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := warm(ctx, c); err != nil {
		return nil, err
	}
	var (
		mu     sync.Mutex // guards took and failed
		took   = make([]time.Duration, 0, n)
		failed error
		v      = value()
		start  = time.Now()
		timer  = time.NewTimer(0)
	)
	defer timer.Stop()
	<-timer.C
	for i := range n {
		due := start.Add(time.Duration(float64(i) / perSecond * float64(time.Second)))
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		c.Produce(ctx, &kgo.Record{Value: v}, func(_ *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
				return
			}
			took = append(took, time.Since(due))
		})
	}
	if err := c.Flush(ctx); err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	if failed != nil {
		return nil, fmt.Errorf("produce to %s: %w", t.Topic, failed)
	}
	slices.Sort(took)
	return took, nil
}
