package api

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
)

// Bounds of the incremental fetch sessions of clients (KIP-227); those of followers are the replica manager's. Where
// there is no room a client gets no session, which every client can live with.
const (
	defaultFetchSessions       = 1000
	sessionIdle                = 2 * time.Minute // an idle session may be evicted for a new one after it
	maxSessionPartitions       = 1 << 20         // of all sessions together
	noSession            int32 = 0
	finalEpoch           int32 = -1
	initialEpoch         int32 = 0
)

// fetchKey names a partition as the request's version does: by name up to version 12, by id from 13 on.
type fetchKey struct {
	topic     string
	id        record.TopicID
	partition int32
}

func (k *fetchKey) sameTopic(o *fetchKey) bool { return k.topic == o.topic && k.id == o.id }

// fetchList is what a fetch asks for, in order; the slices are parallel. A list that was handed out is never changed.
type fetchList struct {
	keys  []fetchKey
	parts []partition.FetchPartition
	errs  []error // of partitions that are unknown; nil where all are known
}

// refuse gives every partition one error.
func (l *fetchList) refuse(err error) {
	l.refuseEach(func(*partition.FetchPartition) error { return err })
}

// refuseEach gives every partition that is known an error.
func (l *fetchList) refuseEach(f func(p *partition.FetchPartition) error) {
	errs := make([]error, len(l.keys))
	for i := range errs {
		if l.errs != nil {
			errs[i] = l.errs[i]
		}
		if errs[i] == nil {
			errs[i] = f(&l.parts[i])
		}
	}
	l.errs = errs
}

// resolve looks topics up, since names may stand for another topic by now and ids for none.
func (l *fetchList) resolve(img *metadata.Image, byID bool) {
	var errs []error
	var topic *metadata.Topic
	var unknown error
	for i := range l.keys {
		k := &l.keys[i]
		if i == 0 || !k.sameTopic(&l.keys[i-1]) {
			topic, unknown = findTopic(img, k.topic, k.id, byID)
		}
		err := unknown
		if err == nil {
			l.parts[i].ID = record.PartitionID{Topic: topic.ID, Partition: k.partition}
			if k.partition < 0 || int(k.partition) >= len(topic.Partitions) {
				err = partition.ErrUnknownPartition
			}
		}
		if err != nil {
			if errs == nil {
				errs = make([]error, len(l.keys))
			}
			errs[i] = err
		}
	}
	l.errs = errs
}

// fetchSession is what a client need not say again. Its fields are guarded by mu; list's arrays are copied before a
// change while answers refer to them.
type fetchSession struct {
	mu      sync.Mutex
	id      int32
	epoch   int32 // of the next request
	byID    bool
	list    fetchList
	told    []toldState
	index   map[fetchKey]int
	edition uint64          // rises with every change of order or membership
	img     *metadata.Image // by which list is resolved
	shared  bool            // list was handed out since the last copy

	used time.Time // guarded by the cache's mu
	size int       // partitions counted for it in the cache; guarded by the cache's mu
}

// toldState is what a client was told last of one partition.
type toldState struct{ hw, logStart int64 }

var nothingTold = toldState{hw: -1, logStart: -1}

// fetchSessions holds the sessions of all clients. They are not bound to connections.
type fetchSessions struct {
	mu         sync.Mutex
	limit      int
	byID       map[int32]*fetchSession
	partitions int
}

func newFetchSessions(limit int) *fetchSessions {
	if limit <= 0 {
		limit = defaultFetchSessions
	}
	return &fetchSessions{limit: limit, byID: map[int32]*fetchSession{}}
}

// openFetch is a fetch with its session resolved.
type openFetch struct {
	id      int32 // session id to answer, 0 for none
	session *fetchSession
	list    fetchList
	edition uint64
	full    bool // every partition is answered
}

