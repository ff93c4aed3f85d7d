package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// The first byte of a connection to the raft port says what it carries.
const (
	helloRaft     byte = 'R' // then the directory id of the node that is meant: one length byte, the text
	helloQuestion byte = 'Q' // then one question and one answer (question.go)
)

const (
	helloTimeout     = 5 * time.Second        // for everything before a connection is handed to raft
	dialOnce         = time.Second            // one attempt to reach a server
	dialAgain        = 100 * time.Millisecond // between two
	maxDirectoryID   = 64                     // bytes of the text form
	maxPendingHellos = 256                    // connections that have not said what they are
)

// raftAddress is the address of a server in raft's configuration: the advertised name and port, and the directory id of
// the one process that is meant. Two directories of one node so have different addresses (raft refuses a configuration
// with the same address twice), and a dial meant for a wiped directory never reaches the process that took its place.
func raftAddress(hostPort, directoryID string) raft.ServerAddress {
	return raft.ServerAddress(hostPort + "/" + directoryID)
}

// splitRaftAddress undoes raftAddress; the directory id is empty where there is none.
func splitRaftAddress(a raft.ServerAddress) (hostPort, directoryID string) {
	hostPort, directoryID, _ = strings.Cut(string(a), "/")
	return hostPort, directoryID
}

// serverID is a server's name in raft: a wiped node has another directory id and is another server.
func serverID(node int32, directoryID string) raft.ServerID {
	return raft.ServerID(fmt.Sprintf("%d.%s", node, directoryID))
}

// splitServerID undoes serverID; node is metadata.NoNode where id is none of ours.
func splitServerID(id raft.ServerID) (node int32, directoryID string) {
	head, dir, ok := strings.Cut(string(id), ".")
	var n int32
	if _, err := fmt.Sscanf(head, "%d", &n); !ok || err != nil {
		return -1, ""
	}
	return n, dir
}

// stream is raft's network: one listener, names resolved at every dial, and a first byte that tells raft's connections
// from questions. It owns the listener and every connection it accepted; Close ends them and waits for its goroutines.
type stream struct {
	listener    net.Listener
	advertise   raft.ServerAddress
	directoryID string
	dial        func(ctx context.Context, network, address string) (net.Conn, error)
	answer      func(ctx context.Context, conn net.Conn) // serves one question and returns
	log         *slog.Logger

	accepted chan net.Conn
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	dials    context.Context // ends before raft stops
	hangUp   context.CancelFunc
	hellos   chan struct{} // one token for every connection that has not said what it is
	wait     sync.WaitGroup

	mu    sync.Mutex // guards conns
	conns map[net.Conn]struct{}
}

// openStream listens on bind. answer is called in a goroutine of its own for every question and must not outlive the
// deadline it finds on the connection.
func openStream(bind string, advertise string, directoryID string, answer func(context.Context, net.Conn),
	dial func(context.Context, string, string) (net.Conn, error), log *slog.Logger) (*stream, error) {
	l, err := net.Listen("tcp", bind)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", bind, err)
	}
	s := &stream{
		listener: l, advertise: raftAddress(advertise, directoryID), directoryID: directoryID, dial: dial, answer: answer, log: log,
		accepted: make(chan net.Conn), hellos: make(chan struct{}, maxPendingHellos), conns: map[net.Conn]struct{}{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.dials, s.hangUp = context.WithCancel(s.ctx)
	s.wait.Add(1)
	go s.acceptLoop()
	return s, nil
}

func (s *stream) acceptLoop() {
	defer s.wait.Done()
	for pause := time.Duration(0); ; {
		conn, err := s.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of file descriptors, mostly: try again, slower and slower.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.log.Warn("raft port cannot accept", "err", err)
			select {
			case <-time.After(pause):
				continue
			case <-s.ctx.Done():
				return
			}
		}
		pause = 0
		select {
		case s.hellos <- struct{}{}:
		default:
			_ = conn.Close() // too many that say nothing
			continue
		}
		if !s.track(conn) {
			_ = conn.Close()
			return
		}
		go s.hello(conn)
	}
}

// track notes an accepted connection, so that Close ends it, and counts its hello goroutine; false after Close.
func (s *stream) track(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.conns[conn] = struct{}{}
	s.wait.Add(1)
	return true
}

