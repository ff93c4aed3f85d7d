package logstore

import "time"

// clockStep is the most by which the wall clock may part from the time that really passed, from one look to the next, and
// still be believed: a correction, no jump.
const clockStep = time.Minute

// retentionClock is the time that ages of records are judged by. A wall clock that is set forward by years must not delete
// everything at once, so what it jumps ahead of the time that the process has really run is not believed until the next
// start. Set back, it is believed: then records only live longer. A machine that was suspended looks like a jump; its
// records live longer by that time. Not safe for concurrent use.
type retentionClock struct {
	known bool
	off   time.Duration // wall clock less uptime at the last look, from the zero of both
	base  time.Duration // the same as far as it is believed
}

// at gives the time to judge by when the wall clock says wall and the process has run for uptime. jumped is how far the
// wall clock has jumped since the last look, 0 where it is believed.
func (c *retentionClock) at(wall time.Time, uptime time.Duration) (now time.Time, jumped time.Duration) {
	off := time.Duration(wall.UnixNano()) - uptime
	if !c.known {
		c.known, c.off, c.base = true, off, off
	}
	if by := off - c.off; by.Abs() <= clockStep {
		c.base += by
	} else {
		jumped = by
	}
	c.off = off
	return wall.Add(-c.held()), jumped
}

// held is how far the wall clock stands ahead of what is believed.
func (c *retentionClock) held() time.Duration { return max(0, c.off-c.base) }
