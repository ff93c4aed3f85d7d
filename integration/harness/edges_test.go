package harness

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const testLimit = 10 * time.Second

// world is node 2, an echo server behind a road, and clients that are node 1.
type world struct {
	edges *Edges
	road  string
	tcp   net.Listener
	udp   *net.UDPConn  // what node 2 hears of datagrams
	conns chan net.Conn // of the echo server, a few

	unknown atomic.Bool // clients are no node
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{conns: make(chan net.Conn, 10)}
	w.edges = NewEdges(EdgeOptions{Seed: 1, Source: func(string, netip.AddrPort, netip.AddrPort) (int, bool) { return 1, !w.unknown.Load() }})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w.tcp = l
	u, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(l.Addr().(*net.TCPAddr).AddrPort()))
	require.NoError(t, err)
	w.udp = u
	var echoes sync.WaitGroup
	echoes.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			select {
			case w.conns <- c:
			default:
			}
			echoes.Go(func() {
				_, _ = io.Copy(c, c)
				c.Close()
			})
		}
	})
	w.road, err = w.edges.Road(2, l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, w.edges.Close())
		l.Close()
		u.Close()
		echoes.Wait()
	})
	return w
}

func (w *world) dial(t *testing.T) *net.TCPConn {
	t.Helper()
	c, err := net.DialTimeout("tcp", w.road, testLimit)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(testLimit)))
	return c.(*net.TCPConn)
}

func say(t *testing.T, c net.Conn, s string) {
	t.Helper()
	_, err := c.Write([]byte(s))
	require.NoError(t, err)
}

func hear(t *testing.T, c net.Conn, s string) {
	t.Helper()
	b := make([]byte, len(s))
	_, err := io.ReadFull(c, b)
	require.NoError(t, err)
	require.Equal(t, s, string(b))
}

func (w *world) state(from, to int) EdgeState {
	for _, s := range w.edges.State() {
		if s.From == from && s.To == to {
			return s
		}
	}
	return EdgeState{}
}

func reached(t *testing.T, what string, f func() bool) {
	t.Helper()
	require.Eventually(t, f, testLimit, time.Millisecond, what)
}

func TestACutHoldsAConnectionAndHealingLetsItGoOn(t *testing.T) {
	w := newWorld(t)
	c := w.dial(t)
	say(t, c, "before")
	hear(t, c, "before")
	reached(t, "they are counted", func() bool { return w.state(1, 2).Bytes == 6 })
	require.NoError(t, w.edges.Cut(1, 2))
	say(t, c, "held")
	reached(t, "the bytes are held", func() bool { return w.state(1, 2).Held == 4 })
	require.EqualValues(t, 6, w.state(1, 2).Bytes)
	w.edges.Heal()
	hear(t, c, "held")
	reached(t, "nothing is held", func() bool { return w.state(1, 2).Held == 0 })
}

func TestACutOneWayHoldsNothingOfTheOther(t *testing.T) {
	w := newWorld(t)
	c := w.dial(t)
	say(t, c, "a")
	hear(t, c, "a")
	require.NoError(t, w.edges.Cut(2, 1))
	say(t, c, "question")
	reached(t, "the answer is held, the question came", func() bool { return w.state(2, 1).Held == 8 && w.state(1, 2).Bytes == 9 })
	require.NoError(t, w.edges.Mend(2, 1))
	hear(t, c, "question")
}

func TestAConnectionMadeWhileCutHangsUntilHealed(t *testing.T) {
	for name, cut := range map[string][2]int{"there": {1, 2}, "back": {2, 1}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			require.NoError(t, w.edges.Cut(cut[0], cut[1]))
			c := w.dial(t)
			say(t, c, "hello")
			reached(t, "it is held", func() bool { return w.state(1, 2).Held == 5 })
			require.Zero(t, w.state(1, 2).Bytes)
			w.edges.Heal()
			hear(t, c, "hello")
		})
	}
}

func TestAConnectionGivenUpWhileCutNeverWasThere(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.edges.Cut(1, 2))
	c := w.dial(t)
	say(t, c, "never said")
	reached(t, "it is held", func() bool { return w.state(1, 2).Held == 10 })
	c.Close()
	reached(t, "it is let go", func() bool { return w.state(1, 2).Held == 0 })
	w.edges.Heal()
	d := w.dial(t)
	say(t, d, "x")
	hear(t, d, "x")
	reached(t, "it is counted, and nothing else", func() bool { return w.state(1, 2).Bytes == 1 })
}

func TestTheEndOfAConnectionDoesNotCrossACut(t *testing.T) {
	w := newWorld(t)
	c := w.dial(t)
	say(t, c, "a")
	hear(t, c, "a")
	require.NoError(t, w.edges.Cut(1, 2))
	require.NoError(t, c.CloseWrite())
	// The echo ends once it hears of the end. Until the cut is healed it does not.
	require.NoError(t, c.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	_, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(testLimit)))
	w.edges.Heal()
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

