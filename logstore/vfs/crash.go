package vfs

import (
	"math/rand/v2"
	"slices"
)

// CrashMode says what becomes of bytes and directory entries that were not synced.
type CrashMode int

const (
	// CrashKeep is the end of a process, not of its machine: everything written is still there, and what was not
	// durable still is not, so a later power cut may take it.
	CrashKeep CrashMode = iota
	// CrashLose is a power cut in which nothing survives that was not synced.
	CrashLose
	// CrashTear is a power cut in which chance decides: a file's length is anywhere between the durable and the written
	// one, each sector below it is the durable or the written one (zeros where there was none), and each directory
	// operation happened or did not.
	CrashTear
)

// sector is the unit that a disk writes whole.
const sector = 512

// Crash returns the file system as it would be found after a crash now. The receiver stays as it is, so processes that
// still hold it write into the void. The same state, mode and seed give the same result.
func (m *Mem) Crash(mode CrashMode, seed uint64) *Mem {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c := &crash{mode: mode, rng: rand.New(rand.NewPCG(seed, uint64(mode))), nodes: map[*memNode]*memNode{}}
	out := &Mem{locks: map[string]bool{}, capacity: m.capacity, now: m.now}
	out.root = c.copy(m.root)
	for _, ch := range m.pending {
		// Entries of one directory stand together: see memChange.
		for len(ch) > 0 {
			dir := ch[0].dir
			var same, rest memChange
			for _, e := range ch {
				if e.dir == dir {
					same = append(same, memEntry{c.copy(dir), e.name, c.copyOrNil(e.node)})
				} else {
					rest = append(rest, e)
				}
			}
			if ch = rest; mode == CrashKeep {
				out.pending = append(out.pending, same)
			} else if mode == CrashTear && c.rng.IntN(2) == 0 {
				for _, e := range same {
					e.persist()
				}
			}
		}
	}
	if mode != CrashKeep {
		for _, n := range c.order {
			n.revive()
		}
	}
	out.count(out.root)
	return out
}

// crash is one copy of a tree of nodes. Copies keep their identity: a node with two names stays one node.
type crash struct {
	mode  CrashMode
	rng   *rand.Rand
	nodes map[*memNode]*memNode
	order []*memNode
}

func (c *crash) copyOrNil(n *memNode) *memNode {
	if n == nil {
		return nil
	}
	return c.copy(n)
}

func (c *crash) copy(n *memNode) *memNode {
	if done := c.nodes[n]; done != nil {
		return done
	}
	out := &memNode{dir: n.dir, mtime: n.mtime, dirty: n.dirty}
	c.nodes[n] = out
	c.order = append(c.order, out)
	if !n.dir {
		switch c.mode {
		case CrashKeep:
			out.data, out.synced = slices.Clone(n.data), slices.Clone(n.synced)
		case CrashLose:
			out.synced = slices.Clone(n.synced)
		case CrashTear:
			out.synced = c.tear(n)
		}
		return out
	}
	out.entries, out.durable = map[string]*memNode{}, map[string]*memNode{}
	for _, name := range sortedNames(n.durable) {
		out.durable[name] = c.copy(n.durable[name])
	}
	for _, name := range sortedNames(n.entries) {
		out.entries[name] = c.copy(n.entries[name])
	}
	return out
}

// tear mixes the durable and the written content of one file.
func (c *crash) tear(n *memNode) []byte {
	from, to := min(len(n.synced), len(n.data)), max(len(n.synced), len(n.data))
	size := from
	switch c.rng.IntN(3) {
	case 0:
		size = to
	case 1:
		size += c.rng.IntN(to - from + 1)
	}
	out := make([]byte, size)
	copy(out, n.synced)
	for s := n.dirty.from / sector * sector; s < min(n.dirty.to, int64(size)); s += sector {
		if c.rng.IntN(4) == 0 {
			continue // this sector never reached the disk
		}
		if end := min(s+sector, int64(size), int64(len(n.data))); s < end {
			copy(out[s:end], n.data[s:end])
		}
	}
	return out
}

// revive makes what survived the present state.
func (n *memNode) revive() {
	n.dirty = extent{}
	if !n.dir {
		n.data = slices.Clone(n.synced)
		return
	}
	n.entries = make(map[string]*memNode, len(n.durable))
	for name, child := range n.durable {
		n.entries[name] = child
	}
}

// count recomputes links and used bytes from the tree that names can reach.
func (m *Mem) count(n *memNode) {
	if n.links++; n.links > 1 {
		return
	}
	m.used += int64(len(n.data))
	for _, child := range n.entries {
		m.count(child)
	}
}
