package history

import (
	"errors"
	"fmt"
	"slices"
)

// limit bounds offsets and nanoseconds, so that sums of two do not overflow.
const limit = 1 << 61

// Validate says whether h is a history that can be judged: all keys, topics, types and numbers are such as the types allow,
// and operations are in the order of their ends. Read gives only valid ones.
func (h *History) Validate() error {
	err := h.Header.valid()
	for i := 0; err == nil && i < len(h.Ops); i++ {
		if err = h.Ops[i].valid(&h.Header); err == nil && i > 0 && h.Ops[i-1].End > h.Ops[i].End {
			err = errors.New("it ended before the one before it")
		}
		if err != nil {
			err = fmt.Errorf("operation %d: %w", i, err)
		}
	}
	for i := 0; err == nil && i < len(h.Faults); i++ {
		err = h.Faults[i].valid()
	}
	for i := 0; err == nil && i < len(h.Losses); i++ {
		err = h.Losses[i].valid(&h.Header)
	}
	for i := 0; err == nil && i < len(h.Watermarks); i++ {
		err = h.Watermarks[i].valid(&h.Header)
	}
	for i := 0; err == nil && i < len(h.Copies); i++ {
		err = h.Copies[i].valid(&h.Header)
	}
	return err
}

func (h *Header) valid() error {
	if h.Version < 1 {
		return fmt.Errorf("no version %d of the format", h.Version)
	}
	for i := range h.Topics {
		t := &h.Topics[i]
		if err := t.valid(); err != nil {
			return fmt.Errorf("topic %q: %w", t.Name, err)
		}
	}
	for i, k := range h.Keys {
		if k.Topic < 0 || k.Topic >= len(h.Topics) || k.Partition < 0 {
			return fmt.Errorf("key %d: no topic %d, or partition %d", i, k.Topic, k.Partition)
		}
	}
	return nil
}

func (t *Topic) valid() error {
	switch {
	case t.Replicas < 1 || t.MinISR < 1:
		return fmt.Errorf("%d replicas, %d in sync at least", t.Replicas, t.MinISR)
	case t.Rule != "isr" && t.Rule != "quorum":
		return fmt.Errorf("no commit rule %q", t.Rule)
	case t.Durability != "memory" && t.Durability != "disk":
		return fmt.Errorf("no durability %q", t.Durability)
	}
	for _, acks := range []string{t.Acks, t.MinAcks} {
		if _, err := copiesAwaited(acks); err != nil {
			return err
		}
	}
	return nil
}

func (h *Header) hasKeys(keys ...int) error {
	for _, k := range keys {
		if k < 0 || k >= len(h.Keys) {
			return fmt.Errorf("no key %d: there are %d", k, len(h.Keys))
		}
	}
	return nil
}

func (o *Op) valid(h *Header) error {
	switch {
	case !slices.Contains([]Type{OK, Fail, Info}, o.Type):
		return fmt.Errorf("no type %q", o.Type)
	case !slices.Contains([]F{Send, Poll, Txn, Assign, Subscribe, Crash}, o.F):
		return fmt.Errorf("no operation %q", o.F)
	case o.Process < 0 || o.Start < 0 || o.End < o.Start || o.End > limit:
		return fmt.Errorf("process %d, from %d to %d", o.Process, o.Start, o.End)
	}
	for _, m := range o.Mops {
		if m.Send != nil && m.Poll != nil {
			return errors.New("a send and a poll in one")
		}
		if s := m.Send; s != nil {
			if s.Value < 1 || s.Offset < -1 || s.Offset > limit {
				return fmt.Errorf("sent value %d at offset %d", s.Value, s.Offset)
			}
			if err := h.hasKeys(s.Key); err != nil {
				return err
			}
		}
		for _, s := range m.Poll {
			if s.Value < 0 || s.Offset < 0 || s.Offset > limit {
				return fmt.Errorf("polled value %d at offset %d", s.Value, s.Offset)
			}
			if err := h.hasKeys(s.Key); err != nil {
				return err
			}
		}
	}
	return errors.Join(h.hasKeys(o.Keys...), h.hasKeys(o.Moved...))
}

func (f *Fault) valid() error {
	if f.Start < 0 || f.End < 0 || f.Start > limit || f.End > limit {
		return fmt.Errorf("fault %q from %d to %d", f.Name, f.Start, f.End)
	}
	return nil
}

func (l *Loss) valid(h *Header) error {
	if l.From < 0 || l.To < l.From || l.At < 0 || l.At > limit {
		return fmt.Errorf("loss of offsets %d to %d at %d", l.From, l.To, l.At)
	}
	return h.hasKeys(l.Key)
}

func (w *Watermark) valid(h *Header) error {
	if w.Process < 0 || w.High < 0 || w.At < 0 || w.At > limit || w.High > limit {
		return fmt.Errorf("watermark %d of process %d at %d", w.High, w.Process, w.At)
	}
	return h.hasKeys(w.Key)
}

func (c *Copy) valid(h *Header) error {
	if c.Start < 0 || c.End < c.Start || c.High < 0 || c.End > limit || c.High > limit {
		return fmt.Errorf("copy from %d to %d with high watermark %d", c.Start, c.End, c.High)
	}
	for _, b := range c.Batches {
		if b.Base < 0 || b.Last < b.Base || b.Last > limit {
			return fmt.Errorf("batch from %d to %d", b.Base, b.Last)
		}
	}
	return h.hasKeys(c.Key)
}
