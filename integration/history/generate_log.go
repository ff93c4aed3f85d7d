package history

// madeLog is the log of one key of a generated history.
type madeLog struct {
	value   int64 // sent last
	end     int64
	epoch   int32
	batches []Batch
	visible []made // what polls give
}

type made struct {
	value, offset int64
}

func (l *madeLog) batch(b Batch, offsets int64) {
	b.Base, b.Last, b.Epoch = l.end, l.end+offsets-1, l.epoch
	b.CRC = checksum(&b)
	l.end += offsets
	l.batches = append(l.batches, b)
}

// checksum stands for the CRC of a batch: it differs where the batch does.
func checksum(b *Batch) uint32 {
	sum := uint64(b.Base)*31 + uint64(b.Epoch)
	for _, v := range b.Values {
		sum = (sum + uint64(v)) * 0x9e3779b97f4a7c15
	}
	return uint32(sum >> 16)
}

func (l *madeLog) control() { l.batch(Batch{Control: true}, 1) }

// add appends one record and gives its offset.
func (l *madeLog) add(value int64, visible bool) int64 {
	at := l.end
	l.batch(Batch{Values: []int64{value}}, 1)
	if visible {
		l.visible = append(l.visible, made{value, at})
	}
	return at
}

// append carries out one send by itself.
func (g *generator) append(op *Op, s *Sent) {
	at := g.logs[s.Key].add(s.Value, true)
	if op.Type == OK && g.h.Header.Topics[g.h.Header.Keys[s.Key].Topic].Acks != "0" {
		s.Offset = at
	}
}

// end ends a transaction: its sends come into the logs, with a marker behind them. Aborted ones are there too, sometimes, but
// nobody sees them. Sends of others may come between.
func (g *generator) end(op *Op, fate Type) {
	if fate == Info || fate == Fail && g.rng.IntN(2) == 0 {
		return // late, or never
	}
	var keys []int
	for _, m := range op.Mops {
		if m.Send == nil {
			continue
		}
		if g.rng.IntN(8) == 0 && len(g.late) > 0 {
			g.comeLate()
		}
		if fate == OK {
			g.append(op, m.Send)
		} else {
			g.logs[m.Send.Key].add(m.Send.Value, false)
		}
		keys = append(keys, m.Send.Key)
	}
	for _, k := range keys {
		g.logs[k].control()
	}
}

// comeLate lets the sends come about of an operation that its client gave up.
func (g *generator) comeLate() {
	op := g.late[0]
	g.late = g.late[1:]
	for _, m := range op.Mops {
		if m.Send != nil {
			g.append(op, m.Send)
		}
	}
}

// settle lets all that is late come about, or never.
func (g *generator) settle() {
	for len(g.late) > 0 {
		if g.rng.IntN(2) == 0 {
			g.comeLate()
		} else {
			g.late = g.late[1:]
		}
	}
}
