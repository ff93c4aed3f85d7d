package history

import (
	"cmp"
	"slices"
)

// keyLog is what the clients know of the log of one key: which values were where. Offsets are compressed to indexes: those
// that are known, in order, without holes.
type keyLog struct {
	values  []value
	byValue map[int64]int32 // to values
	slots   []slot
	bySlot  map[int64]int32 // offset to slots
	pairs   []pair
	order   []int32 // slots by offset: index to slot
}

// none stands for no index, no operation, no pair.
const none int32 = -1

// value is one value of a key.
type value struct {
	v         int64
	told      int64 // offset, or -1
	writer    int32 // operation
	mop       int32 // of the writer
	first     int32 // lowest index, or none
	last      int32 // highest index, or none
	firstAt   int32 // pair of first
	polled    bool  // by any operation
	read      bool  // by one that was ok
	acked     bool
	committed bool // it must be in the log
	ghost     bool // nobody polled it, it is known only by the offset its producer was told
}

// slot is one offset.
type slot struct {
	offset int64
	index  int32
	pair   int32 // first of its pairs
}

// pair says that a value was at an offset.
type pair struct {
	slot   int32
	value  int32
	next   int32 // of the same slot
	by     int32 // operation that polled it, an ok one before others, or else its writer
	polled bool
	read   bool
}

// readLogs collects the logs of all keys: from all polls, and from sends that must have been committed.
func (c *checker) readLogs() []*keyLog {
	logs := make([]*keyLog, len(c.h.Header.Keys))
	for k := range logs {
		logs[k] = &keyLog{byValue: map[int64]int32{}, bySlot: map[int64]int32{}}
	}
	c.logs = logs
	for i := range c.h.Ops {
		for m, mop := range c.h.Ops[i].Mops {
			if mop.Send != nil {
				c.send(int32(i), int32(m), mop.Send)
			}
		}
	}
	for i := range c.h.Ops {
		op := &c.h.Ops[i]
		for _, mop := range op.Mops {
			for _, s := range mop.Poll {
				logs[s.Key].poll(s, int32(i), op.Type == OK)
			}
		}
	}
	for i := range c.h.Ops {
		c.commit(int32(i), &c.h.Ops[i])
	}
	for _, l := range logs {
		l.index()
	}
	return logs
}

func (c *checker) send(i, m int32, s *Sent) {
	l, op := c.logs[s.Key], &c.h.Ops[i]
	if id, ok := l.byValue[s.Value]; ok {
		c.find(SentTwice, s.Key, "", func() Example { return c.sentTwice(s, l.values[id].writer, i) })
		return
	}
	v := value{v: s.Value, told: s.Offset, writer: i, mop: m, first: none, last: none, firstAt: none}
	// In a group that is no transaction each send stands for itself.
	v.acked = op.Type == OK || op.Type == Info && !c.h.Header.Transactions && s.Offset >= 0
	v.committed = v.acked
	if v.acked {
		c.acked[c.h.Header.Keys[s.Key].Topic]++
	}
	l.byValue[s.Value] = int32(len(l.values))
	l.values = append(l.values, v)
}

func (l *keyLog) poll(s Seen, op int32, ok bool) {
	slotID, at := l.at(s.Offset, s.Value)
	if at == none {
		id, sent := l.byValue[s.Value]
		if !sent {
			id = int32(len(l.values))
			l.byValue[s.Value] = id
			l.values = append(l.values, value{v: s.Value, told: -1, writer: none, first: none, last: none, firstAt: none})
		}
		at = l.put(slotID, s.Offset, pair{value: id, by: op})
	}
	p := &l.pairs[at]
	if ok && !p.read {
		p.by, p.read = op, true
	}
	p.polled = true
	v := &l.values[p.value]
	v.polled = true
	v.read = v.read || ok
}

// at gives the slot of an offset and the pair of a value there, or none for either.
func (l *keyLog) at(offset, v int64) (slotID, pairID int32) {
	slotID, ok := l.bySlot[offset]
	if !ok {
		return none, none
	}
	for p := l.slots[slotID].pair; p != none; p = l.pairs[p].next {
		if l.values[l.pairs[p].value].v == v {
			return slotID, p
		}
	}
	return slotID, none
}

// put adds a pair, and its slot if there is none.
func (l *keyLog) put(slotID int32, offset int64, p pair) int32 {
	if slotID == none {
		slotID = int32(len(l.slots))
		l.bySlot[offset] = slotID
		l.slots = append(l.slots, slot{offset: offset, pair: none})
	}
	id := int32(len(l.pairs))
	p.slot, p.next = slotID, none
	// The first value that was seen at an offset stays the first.
	if head := l.slots[slotID].pair; head == none {
		l.slots[slotID].pair = id
	} else {
		for l.pairs[head].next != none {
			head = l.pairs[head].next
		}
		l.pairs[head].next = id
	}
	l.pairs = append(l.pairs, p)
	return id
}

// commit adds what an operation was told of its sends, if it must have been committed: it was ok, or one of its values was
// read.
func (c *checker) commit(i int32, op *Op) {
	proven := false
	for _, mop := range op.Mops {
		if s := mop.Send; s != nil && op.Type == Info {
			l := c.logs[s.Key]
			proven = proven || l.values[l.byValue[s.Value]].read
		}
	}
	for m, mop := range op.Mops {
		s := mop.Send
		if s == nil {
			continue
		}
		l := c.logs[s.Key]
		v := &l.values[l.byValue[s.Value]]
		if v.writer != i || v.mop != int32(m) {
			continue // sent twice
		}
		v.committed = v.acked || proven
		if !v.committed || s.Offset < 0 {
			continue
		}
		if slotID, at := l.at(s.Offset, s.Value); at == none {
			l.put(slotID, s.Offset, pair{value: l.byValue[s.Value], by: i})
		}
		v.ghost = !v.polled
	}
}

// index puts the offsets in order.
func (l *keyLog) index() {
	l.order = make([]int32, len(l.slots))
	for i := range l.order {
		l.order[i] = int32(i)
	}
	slices.SortFunc(l.order, func(a, b int32) int { return cmp.Compare(l.slots[a].offset, l.slots[b].offset) })
	for index, s := range l.order {
		l.slots[s].index = int32(index)
		for p := l.slots[s].pair; p != none; p = l.pairs[p].next {
			v := &l.values[l.pairs[p].value]
			if v.first == none {
				v.first, v.firstAt = int32(index), p
			}
			v.last = int32(index)
		}
	}
}

// offset is that of an index.
func (l *keyLog) offset(index int32) int64 { return l.slots[l.order[index]].offset }

// ends are the lowest and the highest offset of a value, once if they are the same; none if it has none.
func (l *keyLog) ends(v *value) []int64 {
	switch v.first {
	case none:
		return nil
	case v.last:
		return []int64{l.offset(v.first)}
	}
	return []int64{l.offset(v.first), l.offset(v.last)}
}
