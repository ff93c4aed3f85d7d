package history

import (
	"cmp"
	"fmt"
	"slices"
)

// replica is a Copy with its batches by offset.
type replica struct {
	*Copy
	batches []Batch
	values  map[int64]bool // all of them; built when it is asked for
}

// checkCopies judges the logs of the nodes: each by itself, against each other, and against what clients were told.
func (c *checker) checkCopies() {
	byKey := make([][]*replica, len(c.h.Header.Keys))
	for i := range c.h.Copies {
		cp := &c.h.Copies[i]
		batches := cp.Batches
		byBase := func(a, b Batch) int { return cmp.Compare(a.Base, b.Base) }
		if !slices.IsSortedFunc(batches, byBase) {
			batches = slices.Clone(batches)
			slices.SortStableFunc(batches, byBase)
		}
		byKey[cp.Key] = append(byKey[cp.Key], &replica{Copy: cp, batches: batches})
	}
	for k, list := range byKey {
		for _, r := range list {
			c.checkCopy(k, r)
			c.checkPolled(k, r)
			c.checkPassed(k, r)
		}
		c.comparePairs(k, list)
		c.checkHeld(k, list)
	}
}

// checkCopy judges one copy by itself.
func (c *checker) checkCopy(k int, r *replica) {
	next, epoch := r.Start, int32(-1)
	gap := func(from, to int64) {
		c.find(Gap, k, "", func() Example {
			return Example{Offsets: []int64{from, to}, Nodes: []int{r.Node}, Text: fmt.Sprintf(
				"the copy of %s on node %d has no batch for offsets %d to %d", c.key(k), r.Node, from, to-1)}
		})
	}
	for _, b := range r.batches {
		if b.Base > next {
			gap(next, b.Base)
		}
		if b.Epoch < epoch {
			c.find(EpochBack, k, "", func() Example {
				return Example{Offsets: []int64{b.Base}, Nodes: []int{r.Node}, Text: fmt.Sprintf(
					"the copy of %s on node %d has leader epoch %d at offset %d, after epoch %d", c.key(k), r.Node, b.Epoch, b.Base, epoch)}
			})
		}
		if n := int64(len(b.Values)); !b.Control && n > 0 && n != b.Last-b.Base+1 || b.Base < next && next > r.Start {
			c.find(Miscount, k, "", func() Example {
				return Example{Offsets: []int64{b.Base, b.Last}, Nodes: []int{r.Node}, Text: fmt.Sprintf(
					"the copy of %s on node %d has %d records in a batch of offsets %d to %d, after offset %d",
					c.key(k), r.Node, n, b.Base, b.Last, next-1)}
			})
		}
		for i, v := range b.Values {
			if _, sent := c.logs[k].byValue[v]; v > 0 && !sent {
				c.find(Phantom, k, "", func() Example {
					return Example{Offsets: []int64{b.Base + int64(i)}, Values: []int64{v}, Nodes: []int{r.Node}, Text: fmt.Sprintf(
						"the copy of %s on node %d has value %d at offset %d, which nobody sent", c.key(k), r.Node, v, b.Base+int64(i))}
				})
			}
		}
		next, epoch = max(next, b.Last+1), max(epoch, b.Epoch)
	}
	if next < r.End {
		gap(next, r.End)
	}
}

// holds says what a copy has at an offset: the value, or 0 for a record of another, a control record or nothing.
func (r *replica) holds(offset int64) int64 {
	i, exact := slices.BinarySearchFunc(r.batches, offset, func(b Batch, o int64) int { return cmp.Compare(b.Base, o) })
	if !exact {
		i--
	}
	if i < 0 || offset > r.batches[i].Last || r.batches[i].Control {
		return 0
	}
	if at := offset - r.batches[i].Base; at < int64(len(r.batches[i].Values)) {
		return r.batches[i].Values[at]
	}
	return 0
}

// has says whether a value is anywhere in a copy.
func (r *replica) has(v int64) bool {
	if r.values == nil {
		r.values = map[int64]bool{}
		for _, b := range r.batches {
			for _, x := range b.Values {
				r.values[x] = true
			}
		}
	}
	return r.values[v]
}

// checkPolled judges whether what was polled is what a copy has: a poll must give nothing out that can be lost, whatever the
// producers waited for.
func (c *checker) checkPolled(k int, r *replica) {
	l := c.logs[k]
	for i := range l.pairs {
		p := &l.pairs[i]
		at, v := l.slots[p.slot].offset, l.values[p.value].v
		if !p.polled || at < r.Start || at >= min(r.End, r.High) {
			continue
		}
		if there := r.holds(at); there != v {
			c.find(DirtyRead, k, c.rules.flagged(k, c.h.Ops[p.by].Start, at), func() Example {
				return Example{Ops: []int{int(p.by)}, Offsets: []int64{at}, Values: []int64{v, there}, Nodes: []int{r.Node}, Text: fmt.Sprintf(
					"%s polled value %d of %s at offset %d, where the copy on node %d has %s", c.op(int(p.by)), v, c.key(k), at, r.Node, record(there))}
			})
		}
	}
}

func record(v int64) string {
	if v == 0 {
		return "none of ours"
	}
	return fmt.Sprintf("value %d", v)
}

// comparePairs compares the copies of a key below the lowest of their high watermarks, each with the first.
func (c *checker) comparePairs(k int, list []*replica) {
	if len(list) < 2 {
		return
	}
	start, high := int64(0), list[0].High
	for _, r := range list {
		start, high = max(start, r.Start), min(high, r.High, r.End)
	}
	below := func(r *replica) []Batch {
		from := slices.IndexFunc(r.batches, func(b Batch) bool { return b.Base >= start })
		if from < 0 {
			return nil
		}
		to := from
		for to < len(r.batches) && r.batches[to].Last < high {
			to++
		}
		return r.batches[from:to]
	}
	a := below(list[0])
	for _, r := range list[1:] {
		b := below(r)
		for i := range max(len(a), len(b)) {
			if i < len(a) && i < len(b) && same(a[i], b[i]) {
				continue
			}
			at := int64(0)
			if i < len(a) {
				at = a[i].Base
			}
			if i < len(b) && (i >= len(a) || b[i].Base < at) {
				at = b[i].Base
			}
			c.find(CopiesDiffer, k, "", func() Example {
				return Example{Offsets: []int64{at}, Nodes: []int{list[0].Node, r.Node}, Text: fmt.Sprintf(
					"the copies of %s on nodes %d and %d differ from offset %d on, below their high watermark %d",
					c.key(k), list[0].Node, r.Node, at, high)}
			})
			break // what comes after may only be shifted
		}
	}
}

func same(a, b Batch) bool {
	return a.Base == b.Base && a.Last == b.Last && a.Epoch == b.Epoch && a.Control == b.Control && a.CRC == b.CRC && slices.Equal(a.Values, b.Values)
}
