package history

import (
	"slices"
	"sync"
)

// Live counts, while a history still happens, those anomalies that one look shows: two records at one offset, one record at
// two offsets, and a poll that goes back, of topics whose producers wait for the commit and write once. It is for people who
// watch; the verdict is Check's, which sees far more. What it keeps grows with the records, as the history does. Safe for
// concurrent use.
type Live struct {
	mu    sync.Mutex
	keys  []*liveKey    // nil: not looked at
	last  map[int]int64 // offset that the operation at hand polled, by key
	found int
}

// liveKey is what was seen of one key.
type liveKey struct {
	at map[int64]int64 // value by offset
	of map[int64]int64 // the first offset at which it was, by value
}

// NewLive makes one for a history with this header, which must not change any more.
func NewLive(h *Header) *Live {
	l := &Live{last: map[int]int64{}, keys: make([]*liveKey, len(h.Keys))}
	for i, k := range h.Keys {
		if t := &h.Topics[k.Topic]; t.commits() && !t.Repeats {
			l.keys[i] = &liveKey{map[int64]int64{}, map[int64]int64{}}
		}
	}
	return l
}

// Op takes one operation; of one that failed the sends do not count.
func (l *Live) Op(op *Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.last)
	for _, m := range op.Mops {
		if m.Send != nil && m.Send.Offset >= 0 && op.Type != Fail {
			l.record(Seen(*m.Send))
		}
		for _, s := range m.Poll {
			l.record(s)
			if before, ok := l.last[s.Key]; ok && s.Offset <= before && l.keys[s.Key] != nil && !slices.Contains(op.Moved, s.Key) {
				l.found++
			}
			l.last[s.Key] = s.Offset
		}
	}
}

func (l *Live) record(s Seen) {
	k := l.keys[s.Key]
	if k == nil {
		return
	}
	v, there := k.at[s.Offset]
	if there && v == s.Value {
		return
	}
	if there {
		l.found++
	}
	k.at[s.Offset] = s.Value
	if _, elsewhere := k.of[s.Value]; !elsewhere {
		k.of[s.Value] = s.Offset
	} else {
		l.found++
	}
}

// Found is the number so far.
func (l *Live) Found() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.found
}
