package sim

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"time"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

// wheel is a profile's weights, drawn from in a fixed order.
type wheel struct {
	actions []Action
	upTo    []int
	sum     int
}

func newWheel(weights map[Action]int) wheel {
	var w wheel
	for _, a := range slices.Sorted(maps.Keys(weights)) {
		w.sum += weights[a]
		w.actions, w.upTo = append(w.actions, a), append(w.upTo, w.sum)
	}
	return w
}

func (w *wheel) draw(n int) Action {
	i, _ := slices.BinarySearch(w.upTo, n+1)
	return w.actions[i]
}

// step does one action at one node.
func (w *World) step(a Action) {
	n := w.any()
	switch a {
	case Produce:
		w.produce(n)
	case Ask:
		w.ask(n)
	case Deliver:
		if len(w.net) > 0 {
			i := 0
			if w.rng.IntN(3) == 0 {
				i = w.rng.IntN(len(w.net))
			}
			w.deliver(i)
		}
	case Replay:
		n.replay(1 + w.rng.IntN(3))
	case Time:
		w.now = w.now.Add(time.Duration(w.rng.IntN(7000)) * time.Millisecond)
		n.tick()
	case Control:
		w.control()
	case Fence:
		w.fence(n)
	case Unfence:
		w.unfence(n)
	case Kill:
		if n.up() {
			n.crash(vfs.CrashKeep)
		}
	case Power:
		if n.up() {
			n.crash(pick(w.rng, vfs.CrashLose, vfs.CrashTear))
		}
	case Stop:
		if n.up() {
			n.stop()
		}
	case Start:
		if !n.up() {
			n.start()
		}
	case Flush:
		n.flush()
	case Checkpoint:
		n.checkpoint()
	case RaiseStart:
		if p := n.replica(); p != nil && p.Office() != nil {
			if hw, start := p.Log().HighWatermark(), p.Log().StartOffset(); hw > start {
				if err := p.RaiseStart(start + 1 + w.rng.Int64N(hw-start)); err != nil {
					n.ioError("raise log start", err)
					return
				}
				w.count("log start")
			}
		}
	case Controller:
		clear(w.reports)
		w.count("controller")
	case Rot:
		n.rot()
	case Fail:
		if n.up() {
			op := pick(w.rng, vfs.OpSync, vfs.OpWrite, vfs.OpSyncDir)
			if err := n.fault.SetRules(vfs.Rule{Op: op, Skip: w.rng.IntN(4), Times: 1, Error: "EIO"}); err != nil {
				w.fail("rules: %v", err)
			}
		}
	case Full:
		if n.up() {
			if w.rng.IntN(2) == 0 {
				n.disk.SetCapacity(1)
				w.count("disk full")
			} else {
				n.disk.SetCapacity(0)
			}
		}
	default:
		w.begin(string(a))
	}
}

// rot flips a bit of a segment, where nobody looks.
func (n *node) rot() {
	w := n.w
	dir := "/data"
	entries, err := n.disk.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), "t-") {
			continue
		}
		files, err := n.disk.ReadDir(dir + "/" + e.Name())
		if err != nil {
			return
		}
		for _, f := range files {
			if !strings.HasSuffix(f.Name(), ".log") || w.rng.IntN(2) == 0 {
				continue
			}
			h, err := n.disk.OpenReadWrite(dir + "/" + e.Name() + "/" + f.Name())
			if err != nil {
				return
			}
			size, err := h.Size()
			if err == nil && size > 0 {
				at, b := w.covered(h, size), []byte{0}
				if at < 0 {
					at, b = 0, nil
				}
				if _, err = h.ReadAt(b, at); err == nil && len(b) > 0 {
					b[0] ^= 1 << w.rng.IntN(8)
					if _, err = h.WriteAt(b, at); err == nil {
						w.count("rot")
						w.note("node %d: a bit rots at byte %d of %s", n.id, at, f.Name())
					}
				}
			}
			if err := h.Close(); err != nil {
				w.fail("close: %v", err)
			}
			return
		}
	}
}

// covered draws a byte of a segment that a checksum covers: offset, length and leader epoch of a batch have none, in Kafka
// as here, so that a flip there is found only where it contradicts its surroundings. Batches are found by their lengths,
// which never rot, also behind one that did. -1: there is none.
func (w *World) covered(f vfs.File, size int64) int64 {
	const fromMagic = 16
	var starts, ends []int64
	head := make([]byte, record.LogOverhead)
	for at := int64(0); at+record.HeaderSize <= size; {
		if _, err := f.ReadAt(head, at); err != nil {
			break
		}
		end := at + record.LogOverhead + int64(binary.BigEndian.Uint32(head[8:]))
		if end < at+record.HeaderSize || end > size {
			break
		}
		starts, ends = append(starts, at), append(ends, end)
		at = end
	}
	if len(starts) == 0 {
		return -1
	}
	i := w.rng.IntN(len(starts))
	return starts[i] + fromMagic + w.rng.Int64N(ends[i]-starts[i]-fromMagic)
}

// brief is the record in a few words.
func (w *World) brief() string {
	p := w.head()
	var b strings.Builder
	add := func(format string, a ...any) { b.WriteString(sprintf(format, a...)) }
	add("e%d/%d leader %d isr %v", p.LeaderEpoch, p.PartitionEpoch, p.Leader, p.ISR)
	if len(p.ELR) > 0 {
		add(" elr %v", p.ELR)
	}
	if p.Rule != metadata.RuleISR {
		add(" %s", p.Rule)
	}
	if p.Durability != metadata.DurabilityMemory {
		add(" %s", p.Durability)
	}
	if len(p.Adding) > 0 {
		add(" adding %v", p.Adding)
	}
	if len(p.NewReplicas) > 0 {
		add(" joint %v and %v", p.Replicas, p.NewReplicas)
	}
	add(" min %d", p.MinISR)
	return b.String()
}