// open resolves the session of a request: it makes, continues or ends one. A refusal leaves the session as it is.
func (c *fetchSessions) open(req *kmsg.FetchRequest, img *metadata.Image, now time.Time) (openFetch, *kerr.Error) {
	byID := req.Version >= 13
	if req.Version < 7 || req.SessionEpoch == finalEpoch || req.SessionEpoch == initialEpoch {
		if req.Version >= 7 && req.SessionID != noSession {
			c.remove(req.SessionID)
		}
		list := listOf(req)
		list.resolve(img, byID)
		o := openFetch{list: list, full: true}
		if req.Version >= 7 && req.SessionEpoch == initialEpoch {
			if s := c.create(list, byID, img, now); s != nil {
				o.id, o.session, o.edition = s.id, s, s.edition
			}
		}
		return o, nil
	}
	s := c.find(req.SessionID, now)
	if s == nil {
		return openFetch{}, kerr.FetchSessionIDNotFound
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.epoch != req.SessionEpoch:
		return openFetch{}, kerr.InvalidFetchSessionEpoch
	case s.byID != byID:
		return openFetch{}, kerr.FetchSessionTopicIDError
	}
	before := len(s.list.keys)
	s.change(req)
	c.resize(s, before, len(s.list.keys))
	if len(s.list.keys) == 0 {
		c.remove(s.id)
		return openFetch{}, nil
	}
	s.epoch = nextSessionEpoch(s.epoch)
	if s.img != img {
		s.own()
		s.list.resolve(img, byID)
		s.img = img
	}
	s.shared = true
	return openFetch{id: s.id, session: s, list: s.list, edition: s.edition}, nil
}

// nextSessionEpoch follows the last epoch with 1: 0 opens a session.
func nextSessionEpoch(e int32) int32 {
	if e == math.MaxInt32 {
		return 1
	}
	return e + 1
}

// listOf gives the partitions of a full fetch; of one that is named twice the last counts, in the first's place.
func listOf(req *kmsg.FetchRequest) fetchList {
	n := 0
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	l := fetchList{keys: make([]fetchKey, 0, n), parts: make([]partition.FetchPartition, 0, n)}
	var seen map[fetchKey]int
	if n > 1 {
		seen = make(map[fetchKey]int, n)
	}
	eachAsked(req, func(k fetchKey, p partition.FetchPartition) {
		if at, twice := seen[k]; twice {
			l.parts[at] = p
			return
		}
		if seen != nil {
			seen[k] = len(l.keys)
		}
		l.keys, l.parts = append(l.keys, k), append(l.parts, p)
	})
	return l
}

// eachAsked gives every partition of a request. Negative epochs mean none.
func eachAsked(req *kmsg.FetchRequest, f func(k fetchKey, p partition.FetchPartition)) {
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			q := &t.Partitions[j]
			p := partition.FetchPartition{
				FetchOffset: q.FetchOffset, LastFetchedEpoch: max(q.LastFetchedEpoch, -1), CurrentLeaderEpoch: max(q.CurrentLeaderEpoch, -1),
				LogStartOffset: q.LogStartOffset, AckOffset: -1, MaxBytes: max(q.PartitionMaxBytes, 0),
			}
			if q.UnknownTags.Len() > 0 {
				q.UnknownTags.Each(func(tag uint32, b []byte) {
					n, err := partition.DecodeInt64(b)
					switch {
					case err != nil:
					case tag == partition.TagAckOffset:
						p.AckOffset = n
					case tag == partition.TagJoinPE:
						p.JoinPE = int32(n)
					}
				})
			}
			f(fetchKey{t.Topic, t.TopicID, q.Partition}, p)
		}
	}
}

// create makes a session for a full fetch, nil where there is no room.
func (c *fetchSessions) create(list fetchList, byID bool, img *metadata.Image, now time.Time) *fetchSession {
	n := len(list.keys)
	s := &fetchSession{
		epoch: 1, byID: byID, list: list, img: img, shared: true, used: now, size: n,
		told: make([]toldState, n), index: make(map[fetchKey]int, n),
	}
	for i := range s.told {
		s.told[i] = nothingTold
		s.index[list.keys[i]] = i
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.partitions+n > maxSessionPartitions || len(c.byID) >= c.limit && !c.evict(now) {
		return nil
	}
	for s.id == noSession || c.byID[s.id] != nil {
		s.id = rand.Int32()
	}
	c.byID[s.id] = s
	c.partitions += n
	return s
}

// evict makes room for a session: the one that was idle longest goes, if it was idle long enough.
func (c *fetchSessions) evict(now time.Time) bool {
	var oldest *fetchSession
	for _, s := range c.byID {
		if oldest == nil || s.used.Before(oldest.used) {
			oldest = s
		}
	}
	if oldest == nil || now.Sub(oldest.used) < sessionIdle {
		return false
	}
	c.drop(oldest)
	return true
}

func (c *fetchSessions) drop(s *fetchSession) {
	delete(c.byID, s.id)
	c.partitions -= s.size
}

func (c *fetchSessions) remove(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.byID[id]; s != nil {
		c.drop(s)
	}
}

func (c *fetchSessions) find(id int32, now time.Time) *fetchSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byID[id]
	if s != nil {
		s.used = now
	}
	return s
}

