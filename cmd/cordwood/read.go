package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	readAtOnce    = 10_000 // records of one poll
	readMaxWait   = 500 * time.Millisecond
	readBytes     = 16 << 20
	readPartBytes = 1 << 20
	readIdle      = time.Second // without records, after which the ends are looked at again
	fetchesAtOnce = 4
)

// logReader reads partitions from given offsets, up to given ends or for ever.
type logReader struct {
	topic string
	from  map[int32]int64
	ends  map[int32]int64 // nil: for ever. Exclusive

	position map[int32]int64
	progress time.Time // of the last record
}

// readLog calls each for every record, control records too, in the order of offsets within a partition, until each says
// false or all ends are reached. A partition is at its end when the record before it has been read, when the log start
// has passed it, or when for --timeout the log has stayed shorter than it (its tail is gone: said on standard error).
func (a *app) readLog(ctx context.Context, c *client, l *logReader, each func(*kgo.Record) (bool, error)) error {
	l.position, l.progress = map[int32]int64{}, time.Now()
	start := map[int32]kgo.Offset{}
	for p, at := range l.from {
		l.position[p] = at
		if l.ends == nil || at < l.ends[p] {
			start[p] = kgo.NewOffset().At(at)
		}
	}
	if len(start) == 0 {
		return nil
	}
	r, err := a.connect(ctx,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{l.topic: start}),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), // of a partition whose log start passed us
		kgo.KeepControlRecords(),
		kgo.FetchMaxWait(readMaxWait), kgo.FetchMaxBytes(readBytes), kgo.FetchMaxPartitionBytes(readPartBytes), kgo.MaxConcurrentFetches(fetchesAtOnce),
	)
	if err != nil {
		return err
	}
	defer r.Close()
	left := len(start)
	for left > 0 {
		idle, cancel := context.WithTimeout(ctx, readIdle)
		fetches := r.PollRecords(idle, readAtOnce)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := a.fetchError(fetches); err != nil {
			return err
		}
		ended, more, err := l.take(fetches, each)
		if err != nil || !more {
			return err
		}
		if l.ends != nil && time.Since(l.progress) >= readIdle {
			gone, err := a.reachedEnds(ctx, c, l)
			if err != nil {
				return err
			}
			ended = append(ended, gone...)
		}
		if left -= len(ended); len(ended) > 0 {
			r.PauseFetchPartitions(map[string][]int32{l.topic: ended})
		}
	}
	return nil
}

// fetchError gives the first error that reading on cannot mend. That a log has become shorter is only said.
func (a *app) fetchError(fetches kgo.Fetches) (first error) {
	fetches.EachError(func(topic string, p int32, err error) {
		var shorter *kgo.ErrDataLoss
		switch {
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		case errors.As(err, &shorter):
			a.note("%s/%d: records from offset %d on are gone: %v", topic, p, shorter.ResetTo, err)
		case first == nil:
			first = fmt.Errorf("%s/%d: %w", topic, p, err)
		}
	})
	return first
}

// take hands out the records of one poll. It gives the partitions that came to their end.
func (l *logReader) take(fetches kgo.Fetches, each func(*kgo.Record) (bool, error)) (ended []int32, more bool, err error) {
	for it := fetches.RecordIter(); !it.Done(); {
		r := it.Next()
		l.progress = time.Now()
		if l.over(r.Partition) {
			continue
		}
		if l.ends != nil && r.Offset >= l.ends[r.Partition] {
			l.position[r.Partition] = l.ends[r.Partition]
			ended = append(ended, r.Partition)
			continue
		}
		l.position[r.Partition] = r.Offset + 1
		if more, err := each(r); err != nil || !more {
			return ended, false, err
		}
		if l.over(r.Partition) {
			ended = append(ended, r.Partition)
		}
	}
	return ended, true, nil
}

// over says that a partition has been read to its end.
func (l *logReader) over(p int32) bool { return l.ends != nil && l.position[p] >= l.ends[p] }

// reachedEnds looks why nothing comes any more, and ends the partitions whose last records are no longer there.
func (a *app) reachedEnds(ctx context.Context, c *client, l *logReader) (ended []int32, err error) {
	var open []int32
	for p := range l.from {
		if !l.over(p) {
			open = append(open, p)
		}
	}
	starts, err := c.allOffsets(ctx, l.topic, open, -2)
	if err != nil {
		return nil, err
	}
	now, err := c.allOffsets(ctx, l.topic, open, -1)
	if err != nil {
		return nil, err
	}
	stuck := time.Since(l.progress) >= a.timeout
	for _, p := range open {
		switch {
		case starts[p] >= l.ends[p], stuck && now[p] <= l.position[p]:
			if starts[p] < l.ends[p] {
				a.note("%s/%d ends at %d now, and ended at %d before", l.topic, p, now[p], l.ends[p])
			}
			l.position[p] = l.ends[p]
			ended = append(ended, p)
		case stuck:
			return ended, &failure{code: exitUnreachable, err: fmt.Errorf("%s/%d: no records came for %s, from offset %d of %d", l.topic, p, a.timeout, l.position[p], l.ends[p])}
		}
	}
	return ended, nil
}