func (s *stream) forget(conn net.Conn) {
	s.mu.Lock()
	delete(s.conns, conn)
	s.mu.Unlock()
}

// hello reads what a connection is and hands it on.
func (s *stream) hello(conn net.Conn) {
	defer s.wait.Done()
	kept := false
	defer func() {
		<-s.hellos
		if !kept {
			s.forget(conn)
			_ = conn.Close()
		}
	}()
	if err := conn.SetDeadline(time.Now().Add(helloTimeout)); err != nil {
		return
	}
	var first [2]byte
	if _, err := io.ReadFull(conn, first[:1]); err != nil {
		return
	}
	switch first[0] {
	case helloQuestion:
		s.answer(s.ctx, conn)
	case helloRaft:
		if _, err := io.ReadFull(conn, first[1:]); err != nil || first[1] > maxDirectoryID {
			return
		}
		meant := make([]byte, first[1])
		if _, err := io.ReadFull(conn, meant); err != nil {
			return
		}
		if string(meant) != s.directoryID {
			s.log.Info("raft connection meant for another directory of this node", "remote", conn.RemoteAddr(), "directory", string(meant))
			return
		}
		if err := conn.SetDeadline(time.Time{}); err != nil {
			return
		}
		select {
		case s.accepted <- &trackedConn{Conn: conn, closed: func() { s.forget(conn) }}:
			kept = true
		case <-s.ctx.Done():
		}
	default:
		s.log.Info("raft port closed a connection that does not speak its protocol", "remote", conn.RemoteAddr(), "first_byte", first[0])
	}
}

// trackedConn tells the stream when raft has closed it.
type trackedConn struct {
	net.Conn
	once   sync.Once
	closed func()
}

func (c *trackedConn) Close() error {
	c.once.Do(c.closed)
	return c.Conn.Close()
}

// Accept gives raft its next connection.
func (s *stream) Accept() (net.Conn, error) {
	select {
	case c := <-s.accepted:
		return c, nil
	case <-s.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Addr is the advertised address: what other servers are told.
func (s *stream) Addr() net.Addr { return advertised(s.advertise) }

type advertised string

func (a advertised) Network() string { return "tcp" }
func (a advertised) String() string  { return string(a) }

// Dial connects to a server, resolving its name at every attempt. A server that is down is tried again until timeout:
// raft waits longer and longer after every failure it is told of, up to ten seconds, and would so come late to a server
// that has just come back.
func (s *stream) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	hostPort, directoryID := splitRaftAddress(address)
	if len(directoryID) > maxDirectoryID {
		return nil, fmt.Errorf("raft: dial %s: directory id longer than %d bytes", address, maxDirectoryID)
	}
	ctx, cancel := context.WithTimeout(s.dials, timeout)
	defer cancel()
	for {
		conn, err := s.greet(ctx, hostPort, directoryID)
		if err == nil {
			return conn, nil
		}
		t := time.NewTimer(dialAgain)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, err
		}
	}
}

// greet makes one attempt to connect to the server with this directory at a name and port.
func (s *stream) greet(ctx context.Context, hostPort, directoryID string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialOnce)
	defer cancel()
	conn, err := s.dial(ctx, "tcp", hostPort)
	if err != nil {
		return nil, fmt.Errorf("raft: dial %s: %w", hostPort, err)
	}
	if err := setUserTimeout(conn, deadPeerTimeout); err != nil {
		s.log.Debug("raft connection without a user timeout", "err", err)
	}
	hello := append([]byte{helloRaft, byte(len(directoryID))}, directoryID...)
	deadline, _ := ctx.Deadline()
	if err = conn.SetDeadline(deadline); err == nil {
		if _, err = conn.Write(hello); err == nil {
			err = conn.SetDeadline(time.Time{})
		}
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("raft: greet %s: %w", hostPort, err)
	}
	return conn, nil
}

// stopDialling ends dials under way and makes further ones fail, so that raft can stop.
func (s *stream) stopDialling() { s.hangUp() }

// Close stops listening, ends every accepted connection and waits for the stream's goroutines. It may be called twice.
func (s *stream) Close() error {
	s.mu.Lock()
	s.cancel()
	err := s.listener.Close()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wait.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
