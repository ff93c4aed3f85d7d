package harness

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// DelayOptions says how slow the roads of a Delay are.
type DelayOptions struct {
	Each time.Duration // added to every byte and datagram, each way
	Loss float64       // share of the datagrams that vanish, 0 to 1
	Seed uint64
	// Slow says whether what comes from this client's port to this target is delayed; nil delays all. All that is sent
	// on one connection, both ways, is treated alike.
	Slow func(network string, port int, target string) bool
}

// Delay is a set of proxies on loopback that forward TCP and UDP, late and with losses.
type Delay struct {
	opt DelayOptions

	mu      sync.Mutex // guards rng, closers and closed
	rng     *rand.Rand
	closers map[io.Closer]struct{}
	closed  bool
	loops   sync.WaitGroup

	bytes, datagrams, dropped, conns atomic.Int64
}

// DelayCounts is what a Delay did so far to slow traffic.
type DelayCounts struct{ Conns, Bytes, Datagrams, Dropped int64 }

const (
	delayChunk   = 32 << 10
	delayWaiting = 1024 // chunks or datagrams under way, each way of a connection or road
)

// NewDelay makes one without any road.
func NewDelay(opt DelayOptions) *Delay {
	return &Delay{opt: opt, rng: rand.New(rand.NewPCG(opt.Seed, 0)), closers: map[io.Closer]struct{}{}}
}

// Counts tells what was delayed and dropped.
func (d *Delay) Counts() DelayCounts {
	return DelayCounts{d.conns.Load(), d.bytes.Load(), d.datagrams.Load(), d.dropped.Load()}
}

// Road opens a road to a target, for TCP and UDP on one port, and gives its address.
func (d *Delay) Road(target string) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	to, err := net.ResolveUDPAddr("udp", target)
	if err != nil {
		l.Close()
		return "", err
	}
	u, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: l.Addr().(*net.TCPAddr).Port})
	if err != nil {
		l.Close()
		return "", err
	}
	d.own(l)
	d.own(u)
	d.loops.Go(func() { d.accept(l, target) })
	d.loops.Go(func() { d.datagramsTo(u, to, target) })
	return l.Addr().String(), nil
}

// own closes c with the Delay; at once when that is closed already.
func (d *Delay) own(c io.Closer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		c.Close()
		return
	}
	d.closers[c] = struct{}{}
}

func (d *Delay) disown(c io.Closer) {
	d.mu.Lock()
	delete(d.closers, c)
	d.mu.Unlock()
	c.Close()
}

// Close ends all roads and waits for them.
func (d *Delay) Close() error {
	d.mu.Lock()
	d.closed = true
	for c := range d.closers {
		c.Close()
	}
	d.mu.Unlock()
	d.loops.Wait()
	return nil
}

func (d *Delay) slow(network string, from net.Addr, target string) bool {
	if d.opt.Slow == nil {
		return true
	}
	_, port, err := net.SplitHostPort(from.String())
	if err != nil {
		return true
	}
	n, err := strconv.Atoi(port)
	return err != nil || d.opt.Slow(network, n, target)
}

func (d *Delay) accept(l net.Listener, target string) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		out, err := net.DialTimeout("tcp", target, time.Second)
		if err != nil {
			in.Close()
			continue
		}
		wait := time.Duration(0)
		if d.slow("tcp", in.RemoteAddr(), target) {
			wait = d.opt.Each
			d.conns.Add(1)
		}
		d.own(in)
		d.own(out)
		d.loops.Go(func() {
			var both sync.WaitGroup
			both.Go(func() { d.pump(in.(*net.TCPConn), out.(*net.TCPConn), wait) })
			both.Go(func() { d.pump(out.(*net.TCPConn), in.(*net.TCPConn), wait) })
			both.Wait()
			d.disown(in)
			d.disown(out)
		})
	}
}

// late is bytes that go on at a time.
type late struct {
	due time.Time
	b   []byte
}

// pump copies one way of a connection until its end, each chunk late by wait.
func (d *Delay) pump(from, to *net.TCPConn, wait time.Duration) {
	under := make(chan late, delayWaiting)
	var writer sync.WaitGroup
	writer.Go(func() {
		failed := false
		for c := range under {
			if failed {
				continue
			}
			time.Sleep(time.Until(c.due))
			if _, err := to.Write(c.b); err != nil {
				failed = true
				from.Close() // the other end has gone: the sender learns of it
			}
		}
		_ = to.CloseWrite()
	})
	for {
		b := make([]byte, delayChunk)
		n, err := from.Read(b)
		if n > 0 {
			if wait > 0 {
				d.bytes.Add(int64(n))
			}
			under <- late{time.Now().Add(wait), b[:n]}
		}
		if err != nil {
			break
		}
	}
	close(under)
	writer.Wait()
}

// datagramsTo forwards what comes in on u. Answers do not come back this way: gossip tells in every question where the
// answer goes.
func (d *Delay) datagramsTo(u *net.UDPConn, to *net.UDPAddr, target string) {
	under := make(chan late, delayWaiting)
	var writer sync.WaitGroup
	writer.Go(func() {
		for c := range under {
			time.Sleep(time.Until(c.due))
			_, _ = u.WriteToUDP(c.b, to) // as lost as any
		}
	})
	for {
		b := make([]byte, 64<<10)
		n, from, err := u.ReadFromUDP(b)
		if errors.Is(err, net.ErrClosed) {
			break
		}
		if err != nil {
			continue // the target's port was closed when the last one came
		}
		due := time.Now()
		if d.slow("udp", from, target) {
			d.datagrams.Add(1)
			if d.lose() {
				d.dropped.Add(1)
				continue
			}
			due = due.Add(d.opt.Each)
		}
		under <- late{due, b[:n]}
	}
	close(under)
	writer.Wait()
}

func (d *Delay) lose() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.Float64() < d.opt.Loss
}

// HasPort says whether a process holds an open IPv4 TCP connection from a local port. Linux only: elsewhere it is an
// error.
func (n *Node) HasPort(port int) (bool, error) {
	f, err := os.Open("/proc/net/tcp")
	if err != nil {
		return false, err
	}
	defer f.Close()
	inodes := map[string]bool{}
	suffix := fmt.Sprintf(":%04X", port)
	for s := bufio.NewScanner(f); s.Scan(); {
		cells := strings.Fields(s.Text())
		if len(cells) > 9 && strings.HasSuffix(cells[1], suffix) {
			inodes["socket:["+cells[9]+"]"] = true
		}
	}
	open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", n.Pid()))
	if err != nil {
		return false, err
	}
	for _, fd := range open {
		if at, err := os.Readlink(fd); err == nil && inodes[at] {
			return true, nil
		}
	}
	return false, nil
}