// resize counts what a session grew or shrank by. Its own lock is held; the cache's comes after it.
func (c *fetchSessions) resize(s *fetchSession, before, after int) {
	if before == after {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID[s.id] == s {
		c.partitions += after - before
		s.size = after
	}
}

// own makes the arrays of the list the session's alone before they are changed.
func (s *fetchSession) own() {
	if s.shared {
		s.list.keys, s.list.parts = slices.Clone(s.list.keys), slices.Clone(s.list.parts)
		s.shared = false
	}
}

// change takes what an incremental request says: partitions named are added or changed, then those forgotten go.
func (s *fetchSession) change(req *kmsg.FetchRequest) {
	eachAsked(req, func(k fetchKey, p partition.FetchPartition) {
		s.own()
		if at, ok := s.index[k]; ok {
			p.ID = s.list.parts[at].ID
			s.list.parts[at] = p
			return
		}
		s.index[k] = len(s.list.keys)
		s.list.keys, s.list.parts = append(s.list.keys, k), append(s.list.parts, p)
		s.told = append(s.told, nothingTold)
		s.img = nil // to be resolved
		s.edition++
	})
	gone := map[fetchKey]bool{}
	for i := range req.ForgottenTopics {
		t := &req.ForgottenTopics[i]
		for _, n := range t.Partitions {
			if k := (fetchKey{t.Topic, t.TopicID, n}); hasKey(s.index, k) {
				gone[k] = true
			}
		}
	}
	if len(gone) > 0 {
		s.reorder(func(i int) order {
			if gone[s.list.keys[i]] {
				return dropped
			}
			return kept
		})
	}
}

func hasKey(m map[fetchKey]int, k fetchKey) bool { _, ok := m[k]; return ok }

// order says what becomes of a partition in the list.
type order uint8

const (
	kept order = iota
	last       // goes behind the others
	dropped
)

// reorder makes new arrays by what f says of each partition.
func (s *fetchSession) reorder(f func(i int) order) {
	n := len(s.list.keys)
	list := fetchList{keys: make([]fetchKey, 0, n), parts: make([]partition.FetchPartition, 0, n)}
	told := make([]toldState, 0, n)
	take := func(i int) {
		list.keys, list.parts, told = append(list.keys, s.list.keys[i]), append(list.parts, s.list.parts[i]), append(told, s.told[i])
		if s.list.errs != nil && i < len(s.list.errs) {
			list.errs = append(list.errs, s.list.errs[i])
		}
	}
	var behind []int
	for i := range n {
		switch f(i) {
		case kept:
			take(i)
		case last:
			behind = append(behind, i)
		case dropped:
		}
	}
	for _, i := range behind {
		take(i)
	}
	s.list, s.told, s.shared = list, told, false
	if len(list.errs) != len(list.keys) {
		s.list.errs, s.img = nil, nil
	}
	clear(s.index)
	for i, k := range s.list.keys {
		s.index[k] = i
	}
	s.edition++
}

// telling says which partitions of an answer a client has to be told, and remembers what it was told.
type telling struct {
	s     *fetchSession
	full  bool
	same  bool // the session's list is still the one asked
	bytes int64
	moved map[fetchKey]bool // had data
}

// tell begins an answer; done ends it. s may be nil: without a session everything is told.
func (s *fetchSession) tell(o *openFetch) *telling {
	t := &telling{s: s, full: o.full}
	if s != nil {
		s.mu.Lock()
		t.same = s.edition == o.edition
	}
	return t
}

// owes says whether the i-th partition of the list asked has to be told.
func (t *telling) owes(i int, p *fetchPart) bool {
	if t.s == nil {
		return true
	}
	if !t.same {
		at, ok := t.s.index[p.key]
		if !ok {
			return t.full || p.bytes > 0
		}
		i = at
	}
	now := toldState{hw: p.hw, logStart: p.logStart}
	news := t.full || p.bytes > 0 || p.code != 0 || p.diverging != nil || now != t.s.told[i]
	if p.code != 0 {
		now = nothingTold // when it is mended, that is news
	}
	t.s.told[i] = now
	if p.bytes > 0 {
		t.bytes += p.bytes
		if t.moved == nil {
			t.moved = map[fetchKey]bool{}
		}
		t.moved[p.key] = true
	}
	return news
}

// done ends the answer. Where the limit of bytes cut it short, the partitions that had their share go behind the
// others, so that the last ones do not starve.
func (t *telling) done(limit int32) {
	if t.s == nil {
		return
	}
	if t.bytes >= int64(limit) && len(t.moved) < len(t.s.list.keys) {
		t.s.reorder(func(i int) order {
			if t.moved[t.s.list.keys[i]] {
				return last
			}
			return kept
		})
	}
	t.s.mu.Unlock()
}
