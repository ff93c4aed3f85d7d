package history

import "fmt"

// checkWatermarks judges what each client was told, in the order it was told: a high watermark never goes back. What the
// leader of an older epoch tells, one that does not know yet that it was deposed, a client has to disregard.
func (c *checker) checkWatermarks() {
	type place struct{ process, key int }
	highest := map[place]*Watermark{}
	epoch := map[place]int32{}
	top := make([]*Watermark, len(c.h.Header.Keys)) // of any process
	for i := range c.h.Watermarks {
		w := &c.h.Watermarks[i]
		if t := top[w.Key]; t == nil || w.High > t.High {
			top[w.Key] = w
		}
		if e, known := epoch[place{w.Process, w.Key}]; known && w.Epoch < e {
			continue
		}
		epoch[place{w.Process, w.Key}] = w.Epoch
		before := highest[place{w.Process, w.Key}]
		if before != nil && w.High < before.High {
			c.find(WatermarkBack, w.Key, c.rules.flagged(w.Key, before.At, w.High, before.High-1), func() Example {
				return Example{Offsets: []int64{before.High, w.High}, Nodes: nodes(before.Node, w.Node), Text: fmt.Sprintf(
					"process %d was told a high watermark of %d of %s in leader epoch %d, %s after one of %d in epoch %d",
					w.Process, w.High, c.key(w.Key), w.Epoch, w.At-before.At, before.High, before.Epoch)}
			})
		}
		if before == nil || w.High >= before.High {
			highest[place{w.Process, w.Key}] = w
		}
	}
	for k, w := range top {
		if w == nil {
			continue
		}
		// Their own high watermarks may be of a checkpoint, which lags; their ends are not.
		end, copies := int64(0), 0
		for _, cp := range c.h.Copies {
			if cp.Key == k {
				end, copies = max(end, cp.End), copies+1
			}
		}
		if copies > 0 && end < w.High {
			c.find(WatermarkBack, k, c.rules.flagged(k, w.At, end, w.High-1), func() Example {
				return Example{Offsets: []int64{w.High, end}, Nodes: nodes(w.Node), Text: fmt.Sprintf(
					"process %d was told a high watermark of %d of %s in leader epoch %d, but at the end all copies end by offset %d",
					w.Process, w.High, c.key(k), w.Epoch, end)}
			})
		}
	}
}

// nodes are those that are known.
func nodes(list ...int) []int {
	var known []int
	for _, n := range list {
		if n > 0 {
			known = append(known, n)
		}
	}
	return known
}
