package broker

import (
	"sync"
	"time"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

// Bounds of the history: changes that are kept of one partition, and of all. When all are too many, fewer are kept of each.
const (
	pastOfOne = 20
	pastOfAll = 50_000
)

// history keeps the newest changes of each partition's record as this node applied them, for people who ask what
// happened. It is told by the state machine's goroutine, which it never keeps waiting: a change costs two pointers.
type history struct {
	mu    sync.Mutex // guards what follows; held for memory only
	past  map[record.PartitionID][]metadata.Past
	each  int // changes kept of one partition
	total int
}

func newHistory() *history {
	return &history{past: map[record.PartitionID][]metadata.Past{}, each: pastOfOne}
}

// note takes a change of the metadata. at is zero while the node replays what happened before its start.
func (h *history) note(d *metadata.Delta, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.Full { // the records in between were never seen
		clear(h.past)
		h.total = 0
		return
	}
	millis := int64(0)
	if !at.IsZero() {
		millis = at.UnixMilli()
	}
	for _, id := range d.Partitions {
		p := metadata.Past{Index: d.New.Index(), Time: millis, Old: d.Old.Partition(id), New: d.New.Partition(id)}
		for _, e := range d.Events {
			if e.Partition == id && e.Topic != "" {
				p.Events = append(p.Events, e)
			}
		}
		if p.New == nil {
			h.total -= len(h.past[id])
			delete(h.past, id)
			continue
		}
		h.keep(id, p)
	}
}

// keep adds a change and drops the oldest ones that are too many.
func (h *history) keep(id record.PartitionID, p metadata.Past) {
	l := append(h.past[id], p)
	h.total++
	if more := len(l) - h.each; more > 0 {
		l = append([]metadata.Past(nil), l[more:]...)
		h.total -= more
	}
	h.past[id] = l
	for h.total > pastOfAll && h.each > 1 {
		h.each /= 2
		for other, l := range h.past {
			if more := len(l) - h.each; more > 0 {
				h.past[other] = append([]metadata.Past(nil), l[more:]...)
				h.total -= more
			}
		}
	}
}

// of gives the changes of one partition, oldest first.
func (h *history) of(id record.PartitionID) []metadata.HistoryEntry {
	h.mu.Lock()
	past := append([]metadata.Past(nil), h.past[id]...)
	h.mu.Unlock()
	out := make([]metadata.HistoryEntry, 0, len(past))
	for i := range past {
		out = append(out, past[i].Entry())
	}
	return out
}
