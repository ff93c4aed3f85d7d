package controller

import (
	"cmp"
	"slices"
	"time"

	"cordwood/fsm/metadata"
)

// sessionRetry is how long a lost broker waits before its fencing is proposed again, if the metadata still has it alive.
const sessionRetry = 500 * time.Millisecond

// sessionTable knows which broker processes live. It is pure: facts and now go in, who is lost comes out. Gossip and
// dials are facts among others; only a refused dial of a process without a session connection, or a deadline that has
// passed, makes a broker lost.
type sessionTable struct {
	timeout  time.Duration
	sessions map[int32]*session
}

// session is one process of one node, named by its broker epoch.
type session struct {
	epoch    int64
	fenced   bool      // in the metadata: nothing to take from it
	conn     int64     // number of its session connection; 0: none is open
	last     time.Time // of its last heartbeat; zero: none in this reign
	deadline time.Time
	reason   string    // not empty: lost
	asked    time.Time // when fencing was last proposed
}

// lostBroker is a broker to be fenced.
type lostBroker struct {
	metadata.BrokerEpoch
	Reason string
}

func newSessionTable(timeout time.Duration) *sessionTable {
	return &sessionTable{timeout: timeout, sessions: map[int32]*session{}}
}

// sync brings the table in line with the metadata: a new epoch is a new session with a full timeout, a removed broker
// has none. It says whether a session began or a broker changed between fenced and unfenced.
func (t *sessionTable) sync(image *metadata.Image, now time.Time) (changed bool) {
	seen := 0
	for b := range image.Brokers() {
		s := t.sessions[b.ID]
		if s == nil || s.epoch < b.Epoch {
			t.sessions[b.ID] = &session{epoch: b.Epoch, fenced: b.Fenced, deadline: now.Add(t.timeout)}
			changed = true
			seen++
			continue
		}
		if s.fenced != b.Fenced {
			s.fenced, s.asked = b.Fenced, time.Time{}
			changed = true
		}
		seen++
	}
	if seen == len(t.sessions) {
		return changed
	}
	for id := range t.sessions {
		if image.Broker(id) == nil {
			delete(t.sessions, id)
			changed = true
		}
	}
	return changed
}

// countFrom moves the deadline of a broker to one timeout after the last contact with it that is known from elsewhere:
// the node that led raft before was last heard then.
func (t *sessionTable) countFrom(id int32, contact time.Time) {
	if s := t.sessions[id]; s != nil && s.last.IsZero() && contact.Add(t.timeout).Before(s.deadline) {
		s.deadline = contact.Add(t.timeout)
	}
}

// heartbeat takes a sign of life that came over connection conn (not 0). False: the epoch is not the session's.
func (t *sessionTable) heartbeat(id int32, epoch int64, conn int64, now time.Time) bool {
	s := t.sessions[id]
	if s == nil || s.epoch != epoch {
		return false
	}
	s.conn, s.last, s.deadline, s.reason = conn, now, now.Add(t.timeout), ""
	return true
}

// closed takes the end of a connection. True: it was the session connection, and the process should be dialled.
func (t *sessionTable) closed(id int32, epoch int64, conn int64) bool {
	s := t.sessions[id]
	if s == nil || s.epoch != epoch || s.conn != conn {
		return false
	}
	s.conn = 0
	return true
}

// doubtful says that a broker has no session connection and is not known to be lost: dialling it tells something.
func (t *sessionTable) doubtful(id int32, epoch int64) bool {
	s := t.sessions[id]
	return s != nil && s.epoch == epoch && s.conn == 0 && s.reason == "" && !s.fenced
}

// refused takes two dials in a row that the host of a broker refused, the first begun at begin. They count only when the
// broker has no session connection and was not heard since.
func (t *sessionTable) refused(id int32, epoch int64, begin time.Time) bool {
	s := t.sessions[id]
	if s == nil || s.epoch != epoch || s.conn != 0 || s.last.After(begin) {
		return false
	}
	s.reason = "session connection closed and two dials refused"
	return true
}

// stalled gives every session the time during which this process itself did not run.
func (t *sessionTable) stalled(by time.Duration) {
	for _, s := range t.sessions {
		s.deadline = s.deadline.Add(by)
	}
}

// due gives the brokers that are lost and whose fencing should be proposed now, rising ids, and notes that it is.
func (t *sessionTable) due(now time.Time) []lostBroker {
	var lost []lostBroker
	for id, s := range t.sessions {
		if s.reason == "" && !now.Before(s.deadline) {
			s.reason = "no heartbeat for " + t.timeout.String()
		}
		if s.reason == "" || s.fenced || !s.asked.IsZero() && now.Sub(s.asked) < sessionRetry {
			continue
		}
		s.asked = now
		lost = append(lost, lostBroker{metadata.BrokerEpoch{ID: id, Epoch: s.epoch}, s.reason})
	}
	slices.SortFunc(lost, func(a, b lostBroker) int { return cmp.Compare(a.ID, b.ID) })
	return lost
}

// next is when due may have something to say, without further facts; zero: never.
func (t *sessionTable) next() time.Time {
	var first time.Time
	for _, s := range t.sessions {
		if s.fenced {
			continue
		}
		at := s.deadline
		if s.reason != "" {
			at = s.asked.Add(sessionRetry) // the zero time: at once
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}
