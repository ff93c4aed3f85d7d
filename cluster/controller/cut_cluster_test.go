package controller

import (
	"context"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
)

// wire is the network between the nodes of a test: it can cut one off, both ways. Dials across a cut time out, and
// connections across it end.
type wire struct {
	mu    sync.Mutex
	place map[string]int32 // node by address
	cut   int32            // 0: nobody
	conns map[net.Conn][2]int32
}

func (w *wire) dial(from int32) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		w.mu.Lock()
		to := w.place[address]
		across := from != to && (from == w.cut || to == w.cut)
		w.mu.Unlock()
		if across {
			<-ctx.Done()
			return nil, os.ErrDeadlineExceeded
		}
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.conns[c] = [2]int32{from, to}
		return c, nil
	}
}

func (w *wire) cutOff(node int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = node
	for c, ends := range w.conns {
		if ends[0] != ends[1] && (ends[0] == node || ends[1] == node) {
			c.Close()
			delete(w.conns, c)
		}
	}
}

func TestACutOffControllerIsReplacedAndItsBrokerCountedFromTheLastContact(t *testing.T) {
	w := &wire{place: map[string]int32{}, conns: map[net.Conn][2]int32{}}
	const timeout = 2 * time.Second
	tc := newTestCluster(t, 3, func(o *Options) {
		o.Dial, o.SessionTimeout = w.dial(o.NodeID), timeout
	})
	for _, n := range tc.nodes {
		w.place[n.raft] = n.id
	}
	brokers := map[int32]*testBroker{}
	for id := int32(1); id <= 3; id++ {
		brokers[id] = tc.broker(id)
		w.place[brokers[id].address] = id
	}
	for _, n := range tc.nodes {
		n.start()
	}
	tc.awaitVoters(1, 2, 3)
	for _, b := range brokers {
		b.run()
		tc.awaitAlive(b)
	}
	old := tc.awaitController()
	next := old.id%3 + 1
	id := tc.createTopic("t", 1, old.id, next, next%3+1)
	tc.awaitLeader(id, "the controller's own broker leads", leads(brokers[old.id], -1))

	begin := time.Now()
	brokers[old.id].stopHearts() // nobody hears it
	w.cutOff(old.id)
	var fresh *testNode
	eventually(t, "another controller serves", func() bool {
		fresh = tc.controller()
		return fresh != nil && fresh != old
	})
	r := fresh.ctl.active()
	require.NotNil(t, r)
	r.sessions.mu.Lock()
	s := *r.sessions.table.sessions[old.id]
	r.sessions.mu.Unlock()
	if s.reason == "" {
		contact := s.deadline.Add(-timeout)
		require.True(t, contact.Before(r.begun), "counted from before the takeover")
	}
	require.True(t, fresh.ctl.Image().Broker(old.id).Alive() || time.Since(begin) >= timeout, "a timed-out dial fences nobody")
	tc.awaitLeader(id, "another one leads", leads(brokers[next], 0))
	took := time.Since(begin)
	t.Logf("replaced after %s, session timeout %s", took, timeout)
	require.GreaterOrEqual(t, took, timeout-500*time.Millisecond)
	require.False(t, old.ctl.IsController(), "the one that is cut off knows that it leads no more")

	w.cutOff(0)
	brokers[old.id].die()
	eventually(t, "it follows again", func() bool {
		p := old.ctl.Image().Partition(id)
		return p != nil && p.Leader == next && old.ctl.ControllerID() != metadata.NoNode
	})
}

func TestGossipsHintAloneFencesNobody(t *testing.T) {
	tc := newTestCluster(t, 1, nil)
	tc.nodes[1].start()
	b1, _, _ := threeBrokers(t, tc)
	id := tc.createTopic("t", 1, 1, 2, 3)
	tc.awaitLeader(id, "led", leads(b1, -1))
	c := tc.awaitController().ctl
	before := c.Image().Partition(id)
	for range 100 {
		c.Suspect(1)
		c.Suspect(99)
	}
	b1.mu.Lock()
	b1.last = nil
	b1.mu.Unlock()
	eventually(t, "heartbeats go on", func() bool {
		b1.mu.Lock()
		defer b1.mu.Unlock()
		return b1.last != nil
	})
	require.Equal(t, before, c.Image().Partition(id))
}
