package history

import (
	"slices"
	"testing"
	"time"
)

// copyOf is the copy of key 0 on a node, of batches of one record each from offset 0 on. Value -1 is a control batch.
func copyOf(node int, values ...int64) Copy {
	c := Copy{Node: node, End: int64(len(values)), High: int64(len(values))}
	for i, v := range values {
		b := Batch{Base: int64(i), Last: int64(i), CRC: uint32(v + 100)}
		if b.Control = v < 0; !b.Control {
			b.Values = []int64{v}
		}
		c.Batches = append(c.Batches, b)
	}
	return c
}

// three sends three values to key 0 at offsets 0, 2 and 3 and has them polled; offset 1 is a control batch.
func three(copies ...Copy) *History {
	h := handMade(op(1, 0, 1, send(0, 1, 0)), op(1, 2, 3, send(0, 2, 2)), op(2, 2, 3, send(0, 3, 3)),
		op(3, 4, 5, poll(at{0, 1, 0}, at{0, 2, 2}, at{0, 3, 3})))
	h.Copies = copies
	return h
}

func change(c Copy, change func(*Copy)) Copy { change(&c); return c }

func TestCopiesAreJudgedByTheirMeaning(t *testing.T) {
	good := func() Copy { return copyOf(1, 1, -1, 2, 3) }
	for _, c := range []struct {
		name string
		h    *History
		want string
	}{
		{"equal ones", three(good(), copyOf(2, 1, -1, 2, 3), copyOf(3, 1, -1, 2, 3)), "ok 0"},
		{"batches out of order", three(change(good(), func(c *Copy) { slices.Reverse(c.Batches) })), "ok 0"},
		{"one that is behind", three(good(), copyOf(2, 1, -1, 2), copyOf(3)), "ok 0"},
		{"one that was cut at its start", three(good(), change(copyOf(2, 1, -1, 2, 3), func(c *Copy) { c.Start, c.Batches = 2, c.Batches[2:] })), "ok 0"},
		{"one whose tail above the high watermark differs", func() *History {
			h := three(copyOf(1, 1, -1, 2, 3, 8), change(copyOf(2, 1, -1, 2, 3, 9), func(c *Copy) { c.High = 4 }))
			h.Ops = append(h.Ops, unsure(op(4, 9, 10, send(0, 8, -1), send(0, 9, -1))))
			return h
		}(), "ok 0"},
		{"one that differs below it", three(good(), change(copyOf(2, 1, -1, 2, 3), func(c *Copy) { c.Batches[2].CRC++ })),
			"copies-differ 0 1/0: [] the copies of a/0 on nodes 1 and 2 differ from offset 2 on, below their high watermark 4\nviolated 20"},
		{"one with another epoch", three(good(), change(copyOf(2, 1, -1, 2, 3), func(c *Copy) { c.Batches[3].Epoch++ })),
			"copies-differ 0 1/0: [] the copies of a/0 on nodes 1 and 2 differ from offset 3 on, below their high watermark 4\nviolated 20"},
		{"one without the last batch", three(good(), change(copyOf(2, 1, -1, 2, 3), func(c *Copy) { c.Batches = c.Batches[:3] })),
			"lost-on-node 0 1/0 {Prefix:0 Middle:0 Postfix:1}: [2] operation 2 (process 2) was told that value 3 of a/0 is written at offset 3, but it is not in the copy on node 2\n" +
				"dirty-read 0 1/0: [3] operation 3 (process 3) polled value 3 of a/0 at offset 3, where the copy on node 2 has none of ours\n" +
				"copies-differ 0 1/0: [] the copies of a/0 on nodes 1 and 2 differ from offset 3 on, below their high watermark 4\n" +
				"gap 0 1/0: [] the copy of a/0 on node 2 has no batch for offsets 3 to 3\nviolated 20"},
		{"one with a control batch in place of another's", three(copyOf(1, 1, 0, 2, 3), change(copyOf(2, 1, 0, 2, 3), func(c *Copy) { c.Batches[1].Control = true })),
			"copies-differ 0 1/0: [] the copies of a/0 on nodes 1 and 2 differ from offset 1 on, below their high watermark 4\nviolated 20"},
		{"one that lacks a record, flagged", func() *History {
			h := three(copyOf(1, 1, -1, 2, 0))
			h.Losses = []Loss{{Key: 0, From: 3, To: 4, At: 9}}
			return h
		}(), "lost-on-node 0 1/1 {Prefix:0 Middle:0 Postfix:1}: [2] operation 2 (process 2) was told that value 3 of a/0 is written at offset 3, but it is not in the copy on node 1\n" +
			"dirty-read 0 1/1: [3] operation 3 (process 3) polled value 3 of a/0 at offset 3, where the copy on node 1 has none of ours\nok 0"},
		{"a gap", three(change(good(), func(c *Copy) { c.Batches = slices.Delete(c.Batches, 1, 2) })),
			"gap 0 1/0: [] the copy of a/0 on node 1 has no batch for offsets 1 to 1\nviolated 20"},
		{"a gap at the end", three(change(good(), func(c *Copy) { c.End = 6 })),
			"gap 0 1/0: [] the copy of a/0 on node 1 has no batch for offsets 4 to 5\nviolated 20"},
		{"a batch with a record too many", three(change(good(), func(c *Copy) { c.Batches[0].Values = []int64{1, 0} })),
			"miscount 0 1/0: [] the copy of a/0 on node 1 has 2 records in a batch of offsets 0 to 0, after offset -1\nviolated 20"},
		{"two batches of one offset", three(change(good(), func(c *Copy) { c.Batches = slices.Insert(c.Batches, 3, c.Batches[2]) })),
			"miscount 0 1/0: [] the copy of a/0 on node 1 has 1 records in a batch of offsets 2 to 2, after offset 2\nviolated 20"},
		{"an epoch that goes back", three(change(good(), func(c *Copy) { c.Batches[0].Epoch = 3 })),
			"epoch-back 0 3/0: [] the copy of a/0 on node 1 has leader epoch 0 at offset 1, after epoch 3\nviolated 20"},
		{"a value from nowhere", three(copyOf(1, 1, -1, 2, 3, 9)),
			"phantom 0 1/0: [] the copy of a/0 on node 1 has value 9 at offset 4, which nobody sent\nviolated 20"},
		{"a polled value that is another's", func() *History {
			h := handMade(unsure(op(1, 0, 1, send(0, 1, -1))), op(2, 2, 3, poll(at{0, 1, 0})))
			h.Copies = []Copy{copyOf(1, 0)}
			return h
		}(), "dirty-read 0 1/0: [1] operation 1 (process 2) polled value 1 of a/0 at offset 0, where the copy on node 1 has none of ours\nviolated 20"},
		{"a record that readers were not given, in groups", func() *History {
			h := handMade(unsure(op(1, 0, 1, send(0, 1, -1))), op(1, 2, 3, send(0, 2, 1)), unsure(op(4, 2, 3, send(0, 3, -1))), op(2, 4, 5, poll(at{0, 2, 1})))
			h.Copies, h.Header.Transactions = []Copy{copyOf(1, 1, 2, 3)}, false
			return h
		}(), "gap 0 1/0: [0] the copy of a/0 on node 1 has value 1 of operation 0 at offset 0, but readers who came farther were not given it\nviolated 20"},
		{"the same, acknowledged, in groups", func() *History {
			h := handMade(op(1, 0, 1, send(0, 1, -1)), op(1, 2, 3, send(0, 2, 1)), op(2, 4, 5, poll(at{0, 2, 1})))
			h.Copies, h.Header.Transactions = []Copy{copyOf(1, 1, 2)}, false
			return h
		}(), "unseen 0 1/0: [0] operation 0 (process 1) was told that value 1 of a/0 is written, but nobody ever read it\nviolated 20"},
		{"the same, in transactions", func() *History {
			h := handMade(unsure(op(1, 0, 1, send(0, 1, -1))), op(1, 2, 3, send(0, 2, 1)), op(2, 4, 5, poll(at{0, 2, 1})))
			h.Copies = []Copy{copyOf(1, 1, 2)}
			return h
		}(), "ok 0"},
		{"a polled value where a copy has not yet seen the commit", func() *History {
			h := handMade(unsure(op(1, 0, 1, send(0, 1, -1))), op(2, 2, 3, poll(at{0, 1, 0})))
			h.Copies = []Copy{change(copyOf(1, 0), func(c *Copy) { c.High = 0 })}
			return h
		}(), "ok 0"},
		{"a polled value that is another's, flagged", func() *History {
			h := handMade(unsure(op(1, 0, 1, send(0, 1, -1))), op(2, 2, 3, poll(at{0, 1, 0})))
			h.Copies, h.Losses = []Copy{copyOf(1, 0)}, []Loss{{Key: 0, From: 0, To: 1, At: 9}}
			return h
		}(), "dirty-read 0 1/1: [1] operation 1 (process 2) polled value 1 of a/0 at offset 0, where the copy on node 1 has none of ours\nok 0"},
		{"a value that only the copies have elsewhere", func() *History {
			h := handMade(op(1, 0, 1, send(0, 1, 0)))
			h.Copies = []Copy{copyOf(1, 0, 1)}
			return h
		}(), "unseen 0 1/0: [0] operation 0 (process 1) was told that value 1 of a/0 is written at offset 0, but nobody ever read it\n" +
			"ack-offset 0 1/0: [0] operation 0 (process 1) was told that value 1 of a/0 is at offset 0, but the copy on node 1 has it elsewhere\nviolated 20"},
	} {
		if got := said(Check(c.h)); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestWhatIsLostOnANodeIsSplitByWriter(t *testing.T) {
	var ops []Op
	var seen []at
	values := make([]int64, 10)
	for i := range values {
		v := int64(i + 1)
		ops = append(ops, op(i%2, 10*i, 10*i+1, send(0, v, int64(i))))
		seen = append(seen, at{0, v, int64(i)})
		values[i] = v
	}
	h := handMade(append(ops, op(7, 200, 201, poll(seen...)))...)
	h.Copies = []Copy{copyOf(1, values...)}
	for _, i := range []int{0, 4, 6, 8, 3} { // writer 0 loses its first, three of four after one; writer 1 one in the middle
		h.Copies[0].Batches[i].Values = []int64{0}
	}
	for _, a := range Check(h).Anomalies {
		if a.Kind == LostOnNode && a.Count == 5 && *a.Split == (Split{Prefix: 1, Middle: 1, Postfix: 3}) {
			return
		}
	}
	t.Error(said(Check(h)))
}

func TestAWatermarkNeverGoesBack(t *testing.T) {
	mark := func(process, key int, high int64) Watermark {
		return Watermark{Process: process, Key: key, High: high, Epoch: 3, At: time.Duration(high)}
	}
	h := three(copyOf(1, 1, -1, 2, 3))
	for _, c := range []struct {
		marks []Watermark
		loss  []Loss
		want  string
	}{
		{[]Watermark{mark(1, 0, 2), mark(1, 0, 2), mark(1, 0, 4), mark(2, 0, 3), mark(1, 1, 1)}, nil, "ok 0"},
		{[]Watermark{mark(1, 0, 4), mark(1, 0, 3)}, nil,
			"watermark-back 0 1/0: [] process 1 was told a high watermark of 3 of a/0 in leader epoch 3, -1ns after one of 4 in epoch 3\nviolated 20"},
		{[]Watermark{mark(1, 0, 4), {Process: 1, Key: 0, High: 3, Epoch: 2, At: 5}, mark(1, 0, 4)}, nil, "ok 0"},
		{[]Watermark{{Process: 1, Key: 0, High: 2, Epoch: 2, At: 1}, mark(1, 0, 1), {Process: 1, Key: 0, High: 2, Epoch: 2, At: 5}}, nil,
			"watermark-back 0 1/0: [] process 1 was told a high watermark of 1 of a/0 in leader epoch 3, 0s after one of 2 in epoch 2\nviolated 20"},
		{[]Watermark{mark(1, 0, 4), mark(1, 0, 2), mark(1, 0, 3)}, nil,
			"watermark-back 0 2/0: [] process 1 was told a high watermark of 2 of a/0 in leader epoch 3, -2ns after one of 4 in epoch 3\nviolated 20"},
		{[]Watermark{mark(1, 0, 5)}, nil,
			"watermark-back 0 1/0: [] process 1 was told a high watermark of 5 of a/0 in leader epoch 3, but at the end all copies end by offset 4\nviolated 20"},
		{[]Watermark{mark(1, 0, 5), mark(1, 0, 4)}, []Loss{{Key: 0, From: 4, To: 5, At: 5}},
			"watermark-back 0 2/2: [] process 1 was told a high watermark of 4 of a/0 in leader epoch 3, -1ns after one of 5 in epoch 3\nok 0"},
	} {
		h.Watermarks, h.Losses = c.marks, c.loss
		if got := said(Check(h)); got != c.want {
			t.Errorf("%s\nwant\n%s", got, c.want)
		}
	}
}