func TestWhoSpeaksToOneThatDiedLearnsOfItOnlyWhereItsAnswersGetThrough(t *testing.T) {
	w := newWorld(t)
	c := w.dial(t)
	say(t, c, "a")
	hear(t, c, "a")
	require.NoError(t, w.edges.Cut(2, 1))
	server := (<-w.conns).(*net.TCPConn)
	require.NoError(t, server.SetLinger(0))
	require.NoError(t, server.Close())
	reads := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		reads <- err
	}()
	for range 20 { // the first ones are taken by a kernel that knows of no end yet
		say(t, c, "b")
		select {
		case err := <-reads:
			t.Fatalf("the end crossed a cut: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	w.edges.Heal()
	require.Error(t, <-reads)
}

func TestWhatIsHeldIsBounded(t *testing.T) {
	w := newWorld(t)
	c := w.dial(t)
	require.NoError(t, w.edges.Cut(1, 2))
	all := bytes.Repeat([]byte("0123456789abcdef"), 32<<20/16)
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(all)
		sent <- err
	}()
	reached(t, "the queue is full", func() bool { return w.state(1, 2).Held >= mostHeld })
	require.Less(t, w.state(1, 2).Held, int64(mostHeld+4*roadChunk), "one chunk may overfill the queue, one waits for room, one is being written")
	select {
	case err := <-sent:
		t.Fatalf("32 MiB were taken: %v", err)
	default:
	}
	w.edges.Heal()
	got := make([]byte, len(all))
	_, err := io.ReadFull(c, got)
	require.NoError(t, err)
	require.True(t, bytes.Equal(all, got))
	require.NoError(t, <-sent)
	reached(t, "nothing is held", func() bool { return w.state(1, 2).Held == 0 })
}

func TestADelayIsAddedEachWayAndKeepsTheOrder(t *testing.T) {
	w := newWorld(t)
	const late = 40 * time.Millisecond
	require.NoError(t, w.edges.Delay(1, 2, late, late))
	require.NoError(t, w.edges.Delay(2, 1, late, 0))
	c := w.dial(t)
	began := time.Now()
	for range 20 {
		say(t, c, "0123456789")
	}
	for range 20 {
		hear(t, c, "0123456789")
	}
	require.GreaterOrEqual(t, time.Since(began), 2*late)
	reached(t, "all are counted", func() bool { return w.state(1, 2).Changed == 200 })
}

func TestARateBoundsAllConnectionsOfAnEdgeTogether(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.edges.Rate(1, 2, 100<<10))
	began := time.Now()
	a, b := w.dial(t), w.dial(t)
	part := string(bytes.Repeat([]byte("x"), 10<<10))
	say(t, a, part)
	say(t, b, part)
	hear(t, a, part)
	hear(t, b, part)
	require.GreaterOrEqual(t, time.Since(began), 190*time.Millisecond)
}

func TestDatagramsVanishByCutAndByLoss(t *testing.T) {
	w := newWorld(t)
	c, err := net.Dial("udp", w.road)
	require.NoError(t, err)
	defer c.Close()
	heard := func(want string) {
		t.Helper()
		b := make([]byte, 100)
		require.NoError(t, w.udp.SetReadDeadline(time.Now().Add(testLimit)))
		n, err := w.udp.Read(b)
		require.NoError(t, err)
		require.Equal(t, want, string(b[:n]))
	}
	say(t, c, "a")
	heard("a")
	require.NoError(t, w.edges.Cut(1, 2))
	say(t, c, "lost")
	reached(t, "it is dropped", func() bool { return w.state(1, 2).Dropped == 1 })
	w.edges.Heal()
	say(t, c, "b")
	heard("b")

	require.NoError(t, w.edges.Loss(1, 2, 0.5))
	for i := range 200 {
		say(t, c, "x")
		reached(t, "it came", func() bool { return w.state(1, 2).Datagrams == int64(i+4) })
	}
	dropped := w.state(1, 2).Dropped
	require.Greater(t, dropped, int64(60))
	require.Less(t, dropped, int64(140))
}

func TestWhoIsNoNodeIsRefused(t *testing.T) {
	w := newWorld(t)
	w.unknown.Store(true)
	requireRefused(t, w)
}

func requireRefused(t *testing.T, w *world) {
	t.Helper()
	c, err := net.DialTimeout("tcp", w.road, testLimit)
	if err == nil { // else the refusal came first
		defer c.Close()
		require.NoError(t, c.SetDeadline(time.Now().Add(testLimit)))
		_, err = c.Read(make([]byte, 1))
	}
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NotErrorIs(t, err, io.EOF)
}

func TestANodeThatIsDownRefuses(t *testing.T) {
	w := newWorld(t)
	w.tcp.Close()
	requireRefused(t, w)
}

func TestNoEdgeLeadsFromANodeToItself(t *testing.T) {
	w := newWorld(t)
	require.ErrorIs(t, w.edges.Cut(1, 1), ErrNoEdge)
	require.ErrorIs(t, w.edges.Delay(0, 1, 1, 1), ErrNoEdge)
}

func TestClosingEndsWhatIsHeld(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.edges.Cut(1, 2))
	c := w.dial(t)
	say(t, c, "held")
	reached(t, "it is held", func() bool { return w.state(1, 2).Held == 4 })
	require.NoError(t, w.edges.Close())
	_, err := c.Read(make([]byte, 1))
	require.Error(t, err)
	_, err = w.edges.Road(2, w.tcp.Addr().String())
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestAConnectionsProcessIsFound(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	me, other := &Node{ID: 1}, &Node{ID: 2}
	me.pid.Store(int64(os.Getpid()))
	other.pid.Store(int64(os.Getppid()))
	cluster := &Cluster{Nodes: []*Node{other, me}}
	id, ok := cluster.source("tcp", addrPort(c.LocalAddr()), addrPort(c.RemoteAddr()))
	require.True(t, ok)
	require.Equal(t, 1, id)
	me.pid.Store(0)
	_, ok = cluster.source("tcp", addrPort(c.LocalAddr()), addrPort(c.RemoteAddr()))
	require.False(t, ok)
}
