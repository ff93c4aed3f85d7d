package logstore

import (
	"container/list"
	"sync"
	"sync/atomic"

	"cordwood/logstore/vfs"
)

// handle is an open file with holders: a segment or the cache, and every Span that was not released yet. The last one
// closes it.
type handle struct {
	f       vfs.File
	holders atomic.Int32
	closing atomic.Bool // no new holder: the file is about to be cut
}

func newHandle(f vfs.File) *handle {
	h := &handle{f: f}
	h.holders.Store(1)
	return h
}

// acquire adds a holder; false where the file is closed or about to be cut: look again where it is now.
func (h *handle) acquire() bool {
	for {
		n := h.holders.Load()
		if n <= 0 || h.closing.Load() {
			return false
		}
		if h.holders.CompareAndSwap(n, n+1) {
			break
		}
	}
	if h.closing.Load() {
		h.release()
		return false
	}
	return true
}

// release gives a hold back; the last holder closes the file. Nothing unsynced hangs on that close.
func (h *handle) release() {
	if h.holders.Add(-1) == 0 {
		h.f.Close()
	}
}

// shut lets nobody new in and says whether the caller, one holder, is alone.
func (h *handle) shut() bool {
	h.closing.Store(true)
	return h.holders.Load() == 1
}

// handles is a bounded cache of files open for reading: sealed segments and their indexes. There is one handle a key at
// any time, so that whoever wants to cut a file can see all its readers: files that are held do not leave the cache,
// which may exceed its bound by the number of Spans on their way. Safe for concurrent use; no file is opened or closed
// under its lock.
type handles struct {
	fs  vfs.FS
	max int

	mu   sync.Mutex
	lru  *list.List // of *cached, the most recently used first
	open map[fileKey]*list.Element
}

// fileKey names a file and one life of it: a cut or replaced file has a new number, so that an old one that somebody
// puts in late is never found.
type fileKey struct {
	name string
	life uint64
}

type cached struct {
	key fileKey
	h   *handle
}

func newHandles(fsys vfs.FS, limit int) *handles {
	return &handles{fs: fsys, max: limit, lru: list.New(), open: map[fileKey]*list.Element{}}
}

// acquire returns the open file; the caller releases it.
func (c *handles) acquire(key fileKey) (*handle, error) {
	c.mu.Lock()
	h := c.lookup(key)
	c.mu.Unlock()
	if h != nil {
		return h, nil
	}
	f, err := c.fs.Open(key.name)
	if err != nil {
		return nil, err
	}
	h = newHandle(f)
	h.holders.Add(1) // the caller's
	if first := c.put(key, h); first != nil {
		h.release()
		h.release()
		return first, nil
	}
	return h, nil
}

// lookup finds and holds an open file. c.mu is held.
func (c *handles) lookup(key fileKey) *handle {
	e := c.open[key]
	if e == nil || !e.Value.(*cached).h.acquire() {
		return nil
	}
	c.lru.MoveToFront(e)
	return e.Value.(*cached).h
}

// put takes over the caller's first hold of h, unless another handle is there under that key: then that one is returned,
// held. Idle files leave where there are too many.
func (c *handles) put(key fileKey, h *handle) (other *handle) {
	var out []*handle
	c.mu.Lock()
	if other = c.lookup(key); other == nil {
		c.open[key] = c.lru.PushFront(&cached{key, h})
		for e := c.lru.Back(); e != nil && c.lru.Len() > c.max; {
			prev := e.Prev()
			if old := e.Value.(*cached); old.h.holders.Load() == 1 {
				c.lru.Remove(e)
				delete(c.open, old.key)
				out = append(out, old.h)
			}
			e = prev
		}
	}
	c.mu.Unlock()
	for _, h := range out {
		h.release()
	}
	return other
}

// drop forgets a file that is about to be cut or is gone. It says whether nobody reads it.
func (c *handles) drop(key fileKey) (unread bool) {
	c.mu.Lock()
	e := c.open[key]
	if e == nil {
		c.mu.Unlock()
		return true
	}
	h := c.lru.Remove(e).(*cached).h
	delete(c.open, key)
	c.mu.Unlock()
	unread = h.shut()
	h.release()
	return unread
}

func (c *handles) close() {
	c.mu.Lock()
	var out []*handle
	for _, e := range c.open {
		out = append(out, e.Value.(*cached).h)
	}
	c.lru.Init()
	clear(c.open)
	c.mu.Unlock()
	for _, h := range out {
		h.release()
	}
}
